//! The appended tail of an open file: dirty bytes at its end that move if another client appends
//! first.

use crate::dirty::FrozenExtents;

/// The length of a tail, in bytes, at which a further append first flushes it. One commit appends
/// all of a tail, so a tail must not become arbitrarily long: the limit of memory for dirty data
/// may be much larger.
pub(crate) const TAIL_BYTES_MAX: u64 = 1 << 30;

/// The dirty bytes of an open file that were appended, from `start` to the end of the file. At
/// commit they go to the end of the committed file, which another client may have extended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AppendedTail {
    /// The position at which the appended bytes begin, as long as no other client is known to have
    /// appended.
    pub(crate) start: u64,
    /// The minimum position of the tail at commit: before the append, this mount had extended the
    /// file to this size. 0 if there is no minimum.
    pub(crate) floor: u64,
}

impl AppendedTail {
    /// Returns the offset at which the tail is committed. It is the maximum of `found_size` (the
    /// size of the committed file), `floor`, and the end of those `extents` of the same flush that
    /// begin before the tail.
    pub(crate) fn place(&self, found_size: u64, extents: &FrozenExtents) -> u64 {
        let before = extents.iter().take_while(|(at, _)| *at < self.start);
        let end = before.map(|(at, bytes)| (at + bytes.len() as u64).min(self.start)).max();
        found_size.max(self.floor).max(end.unwrap_or(0))
    }
}
