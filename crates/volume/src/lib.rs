//! The volume: the operations that both views (S3 and mounts) call.
//!
//! A [`Volume`] combines a session (metadata) with staging and readers (blocks). Each method runs
//! one operation of the namespace. A writer stages the blocks of a body first, that is, makes them
//! durable without a record; then one plan publishes them under a name. A reader first finds the
//! inode, then reads its blocks. Every change is one plan: it is committed as a whole or not at
//! all, and a caller gets [`VolumeError::Unknown`] if its outcome is not known in time.
//!
//! For example, [`Volume::put`] takes a body whose blocks are durable, and publishes the new inode,
//! its name and the removal of the replaced object in one commit.
//!
//! A view never sees a record's key, a plan or a block. The volume does not know HTTP or FUSE, and
//! it does not know the background work that deletes the blocks of removed files. That work gets
//! [`BackgroundParts`], and the volume reports written files to a [`WriteObserver`].

mod background;
mod counters;
mod facade;
mod known_pages;
mod options;
mod volume;

pub use background::{BackgroundParts, WriteObserver};
pub use content::{
    ContentStream, ContentWriter, Packing, Permit, ReleaseMemory, STAGED_INLINE_BYTES_DEFAULT,
    StagedContent,
};
pub use counters::Counters;
pub use facade::{
    BodyRun, BucketStat, CompletePart, CompleteUpload, Completed, CopyChanges, Creator, FileOwner,
    FileWrite, ForkWatch, Forked, Journaled, ListedAs, NewBucket, NewObject, NewUpload,
    OBJECT_BYTES_MAX, OMITTED_PATHS_MAX, Object, ObjectDigests, ObjectExpectation, ObjectMode,
    ObjectTries, OpenNode, PART_BYTES_MIN, PartStat, PartsPage, PlannedFile, PublishedObject,
    RenameConditions, Resize, SeekTarget, Trashed, UploadId, UploadIdError, UploadsEntry,
    UploadsPage, UploadsQuery, VersionsEntry, VersionsListing, VersionsQuery, WrongCustomerKey,
    empty_file, opaque_tag, size_and_tag,
};
pub use keyring::{ObjectEncryptionKey, Protection, ProtectionError, ProtectionErrorKind};
pub use ledger::{Ledger, Note};
pub use namespace::{
    AccessRecords, Acl, AclKind, AttributeChange, BucketChange, BucketConfigs, ConflictSearch,
    DIRECTORIES_MAX, Exempt, FoundNode, FoundPart, FsError, LAST_USES_MAX, Linked, ListEntry,
    ListQuery, ListedName, ListedNames, Listing, LockUse, NamedBucket, NewNode, NodeName, NotAnAcl,
    OBJECT_TAGS_MAX, ObjectChange, ObjectCondition, ObjectItem, RemoveCondition, RemovedKey,
    RemovedName, RemovedVersion, RenameMode, Renamed, RetentionChange, SetLocksResult, SetTime,
    TagMatch, USER_METADATA_BYTES_MAX, Usage, Whiteout, WriteCondition, XattrChange,
    without_rights,
};
pub use options::VolumeOptions;
pub use record::VersionRef;
pub use runtime::{SetClock, SystemClock};
pub use session::{
    Acknowledge, COMMIT_DEADLINE, CONTENTION_DEADLINE, CacheValidity, Coherence, LockNotices,
    LockWatch, NodeChanges, NodeWatch, PUSHED_CACHE_DURATION, RECORD_CACHE_BYTES_DEFAULT,
    ReaderGuard, RoundTrips, SESSION_SILENCE, SessionOptions, TURN_DURATION, VolumeError,
    count_round_trips, is_mark,
};
pub use volume::{CHECK_DEADLINE, Health, StoreState, Volume};

#[cfg(test)]
mod tests;
