//! The strings to sign of a request, of a chunk of its body, and of the trailer after the chunks.

use sha2::{Digest as _, Sha256};

use crate::{ALGORITHM, CanonicalRequest, CredentialScope, EMPTY_SHA256};

const CHUNK_ALGORITHM: &str = "AWS4-HMAC-SHA256-PAYLOAD";
const TRAILER_ALGORITHM: &str = "AWS4-HMAC-SHA256-TRAILER";

/// Returns the string to sign of a request: the text that the signing key signs. It contains the
/// algorithm, the time, the credential scope and the hash of the canonical request. `timestamp` is
/// the time of the request in the format `20130524T000000Z`.
pub fn string_to_sign(
    timestamp: &str,
    scope: &CredentialScope,
    request: &CanonicalRequest,
) -> String {
    join([ALGORITHM, timestamp, scope.as_str(), &sha256_hex(request.as_bytes())])
}

/// Returns the string to sign of a chunk of a request body: the text that the signing key signs.
///
/// `previous` is the previous signature in hexadecimal: the signature of the request for the first
/// chunk, otherwise the signature of the previous chunk. `content_sha256` is the hash of the
/// chunk's content in hexadecimal, or [`EMPTY_SHA256`] for the last chunk, which has no content.
pub fn chunk_string_to_sign(
    timestamp: &str,
    scope: &CredentialScope,
    previous: &str,
    content_sha256: &str,
) -> String {
    let scope = scope.as_str();
    // The protocol reserves a line for the hash of chunk headers, which do not exist, so it is the
    // hash of no bytes.
    join([CHUNK_ALGORITHM, timestamp, scope, previous, EMPTY_SHA256, content_sha256])
}

/// Returns the string to sign of the trailer, that is, of the header lines after the last chunk of
/// a body. `lines` are `name:value`, each followed by a line feed.
///
/// `previous` is the signature of the last chunk in hexadecimal.
pub fn trailer_string_to_sign(
    timestamp: &str,
    scope: &CredentialScope,
    previous: &str,
    lines: &str,
) -> String {
    // The hash covers the lines in their order on the wire.
    let hash = sha256_hex(lines.as_bytes());
    join([TRAILER_ALGORITHM, timestamp, scope.as_str(), previous, &hash])
}

/// Returns the SHA-256 of `bytes` in lower-case hexadecimal, as in strings to sign.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

fn join<const N: usize>(lines: [&str; N]) -> String {
    lines.join("\n")
}
