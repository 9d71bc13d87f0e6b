//! Writing and reading the ledger's table of the locks that programs hold.

use std::io;
use std::sync::PoisonError;

use record::Ino;
use tracing::warn;

use crate::ledger::Ledger;
use crate::locks::{FileLocks, LockEntry};

impl Ledger {
    /// Replaces the recorded locks of a file by `held`, for the next worker (process of the mount).
    /// Locks that stay keep their entries. If a lock cannot be written, the others are written
    /// nevertheless; fails with the error of the last one, for example `StorageFull` if `LOCKS_MAX`
    /// locks are recorded.
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

    /// Returns the recorded locks by file, including those that earlier workers (processes of the
    /// mount) recorded. Files without locks are not included.
    pub fn held_locks(&self) -> Vec<(Ino, Vec<LockEntry>)> {
        let files = self.locks.by_file.lock().unwrap_or_else(PoisonError::into_inner);
        let locks = |by_file: &FileLocks| by_file.iter().map(|(lock, _)| *lock).collect();
        files.iter().map(|(ino, by_file)| (*ino, locks(by_file))).collect()
    }
}
