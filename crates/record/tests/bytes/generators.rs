//! Random records of every kind.

use proptest::prelude::*;
use record::{
    AccountId, AclRight, Attributes, BlockId, Bucket, CanonicalId, Content, CustomerSeal, Dentry,
    Directory, Encryption, File, Grant, Grantee, Header, HiddenBlock, InlineBytes, Ino, Inode,
    InodeBody, Kind, ObjectHeaders, ObjectLock, ObjectOwnership, Origin, Orphan, PageRef, PartRun,
    PublicAccessBlock, Quota, RetainUntil, RetentionDefault, RetentionMode, RingNumber, S3Acl,
    Slice, Special, SpecialKind, Sum, SumAlgorithm, SumKind, Symlink, Tag, Timestamp, Upload,
    UploadState, Version, VersionBody, VersionStamp, Versioning, Xattr, XattrPlace,
};
use store::Key;

use crate::samples;

pub(crate) fn text() -> impl Strategy<Value = String> {
    "\\PC{0,12}"
}

pub(crate) fn pairs() -> impl Strategy<Value = Vec<(String, String)>> {
    prop::collection::vec((text(), text()), 0..4)
}

pub(crate) fn instant() -> impl Strategy<Value = Timestamp> {
    prop_oneof![any::<i64>().prop_map(Timestamp), Just(samples::NOW)]
}

