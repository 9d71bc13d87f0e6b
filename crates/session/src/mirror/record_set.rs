//! A bounded set of records, those that are absent among them.

use std::fmt;

use quick_cache::Weighter;
use quick_cache::unsync::Cache;
use record::key::space;
use store::{Key, Value};

use super::MIRROR_VALUE_BYTES_MAX;

/// What an entry costs besides its bytes, about.
const ENTRY_BYTES: u64 = 160;

#[derive(Clone, Copy, Debug)]
struct Bytes;

impl Weighter<Key, Option<Value>> for Bytes {
    fn weight(&self, key: &Key, value: &Option<Value>) -> u64 {
        ENTRY_BYTES + (key.as_bytes().len() + value.as_ref().map_or(0, Value::len)) as u64
    }
}

/// Records by their keys, about as many bytes of them as were asked for.
pub(super) struct RecordSet {
    cache: Cache<Key, Option<Value>, Bytes>,
    /// Takes nothing any more.
    shut: bool,
}

impl fmt::Debug for RecordSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordSet").field("len", &self.cache.len()).finish_non_exhaustive()
    }
}

impl RecordSet {
    pub(super) fn new(bytes: u64) -> RecordSet {
        let entries = usize::try_from(bytes / (2 * ENTRY_BYTES)).unwrap_or(usize::MAX);
        RecordSet { cache: Cache::with_weighter(entries, bytes, Bytes), shut: false }
    }

    /// The record, or that there is none; `None` if nothing is known.
    pub(super) fn get(&self, key: &Key) -> Option<&Option<Value>> {
        self.cache.get(key)
    }

    /// Whether anything is known of a record.
    pub(super) fn holds(&self, key: &Key) -> bool {
        self.cache.contains_key(key)
    }

    /// Takes note of a record, or that there is none.
    pub(super) fn set(&mut self, key: &Key, value: Option<&Value>) {
        let worth = match value {
            Some(value) => value.len() as u64 <= MIRROR_VALUE_BYTES_MAX,
            // Numbers of inodes are never used again: nobody asks for one that is gone.
            None => key.space() != space::INODE,
        };
        if worth && !self.shut {
            self.cache.insert(key.clone(), value.cloned());
        } else {
            self.cache.remove(key);
        }
    }

    pub(super) fn remove(&mut self, key: &Key) {
        self.cache.remove(key);
    }

    pub(super) fn clear(&mut self) {
        self.cache.clear();
    }

    /// Forgets everything and takes nothing any more.
    pub(super) fn shut(&mut self) {
        self.shut = true;
        self.cache.clear();
    }
}
