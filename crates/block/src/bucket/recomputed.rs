//! Recomputed checksums of bare blocks whose objects have lost theirs.
//!
//! Metadata is the first thing that a bucket loses: a tool copies objects without it, or a proxy
//! drops headers. The content still exists, and the record has the CRC of the whole content. So the
//! whole object is read once, as a stream that is not kept, and the checksum of each sub-block is
//! computed. If the CRC of the whole is the record's, these checksums are as trustworthy as the
//! lost ones, and are kept in memory.
//!
//! For example, after a copy without metadata a client reads 1 KiB of a block of 16 MiB. The
//! gateway reads all 16 MiB once, and later reads of this block request only the sub-blocks that
//! they need.
//!
//! **Cost.** One read of the whole block, at most 16 MiB, before the first read of any of its
//! bytes; 4 bytes of memory for each 64 KiB, for at most [`BLOCKS_MAX`] blocks. Up to
//! [`READS_AT_ONCE`] blocks are read so at a time, each of them once, however many readers wait for
//! it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use record::BlockId;

use crate::sealed::{BlockRef, joined_sub_block, seed};
use crate::shift::extend_crc;
use crate::{BLOCK_BYTES_MAX, SUB_BLOCK_BYTES};

/// The most blocks whose checksums are remembered: 4 MiB of checksums, and at most as much again
/// for the tables.
const BLOCKS_MAX: usize = 4_096;

/// The most blocks that are read whole at a time.
const READS_AT_ONCE: usize = 8;

/// The checksums that were computed again for bare blocks (objects of content alone) whose metadata
/// is lost, and the locks of the readers that compute them.
#[derive(Debug, Default)]
pub(super) struct RecomputedChecksums {
    known: Mutex<Known>,
    /// A reader that recomputes the checksums of a block holds the block's lock, so that other
    /// readers wait for its result.
    locks: [tokio::sync::Mutex<()>; READS_AT_ONCE],
}

#[derive(Debug, Default)]
struct Known {
    sums: HashMap<BlockId, Bytes>,
    /// The blocks in the order in which they were added.
    order: VecDeque<BlockId>,
}

impl RecomputedChecksums {
    /// Returns the recomputed checksums of a block's sub-blocks if they are known.
    pub(super) fn sums(&self, id: BlockId) -> Option<Bytes> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).sums.get(&id).cloned()
    }

    /// Waits for the lock of a block, under which one reader recomputes its checksums.
    pub(super) async fn lock(&self, id: BlockId) -> tokio::sync::MutexGuard<'_, ()> {
        // Consecutive blocks of an object have consecutive counters, so they are spread over the
        // locks.
        let at = usize::try_from(id.counter()).unwrap_or_default() % READS_AT_ONCE;
        let [first, ..] = &self.locks;
        self.locks.get(at).unwrap_or(first).lock().await
    }

    /// Adds the recomputed checksums of a block. The oldest block is removed if the table is full.
    pub(super) fn remember(&self, id: BlockId, sums: Bytes) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        // A block that is added twice keeps its place in the order.
        if known.sums.insert(id, sums).is_none() {
            known.order.push_back(id);
        }
        if known.order.len() > BLOCKS_MAX
            && let Some(oldest) = known.order.pop_front()
        {
            known.sums.remove(&oldest);
        }
    }

    /// Removes the recomputed checksums of a block.
    pub(super) fn forget(&self, id: BlockId) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.sums.remove(&id).is_some() {
            known.order.retain(|other| *other != id);
        }
    }
}

/// Computes the checksums of a block's sub-blocks (64 KiB each) from its streamed content.
#[derive(Debug)]
pub(super) struct ChecksumBuilder {
    block: BlockRef,
    sums: Vec<u8>,
    /// Content bytes so far.
    length: u32,
    /// The CRC of the unfinished sub-block, including its seed: block id and index.
    crc: u32,
    /// The CRC of all content before the unfinished sub-block.
    joined: u32,
}

impl ChecksumBuilder {
    pub(super) fn new(block: BlockRef) -> ChecksumBuilder {
        let crc = seed(block.id, 0);
        ChecksumBuilder { block, sums: Vec::new(), length: 0, crc, joined: 0 }
    }

    /// Adds the next content.
    ///
    /// # Errors
    /// Fails with a description if the content is longer than the block.
    pub(super) fn push(&mut self, mut content: Bytes) -> Result<(), String> {
        while !content.is_empty() {
            let room = SUB_BLOCK_BYTES - self.length % SUB_BLOCK_BYTES;
            let piece = content.split_to(content.len().min(room as usize));
            self.length += u32::try_from(piece.len()).unwrap_or(room);
            // Checked while reading, so that a huge foreign object is not read to its end.
            if self.length > self.block.length.min(BLOCK_BYTES_MAX) {
                return Err(self.wrong_length("more"));
            }
            self.crc = extend_crc(self.crc, &piece);
            if self.length.is_multiple_of(SUB_BLOCK_BYTES) {
                self.close();
            }
        }
        Ok(())
    }

    /// Returns the checksums if the content is the record's.
    ///
    /// # Errors
    /// Fails with a description if it is not.
    pub(super) fn finish(mut self) -> Result<Bytes, String> {
        if self.length != self.block.length {
            return Err(self.wrong_length("fewer"));
        }
        if !self.length.is_multiple_of(SUB_BLOCK_BYTES) {
            self.close();
        }
        if self.joined != self.block.crc32c {
            return Err("it has lost its checksums, and its content is not the record's".into());
        }
        Ok(self.sums.into())
    }

    fn close(&mut self) {
        let before = self.length.saturating_sub(1);
        let (index, length) = (before / SUB_BLOCK_BYTES, before % SUB_BLOCK_BYTES + 1);
        self.sums.extend_from_slice(&self.crc.to_be_bytes());
        self.joined = joined_sub_block(self.joined, self.block.id, index, length, self.crc);
        self.crc = seed(self.block.id, index + 1);
    }

    fn wrong_length(&self, how: &str) -> String {
        format!("its object has {how} bytes than the {} of the record", self.block.length)
    }
}

#[cfg(test)]
mod tests;
