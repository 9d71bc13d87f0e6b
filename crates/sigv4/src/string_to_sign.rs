//! Strings to sign: of a request, of a chunk of its body, and of the trailer behind the chunks.

use sha2::{Digest as _, Sha256};

use crate::{ALGORITHM, CanonicalRequest, CredentialScope, EMPTY_SHA256};

const CHUNK_ALGORITHM: &str = "AWS4-HMAC-SHA256-PAYLOAD";
const TRAILER_ALGORITHM: &str = "AWS4-HMAC-SHA256-TRAILER";

/// The string to sign of a request that was made at `timestamp`.
pub fn string_to_sign(
    timestamp: &str,
    scope: &CredentialScope,
    request: &CanonicalRequest,
) -> String {
    join([ALGORITHM, timestamp, scope.as_str(), &sha256_hex(request.as_bytes())])
}

/// The string to sign of a chunk.
///
/// `previous` is the signature before it, in hexadecimal: that of the request for the first chunk,
/// that of the chunk before for any other. `content_sha256` is the hash of the chunk's content, in
/// hexadecimal; [`EMPTY_SHA256`] for the last chunk, which has none.
pub fn chunk_string_to_sign(
    timestamp: &str,
    scope: &CredentialScope,
    previous: &str,
    content_sha256: &str,
) -> String {
    let scope = scope.as_str();
    // The hash of nothing stands where the protocol provides for headers of chunks.
    join([CHUNK_ALGORITHM, timestamp, scope, previous, EMPTY_SHA256, content_sha256])
}

/// The string to sign of a trailer, whose lines are `name:value`, each with a line feed behind it.
///
/// `previous` is the signature of the last chunk, in hexadecimal.
pub fn trailer_string_to_sign(
    timestamp: &str,
    scope: &CredentialScope,
    previous: &str,
    lines: &str,
) -> String {
    let hash = sha256_hex(lines.as_bytes());
    join([TRAILER_ALGORITHM, timestamp, scope.as_str(), previous, &hash])
}

/// A SHA-256 in the spelling of signatures.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

fn join<const N: usize>(lines: [&str; N]) -> String {
    lines.join("\n")
}
