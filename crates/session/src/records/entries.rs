//! The entries of the record cache, and a few names of each directory, in a bounded number of
//! bytes.

use std::fmt;
use std::hash::Hash;

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};
use record::Ino;
use record::key::space;
use store::{Key, Value};

use super::currency::Generation;

/// Largest value of a hint (an entry that may be old), in bytes. Larger values have inline content,
/// which hints do not need.
pub const HINT_VALUE_BYTES_MAX: usize = 8 << 10;

/// Largest value of a current entry (certainly equal to the store's record), in bytes: the metadata
/// of any file, with a body that is kept in its record for a while.
pub const CURRENT_VALUE_BYTES_MAX: u64 = record::INLINE_BYTES_MAX + (8 << 10);

/// Approximate bytes of an entry without its key and value.
const ENTRY_BYTES: u64 = 160;

/// The number of names that are kept for each directory.
pub(super) const NAMES: usize = 3;

/// Parts into which the budget is divided. Inodes get [`INODE_PARTS`], names of directories
/// [`NAME_PARTS`], complete directories [`COMPLETE_DIRECTORY_PARTS`], and pages of listings
/// [`LISTING_PARTS`]. The rest is for records that are smaller and that every write needs.
const PARTS: u64 = 16;
const INODE_PARTS: u64 = 7;
const NAME_PARTS: u64 = 1;
const COMPLETE_DIRECTORY_PARTS: u64 = 2;
const LISTING_PARTS: u64 = 2;

/// Smallest size of a shard, in bytes. A record larger than its shard is not cached.
const SHARD_BYTES_MIN: u64 = 2 << 20;

/// Most shards of a part.
const SHARDS_MAX: u64 = 64;

/// Returns the bytes of a cache of `bytes` that are for complete directories, those whose names are
/// all known.
pub(super) fn complete_directories_bytes(bytes: u64) -> u64 {
    COMPLETE_DIRECTORY_PARTS * (bytes / PARTS)
}

/// Returns the bytes of a cache of `bytes` that are for pages of listings.
pub(super) fn listings_bytes(bytes: u64) -> u64 {
    LISTING_PARTS * (bytes / PARTS)
}

/// A record as it was last seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Remembered {
    /// The value; `None` if the record was absent.
    pub(super) value: Option<Value>,
    /// The generation in which the entry certainly equals the record in the store. In any other it
    /// is a hint.
    pub(super) current_in: Generation,
}

impl Remembered {
    /// Returns true if the entry may be cached. The absence of a record is cached only while it is
    /// current (certain), since planners guess it anyway.
    fn is_cacheable(&self, key: &Key) -> bool {
        match (&self.value, self.current_in) {
            (Some(_), Generation::NONE) if key.space() == space::COUNTER => false,
            (Some(value), Generation::NONE) => value.len() <= HINT_VALUE_BYTES_MAX,
            (Some(value), _) => value.len() as u64 <= CURRENT_VALUE_BYTES_MAX,
            (None, Generation::NONE) => false,
            // Inode numbers are never used again, so no operation asks for a deleted one.
            (None, _) => key.space() != space::INODE,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Bytes;

impl Weighter<Key, Remembered> for Bytes {
    fn weight(&self, key: &Key, record: &Remembered) -> u64 {
        ENTRY_BYTES + (key.as_bytes().len() + record.value.as_ref().map_or(0, Value::len)) as u64
    }
}

impl Weighter<Ino, [Option<Key>; NAMES]> for Bytes {
    fn weight(&self, _: &Ino, names: &[Option<Key>; NAMES]) -> u64 {
        let bytes: usize = names.iter().flatten().map(|name| name.as_bytes().len()).sum();
        ENTRY_BYTES + bytes as u64
    }
}

/// The entries of the record cache and some names of directories, in about the given number of
/// bytes.
///
/// A lookup waits only for a write to the same shard. All changes are made under one mutex: see
/// [`super::RecordCache`].
pub(super) struct Entries {
    /// All records but inodes.
    records: Cache<Key, Remembered, Bytes>,
    inodes: Cache<Key, Remembered, Bytes>,
    /// The last names seen in each directory, newest first.
    names: Cache<Ino, [Option<Key>; NAMES], Bytes>,
}

impl fmt::Debug for Entries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entries")
            .field("records", &self.records.len())
            .field("inodes", &self.inodes.len())
            .field("directories", &self.names.len())
            .finish()
    }
}

impl Entries {
    pub(super) fn new(bytes: u64) -> Entries {
        let part = bytes / PARTS;
        let [inodes, names] = [INODE_PARTS * part, NAME_PARTS * part];
        Entries {
            records: cache(
                bytes - inodes - names - complete_directories_bytes(bytes) - listings_bytes(bytes),
            ),
            inodes: cache(inodes),
            names: cache(names),
        }
    }

