//! Decoding undoes encoding, and refuses whatever was damaged, misplaced or newer.

use std::fmt::Debug;

use proptest::prelude::*;
use record::{
    Account, AccountId, AclRight, Attributes, BlockId, BoundVersion, Bucket, BucketConfig,
    BucketConfigKind, CanonicalId, Content, DecodeError, Dentry, Directory, File, FileLocks, Grant,
    Grantee, Header, HeartbeatRecord, HeldLock, HiddenBlock, Ino, Inode, InodeBody, Kind,
    LockKeeping, LockPlace, MapPage, Nonce, NullVersion, ObjectHeaders, ObjectLock,
    ObjectOwnership, Origin, Orphan, PageRef, Part, PartRun, PartSums, PartTag, PolicyRecord,
    PublicAccessBlock, Quota, RangeLock, RangeLockKind, RetainUntil, RetentionDefault,
    RetentionMode, S3Acl, Sequence, SessionRecord, Slice, SlotRecord, Special, SpecialKind, Sum,
    SumAlgorithm, SumKind, Superseded, Symlink, Tag, Timestamp, Upload, UploadState, User, Version,
    VersionBody, VersionStamp, Versioning, VolumeRecord, Written, Xattr, XattrPlace, XattrValue,
    key,
};
use store::{Key, Value};

use crate::kinds::{Record, body, sealed, verdicts};
use crate::samples;

/// Encodes, decodes, and encodes again.
#[track_caller]
fn returns<R: Record>(key: &Key, record: &R) {
    let value = record.bytes(key);
    let again = R::from_bytes(key, &value).expect("what was encoded decodes");
    assert_eq!(again, *record);
    assert_eq!(again.bytes(key), value, "one record has one form");
}

fn text() -> impl Strategy<Value = String> {
    "\\PC{0,12}"
}

fn pairs() -> impl Strategy<Value = Vec<(String, String)>> {
    prop::collection::vec((text(), text()), 0..4)
}

fn instant() -> impl Strategy<Value = Timestamp> {
    prop_oneof![any::<i64>().prop_map(Timestamp), Just(samples::NOW)]
}

fn algorithm() -> impl Strategy<Value = SumAlgorithm> {
    prop::sample::select(vec![
        SumAlgorithm::Crc32,
        SumAlgorithm::Crc32c,
        SumAlgorithm::Crc64Nvme,
        SumAlgorithm::Sha1,
        SumAlgorithm::Sha256,
        SumAlgorithm::Sha512,
        SumAlgorithm::Md5,
        SumAlgorithm::Xxhash64,
        SumAlgorithm::Xxhash3,
        SumAlgorithm::Xxhash128,
    ])
}

fn sum_kind() -> impl Strategy<Value = SumKind> {
    prop::sample::select(vec![SumKind::FullObject, SumKind::Composite])
}

fn sums() -> impl Strategy<Value = Vec<Sum>> {
    let sum =
        (algorithm(), sum_kind(), any::<[[u8; 32]; 2]>()).prop_map(|(algorithm, kind, bytes)| {
            Sum { algorithm, kind, bytes: bytes.as_flattened()[..algorithm.length()].to_vec() }
        });
    prop::collection::vec(sum, 0..4)
}

fn tag() -> impl Strategy<Value = Tag> {
    prop_oneof![
        any::<[u8; 16]>().prop_map(Tag::Md5),
        any::<([u8; 16], u16)>().prop_map(|(md5, parts)| Tag::Multipart(md5, parts)),
        any::<([u8; 16], u32)>().prop_map(|(id, version)| Tag::Opaque(id, version)),
    ]
}

fn slices() -> impl Strategy<Value = Vec<Slice>> {
    let slice = (0..u64::MAX / 2, any::<[u8; 16]>(), any::<u32>(), any::<u32>(), 1..u32::MAX);
    let slice = slice.prop_map(|(position, block, block_crc32c, offset, length)| {
        let offset = offset.min(u32::MAX - length);
        let block_length = offset + length;
        Slice { position, block: BlockId(block), block_length, block_crc32c, offset, length }
    });
    prop::collection::vec(slice, 0..5)
}

