//! Reproducible contents, and the entity tags that S3 computes for them.

use md5::{Digest as _, Md5};

/// Returns `length` bytes that depend only on `seed`. Different seeds give different bytes.
pub(crate) fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut out = Vec::with_capacity(length + 8);
    while out.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.extend_from_slice(&state.to_le_bytes());
    }
    out.truncate(length);
    out
}

/// Returns the entity tag of an object that was put in one request.
pub(crate) fn etag(content: &[u8]) -> String {
    format!("\"{}\"", hex::encode(Md5::digest(content)))
}

/// Returns the entity tag of an object that was uploaded in parts.
pub(crate) fn etag_of_parts(parts: &[&[u8]]) -> String {
    let tags: Vec<String> = parts.iter().map(|part| etag(part)).collect();
    etag_of_digests(&tags.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Returns the same from the entity tags of the parts.
#[track_caller]
pub(crate) fn etag_of_digests(tags: &[&str]) -> String {
    let digest = |tag: &&str| hex::decode(tag.trim_matches('"')).expect("a tag is hexadecimal");
    let digests: Vec<u8> = tags.iter().flat_map(digest).collect();
    format!("\"{}-{}\"", hex::encode(Md5::digest(digests)), tags.len())
}
