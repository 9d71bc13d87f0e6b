//! What keeps a volume in order beside its readers and writers.
//!
//! The *reaper* deletes what lost its name, once nobody can be reading it; the *sweeper* deletes what
//! ended sessions left behind; the *rewriter* moves what is alive out of packs of which little is;
//! what stands in records for a while is *settled* into blocks; late blocks are deleted again. All
//! of them give way to requests. *fsck* checks everything and changes nothing.
//!
//! It takes a session and a block store. Nothing here knows names, or what asks for an object.

mod damaged;
mod fsck;
mod grace;
mod latecomers;
mod meters;
mod naming;
mod reaper;
mod repack;
mod settle;
mod sparse;
mod sweeper;
mod tasks;
mod upkeep;

pub use fsck::{Counts, FINDINGS_MAX, Finding, Progress, Report, Unwatched, fsck};
pub use grace::DELETION_GRACE_RELAXED;
pub use meters::UpkeepMeters;
pub use reaper::{REAP_DELAY, REAP_INTERVAL, Reaped, UPLOAD_RESULT_KEPT};
pub use repack::{
    REPACK_BYTES_PER_SECOND, REPACK_DELAY, RepackRound, Repacked, SURVEY_DELAY, SURVEY_INTERVAL,
};
pub use settle::Settled;
pub use sparse::LIVE_SHARE_PERCENT;
pub use sweeper::{
    Collected, Looking, SWEEP_AGAIN, SWEEP_BLOCKS_ALWAYS, SWEEP_DELAY, SWEEP_INTERVAL, SWEEP_RETRY,
    SWEEP_SHARE_PERCENT, SweepOptions, Swept,
};
pub use upkeep::Upkeep;