fn content() -> impl Strategy<Value = Content> {
    let page = any::<(u64, u32, u64)>();
    let page = page.prop_map(|(start, page, bytes)| PageRef { start, page, bytes });
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..200).prop_map(|b| Content::Inline(b.into())),
        slices().prop_map(Content::Slices),
        prop::collection::vec(page, 0..5).prop_map(Content::Pages),
    ]
}

fn account() -> impl Strategy<Value = AccountId> {
    (0..AccountId::END).prop_map(AccountId)
}

fn acl() -> impl Strategy<Value = S3Acl> {
    let grantee = prop_oneof![
        any::<[u8; 32]>().prop_map(|id| Grantee::Account(CanonicalId(id))),
        Just(Grantee::AllUsers),
        Just(Grantee::AuthenticatedUsers),
        Just(Grantee::LogDelivery),
    ];
    let grant = (grantee, prop::sample::select(AclRight::ALL.to_vec()))
        .prop_map(|(grantee, permission)| Grant { grantee, permission });
    prop::collection::vec(grant, 0..4).prop_map(|grants| S3Acl { grants })
}

fn bucket() -> impl Strategy<Value = Bucket> {
    let ownership = prop::option::of(prop::sample::select(ObjectOwnership::ALL.to_vec()));
    let public = prop::option::of(any::<(bool, bool, bool, bool)>());
    (account(), any::<(bool, bool, u64)>(), ownership, public).prop_map(
        |(owner, (refuse_overlap, opaque_tags, configs_version), ownership, public)| Bucket {
            owner,
            refuse_overlap,
            opaque_tags,
            ownership,
            public_access: public.map(|(a, b, c, d)| PublicAccessBlock {
                block_public_acls: a,
                ignore_public_acls: b,
                block_public_policy: c,
                restrict_public_buckets: d,
            }),
            configs_version,
            default_retention: refuse_overlap.then_some(RetentionDefault {
                mode: if opaque_tags {
                    RetentionMode::Compliance
                } else {
                    RetentionMode::Governance
                },
                days: 36_500,
            }),
        },
    )
}

fn headers() -> impl Strategy<Value = ObjectHeaders> {
    let all = vec![
        Header::ContentType,
        Header::CacheControl,
        Header::ContentDisposition,
        Header::ContentEncoding,
        Header::ContentLanguage,
        Header::Expires,
        Header::WebsiteRedirect,
        Header::StorageClass,
    ];
    let named = prop::sample::subsequence(all, 0..=8)
        .prop_flat_map(|chosen| chosen.into_iter().map(|h| (Just(h), text())).collect::<Vec<_>>());
    (named, pairs(), pairs(), prop::option::of(acl()), lock()).prop_map(
        |(headers, user, tags, acl, lock)| ObjectHeaders { headers, user, tags, acl, lock },
    )
}

fn lock() -> impl Strategy<Value = ObjectLock> {
    let modes = vec![RetentionMode::Governance, RetentionMode::Compliance];
    let retention = (prop::sample::select(modes), instant());
    let retention = retention.prop_map(|(mode, until)| RetainUntil { mode, until });
    (prop::option::of(retention), any::<Option<bool>>())
        .prop_map(|(retention, legal_hold)| ObjectLock { retention, legal_hold })
}

fn version() -> impl Strategy<Value = Version> {
    let told = (prop::option::of(any::<u64>()), any::<bool>());
    let object = (any::<u64>(), told).prop_map(|(ino, (self_contained, linked))| {
        VersionBody::Object { ino: Ino(ino), self_contained, linked }
    });
    let body = prop_oneof![Just(VersionBody::Marker), object];
    (body, any::<bool>(), instant()).prop_map(|(body, is_null, since)| Version {
        body,
        is_null,
        since,
    })
}

