//! The arithmetic of AWS Signature Version 4, once for those who sign and those who verify.
//!
//! A signature takes four steps: write the request in its canonical form ([`CanonicalRequest`]),
//! write the string to sign ([`string_to_sign()`]), derive the key of the day ([`SigningKey`]), and
//! sign the one with the other. The signatures of a chunked body follow from that of its request
//! ([`chunk_string_to_sign`], [`trailer_string_to_sign`]).
//!
//! What is computed here depends on the arguments alone: there is no clock, no I/O and no cache.
//! Which headers must be signed, how far clocks may differ and what a refusal says is up to whoever
//! verifies; which headers to sign and how long to keep a key, to whoever signs.

mod canonical;
mod key;
mod scope;
mod string_to_sign;
#[cfg(test)]
mod tests;
mod timestamp;
pub mod uri;

pub use canonical::{CanonicalRequest, CanonicalRequestBuilder};
pub use key::{Signature, SigningKey};
pub use scope::CredentialScope;
pub use string_to_sign::{
    chunk_string_to_sign, sha256_hex, string_to_sign, trailer_string_to_sign,
};
pub use timestamp::{format_timestamp, parse_timestamp};

/// The name of the algorithm, in the `Authorization` header as in the string to sign.
pub const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// Stands for the hash of a body that is not signed.
pub const UNSIGNED_PAYLOAD: &str = "UNSIGNED-PAYLOAD";

/// The SHA-256 of no bytes at all, in hexadecimal: the hash of a body that is not there.
pub const EMPTY_SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// The value of the `Authorization` header.
///
/// `signed_headers` are separated by semicolons, as [`CanonicalRequest::signed_headers`] returns
/// them; `signature` is in hexadecimal.
pub fn authorization(
    access_key: &str,
    scope: &CredentialScope,
    signed_headers: &str,
    signature: &str,
) -> String {
    [
        ALGORITHM,
        " Credential=",
        access_key,
        "/",
        scope.as_str(),
        ", SignedHeaders=",
        signed_headers,
        ", Signature=",
        signature,
    ]
    .concat()
}
