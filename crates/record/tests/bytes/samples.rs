//! One sample of every record. Each field has a value that differs from its neighbours' values.

use bytes::Bytes;
use record::{
    Account, AccountId, AclRight, Attributes, BlockId, BoundVersion, Bucket, BucketConfig,
    BucketConfigKind, CanonicalId, Content, CustomerSeal, Dentry, Directory, Encryption, Expiry,
    File, FileLocks, Grant, Grantee, Group, Header, HeartbeatRecord, HeldLock, HiddenBlock, Hold,
    HoldScope, InlineBytes, Ino, Inode, InodeBody, JobKind, JobRecord, JobState, KeyFingerprint,
    Kind, LastUse, LockKeeping, LockPlace, MapPage, Mark, Nonce, NullVersion, ObjectHeaders,
    ObjectLock, ObjectOwnership, Origin, Orphan, PageRef, Part, PartRun, PartSums, PartTag,
    PolicyRecord, PublicAccessBlock, Quota, RangeLock, RangeLockKind, RenameToken, RetainUntil,
    RetentionDefault, RetentionMode, RewrapRecord, RingKeyRecord, RingKeyState, RingNumber,
    RingState, RingWrapping, S3Acl, Sequence, SessionFacts, SessionKind, SessionRecord, Slice,
    SlotRecord, SocketSecret, Special, SpecialKind, Sum, SumAlgorithm, SumKind, Superseded,
    SweptRecord, Symlink, Tag, Timestamp, Upload, UploadState, User, UserKind, Version,
    VersionBody, VersionStamp, Versioning, VolumeRecord, Written, Xattr, XattrPlace, XattrValue,
    key,
};
use store::{Key, Value};

use crate::kinds::Record;

