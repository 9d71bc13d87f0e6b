//! Keys: the kinds of records and counters, and their order.
//!
//! A key has a space (one byte), a partition (a number, often an inode number) and a suffix. Spaces
//! with a lowercase letter are ordered and can be scanned; records of the others are read by key
//! only. For example, all names in a directory are one range: the space of dentries (records that
//! bind a name to an inode), with the directory's inode number as partition.

use bytes::Bytes;
use store::{CounterKey, Follow, Key, Space};

use crate::{
    AccountId, BlockId, BucketConfigKind, Ino, Nonce, RingNumber, Timestamp, VersionStamp,
};

/// The spaces of a volume.
pub mod space {
    use store::Space;

    /// The volume itself: one record with its id and settings.
    pub const VOLUME: Space = Space(b'V');
    /// The next inode number that a session can lease, that is, take for new inodes: one record.
    pub const LEASE: Space = Space(b'L');
    /// The readers' epoch, a number that grows, by which sessions report that earlier reads have
    /// ended: one record.
    pub const EPOCH: Space = Space(b'E');
    /// Inodes, by number. They sort behind all other records, so new ones are added at the end of
    /// an engine's index. There B-trees fill their pages; in the middle they leave pages half
    /// empty.
    pub const INODE: Space = Space(b'~');
    /// Pages of large content maps, that is, records with slices (references to runs of blocks) of
    /// one file, by inode and page.
    pub const MAP: Space = Space(b'M');
    /// Checksums of the parts from which a file was completed, by inode and page.
    pub const PART_SUMS: Space = Space(b'C');
    /// Long extended attributes, by inode and name.
    pub const XATTR: Space = Space(b't');
    /// Settings of a bucket that every request needs, by the inode of the bucket's directory.
    pub const BUCKET: Space = Space(b'B');
    /// Configurations of buckets, for example lifecycle rules, by the bucket's inode and the kind.
    pub const BUCKET_CONFIG: Space = Space(b'b');
    /// Dentries: names in directories, each bound to an inode, by directory.
    pub const DENTRY: Space = Space(b'd');
    /// Noncurrent versions and delete markers, by bucket and object key, newest first.
    pub const VERSION: Space = Space(b'v');
    /// The id of the null version among the noncurrent versions, by bucket and object key.
    pub const NULL_VERSION: Space = Space(b'N');
    /// The list of version records that bind an inode (name it as a noncurrent version), by inode.
    pub const SUPERSEDED: Space = Space(b'W');
    /// Orphans: inodes, buckets, uploads and references to blocks that were removed and wait for
    /// the reaper, the task that deletes blocks.
    pub const ORPHAN: Space = Space(b'o');
    /// Pending blocks: blocks without any reference, which the reaper deletes next.
    pub const PENDING: Space = Space(b'q');
    /// Shares: the owners of blocks that several files use, one record for each owner of a block.
    pub const SHARE: Space = Space(b'x');
    /// Multipart uploads, by bucket and object key.
    pub const UPLOAD: Space = Space(b'u');
    /// Completed uploads whose records still answer a repeated request to complete them, by the
    /// time at which they stop.
    pub const EXPIRY: Space = Space(b'e');
    /// Transmitted parts of multipart uploads, by upload.
    pub const PART: Space = Space(b'p');
    /// Marks of new inodes for which a session has written records ahead of the plan that gives the
    /// inode a name. If the session ends before that plan, the mark shows the records to delete.
    pub const STAGED: Space = Space(b'z');
    /// Marks of files whose content is in their inode's record for a while only (staged inline),
    /// until a task moves it into a block.
    pub const STAGED_INLINE: Space = Space(b'w');
    /// Holds: records by which a session protects the content of a file from deletion, by file and
    /// session.
    pub const HOLD: Space = Space(b'k');
    /// Locks that programs hold on files, by inode.
    pub const LOCKS: Space = Space(b'F');
    /// The place where the volume keeps the locks of files: one record.
    pub const LOCK_KEEPING: Space = Space(b'P');
    /// Live sessions. A session is one run of one gateway or mount.
    pub const SESSION: Space = Space(b's');
    /// The heartbeats of sessions: the numbers by which others see that a session lives.
    pub const HEARTBEAT: Space = Space(b'h');
    /// Fenced sessions: those that another session or an operator has ended. A session that finds
    /// its own record commits nothing more.
    pub const FENCED: Space = Space(b'f');
    /// Ended sessions whose blocks a sweep, the search for blocks without a record, has checked.
    pub const SWEPT: Space = Space(b'c');
    /// Idempotency slots, which prove that a plan of a session was committed.
    pub const IDEMPOTENCY_SLOT: Space = Space(b'K');
    /// Access keys and tokens (partition 0), and groups (partition 1).
    pub const USER: Space = Space(b'a');
    /// The last use of access keys and tokens. A space of its own: a change in `USER` makes every
    /// gateway read all access keys again.
    pub const LAST_USE: Space = Space(b'U');
    /// Accounts.
    pub const ACCOUNT: Space = Space(b'm');
    /// Named policies: JSON documents that say which requests an access key may send.
    pub const POLICY: Space = Space(b'g');
    /// The volume's ring: the state and the ring keys (partition 0), and a change of the master key
    /// (partition 1).
    pub const RING: Space = Space(b'Y');
    /// Jobs: long work that operators start, by number.
    pub const JOB: Space = Space(b'r');
    /// Counts and times of directories and buckets. Counters only.
    pub const COUNTER: Space = Space(b'n');
    /// The bytes of each pack (a block of several files) that files still reference. Counters only.
    pub const LIVE: Space = Space(b'l');

