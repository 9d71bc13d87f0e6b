//! What programs have written to files and is not their content yet.
//!
//! Each file that is dirty has a log of what was done to it, in a region of its own. When what was
//! written up to some point has become the file's content, the log begins behind that. Done over again
//! to the file, the changes of a log leave what they left before, also if they have become its content
//! already.
//!
//! A region is used again and again. What stands in it counts if it is of the present use, follows on
//! what is before it, and has its mark behind it.

use std::fs::File;
use std::io::{self};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use record::Ino;

use crate::layout::{DIRTY_AT, LOGS_AT};
use crate::table::Table;

/// Files that may be dirty at the same time.
pub const LOGS_MAX: u32 = 1 << 19;

/// Bytes that may be written to one file before it is clean again.
pub const LOG_BYTES_MAX: u64 = 1 << 42;

/// What of a region is kept for its next use; more is given back to the machine.
pub(crate) const REGION_BYTES_KEPT: u64 = 64 << 10;

/// Memory is given back in pages.
pub(crate) const PAGE_BYTES: u64 = 4096;

pub(crate) const TABLE: u64 = 2;

/// What an entry says: the file, where its log begins, which use of the region it is, nothing.
pub(crate) const WORDS: usize = 4;

/// What a change is preceded by: the use, its number, its request, its kind, how many bytes, nothing.
pub(crate) const HEAD_WORDS: usize = 6;

/// Words of a change besides its bytes.
pub const CHANGE_WORDS: usize = 8;

/// Below a use's worker: how many uses one worker may begin.
pub(crate) const GENERATIONS_SHIFT: u32 = 40;

pub(crate) const MARK: u64 = 0x6173_686c_6172_2e21;

#[derive(Debug)]
pub(crate) struct DirtyLogs {
    pub(crate) file: Arc<File>,
    pub(crate) table: Table<WORDS>,
    pub(crate) next_generation: AtomicU64,
    pub(crate) inherited: Vec<DirtyLog>,
}

/// The log of a file.
#[derive(Debug, Clone)]
pub struct DirtyLog {
    pub(crate) ino: Ino,
    pub(crate) region: u32,
    /// Which use of the region this is.
    pub(crate) generation: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) next: u64,
}

/// A change to a file, as it stands in its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedChange {
    /// What kind of change.
    pub kind: u64,
    /// The request that made it.
    pub request: u64,
    /// What it is about.
    pub words: [u64; CHANGE_WORDS],
    /// Its bytes.
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
        // Each worker has numbers of its own for the uses that it begins.
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
    /// The file.
    pub fn ino(&self) -> Ino {
        self.ino
    }

    /// Which use of its region it is: later logs have larger numbers.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Where the next change will stand.
    pub fn end(&self) -> u64 {
        self.end
    }
}

const _: () = assert!(LOGS_AT + (LOGS_MAX as u64) * LOG_BYTES_MAX < i64::MAX as u64);
