//! A bounded set of records, and of some names of each directory.

use std::fmt;
use std::hash::Hash;

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};
use record::Ino;
use record::key::space;
use store::{Key, Value};

use super::currency::Generation;

/// The largest value that is remembered as a hint, in bytes. Larger ones hold inline content.
pub const HINT_VALUE_BYTES_MAX: usize = 8 << 10;

/// The largest value that is remembered while it is current, in bytes: the metadata of any file, and
/// the body that is staged inline in it.
pub const CURRENT_VALUE_BYTES_MAX: u64 = record::INLINE_BYTES_MAX + (8 << 10);

/// What an entry costs besides its bytes, about.
const ENTRY_BYTES: u64 = 160;

/// Names remembered of a directory.
pub(super) const NAMES: usize = 3;

/// The budget is cut into so many parts: inodes have [`INODE_PARTS`], names of directories
/// [`NAME_PARTS`], directories that are known whole [`COMPLETE_DIRECTORY_PARTS`], and the rest is for what is
/// smaller and needed by every write.
const PARTS: u64 = 16;
const INODE_PARTS: u64 = 8;
const NAME_PARTS: u64 = 2;
const COMPLETE_DIRECTORY_PARTS: u64 = 1;

/// The fewest bytes of a shard. What is larger than a shard is not remembered.
const SHARD_BYTES_MIN: u64 = 2 << 20;

/// The most shards of a part.
const SHARDS_MAX: u64 = 64;

/// What of the budget is for directories that are known whole.
pub(super) fn complete_directories_bytes(bytes: u64) -> u64 {
    COMPLETE_DIRECTORY_PARTS * (bytes / PARTS)
}

/// A record as it was last seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Remembered {
    /// `None` if there was none.
    pub(super) value: Option<Value>,
    /// The generation in which it certainly is what the store holds; in any other one it is a hint.
    pub(super) current_in: Generation,
}

impl Remembered {
    /// Whether it may be remembered. What is absent is no hint: planners guess it.
    fn is_cacheable(&self, key: &Key) -> bool {
        match (&self.value, self.current_in) {
            (Some(_), Generation::NONE) if key.space() == space::COUNTER => false,
            (Some(value), Generation::NONE) => value.len() <= HINT_VALUE_BYTES_MAX,
            (Some(value), _) => value.len() as u64 <= CURRENT_VALUE_BYTES_MAX,
            (None, Generation::NONE) => false,
            // Numbers of inodes are never used again: nobody asks for one that is gone.
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

/// Records and names, about as many bytes of them as were asked for.
///
/// Lookups from any thread wait for a write to the same shard only. Whoever changes anything here is
/// the only one who does: see [`super::RecordCache`].
pub(super) struct Entries {
    /// All but inodes.
    records: Cache<Key, Remembered, Bytes>,
    inodes: Cache<Key, Remembered, Bytes>,
    /// Of each directory the names last seen in it, newest first.
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
            records: cache(bytes - inodes - names - complete_directories_bytes(bytes)),
            inodes: cache(inodes),
            names: cache(names),
        }
    }

    fn cache_of(&self, key: &Key) -> &Cache<Key, Remembered, Bytes> {
        if key.space() == space::INODE { &self.inodes } else { &self.records }
    }

    /// The record as last seen; `None` if nothing is remembered.
    pub(super) fn get(&self, key: &Key) -> Option<Remembered> {
        self.cache_of(key).get(key)
    }

    /// Takes note of a record, if it is worth it, and forgets what was remembered in any case.
    pub(super) fn set(&self, key: &Key, record: Remembered) {
        let records = self.cache_of(key);
        if record.is_cacheable(key) {
            records.insert(key.clone(), record);
        } else {
            records.remove(key);
        }
    }

    /// Makes a hint of a record that is remembered.
    pub(super) fn demote(&self, key: &Key) {
        let records = self.cache_of(key);
        let Some(record) = records.peek(key) else { return };
        if record.current_in == Generation::NONE {
            return;
        }
        let hint = Remembered { current_in: Generation::NONE, ..record };
        if hint.is_cacheable(key) {
            // It may have been pushed out meanwhile, and is then not put back.
            let _pushed_out = records.replace(key.clone(), hint, true);
        } else {
            records.remove(key);
        }
    }

    /// Forgets a record.
    pub(super) fn remove(&self, key: &Key) {
        self.cache_of(key).remove(key);
    }

    /// Takes note that a directory holds a name, if the key is of one.
    pub(super) fn add_name(&self, key: &Key) {
        let Some(directory) = directory(key) else { return };
        let mut names = self.names.get(&directory).unwrap_or_default();
        if !names.iter().flatten().any(|name| name == key) {
            names.rotate_right(1);
            names[0] = Some(key.clone());
            self.names.insert(directory, names);
        }
    }

    /// Takes note that a directory does not hold a name, if the key is of one.
    pub(super) fn remove_name(&self, key: &Key) {
        let Some(directory) = directory(key) else { return };
        let Some(mut names) = self.names.get(&directory) else { return };
        let mut held = names.iter_mut().filter(|name| name.as_ref() == Some(key));
        if let Some(name) = held.next() {
            *name = None;
            self.names.insert(directory, names);
        }
    }

    /// Some name in a directory besides `not`, as last seen.
    pub(super) fn sibling(&self, directory: Ino, not: &[u8]) -> Option<Key> {
        let names = self.names.get(&directory)?;
        names.into_iter().flatten().find(|name| name.suffix() != not)
    }

    /// Forgets everything.
    pub(super) fn clear(&self) {
        self.records.clear();
        self.inodes.clear();
        self.names.clear();
    }

    /// Bytes that are taken up.
    #[cfg(test)]
    pub(super) fn weight(&self) -> u64 {
        self.records.weight() + self.inodes.weight() + self.names.weight()
    }
}

/// The directory that a key is a name in.
fn directory(key: &Key) -> Option<Ino> {
    (key.space() == space::DENTRY).then(|| Ino(key.partition()))
}

/// A cache of about so many bytes. It is cut into shards as far as each of them has room for what is
/// large.
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
