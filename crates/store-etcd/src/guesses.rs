//! Guesses of targets: the last target of each record that a read has followed.
//!
//! For example, a directory entry mostly leads to the same inode as the last time.

use quick_cache::sync::Cache;
use store::Key;

/// The last target of each record that was followed.
#[derive(Debug)]
pub(crate) struct Guesses(Cache<Key, Key>);

impl Guesses {
    pub(crate) fn new(remembered: usize) -> Guesses {
        Guesses(Cache::new(remembered))
    }

    /// Returns the last target of a record.
    pub(crate) fn get(&self, record: &Key) -> Option<Key> {
        self.0.get(record)
    }

    /// Remembers the target of a record.
    pub(crate) fn learn(&self, record: &Key, target: &Key) {
        if self.0.get(record).as_ref() != Some(target) {
            self.0.insert(record.clone(), target.clone());
        }
    }
}
