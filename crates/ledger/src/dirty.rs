//! Logs of dirty data: the changes that programs made to open files and that no commit to the store
//! has made durable. They are in the ledger, the mount's file in memory, so the next worker (the
//! process that serves the mount) can replay them if this one is killed.
//!
//! Each dirty file has a log in a *region* of its own, a fixed range of the ledger. A flush (the
//! commit of a file's dirty data) that was committed trims the log: the start of the log moves to
//! the end of the committed changes. Replaying the changes of a log has the same result as making
//! them, even if they are committed already. For example, a write of 100 bytes at 0 can be replayed
//! over the committed file.
//!
//! A region is reused for other files, and bytes of earlier logs stay in it. So each log has a
//! *generation*, a number that no other log of the mount has. An entry is valid if it has the
//! generation of the present log, if its number follows that of the entry before it, and if its
//! *mark*, a checkword of both numbers, is at its end.
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

/// The maximum number of files with dirty data at the same time, since each has a log of its own.
pub const LOGS_MAX: u32 = 1 << 19;

/// The maximum size of the log of one file, in bytes. It is also the distance between the regions,
/// that is, the ranges of the ledger that contain one log each.
pub const LOG_BYTES_MAX: u64 = 1 << 42;

/// The size of a log, in bytes, up to which its region (its range of the ledger) keeps its memory
/// when the log ends, for the next log in the region. The memory of a longer log is freed.
pub(crate) const REGION_BYTES_KEPT: u64 = 64 << 10;

/// The size of a memory page, in bytes. Memory is freed in pages.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// The number of the table of logs among the ledger's tables; it selects the word in which the
/// ledger records the length of the table.
pub(crate) const TABLE: u64 = 2;

/// The number of 64-bit words in an entry of the table of logs. They are: inode, start of the log
/// in its region, generation of the log, 0.
pub(crate) const WORDS: usize = 4;

/// The number of 64-bit words before the parameters of a logged change. They are: generation of the
/// log, number of the change in the log, request, kind, length of the bytes, 0.
pub(crate) const HEAD_WORDS: usize = 6;

/// The number of 64-bit words with the parameters of a logged change. Its bytes, for example the
/// data of a write, follow after them.
pub const CHANGE_WORDS: usize = 8;

/// The number of low bits of a log's generation that count the logs of one worker (a process that
/// serves the mount). The worker's number is in the bits above, so no two workers give one
/// generation.
pub(crate) const GENERATIONS_SHIFT: u32 = 40;

/// The constant part of the mark, the word at the end of a complete entry of a log.
pub(crate) const MARK: u64 = 0x6173_686c_6172_2e21;

/// The logs of all files with dirty data, as this worker (the process that serves the mount) has
/// opened them in the ledger.
#[derive(Debug)]
pub(crate) struct DirtyLogs {
    pub(crate) file: Arc<File>,
    pub(crate) table: Table<WORDS>,
    /// The generation of the next log that begins: a number that no other log of the mount has.
    pub(crate) next_generation: AtomicU64,
    /// The logs that earlier workers (processes of the mount) left, each at its start.
    pub(crate) inherited: Vec<DirtyLog>,
}

/// The position of this process in the log of one file's dirty data. The log itself is in the
/// ledger, the mount's file in memory.
#[derive(Debug, Clone)]
pub struct DirtyLog {
    pub(crate) ino: Ino,
    /// The number of the region, the range of the ledger that contains the log. It is also the slot
    /// of the log's entry in the table of logs.
    pub(crate) region: u32,
    /// The generation, a number that no other log of the mount has. Entries in the region with
    /// another generation are left over from earlier logs.
    pub(crate) generation: u64,
    /// The offset in the region of the first change that is not trimmed. The changes before it are
    /// committed.
    pub(crate) start: u64,
    /// The offset in the region after the last change that this process has appended or read. The
    /// next change is appended or read there.
    pub(crate) end: u64,
    /// The number of the next change. The changes of a log are numbered from 0 on; a trim does not
    /// begin the numbers again.
    pub(crate) next: u64,
}

/// A change of an open file, as read from the log of its dirty data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedChange {
    /// The kind of the change, for example a write. The ledger only stores the number; the caller
    /// of `Ledger::log` defines its meaning.
    pub kind: u64,
    /// The number of the kernel's request that made the change; 0 if none did.
    pub request: u64,
    /// The parameters of the change, for example the position of a write. The kind defines the
    /// meaning of each word.
    pub words: [u64; CHANGE_WORDS],
    /// The bytes of the change, for example the data of a write. Empty for kinds that have none.
    pub bytes: Vec<u8>,
}

impl DirtyLogs {
    /// Opens the table of logs in the ledger. `worker` is the number of this worker, the process
    /// that serves the mount.
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

/// Returns the offset in the ledger of the region with this number, that is, of the range that
/// contains one log.
pub(crate) fn region_at(region: u32) -> u64 {
    LOGS_AT + u64::from(region) * LOG_BYTES_MAX
}

/// Returns the mark of a log entry: the word that is written after its bytes. If it is missing, the
/// worker was killed while it wrote the entry.
pub(crate) fn mark(generation: u64, number: u64) -> u64 {
    MARK ^ generation.rotate_left(17) ^ number
}

/// Returns words as bytes, in the byte order of the ledger.
pub(crate) fn word_bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

impl DirtyLog {
    /// Returns the inode number of the file whose dirty data this log has.
    pub fn ino(&self) -> Ino {
        self.ino
    }

    /// Returns the generation of the log, a number that no other log of the mount has. A log that
    /// began later has a higher one.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the offset after the last change that this process has appended or read, counted in
    /// bytes from the start of the log's region. A flush that commits these changes then trims the
    /// log up to this offset.
    pub fn end(&self) -> u64 {
        self.end
    }
}

// No page belongs to two regions, so each can be freed.
const _: () = assert!(LOGS_AT.is_multiple_of(PAGE_BYTES));
const _: () = assert!(LOG_BYTES_MAX.is_multiple_of(PAGE_BYTES));
const _: () = assert!(LOGS_AT + (LOGS_MAX as u64) * LOG_BYTES_MAX < i64::MAX as u64);
