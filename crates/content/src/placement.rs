//! The choice where a small body is stored: in its record or in a block.
//!
//! A body that was kept whole in memory has three ways to become durable, one for each
//! [`Placement`]. A [`PlacementPolicy`] chooses among them by the [`Conditions`]: the size of the
//! body, the time since two bodies were under way together, and the bytes that are staged inline
//! already. The policy sees nothing else, and no other code makes this choice.
//!
//! For example, a body of 100 KiB from a lone client is staged inline. If a second client writes in
//! the same second, the next such body goes into a block.

use std::fmt::Debug;
use std::time::Duration;

use record::{INLINE_BYTES_MAX, INLINE_PERMANENT_MAX};

/// The longest body that is staged inline, in bytes.
pub const STAGED_INLINE_BODY_BYTES_MAX: u64 = INLINE_BYTES_MAX;

/// After two bodies were under way at the same time, small bodies are put into blocks for this
/// time, and not into records.
pub const CONCURRENCY_MEMORY: Duration = Duration::from_secs(1);

/// Where a whole body is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// In its inode's record, permanently.
    Inline,
    /// In its inode's record, until a background task, the relocator, moves it into a block.
    StagedInline,
    /// In a block, shared with other bodies if there are any.
    Block,
}

/// The inputs of the choice where a small body is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conditions {
    /// The size of the body, in bytes.
    pub bytes: u64,
    /// The time since two bodies of this gateway were last under way together: zero while they are,
    /// `None` if they never were.
    pub since_concurrent: Option<Duration>,
    /// The total size of the bodies that are staged inline now, in bytes.
    pub staged_inline_bytes: u64,
}

/// A policy that chooses where a body that was kept whole in memory is stored: in its record or in
/// a block.
pub trait PlacementPolicy: Debug + Send + Sync {
    /// Returns the placement of a body under these conditions.
    fn choose(&self, conditions: &Conditions) -> Placement;
}

/// The default policy. The smallest bodies are inline. A lone body of more than
/// [`INLINE_PERMANENT_MAX`] and at most [`STAGED_INLINE_BODY_BYTES_MAX`] bytes is staged inline if
/// the limit permits. All others go into blocks.
///
/// A put of a few hundred KiB costs a backend some milliseconds. A lone client would wait for them
/// alone, while the metadata store has to make the file's record durable in any case. Under load,
/// several bodies share the cost of one put, and the database is the scarcer resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeAndLoad {
    /// The longest body that is inline permanently, in bytes.
    pub inline_bytes_max: u64,
    /// The most bytes of bodies that may wait in records to be moved into blocks (staged inline) at
    /// the same time; 0 turns staging inline off.
    pub staged_inline_bytes_max: u64,
}

impl PlacementPolicy for SizeAndLoad {
    fn choose(&self, conditions: &Conditions) -> Placement {
        let Conditions { bytes, since_concurrent, staged_inline_bytes } = *conditions;
        if bytes <= self.inline_bytes_max {
            return Placement::Inline;
        }
        // Plans may rely on it that inline content up to `INLINE_PERMANENT_MAX` is never destaged.
        let may_move = bytes > INLINE_PERMANENT_MAX as u64 && bytes <= STAGED_INLINE_BODY_BYTES_MAX;
        let alone = since_concurrent.is_none_or(|since| since >= CONCURRENCY_MEMORY);
        let fits = staged_inline_bytes.saturating_add(bytes) <= self.staged_inline_bytes_max;
        if may_move && alone && fits { Placement::StagedInline } else { Placement::Block }
    }
}

#[cfg(test)]
mod tests;
