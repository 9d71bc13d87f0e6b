//! Background maintenance of a volume, beside its readers and writers.
//!
//! - The *reaper* deletes files, parts and blocks that records mark as dead, after all readers that
//!   may use them have ended.
//! - The *sweeper* deletes blocks and records that ended sessions left behind.
//! - The *relocator* moves content into new blocks: small bodies out of their inodes' records, live
//!   bytes out of packs of which little is live, and visible bytes of files out of blocks that
//!   later writes have mostly hidden.
//! - The *late-block deleter* deletes blocks that a late put created after their deletion.
//! - The *lock cleaner* removes file locks of ended sessions.
//!
//! All of them except the late-block deleter are throttled while requests are served. If much work
//! has piled up, or if a command waits for it, the work is not throttled. *fsck* checks records and
//! blocks, and changes nothing.
//!
//! **Invariant.** A block is deleted only when no record references it, no plan that references it
//! can still be committed, and no reader on any gateway can still be reading it. For example, a
//! client downloads an object while another client deletes it. The reaper deletes the object's
//! blocks only after the download has ended. A long download holds the object's file by a record of
//! its own, a *hold*, so that other deletions need not wait for it.
//!
//! The crate works on a session and a block store. It does not know file names, or the protocols by
//! which objects are requested.

mod damaged;
mod fsck;
mod grace;
mod late_writers;
mod locks;
mod meters;
mod reaper;
mod references;
mod relocate;
mod relocation_queue;
mod sweeper;
mod tasks;
mod upkeep;

pub use fsck::{Counts, FINDINGS_MAX, Finding, NoProgress, Progress, Report, fsck};
pub use grace::DELETION_GRACE_RELAXED;
pub use meters::UpkeepMeters;
pub use reaper::{REAP_INTERVAL, Reaped, UPLOAD_RESULT_KEPT};
pub use relocate::{
    JOIN_DELAY, KnownBlocks, Moves, RelocationStep, RetirePass, RetireProgress, SURVEY_DELAY,
    WRITERS_GRACE,
};
pub use relocation_queue::{COMPACT_DELAY, LIVE_SHARE_PERCENT, REPACK_DELAY};
pub use sweeper::{Collected, SWEEP_SHARE_PERCENT, SweepOptions, SweepScope, Swept};
pub use upkeep::Upkeep;
