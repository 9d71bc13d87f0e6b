//! Keys: the kinds of records and counters, and their order.
//!
//! A key has a space (one byte), a partition (a number, often an inode number) and a suffix. Spaces
//! with a lowercase letter are ordered and can be scanned; records of the others are read by key
//! only. For example, all names in a directory are one range: the space of dentries, with the
//! directory's inode number as partition.

use bytes::Bytes;
use store::{CounterKey, Follow, Key, Space};

use crate::{AccountId, BlockId, BucketConfigKind, Ino, Nonce, Timestamp, VersionStamp};

/// The spaces of a volume.
pub mod space {
    use store::Space;

    /// The volume itself: one record.
    pub const VOLUME: Space = Space(b'V');
    /// The next inode number to lease: one record.
    pub const LEASE: Space = Space(b'L');
    /// The readers' epoch: one record.
    pub const EPOCH: Space = Space(b'E');
    /// Inodes, by number. They sort behind all other records, so new ones are added at the end of
    /// an engine's index. There B-trees fill their pages; in the middle they leave pages half
    /// empty.
    pub const INODE: Space = Space(b'~');
    /// Pages of large content maps, by inode and page.
    pub const MAP: Space = Space(b'M');
    /// Checksums of the parts from which a file was completed, by inode and page.
    pub const PART_SUMS: Space = Space(b'C');
    /// Long extended attributes, by inode and name.
    pub const XATTR: Space = Space(b't');
    /// Settings of a bucket that every request needs, by inode.
    pub const BUCKET: Space = Space(b'B');
    /// Configurations of buckets, by inode and kind.
    pub const BUCKET_CONFIG: Space = Space(b'b');
    /// Names, by directory.
    pub const DENTRY: Space = Space(b'd');
    /// Noncurrent versions and delete markers, by bucket and object key, newest first.
    pub const VERSION: Space = Space(b'v');
    /// The id of the null version among these records, by bucket and object key.
    pub const NULL_VERSION: Space = Space(b'N');
    /// The version records that bind an inode, by inode.
    pub const SUPERSEDED: Space = Space(b'W');
    /// Inodes, buckets and references that were removed and wait for the reaper.
    pub const ORPHAN: Space = Space(b'o');
    /// Blocks without any reference, which wait for deletion.
    pub const PENDING: Space = Space(b'q');
    /// The owners of shared blocks.
    pub const SHARE: Space = Space(b'x');
    /// Multipart uploads, by bucket and object key.
    pub const UPLOAD: Space = Space(b'u');
    /// Completed uploads that still answer a repeated request, by the time at which they stop.
    pub const EXPIRY: Space = Space(b'e');
    /// Parts, by upload.
    pub const PART: Space = Space(b'p');
    /// Marks of records that a session has written ahead of the plan that publishes them.
    pub const STAGED: Space = Space(b'z');
    /// Marks of files whose content is staged inline: in their records until it is destaged into a
    /// block.
    pub const STAGED_INLINE: Space = Space(b'w');
    /// Holds: which session protects which file's content from deletion.
    pub const HOLD: Space = Space(b'k');
    /// Locks of files, by inode.
    pub const LOCKS: Space = Space(b'F');
    /// The place of file locks: one record.
    pub const LOCK_KEEPING: Space = Space(b'P');
    /// Live sessions.
    pub const SESSION: Space = Space(b's');
    /// The heartbeats of sessions.
    pub const HEARTBEAT: Space = Space(b'h');
    /// Sessions that were ended by another session or an operator.
    pub const FENCED: Space = Space(b'f');
    /// Ended sessions whose blocks a sweep has checked.
    pub const SWEPT: Space = Space(b'c');
    /// Idempotency slots, which prove that a plan of a session was committed.
    pub const IDEMPOTENCY_SLOT: Space = Space(b'K');
    /// Access keys.
    pub const USER: Space = Space(b'a');
    /// Accounts.
    pub const ACCOUNT: Space = Space(b'm');
    /// Named policies.
    pub const POLICY: Space = Space(b'g');
    /// Counts and times of directories and buckets. Counters only.
    pub const COUNTER: Space = Space(b'n');
    /// Live bytes of each pack. Counters only.
    pub const LIVE: Space = Space(b'l');

