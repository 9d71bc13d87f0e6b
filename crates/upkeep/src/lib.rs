//! What keeps a volume in order beside its readers and writers.
//!
//! - The *reaper* deletes what lost its name, once nobody can be reading it.
//! - The *sweeper* deletes what ended sessions left behind.
//! - The *rewriter* moves what is alive out of packs of which little is.
//! - The *compactor* moves what is left of blocks that writes have hidden most of, file by file.
//! - The *destager* moves bodies that are staged inline into blocks.
//! - Blocks that may land after their deletion are deleted again.
//!
//! All of them are throttled while requests are served. *fsck* checks everything and changes
//! nothing.
//!
//! It takes a session and a block store. Nothing here knows names, or what asks for an object.

mod compact;
mod compacting;
mod damaged;
mod destage;
mod fsck;
mod grace;
mod latecomers;
mod locks;
mod meters;
mod naming;
mod proof;
mod reaper;
mod repack;
mod sparse;
mod sweeper;
mod tasks;
mod upkeep;

pub use compact::{COMPACT_RETRY, Compacted, JOIN_DELAY};
pub use compacting::COMPACT_DELAY;
pub use destage::Destaged;
pub use fsck::{Counts, FINDINGS_MAX, Finding, Progress, Report, Unwatched, fsck};
pub use grace::DELETION_GRACE_RELAXED;
pub use meters::UpkeepMeters;
pub use reaper::{REAP_DELAY, REAP_INTERVAL, Reaped, UPLOAD_RESULT_KEPT};
pub use repack::{
    REPACK_BYTES_PER_SECOND, REPACK_DELAY, RepackRound, Repacked, SURVEY_DELAY, SURVEY_INTERVAL,
};
pub use sparse::LIVE_SHARE_PERCENT;
pub use sweeper::{
    Collected, Looking, SWEEP_AGAIN, SWEEP_BLOCKS_ALWAYS, SWEEP_DELAY, SWEEP_INTERVAL, SWEEP_RETRY,
    SWEEP_SHARE_PERCENT, SweepOptions, Swept,
};
pub use upkeep::Upkeep;
