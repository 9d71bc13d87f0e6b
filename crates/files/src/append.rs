//! Appends, while other clients may append to the same file.
//!
//! The position of an append is the end of the file. While the data is dirty, this is the end as
//! this mount knows it; at commit, it is the end of the committed file. So the appended bytes at
//! the end of the dirty data, the *tail*, move together to the end of the bytes that other clients
//! appended in the meantime. The commit is guarded by the data version whose size it used.
//!
//! For example, two mounts append one line each to a log of 100 bytes. Both place their line at
//! 100. The second flush finds a file of 150 bytes and commits its line at 150.

use bytes::Bytes;

use crate::dirty::{DirtyExtents, FrozenExtents};
use crate::open::{FileState, FlushingData};
use crate::tail::AppendedTail;

impl FileState {
    /// Updates the tail, that is, the dirty bytes at the end of the file that were appended, for a
    /// write to `position..end`. `appends` is true if the program asked to write at the end of the
    /// file. Other writes can end the tail: then its bytes stay at their positions.
    pub(crate) fn note_write(&mut self, position: u64, end: u64, appends: bool) {
        self.tail = match self.tail {
            // After a truncation here, the end of the file is known. It does not move.
            None if appends && self.cut.is_none() => {
                let floor = if position > self.base_size() { position } else { 0 };
                Some(AppendedTail { start: position, floor })
            }
            Some(tail) if appends => Some(tail),
            // A write inside the tail or before it does not change which bytes were appended.
            Some(tail) if end <= tail.start || position >= tail.start && end <= self.size => {
                Some(tail)
            }
            _ => None,
        };
    }

    /// Updates the tail (the appended dirty bytes at the end of the file) for a change of the size
    /// to `size`. The rest of the tail stays movable only if the file shrinks to a size within it.
    pub(crate) fn note_resize(&mut self, size: u64) {
        self.tail = self.tail.filter(|tail| tail.start < size && size <= self.size);
    }

    /// Moves the tail (the appended dirty bytes) to the end of the committed file, if another
    /// client has extended the committed file beyond the start of the tail.
    pub(crate) fn follow_end(&mut self) {
        let Some(tail) = self.tail else { return };
        if self.found_size() > tail.start {
            self.move_tail(self.found_size());
        }
    }

    /// Moves the tail (the appended dirty bytes) by the same distance as a flush that has just
    /// committed the previous tail: that one began at `after` instead of `before`, because another
    /// client had appended.
    pub(crate) fn follow_tail(&mut self, before: u64, after: u64) {
        if let Some(tail) = self.tail.filter(|tail| tail.floor == 0) {
            self.move_tail((tail.start + after).saturating_sub(before));
        }
    }

    /// Moves the tail to position `to`, and changes the file size accordingly.
    fn move_tail(&mut self, to: u64) {
        let Some(tail) = &mut self.tail else { return };
        self.dirty.shift(tail.start, to);
        self.size = self.size - tail.start + to;
        tail.start = to;
    }

    /// Returns the tail (the appended bytes that may move to the end of the committed file) after a
    /// flush has failed and its data is joined with the newer dirty data. `None` if the joined data
    /// must stay at its positions.
    pub(crate) fn joined_tail(&self, flushing: &FlushingData) -> Option<AppendedTail> {
        match (flushing.tail, self.tail) {
            _ if self.cut.is_some() || flushing.cut.is_some() => None,
            (Some(tail), Some(AppendedTail { floor: 0, .. })) => Some(tail),
            (Some(tail), _) if self.size == flushing.size => Some(tail),
            (Some(_), _) => None,
            (None, tail) => tail.map(|tail| AppendedTail { floor: tail.start, ..tail }),
        }
    }
}

impl DirtyExtents {
    /// Moves dirty bytes to another position of the file: the bytes from position `from` on are
    /// moved together, so that they begin at `to`. Bytes before `from` stay. If `to` is after
    /// `from`, the gap between them has no dirty bytes then.
    fn shift(&mut self, from: u64, to: u64) {
        let all = std::mem::take(self);
        for (position, bytes) in all.iter() {
            let before = usize::try_from(from.saturating_sub(position)).unwrap_or(usize::MAX);
            let (kept, moved) = bytes.split_at(before.min(bytes.len()));
            self.write(position, kept);
            self.write((position.max(from) - from) + to, moved);
        }
    }
}

impl FrozenExtents {
    /// Returns these extents with the bytes from position `from` on moved together, so that they
    /// begin at position `to`. Bytes before `from` stay.
    pub(crate) fn shifted(&self, from: u64, to: u64) -> FrozenExtents {
        let piece = |(position, bytes): &(u64, Bytes)| {
            let before = usize::try_from(from.saturating_sub(*position)).unwrap_or(usize::MAX);
            let before = before.min(bytes.len());
            let moved = (*position).max(from) - from + to;
            [(*position, bytes.slice(..before)), (moved, bytes.slice(before..))]
        };
        self.iter().flat_map(piece).filter(|(_, bytes)| !bytes.is_empty()).collect()
    }
}

#[cfg(test)]
mod tests;
