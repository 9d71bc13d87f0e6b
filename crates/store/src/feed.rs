//! The change feed: which records changed since a position.
//!
//! An engine remembers the latest batches that changed records, each as one entry whose bytes this
//! module makes and reads, or [`brief`] does. Whoever remembers records asks now and then, and
//! forgets what it is told of. Values are not told, nor are counters.

pub mod brief;

use bytes::{BufMut, Bytes, BytesMut};

use crate::{Key, Plan, StoreError, StoreErrorKind, Write};

/// Batches that an engine remembers, at least. A reader further behind may have missed some.
pub const FEED_BATCHES: usize = 2_048;

/// Bytes of the keys of one batch, at most. Of a larger batch it is told that it happened, and
/// whoever reads it has to forget everything.
pub const FEED_BATCH_BYTES_MAX: usize = 64 << 10;

/// Keys that one answer tells, at most. A reader for whom there are more has missed some.
pub const FEED_KEYS_MAX: usize = 128 << 10;

/// A place in the order of changes, as the engine writes it. It means nothing to anybody else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position(pub Bytes);

/// What changed since a position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changes {
    /// Records under these keys were put or deleted, in no particular order. A key may stand here
    /// more than once, and may have been told before.
    Told {
        /// The keys.
        keys: Vec<Key>,
        /// Where to go on.
        next: Position,
    },
    /// More happened than can be told: any record may have changed.
    Missed {
        /// Where to go on.
        next: Position,
    },
}

/// What a batch adds to the feed, plan by plan: an engine joins the pieces of the plans that it
/// commits to one entry, in any order, and adds none if the entry is empty.
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

/// Reads the entries since a position, in order, each the joined pieces of a batch, and says what
/// they tell.
///
/// # Errors
/// [`StoreErrorKind::Corrupt`] if an entry is not made of pieces.
pub fn tell(
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
                return Ok(Changes::Missed { next });
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
    Ok(Changes::Told { keys, next })
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
