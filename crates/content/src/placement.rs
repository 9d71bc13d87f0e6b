//! Where a body goes that arrived whole: one policy, and the one place that decides.
//!
//! A body that was kept whole has three ways to become durable, one for each [`Placement`]. A
//! [`PlacementPolicy`] chooses among them by what [`Conditions`] say: by the size of the body, by
//! whether there are others to share a block with, and by how much is staged inline already. It
//! sees nothing else, and nobody else decides.

use std::fmt::Debug;
use std::time::Duration;

use record::{INLINE_BYTES_MAX, INLINE_STAYS_MAX};

/// The longest body that is staged inline, in bytes.
pub const STAGED_INLINE_BODY_BYTES_MAX: u64 = INLINE_BYTES_MAX;

/// How long bodies are packed after two of them were under way at the same time.
pub const CONCURRENCY_MEMORY: Duration = Duration::from_secs(1);

/// Where a whole body goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Into its inode's record, for good.
    Inline,
    /// Into its inode's record, until it is destaged into a block.
    StagedInline,
    /// Into a block, which it shares with other bodies if there are any.
    Block,
}

/// What the choice depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conditions {
    /// Bytes of the body.
    pub bytes: u64,
    /// How long ago two bodies of this gateway were last under way at the same time: no time at all
    /// while they are, `None` if that never was.
    pub since_concurrent: Option<Duration>,
    /// Bytes that are staged inline already.
    pub staged_inline_bytes: u64,
}

/// What chooses where whole bodies go.
pub trait PlacementPolicy: Debug + Send + Sync {
    /// Where a body goes under these conditions.
    fn choose(&self, conditions: &Conditions) -> Placement;
}

/// The smallest bodies are inline. One of [`INLINE_STAYS_MAX`] to [`STAGED_INLINE_BODY_BYTES_MAX`]
/// bytes that came alone is staged inline while there is room. All others go into blocks.
///
/// A put of a few hundred KiB costs a backend some milliseconds. A lone client waits for them with
/// nobody to share them, and the metadata store has to make the file's record durable anyhow. Under
/// load the backend's price is shared, and the database is what is scarce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeAndLoad {
    /// Up to how many bytes a body is inline for good.
    pub inline_bytes_max: u64,
    /// Bytes of bodies that may be staged inline at the same time; 0 stages none.
    pub staged_inline_bytes_max: u64,
}

impl PlacementPolicy for SizeAndLoad {
    fn choose(&self, conditions: &Conditions) -> Placement {
        let Conditions { bytes, since_concurrent, staged_inline_bytes } = *conditions;
        if bytes <= self.inline_bytes_max {
            return Placement::Inline;
        }
        // A plan may rely on shorter inline content to stay where it is.
        let may_move = bytes > INLINE_STAYS_MAX as u64 && bytes <= STAGED_INLINE_BODY_BYTES_MAX;
        let alone = since_concurrent.is_none_or(|since| since >= CONCURRENCY_MEMORY);
        let fits = staged_inline_bytes.saturating_add(bytes) <= self.staged_inline_bytes_max;
        if may_move && alone && fits { Placement::StagedInline } else { Placement::Block }
    }
}

#[cfg(test)]
mod tests;