/// 2026-01-02 03:04:05.678901234 UTC.
pub(crate) const NOW: Timestamp = Timestamp(1_767_323_045_678_901_234);
pub(crate) const NONCE: Nonce = Nonce([0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9]);
pub(crate) const INO: Ino = Ino(0x0102_0304);
pub(crate) const BUCKET: Ino = Ino(0x0400);
pub(crate) const VERSION: VersionStamp =
    VersionStamp([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);

/// A record, with the functions that golden files, laws and damage tests need.
pub(crate) struct Sample {
    pub(crate) name: &'static str,
    pub(crate) key: Key,
    pub(crate) value: Value,
    pub(crate) fields: String,
    pub(crate) decode: fn(&Key, &Value) -> Result<String, record::DecodeError>,
}

fn sample<R: Record>(name: &'static str, key: Key, record: &R) -> Sample {
    let decode = |key: &Key, value: &Value| R::from_bytes(key, value).map(|r| format!("{r:#?}"));
    Sample { name, value: record.bytes(&key), key, fields: format!("{record:#?}"), decode }
}

pub(crate) fn attributes() -> Attributes {
    Attributes {
        mode: 0o644,
        uid: 1_000,
        gid: 70_000,
        changed: NOW,
        modified: Timestamp(NOW.0 - 1_000_000_000),
        accessed: Timestamp(NOW.0 + 2_000_000_000),
        status_changed: Timestamp(NOW.0 + 3),
        created: Timestamp(NOW.0 - 4_000_000_000),
    }
}

pub(crate) fn slice(position: u64, counter: u64) -> Slice {
    Slice {
        position,
        block: BlockId::new(NONCE, counter),
        block_length: 4 << 20,
        block_crc32c: 0xdead_beef,
        offset: 4_096,
        length: 65_536,
    }
}

fn sum(algorithm: SumAlgorithm, kind: SumKind) -> Sum {
    let bytes = (1..=algorithm.length()).map(|n| u8::try_from(n).unwrap()).collect();
    Sum { algorithm, kind, bytes }
}

fn sums() -> Vec<Sum> {
    vec![
        sum(SumAlgorithm::Crc32, SumKind::FullObject),
        sum(SumAlgorithm::Crc32c, SumKind::Composite),
        sum(SumAlgorithm::Crc64Nvme, SumKind::FullObject),
        sum(SumAlgorithm::Sha1, SumKind::Composite),
        sum(SumAlgorithm::Sha256, SumKind::FullObject),
    ]
}

fn sums_of_all() -> Vec<Sum> {
    let more = [
        sum(SumAlgorithm::Sha512, SumKind::Composite),
        sum(SumAlgorithm::Md5, SumKind::FullObject),
        sum(SumAlgorithm::Xxhash64, SumKind::Composite),
        sum(SumAlgorithm::Xxhash3, SumKind::FullObject),
        sum(SumAlgorithm::Xxhash128, SumKind::Composite),
    ];
    sums().into_iter().chain(more).collect()
}

fn text(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
}

fn acl() -> S3Acl {
    let grantees = [
        Grantee::Account(CanonicalId([0xc1; 32])),
        Grantee::AllUsers,
        Grantee::AuthenticatedUsers,
        Grantee::LogDelivery,
        Grantee::AllUsers,
    ];
    let grants = grantees.into_iter().zip(AclRight::ALL);
    S3Acl { grants: grants.map(|(grantee, permission)| Grant { grantee, permission }).collect() }
}

fn headers() -> ObjectHeaders {
    let named = [
        (Header::ContentType, "text/plain"),
        (Header::CacheControl, "no-cache"),
        (Header::ContentDisposition, "inline"),
        (Header::ContentEncoding, "gzip"),
        (Header::ContentLanguage, "de"),
        (Header::Expires, "Thu, 01 Dec 1994 16:00:00 GMT"),
        (Header::WebsiteRedirect, "/elsewhere"),
        (Header::StorageClass, "STANDARD_IA"),
    ];
    ObjectHeaders {
        headers: named.map(|(header, value)| (header, value.to_owned())).to_vec(),
        user: text(&[("colour", "blue"), ("größe", "")]),
        tags: text(&[("team", "a")]),
        acl: Some(acl()),
        lock: ObjectLock {
            retention: Some(RetainUntil { mode: RetentionMode::Compliance, until: NOW }),
            legal_hold: Some(true),
        },
    }
}

pub(crate) fn file(content: Content) -> File {
    File {
        size: 131_072,
        data_version: 3,
        links: 1,
        sparse: false,
        marked_in_dentry: false,
        writer: None,
        tag: Tag::Md5([0x11; 16]),
        sums: Vec::new(),
        object: ObjectHeaders::default(),
        parts: Vec::new(),
        renamed_by: None,
        pages_made: 0,
        encryption: None,
        content,
    }
}

fn inode(body: InodeBody) -> Inode {
    Inode { attributes: attributes(), bucket: BUCKET, xattrs: Vec::new(), body }
}

fn xattrs() -> Vec<Xattr> {
    let xattr = |name: &[u8], value| Xattr { name: name.to_vec(), value };
    vec![
        xattr(b"user.colour", XattrPlace::Inline(b"blue".to_vec())),
        xattr(b"user.picture", XattrPlace::Apart(5_000)),
    ]
}

fn special(kind: SpecialKind, device: u32) -> InodeBody {
    InodeBody::Special(Special { kind, device, links: 1 })
}

fn inodes() -> Vec<Sample> {
    let at = key::inode(INO);
    let pages = [(0, 0, 1 << 31), (1 << 31, 300, 70_000), (1 << 40, 2, 5)];
    let pages = pages.map(|(start, page, bytes)| PageRef { start, page, bytes });
    let full = File {
        tag: Tag::Multipart([0x22; 16], 10_000),
        sums: sums(),
        object: headers(),
        parts: vec![PartRun { count: 3, length: 5 << 20 }, PartRun { count: 1, length: 7 }],
        renamed_by: Some(RenameToken([0x99; 16])),
        ..file(Content::Pages(pages.to_vec()))
    };
    let inline = File {
        size: 5,
        marked_in_dentry: true,
        tag: Tag::Opaque([0x33; 16], 9),
        ..file(Content::Inline(InlineBytes::plain(Bytes::from_static(b"hello"))))
    };
    let ring = Some(RingNumber(7));
    let under_ring = File {
        size: 5,
        encryption: Some(Encryption::S3),
        ..file(Content::Inline(InlineBytes::under(Bytes::from_static(b"hello"), ring)))
    };
    let kms = File {
        encryption: Some(Encryption::Kms("invoices".to_owned())),
        ..file(Content::Slices(vec![slice(0, BlockId::SECRET_BIT | 1)]))
    };
    let seal = CustomerSeal { salt: [0x51; 16], wrapped: [0x52; 48], check: [0x53; 16] };
    let customer = File { encryption: Some(Encryption::Customer(Box::new(seal))), ..kms.clone() };
    let slices = file(Content::Slices(vec![slice(0, 1), slice(65_536, 2)]));
    let sparse = File {
        links: 3,
        sparse: true,
        ..file(Content::Slices(vec![slice(0, 1), slice(1 << 31, 2)]))
    };
    let adorned = Inode { xattrs: xattrs(), ..inode(InodeBody::File(Box::new(sparse))) };
    let directory = Directory { parent: BUCKET, name: b"photos".to_vec() };
    let symlink = Symlink { target: b"../elsewhere".to_vec(), links: 2 };
    let of = |name, body| sample(name, at.clone(), &inode(body));
    vec![
        of("inode-directory", InodeBody::Directory(directory)),
        of("inode-symlink", InodeBody::Symlink(symlink)),
        of("inode-fifo", special(SpecialKind::Fifo, 0)),
        of("inode-device", special(SpecialKind::Block, 0x0801)),
        of("inode-file-inline", InodeBody::File(Box::new(inline))),
        of("inode-file-inline-open", InodeBody::File(Box::new(under_ring))),
        of("inode-file-kms", InodeBody::File(Box::new(kms))),
        of("inode-file-customer", InodeBody::File(Box::new(customer))),
        of("inode-file-slices", InodeBody::File(Box::new(slices))),
        of("inode-file-pages", InodeBody::File(Box::new(full))),
        sample("inode-file-sparse", at, &adorned),
        sample("xattr", key::xattr(INO, b"user.picture"), &XattrValue(Bytes::from_static(b"long"))),
    ]
}

pub(crate) fn upload(state: UploadState) -> Upload {
    Upload {
        ino: INO,
        begun: NOW,
        uid: 1,
        gid: 2,
        umask: 0o022,
        initiator: "AKIDEXAMPLE".to_owned(),
        account: AccountId(123_456_789_012),
        writer: Some(AccountId(210_987_654_321)),
        checksum: Some((SumAlgorithm::Crc64Nvme, SumKind::FullObject)),
        object: headers(),
        asked: vec![("x-amz-acl".to_owned(), "private".to_owned())],
        encryption: Some(Encryption::S3),
        state,
    }
}

fn uploads() -> Vec<Sample> {
    let at = key::upload(BUCKET, b"a/b", [0x44; 16]);
    let done = UploadState::Done {
        ino: Ino(77),
        tag: Tag::Multipart([0x55; 16], 2),
        sums: vec![sum(SumAlgorithm::Crc32, SumKind::Composite)],
        used: vec![Ino(5), Ino(300), Ino(70_000)],
        at: Timestamp(NOW.0 + 1),
    };
    let part = Part {
        owner: Ino(70_000),
        size: 131_072,
        arrived: NOW,
        tag: PartTag::Md5([0x66; 16]),
        sums: sums(),
        shared: true,
        slices: vec![slice(0, 1), slice(65_536, 2)],
    };
    let opaque = Part { tag: PartTag::Opaque([0x77; 16]), ..part.clone() };
    vec![
        sample("upload-open", at.clone(), &upload(UploadState::Open)),
        sample("upload-done", at.clone(), &upload(done)),
        sample("upload-aborted", at, &upload(UploadState::Aborted)),
        sample("part", key::part(INO, 10_000, 9), &part),
        sample("part-opaque", key::part(INO, 10_000, 9), &opaque),
        sample("part-sums", key::part_sums(INO, 2), &PartSums { sums: sums_of_all() }),
        sample("map-page", key::map_page(INO, 1), &MapPage(vec![slice(1 << 31, 3)])),
    ]
}

fn names() -> Vec<Sample> {
    let special = Dentry { kind: Kind::Special, ..Dentry::file(INO) };
    let symlink = Dentry { kind: Kind::Symlink, ..Dentry::file(INO) };
    let inline = Dentry { self_contained: Some(4_096), ..Dentry::file(INO) };
    let linked = Dentry { linked: true, ..Dentry::file(INO) };
    let made = Dentry::directory(INO, Origin::Made);
    let version = Dentry { version: Some(VERSION), ..inline };
    let trash = Dentry { versioning: Versioning::Trash, ..made };
    let suspended = Dentry { versioning: Versioning::Suspended, ..made };
    let locks = Dentry { versioning: Versioning::Enabled, locks: true, ..made };
    let quota = Quota { bytes: Some(1 << 40), objects: None };
    let quota = Dentry { quota, ..locks };
    let encrypts = Dentry { encrypts: true, ..made };
    let at = || key::version(BUCKET, b"a/b", VERSION);
    let body = VersionBody::Object { ino: INO, self_contained: None, linked: true };
    let object = Version { body, is_null: false, since: NOW, seen: None };
    let seen = Version { seen: Some(Timestamp(NOW.0 + 1)), ..object };
    let body = VersionBody::Object { ino: INO, self_contained: Some(4_096), linked: false };
    let small = Version { body, is_null: true, since: NOW, seen: None };
    let marker = Version { body: VersionBody::Marker, is_null: false, since: NOW, seen: None };
    let bound = |object: &[u8]| BoundVersion { object: object.to_vec(), id: VERSION };
    let superseded = Superseded { versions: vec![bound(b"a/b"), bound(b"c")] };
    let implied = Dentry::directory(INO, Origin::Implied);
    vec![
        sample("dentry-file", key::dentry(BUCKET, b"file"), &Dentry::file(INO)),
        sample("dentry-inline", key::dentry(BUCKET, b"inline"), &inline),
        sample("dentry-linked", key::dentry(BUCKET, b"linked"), &linked),
        sample("dentry-made", key::dentry(BUCKET, b"made/"), &made),
        sample("dentry-implied", key::dentry(BUCKET, b"implied/"), &implied),
        sample("dentry-version", key::dentry(BUCKET, b"version"), &version),
        sample("dentry-suspended", key::dentry(Ino::ROOT, b"bucket/"), &suspended),
        sample("dentry-locks", key::dentry(Ino::ROOT, b"bucket/"), &locks),
        sample("dentry-trash", key::dentry(Ino::ROOT, b"bucket/"), &trash),
        sample("dentry-quota", key::dentry(Ino::ROOT, b"bucket/"), &quota),
        sample("dentry-encrypts", key::dentry(Ino::ROOT, b"bucket/"), &encrypts),
        sample("version-object", at(), &object),
        sample("version-inline", at(), &small),
        sample("version-seen", at(), &seen),
        sample("version-marker", at(), &marker),
        sample("null-version", key::null_version(BUCKET, b"a/b"), &NullVersion(VERSION)),
        sample("superseded", key::superseded(INO), &superseded),
        sample("dentry-symlink", key::dentry(BUCKET, b"symlink"), &symlink),
        sample("dentry-special", key::dentry(BUCKET, b"special"), &special),
    ]
}

fn orphans() -> Vec<Sample> {
    let at = key::orphan(INO);
    let inode_key = key::inode(INO);
    let inode =
        inode(InodeBody::Symlink(Symlink { target: b"x".to_vec(), links: 1 })).encode(&inode_key);
    let upload = key::upload(BUCKET, b"a", [1; 16]).as_bytes().to_vec();
    let block = |block| HiddenBlock { block, block_length: 4 << 20 };
    let hidden = Orphan::Hidden {
        owner: INO,
        blocks: vec![block(BlockId::new(NONCE, 3)), block(BlockId::pack(NONCE, 7))],
        pages: vec![1, 300],
    };
    vec![
        sample("orphan-file", at.clone(), &Orphan::File { bucket: BUCKET }),
        sample("orphan-detached", at.clone(), &Orphan::Detached { bucket: BUCKET, inode }),
        sample("orphan-bucket", at.clone(), &Orphan::Bucket),
        sample("orphan-upload", at.clone(), &Orphan::Upload { key: upload.clone() }),
        sample("orphan-hidden", at, &hidden),
        sample("expiry", key::expiry(NOW, INO), &Expiry { upload }),
    ]
}

fn locks() -> Vec<Sample> {
    let written = Written { by: NONCE, count: 300 };
    let other = Nonce([0xb0; 10]);
    let shared = RangeLock {
        start: 300,
        last: 70_000,
        kind: RangeLockKind::Shared,
        owner: 0x0102_0304_0506_0708,
        pid: 40_000,
        flock: false,
    };
    let kind = RangeLockKind::Exclusive;
    let flock = RangeLock { start: 0, last: u64::MAX, kind, flock: true, ..shared };
    let held = vec![
        HeldLock { session: NONCE, lock: shared },
        HeldLock { session: other, lock: RangeLock { flock: false, ..flock } },
        HeldLock { session: other, lock: flock },
    ];
    let memory = LockPlace::Memory { granter: NONCE, asked: vec![other] };
    let records = LockPlace::Records { sharers: vec![other, NONCE] };
    let at = key::lock_keeping();
    vec![
        sample("locks", key::locks(INO), &FileLocks { written, held }),
        sample("lock-keeping-memory", at.clone(), &LockKeeping { written, place: memory }),
        sample("lock-keeping-records", at, &LockKeeping { written, place: records }),
    ]
}

fn sessions() -> Vec<Sample> {
    let reach = vec!["unix:990:/var/lib/ashlar/peer-7.sock".into(), "tcp:10.0.0.5:9703".into()];
    let facts = SessionFacts {
        kind: SessionKind::Mount,
        version: "1.2.3".to_owned(),
        addresses: vec!["http://10.0.0.5:9700".to_owned()],
        folder: "/mnt/data".to_owned(),
        subdirectory: "photos".to_owned(),
    };
    let (place, socket_secret) = ("host 1, process 2".to_owned(), SocketSecret([0xb7; 16]));
    let session = SessionRecord { began: NOW, place, reach, socket_secret, facts };
    let job = JobRecord {
        kind: JobKind::Fork,
        arguments: vec![("source".to_owned(), "photos".to_owned())],
        user: "anna".to_owned(),
        session: NONCE,
        place: "host 1, process 2".to_owned(),
        began: NOW,
        changed: NOW,
        state: JobState::Failed,
        progress: vec![("objects".to_owned(), 300)],
        message: "The metadata store is away.".to_owned(),
        lines: vec!["one".to_owned()],
        has_more_lines: true,
    };
    let beat = HeartbeatRecord { count: 300, passed: 5, reads: "leased (2 peers)".to_owned() };
    let block = BlockId::new(NONCE, 7);
    vec![
        sample("session", key::session(NONCE), &session),
        sample("job", key::job(1_800_000_000_000), &job),
        sample("hold", key::hold(INO, NONCE), &Hold { since: NOW, scope: HoldScope::Versions }),
        sample("heartbeat", key::heartbeat(NONCE), &beat),
        sample(
            "idempotency-slot",
            key::idempotency_slot(NONCE, 3),
            &SlotRecord { count: 300, aborted: false },
        ),
        sample(
            "idempotency-slot-aborted",
            key::idempotency_slot(NONCE, 3),
            &SlotRecord { count: 300, aborted: true },
        ),
        sample("mark-staged", key::staged(NONCE, INO), &Mark),
        sample("mark-staged-inline", key::staged_inline(INO), &Mark),
        sample("mark-fenced", key::fenced(NONCE), &Mark),
        sample("swept", key::swept(NONCE), &SweptRecord { since: NOW, done: true }),
        sample("mark-share", key::share(block, INO), &Mark),
        sample("mark-pending", key::pending(block), &Mark),
    ]
}

fn ring() -> Vec<Sample> {
    let (one, other) = (KeyFingerprint([0x51; 8]), KeyFingerprint([0x52; 8]));
    let state =
        RingState { highest: 300, volume_key: Some(RingNumber(2)), everything: true, rewraps: 5 };
    let key = RingKeyRecord {
        made: NOW,
        wrapping: RingWrapping::Master(one),
        wrapped: vec![0x61; 60],
        state: RingKeyState::Usable,
    };
    let of_kms = RingKeyRecord {
        wrapping: RingWrapping::Kms("payroll".to_owned()),
        wrapped: b"vault:v1:abc".to_vec(),
        state: RingKeyState::Retired,
        ..key.clone()
    };
    let rewrap = RewrapRecord { began: NOW, from: one, to: other, done: 300 };
    vec![
        sample("ring-state", key::ring_state(), &state),
        sample("ring-key", key::ring_key(RingNumber(258)), &key),
        sample("ring-key-kms", key::ring_key(RingNumber(259)), &of_kms),
        sample("rewrap", key::rewrap(), &rewrap),
    ]
}

fn volume() -> Vec<Sample> {
    let volume = VolumeRecord {
        id: [0x77; 16],
        made: NOW,
        format: VolumeRecord::CURRENT,
        generation: 2,
        block_bytes: 4 << 20,
        place: Some([0x66; 16]),
    };
    let bucket = Bucket {
        owner: AccountId(123_456_789_012),
        opaque_tags: true,
        ownership: Some(ObjectOwnership::ObjectWriter),
        public_access: Some(PublicAccessBlock {
            ignore_public_acls: true,
            restrict_public_buckets: true,
            ..PublicAccessBlock::default()
        }),
        configs_version: 300,
        default_encryption: Some(Encryption::Kms("invoices".to_owned())),
        default_retention: Some(RetentionDefault { mode: RetentionMode::Compliance, days: 365 }),
    };
    let account = Account { name: "lab".to_owned(), canonical_id: CanonicalId([0xc1; 32]) };
    let config_key = key::bucket_config(BUCKET, BucketConfigKind::Tags);
    let tags = BucketConfig::of_tags(&text(&[("stage", "test")]));
    let user = User {
        uid: 3,
        gid: 4,
        umask: 0o027,
        policies: vec!["readwrite".to_owned(), "logs".to_owned()],
        description: "nightly copies".to_owned(),
        made: NOW,
        keys: vec!["AKTOKEN".to_owned()],
        groups: vec!["lab".to_owned()],
        ..User::new(AccountId(123_456_789_012), vec![9, 8, 7])
    };
    let token = User {
        parent: Some("AKIDEXAMPLE".to_owned()),
        expires: Some(Timestamp(NOW.0 + 1)),
        kind: UserKind::Token { actions: vec!["admin:ListUsers".to_owned()] },
        ..User::new(AccountId(123_456_789_012), vec![6, 5])
    };
    let group = Group {
        enabled: true,
        members: vec!["AKIDEXAMPLE".to_owned()],
        policies: vec!["logs".to_owned()],
    };
    let policy = PolicyRecord("{\"Statement\":[]}".to_owned());
    vec![
        sample("volume", key::volume(), &volume),
        sample("lease", key::lease(), &Sequence(2_048)),
        sample("epoch", key::epoch(), &Sequence(6)),
        sample("bucket", key::bucket(BUCKET), &bucket),
        sample("bucket-config-tags", config_key, &tags),
        sample(
            "bucket-config-acl",
            key::bucket_config(BUCKET, BucketConfigKind::Acl),
            &BucketConfig::of_acl(&acl()),
        ),
        sample("account", key::account(AccountId(123_456_789_012)), &account),
        sample("user", key::user("AKIDEXAMPLE"), &user),
        sample("token", key::user("AKTOKEN"), &token),
        sample("group", key::group("lab"), &group),
        sample("last-use", key::last_use("AKIDEXAMPLE"), &LastUse { at: NOW }),
        sample("policy", key::policy("logs"), &policy),
    ]
}

/// All samples.
pub(crate) fn all() -> Vec<Sample> {
    [inodes(), uploads(), names(), orphans(), locks(), sessions(), ring(), volume()]
        .into_iter()
        .flatten()
        .collect()
}