fn file() -> impl Strategy<Value = File> {
    let part = (any::<u32>(), any::<u64>()).prop_map(|(count, length)| PartRun { count, length });
    let parts = prop::collection::vec(part, 0..3);
    let numbers = any::<(u64, u64, u32, bool, bool)>();
    let kept = (headers(), prop::option::of(account()));
    (numbers, tag(), sums(), kept, parts, content()).prop_map(
        |(numbers, tag, sums, (object, writer), parts, content)| {
            let (size, data_version, links, sparse, told_by_name) = numbers;
            File {
                size,
                data_version,
                links,
                sparse,
                told_by_name,
                writer,
                tag,
                sums,
                object,
                parts,
                renamed_by: None,
                pages_made: 0,
                content,
            }
        },
    )
}

fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..most)
}

fn xattrs() -> impl Strategy<Value = Vec<Xattr>> {
    let value = prop_oneof![
        bytes(60).prop_map(XattrPlace::Inline),
        any::<u32>().prop_map(XattrPlace::Apart),
    ];
    let xattr = (bytes(20), value).prop_map(|(name, value)| Xattr { name, value });
    prop::collection::vec(xattr, 0..4)
}

fn special() -> impl Strategy<Value = Special> {
    let kinds =
        [SpecialKind::Fifo, SpecialKind::Socket, SpecialKind::Character, SpecialKind::Block];
    (prop::sample::select(kinds.to_vec()), any::<(u32, u32)>())
        .prop_map(|(kind, (device, links))| Special { kind, device, links })
}

fn attributes() -> impl Strategy<Value = Attributes> {
    (any::<(u32, u32, u32)>(), [instant(), instant(), instant(), instant(), instant()]).prop_map(
        |((mode, uid, gid), [changed, modified, accessed, status_changed, created])| Attributes {
            mode,
            uid,
            gid,
            changed,
            modified,
            accessed,
            status_changed,
            created,
        },
    )
}

fn inode() -> impl Strategy<Value = Inode> {
    let directory = (any::<u64>(), bytes(40))
        .prop_map(|(parent, name)| Directory { parent: Ino(parent), name });
    let symlink = (bytes(40), any::<u32>()).prop_map(|(target, links)| Symlink { target, links });
    let body = prop_oneof![
        directory.prop_map(InodeBody::Directory),
        symlink.prop_map(InodeBody::Symlink),
        special().prop_map(InodeBody::Special),
        file().prop_map(|file| InodeBody::File(Box::new(file))),
    ];
    (attributes(), any::<u64>(), xattrs(), body).prop_map(|(attributes, bucket, xattrs, body)| {
        Inode { attributes, bucket: Ino(bucket), xattrs, body }
    })
}

fn upload() -> impl Strategy<Value = Upload> {
    let used = prop::collection::btree_set(any::<u64>().prop_map(Ino), 0..5);
    let done =
        (any::<u64>(), tag(), sums(), used, instant()).prop_map(|(ino, tag, sums, used, at)| {
            UploadState::Done { ino: Ino(ino), tag, sums, used: used.into_iter().collect(), at }
        });
    let state = prop_oneof![Just(UploadState::Open), Just(UploadState::Aborted), done];
    let checksum = prop::option::of((algorithm(), sum_kind()));
    let numbers = any::<(u64, u32, u32, u32)>();
    let by = (text(), account(), prop::option::of(account()));
    (numbers, instant(), by, checksum, headers(), state).prop_map(
        |((ino, uid, gid, umask), begun, (initiator, account, writer), checksum, object, state)| {
            Upload {
                ino: Ino(ino),
                begun,
                uid,
                gid,
                umask,
                initiator,
                account,
                writer,
                checksum,
                object,
                state,
            }
        },
    )
}

fn orphan() -> impl Strategy<Value = Orphan> {
    let hidden = any::<([u8; 16], u32)>()
        .prop_map(|(block, block_length)| HiddenBlock { block: BlockId(block), block_length });
    let hidden = prop::collection::vec(hidden, 0..4);
    let pages = prop::collection::vec(any::<u32>(), 0..4);
    prop_oneof![
        any::<u64>().prop_map(|bucket| Orphan::File { bucket: Ino(bucket) }),
        (any::<u64>(), bytes(60))
            .prop_map(|(b, inode)| Orphan::Detached { bucket: Ino(b), inode: inode.into() }),
        Just(Orphan::Bucket),
        bytes(60).prop_map(|key| Orphan::Upload { key }),
        any::<([u8; 16], u64, u64)>().prop_map(|(pack, owner, length)| {
            Orphan::Moved { pack: BlockId(pack), owner: Ino(owner), length }
        }),
        (any::<u64>(), hidden, pages).prop_map(|(o, blocks, pages)| Orphan::Hidden {
            owner: Ino(o),
            blocks,
            pages
        }),
    ]
}

