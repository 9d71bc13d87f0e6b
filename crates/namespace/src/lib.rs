//! Every file-system operation as a pure planner.
//!
//! A [`Planner`] turns known records into a plan: guards and writes for one commit. It does no I/O.
//! If a record is missing, the planner requests it through its [`View`] and stops; the driver reads
//! all requested records in one round trip and plans again. A [`Run`] holds the state of one
//! operation and returns the next step to its driver: read, commit or done. So the round trips of
//! an operation are the requests of its planner.
//!
//! For example, a PUT to `photos/2026/a.jpg` is a [`Publish`]. Its plan guards the dentries of
//! `photos` and `2026/`, and writes the new inode and the dentry of `a.jpg`. If another client
//! removes `photos` at the same time, the commit is refused and the operation is planned again.
//!
//! The planners do not know which database holds the records, or whether S3 or a mount has called
//! them.

mod access;
mod access_key;
mod access_records;
mod account;
mod bucket;
mod content_map;
mod error;
mod given_policies;
mod group;
mod inode_state;
mod job;
mod list;
mod lock;
mod lookup;
mod node;
mod object;
mod packs;
mod path;
mod quota;
mod remove;
mod remove_version;
mod rename;
mod retention;
mod run;
mod space;
mod stage;
mod trash;
mod unbind;
mod upload;
mod version;
mod version_list;
mod view;

pub use access::{
    AccessError, Expected, ExpectedPolicy, FindPolicy, FindUser, IsBuiltIn, ListPolicies,
    ListUsers, RecordHash, RemovePolicy, SetPolicy, SetUserEnabled, SetUserOwner, SetUserSecret,
};
pub use access_key::{
    AddKey, ChangeKey, KEYS_PER_USER_MAX, KeyChange, LAST_USES_MAX, ListTokens, RecordLastUses,
    RemoveKey, RemoveUser, RotateKey, SetSecret,
};
pub use access_records::{AccessRecords, ListAccess};
pub use account::{AddAccount, ListAccounts, RemoveAccount};
pub use bucket::{
    BUCKETS_MAX, BucketChange, BucketConfigs, DeleteBucket, FindBucket, FindBucketConfig,
    FindBucketConfigs, FoundBucket, MakeBucket, ReadBuckets, SetBucket, SetBucketConfig,
    SetLifecyclePass,
};
pub use content_map::{build_content, concatenate, cut, pages_of, part_runs};
pub use error::{FsError, Halt};
pub use given_policies::{AddUser, SeenPolicy, SetUserPolicies};
pub use group::{
    ChangeMembers, FindGroup, GROUPS_MAX, GROUPS_PER_USER_MAX, ListGroups, MEMBERS_AT_ONCE_MAX,
    MEMBERS_PER_GROUP_MAX, Membership, PutGroup, RemoveGroup,
};
pub use job::{
    JOBS_KEPT_MAX, JOBS_RUNNING_MAX, JobEnd, JobError, JobOrder, ListJobs, NumberedJob, RemoveJob,
    ReportJob, StartJob, StopJob,
};
pub use list::{
    ListEntry, ListQuery, ListStart, Listing, PAGE_RANGES_MAX, PAGE_WAVES_MAX, WAVE_RANGES, Walk,
    WalkStep, successor,
};
pub use lock::{
    BeginLocking, ConflictSearch, EndLocking, FindLock, FindLockRequests, ForgetLocks,
    LOCK_SHARERS_MAX, LockUse, PublishLocks, SetLocks, SetLocksResult,
};
pub use lookup::{FoundObject, Lookup};
pub use node::{
    Acl, AclKind, AttributeChange, BoundName, CONTENT_HEADERS_BYTES_MAX, ContentChange,
    DestageContent, DetachVersions, DirectoryCounts, DirectoryPage, FindName, FindNode,
    FindUnlinked, FindXattr, FirstContent, ForkBucket, ForkDirectory, ForkLink, ForkNode,
    ForkPlace, ForkedDirectory, FoundNode, LinkNode, Linked, ListedName, ListedNames, MakeFile,
    MakeNode, NewNode, NodeName, NotAnAcl, OBJECT_TAGS_MAX, ObjectItem, PlanFile,
    ReadDirectoryPage, ReadNames, ReencryptContent, RelocateContent, Relocated, RemoveDirectory,
    RemoveName, RemovedName, RenameMode, RenameNode, Renamed, RetentionChange, SetAccessTime,
    SetAcl, SetAttributes, SetObjectItem, SetTime, SetXattr, SharedRange, USER_METADATA_BYTES_MAX,
    VERSIONED_LINKS_MAX, Whiteout, WriteContent, XattrChange, fork_inode, without_rights,
};
pub use object::{
    CheckedObject, DIRECTORY_MODE, FILE_MODE, ObjectChange, ObjectCondition, Publish, Published,
    RemoveCondition, SetObject, TagMatch, WriteCondition, self_contained, staged_inline_mark,
};
pub use packs::add_pack_shares;
pub use path::{DIRECTORIES_MAX, NamedBucket, Path};
pub use remove::{Branch, DIRECTORY_ITEMS, REMOVAL_ITEMS, Removal, Remove, Removed, RemovedKey};
pub use remove_version::{Exempt, RemoveVersion, RemovedVersion};
pub use rename::{RenameKey, RenamedKey};
pub use run::{Env, Next, Planner, Run, Step, plan_from_hints};
pub use space::{BUCKETS_COUNTED_MAX, CountUsage, Usage};
pub use stage::{Assumption, Stage, Unstage};
pub use trash::{ITEMS_SEEN_MAX, MarkTrashSeen, Restore};
pub use upload::{
    AbortUpload, CreateUpload, FindUpload, FoundPart, FoundUpload, ListUploads, ListedUpload,
    PartsFound, PutPart, ReadParts, TRANSMISSIONS_MAX, UploadName, UploadsAfter, end_upload,
};
pub use version_list::{ListedVersion, NoncurrentKind, ReadVersions, VersionsFrom, VersionsPage};
pub use view::{Followed, Hints, NoHints, View};