pub(crate) fn algorithm() -> impl Strategy<Value = SumAlgorithm> {
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

pub(crate) fn sum_kind() -> impl Strategy<Value = SumKind> {
    prop::sample::select(vec![SumKind::FullObject, SumKind::Composite])
}

pub(crate) fn sums() -> impl Strategy<Value = Vec<Sum>> {
    let sum =
        (algorithm(), sum_kind(), any::<[[u8; 32]; 2]>()).prop_map(|(algorithm, kind, bytes)| {
            Sum { algorithm, kind, bytes: bytes.as_flattened()[..algorithm.length()].to_vec() }
        });
    prop::collection::vec(sum, 0..4)
}

pub(crate) fn tag() -> impl Strategy<Value = Tag> {
    prop_oneof![
        any::<[u8; 16]>().prop_map(Tag::Md5),
        any::<([u8; 16], u16)>().prop_map(|(md5, parts)| Tag::Multipart(md5, parts)),
        any::<([u8; 16], u32)>().prop_map(|(id, version)| Tag::Opaque(id, version)),
    ]
}

pub(crate) fn slices() -> impl Strategy<Value = Vec<Slice>> {
    let slice = (0..u64::MAX / 2, any::<[u8; 16]>(), any::<u32>(), any::<u32>(), 1..u32::MAX);
    let slice = slice.prop_map(|(position, block, block_crc32c, offset, length)| {
        let offset = offset.min(u32::MAX - length);
        let block_length = offset + length;
        Slice { position, block: BlockId(block), block_length, block_crc32c, offset, length }
    });
    prop::collection::vec(slice, 0..5)
}

pub(crate) fn content() -> impl Strategy<Value = Content> {
    let page = any::<(u64, u32, u64)>();
    let page = page.prop_map(|(start, page, bytes)| PageRef { start, page, bytes });
    prop_oneof![
        (bytes(200), prop::option::of(1..=u32::MAX)).prop_map(|(bytes, ring)| {
            Content::Inline(InlineBytes::under(bytes.into(), ring.map(RingNumber)))
        }),
        slices().prop_map(Content::Slices),
        prop::collection::vec(page, 0..5).prop_map(Content::Pages),
    ]
}

/// A mode of encryption that a bucket may have as its default.
pub(crate) fn default_encryption() -> impl Strategy<Value = Option<Encryption>> {
    prop_oneof![
        Just(None),
        Just(Some(Encryption::S3)),
        text().prop_map(|name| Some(Encryption::Kms(name))),
    ]
}

pub(crate) fn encryption() -> impl Strategy<Value = Option<Encryption>> {
    let seal = any::<([u8; 16], [u8; 16], u8)>().prop_map(|(salt, check, byte)| {
        Some(Encryption::Customer(Box::new(CustomerSeal { salt, wrapped: [byte; 48], check })))
    });
    prop_oneof![default_encryption(), seal]
}

pub(crate) fn account() -> impl Strategy<Value = AccountId> {
    (0..AccountId::END).prop_map(AccountId)
}

pub(crate) fn acl() -> impl Strategy<Value = S3Acl> {
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

pub(crate) fn bucket() -> impl Strategy<Value = Bucket> {
    let ownership = prop::option::of(prop::sample::select(ObjectOwnership::ALL.to_vec()));
    let public = prop::option::of(any::<(bool, bool, bool, bool)>());
    let settings = (ownership, public, default_encryption());
    (account(), any::<(bool, bool, u64)>(), settings).prop_map(
        |(owner, (has_retention, opaque_tags, configs_version), (ownership, public, mode))| {
            Bucket {
                default_encryption: mode,
                owner,
                opaque_tags,
                ownership,
                public_access: public.map(|(a, b, c, d)| PublicAccessBlock {
                    block_public_acls: a,
                    ignore_public_acls: b,
                    block_public_policy: c,
                    restrict_public_buckets: d,
                }),
                configs_version,
                default_retention: has_retention.then_some(RetentionDefault {
                    mode: if opaque_tags {
                        RetentionMode::Compliance
                    } else {
                        RetentionMode::Governance
                    },
                    days: 36_500,
                }),
            }
        },
    )
}

pub(crate) fn headers() -> impl Strategy<Value = ObjectHeaders> {
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

pub(crate) fn lock() -> impl Strategy<Value = ObjectLock> {
    let modes = vec![RetentionMode::Governance, RetentionMode::Compliance];
    let retention = (prop::sample::select(modes), instant());
    let retention = retention.prop_map(|(mode, until)| RetainUntil { mode, until });
    (prop::option::of(retention), any::<Option<bool>>())
        .prop_map(|(retention, legal_hold)| ObjectLock { retention, legal_hold })
}

pub(crate) fn version() -> impl Strategy<Value = Version> {
    let marks = (prop::option::of(any::<u64>()), any::<bool>());
    let object = (any::<u64>(), marks).prop_map(|(ino, (self_contained, linked))| {
        VersionBody::Object { ino: Ino(ino), self_contained, linked }
    });
    let body = prop_oneof![Just(VersionBody::Marker), object];
    (body, any::<bool>(), instant(), prop::option::of(instant())).prop_map(
        |(body, is_null, since, seen)| {
            let seen = seen.filter(|_| body != VersionBody::Marker);
            Version { body, is_null, since, seen }
        },
    )
}

pub(crate) fn file() -> impl Strategy<Value = File> {
    let part = (any::<u32>(), any::<u64>()).prop_map(|(count, length)| PartRun { count, length });
    let parts = prop::collection::vec(part, 0..3);
    let numbers = any::<(u64, u64, u32, bool, bool)>();
    let kept = (headers(), prop::option::of(account()), encryption());
    (numbers, tag(), sums(), kept, parts, content()).prop_map(
        |(numbers, tag, sums, (object, writer, encryption), parts, content)| {
            let (size, data_version, links, sparse, marked_in_dentry) = numbers;
            File {
                size,
                data_version,
                links,
                sparse,
                marked_in_dentry,
                writer,
                tag,
                sums,
                object,
                parts,
                renamed_by: None,
                pages_made: 0,
                encryption,
                content,
            }
        },
    )
}

pub(crate) fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..most)
}

pub(crate) fn xattrs() -> impl Strategy<Value = Vec<Xattr>> {
    let value = prop_oneof![
        bytes(60).prop_map(XattrPlace::Inline),
        any::<u32>().prop_map(XattrPlace::Apart),
    ];
    let xattr = (bytes(20), value).prop_map(|(name, value)| Xattr { name, value });
    prop::collection::vec(xattr, 0..4)
}

pub(crate) fn special() -> impl Strategy<Value = Special> {
    let kinds =
        [SpecialKind::Fifo, SpecialKind::Socket, SpecialKind::Character, SpecialKind::Block];
    (prop::sample::select(kinds.to_vec()), any::<(u32, u32)>())
        .prop_map(|(kind, (device, links))| Special { kind, device, links })
}

pub(crate) fn attributes() -> impl Strategy<Value = Attributes> {
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

pub(crate) fn inode() -> impl Strategy<Value = Inode> {
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

pub(crate) fn upload() -> impl Strategy<Value = Upload> {
    let used = prop::collection::btree_set(any::<u64>().prop_map(Ino), 0..5);
    let done =
        (any::<u64>(), tag(), sums(), used, instant()).prop_map(|(ino, tag, sums, used, at)| {
            UploadState::Done { ino: Ino(ino), tag, sums, used: used.into_iter().collect(), at }
        });
    let state = prop_oneof![Just(UploadState::Open), Just(UploadState::Aborted), done];
    let checksum = prop::option::of((algorithm(), sum_kind()));
    let numbers = any::<(u64, u32, u32, u32)>();
    let by = (text(), account(), prop::option::of(account()));
    let object = (headers(), pairs(), encryption());
    (numbers, instant(), by, checksum, object, state).prop_map(
        |(numbers, begun, (initiator, account, writer), checksum, object, state)| {
            let (object, asked, encryption) = object;
            let (ino, uid, gid, umask) = numbers;
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
                asked,
                encryption,
                state,
            }
        },
    )
}

pub(crate) fn orphan() -> impl Strategy<Value = Orphan> {
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
        (any::<u64>(), hidden, pages).prop_map(|(o, blocks, pages)| Orphan::Hidden {
            owner: Ino(o),
            blocks,
            pages
        }),
    ]
}

pub(crate) fn dentry() -> impl Strategy<Value = Dentry> {
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
                    encrypts: kind == Kind::Directory && ino % 13 == 0,
                }
            }
        },
    )
}

pub(crate) fn any_key() -> impl Strategy<Value = Key> {
    (any::<u8>(), any::<u64>(), prop::collection::vec(any::<u8>(), 0..20))
        .prop_map(|(space, partition, suffix)| Key::new(store::Space(space), partition, &suffix))
}
