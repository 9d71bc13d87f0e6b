//! Taking note of locks.

use std::io;
use std::sync::PoisonError;

use record::Ino;
use tracing::warn;

use crate::ledger::Ledger;
use crate::locks::{FileLocks, LockEntry};

impl Ledger {
    /// Takes note of the locks that are held of a file, in place of those that were.
    pub fn set_locks(&self, ino: Ino, held: &[LockEntry]) -> io::Result<()> {
        let mut files = self.locks.by_file.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before = files.remove(&ino).unwrap_or_default();
        let mut after = Vec::with_capacity(held.len());
        let mut written = Ok(());
        for lock in held {
            let stands = before.iter().position(|(by_file, _)| by_file == lock);
            let index = match stands {
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
                warn!(%error, "a lock that was let go of could not be removed from the ledger");
            }
        }
        if !after.is_empty() {
            files.insert(ino, after);
        }
        written
    }

    /// The locks that are held, by file.
    pub fn held_locks(&self) -> Vec<(Ino, Vec<LockEntry>)> {
        let files = self.locks.by_file.lock().unwrap_or_else(PoisonError::into_inner);
        let locks = |by_file: &FileLocks| by_file.iter().map(|(lock, _)| *lock).collect();
        files.iter().map(|(ino, by_file)| (*ino, locks(by_file))).collect()
    }
}
