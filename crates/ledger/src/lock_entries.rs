//! Writing and reading the table of locks.

use std::io;
use std::sync::PoisonError;

use record::Ino;
use tracing::warn;

use crate::ledger::Ledger;
use crate::locks::{FileLocks, LockEntry};

impl Ledger {
    /// Replaces the locks of a file by `held`. Locks that stay keep their entries. Fails with the
    /// error of the last lock that could not be written, for example `StorageFull`.
    pub fn set_locks(&self, ino: Ino, held: &[LockEntry]) -> io::Result<()> {
        let mut files = self.locks.by_file.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before = files.remove(&ino).unwrap_or_default();
        let mut after = Vec::with_capacity(held.len());
        let mut written = Ok(());
        // Write new locks before old ones are removed: a crash in between leaves too many locks,
        // and never too few.
        for lock in held {
            let unchanged = before.iter().position(|(known, _)| known == lock);
            let index = match unchanged {
                Some(at) => Ok(before.swap_remove(at).1),
                None => self.locks.table.insert(lock.entry(ino)),
            };
            match index {
                Ok(index) => after.push((*lock, index)),
                Err(error) => written = Err(error),
            }
        }
        for (_, index) in before {
            if let Err(error) = self.locks.table.clear(index) {
                warn!(%error, "cannot remove a released lock from the ledger");
            }
        }
        if !after.is_empty() {
            files.insert(ino, after);
        }
        written
    }

    /// Returns the held locks by file, including those of the earlier workers.
    pub fn held_locks(&self) -> Vec<(Ino, Vec<LockEntry>)> {
        let files = self.locks.by_file.lock().unwrap_or_else(PoisonError::into_inner);
        let locks = |by_file: &FileLocks| by_file.iter().map(|(lock, _)| *lock).collect();
        files.iter().map(|(ino, by_file)| (*ino, locks(by_file))).collect()
    }
}
