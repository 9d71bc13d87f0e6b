//! Arithmetic between the ranges of a file, its slices and the blocks behind them.
//!
//! A content map is a list of slices in the order in which they were written. A later slice hides what
//! it covers of earlier ones. [`resolve`] returns what is visible within a range. Its answer covers the
//! range exactly once: bytes that no slice holds are returned as holes, and not left out.
//!
//! This crate does not know how a block is stored or fetched, or whether a hole is an error.

mod relocation;

use std::collections::BTreeMap;
use std::ops::Range;

use record::Slice;

pub use relocation::{Relocation, joined};

/// A part of a range whose bytes come from one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment {
    /// Bytes of a block: what shows of a slice, itself a slice with its own position, offset and
    /// length.
    Block(Slice),
    /// Bytes that no slice holds.
    Hole {
        /// Where in the file the hole begins.
        position: u64,
        /// Its length in bytes; never 0.
        length: u64,
    },
}

impl Segment {
    /// Where in the file the segment begins.
    pub const fn position(&self) -> u64 {
        match self {
            Segment::Block(slice) => slice.position,
            Segment::Hole { position, .. } => *position,
        }
    }

    /// Where in the file the segment ends.
    pub const fn end(&self) -> u64 {
        match self {
            Segment::Block(slice) => slice.end(),
            Segment::Hole { position, length } => *position + *length,
        }
    }
}

/// What shows of a content map within a range of the file: segments in ascending order that
/// cover the range exactly once. Later slices hide earlier ones. An empty range has no segments.
pub fn resolve(slices: &[Slice], range: Range<u64>) -> Vec<Segment> {
    // What shows so far, by position. No two of its slices overlap.
    let mut shown: BTreeMap<u64, Slice> = BTreeMap::new();
    for slice in slices.iter().filter_map(|slice| clip(slice, &range)) {
        hide(&mut shown, slice.position..slice.end());
        shown.insert(slice.position, slice);
    }
    let mut segments = Vec::with_capacity(shown.len());
    let mut position = range.start;
    for slice in shown.into_values() {
        segments.extend(hole(position..slice.position));
        position = slice.end();
        segments.push(Segment::Block(slice));
    }
    segments.extend(hole(position..range.end));
    segments
}

/// A content map that others were written over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overlay {
    /// What shows, in the order of positions. No two slices overlap.
    pub slices: Vec<Slice>,
    /// The pieces of the slices before that show no longer.
    pub hidden: Vec<Slice>,
}

/// Writes slices over those of a content map, and cuts it at `size`. Neither map has slices of its
/// own that overlap.
pub fn overlay(old: &[Slice], new: &[Slice], size: u64) -> Overlay {
    let whole = 0..size;
    let mut hidden: Vec<Slice> =
        old.iter().filter_map(|slice| clip(slice, &(size..u64::MAX))).collect();
    let mut shown: BTreeMap<u64, Slice> =
        old.iter().filter_map(|slice| clip(slice, &whole)).map(|s| (s.position, s)).collect();
    for slice in new.iter().filter_map(|slice| clip(slice, &whole)) {
        hidden.extend(hide(&mut shown, slice.position..slice.end()));
        shown.insert(slice.position, slice);
    }
    Overlay { slices: shown.into_values().collect(), hidden }
}

/// Takes a range away from a content map, which has no slices that overlap: it is a hole then.
pub fn clear(old: &[Slice], range: &Range<u64>) -> Overlay {
    let mut shown: BTreeMap<u64, Slice> =
        old.iter().map(|slice| (slice.position, *slice)).collect();
    let hidden = hide(&mut shown, range.clone());
    Overlay { slices: shown.into_values().collect(), hidden }
}

/// The first position within a range that a slice holds, or, if `hole` is wanted, that none does.
pub fn seek(slices: &[Slice], range: Range<u64>, hole: bool) -> Option<u64> {
    let is_wanted = |segment: &Segment| matches!(segment, Segment::Hole { .. }) == hole;
    resolve(slices, range).iter().find(|segment| is_wanted(segment)).map(Segment::position)
}

/// The part of a slice that lies within a range of the file, or `None` if there is none.
pub fn clip(slice: &Slice, range: &Range<u64>) -> Option<Slice> {
    let start = slice.position.max(range.start);
    let end = slice.end().min(range.end);
    // Both differences are at most the slice's length, which has 32 bits.
    let skip = u32::try_from(start.checked_sub(slice.position)?).ok()?;
    let length = u32::try_from(end.checked_sub(start)?).ok()?;
    let piece = Slice { position: start, offset: slice.offset + skip, length, ..*slice };
    (length > 0).then_some(piece)
}

/// Takes a range away from what shows. Answers with what showed there.
fn hide(shown: &mut BTreeMap<u64, Slice>, range: Range<u64>) -> Vec<Slice> {
    let before = shown.range(..range.start).next_back().map(|(position, _)| *position);
    let within = shown.range(range.clone()).map(|(position, _)| *position);
    let touched: Vec<u64> = before.into_iter().chain(within).collect();
    let mut hidden = Vec::new();
    for position in touched {
        let Some(slice) = shown.remove(&position) else { continue };
        for rest in [0..range.start, range.end..u64::MAX] {
            if let Some(piece) = clip(&slice, &rest) {
                shown.insert(piece.position, piece);
            }
        }
        hidden.extend(clip(&slice, &range));
    }
    hidden
}

fn hole(range: Range<u64>) -> Option<Segment> {
    (range.start < range.end)
        .then(|| Segment::Hole { position: range.start, length: range.end - range.start })
}

#[cfg(test)]
mod tests;
