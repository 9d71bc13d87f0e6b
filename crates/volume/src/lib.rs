//! The file system as a service: what the views of a volume share.
//!
//! Operations of the namespace are run against a metadata store, bodies are cut into blocks and
//! read back, and what lost its name is deleted once nobody can be reading it. Every change is one
//! plan, committed together with others; its outcome is known or it is said that it is not.
//!
//! Nothing here knows S3 or FUSE, and no view sees a record's key, a plan or a block.

mod clock;
mod commit;
mod company;
pub mod content;
mod epoch;
mod error;
mod facade;
mod feed;
mod fsck;
mod gather;
mod hints;
mod holds;
mod inos;
mod lanes;
mod latecomers;
mod meters;
mod mirror;
mod pace;
mod packs;
mod reaper;
mod repack;
mod run;
mod scan;
mod session;
mod settle;
mod sweeper;
mod tasks;
mod volume;

pub use clock::{Clock, SetClock, SystemClock};
pub use commit::{COMMIT_DEADLINE, QUEUE_PLANS_MAX};
pub use company::{ALONE_LASTS, JOIN_PATIENCE, Visit, visit};
pub use content::{
    COMPANY_LASTS, ContentStream, ContentWriter, LetGo, Packing, Permit, RESTING_BODY_BYTES_MAX,
    RESTING_BYTES_DEFAULT, SETTLE_DELAY, StagedContent,
};
pub use epoch::{Epochs, ReaderGuard};
pub use error::VolumeError;
pub use facade::{
    BucketStat, Complete, CompletePart, Completed, Deleted, Finished, NewObject, NewUpload,
    OBJECT_BYTES_MAX, Object, Owner, PART_BYTES_MIN, PartStat, PartsPage, Published, UploadId,
    UploadIdError, UploadsEntry, UploadsPage, UploadsQuery, file_of, opaque_tag, size_and_tag,
};
pub use feed::FEED_INTERVAL;
pub use fsck::{Counts, FINDINGS_MAX, Finding, Progress, Report, Unwatched, fsck};
pub use hints::{HINT_BYTES_DEFAULT, HINT_DIRECTORIES_MAX, HINT_VALUE_BYTES_MAX};
pub use holds::HOLD_AFTER;
pub use inos::{INOS_PER_OPERATION_MAX, LEASE_INOS};
pub use lanes::LANES_MAX;
pub use meters::{Counters, Trips, measured};
pub use mirror::{MIRROR_BYTES_DEFAULT, MIRROR_VALUE_BYTES_MAX};
pub use namespace::{
    DIRECTORIES_MAX, FoundPart, FsError, ListEntry, ListQuery, Listing, TagMatch, WriteCondition,
};
pub use pace::{REST_FACTOR, REST_MAX};
pub use reaper::{DELETION_GRACE_RELAXED, REAP_DELAY, REAP_INTERVAL, Reaped, UPLOAD_RESULT_KEPT};
pub use repack::{
    LIVE_SHARE_PERCENT, REPACK_BYTES_PER_SECOND, REPACK_DELAY, Repacked, SURVEY_DELAY,
    SURVEY_INTERVAL,
};
pub use session::{BEAT_INTERVAL, SESSION_SILENCE};
pub use settle::Settled;
pub use sweeper::{
    Collected, Looking, SWEEP_AGAIN, SWEEP_BLOCKS_ALWAYS, SWEEP_DELAY, SWEEP_INTERVAL, SWEEP_RETRY,
    SWEEP_SHARE_PERCENT, SweepOptions, Swept,
};
pub use tasks::Tasks;
pub use volume::{
    BUDGET_BYTES_DEFAULT, CHECK_DEADLINE, CLOSE_PATIENCE, Health, INLINE_BYTES_DEFAULT,
    META_READ_DEADLINE, Volume, VolumeOptions,
};

#[cfg(test)]
mod tests;