    /// Spaces whose records reference blocks, in the order in which plans move the references: from
    /// parts to the file that they become, from files to their orphans, and then to pending blocks.
    /// A scan in this order finds a reference that moves during the scan.
    pub const REFERENCING_BLOCKS: [Space; 5] = [PART, INODE, MAP, ORPHAN, PENDING];

    /// All spaces of records, in the order in which a dump writes them.
    pub const ALL: [Space; 35] = [
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
        LAST_USE,
        POLICY,
        RING,
        JOB,
        STAGED_INLINE,
        HOLD,
        LOCKS,
        LOCK_KEEPING,
        ORPHAN,
        EXPIRY,
        PENDING,
    ];
}

/// The key of the volume's record, `VolumeRecord`.
pub fn volume() -> Key {
    Key::new(space::VOLUME, 0, b"")
}

/// The key of the next inode number that a session can lease; see `crate::Sequence`.
pub fn lease() -> Key {
    Key::new(space::LEASE, 0, b"")
}

/// The key of the readers' epoch, by which sessions report that earlier reads have ended; see
/// `crate::Sequence`.
pub fn epoch() -> Key {
    Key::new(space::EPOCH, 0, b"")
}

/// The key of an inode's record.
pub fn inode(ino: Ino) -> Key {
    Key::new(space::INODE, ino.0, b"")
}

/// The key of a page of a large content map; see `crate::MapPage`.
pub fn map_page(ino: Ino, page: u32) -> Key {
    Key::new(space::MAP, ino.0, &page.to_be_bytes())
}

/// The key of a page of checksums of the parts from which a file was completed; see
/// `crate::PartSums`.
pub fn part_sums(ino: Ino, page: u32) -> Key {
    Key::new(space::PART_SUMS, ino.0, &page.to_be_bytes())
}

/// The key of the record of a long extended attribute; see `crate::XattrValue`.
pub fn xattr(ino: Ino, name: &[u8]) -> Key {
    Key::new(space::XATTR, ino.0, name)
}

/// The range of all long extended attributes of an inode.
pub fn xattrs(ino: Ino) -> (Key, Key) {
    partition(space::XATTR, ino.0)
}

/// The key of a bucket's settings. `ino` is the inode of the bucket's directory.
pub fn bucket(ino: Ino) -> Key {
    Key::new(space::BUCKET, ino.0, b"")
}

/// The key of a configuration of a bucket.
pub fn bucket_config(ino: Ino, kind: BucketConfigKind) -> Key {
    Key::new(space::BUCKET_CONFIG, ino.0, &[kind as u8])
}

/// The range of all configurations of a bucket.
pub fn bucket_configs(ino: Ino) -> (Key, Key) {
    partition(space::BUCKET_CONFIG, ino.0)
}

/// The key of a name in a directory. The sort key is the name in the form that sorts as object keys
/// do: see `crate::SortKey`.
pub fn dentry(parent: Ino, sort_key: &[u8]) -> Key {
    Key::new(space::DENTRY, parent.0, sort_key)
}

/// The range of all names in a directory: its first key, and the first key behind its last.
pub fn dentries(parent: Ino) -> (Key, Key) {
    partition(space::DENTRY, parent.0)
}

/// The rule by which a read of a dentry also returns the head of the inode that it names: the first
/// bytes of its record, `crate::InodeHead`.
pub fn dentry_to_head() -> Follow {
    Follow { bytes_max: Some(crate::InodeHead::BYTES_MAX), ..dentry_to_inode() }
}

