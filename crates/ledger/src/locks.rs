//! Locks that programs hold.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex};

use record::Ino;

use crate::layout::LOCKS_AT;
use crate::table::Table;

/// Locks that may be held at the same time, of all files.
pub const LOCKS_MAX: u32 = 1 << 20;

pub(crate) const TABLE: u64 = 3;
pub(crate) const WORDS: usize = 8;

/// A lock on a range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeptLock {
    /// The first byte.
    pub start: u64,
    /// The last byte.
    pub last: u64,
    /// Whose it is.
    pub owner: u64,
    /// The process.
    pub pid: u32,
    /// Whether nobody else has one there.
    pub exclusive: bool,
    /// Whether it is one of flock(2).
    pub flock: bool,
}

pub(crate) const EXCLUSIVE: u64 = 1;
pub(crate) const FLOCK: u64 = 2;

impl KeptLock {
    pub(crate) fn entry(&self, ino: Ino) -> [u64; WORDS] {
        let exclusive = if self.exclusive { EXCLUSIVE } else { 0 };
        let flock = if self.flock { FLOCK } else { 0 };
        let pid = u64::from(self.pid);
        [ino.0, self.start, self.last, self.owner, pid, exclusive | flock, 0, 0]
    }

    pub(crate) fn of([_, start, last, owner, pid, bits, _, _]: [u64; WORDS]) -> KeptLock {
        let pid = u32::try_from(pid).unwrap_or_default();
        let (exclusive, flock) = (bits & EXCLUSIVE != 0, bits & FLOCK != 0);
        KeptLock { start, last, owner, pid, exclusive, flock }
    }
}

/// Each lock of a file, and where it stands.
pub(crate) type Standing = Vec<(KeptLock, u32)>;

#[derive(Debug)]
pub(crate) struct Locks {
    pub(crate) table: Table<WORDS>,
    pub(crate) standing: Mutex<HashMap<Ino, Standing>>,
}

impl Locks {
    pub(crate) fn open(file: &Arc<File>) -> io::Result<Locks> {
        let (table, entries) = Table::open(file, TABLE, LOCKS_AT, LOCKS_MAX)?;
        let mut standing: HashMap<Ino, Standing> = HashMap::new();
        for (index, entry) in entries {
            standing.entry(Ino(entry[0])).or_default().push((KeptLock::of(entry), index));
        }
        Ok(Locks { table, standing: Mutex::new(standing) })
    }
}
