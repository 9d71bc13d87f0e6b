//! What a check may find.

use std::fmt;

use record::{BlockId, Ino, Nonce};
use store::Key;

/// Something that is not as it must be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Finding {
    /// A record or its key does not decode.
    Undecodable(Key, String),
    /// A name binds an inode that does not exist, or one of another kind.
    Dangling(Key, Ino),
    /// A name says of its file that it is nothing but its inode, or how long it is, and that is not
    /// so.
    NotSelfContained(Key, Ino),
    /// A name and its file disagree on whether the name says that the file is nothing but its
    /// inode.
    ToldByName(Key, Ino),
    /// One of several names of an inode does not say that there are others.
    Unlinked(Key, Ino),
    /// An inode that is not in the bucket that it says.
    ForeignBucket {
        /// The inode.
        ino: Ino,
        /// The bucket that it says.
        recorded: Ino,
        /// The bucket that it is found in.
        found: Ino,
    },
    /// A long extended attribute that is missing, or not as long as its inode says.
    MissingXattr(Key),
    /// A long extended attribute that no inode has.
    StrayXattr(Key),
    /// An inode that no name binds and that does not await the reaper.
    Nameless(Ino),
    /// Anything but a directory whose names are not as many as it says.
    Links {
        /// The inode.
        ino: Ino,
        /// What it says.
        recorded: u64,
        /// How many there are.
        found: u64,
    },
    /// A directory that does not know the directory it is in, or its name there.
    Parent(Ino),
    /// A directory that the root does not lead to.
    Unreachable(Ino),
    /// A bucket without settings, or settings without a bucket.
    Bucket(Ino),
    /// What a bucket is set to do, of a bucket that does not exist.
    StrayBucketConfig(Key),
    /// A version of an object is of no bucket, or nothing says that it is the null version, or what
    /// says so is of none.
    StrayVersion(Key),
    /// The versions that bind an inode are not those that its state lists: a program could change a
    /// version, or could not change a current file.
    VersionState(Ino),
    /// A page of a content map that is missing.
    MissingPage(Ino, u32),
    /// A content whose slices overlap or are not in order, or a page of its map that does not begin
    /// where the inode says, or holds other bytes than it says.
    Disorder(Ino),
    /// A page of a content map, or of part checksums, of a file that does not have it.
    StrayPage(Key),
    /// A file or part names a block that is not there.
    MissingBlock(BlockId, Ino),
    /// A block that is not as long as a record says.
    BlockSize {
        /// The block.
        block: BlockId,
        /// The sealed size by the record, in bytes.
        recorded: u64,
        /// The sealed size as stored, in bytes.
        found: u64,
    },
    /// A block of an ended session that no record names.
    Leaked(BlockId),
    /// One of several owners of a block, or an owner of a pack, has no record of it.
    Unshared(BlockId, Ino),
    /// A record says that somebody owns a block who does not name it.
    StrayShare(BlockId, Ino),
    /// A part without its upload.
    StrayPart(Key),
    /// An upload without its bucket, or one that ended and does not await the reaper.
    StrayUpload(Key),
    /// What says until when an upload answers that does not exist.
    StrayExpiry(Key),
    /// Something that awaits the reaper and does not exist.
    StrayOrphan(Ino),
    /// A file that is staged inline without the mark by which it would be found and destaged.
    Unmarked(Ino),
    /// A counter that a recount does not confirm.
    Counter {
        /// Of which directory or bucket.
        ino: Ino,
        /// Of what.
        what: &'static str,
        /// What the counter says.
        recorded: i64,
        /// What there is.
        found: i64,
    },
    /// A pack's counter that a recount of what its owners name does not confirm.
    Live {
        /// The pack.
        pack: BlockId,
        /// What the counter says, in bytes.
        recorded: i64,
        /// What its owners name, in bytes.
        found: i64,
    },
    /// Something of a session that is neither alive nor known to have been ended.
    StraySession(Key, Nonce),
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::Undecodable(key, why) => write!(f, "record {key:?} cannot be read: {why}"),
            Finding::Dangling(key, ino) => {
                write!(f, "name {key:?} binds inode {}, which is not there so", ino.0)
            }
            Finding::NotSelfContained(key, ino) => {
                write!(f, "name {key:?} says that file {} is all in its record, wrongly", ino.0)
            }
            Finding::ToldByName(key, ino) => {
                write!(f, "name {key:?} and file {} disagree on what the name says", ino.0)
            }
            Finding::Unlinked(key, ino) => {
                write!(f, "name {key:?} does not say that inode {} has others", ino.0)
            }
            Finding::ForeignBucket { ino, recorded, found } => {
                let (ino, recorded, found) = (ino.0, recorded.0, found.0);
                write!(f, "inode {ino} is in bucket {found} and says {recorded}")
            }
            Finding::MissingXattr(key) => {
                write!(f, "attribute {key:?} is missing or not as long as its inode says")
            }
            Finding::StrayXattr(key) => write!(f, "attribute {key:?} belongs to no inode"),
            Finding::Disorder(ino) => {
                write!(f, "slices of file {} overlap or are not where it says", ino.0)
            }
            Finding::Nameless(ino) => write!(f, "inode {} has no name", ino.0),
            Finding::Links { ino, recorded, found } => {
                write!(f, "inode {} has {found} names and says {recorded}", ino.0)
            }
            Finding::Parent(ino) => write!(f, "directory {} is not where it says", ino.0),
            Finding::Unreachable(ino) => write!(f, "directory {} hangs on no root", ino.0),
            Finding::Bucket(ino) => write!(f, "bucket {} and its settings disagree", ino.0),
            Finding::StrayVersion(key) => write!(f, "version {key:?} is of no bucket or of no use"),
            Finding::VersionState(ino) => write!(f, "file {} does not list its versions", ino.0),
            Finding::StrayBucketConfig(key) => write!(f, "configuration {key:?} is of no bucket"),
            Finding::MissingPage(ino, page) => {
                write!(f, "page {page} of the content map of file {} is missing", ino.0)
            }
            Finding::StrayPage(key) => write!(f, "page {key:?} belongs to no file"),
            Finding::MissingBlock(block, ino) => {
                write!(f, "block {block}, which {} names, is missing", ino.0)
            }
            Finding::BlockSize { block, recorded, found } => {
                write!(f, "block {block} has {found} bytes and should have {recorded}")
            }
            Finding::Leaked(block) => write!(f, "block {block} is named by no record"),
            Finding::Unshared(block, ino) => {
                write!(f, "block {block} can have several owners, and has no record of {}", ino.0)
            }
            Finding::StrayShare(block, ino) => {
                write!(f, "{} is recorded as an owner of block {block} and is none", ino.0)
            }
            Finding::StrayPart(key) => write!(f, "part {key:?} belongs to no upload"),
            Finding::StrayUpload(key) => {
                write!(f, "upload {key:?} has no bucket, or ended and is not to be reaped")
            }
            Finding::StrayExpiry(key) => write!(f, "expiry {key:?} is of no upload"),
            Finding::StrayOrphan(ino) => write!(f, "orphan {} does not exist", ino.0),
            Finding::Unmarked(ino) => write!(f, "file {} is staged inline without a mark", ino.0),
            Finding::Counter { ino, what, recorded, found } => {
                write!(f, "{what} of {}: the counter says {recorded}, there are {found}", ino.0)
            }
            Finding::Live { pack, recorded, found } => {
                write!(f, "pack {pack}: the counter says {recorded} bytes, its owners name {found}")
            }
            Finding::StraySession(key, nonce) => {
                write!(f, "record {key:?} is of session {nonce}, which nobody knows")
            }
        }
    }
}