    /// Spaces whose records reference blocks, in the order in which references move: from parts to
    /// the file that they become, from files to their orphans, and then to pending blocks. A scan
    /// in this order finds a reference that moves during the scan.
    pub const REFERENCING_BLOCKS: [Space; 5] = [PART, INODE, MAP, ORPHAN, PENDING];

    /// All spaces of records, in the order in which a dump writes them.
    pub const ALL: [Space; 32] = [
        VOLUME,
        LEASE,
        EPOCH,
        INODE,
        MAP,
        PART_SUMS,
        XATTR,
        BUCKET,
        BUCKET_CONFIG,
        DENTRY,
        VERSION,
        NULL_VERSION,
        SUPERSEDED,
        UPLOAD,
        PART,
        STAGED,
        SHARE,
        SESSION,
        HEARTBEAT,
        FENCED,
        SWEPT,
        IDEMPOTENCY_SLOT,
        ACCOUNT,
        USER,
        POLICY,
        STAGED_INLINE,
        HOLD,
        LOCKS,
        LOCK_KEEPING,
        ORPHAN,
        EXPIRY,
        PENDING,
    ];
}

/// The volume's record.
pub fn volume() -> Key {
    Key::new(space::VOLUME, 0, b"")
}

/// The next inode number to lease.
pub fn lease() -> Key {
    Key::new(space::LEASE, 0, b"")
}

/// The readers' epoch.
pub fn epoch() -> Key {
    Key::new(space::EPOCH, 0, b"")
}

/// An inode.
pub fn inode(ino: Ino) -> Key {
    Key::new(space::INODE, ino.0, b"")
}

/// A page of a large content map.
pub fn map_page(ino: Ino, page: u32) -> Key {
    Key::new(space::MAP, ino.0, &page.to_be_bytes())
}

/// A page of part checksums.
pub fn part_sums(ino: Ino, page: u32) -> Key {
    Key::new(space::PART_SUMS, ino.0, &page.to_be_bytes())
}

/// A long extended attribute.
pub fn xattr(ino: Ino, name: &[u8]) -> Key {
    Key::new(space::XATTR, ino.0, name)
}

/// The range of all long extended attributes of an inode.
pub fn xattrs(ino: Ino) -> (Key, Key) {
    partition(space::XATTR, ino.0)
}

/// A bucket's settings.
pub fn bucket(ino: Ino) -> Key {
    Key::new(space::BUCKET, ino.0, b"")
}

/// A configuration of a bucket.
pub fn bucket_config(ino: Ino, kind: BucketConfigKind) -> Key {
    Key::new(space::BUCKET_CONFIG, ino.0, &[kind as u8])
}

/// The range of all configurations of a bucket.
pub fn bucket_configs(ino: Ino) -> (Key, Key) {
    partition(space::BUCKET_CONFIG, ino.0)
}

/// A name in a directory. See [`crate::SortKey`].
pub fn dentry(parent: Ino, sort_key: &[u8]) -> Key {
    Key::new(space::DENTRY, parent.0, sort_key)
}

/// The range of all names in a directory: its first key, and the first key behind its last.
pub fn dentries(parent: Ino) -> (Key, Key) {
    partition(space::DENTRY, parent.0)
}

/// How a read follows a dentry to the head of its inode, [`crate::InodeHead`].
pub fn dentry_to_head() -> Follow {
    Follow { bytes_max: Some(crate::InodeHead::BYTES_MAX), ..dentry_to_inode() }
}

/// How a read follows a dentry to its inode.
pub fn dentry_to_inode() -> Follow {
    Follow {
        prefix: Bytes::from_static(&[space::INODE.0]),
        offset: crate::Dentry::INO_OFFSET,
        length: Ino::BYTES,
        bytes_max: None,
    }
}

