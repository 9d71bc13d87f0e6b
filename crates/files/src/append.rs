//! Appending, where others may append to the same file.
//!
//! A program that appends says that its bytes belong at the end, wherever that is. Here it is where
//! the file ends as far as this machine knows; when the bytes become content, it is where the file ends
//! in the volume. So bytes that were appended and are the file's *tail* move, all together, behind what
//! others have appended meanwhile. That is decided by the commit: it guards the version of the file
//! whose end was looked at.

use bytes::Bytes;

use crate::dirty::{DirtyExtents, FrozenExtents};
use crate::open::{FileState, FlushingData};
use crate::tail::AppendedTail;

impl FileState {
    /// Takes note that a range is about to be written, at the end or at a position that was said.
    pub(crate) fn note_write(&mut self, position: u64, end: u64, appends: bool) {
        self.tail = match self.tail {
            // What was cut here ends where it was cut.
            None if appends && self.cut.is_none() => {
                let floor = if position > self.base_size() { position } else { 0 };
                Some(AppendedTail { start: position, floor })
            }
            Some(tail) if appends => Some(tail),
            // Within the tail, or before it, nothing changes of what that is.
            Some(tail) if end <= tail.start || position >= tail.start && end <= self.size => {
                Some(tail)
            }
            _ => None,
        };
    }

    /// Takes note that the file is about to be made so long.
    pub(crate) fn note_resize(&mut self, size: u64) {
        self.tail = self.tail.filter(|tail| tail.start < size && size <= self.size);
    }

    /// Puts the tail where the file ends that lies below, if others have made that longer.
    pub(crate) fn follow_end(&mut self) {
        let Some(tail) = self.tail else { return };
        if self.found_size() > tail.start {
            self.move_tail(self.found_size());
        }
    }

    /// The tail of what lies below has become content at another place than was known: what was
    /// appended since follows it.
    pub(crate) fn follow_tail(&mut self, before: u64, after: u64) {
        if let Some(tail) = self.tail.filter(|tail| tail.floor == 0) {
            self.move_tail((tail.start + after).saturating_sub(before));
        }
    }

    fn move_tail(&mut self, to: u64) {
        let Some(tail) = &mut self.tail else { return };
        self.dirty.shift(tail.start, to);
        self.size = self.size - tail.start + to;
        tail.start = to;
    }

    /// The tail of what was to become content and of what was written since.
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
    /// Moves what lies behind a position to another one.
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
    /// The same with what lies behind a position moved to another one.
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
