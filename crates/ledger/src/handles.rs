//! What programs have open.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use record::Ino;

use crate::layout::HANDLES_AT;
use crate::table::Table;

/// Handles that may be open at the same time.
pub const HANDLES_MAX: u32 = 1 << 20;

pub(crate) const TABLE: u64 = 1;
pub(crate) const WORDS: usize = 4;

/// A handle that an earlier worker gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandleEntry {
    /// Its number.
    pub handle: u64,
    /// What it is a handle of.
    pub ino: Ino,
    /// The request that asked for it.
    pub request: u64,
    /// Whether it is one of a directory.
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
