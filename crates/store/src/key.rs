//! Keys: a space, a partition and a suffix, as one string of bytes.

use std::fmt;

use bytes::Bytes;

/// A record's bytes.
pub type Value = Bytes;

/// The first byte of a key: which kind of record stands under it.
///
/// A lowercase letter names an *ordered* space, which ranges may scan; anything else names a *point*
/// space, whose records are only ever asked for by key. An engine may keep the order of ordered
/// spaces alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Space(pub u8);

impl Space {
    /// Whether ranges may scan this space.
    pub const fn is_ordered(self) -> bool {
        self.0.is_ascii_lowercase()
    }
}

/// A record's key: one byte of space, eight of partition, then a suffix of any length.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Bytes);

impl Key {
    /// Bytes before the suffix.
    pub const PREFIX_BYTES: usize = 9;

    /// Puts a key together.
    pub fn new(space: Space, partition: u64, suffix: &[u8]) -> Key {
        let mut bytes = Vec::with_capacity(Key::PREFIX_BYTES + suffix.len());
        bytes.push(space.0);
        bytes.extend_from_slice(&partition.to_be_bytes());
        bytes.extend_from_slice(suffix);
        Key(bytes.into())
    }

    /// Takes a key's bytes as they stand in a store.
    ///
    /// # Panics
    /// If there are fewer than [`Key::PREFIX_BYTES`].
    pub fn from_bytes(bytes: impl Into<Bytes>) -> Key {
        let bytes = bytes.into();
        assert!(bytes.len() >= Key::PREFIX_BYTES, "a key has a space and a partition");
        Key(bytes)
    }

    /// The whole key.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The whole key, shared.
    pub fn to_bytes(&self) -> Bytes {
        self.0.clone()
    }

    /// Which kind of record stands under this key.
    pub fn space(&self) -> Space {
        Space(self.0[0])
    }

    /// The partition's eight bytes as a number.
    pub fn partition(&self) -> u64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.0[1..Key::PREFIX_BYTES]);
        u64::from_be_bytes(bytes)
    }

    /// What follows the partition.
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

/// A counter's key. Counters stand apart from records, so that no guard can name one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CounterKey(pub Key);