/// The rule by which a read of a dentry also returns the record of the inode that it names.
pub fn dentry_to_inode() -> Follow {
    Follow {
        prefix: Bytes::from_static(&[space::INODE.0]),
        offset: crate::Dentry::INO_OFFSET,
        length: Ino::BYTES,
        bytes_max: None,
    }
}

/// The key of a noncurrent version of an object. Object keys contain no NUL, so versions are sorted
/// by object key, and those of one key from the newest to the oldest.
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

/// The object key and the version id in a key that [`version`] made; `None` for other keys.
pub fn version_parts(key: &Key) -> Option<(&[u8], VersionStamp)> {
    let (object, id) = key.suffix().split_last_chunk::<{ VersionStamp::BYTES }>()?;
    let object = object.strip_suffix(b"\0")?;
    Some((object, VersionStamp(id.map(|byte| !byte))))
}

/// The key of the record with the id of an object's null version; see `crate::NullVersion`.
pub fn null_version(bucket: Ino, object: &[u8]) -> Key {
    Key::new(space::NULL_VERSION, bucket.0, object)
}

/// The key of the list of version records that name an inode; see `crate::Superseded`.
pub fn superseded(ino: Ino) -> Key {
    Key::new(space::SUPERSEDED, ino.0, b"")
}

/// The key of the orphan with this number: the record of a removed inode, bucket, upload or
/// reference. See `crate::Orphan`.
pub fn orphan(ino: Ino) -> Key {
    // All orphans are in one partition, so that the reaper scans them with one range.
    Key::new(space::ORPHAN, 0, &ino.0.to_be_bytes())
}

/// The key of the record of a pending block, that is, one without references that waits for
/// deletion. The record is a `crate::Mark`.
pub fn pending(block: BlockId) -> Key {
    Key::new(space::PENDING, 0, &block.0)
}

/// The key of a share: the record of one owner of bytes in a block that several files use. A block
/// without shares has only the owner that references it. A pack, a block that was written for
/// several files, has no owner if it has no shares.
pub fn share(block: BlockId, owner: Ino) -> Key {
    // The block comes first, so that all of its owners are one range.
    Key::new(space::SHARE, share_partition(block), &[&block.0[..], &owner.0.to_be_bytes()].concat())
}

/// The range of the shares, the records of all owners, of one block.
pub fn shares(block: BlockId) -> (Key, Key) {
    let first = share(block, Ino(0));
    let last = share(block, Ino(u64::MAX));
    (first, last)
}

/// The partition of a block's shares: the last eight bytes of its id. So the shares of one block
/// are adjacent, and those of two blocks of one session are in different partitions.
fn share_partition(block: BlockId) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&block.0[BlockId::BYTES - 8..]);
    u64::from_be_bytes(bytes)
}

/// The counter of the bytes of a pack, a block of several files, that all of its owners together
/// reference. It shows which packs are worth rewriting. Only the [`shares`] decide whether a pack
/// may be deleted.
pub fn live(pack: BlockId) -> CounterKey {
    CounterKey(Key::new(space::LIVE, share_partition(pack), &pack.0))
}

/// The key of a multipart upload. Object keys contain no NUL, so uploads are sorted by object key.
pub fn upload(bucket: Ino, object: &[u8], id: [u8; 16]) -> Key {
    Key::new(space::UPLOAD, bucket.0, &[object, b"\0", &id].concat())
}

/// The range of all uploads of a bucket.
pub fn uploads(bucket: Ino) -> (Key, Key) {
    partition(space::UPLOAD, bucket.0)
}

/// The key of a completed upload whose record answers a repeated request until this time. Times
/// before 1970 count as 1970.
pub fn expiry(until: Timestamp, upload: Ino) -> Key {
    // The time comes first, so that a scan returns the uploads that end first.
    let until = u64::try_from(until.0).unwrap_or(0);
    let suffix = [until.to_be_bytes(), upload.0.to_be_bytes()].concat();
    Key::new(space::EXPIRY, 0, &suffix)
}

/// The key of one transmission of a part of an upload. A part that is sent twice has two records,
/// in the order of their commits.
pub fn part(upload: Ino, number: u16, transmission: u32) -> Key {
    // Big-endian numbers sort as numbers: the transmissions of a part are adjacent and in order.
    let suffix = [&number.to_be_bytes()[..], &transmission.to_be_bytes()].concat();
    Key::new(space::PART, upload.0, &suffix)
}

/// The range of all parts of an upload.
pub fn parts(upload: Ino) -> (Key, Key) {
    partition(space::PART, upload.0)
}

/// The key of the mark that a session has written records for an inode that has no name yet.
pub fn staged(session: Nonce, ino: Ino) -> Key {
    Key::new(space::STAGED, 0, &[&session.0[..], &ino.0.to_be_bytes()].concat())
}

