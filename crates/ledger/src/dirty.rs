//! Logs of dirty data: changes of open files that are not committed.
//!
//! Each dirty file has a log in a region of its own. A flush that was committed trims the log: the
//! start of the log moves to the end of the committed changes. Replaying the changes of a log has
//! the same result as making them, even if they are committed already. For example, a write of 100
//! bytes at 0 can be replayed over the committed file.
//!
//! A region is reused for other files. An entry in it is valid if it has the region's present
//! generation, continues the entry before it, and has its mark at the end.
//!
//! ```text
//!   region of a file:   | trimmed | start: entry, mark | entry, mark | end: free ...
//!   entry:              | generation, number, request, kind, length, 0 | words | bytes | mark
//! ```

use std::fs::File;
use std::io::{self};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use record::Ino;

use crate::layout::{DIRTY_AT, LOGS_AT};
use crate::table::Table;

/// The maximum number of dirty files.
pub const LOGS_MAX: u32 = 1 << 19;

/// The maximum size of one log, in bytes.
pub const LOG_BYTES_MAX: u64 = 1 << 42;

/// The size of a region that stays allocated for its next use, in bytes. The rest is freed.
pub(crate) const REGION_BYTES_KEPT: u64 = 64 << 10;

/// The size of a memory page, in bytes. Memory is freed in pages.
pub(crate) const PAGE_BYTES: u64 = 4096;

pub(crate) const TABLE: u64 = 2;

/// The words of a table entry: inode, start of the log, generation of the region, 0.
pub(crate) const WORDS: usize = 4;

/// The words before a change: generation, number, request, kind, length of the bytes, 0.
pub(crate) const HEAD_WORDS: usize = 6;

/// The number of words of a change, without its bytes.
pub const CHANGE_WORDS: usize = 8;

/// The number of bits for generations of one worker. The worker's number is above them.
pub(crate) const GENERATIONS_SHIFT: u32 = 40;

pub(crate) const MARK: u64 = 0x6173_686c_6172_2e21;

#[derive(Debug)]
pub(crate) struct DirtyLogs {
    pub(crate) file: Arc<File>,
    pub(crate) table: Table<WORDS>,
    pub(crate) next_generation: AtomicU64,
    pub(crate) inherited: Vec<DirtyLog>,
}

/// The log of one file.
#[derive(Debug, Clone)]
pub struct DirtyLog {
    pub(crate) ino: Ino,
    /// The number of the region, which is the slot in the table.
    pub(crate) region: u32,
    /// The generation of the region, which identifies the log.
    pub(crate) generation: u64,
    /// The offset of the first change that is not trimmed, in the region.
    pub(crate) start: u64,
    /// The offset after the last change that was written or read, in the region.
    pub(crate) end: u64,
    /// The number of the next change.
    pub(crate) next: u64,
}

/// A change in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedChange {
    /// The kind of the change. Its meaning is defined by the caller.
    pub kind: u64,
    /// The request that made the change.
    pub request: u64,
    /// The parameters of the change.
    pub words: [u64; CHANGE_WORDS],
    /// The bytes of the change.
    pub bytes: Vec<u8>,
}

impl DirtyLogs {
    pub(crate) fn open(file: &Arc<File>, worker: u64) -> io::Result<DirtyLogs> {
        let (table, entries) = Table::<WORDS>::open(file, TABLE, DIRTY_AT, LOGS_MAX)?;
        let inherited: Vec<DirtyLog> = entries
            .into_iter()
            .map(|(region, [ino, start, generation, _])| DirtyLog {
                ino: Ino(ino),
                region,
                generation,
                start,
                end: start,
                next: 0,
            })
            .collect();
        // The generations of two workers must not be equal.
        let next_generation = AtomicU64::new(worker << GENERATIONS_SHIFT);
        Ok(DirtyLogs { file: Arc::clone(file), table, next_generation, inherited })
    }
}

pub(crate) fn region_at(region: u32) -> u64 {
    LOGS_AT + u64::from(region) * LOG_BYTES_MAX
}

pub(crate) fn mark(generation: u64, number: u64) -> u64 {
    MARK ^ generation.rotate_left(17) ^ number
}

pub(crate) fn word_bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

impl DirtyLog {
    /// Returns the inode of the file.
    pub fn ino(&self) -> Ino {
        self.ino
    }

    /// Returns the generation of the region. Later logs have higher ones.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the offset of the next change in the region of the log.
    pub fn end(&self) -> u64 {
        self.end
    }
}

const _: () = assert!(LOGS_AT + (LOGS_MAX as u64) * LOG_BYTES_MAX < i64::MAX as u64);