fn dentry() -> impl Strategy<Value = Dentry> {
    let kinds = vec![Kind::Directory, Kind::File, Kind::Symlink, Kind::Special];
    let origins = vec![Origin::Implied, Origin::Made];
    let numbers = (any::<(u64, bool)>(), prop::option::of(any::<u64>()));
    (numbers, prop::sample::select(kinds), prop::sample::select(origins)).prop_map(
        |(((ino, linked), bytes), kind, origin)| {
            let self_contained = bytes.filter(|_| kind == Kind::File && !linked);
            let stamp = VersionStamp::new(Timestamp(7), ino);
            let version = (kind == Kind::File && ino % 2 == 0).then_some(stamp);
            let versioning = match (kind, ino % 3) {
                (Kind::Directory, 1) => Versioning::Enabled,
                (Kind::Directory, 2) => Versioning::Suspended,
                _ => Versioning::Off,
            };
            {
                let locks = versioning == Versioning::Enabled && ino % 2 == 0;
                let bounds = kind == Kind::Directory && ino % 5 == 0;
                let bound = |least: bool| (bounds && least).then_some(ino >> 11);
                let quota = Quota { bytes: bound(ino % 7 > 1), objects: bound(ino % 7 < 5) };
                Dentry {
                    ino: Ino(ino),
                    kind,
                    origin,
                    self_contained,
                    linked,
                    version,
                    versioning,
                    locks,
                    quota,
                }
            }
        },
    )
}

fn any_key() -> impl Strategy<Value = Key> {
    (any::<u8>(), any::<u64>(), prop::collection::vec(any::<u8>(), 0..20))
        .prop_map(|(space, partition, suffix)| Key::new(store::Space(space), partition, &suffix))
}

