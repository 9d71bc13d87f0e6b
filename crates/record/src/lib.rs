//! The persistent records of a volume: their ids, their bytes, and the order of their keys.
//!
//! This crate defines every byte that is written to a metadata store; `docs/FORMAT.md` describes
//! them. For example, the dentry of `photos/a.jpg` is the record with the key `d`, inode number of
//! `photos`, `a.jpg`, and its value has the kind and the inode number of the file.
//!
//! This crate does no I/O and does not know the time.

mod access;
mod account;
mod bucket;
mod bucket_config_kind;
mod codec;
mod content;
mod encryption;
mod file;
mod headers;
mod hex;
mod id;
mod inode;
mod job;
pub mod key;
mod lifecycle_pass;
mod lock;
mod name;
mod object_lock;
mod ring;
mod ring_records;
mod sealed_inode;
mod section;
mod small;
mod sum;
mod tag;
mod upload;
mod version;
mod xattr;

pub use access::{Group, LastUse, PolicyRecord, User, UserKind};
pub use account::{
    Account, AccountId, AccountIdError, AclRight, CanonicalId, CanonicalIdError, Grant, Grantee,
    S3Acl,
};
pub use bucket::{Bucket, BucketConfig, ObjectOwnership, PublicAccessBlock};
pub use bucket_config_kind::BucketConfigKind;
pub use codec::DecodeError;
pub use content::{
    Content, INLINE_BYTES_MAX, INLINE_PERMANENT_MAX, INODE_SLICES_MAX, InlineBytes, MapPage,
    PAGE_SLICES_MAX, PageRef, Slice, bytes_of,
};
pub use encryption::{CustomerSeal, Encryption};
pub use file::{File, FileHead, PartRun, RenameToken};
pub use headers::{Header, ObjectHeaders, STORAGE_CLASSES};
pub use id::{BlockId, IdError, Ino, Nonce};
pub use inode::{
    Attributes, Directory, HeadBody, Inode, InodeBody, InodeHead, Special, SpecialKind, Symlink,
};
pub use job::{JobKind, JobRecord, JobState};
pub use lifecycle_pass::{LifecyclePass, PassPosition};
pub use lock::{
    FileLocks, HeldLock, LOCKS_PER_FILE_MAX, LockKeeping, LockPlace, RangeLock, RangeLockKind,
    Written,
};
pub use name::{Dentry, Kind, Origin, Quota, SortKey};
pub use object_lock::{ObjectLock, RetainUntil, RetentionDefault, RetentionMode};
pub use ring::RingNumber;
pub use ring_records::{
    KeyFingerprint, RewrapRecord, RingKeyRecord, RingKeyState, RingState, RingWrapping,
};
pub use sealed_inode::{OpenInode, SALT_BYTES, SealedInode, is_open_inode, is_sealed_inode};
pub use small::{
    Expiry, HeartbeatRecord, HiddenBlock, Hold, HoldScope, Mark, Orphan, Sequence, SessionFacts,
    SessionKind, SessionRecord, SlotRecord, SocketSecret, SweptRecord, VolumeRecord,
};
pub use sum::{Sum, SumAlgorithm, SumKind};
pub use tag::Tag;
pub use upload::{PART_SUMS_PAGE, Part, PartSums, PartTag, Upload, UploadState};
pub use version::{
    BoundVersion, NullVersion, Superseded, Version, VersionBody, VersionRef, VersionStamp,
    Versioning,
};

pub use xattr::{
    XATTR_BYTES_MAX, XATTR_INLINE_BYTES_MAX, XATTR_NAME_BYTES_MAX, XATTR_NAMES_BYTES_MAX,
    XATTRS_INLINE_BYTES_MAX, Xattr, XattrPlace, XattrValue,
};

/// An instant in nanoseconds since 1970 in UTC, from 1677 to 2262, by the clock of its writer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Microseconds since 1970, rounded down. Counters hold times in this unit, because an engine
    /// may hold only 53 bits exactly.
    pub const fn micros(self) -> i64 {
        self.0.div_euclid(1_000)
    }

    /// The instant this number of microseconds after 1970. The first or last instant that 64 bits
    /// of nanoseconds can express if it is out of range.
    pub const fn from_micros(micros: i64) -> Timestamp {
        Timestamp(micros.saturating_mul(1_000))
    }
}