/// A noncurrent version of an object. Object keys contain no NUL, so versions are sorted by object
/// key, and those of one key from the newest to the oldest.
pub fn version(bucket: Ino, object: &[u8], id: VersionStamp) -> Key {
    // Inverted ids sort in descending order, so the newest version is the first of its key.
    let newest_first = id.0.map(|byte| !byte);
    Key::new(space::VERSION, bucket.0, &[object, b"\0", &newest_first].concat())
}

/// The range of all noncurrent versions of an object.
pub fn versions_of(bucket: Ino, object: &[u8]) -> (Key, Key) {
    // A record key is the object key, a NUL and the id. Object keys contain no NUL, so the range up
    // to 0x01 has exactly the versions of this object, and not those of longer keys.
    let of = |end: &[u8]| Key::new(space::VERSION, bucket.0, &[object, end].concat());
    (of(b"\0"), of(b"\x01"))
}

/// The range of all noncurrent versions of a bucket's objects.
pub fn versions(bucket: Ino) -> (Key, Key) {
    partition(space::VERSION, bucket.0)
}

/// The object key and the id in a key of [`version`]; `None` for other keys.
pub fn version_parts(key: &Key) -> Option<(&[u8], VersionStamp)> {
    let (object, id) = key.suffix().split_last_chunk::<{ VersionStamp::BYTES }>()?;
    let object = object.strip_suffix(b"\0")?;
    Some((object, VersionStamp(id.map(|byte| !byte))))
}

/// The record with the id of the null version of an object; see [`crate::NullVersion`].
pub fn null_version(bucket: Ino, object: &[u8]) -> Key {
    Key::new(space::NULL_VERSION, bucket.0, object)
}

/// The list of version records that bind an inode; see [`crate::Superseded`].
pub fn superseded(ino: Ino) -> Key {
    Key::new(space::SUPERSEDED, ino.0, b"")
}

/// The orphan of this number.
pub fn orphan(ino: Ino) -> Key {
    // All orphans are in one partition, so that the reaper scans them with one range.
    Key::new(space::ORPHAN, 0, &ino.0.to_be_bytes())
}

/// A block that waits for deletion.
pub fn pending(block: BlockId) -> Key {
    Key::new(space::PENDING, 0, &block.0)
}

/// One owner of a shared block. A block without such records has only the owner that references it.
/// A pack without such records has none.
pub fn share(block: BlockId, owner: Ino) -> Key {
    // The block comes first, so that all of its owners are one range.
    Key::new(space::SHARE, share_partition(block), &[&block.0[..], &owner.0.to_be_bytes()].concat())
}

/// The range of all owners of a shared block.
pub fn shares(block: BlockId) -> (Key, Key) {
    let first = share(block, Ino(0));
    let last = share(block, Ino(u64::MAX));
    (first, last)
}

/// The last eight bytes of a block's id. So the share records of one block are adjacent, and those
/// of two blocks of one session are in different partitions.
fn share_partition(block: BlockId) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&block.0[BlockId::BYTES - 8..]);
    u64::from_be_bytes(bytes)
}

/// The number of bytes of a pack that all of its owners together reference. It shows which packs
/// are worth rewriting. Only the [`shares`] decide whether a pack may be deleted.
pub fn live(pack: BlockId) -> CounterKey {
    CounterKey(Key::new(space::LIVE, share_partition(pack), &pack.0))
}

/// A multipart upload. Object keys contain no NUL, so uploads are sorted by object key.
pub fn upload(bucket: Ino, object: &[u8], id: [u8; 16]) -> Key {
    Key::new(space::UPLOAD, bucket.0, &[object, b"\0", &id].concat())
}

/// The range of all uploads of a bucket.
pub fn uploads(bucket: Ino) -> (Key, Key) {
    partition(space::UPLOAD, bucket.0)
}

/// A completed upload that answers a repeated request until this time. Times before 1970 count as
/// 1970.
pub fn expiry(until: Timestamp, upload: Ino) -> Key {
    // The time comes first, so that a scan returns the uploads that end first.
    let until = u64::try_from(until.0).unwrap_or(0);
    let suffix = [until.to_be_bytes(), upload.0.to_be_bytes()].concat();
    Key::new(space::EXPIRY, 0, &suffix)
}