proptest! {
    #[test]
    fn inodes_return(key in any_key(), record in inode()) {
        returns(&key, &record);
    }

    #[test]
    fn uploads_return(key in any_key(), record in upload()) {
        returns(&key, &record);
    }

    #[test]
    fn parts_and_pages_return(
        key in any_key(), numbers in any::<(u64, u64, [u8; 16], bool, bool)>(), arrived in instant(),
        sums in sums(), slices in slices(),
    ) {
        let (owner, size, tag, shared, opaque) = numbers;
        let tag = if opaque { PartTag::Opaque(tag) } else { PartTag::Md5(tag) };
        returns(&key, &MapPage(slices.clone()));
        returns(&key, &PartSums { sums: sums.clone() });
        returns(&key, &Part { owner: Ino(owner), size, arrived, tag, sums, shared, slices });
    }

    #[test]
    fn names_and_orphans_return(
        key in any_key(), dentry in dentry(), version in version(), orphan in orphan(),
    ) {
        returns(&key, &dentry);
        returns(&key, &version);
        let id = VersionStamp::new(version.since, 7);
        returns(&key, &NullVersion(id));
        let versions = vec![BoundVersion { object: b"a/b".to_vec(), id }; 1 + usize::from(version.is_null)];
        returns(&key, &Superseded { versions });
        returns(&key, &orphan);
    }

    #[test]
    fn small_records_return(
        key in any_key(), a in any::<u64>(), b in any::<u64>(), flags in any::<(bool, bool)>(),
        ids in any::<([u8; 16], u32, u32)>(), at in instant(), one in text(), tags in pairs(),
        policies in prop::collection::vec(text(), 0..4),
        sealed_secret in prop::collection::vec(any::<u8>(), 0..60), bucket in bucket(),
        acl in acl(),
    ) {
        let (id, uid, gid) = ids;
        let (refuse_overlap, opaque_tags) = flags;
        let volume = VolumeRecord {
            id,
            made: at,
            format: uid,
            generation: a,
            block_bytes: gid,
            marked: refuse_overlap,
        };
        returns(&key, &volume);
        returns(&key, &Sequence(a));
        returns(&key, &bucket);
        let config = BucketConfig::of_acl(&acl);
        returns(&key, &config);
        prop_assert_eq!(config.acl(), Ok(acl));
        let canonical_id = CanonicalId([uid.to_le_bytes()[0]; 32]);
        prop_assert_eq!(canonical_id.to_string().parse(), Ok(canonical_id));
        returns(&key, &Account { name: one.clone(), canonical_id });
        let config = BucketConfig::of_tags(&tags);
        returns(&key, &config);
        prop_assert_eq!(config.tags(), Ok(tags));
        returns(&key, &BucketConfig { bytes: sealed_secret.clone().into() });
        returns(&key, &SessionRecord { began: at, place: one.clone() });
        returns(&key, &HeartbeatRecord { count: a, passed: b });
        returns(&key, &record::Hold { since: at, what: record::Held::File });
        let (session, by) = (Nonce([uid.to_le_bytes()[0]; 10]), Nonce([1; 10]));
        let kind = if opaque_tags { RangeLockKind::Shared } else { RangeLockKind::Exclusive };
        let lock =
            RangeLock { start: a, last: b, kind, owner: b, pid: gid, flock: refuse_overlap };
        let written = Written { by, count: a };
        returns(&key, &FileLocks { written, held: vec![HeldLock { session, lock }; 3] });
        let place = LockPlace::Records { sharers: vec![session, by] };
        returns(&key, &LockKeeping { written, place });
        let place = LockPlace::Memory { granter: session, asked: vec![by] };
        returns(&key, &LockKeeping { written, place });
        returns(&key, &SlotRecord { count: a, aborted: refuse_overlap });
        returns(&key, &record::Mark);
        let account = AccountId(a % AccountId::END);
        let user = User { account, sealed_secret, enabled: opaque_tags, uid, gid, umask: uid ^ gid, policies };
        returns(&key, &user);
        returns(&key, &XattrValue(one.clone().into()));
        returns(&key, &PolicyRecord(one));
    }

    /// Bytes that carry the checksum that belongs to them reach the fields behind it.
    #[test]
    fn random_bytes_never_panic_a_decoder(
        key in any_key(), bytes in prop::collection::vec(any::<u8>(), 0..120), format in 0_u8..3,
    ) {
        let mut body = bytes.clone();
        body.insert(0, format);
        let verdicts_of_noise = verdicts(&key, &bytes.into());
        prop_assert!(verdicts_of_noise.iter().all(|(_, e)| *e == Some(DecodeError::Checksum)));
        for (name, error) in verdicts(&key, &sealed(&key, &body)) {
            let refused = matches!(error, Some(DecodeError::Format(f)) if f == format);
            // An inode's head has a checksum of its own, which noise does not have.
            let head = name == "Inode" && error == Some(DecodeError::Checksum);
            prop_assert!(format == 1 || refused || head, "{} said {:?}", name, error);
        }
    }

    /// What is nearly a record, with a checksum that fits, is refused or decodes; no more.
    #[test]
    fn nearly_a_record_never_panics_a_decoder(
        index in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(),
        byte in any::<u8>(), insert in any::<bool>(),
    ) {
        let samples = samples::all();
        let sample = index.get(&samples);
        let mut body = body(&sample.value).to_vec();
        let at = at.index(body.len());
        if insert { body.insert(at, byte) } else { body[at] = byte }
        verdicts(&sample.key, &sealed(&sample.key, &body));
    }
}

fn refused<T: Debug>(result: &Result<T, DecodeError>) -> DecodeError {
    *result.as_ref().expect_err("damaged bytes are refused")
}

#[test]
fn samples_decode_to_what_they_were() {
    for sample in samples::all() {
        assert_eq!(
            (sample.decode)(&sample.key, &sample.value),
            Ok(sample.fields),
            "{}",
            sample.name
        );
    }
}

