//! Dirty extents: bytes that were written to a file and not committed.
//!
//! Invariant: extents do not overlap. A write into an extent changes it in place. A write directly
//! after an extent lengthens it, up to [`EXTENT_BYTES_MAX`]. A write directly before an extent
//! makes another one. For example, writes of 100 bytes at 0, 100 and 200 are one extent of 300
//! bytes; in the order 200, 100, 0 they are three.

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;

/// The length up to which writes extend a dirty extent, in bytes. Further bytes make a new extent.
const EXTENT_BYTES_MAX: usize = 4 << 20;

/// The dirty extents of an open file, that is, the bytes that were written and are not committed,
/// by their position in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DirtyExtents {
    extents: BTreeMap<u64, Vec<u8>>,
    bytes: u64,
}

impl DirtyExtents {
    /// Returns the number of dirty bytes in all extents together.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }

    /// Iterates over the extents in ascending order, as positions in the file and bytes.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.extents.iter().map(|(position, bytes)| (*position, bytes.as_slice()))
    }

    /// Returns the extents as immutable buffers, without copying, so that a flush can commit them
    /// while programs write on.
    pub(crate) fn freeze(self) -> FrozenExtents {
        let frozen = |(position, bytes): (u64, Vec<u8>)| (position, Bytes::from(bytes));
        FrozenExtents(self.extents.into_iter().map(frozen).collect())
    }

    /// Returns the number of bytes of `range` that are not dirty yet. A write to the range takes
    /// this much more memory.
    pub(crate) fn growth(&self, range: Range<u64>) -> u64 {
        let length = range.end - range.start;
        length - self.pieces(range).map(|(_, bytes)| bytes.len() as u64).sum::<u64>()
    }

    /// Iterates over the parts of `range` that are dirty, as positions and bytes, in ascending
    /// order.
    pub(crate) fn pieces(&self, range: Range<u64>) -> impl Iterator<Item = (u64, &[u8])> {
        let before = self.extents.range(..range.start).next_back();
        let within = self.extents.range(range.clone());
        before.into_iter().chain(within).filter_map(move |(position, bytes)| {
            let end = position + bytes.len() as u64;
            let (from, to) = ((*position).max(range.start), end.min(range.end));
            (from < to).then(|| (from, &bytes[offset(from, *position)..offset(to, *position)]))
        })
    }

    /// Adds dirty bytes at a position of the file. They replace dirty bytes that are there.
    pub(crate) fn write(&mut self, position: u64, mut bytes: &[u8]) {
        let mut at = position;
        while !bytes.is_empty() {
            let taken = self.write_some(at, bytes);
            at += taken as u64;
            bytes = &bytes[taken..];
        }
    }

    /// Adds the first of these bytes at position `at`, as many as go into one extent. Returns their
    /// number. The caller adds the rest.
    fn write_some(&mut self, at: u64, bytes: &[u8]) -> usize {
        let next = self.extents.range(at..).next().map(|(position, _)| *position);
        if let Some((position, extent)) = self.extents.range_mut(..=at).next_back() {
            let start = offset(at, *position);
            // Overwrite in place as far as the extent reaches.
            if start < extent.len() {
                let length = bytes.len().min(extent.len() - start);
                extent[start..start + length].copy_from_slice(&bytes[..length]);
                return length;
            }
            // Append to the extent, but not into the next one: extents must not overlap.
            if start == extent.len() && start < EXTENT_BYTES_MAX {
                let room = next.filter(|next| *next > *position);
                let room = room.map_or(usize::MAX, |next| offset(next, at));
                let length = bytes.len().min(EXTENT_BYTES_MAX - start).min(room);
                if length > 0 {
                    extent.extend_from_slice(&bytes[..length]);
                    self.bytes += length as u64;
                    return length;
                }
            }
        }
        if next == Some(at) {
            let Some(extent) = self.extents.get_mut(&at) else { return 0 };
            let length = bytes.len().min(extent.len());
            extent[..length].copy_from_slice(&bytes[..length]);
            return length;
        }
        let room = next.map_or(usize::MAX, |next| offset(next, at));
        let length = bytes.len().min(EXTENT_BYTES_MAX).min(room);
        self.extents.insert(at, bytes[..length].to_vec());
        self.bytes += length as u64;
        length
    }

    /// Drops all dirty bytes from position `end` on, because the file is truncated there.
    pub(crate) fn cut(&mut self, end: u64) {
        let dropped = self.extents.split_off(&end);
        self.bytes -= dropped.values().map(|bytes| bytes.len() as u64).sum::<u64>();
        if let Some((position, bytes)) = self.extents.range_mut(..end).next_back() {
            let keep = offset(end, *position);
            if keep < bytes.len() {
                self.bytes -= (bytes.len() - keep) as u64;
                bytes.truncate(keep);
            }
        }
    }

    /// Adds older extents below these dirty ones: where these have no bytes, the bytes of `older`
    /// become dirty, up to position `end`. The bytes of `older` from `end` on are dropped.
    pub(crate) fn insert_below(&mut self, older: &FrozenExtents, end: u64) {
        let newer = std::mem::take(self);
        for (position, bytes) in older.pieces(0..end) {
            self.write(position, &bytes);
        }
        for (position, bytes) in newer.iter() {
            self.write(position, bytes);
        }
    }
}

/// Dirty extents of a file that a flush has taken and that do not change any more, ordered by
/// position.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FrozenExtents(Vec<(u64, Bytes)>);

impl FromIterator<(u64, Bytes)> for FrozenExtents {
    fn from_iter<I: IntoIterator<Item = (u64, Bytes)>>(extents: I) -> FrozenExtents {
        FrozenExtents(extents.into_iter().collect())
    }
}

impl FrozenExtents {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of bytes in all extents together.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.iter().map(|(_, bytes)| bytes.len() as u64).sum()
    }

    /// Iterates over the extents in ascending order, as positions in the file and bytes.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &(u64, Bytes)> {
        self.0.iter()
    }

    /// Iterates over the parts of `range` that these extents cover, as positions and bytes, in
    /// ascending order.
    pub(crate) fn pieces(&self, range: Range<u64>) -> impl Iterator<Item = (u64, Bytes)> {
        let first = self.0.partition_point(|(at, bytes)| at + bytes.len() as u64 <= range.start);
        let extents = self.0[first..].iter().take_while(move |(at, _)| *at < range.end);
        extents.filter_map(move |(at, bytes)| {
            let (from, to) = ((*at).max(range.start), (at + bytes.len() as u64).min(range.end));
            (from < to).then(|| (from, bytes.slice(offset(from, *at)..offset(to, *at))))
        })
    }

    /// Returns these extents together with the parts of `base` that they do not cover. `base` is
    /// the content from the beginning of the file.
    pub(crate) fn over(&self, base: &Bytes) -> FrozenExtents {
        let (mut all, mut at) = (Vec::with_capacity(2 * self.0.len() + 1), 0_u64);
        let end = base.len() as u64;
        let gap = |all: &mut Vec<(u64, Bytes)>, from: u64, to: u64| {
            let to = to.min(end);
            if from < to {
                all.push((from, base.slice(offset(from, 0)..offset(to, 0))));
            }
        };
        for (position, bytes) in &self.0 {
            gap(&mut all, at, *position);
            all.push((*position, bytes.clone()));
            at = position + bytes.len() as u64;
        }
        gap(&mut all, at, end);
        FrozenExtents(all)
    }
}

/// Returns the distance of a position from `start`. All bytes between them are in memory, so it
/// fits.
fn offset(position: u64, start: u64) -> usize {
    usize::try_from(position - start).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