/// The key of the mark of a file whose content is in its inode's record only until a task moves it
/// into a block.
pub fn staged_inline(ino: Ino) -> Key {
    Key::new(space::STAGED_INLINE, 0, &ino.0.to_be_bytes())
}

/// The key of the hold by which a session protects a file's content from deletion; see
/// `crate::Hold`.
pub fn hold(ino: Ino, session: Nonce) -> Key {
    // The file comes first, so that all holds of a file are one range.
    Key::new(space::HOLD, ino.0, &session.0)
}

/// The key of the locks that programs hold on a file; see `crate::FileLocks`.
pub fn locks(ino: Ino) -> Key {
    // All locks of a file are one record, so that one guard covers them.
    Key::new(space::LOCKS, ino.0, b"")
}

/// The key of the record that names the place of all file locks; see `crate::LockKeeping`.
pub fn lock_keeping() -> Key {
    Key::new(space::LOCK_KEEPING, 0, b"")
}

/// The key of a live session's record; see `crate::SessionRecord`.
pub fn session(nonce: Nonce) -> Key {
    Key::new(space::SESSION, 0, &nonce.0)
}

/// The key of a session's heartbeat; see `crate::HeartbeatRecord`.
pub fn heartbeat(nonce: Nonce) -> Key {
    Key::new(space::HEARTBEAT, 0, &nonce.0)
}

/// The key of the mark of a fenced session, that is, one that another session or an operator has
/// ended.
pub fn fenced(nonce: Nonce) -> Key {
    Key::new(space::FENCED, 0, &nonce.0)
}

/// The key of the record of an ended session whose blocks a sweep has checked; see
/// `crate::SweptRecord`.
pub fn swept(nonce: Nonce) -> Key {
    Key::new(space::SWEPT, 0, &nonce.0)
}

/// The key of an idempotency slot of a session: the record that proves if a plan was committed. See
/// `crate::SlotRecord`.
pub fn idempotency_slot(nonce: Nonce, slot: u16) -> Key {
    Key::new(
        space::IDEMPOTENCY_SLOT,
        slot_partition(nonce),
        &[&nonce.0[..], &slot.to_be_bytes()].concat(),
    )
}

/// The partition of the slots of a session: the first eight bytes of its name.
fn slot_partition(nonce: Nonce) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&nonce.0[..8]);
    u64::from_be_bytes(bytes)
}

/// The key of an account's record.
pub fn account(id: AccountId) -> Key {
    Key::new(space::ACCOUNT, 0, &id.0.to_be_bytes())
}

/// The partition of [`space::USER`] that has the groups.
pub const GROUPS: u64 = 1;

/// The key of the record of an access key or token.
pub fn user(access_key: &str) -> Key {
    Key::new(space::USER, 0, access_key.as_bytes())
}

/// The key of a group's record.
pub fn group(name: &str) -> Key {
    // A space of its own would need a lowercase letter, and none is free.
    Key::new(space::USER, GROUPS, name.as_bytes())
}

/// The key of the last use of an access key or token; see `crate::LastUse`.
pub fn last_use(access_key: &str) -> Key {
    Key::new(space::LAST_USE, 0, access_key.as_bytes())
}

/// The key of a named policy's record.
pub fn policy(name: &str) -> Key {
    Key::new(space::POLICY, 0, name.as_bytes())
}

/// The key of the state of the volume's ring; see `crate::RingState`.
pub fn ring_state() -> Key {
    Key::new(space::RING, 0, b"")
}

/// The key of the record of a ring key; see `crate::RingKeyRecord`.
pub fn ring_key(number: RingNumber) -> Key {
    Key::new(space::RING, 0, &number.0.to_be_bytes())
}

/// The key of the record of a change of the master key; see `crate::RewrapRecord`.
pub fn rewrap() -> Key {
    Key::new(space::RING, 1, b"")
}

/// The key of a job with this number. Later jobs have larger numbers.
pub fn job(number: u64) -> Key {
    Key::new(space::JOB, 0, &number.to_be_bytes())
}

/// The range of all records of a partition: its first key, and the first key of the next partition.
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
    /// that sets the directory's times in its inode clears this counter; then the time in the inode
    /// counts.
    Modified = 1,
    /// The number of objects of a bucket.
    Objects = 2,
    /// The bytes of a bucket's files, including orphans.
    Bytes = 3,
    /// The number of subdirectories of a directory.
    Directories = 4,
}

/// The key of a counter of a directory or bucket.
pub fn counter(ino: Ino, kind: CounterKind) -> CounterKey {
    CounterKey(Key::new(space::COUNTER, ino.0, &[kind as u8]))
}
