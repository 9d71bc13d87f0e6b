//! Keys: a space, a partition and a suffix in one string of bytes.
//!
//! For example, the entry `a` of the directory with inode 7 can have the space `d`, the partition 7
//! and the suffix `a`. A range over the partition then lists the directory.

use std::fmt;

use bytes::Bytes;

/// The bytes of a record. An engine does not interpret them.
pub type Value = Bytes;

/// The kind of a record: the first byte of its key.
///
/// Spaces named by a lowercase letter are *ordered*: ranges may scan them. All others are *point*
/// spaces, in which records are only read by their key. An engine must keep the order of ordered
/// spaces only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Space(pub u8);

impl Space {
    /// Returns true if ranges may scan this space.
    pub const fn is_ordered(self) -> bool {
        self.0.is_ascii_lowercase()
    }
}

/// The key of a record: one byte of space, eight bytes of partition, then a suffix of any length.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Bytes);

impl Key {
    /// The length of the space and the partition together, in bytes. No key is shorter.
    pub const PREFIX_BYTES: usize = 9;

    /// Joins a space, a partition and a suffix to a key.
    pub fn new(space: Space, partition: u64, suffix: &[u8]) -> Key {
        let mut bytes = Vec::with_capacity(Key::PREFIX_BYTES + suffix.len());
        bytes.push(space.0);
        bytes.extend_from_slice(&partition.to_be_bytes());
        bytes.extend_from_slice(suffix);
        Key(bytes.into())
    }

    /// Converts the bytes of a whole key, as a store has them: space, partition and suffix.
    ///
    /// # Panics
    /// Panics if there are fewer than [`Key::PREFIX_BYTES`].
    pub fn from_bytes(bytes: impl Into<Bytes>) -> Key {
        let bytes = bytes.into();
        assert!(bytes.len() >= Key::PREFIX_BYTES, "a key has a space and a partition");
        Key(bytes)
    }

    /// Returns the whole key.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the whole key as shared bytes, without a copy.
    pub fn to_bytes(&self) -> Bytes {
        self.0.clone()
    }

    /// Returns the space, which is the kind of the record.
    pub fn space(&self) -> Space {
        Space(self.0[0])
    }

    /// Returns the partition, the eight bytes after the space, as a big-endian number.
    pub fn partition(&self) -> u64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.0[1..Key::PREFIX_BYTES]);
        u64::from_be_bytes(bytes)
    }

    /// Returns the bytes after the partition.
    pub fn suffix(&self) -> &[u8] {
        &self.0[Key::PREFIX_BYTES..]
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let space = char::from(self.0[0]);
        write!(f, "{space}/{:x}/{}", self.partition(), self.suffix().escape_ascii())
    }
}

/// The key of a counter. Counters and records have separate key spaces: a record and a counter may
/// have the same bytes as key, and only `AtMost` guards a counter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CounterKey(pub Key);
