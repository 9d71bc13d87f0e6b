//! Which of what was written to a file was appended to it.

use crate::dirty::FrozenExtents;

/// Dirty bytes at the end of a file that were appended, from a position on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AppendedTail {
    /// Where it begins, as far as is known here.
    pub(crate) start: u64,
    /// Where the file ends before it at least, because it was made so long here.
    pub(crate) floor: u64,
}

impl AppendedTail {
    /// Where it begins over a file of so many bytes, below other bytes that are written with it.
    pub(crate) fn place(&self, found_size: u64, extents: &FrozenExtents) -> u64 {
        let before = extents.iter().take_while(|(at, _)| *at < self.start);
        let end = before.map(|(at, bytes)| (at + bytes.len() as u64).min(self.start)).max();
        found_size.max(self.floor).max(end.unwrap_or(0))
    }
}
