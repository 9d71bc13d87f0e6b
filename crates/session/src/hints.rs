//! What operations remember for those that follow: names, small inodes, buckets, uploads.
//!
//! A hint may be wrong at any time, because other gateways write too. A commit checks by its
//! guards what it took from here, and an answer is read anew; so nothing here needs to be right,
//! and everything here is bounded. What is absent is not remembered: planners guess it.

use std::sync::Arc;

use namespace::Hints;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use record::Ino;
use record::key::space;
use store::{Entry, Found, Key, Plan, Read, Space, Target, Value, Write};

use crate::mirror::Mirror;

/// Bytes of the records that are remembered, keys and overhead included.
pub const HINT_BYTES_DEFAULT: u64 = 64 << 20;

/// The largest value that is remembered, in bytes. Larger ones hold inline content.
pub const HINT_VALUE_BYTES_MAX: usize = 8 << 10;

/// Directories of which some names are remembered.
pub const HINT_DIRECTORIES_MAX: usize = 65_536;

/// Names remembered of a directory.
const NAMES: usize = 3;

/// What an entry costs besides its bytes, about.
const ENTRY_BYTES: u64 = 160;

/// Of so many parts of the memory, three hold inodes, and the rest holds what is smaller and needed
/// by every write.
const PARTS: u64 = 8;

/// What may be remembered.
const SPACES: [Space; 4] = [space::DENTRY, space::INODE, space::BUCKET, space::UPLOAD];

/// Whether hints are kept of a space's records.
pub(crate) fn is_remembered(space: Space) -> bool {
    SPACES.contains(&space)
}

#[derive(Clone, Copy, Debug)]
struct Bytes;

impl Weighter<Key, Value> for Bytes {
    fn weight(&self, key: &Key, value: &Value) -> u64 {
        ENTRY_BYTES + (key.as_bytes().len() + value.len()) as u64
    }
}

/// A bounded memory of records.
#[derive(Debug)]
pub(crate) struct HintMemory {
    /// Knows some of those that were pushed out here, because reads that it answers teach nothing.
    mirror: Arc<Mirror>,
    /// All but inodes.
    records: Cache<Key, Value, Bytes>,
    inodes: Cache<Key, Value, Bytes>,
    /// Of each directory the names last seen in it, newest first.
    names: Cache<Ino, [Option<Key>; NAMES]>,
}

impl HintMemory {
    /// Remembers about `bytes` of records, besides those in a mirror.
    pub(crate) fn new(bytes: u64, mirror: &Arc<Mirror>) -> HintMemory {
        let count = |bytes: u64, each: u64| usize::try_from(bytes / each).unwrap_or(usize::MAX);
        let records = |bytes| Cache::with_weighter(count(bytes, 2 * ENTRY_BYTES), bytes, Bytes);
        let part = bytes / PARTS;
        HintMemory {
            mirror: Arc::clone(mirror),
            inodes: records(3 * part),
            records: records(bytes - 3 * part),
            names: Cache::new(HINT_DIRECTORIES_MAX),
        }
    }

    /// Takes note of what a committed plan wrote.
    pub(crate) fn apply(&self, plan: &Plan) {
        for write in &plan.writes {
            match write {
                Write::Put(key, value) => self.remember(key, value),
                Write::Delete(key) => self.forget(key),
                Write::Add(..) | Write::Max(..) | Write::Set(..) | Write::Clear(..) => {}
            }
        }
    }

    /// Takes note of what was read.
    pub(crate) fn learn(&self, reads: &[Read], found: &[Found]) {
        for (read, found) in reads.iter().zip(found) {
            match (read, found) {
                (Read::Record { key, .. }, Found::Record(None)) => self.forget(key),
                (Read::Record { follow, .. }, Found::Record(Some(entry))) => {
                    self.learn_entry(entry, follow.as_ref());
                }
                (Read::Range { follow, .. }, Found::Range(entries)) => {
                    // A page of a listing would push out what writers need; a few of its names tell
                    // whether the directory holds any. The last ones stay the longest if somebody
                    // deletes one after the other.
                    for entry in entries.iter().skip(entries.len().saturating_sub(NAMES)) {
                        self.learn_entry(entry, follow.as_ref());
                        self.remember_name(&entry.key);
                    }
                }
                _ => {}
            }
        }
    }

    fn learn_entry(&self, entry: &Entry, follow: Option<&store::Follow>) {
        self.remember(&entry.key, &entry.value);
        let Some(target) = follow.and_then(|follow| follow.target(&entry.value)) else { return };
        match &entry.target {
            Target::Whole(value) => self.remember(&target, value),
            Target::Absent => self.forget(&target),
            // What was remembered may still be right, and the beginning of a record is none.
            Target::Cut(_) => {}
        }
    }

    fn of(&self, key: &Key) -> &Cache<Key, Value, Bytes> {
        if key.space() == space::INODE { &self.inodes } else { &self.records }
    }

    /// Takes note of a record.
    pub(crate) fn remember(&self, key: &Key, value: &Value) {
        if !is_remembered(key.space()) {
            return;
        }
        let records = self.of(key);
        if value.len() > HINT_VALUE_BYTES_MAX {
            records.remove(key);
        } else if records.get(key).is_some_and(|known| known == *value) {
            // Most of what is read was known: to look costs less than to insert it again.
            return;
        } else {
            records.insert(key.clone(), value.clone());
        }
        self.remember_name(key);
    }

    /// Takes note that a directory holds a name.
    fn remember_name(&self, key: &Key) {
        if key.space() == space::DENTRY {
            let directory = Ino(key.partition());
            let mut names = self.names.get(&directory).unwrap_or_default();
            if !names.iter().flatten().any(|name| name == key) {
                names.rotate_right(1);
                names[0] = Some(key.clone());
                self.names.insert(directory, names);
            }
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&self) {
        self.records.clear();
        self.inodes.clear();
        self.names.clear();
    }

    /// Forgets a record, because it is gone or because it misled an operation.
    pub(crate) fn forget(&self, key: &Key) {
        self.of(key).remove(key);
        if key.space() == space::DENTRY {
            let directory = Ino(key.partition());
            if let Some(mut names) = self.names.get(&directory) {
                names.iter_mut().filter(|name| name.as_ref() == Some(key)).for_each(|name| {
                    *name = None;
                });
                self.names.insert(directory, names);
            }
        }
    }
}

impl Hints for HintMemory {
    fn record(&self, key: &Key) -> Option<Option<Value>> {
        self.of(key).get(key).map(Some).or_else(|| self.mirror.recall(key))
    }

    fn sibling(&self, directory: Ino, not: &[u8]) -> Option<Key> {
        let names = self.names.get(&directory)?;
        names.into_iter().flatten().find(|name| name.suffix() != not)
    }
}

#[cfg(test)]
mod tests;
