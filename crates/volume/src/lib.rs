//! The file system as a service: what the views of a volume share.
//!
//! Operations of the namespace are run by a session, bodies are cut into blocks and read back, and
//! upkeep deletes what lost its name once nobody can be reading it. Every change is one plan; its
//! outcome is known or it is said that it is not.
//!
//! No view sees a record's key, a plan or a block. Here it is said what each operation that a view
//! calls is made of, S3's multipart uploads among them.

mod counters;
mod facade;
mod options;
mod volume;

pub use content::{
    COMPANY_LASTS, ContentError, ContentStream, ContentWriter, LetGo, Packing, Permit,
    RESTING_BODY_BYTES_MAX, RESTING_BYTES_DEFAULT, SETTLE_DELAY, StagedContent,
};
pub use counters::Counters;
pub use facade::{
    BucketStat, Complete, CompletePart, Completed, Deleted, Finished, NewObject, NewUpload,
    OBJECT_BYTES_MAX, Object, Owner, PART_BYTES_MIN, PartStat, PartsPage, Published, UploadId,
    UploadIdError, UploadsEntry, UploadsPage, UploadsQuery, file_of, opaque_tag, size_and_tag,
};
pub use namespace::{
    DIRECTORIES_MAX, FoundPart, FsError, ListEntry, ListQuery, Listing, TagMatch, WriteCondition,
};
pub use options::{BUDGET_BYTES_DEFAULT, INLINE_BYTES_DEFAULT, VolumeOptions};
pub use runtime::{Clock, SetClock, SystemClock, Tasks};
pub use session::{
    ALONE_LASTS, BEAT_INTERVAL, CLOSE_PATIENCE, COMMIT_DEADLINE, Epochs, FEED_INTERVAL,
    HINT_BYTES_DEFAULT, HINT_DIRECTORIES_MAX, HINT_VALUE_BYTES_MAX, HOLD_AFTER,
    INOS_PER_OPERATION_MAX, JOIN_PATIENCE, LANES_MAX, LEASE_INOS, META_READ_DEADLINE,
    MIRROR_BYTES_DEFAULT, MIRROR_VALUE_BYTES_MAX, QUEUE_PLANS_MAX, REST_FACTOR, REST_MAX,
    ReaderGuard, SESSION_SILENCE, Trips, Visit, VolumeError, measured, visit,
};
pub use upkeep::{
    Collected, Counts, DELETION_GRACE_RELAXED, FINDINGS_MAX, Finding, LIVE_SHARE_PERCENT, Looking,
    Progress, REAP_DELAY, REAP_INTERVAL, REPACK_BYTES_PER_SECOND, REPACK_DELAY, Reaped, Repacked,
    Report, SURVEY_DELAY, SURVEY_INTERVAL, SWEEP_AGAIN, SWEEP_BLOCKS_ALWAYS, SWEEP_DELAY,
    SWEEP_INTERVAL, SWEEP_RETRY, SWEEP_SHARE_PERCENT, Settled, SweepOptions, Swept,
    UPLOAD_RESULT_KEPT, Unwatched, fsck,
};
pub use volume::{CHECK_DEADLINE, Health, Volume};

#[cfg(test)]
mod tests;