#[test]
fn a_flipped_bit_is_refused() {
    for sample in samples::all() {
        for bit in 0..sample.value.len() * 8 {
            let mut bytes = sample.value.to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let found = (sample.decode)(&sample.key, &Value::from(bytes));
            assert_eq!(refused(&found), DecodeError::Checksum, "{} bit {bit}", sample.name);
        }
    }
}

#[test]
fn a_cut_or_prolonged_record_is_refused() {
    for sample in samples::all() {
        for length in 0..sample.value.len() {
            let found = (sample.decode)(&sample.key, &sample.value.slice(..length));
            assert_eq!(refused(&found), DecodeError::Checksum, "{} cut {length}", sample.name);
        }
        for tail in [&[0_u8][..], &[0; 4], &sample.value] {
            let longer = Value::from([&sample.value[..], tail].concat());
            assert_eq!(refused(&(sample.decode)(&sample.key, &longer)), DecodeError::Checksum);
        }
    }
}

/// The checksum of a shorter body fits, and still the record is not whole.
#[test]
fn a_record_that_ends_early_is_refused_by_its_fields() {
    for sample in samples::all() {
        let whole = body(&sample.value);
        for length in 1..whole.len() {
            let found = (sample.decode)(&sample.key, &sealed(&sample.key, &whole[..length]));
            // Lists and sections without a count may end where one of their items does.
            assert!(found != Ok(sample.fields.clone()), "{} cut {length}", sample.name);
        }
        let longer = sealed(&sample.key, &[whole, &[0]].concat());
        refused(&(sample.decode)(&sample.key, &longer));
    }
}

#[test]
fn a_record_under_a_foreign_key_is_refused() {
    let samples = samples::all();
    for sample in &samples {
        for other in &samples {
            if other.key != sample.key {
                let found = (sample.decode)(&other.key, &sample.value);
                assert_eq!(refused(&found), DecodeError::Checksum, "{}", sample.name);
            }
        }
    }
}

#[test]
fn a_newer_format_is_refused_by_name() {
    for sample in samples::all() {
        for format in (0..=u8::MAX).filter(|format| *format != sample.value[0]) {
            let mut newer = body(&sample.value).to_vec();
            newer[0] = format;
            let found = (sample.decode)(&sample.key, &sealed(&sample.key, &newer));
            assert_eq!(refused(&found), DecodeError::Format(format), "{}", sample.name);
        }
    }
}

#[test]
fn an_unknown_section_is_refused_as_a_newer_format() {
    let named = |name: &str| name.starts_with("inode-file") || name.starts_with("upload");
    let mut tried = 0;
    for sample in samples::all().into_iter().filter(|sample| named(sample.name)) {
        // Uploads have no extended attributes, no pages, and are not renamed; they have locks.
        let first = if sample.name.starts_with("upload") { 9 } else { 12 };
        for tag in (first..=u8::MAX).filter(|tag| *tag != 11) {
            let newer = [body(&sample.value), &[tag, 1, 0]].concat();
            let found = (sample.decode)(&sample.key, &sealed(&sample.key, &newer));
            assert_eq!(refused(&found), DecodeError::Format(tag), "{}", sample.name);
            tried += 1;
        }
    }
    assert_eq!(tried, 3 * 246 + 4 * 244);
}

#[test]
fn what_is_no_file_has_extended_attributes_alone() {
    let named = ["inode-directory", "inode-symlink", "inode-fifo", "inode-device"];
    let is_named = |sample: &samples::Sample| named.contains(&sample.name);
    let mut tried = 0;
    for sample in samples::all().into_iter().filter(is_named) {
        for tag in 1..=u8::MAX {
            let more = [body(&sample.value), &[tag, 4, 1, b'a', 0, 0]].concat();
            let found = Inode::decode(&sample.key, &sealed(&sample.key, &more));
            // The head must say, too, that there are some.
            let unsaid = DecodeError::Field("extended attributes");
            let expected = if tag == 8 { unsaid } else { DecodeError::Format(tag) };
            assert_eq!(refused(&found), expected, "{}", sample.name);
            tried += 1;
        }
    }
    assert_eq!(tried, 4 * 255);
}

