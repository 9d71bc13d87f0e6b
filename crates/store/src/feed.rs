//! The change feed: which records changed since a position.
//!
//! An engine keeps an entry for each of the latest batches that changed records. An entry has the keys
//! of those records, and neither values nor counters. Its bytes are encoded and decoded here, or by
//! [`compact`]. Whoever caches records asks for changes now and then, and drops what has changed.

pub mod compact;

use bytes::{BufMut, Bytes, BytesMut};

use crate::{Key, Plan, StoreError, StoreErrorKind, Write};

/// Batches that an engine keeps entries of, at least. A reader that is further behind may meet a gap.
pub const FEED_BATCHES: usize = 2_048;

/// Bytes of the keys of one batch, at most. The entry of a larger batch says only that any record may
/// have changed.
pub const FEED_BATCH_BYTES_MAX: usize = 64 << 10;

/// Keys in one answer, at most. A reader for whom there are more meets a gap.
pub const FEED_KEYS_MAX: usize = 128 << 10;

/// A position in the order of changes. Its bytes mean something to the engine only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position(pub Bytes);

/// What changed since a position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changes {
    /// The records under these keys were put or deleted. They are in no particular order, and may
    /// repeat each other or an earlier answer.
    Notified {
        /// The keys.
        keys: Vec<Key>,
        /// Where to continue.
        next: Position,
    },
    /// Entries since the position are missing or too many: any record may have changed.
    Gap {
        /// Where to continue.
        next: Position,
    },
}

/// What each plan of a batch adds to the feed. An engine concatenates the pieces of the plans that it
/// commits, in any order, and that is the batch's entry. It adds none if that is empty.
pub fn pieces(plans: &[Plan]) -> Vec<Bytes> {
    let pieces: Vec<Bytes> = plans.iter().map(piece).collect();
    if pieces.iter().map(Bytes::len).sum::<usize>() <= FEED_BATCH_BYTES_MAX {
        return pieces;
    }
    let whole = |piece: Bytes| if piece.is_empty() { piece } else { Bytes::from_static(ALL) };
    pieces.into_iter().map(whole).collect()
}

/// A key of no bytes: any record may have changed.
const ALL: &[u8] = &[0, 0];

fn piece(plan: &Plan) -> Bytes {
    let mut piece = BytesMut::new();
    for write in &plan.writes {
        if let Write::Put(key, _) | Write::Delete(key) = write {
            let bytes = key.as_bytes();
            // No engine's keys are longer; if one's were, this would still be true.
            let Ok(length) = u16::try_from(bytes.len()) else { return Bytes::from_static(ALL) };
            piece.put_u16(length);
            piece.extend_from_slice(bytes);
        }
    }
    piece.freeze()
}

/// Decodes the entries since a position, in order.
///
/// # Errors
/// [`StoreErrorKind::Corrupt`] if an entry is not a sequence of pieces.
pub fn decode(
    entries: impl IntoIterator<Item = Bytes>,
    next: Position,
) -> Result<Changes, StoreError> {
    let mut keys = Vec::new();
    for mut entry in entries {
        while !entry.is_empty() {
            let key = take_key(&mut entry).ok_or_else(|| {
                StoreError::new(StoreErrorKind::Corrupt, "reading an entry of the change feed")
            })?;
            if key.is_empty() || keys.len() == FEED_KEYS_MAX {
                return Ok(Changes::Gap { next });
            }
            if key.len() < Key::PREFIX_BYTES {
                return Err(StoreError::new(
                    StoreErrorKind::Corrupt,
                    "reading a key of the change feed",
                ));
            }
            keys.push(Key::from_bytes(key));
        }
    }
    Ok(Changes::Notified { keys, next })
}

fn take_key(entry: &mut Bytes) -> Option<Bytes> {
    let (length, rest) = entry.split_first_chunk::<2>()?;
    let length = usize::from(u16::from_be_bytes(*length));
    if rest.len() < length {
        return None;
    }
    let _ = entry.split_to(2);
    Some(entry.split_to(length))
}

#[cfg(test)]
mod tests;
