//! Arithmetic with file ranges, slices and blocks.
//!
//! A content map is a list of *slices* in the order in which they were written. A slice names a run
//! of bytes of a block, and the position of these bytes in the file. A later slice hides the ranges
//! of earlier ones that it covers. [`resolve`] returns the visible parts of a range, which cover
//! the range exactly once: bytes without a slice are returned as holes. For example, a slice over
//! bytes 0 to 30, and a later one over bytes 10 to 15, resolve to three segments.
//!
//! This crate does not know how a block is stored or read, or whether a hole is an error.

mod relocation;

use std::collections::BTreeMap;
use std::ops::Range;

use record::Slice;

pub use relocation::{Relocation, joined};

/// A part of a range of a file whose bytes have one origin: a block, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment {
    /// Bytes of a block: the part of a slice that no later slice hides, as a slice with its own
    /// position, offset and length.
    Block(Slice),
    /// Bytes that no slice covers. They are zeros in a sparse file, and damage in any other; the
    /// caller decides.
    Hole {
        /// The position in the file at which the hole starts, in bytes.
        position: u64,
        /// The length of the hole in bytes; never 0.
        length: u64,
    },
}

impl Segment {
    /// Returns the position in the file at which the segment starts, in bytes.
    pub const fn position(&self) -> u64 {
        match self {
            Segment::Block(slice) => slice.position,
            Segment::Hole { position, .. } => *position,
        }
    }

    /// Returns the position in the file behind the segment's last byte.
    pub const fn end(&self) -> u64 {
        match self {
            Segment::Block(slice) => slice.end(),
            Segment::Hole { position, length } => *position + *length,
        }
    }
}

/// Returns the visible parts of a content map within a range of the file: segments in ascending
/// order that cover the range exactly once. Later slices hide earlier ones. An empty range has no
/// segments.
pub fn resolve(slices: &[Slice], range: Range<u64>) -> Vec<Segment> {
    // The visible slices so far, by position, without overlap.
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

/// A content map, and the pieces of slices that a change has removed from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overlay {
    /// The slices of the new content map, sorted by position, without overlap.
    pub slices: Vec<Slice>,
    /// The pieces of the old slices that the new content map does not show any more. The caller
    /// releases their bytes.
    pub hidden: Vec<Slice>,
}

/// Writes the slices `new` over those of a content map, `old`, and cuts the result at the file size
/// `size`, in bytes. Pieces of old slices behind the end count as hidden. The slices of each of the
/// two lists must not overlap.
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

/// Makes a range of a file a hole: removes the range from the slices of its content map, which must
/// not overlap. Slices that are partly within the range keep the rest.
pub fn clear(old: &[Slice], range: &Range<u64>) -> Overlay {
    let mut shown: BTreeMap<u64, Slice> =
        old.iter().map(|slice| (slice.position, *slice)).collect();
    let hidden = hide(&mut shown, range.clone());
    Overlay { slices: shown.into_values().collect(), hidden }
}

/// Returns the first position within a range of a file at which the content map has a slice, or,
/// with `hole`, the first at which it has none (`SEEK_DATA` and `SEEK_HOLE`). `None` if there is no
/// such position.
pub fn seek(slices: &[Slice], range: Range<u64>, hole: bool) -> Option<u64> {
    let is_wanted = |segment: &Segment| matches!(segment, Segment::Hole { .. }) == hole;
    resolve(slices, range).iter().find(|segment| is_wanted(segment)).map(Segment::position)
}

/// Returns the part of a slice that is within a range of the file, or `None` if there is none.
pub fn clip(slice: &Slice, range: &Range<u64>) -> Option<Slice> {
    let start = slice.position.max(range.start);
    let end = slice.end().min(range.end);
    // Both differences are at most the length of the slice, which has 32 bits.
    let skip = u32::try_from(start.checked_sub(slice.position)?).ok()?;
    let length = u32::try_from(end.checked_sub(start)?).ok()?;
    let piece = Slice { position: start, offset: slice.offset + skip, length, ..*slice };
    (length > 0).then_some(piece)
}

/// Removes a range of the file from the visible slices, which are keyed by position. A slice that
/// is partly within the range keeps the pieces outside. Returns the removed pieces.
fn hide(shown: &mut BTreeMap<u64, Slice>, range: Range<u64>) -> Vec<Slice> {
    // Slices do not overlap, so only the last one that starts before the range can reach into it.
    let before = shown.range(..range.start).next_back().map(|(position, _)| *position);
    let within = shown.range(range.clone()).map(|(position, _)| *position);
    let touched: Vec<u64> = before.into_iter().chain(within).collect();
    let mut hidden = Vec::new();
    // A slice that is partly within the range stays with the pieces before and behind it.
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
