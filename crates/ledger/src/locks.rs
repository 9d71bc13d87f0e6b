//! The ledger's table of locks that programs hold, from which the next worker (process of the
//! mount) takes them over.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex};

use record::Ino;

use crate::layout::LOCKS_AT;
use crate::table::Table;

/// The maximum number of recorded locks, of all files of the mount together.
pub const LOCKS_MAX: u32 = 1 << 20;

/// The number of the table of locks among the ledger's tables.
pub(crate) const TABLE: u64 = 3;
/// The number of 64-bit words in an entry. They are: inode, first byte, last byte, owner, process,
/// kind as bits, 0, 0.
pub(crate) const WORDS: usize = 8;

/// A lock on a range of bytes of a file, as recorded in the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LockEntry {
    /// The first byte of the range.
    pub start: u64,
    /// The last byte of the range, inclusive.
    pub last: u64,
    /// The owner of the lock, as the kernel numbers it. Locks of one owner do not conflict.
    pub owner: u64,
    /// The process that took the lock; 0 if unknown.
    pub pid: u32,
    /// True for an exclusive lock (a write lock), false for a shared one.
    pub exclusive: bool,
    /// True for a lock of flock(2), false for one of fcntl(2).
    pub flock: bool,
}

/// The bit of an exclusive lock in the word with the kind.
pub(crate) const EXCLUSIVE: u64 = 1;
/// The bit of a lock of flock(2) in the word with the kind.
pub(crate) const FLOCK: u64 = 2;

impl LockEntry {
    /// Returns the lock as an entry of the table.
    pub(crate) fn entry(&self, ino: Ino) -> [u64; WORDS] {
        let exclusive = if self.exclusive { EXCLUSIVE } else { 0 };
        let flock = if self.flock { FLOCK } else { 0 };
        let pid = u64::from(self.pid);
        [ino.0, self.start, self.last, self.owner, pid, exclusive | flock, 0, 0]
    }

    /// Returns the lock that an entry of the table has, without its inode number.
    pub(crate) fn of([_, start, last, owner, pid, bits, _, _]: [u64; WORDS]) -> LockEntry {
        let pid = u32::try_from(pid).unwrap_or_default();
        let (exclusive, flock) = (bits & EXCLUSIVE != 0, bits & FLOCK != 0);
        LockEntry { start, last, owner, pid, exclusive, flock }
    }
}

/// The recorded locks of a file, each with the index of its entry in the table.
pub(crate) type FileLocks = Vec<(LockEntry, u32)>;

/// The table of locks, and its entries by file.
#[derive(Debug)]
pub(crate) struct Locks {
    pub(crate) table: Table<WORDS>,
    pub(crate) by_file: Mutex<HashMap<Ino, FileLocks>>,
}

impl Locks {
    /// Opens the table of locks, with the entries that earlier workers (processes of the mount)
    /// left.
    pub(crate) fn open(file: &Arc<File>) -> io::Result<Locks> {
        let (table, entries) = Table::open(file, TABLE, LOCKS_AT, LOCKS_MAX)?;
        let mut by_file: HashMap<Ino, FileLocks> = HashMap::new();
        for (index, entry) in entries {
            by_file.entry(Ino(entry[0])).or_default().push((LockEntry::of(entry), index));
        }
        Ok(Locks { table, by_file: Mutex::new(by_file) })
    }
}
