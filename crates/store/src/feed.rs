//! The change feed: the keys of the records that changed since a position.
//!
//! An engine keeps one entry for each of the latest batches that changed records. An entry has the
//! keys of those records, without values or counters. This module encodes and decodes entries;
//! [`compact`] has a shorter form. A cache asks for changes from time to time and drops the records
//! that changed.
//!
//! For example, a cache takes position 17 and reads the record `a`. Another gateway then puts `a`.
//! The next [`changes`](crate::MetaStore::changes) call with position 17 returns the key of `a`.

pub mod compact;

use bytes::{BufMut, Bytes, BytesMut};

use crate::{Key, Plan, StoreError, StoreErrorKind, Write};

/// The least number of batches of which an engine keeps the changed keys. A reader that is further
/// behind may get `Changes::Gap`, that is, the answer that any record may have changed.
pub const FEED_BATCHES: usize = 2_048;

/// Limit of the bytes of the changed keys of one batch in the feed. A larger batch has no keys in
/// it, but a mark that any record may have changed.
pub const FEED_BATCH_BYTES_MAX: usize = 64 << 10;

/// Limit of the keys of one answer. If more keys changed, the reader gets `Changes::Gap`: any
/// record may have changed.
pub const FEED_KEYS_MAX: usize = 128 << 10;

/// A position in the change feed of a store: the changes before it are known to the reader. The
/// bytes have a meaning for the engine only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position(pub Bytes);

/// The changes of records since a position in the feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changes {
    /// The records under these keys were put or deleted, and no others. The keys are in no
    /// particular order, and may repeat within this answer or an earlier one.
    Notified {
        /// The keys of the changed records. Their new values are not in the answer.
        keys: Vec<Key>,
        /// The position behind these changes, for the reader's next call.
        next: Position,
    },
    /// The engine has dropped changes since the position, or there are too many: any record may
    /// have changed, so a cache must drop all that it has.
    Gap {
        /// The current position, for the reader's next call.
        next: Position,
    },
}

/// Returns one piece for each plan of a batch: the encoded keys of the records that it writes. The
/// engine concatenates the pieces of the plans that it commits, in any order, and keeps the result
/// as the batch's entry in the feed. It keeps no entry if the result is empty. If the keys exceed
/// `FEED_BATCH_BYTES_MAX`, each piece is the mark that any record may have changed.
pub fn pieces(plans: &[Plan]) -> Vec<Bytes> {
    let pieces: Vec<Bytes> = plans.iter().map(piece).collect();
    if pieces.iter().map(Bytes::len).sum::<usize>() <= FEED_BATCH_BYTES_MAX {
        return pieces;
    }
    let whole = |piece: Bytes| if piece.is_empty() { piece } else { Bytes::from_static(ALL) };
    pieces.into_iter().map(whole).collect()
}

/// An encoded key of no bytes (a length of 0): the mark that any record may have changed.
const ALL: &[u8] = &[0, 0];

fn piece(plan: &Plan) -> Bytes {
    let mut piece = BytesMut::new();
    for write in &plan.writes {
        if let Write::Put(key, _) | Write::Delete(key) = write {
            let bytes = key.as_bytes();
            // All keys of engines are shorter. The mark would be correct for a longer one too.
            let Ok(length) = u16::try_from(bytes.len()) else { return Bytes::from_static(ALL) };
            piece.put_u16(length);
            piece.extend_from_slice(bytes);
        }
    }
    piece.freeze()
}

/// Decodes the entries of all batches since a position of the feed, in order. `next` becomes the
/// position for the reader's next call.
///
/// # Errors
/// [`StoreErrorKind::Corrupt`] if an entry is not a sequence of encoded keys.
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
            // An empty key is the mark that any record may have changed.
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
