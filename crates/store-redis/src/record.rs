//! The form of records at the server.
//!
//! A record is in a *container*, which it shares with others. In a point space a container is a
//! hash with the records of one chunk: the space and the first bytes of the partition are its name,
//! and the rest of the key is the field. In an ordered space a container is a sorted set with the
//! records of one partition, and each member is a suffix, encoded as in [`member`], and the value.
//!
//! A *long* record is split. Its first bytes, the *head*, are in the container; the rest, the
//! *overflow value*, is a string of its own. For example, a record of 4,000 bytes has a head of 252
//! bytes and an overflow value of 3,748. `prelude.lua` lists the names of all keys.

use store::Key;

use crate::member;

/// Bytes of a long record that are in its container, its head; `prelude.lua` has the same number.
/// They fill one allocation size of the server, and contain the head of each inode.
pub(crate) const HEAD_BYTES: usize = 252;

/// Least size of a long record, one that is split into a head and an overflow value, in bytes. A
/// record of exactly [`HEAD_BYTES`] is long too, with an empty overflow value. So a value of that
/// length in a container is always a head.
pub(crate) const LONG_BYTES: usize = 1_025;
const _: () = assert!(HEAD_BYTES < LONG_BYTES);

/// Bytes of a key in a point space that name its container. So a chunk has the records of 65,536
/// partitions, mostly as many inodes. A hash of that size grows without a long pause, and frees its
/// memory when the records are deleted.
pub(crate) const CHUNK_BYTES: usize = 7;
// Scripts recognise the kind of a container by the length of its name.
const _: () = assert!(CHUNK_BYTES < Key::PREFIX_BYTES);

/// Returns the bytes of a record that belong in its container, and the overflow value if the record
/// is long.
pub(crate) fn split(value: &[u8]) -> (&[u8], Option<&[u8]>) {
    match value.split_at_checked(HEAD_BYTES) {
        Some((head, overflow)) if overflow.is_empty() || value.len() >= LONG_BYTES => {
            (head, Some(overflow))
        }
        _ => (value, None),
    }
}

/// Returns the name of the container of a record, the hash or sorted set that it shares with
/// others.
pub(crate) fn container(key: &Key) -> &[u8] {
    let bytes = if key.space().is_ordered() { Key::PREFIX_BYTES } else { CHUNK_BYTES };
    key.as_bytes().get(..bytes).unwrap_or_default()
}

/// Returns the name of a record in its container: a hash's field, or the encoded suffix with which
/// a member begins.
pub(crate) fn name_in_container(key: &Key) -> Vec<u8> {
    if key.space().is_ordered() {
        return member::written(key.suffix());
    }
    key.as_bytes().get(CHUNK_BYTES..).unwrap_or_default().to_vec()
}

/// Returns the bounds of a range of records in the sorted set of its partition, in the form that
/// commands take.
pub(crate) fn range_bounds(start: &Key, end: &Key) -> [Vec<u8>; 2] {
    let first = [&b"["[..], &member::written(start.suffix())].concat();
    let is_to_the_end = start.partition() != end.partition();
    let behind = if is_to_the_end {
        b"+".to_vec()
    } else {
        [&b"("[..], &member::written(end.suffix())].concat()
    };
    [first, behind]
}

#[cfg(test)]
mod tests;
