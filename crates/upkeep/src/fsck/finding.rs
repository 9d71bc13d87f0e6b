//! The inconsistencies that a check may find.
//!
//! For example, `MissingBlock` means data loss for one file, and `Leaked` only wasted space. The
//! text of each finding names the inconsistency, the affected data, and the operator's next step.

use std::fmt;

use record::{BlockId, Ino, Nonce};
use store::Key;

/// An inconsistency of a volume that a check has found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Finding {
    /// A record does not decode. Its key, and the reason.
    Undecodable(Key, String),
    /// A name is bound to an inode that does not exist or has another kind. The name's key, and the
    /// inode.
    Dangling(Key, Ino),
    /// A name says that its file's data is all in its inode's record, or gives its size, and that
    /// is wrong. The name's key, and the inode.
    NotSelfContained(Key, Ino),
    /// A name and its file disagree whether the name says that the file's data is all in its
    /// inode's record. The name's key, and the inode.
    SelfContainedMismatch(Key, Ino),
    /// An inode has several names, and one of them does not say so. That name's key, and the inode.
    Unlinked(Key, Ino),
    /// An inode is in another bucket than its record says.
    ForeignBucket {
        /// The inode.
        ino: Ino,
        /// The bucket in its record.
        recorded: Ino,
        /// The bucket that contains its name.
        found: Ino,
    },
    /// A long extended attribute is missing, or has another length than its inode says. The key of
    /// its record.
    MissingXattr(Key),
    /// A long extended attribute belongs to no inode. The key of its record.
    StrayXattr(Key),
    /// An inode has no name and does not await the reaper, so it is never removed.
    Nameless(Ino),
    /// An inode that is not a directory has another number of names than its record says.
    Links {
        /// The inode.
        ino: Ino,
        /// The number in its record.
        recorded: u64,
        /// The number of its names.
        found: u64,
    },
    /// The record of this directory has another parent or another name than the entry that binds
    /// it.
    Parent(Ino),
    /// This directory is not connected to the root.
    Unreachable(Ino),
    /// This bucket has no settings record, or this settings record has no bucket.
    Bucket(Ino),
    /// A configuration record belongs to a bucket that does not exist. The key of the record.
    StrayBucketConfig(Key),
    /// A version of an object belongs to no bucket, or the record of the null version (S3's version
    /// without an id) and the record that points to it disagree. The key of the record.
    StrayVersion(Key),
    /// The versions of objects that bind this inode differ from those that its state record lists.
    /// A program could change a version, or could not change a current file.
    VersionState(Ino),
    /// A page of the content map of this file is missing. The file, and the number of the page.
    MissingPage(Ino, u32),
    /// The slices (runs of block bytes) of this file overlap or are not sorted, or a page of its
    /// content map has another start or length than the inode says.
    Disorder(Ino),
    /// A page of a content map or of part checksums belongs to no file. The key of the page.
    StrayPage(Key),
    /// A file or part of an upload references a block that does not exist: its bytes are lost. The
    /// block, and the file or part.
    MissingBlock(BlockId, Ino),
    /// A block has another size than a record says.
    BlockSize {
        /// The block.
        block: BlockId,
        /// The sealed size in the record, in bytes.
        recorded: u64,
        /// The stored size, in bytes.
        found: u64,
    },
    /// A block of an ended session is referenced by no record, so it wastes space.
    Leaked(BlockId),
    /// One of several owners of a block, or an owner of a pack (block of several files), has no
    /// share record. The block, and the owner.
    Unshared(BlockId, Ino),
    /// A share record (of one owner of a block) names an owner that does not reference the block.
    /// The block, and the owner.
    StrayShare(BlockId, Ino),
    /// A part belongs to no upload. The key of the part's record.
    StrayPart(Key),
    /// An upload has no bucket, or has ended and has no orphan, the record by which the reaper
    /// removes it. The key of the upload's record.
    StrayUpload(Key),
    /// An expiry record (until when a completed upload answers) belongs to no upload. The key of
    /// the record.
    StrayExpiry(Key),
    /// An orphan record (of dead data) belongs to nothing that exists. The inode number in its key.
    StrayOrphan(Ino),
    /// The body of this file waits in its record to be moved into a block, without the mark by
    /// which the relocator would find it.
    Unmarked(Ino),
    /// A counter of a directory or bucket differs from the recount.
    Counter {
        /// The directory or bucket.
        ino: Ino,
        /// The counted items.
        what: &'static str,
        /// The value of the counter.
        recorded: i64,
        /// The result of the recount.
        found: i64,
    },
    /// The counter of live bytes of a pack (block of several files) differs from the bytes that its
    /// owners reference.
    Live {
        /// The pack.
        pack: BlockId,
        /// The value of the counter, in bytes.
        recorded: i64,
        /// The bytes that its owners reference.
        found: i64,
    },
    /// A record belongs to a session that is neither open nor recorded as ended. The key of the
    /// record, and the session.
    StraySession(Key, Nonce),
}