#[test]
fn a_symlink_is_as_long_as_its_head_says() {
    let at = key::inode(samples::INO);
    let of = |target: &[u8]| {
        let body = InodeBody::Symlink(Symlink { target: target.to_vec(), links: 1 });
        let attributes = samples::attributes();
        Inode { attributes, bucket: samples::BUCKET, xattrs: Vec::new(), body }.encode(&at)
    };
    let (short, long) = (of(b"abc"), of(b"abcdef"));
    // The head of one before the target of the other.
    let head = body(&long).len() - 7;
    assert_eq!(head, body(&short).len() - 4);
    let mixed = [&body(&long)[..head], &body(&short)[head..]].concat();
    let found = Inode::decode(&at, &sealed(&at, &mixed));
    assert_eq!(refused(&found), DecodeError::Field("target"));
}

#[test]
fn a_name_of_several_says_nothing_of_its_file() {
    let at = key::dentry(samples::BUCKET, b"x");
    let told = Dentry { self_contained: Some(5), ..Dentry::file(samples::INO) };
    let found = Dentry::decode(&at, &Dentry { linked: true, ..told }.encode(&at));
    assert_eq!(refused(&found), DecodeError::Field("kind"));
}

#[test]
fn instants_count_in_microseconds_rounded_down() {
    for (nanoseconds, micros) in [(0, 0), (999, 0), (1_000, 1), (-1, -1), (-1_000, -1)] {
        assert_eq!(Timestamp(nanoseconds).micros(), micros);
    }
    assert_eq!(Timestamp::from_micros(-7), Timestamp(-7_000));
    assert_eq!(Timestamp::from_micros(i64::MAX), Timestamp(i64::MAX));
}

#[test]
fn a_slice_beyond_its_block_or_the_end_of_numbers_is_refused() {
    let key = key::map_page(samples::INO, 0);
    let good = samples::slice(0, 1);
    returns(&key, &MapPage(vec![good]));
    for bad in [
        Slice { length: 0, ..good },
        Slice { offset: good.block_length, ..good },
        Slice { offset: u32::MAX, ..good },
        Slice { position: u64::MAX, ..good },
    ] {
        let found = MapPage::decode(&key, &MapPage(vec![bad]).encode(&key));
        assert!(matches!(refused(&found), DecodeError::Field(_)), "{bad:?}");
    }
}

/// A count that the bytes behind it cannot hold costs no memory.
#[test]
fn a_huge_count_is_refused_at_once() {
    let huge = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    let key = key::map_page(samples::INO, 0);
    let found = MapPage::decode(&key, &sealed(&key, &[&[1][..], &huge].concat()));
    assert!(matches!(refused(&found), DecodeError::Field(_)));
    let too_large = [&[1][..], &huge[..9], &[2]].concat();
    let found = Sequence::decode(&key, &sealed(&key, &too_large));
    assert_eq!(refused(&found), DecodeError::Field("number"));
}

#[test]
fn a_kind_of_configuration_is_told_by_its_key_or_refused() {
    for kind in BucketConfigKind::ALL {
        assert_eq!(BucketConfigKind::of(&key::bucket_config(samples::BUCKET, kind)), Ok(kind));
    }
    let of = |suffix: &[u8]| {
        BucketConfigKind::of(&Key::new(key::space::BUCKET_CONFIG, samples::BUCKET.0, suffix))
    };
    assert_eq!(refused(&of(&[0])), DecodeError::Format(0));
    assert_eq!(refused(&of(&[u8::MAX])), DecodeError::Format(u8::MAX));
    assert_eq!(refused(&of(b"")), DecodeError::Field("kind"));
    assert_eq!(refused(&of(&[1, 0])), DecodeError::Field("kind"));
}

#[test]
fn tags_that_are_none_are_refused() {
    let config = BucketConfig { bytes: vec![1, b'a', 2, b'b'].into() };
    assert_eq!(refused(&config.tags()), DecodeError::Field("value"));
}
