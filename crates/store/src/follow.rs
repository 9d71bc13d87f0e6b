//! Follows: reading a record and the record to which it points in one round trip.
//!
//! For example, a directory entry has the number of its inode. A read of the entry with a follow
//! returns the inode's record too.
//!
//! A reader that needs only the first bytes of a target sets [`Follow::bytes_max`], and the engine
//! sends no more of it. A target that was cut is a [`Beginning`] and not a [`Value`], so it cannot
//! be used in a guard or be cached as the record.

use bytes::Bytes;

use crate::{Key, Value};

/// The rule that derives a target's key from a record's value.
///
/// The target's key is `prefix`, followed by `length` bytes of the value from `offset`. A value
/// that is too short to contain them has no target. The bytes of `prefix` and `length` add up to a
/// valid key: at least [`Key::PREFIX_BYTES`], at most the engine's limit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Follow {
    /// The first bytes of the target's key: its space, or the space and more.
    pub prefix: Bytes,
    /// Position in the record's value, in bytes, at which the rest of the target's key begins.
    pub offset: u8,
    /// Number of bytes of the record's value that complete the target's key after `prefix`.
    pub length: u8,
    /// Largest number of bytes of a target that the reader needs; `None` for the whole target. A
    /// longer target is cut to this length. At most `Limits::value_bytes`.
    pub bytes_max: Option<u32>,
}

impl Follow {
    /// Returns the key of the record to which `value` points, or `None` if the value is too short
    /// to contain the rest of the key.
    pub fn target(&self, value: &[u8]) -> Option<Key> {
        let start = usize::from(self.offset);
        let tail = value.get(start..start + usize::from(self.length))?;
        Some(Key::from_bytes([&self.prefix, tail].concat()))
    }

    /// Returns the number of bytes that an engine fetches of a target, or `None` for all. It is one
    /// more than [`Follow::bytes_max`], so that the engine sees if the target is longer.
    pub fn fetch_bytes(&self) -> Option<u32> {
        self.bytes_max.map(|bytes| bytes.saturating_add(1))
    }

    /// Converts the bytes that an engine fetched of a target: the whole record, or its first
    /// `Follow::fetch_bytes` bytes if it is longer. `None` means that there is no target.
    pub fn to_target(&self, fetched: Option<Bytes>) -> Target {
        let Some(mut bytes) = fetched else { return Target::Absent };
        match self.bytes_max.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX)) {
            Some(limit) if bytes.len() > limit => {
                bytes.truncate(limit);
                Target::Cut(Beginning(bytes))
            }
            _ => Target::Whole(bytes),
        }
    }
}

/// The result of a follow: the record to which a found record points, or a part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Target {
    /// The read had no `Follow`, that is, no rule that finds a target, or the target does not
    /// exist.
    #[default]
    Absent,
    /// The whole record.
    Whole(Value),
    /// The first bytes of a record that is longer than [`Follow::bytes_max`].
    Cut(Beginning),
}

impl Target {
    /// Returns the record if all of it was fetched.
    pub fn whole(&self) -> Option<&Value> {
        match self {
            Target::Whole(value) => Some(value),
            Target::Absent | Target::Cut(_) => None,
        }
    }

    /// Returns the bytes that were fetched, all or the first; `None` if there is no target.
    pub fn first_bytes(&self) -> Option<&[u8]> {
        match self {
            Target::Absent => None,
            Target::Whole(value) => Some(value),
            Target::Cut(beginning) => Some(beginning.as_bytes()),
        }
    }
}

/// The first bytes of a target that is longer than the reader needs. It is not a `Value`, so it
/// cannot be taken for the whole record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Beginning(Bytes);

impl Beginning {
    /// Returns these first bytes; their number is `Follow::bytes_max`.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests;
