//! Bytes that tell where they came from.

use md5::{Digest as _, Md5};

/// `length` bytes that are the same for the same seed, and differ almost everywhere for others.
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

/// The tag of an object that was put in one piece.
pub(crate) fn etag(content: &[u8]) -> String {
    format!("\"{}\"", hex::encode(Md5::digest(content)))
}

/// The tag of an object that was put in parts.
pub(crate) fn etag_of_parts(parts: &[&[u8]]) -> String {
    let digests: Vec<u8> = parts.iter().flat_map(|part| Md5::digest(part).to_vec()).collect();
    format!("\"{}-{}\"", hex::encode(Md5::digest(digests)), parts.len())
}
