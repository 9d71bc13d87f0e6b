//! Records. A decoded record, encoded again, decodes to the same value, and bytes with a valid
//! checksum cannot cause excessive memory use.

use std::fmt::Debug;

use record::{
    Account, Bucket, BucketConfig, DecodeError, Dentry, Expiry, FileLocks, HeartbeatRecord, Hold,
    Inode, InodeHead, LockKeeping, MapPage, Mark, Orphan, Part, PartSums, PolicyRecord, Sequence,
    SessionRecord, SlotRecord, SweptRecord, Upload, User, VolumeRecord, XattrValue,
};
use store::{Key, Space, Value};

/// The key of all records, which the checksum covers.
const SUFFIX: &[u8] = b"key";

/// The input: a byte for the kind, then the record without its checksum. The checksum of an inode's
/// head is also left out, and added at its place.
pub(crate) fn check(input: &[u8]) {
    let [kind, body @ ..] = input else { return };
    let (name, check) = KINDS[usize::from(*kind) % KINDS.len()];
    let key = Key::new(Space(0), 1, SUFFIX);
    if name == "Inode" {
        let body = with_head_sum(&key, body).unwrap_or_default();
        let value = sealed(&key, &body);
        let _ = InodeHead::decode(&key, &body);
        if let Ok(whole) = Inode::decode(&key, &value) {
            let head = InodeHead::decode(&key, &whole.encode(&key));
            assert_eq!(head, Ok(whole.head()), "a head says what its record says");
        }
        check(&key, &value);
    } else {
        check(&key, &sealed(&key, body));
    }
    if let Ok(config) = BucketConfig::decode(&key, &sealed(&key, body)) {
        if let Ok(tags) = config.tags() {
            assert_eq!(BucketConfig::of_tags(&tags).tags(), Ok(tags));
        }
        if let Ok(list) = config.acl() {
            assert_eq!(BucketConfig::of_acl(&list).acl(), Ok(list));
        }
    }
}

type Check = fn(&Key, &Value);

macro_rules! kinds {
    ($($name:ident)*) => {
        const KINDS: &[(&str, Check)] = &[$((stringify!($name), |key, value| {
            if let Ok(record) = $name::decode(key, value) {
                returns(key, &record, |it| it.encode(key), $name::decode);
            }
        })),*];
    };
}

kinds! {
    Account Bucket BucketConfig Dentry Expiry FileLocks HeartbeatRecord Hold Inode LockKeeping
    MapPage Mark Orphan Part PartSums PolicyRecord Sequence SessionRecord SlotRecord SweptRecord
    Upload User VolumeRecord XattrValue
}

fn returns<R: Debug + PartialEq>(
    key: &Key,
    record: &R,
    encode: impl Fn(&R) -> Value,
    decode: impl Fn(&Key, &Value) -> Result<R, DecodeError>,
) {
    let value = encode(record);
    let again = decode(key, &value).expect("an encoded record decodes");
    assert_eq!(again, *record);
    assert_eq!(encode(&again), value, "one record has one form");
}

/// Returns the value with its checksum.
fn sealed(key: &Key, body: &[u8]) -> Value {
    [body, &crc(key, body).to_be_bytes()].concat().into()
}

/// Inserts the checksum of an inode's head after the head, which is a byte string after the format.
fn with_head_sum(key: &Key, body: &[u8]) -> Option<Vec<u8>> {
    // The length is a varint of one or two bytes.
    let (low, rest) = body.get(1..)?.split_first()?;
    let (length, at) = match *low {
        0x80.. => (usize::from(low & 0x7f) | usize::from(*rest.first()?) << 7, 3),
        _ => (usize::from(*low), 2),
    };
    let (head, rest) = body.split_at_checked(at + length)?;
    Some([head, &(!crc(key, head)).to_be_bytes(), rest].concat())
}

fn crc(key: &Key, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(key.as_bytes()), bytes)
}
