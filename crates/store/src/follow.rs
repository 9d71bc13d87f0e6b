//! Following: from a record to the one that it points to, within the same round trip.
//!
//! A reader that needs the first bytes of targets alone says how many, and no more of them travel.
//! What came of a record that is longer is a [`Beginning`], which is no [`Value`]: so it cannot
//! stand in a guard, nor be remembered as the record.

use bytes::Bytes;

use crate::{Key, Value};

/// How to get from a record to the one it points to.
///
/// The target's key is `prefix` followed by the `length` bytes of the found value that begin at
/// `offset`. A value too short to hold them points nowhere. Prefix and length together are at
/// least [`Key::PREFIX_BYTES`], and no more than a key may have.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Follow {
    /// The first bytes of the target's key: its space, or its space and more.
    pub prefix: Bytes,
    /// Where in the found value the rest of the target's key begins.
    pub offset: u8,
    /// How many bytes of the found value complete the target's key.
    pub length: u8,
    /// How many bytes of a target are enough, if not all: of a longer one only the first so many
    /// come. No more than [`crate::Limits::value_bytes`].
    pub most: Option<u32>,
}

impl Follow {
    /// The key that `value` points to, if it is long enough to point anywhere.
    pub fn target(&self, value: &[u8]) -> Option<Key> {
        let start = usize::from(self.offset);
        let tail = value.get(start..start + usize::from(self.length))?;
        Some(Key::from_bytes([&self.prefix, tail].concat()))
    }

    /// How many bytes of a target an engine fetches at most: with one more than are enough it
    /// knows whether there are more.
    pub fn fetch_bytes(&self) -> Option<u32> {
        self.most.map(|most| most.saturating_add(1))
    }

    /// What the first [`Follow::fetch_bytes`] bytes of a target come to; `None` is no target.
    pub fn found(&self, fetched: Option<Bytes>) -> Target {
        let Some(mut bytes) = fetched else { return Target::Absent };
        match self.most.map(|most| usize::try_from(most).unwrap_or(usize::MAX)) {
            Some(most) if bytes.len() > most => {
                bytes.truncate(most);
                Target::Cut(Beginning(bytes))
            }
            _ => Target::Whole(bytes),
        }
    }
}

/// What a record pointed to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Target {
    /// Nothing was to be followed, or nothing is there.
    #[default]
    Absent,
    /// This record.
    Whole(Value),
    /// A record that is longer than [`Follow::most`], of which this is the beginning.
    Cut(Beginning),
}

impl Target {
    /// The record, if it came whole.
    pub fn whole(&self) -> Option<&Value> {
        match self {
            Target::Whole(value) => Some(value),
            Target::Absent | Target::Cut(_) => None,
        }
    }

    /// What came of the record, whole or not; `None` if there is none.
    pub fn first_bytes(&self) -> Option<&[u8]> {
        match self {
            Target::Absent => None,
            Target::Whole(value) => Some(value),
            Target::Cut(beginning) => Some(beginning.as_bytes()),
        }
    }
}

/// The first bytes of a record, and not all of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Beginning(Bytes);

impl Beginning {
    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests;
