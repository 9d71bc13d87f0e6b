//! Compact entries, for engines that keep the feed where bytes are expensive: the keys of a batch in
//! order, each without the prefix that it shares with the one before.
//!
//! A key is encoded as one byte, the length of the shared prefix; one byte or two, the length of the
//! rest; and the rest. The first key shares nothing, so entries may be concatenated. A key without
//! bytes says that any record may have changed.
//!
//! This pays because the keys of one batch are much alike: most of them are new records below a few
//! parents, with consecutive numbers. If it is not yet known which plans will be committed, each plan
//! has a piece of its own. These are longer, since keys of different plans share nothing.

use std::collections::BTreeSet;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

use super::FEED_BATCH_BYTES_MAX;
use crate::{Key, Plan, Write};

/// A key without bytes: any record may have changed.
const ALL: &[u8] = &[0, 0];

/// The first bit of a length that takes two bytes.
const LONG: u16 = 0x8000;

/// The entry of a batch of which all plans are committed.
pub fn entry<'a>(plans: impl IntoIterator<Item = &'a Plan> + Clone) -> Bytes {
    let fits = fits(plans.clone());
    join(plans, fits)
}

/// What each plan of a batch adds to the entry if it is committed. There are no pieces at all if no
/// plan changes records.
pub fn pieces(plans: &[Plan]) -> Vec<Bytes> {
    let fits = fits(plans);
    let pieces: Vec<Bytes> = plans.iter().map(|plan| join([plan], fits)).collect();
    if pieces.iter().all(Bytes::is_empty) { Vec::new() } else { pieces }
}

fn fits<'a>(plans: impl IntoIterator<Item = &'a Plan>) -> bool {
    let bytes: usize = plans.into_iter().flat_map(changed).map(|key| key.as_bytes().len()).sum();
    bytes <= FEED_BATCH_BYTES_MAX
}

fn changed(plan: &Plan) -> impl Iterator<Item = &Key> {
    plan.writes.iter().filter_map(|write| match write {
        Write::Put(key, _) | Write::Delete(key) => Some(key),
        _ => None,
    })
}

fn join<'a>(plans: impl IntoIterator<Item = &'a Plan>, fits: bool) -> Bytes {
    let keys: BTreeSet<&[u8]> = plans.into_iter().flat_map(changed).map(Key::as_bytes).collect();
    if !fits && !keys.is_empty() {
        return Bytes::from_static(ALL);
    }
    let mut entry = BytesMut::new();
    let mut before: &[u8] = &[];
    for key in keys {
        let alike = key.iter().zip(before).take_while(|(a, b)| a == b).count();
        let shared = u8::try_from(alike).unwrap_or(u8::MAX);
        let rest = key.get(usize::from(shared)..).unwrap_or_default();
        // No engine's keys are longer; if one's were, this would still be true.
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

/// Splits concatenated entries into keys, each as an entry of its own in the form that
/// [`super::decode`] takes. What cannot be read becomes an entry that it refuses.
#[derive(Debug)]
pub struct Entries {
    rest: Bytes,
    before: Vec<u8>,
}

impl Entries {
    /// Reads from the beginning.
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
            self.rest.clear();
            Bytes::from_static(&[0xff])
        }))
    }
}

#[cfg(test)]
mod tests;
