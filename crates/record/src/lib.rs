//! The persistent records of a volume: their ids, their bytes, and the order of their keys.
//!
//! Every byte that reaches a metadata store is laid out here and described in `docs/FORMAT.md`.
//! Nothing here reads, writes, or knows the time.

mod bucket;
mod codec;
mod content;
mod id;
mod inode;
pub mod key;
mod name;
mod small;
mod upload;

pub use bucket::{Bucket, BucketConfig, BucketConfigKind};
pub use codec::DecodeError;
pub use content::{
    Content, INLINE_BYTES_MAX, INLINE_STAYS_MAX, INODE_SLICES_MAX, MapPage, PAGE_SLICES_MAX, Slice,
};
pub use id::{BlockId, IdError, Ino, Nonce};
pub use inode::{
    Attributes, File, FileHead, HeadBody, Header, Inode, InodeBody, InodeHead, ObjectHeaders,
    PartRun, Sum, SumAlgorithm, SumKind, Tag,
};
pub use name::{Dentry, Kind, Origin, SortKey};
pub use small::{
    Expiry, HeartbeatRecord, Hold, Mark, Orphan, PolicyRecord, Sequence, SessionRecord, SlotRecord,
    SweptRecord, User, VolumeRecord,
};
pub use upload::{PART_SUMS_PAGE, Part, PartSums, PartTag, Upload, UploadState};

/// An instant: microseconds since 1970 in UTC, by the clock of whoever wrote it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);
