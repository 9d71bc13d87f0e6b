//! The appended tail of an open file.

use crate::dirty::FrozenExtents;

/// Dirty bytes at the end of a file that were appended, from `start` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AppendedTail {
    /// The position at which the tail begins, as far as this mount knows.
    pub(crate) start: u64,
    /// The minimum start of the tail: this mount has extended the file to this size before the
    /// append.
    pub(crate) floor: u64,
}

impl AppendedTail {
    /// Returns the start of the tail over a committed file of `found_size` bytes. Other extents of
    /// the same flush may end after that.
    pub(crate) fn place(&self, found_size: u64, extents: &FrozenExtents) -> u64 {
        let before = extents.iter().take_while(|(at, _)| *at < self.start);
        let end = before.map(|(at, bytes)| (at + bytes.len() as u64).min(self.start)).max();
        found_size.max(self.floor).max(end.unwrap_or(0))
    }
}
