//! Checksums of bare blocks whose objects have lost theirs.
//!
//! Metadata is the first thing that a bucket loses: a tool copies objects without it, or a proxy drops
//! headers. The content is still there, and the record has the CRC of all of it. So the whole object is
//! read once, as a stream that is not kept, and the checksum of each sub-block is computed on the way.
//! If the CRC of the whole is that of the record, these checksums are as good as the lost ones, and are
//! kept in memory.
//!
//! **What it costs.** One read of the whole block, 16 MiB at most, before the first read of any of
//! its bytes, and 4 bytes of memory for each 64 KiB of it; of [`LEARNED_MAX`] blocks at most. Up to
//! [`LEARNERS_MAX`] blocks are read like this at a time, each of them once, however many wait for it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use record::BlockId;

use crate::sealed::{BlockRef, joined_sub_block, seed};
use crate::shift::extended;
use crate::{BLOCK_BYTES_MAX, SUB_BLOCK_BYTES};

/// Blocks whose checksums are remembered: 4 MiB of them, and as much again for its book-keeping at
/// most.
const LEARNED_MAX: usize = 4_096;

/// Blocks that are read whole at a time.
const LEARNERS_MAX: usize = 8;

/// Recomputed checksums, and the locks of those who compute them.
#[derive(Debug, Default)]
pub(super) struct Learned {
    known: Mutex<Known>,
    /// Whoever reads a block for its checksums holds its lock, so that others wait for the result.
    places: [tokio::sync::Mutex<()>; LEARNERS_MAX],
}

#[derive(Debug, Default)]
struct Known {
    sums: HashMap<BlockId, Bytes>,
    /// In the order in which they came.
    order: VecDeque<BlockId>,
}

impl Learned {
    /// The checksums of a block's sub-blocks, if they are known.
    pub(super) fn sums(&self, id: BlockId) -> Option<Bytes> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).sums.get(&id).cloned()
    }

    /// The lock for this block.
    pub(super) async fn turn(&self, id: BlockId) -> tokio::sync::MutexGuard<'_, ()> {
        let at = usize::try_from(id.counter()).unwrap_or_default() % LEARNERS_MAX;
        let [first, ..] = &self.places;
        self.places.get(at).unwrap_or(first).lock().await
    }

    /// Remembers checksums; the oldest ones make room.
    pub(super) fn remember(&self, id: BlockId, sums: Bytes) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.sums.insert(id, sums).is_none() {
            known.order.push_back(id);
        }
        if known.order.len() > LEARNED_MAX
            && let Some(oldest) = known.order.pop_front()
        {
            known.sums.remove(&oldest);
        }
    }

    /// Forgets a block.
    pub(super) fn forget(&self, id: BlockId) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.sums.remove(&id).is_some() {
            known.order.retain(|other| *other != id);
        }
    }
}

/// Computes the checksums of a block from its streamed content.
#[derive(Debug)]
pub(super) struct Summing {
    block: BlockRef,
    sums: Vec<u8>,
    /// Content bytes so far.
    length: u32,
    /// Of the sub-block in the making, its seed included.
    crc: u32,
    /// Of all content before it.
    joined: u32,
}

impl Summing {
    pub(super) fn new(block: BlockRef) -> Summing {
        let crc = seed(block.id, 0);
        Summing { block, sums: Vec::new(), length: 0, crc, joined: 0 }
    }

    /// Takes the content that comes next.
    ///
    /// # Errors
    /// That there is more than a block has.
    pub(super) fn push(&mut self, mut content: Bytes) -> Result<(), String> {
        while !content.is_empty() {
            let room = SUB_BLOCK_BYTES - self.length % SUB_BLOCK_BYTES;
            let piece = content.split_to(content.len().min(room as usize));
            self.length += u32::try_from(piece.len()).unwrap_or(room);
            if self.length > self.block.length.min(BLOCK_BYTES_MAX) {
                return Err(self.wrong_length("more"));
            }
            self.crc = extended(self.crc, &piece);
            if self.length.is_multiple_of(SUB_BLOCK_BYTES) {
                self.close();
            }
        }
        Ok(())
    }

    /// The checksums, if the content was that of the record.
    ///
    /// # Errors
    /// What was wrong with it.
    pub(super) fn finish(mut self) -> Result<Bytes, String> {
        if self.length != self.block.length {
            return Err(self.wrong_length("fewer"));
        }
        if !self.length.is_multiple_of(SUB_BLOCK_BYTES) {
            self.close();
        }
        if self.joined != self.block.crc32c {
            return Err("it has lost its checksums, and the whole of it is not the record's".into());
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
        format!("its object has {how} than the {} bytes of the record", self.block.length)
    }
}

#[cfg(test)]
mod tests;
