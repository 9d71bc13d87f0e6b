//! The ledger's table of open handles, from which the next worker (process of the mount) restores
//! the open files and directories.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use record::Ino;

use crate::layout::HANDLES_AT;
use crate::table::Table;

/// The maximum number of open handles of a mount. Beyond it, an open fails.
pub const HANDLES_MAX: u32 = 1 << 20;

/// The number of the table of handles among the ledger's tables.
pub(crate) const TABLE: u64 = 1;
/// The number of 64-bit words in an entry. They are: handle, inode, request, 1 for a directory and
/// 0 for a file.
pub(crate) const WORDS: usize = 4;

/// An open handle of a file or directory, as recorded in the ledger for the next worker (process of
/// the mount).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandleEntry {
    /// The number of the handle, which the kernel sends with each request that uses it.
    pub handle: u64,
    /// The inode number of the open file or directory.
    pub ino: Ino,
    /// The number of the kernel's request that opened it. If the kernel sends this request again,
    /// it is answered with this handle. 0 if the mount opened it for itself.
    pub request: u64,
    /// True if the handle is of a directory; false for a file.
    pub directory: bool,
}

/// The table of open handles, as this worker (the process that serves the mount) has opened it.
#[derive(Debug)]
pub(crate) struct Handles {
    pub(crate) table: Table<WORDS>,
    /// The slot (place) in the table of each handle, by the number of the handle.
    pub(crate) slots: Mutex<HashMap<u64, u32>>,
    /// The handles that earlier workers (processes of the mount) left.
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
