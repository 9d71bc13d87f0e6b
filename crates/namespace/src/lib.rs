//! Every file-system operation as a pure planner.
//!
//! A [`Planner`] turns what is known into guards and writes. It never reads: it asks, and a
//! [`Run`] tells its driver what to read and what to commit. It does not know which database
//! answers, nor which view of the volume is asking. A planner's round trips are its asks.

mod access;
mod account;
mod bucket;
mod content_map;
mod error;
mod inode_state;
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
    AccessError, AddUser, FindPolicy, FindUser, IsBuiltIn, ListPolicies, ListUsers, RemovePolicy,
    RemoveUser, SetPolicy, SetUserOwner, SetUserPolicies,
};
pub use account::{AddAccount, ListAccounts, RemoveAccount};
pub use bucket::{
    BUCKETS_MAX, BucketChange, BucketConfigs, DeleteBucket, FindBucket, FindBucketConfig,
    FindBucketConfigs, FoundBucket, MakeBucket, ReadBuckets, SetBucket, SetBucketConfig,
    SetLifecyclePass,
};
pub use content_map::{build_content, concatenate, cut, pages_of, part_runs};
pub use error::{FsError, Halt};
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
    DetachVersions, DirectoryCounts, DirectoryPage, FindName, FindNode, FindNodeOrOrphan,
    FindXattr, ForkBucket, ForkDirectory, ForkLink, ForkNode, ForkPlace, ForkedDirectory,
    FoundNode, LinkNode, ListedName, ListedNames, MakeNode, NewNode, NodeName, NotAnAcl,
    OBJECT_TAGS_MAX, ObjectItem, ReadDirectoryPage, ReadNames, RelocateContent, Relocated,
    RemoveDirectory, RemoveName, RemovedName, RenameMode, RenameNode, Renamed, RetentionChange,
    SetAccessTime, SetAcl, SetAttributes, SetObjectItem, SetTime, SetXattr, SharedRange,
    USER_METADATA_BYTES_MAX, VERSIONED_LINKS_MAX, Whiteout, WriteContent, XattrChange, forked,
    without_rights,
};
pub use object::{
    DIRECTORY_MODE, ExpectedObject, FILE_MODE, ObjectChange, ObjectCondition, Overlap, Publish,
    Published, RemoveCondition, SetObject, TagMatch, WriteCondition, self_contained,
    staged_inline_mark,
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