    fn cache_of(&self, key: &Key) -> &Cache<Key, Remembered, Bytes> {
        if key.space() == space::INODE { &self.inodes } else { &self.records }
    }

    /// Returns the entry of a record; `None` if there is none.
    pub(super) fn get(&self, key: &Key) -> Option<Remembered> {
        self.cache_of(key).get(key)
    }

    /// Stores an entry in place of the one before. If the new one may not be cached, only the old
    /// one is removed.
    pub(super) fn set(&self, key: &Key, record: Remembered) {
        let records = self.cache_of(key);
        if record.is_cacheable(key) {
            records.insert(key.clone(), record);
        } else {
            records.remove(key);
        }
    }

    /// Makes the entry of a record a hint, which may be old, or removes it if it is too large for a
    /// hint or an absence.
    pub(super) fn demote(&self, key: &Key) {
        let records = self.cache_of(key);
        let Some(record) = records.peek(key) else { return };
        if record.current_in == Generation::NONE {
            return;
        }
        let hint = Remembered { current_in: Generation::NONE, ..record };
        if hint.is_cacheable(key) {
            // Another insertion may have evicted it in between. Then it stays out.
            let _pushed_out = records.replace(key.clone(), hint, true);
        } else {
            records.remove(key);
        }
    }

    /// Removes the entry of a record.
    pub(super) fn remove(&self, key: &Key) {
        self.cache_of(key).remove(key);
    }

    /// Adds a name to its directory, if `key` is that of a dentry.
    pub(super) fn add_name(&self, key: &Key) {
        let Some(directory) = directory(key) else { return };
        let mut names = self.names.get(&directory).unwrap_or_default();
        if !names.iter().flatten().any(|name| name == key) {
            names.rotate_right(1);
            names[0] = Some(key.clone());
            self.names.insert(directory, names);
        }
    }

    /// Removes a name from its directory, if `key` is that of a dentry.
    pub(super) fn remove_name(&self, key: &Key) {
        let Some(directory) = directory(key) else { return };
        let Some(mut names) = self.names.get(&directory) else { return };
        let mut held = names.iter_mut().filter(|name| name.as_ref() == Some(key));
        if let Some(name) = held.next() {
            *name = None;
            self.names.insert(directory, names);
        }
    }

    /// Returns a name of the directory other than `not`, as last seen.
    pub(super) fn sibling(&self, directory: Ino, not: &[u8]) -> Option<Key> {
        let names = self.names.get(&directory)?;
        names.into_iter().flatten().find(|name| name.suffix() != not)
    }

    /// Removes all entries and names.
    pub(super) fn clear(&self) {
        self.records.clear();
        self.inodes.clear();
        self.names.clear();
    }

    /// Returns the bytes in use.
    #[cfg(test)]
    pub(super) fn weight(&self) -> u64 {
        self.records.weight() + self.inodes.weight() + self.names.weight()
    }
}

/// Returns the directory that contains the name `key`; `None` if `key` is not that of a dentry.
fn directory(key: &Key) -> Option<Ino> {
    (key.space() == space::DENTRY).then(|| Ino(key.partition()))
}

/// Creates a cache of about `bytes`. The number of shards is such that a large record still fits
/// into one.
fn cache<K: Eq + Hash, V: Clone>(bytes: u64) -> Cache<K, V, Bytes>
where
    Bytes: Weighter<K, V>,
{
    let count = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    let options = OptionsBuilder::new()
        .weight_capacity(bytes)
        .estimated_items_capacity(count(bytes / (2 * ENTRY_BYTES)))
        .shards(count(1 << (bytes / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX).ilog2()))
        .build()
        .expect("both capacities are given");
    let (hashing, lifecycle) = (DefaultHashBuilder::default(), DefaultLifecycle::default());
    Cache::with_options(options, Bytes, hashing, lifecycle)
}