impl fmt::Display for Finding {
    #[expect(clippy::too_many_lines, reason = "one text for each finding")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::Undecodable(key, why) => {
                write!(
                    f,
                    "record {key:?} cannot be decoded: {why}; the file, bucket or session that it \
                     describes may be unusable; restore the metadata store from a backup"
                )
            }
            Finding::Dangling(key, ino) => write!(
                f,
                "name {key:?} is bound to inode {}, which is missing or has another kind; \
                 the name cannot be opened",
                ino.0
            ),
            Finding::NotSelfContained(key, ino) => write!(
                f,
                "name {key:?} records that the data of file {} is all in its inode, or its size, \
                 and that is wrong; a delete may leave blocks or a wrong usage behind",
                ino.0
            ),
            Finding::SelfContainedMismatch(key, ino) => write!(
                f,
                "name {key:?} and file {} disagree whether the name records that all data is in \
                 the inode; a delete may leave blocks or a wrong usage behind",
                ino.0
            ),
            Finding::Unlinked(key, ino) => write!(
                f,
                "name {key:?} does not record that inode {} has other names; \
                 a delete of it may delete the data of the other names",
                ino.0
            ),
            Finding::ForeignBucket { ino, recorded, found } => write!(
                f,
                "inode {} is in bucket {} but its record says {}; the usage of both is wrong",
                ino.0, found.0, recorded.0
            ),
            Finding::MissingXattr(key) => write!(
                f,
                "extended attribute {key:?} is missing or has another length than its inode says; \
                 set it again"
            ),
            Finding::StrayXattr(key) => {
                write!(f, "extended attribute {key:?} belongs to no inode; no data is affected")
            }
            Finding::Disorder(ino) => write!(
                f,
                "the content map of file {} overlaps or is out of order; \
                 reads may return wrong bytes; restore the file",
                ino.0
            ),
            Finding::Nameless(ino) => write!(
                f,
                "inode {} has no name and does not await deletion; its data cannot be reached",
                ino.0
            ),
            Finding::Links { ino, recorded, found } => write!(
                f,
                "inode {} has {found} names but its record says {recorded}; \
                 its data may be deleted too early or never",
                ino.0
            ),
            Finding::Parent(ino) => {
                write!(f, "directory {} records another parent or name than its entry has", ino.0)
            }
            Finding::Unreachable(ino) => write!(
                f,
                "directory {} is not connected to the root; files in it cannot be reached",
                ino.0
            ),
            Finding::Bucket(ino) => {
                write!(f, "bucket {} has a name without settings or settings without a name", ino.0)
            }
            Finding::StrayVersion(key) => write!(
                f,
                "version {key:?} belongs to no bucket, or its null state is inconsistent; \
                 S3 may not find this version"
            ),
            Finding::VersionState(ino) => write!(
                f,
                "the state record of file {} does not list its versions; \
                 a program could change a version",
                ino.0
            ),
            Finding::StrayBucketConfig(key) => {
                write!(f, "configuration {key:?} belongs to no bucket; no data is affected")
            }
            Finding::MissingPage(ino, page) => write!(
                f,
                "page {page} of the content map of file {} is missing; \
                 a part of the file cannot be read; restore the file",
                ino.0
            ),
            Finding::StrayPage(key) => {
                write!(f, "page {key:?} belongs to no file; no data is affected")
            }
            Finding::MissingBlock(block, ino) => write!(
                f,
                "block {block} of file or part {} is missing; \
                 its bytes are lost unless the block is restored",
                ino.0
            ),
            Finding::BlockSize { block, recorded, found } => write!(
                f,
                "block {block} has {found} bytes but its records say {recorded}; \
                 its files cannot be read unless the block is restored"
            ),
            Finding::Leaked(block) => {
                write!(f, "block {block} is referenced by no record; run gc to delete it")
            }
            Finding::Unshared(block, ino) => write!(
                f,
                "block {block} has no share record of owner {}; \
                 the block may be deleted while this file needs it",
                ino.0
            ),
            Finding::StrayShare(block, ino) => write!(
                f,
                "block {block} has a share record of inode {}, which does not reference it; \
                 its space is never freed",
                ino.0
            ),
            Finding::StrayPart(key) => {
                write!(f, "part {key:?} belongs to no upload; its blocks are never deleted")
            }
            Finding::StrayUpload(key) => write!(
                f,
                "upload {key:?} has no bucket, or has ended without an orphan record; \
                 its parts may never be deleted"
            ),
            Finding::StrayExpiry(key) => {
                write!(f, "expiry {key:?} belongs to no upload; no data is affected")
            }
            Finding::StrayOrphan(ino) => {
                write!(f, "orphan {} belongs to nothing that exists; no data is affected", ino.0)
            }
            Finding::Unmarked(ino) => write!(
                f,
                "file {} is staged inline without a mark; it is readable but never destaged",
                ino.0
            ),
            Finding::Counter { ino, what, recorded, found } => write!(
                f,
                "the counter of {what} of inode {} is {recorded} but the recount is {found}; \
                 counts, usage or quotas are wrong",
                ino.0
            ),
            Finding::Live { pack, recorded, found } => write!(
                f,
                "the counter of pack {pack} is {recorded} bytes but its owners reference {found}; \
                 the pack may be rewritten too early or too late"
            ),
            Finding::StraySession(key, nonce) => write!(
                f,
                "record {key:?} belongs to session {nonce}, which is neither open nor ended; \
                 no data is affected"
            ),
        }
    }
}
