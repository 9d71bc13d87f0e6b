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
mod known_pages;
mod options;
mod volume;

pub use content::{
    ContentStream, ContentWriter, Packing, Permit, ReleaseMemory, STAGED_INLINE_BYTES_DEFAULT,
    StagedContent,
};
pub use counters::Counters;
pub use facade::{
    BodyRun, BucketStat, CompletePart, CompleteUpload, Completed, CopyChanges, Creator,
    ExpectedObject, FileOwner, FileWrite, ForkWatch, Forked, Journaled, ListedAs, NewBucket,
    NewObject, NewUpload, OBJECT_BYTES_MAX, OMITTED_PATHS_MAX, Object, ObjectDigests, OpenNode,
    PART_BYTES_MIN, PartStat, PartsPage, PublishedObject, RenameConditions, Resize, SeekTarget,
    Trashed, UploadId, UploadIdError, UploadsEntry, UploadsPage, UploadsQuery, VersionsEntry,
    VersionsListing, VersionsQuery, empty_file, opaque_tag, s3_file_of, size_and_tag,
};
pub use ledger::{Ledger, Note};
pub use namespace::{
    Acl, AclKind, AttributeChange, BucketChange, BucketConfigs, ConflictSearch, DIRECTORIES_MAX,
    Exempt, FoundNode, FoundPart, FsError, ListEntry, ListQuery, ListedName, ListedNames, Listing,
    LockUse, NamedBucket, NewNode, NodeName, NotAnAcl, OBJECT_TAGS_MAX, ObjectChange,
    ObjectCondition, ObjectItem, RemoveCondition, RemovedKey, RemovedName, RemovedVersion,
    RenameMode, Renamed, SetLocksResult, SetTime, TagMatch, USER_METADATA_BYTES_MAX, Usage,
    Whiteout, WriteCondition, XattrChange, without_rights,
};
pub use options::{BUDGET_BYTES_DEFAULT, INLINE_BYTES_DEFAULT, VolumeOptions};
pub use record::VersionRef;
pub use runtime::{Clock, SetClock, SystemClock, Tasks};
pub use session::{
    Backoff, CONTENTION_DEADLINE, CacheValidity, Coherence, LockNotices, LockWatch, NodeChanges,
    NodeWatch, RECORD_CACHE_BYTES_DEFAULT, ReaderGuard, RoundTrips, SessionOptions, VolumeError,
    count_round_trips,
};
pub use upkeep::{
    Collected, Compacted, Counts, Destaged, Finding, LIVE_SHARE_PERCENT, NoProgress, Progress,
    Reaped, Repacked, Report, SWEEP_SHARE_PERCENT, SweepOptions, SweepScope, Swept, fsck,
};
pub use volume::{CHECK_DEADLINE, Health, StoreState, Volume};

#[cfg(test)]
mod tests;