/// One transmission of a part. A part that is sent twice has two records, in the order of their
/// commits.
pub fn part(upload: Ino, number: u16, transmission: u32) -> Key {
    // Big-endian numbers sort as numbers: the transmissions of a part are adjacent and in order.
    let suffix = [&number.to_be_bytes()[..], &transmission.to_be_bytes()].concat();
    Key::new(space::PART, upload.0, &suffix)
}

/// The range of all parts of an upload.
pub fn parts(upload: Ino) -> (Key, Key) {
    partition(space::PART, upload.0)
}

/// The mark of records that a session has written for an inode that is not published yet.
pub fn staged(session: Nonce, ino: Ino) -> Key {
    Key::new(space::STAGED, 0, &[&session.0[..], &ino.0.to_be_bytes()].concat())
}

/// The mark of a file whose content is staged inline.
pub fn staged_inline(ino: Ino) -> Key {
    Key::new(space::STAGED_INLINE, 0, &ino.0.to_be_bytes())
}

/// The hold by which a session protects a file's content from deletion; see [`crate::Hold`].
pub fn hold(ino: Ino, session: Nonce) -> Key {
    // The file comes first, so that all holds of a file are one range.
    Key::new(space::HOLD, ino.0, &session.0)
}

/// The locks of a file; see [`crate::FileLocks`].
pub fn locks(ino: Ino) -> Key {
    // The slots of one session are in one partition, and those of different sessions are spread.
    Key::new(space::LOCKS, ino.0, b"")
}

/// The place of file locks; see [`crate::LockKeeping`].
pub fn lock_keeping() -> Key {
    Key::new(space::LOCK_KEEPING, 0, b"")
}

/// A live session.
pub fn session(nonce: Nonce) -> Key {
    Key::new(space::SESSION, 0, &nonce.0)
}

/// A session's heartbeat.
pub fn heartbeat(nonce: Nonce) -> Key {
    Key::new(space::HEARTBEAT, 0, &nonce.0)
}

/// A session that was ended by another session or an operator.
pub fn fenced(nonce: Nonce) -> Key {
    Key::new(space::FENCED, 0, &nonce.0)
}

/// An ended session whose blocks a sweep has checked.
pub fn swept(nonce: Nonce) -> Key {
    Key::new(space::SWEPT, 0, &nonce.0)
}

/// An idempotency slot of a session; see [`crate::SlotRecord`].
pub fn idempotency_slot(nonce: Nonce, slot: u16) -> Key {
    Key::new(
        space::IDEMPOTENCY_SLOT,
        slot_partition(nonce),
        &[&nonce.0[..], &slot.to_be_bytes()].concat(),
    )
}

fn slot_partition(nonce: Nonce) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&nonce.0[..8]);
    u64::from_be_bytes(bytes)
}

/// An account.
pub fn account(id: AccountId) -> Key {
    Key::new(space::ACCOUNT, 0, &id.0.to_be_bytes())
}

/// An access key.
pub fn user(access_key: &str) -> Key {
    Key::new(space::USER, 0, access_key.as_bytes())
}

/// A named policy.
pub fn policy(name: &str) -> Key {
    Key::new(space::POLICY, 0, name.as_bytes())
}

/// The range of all records of a partition.
pub fn partition(space: Space, partition: u64) -> (Key, Key) {
    // The end is the first key of the next partition. The last partition has none, and is never
    // used (see [`crate::Upload::number`]).
    (Key::new(space, partition, b""), Key::new(space, partition + 1, b""))
}

/// The counters of a directory or bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterKind {
    /// The number of names in a directory.
    Entries = 0,
    /// The time of the last change of a name in a directory, in microseconds since 1970. A plan
    /// that sets the directory's times clears it, and the time in the inode counts.
    Modified = 1,
    /// The number of objects of a bucket.
    Objects = 2,
    /// The bytes of a bucket's files, including orphans.
    Bytes = 3,
    /// The number of subdirectories of a directory.
    Directories = 4,
}

/// A counter of a directory or bucket.
pub fn counter(ino: Ino, kind: CounterKind) -> CounterKey {
    CounterKey(Key::new(space::COUNTER, ino.0, &[kind as u8]))
}
