//! The table of locks that programs hold.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex};

use record::Ino;

use crate::layout::LOCKS_AT;
use crate::table::Table;

/// The maximum number of held locks, of all files together.
pub const LOCKS_MAX: u32 = 1 << 20;

pub(crate) const TABLE: u64 = 3;
pub(crate) const WORDS: usize = 8;

/// A lock on a range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LockEntry {
    /// The first byte.
    pub start: u64,
    /// The last byte, inclusive.
    pub last: u64,
    /// The owner.
    pub owner: u64,
    /// The process; 0 if unknown.
    pub pid: u32,
    /// True for an exclusive lock.
    pub exclusive: bool,
    /// True for a lock of flock(2).
    pub flock: bool,
}

pub(crate) const EXCLUSIVE: u64 = 1;
pub(crate) const FLOCK: u64 = 2;

impl LockEntry {
    pub(crate) fn entry(&self, ino: Ino) -> [u64; WORDS] {
        let exclusive = if self.exclusive { EXCLUSIVE } else { 0 };
        let flock = if self.flock { FLOCK } else { 0 };
        let pid = u64::from(self.pid);
        [ino.0, self.start, self.last, self.owner, pid, exclusive | flock, 0, 0]
    }

    pub(crate) fn of([_, start, last, owner, pid, bits, _, _]: [u64; WORDS]) -> LockEntry {
        let pid = u32::try_from(pid).unwrap_or_default();
        let (exclusive, flock) = (bits & EXCLUSIVE != 0, bits & FLOCK != 0);
        LockEntry { start, last, owner, pid, exclusive, flock }
    }
}

/// The locks of a file, each with its slot in the table.
pub(crate) type FileLocks = Vec<(LockEntry, u32)>;

#[derive(Debug)]
pub(crate) struct Locks {
    pub(crate) table: Table<WORDS>,
    pub(crate) by_file: Mutex<HashMap<Ino, FileLocks>>,
}

impl Locks {
    pub(crate) fn open(file: &Arc<File>) -> io::Result<Locks> {
        let (table, entries) = Table::open(file, TABLE, LOCKS_AT, LOCKS_MAX)?;
        let mut by_file: HashMap<Ino, FileLocks> = HashMap::new();
        for (index, entry) in entries {
            by_file.entry(Ino(entry[0])).or_default().push((LockEntry::of(entry), index));
        }
        Ok(Locks { table, by_file: Mutex::new(by_file) })
    }
}
