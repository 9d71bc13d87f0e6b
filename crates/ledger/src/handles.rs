//! The table of open handles.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use record::Ino;

use crate::layout::HANDLES_AT;
use crate::table::Table;

/// The maximum number of open handles.
pub const HANDLES_MAX: u32 = 1 << 20;

pub(crate) const TABLE: u64 = 1;
pub(crate) const WORDS: usize = 4;

/// An open handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandleEntry {
    /// The number of the handle.
    pub handle: u64,
    /// The inode number of the open file or directory.
    pub ino: Ino,
    /// The request that opened it; 0 if the mount itself opened it.
    pub request: u64,
    /// True for a directory.
    pub directory: bool,
}

#[derive(Debug)]
pub(crate) struct Handles {
    pub(crate) table: Table<WORDS>,
    pub(crate) slots: Mutex<HashMap<u64, u32>>,
    pub(crate) inherited: Vec<HandleEntry>,
}

impl Handles {
    pub(crate) fn open(file: &Arc<File>) -> io::Result<Handles> {
        let (table, entries) = Table::open(file, TABLE, HANDLES_AT, HANDLES_MAX)?;
        let (mut slots, mut inherited) = (HashMap::new(), Vec::new());
        for (index, [handle, ino, request, directory]) in entries {
            slots.insert(handle, index);
            inherited.push(HandleEntry {
                handle,
                ino: Ino(ino),
                request,
                directory: directory != 0,
            });
        }
        Ok(Handles { table, slots: Mutex::new(slots), inherited })
    }

    pub(crate) fn slots(&self) -> MutexGuard<'_, HashMap<u64, u32>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
