//! Heads of inodes, which are read and verified from the first bytes of a record alone.

use record::{
    AccountId, Attributes, Content, DecodeError, File, HeadBody, Header, InlineBytes, Ino, Inode,
    InodeBody, InodeHead, ObjectHeaders, Sum, SumAlgorithm, SumKind, Tag, Timestamp, key,
};
use store::Value;

use crate::samples::{self, Sample};

fn inodes() -> Vec<Sample> {
    let inodes = samples::all().into_iter().filter(|sample| sample.name.starts_with("inode-"));
    inodes.collect()
}

/// The end of the head of a record: behind its format, length, fields and checksum.
fn head_bytes(value: &Value) -> usize {
    match [value[1], value[2]] {
        [length @ 0..0x80, _] => 2 + usize::from(length) + 4,
        [low, high @ 0..0x80] => 3 + usize::from(low & 0x7f) + (usize::from(high) << 7) + 4,
        _ => panic!("a length of two bytes at most"),
    }
}

/// Checks that a head has the fields of its inode.
#[track_caller]
fn says(head: &InodeHead, inode: &Inode) {
    assert_eq!((head.attributes, head.bucket), (inode.attributes, inode.bucket));
    match (&head.body, &inode.body) {
        (HeadBody::Directory { parent }, InodeBody::Directory(directory)) => {
            assert_eq!(*parent, directory.parent);
        }
        (HeadBody::Symlink { length, links }, InodeBody::Symlink(symlink)) => {
            assert!(head.file().is_none());
            assert_eq!((*length, *links), (symlink.target.len() as u64, symlink.links));
        }
        (HeadBody::Special(special), InodeBody::Special(expected)) => {
            assert!(head.file().is_none());
            assert_eq!(special, expected);
        }
        (HeadBody::File(head), InodeBody::File(file)) => {
            assert_eq!((head.size, head.links), (file.size, file.links));
            assert_eq!((head.data_version, &head.tag), (file.data_version, &file.tag));
            let flags = (head.sparse, head.marked_in_dentry);
            assert_eq!(flags, (file.sparse, file.marked_in_dentry));
            let sums: Vec<_> = file.sums.iter().map(|sum| (sum.algorithm, sum.kind)).collect();
            assert_eq!(head.sums, sums[..sums.len().min(10)]);
            assert_eq!(head.class, file.object.header(Header::StorageClass));
        }
        (head, body) => panic!("{head:?} is the head of {body:?}"),
    }
}

#[test]
fn head_decodes_from_every_prefix_that_contains_it() {
    let samples = inodes();
    assert_eq!(samples.len(), 11);
    for Sample { name, key, value, .. } in samples {
        let inode = Inode::decode(&key, &value).expect("a sample decodes");
        let end = head_bytes(&value);
        for length in end..=value.len() {
            let head = InodeHead::decode(&key, &value[..length]);
            says(&head.unwrap_or_else(|error| panic!("{name} cut {length}: {error}")), &inode);
        }
        for length in 0..end {
            let found = InodeHead::decode(&key, &value[..length]);
            assert_eq!(found, Err(DecodeError::Checksum), "{name} cut {length}");
        }
    }
}

#[test]
fn flipped_bit_in_a_head_is_refused() {
    for Sample { name, key, value, .. } in inodes() {
        let end = head_bytes(&value);
        for bit in 0..end * 8 {
            let mut bytes = value.to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            for length in [end, bytes.len()] {
                let found = InodeHead::decode(&key, &bytes[..length]);
                assert_eq!(found, Err(DecodeError::Checksum), "{name} bit {bit}");
            }
        }
        let other = key::inode(Ino(9));
        assert_eq!(InodeHead::decode(&other, &value), Err(DecodeError::Checksum), "{name}");
    }
}

/// A record that is cut directly behind its head ends with a checksum, but not with that of a
/// record.
#[test]
fn head_alone_is_not_a_record() {
    for Sample { name, key, value, .. } in inodes() {
        let head = value.slice(..head_bytes(&value));
        assert_eq!(Inode::decode(&key, &head), Err(DecodeError::Checksum), "{name}");
    }
}

/// An inode with the largest numbers and this number of checksums, which may be more than a file
/// has.
fn largest(sums: usize) -> Inode {
    let sum = |at: usize| Sum {
        algorithm: if at.is_multiple_of(2) {
            SumAlgorithm::Sha256
        } else {
            SumAlgorithm::Crc64Nvme
        },
        kind: SumKind::Composite,
        bytes: vec![1; if at.is_multiple_of(2) { 32 } else { 8 }],
    };
    let text = "x".repeat(2_000);
    Inode {
        attributes: Attributes {
            mode: u32::MAX,
            uid: u32::MAX,
            gid: u32::MAX,
            // The differences to the other times are as long as the times themselves.
            changed: Timestamp(i64::MIN),
            modified: Timestamp(0),
            accessed: Timestamp(0),
            status_changed: Timestamp(0),
            created: Timestamp(0),
        },
        bucket: Ino(u64::MAX),
        xattrs: Vec::new(),
        body: InodeBody::File(Box::new(File {
            size: u64::MAX,
            data_version: u64::MAX,
            links: u32::MAX,
            sparse: true,
            marked_in_dentry: true,
            writer: Some(AccountId(AccountId::END - 1)),
            tag: Tag::Opaque([0xff; 16], u32::MAX),
            sums: (0..sums).map(sum).collect(),
            object: ObjectHeaders { user: vec![(text.clone(), text)], ..ObjectHeaders::default() },
            parts: Vec::new(),
            renamed_by: None,
            pages_made: 0,
            encryption: None,
            content: Content::Inline(InlineBytes::plain(vec![7; 4_096].into())),
        })),
    }
}

#[test]
fn encoded_record_has_no_unused_capacity() {
    let at = key::inode(Ino(7));
    for sums in [0, 1, 10] {
        let value = largest(sums).encode(&at);
        let bytes = value.len();
        let capacity = value.try_into_mut().expect("the value has one owner").capacity();
        assert_eq!(capacity, bytes, "{sums} checksums");
    }
}

#[test]
fn longest_head_is_within_its_limit() {
    let at = key::inode(Ino(u64::MAX));
    for sums in [0, 1, 10, 11, 40] {
        let inode = largest(sums);
        let value = inode.encode(&at);
        assert_eq!(Inode::decode(&at, &value).as_ref(), Ok(&inode), "{sums} checksums");
        let first = value.slice(..usize::try_from(InodeHead::BYTES_MAX).unwrap());
        says(&InodeHead::decode(&at, &first).expect("a head"), &inode);
        assert!(value.len() > 4_096 && head_bytes(&value) <= first.len());
    }
    let follow = key::dentry_to_head();
    assert_eq!(follow.bytes_max, Some(InodeHead::BYTES_MAX));
}
