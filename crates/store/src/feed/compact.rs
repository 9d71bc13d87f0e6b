//! Compact entries, for engines that keep the feed where bytes are expensive: the sorted keys of a
//! batch, each without the prefix that it shares with the key before.
//!
//! A key is encoded as the length of the shared prefix (one byte), the length of the rest (one or
//! two bytes), and the rest. The first key shares no bytes, so entries can be concatenated. A key
//! of no bytes marks that any record may have changed.
//!
//! For example, the keys `dir1/a` and `dir1/b` are encoded as `0 6 dir1/a` and `5 1 b`.
//!
//! The keys of one batch are similar: most are new records below a few parents, with consecutive
//! numbers. If an engine does not know yet which plans will be committed, each plan has its own
//! piece. Pieces are longer in total, since keys of different plans share no prefix.

use std::collections::BTreeSet;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

use super::FEED_BATCH_BYTES_MAX;
use crate::{Key, Plan};

/// An encoded key of no bytes: the mark that any record may have changed.
const ALL: &[u8] = &[0, 0];

/// The bit of the first byte that marks a length of two bytes.
const LONG: u16 = 0x8000;

/// Returns the feed's entry, that is, the encoded keys of the changed records, of a batch of which
/// all plans are committed.
pub fn entry<'a>(plans: impl IntoIterator<Item = &'a Plan> + Clone) -> Bytes {
    let fits = fits(plans.clone());
    join(plans, fits)
}

/// Returns one piece for each plan: the encoded keys of the records that it writes. The engine adds
/// it to the batch's entry in the feed if it commits the plan. Returns no pieces at all if no plan
/// changes records.
pub fn pieces(plans: &[Plan]) -> Vec<Bytes> {
    let fits = fits(plans);
    let pieces: Vec<Bytes> = plans.iter().map(|plan| join([plan], fits)).collect();
    if pieces.iter().all(Bytes::is_empty) { Vec::new() } else { pieces }
}

fn fits<'a>(plans: impl IntoIterator<Item = &'a Plan>) -> bool {
    let bytes: usize =
        plans.into_iter().flat_map(Plan::changed_records).map(|key| key.as_bytes().len()).sum();
    bytes <= FEED_BATCH_BYTES_MAX
}

fn join<'a>(plans: impl IntoIterator<Item = &'a Plan>, fits: bool) -> Bytes {
    // Sorted, so that adjacent keys share long prefixes, and without duplicates.
    let keys: BTreeSet<&[u8]> =
        plans.into_iter().flat_map(Plan::changed_records).map(Key::as_bytes).collect();
    if !fits && !keys.is_empty() {
        return Bytes::from_static(ALL);
    }
    let mut entry = BytesMut::new();
    let mut before: &[u8] = &[];
    for key in keys {
        let alike = key.iter().zip(before).take_while(|(a, b)| a == b).count();
        let shared = u8::try_from(alike).unwrap_or(u8::MAX);
        let rest = key.get(usize::from(shared)..).unwrap_or_default();
        // All keys of engines are shorter. The mark would be correct for a longer one too.
        let Some(length) = u16::try_from(rest.len()).ok().filter(|length| *length < LONG) else {
            return Bytes::from_static(ALL);
        };
        entry.put_u8(shared);
        match u8::try_from(length) {
            Ok(length) if length < 0x80 => entry.put_u8(length),
            _ => entry.put_u16(LONG | length),
        }
        entry.extend_from_slice(rest);
        before = key;
    }
    entry.freeze()
}

/// Splits concatenated compact entries of the feed into keys. Each key becomes an entry in the form
/// that `feed::decode` takes. Malformed input becomes one entry that `decode` refuses.
#[derive(Debug)]
pub struct Entries {
    rest: Bytes,
    before: Vec<u8>,
}

impl Entries {
    /// Starts at the first key of `joined`.
    pub fn new(joined: Bytes) -> Entries {
        Entries { rest: joined, before: Vec::new() }
    }

    fn take(&mut self) -> Option<Bytes> {
        let rest = &mut self.rest;
        let shared = usize::from(rest.try_get_u8().ok()?);
        let length = match rest.first()? {
            byte if *byte < 0x80 => u16::from(rest.try_get_u8().ok()?),
            _ => rest.try_get_u16().ok()? & !LONG,
        };
        let length = usize::from(length);
        if shared > self.before.len() || length > rest.len() {
            return None;
        }
        self.before.truncate(shared);
        self.before.extend_from_slice(&rest.split_to(length));
        let mut piece = BytesMut::with_capacity(self.before.len() + 2);
        piece.put_u16(u16::try_from(self.before.len()).ok()?);
        piece.extend_from_slice(&self.before);
        Some(piece.freeze())
    }
}

impl Iterator for Entries {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.rest.is_empty() {
            return None;
        }
        Some(self.take().unwrap_or_else(|| {
            // Stop here: the lengths of all later keys depend on this one.
            self.rest.clear();
            Bytes::from_static(&[0xff])
        }))
    }
}

#[cfg(test)]
mod tests;
