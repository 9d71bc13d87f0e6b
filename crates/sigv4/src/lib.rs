//! The computations of AWS Signature Version 4, for signers and verifiers.
//!
//! A signature takes four steps: write the request in canonical form ([`CanonicalRequest`]), write
//! the string to sign ([`string_to_sign()`]), derive the signing key of the day ([`SigningKey`]),
//! and sign the string with the key. The signatures of a chunked body follow from the signature of
//! its request ([`chunk_string_to_sign`], [`trailer_string_to_sign`]). For example,
//! [`authorization`] writes the header of a signed request.
//!
//! Invariant: the results depend only on the arguments. There is no clock, no I/O and no cache. The
//! verifier decides which headers must be signed, how much clocks may differ, and the text of
//! refusals. The signer decides which headers to sign and how long to keep a key.

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

/// The name of the signature algorithm SigV4, in the `Authorization` header and in the string to
/// sign.
pub const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// The text that replaces the hash of the body in a canonical request if the signature does not
/// cover the body.
pub const UNSIGNED_PAYLOAD: &str = "UNSIGNED-PAYLOAD";

/// The SHA-256 of no bytes, in hexadecimal: the hash of an absent body.
pub const EMPTY_SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Returns the value of the `Authorization` header of a request that is signed with SigV4.
///
/// `signed_headers` are separated by semicolons, as [`CanonicalRequest::signed_headers`] returns
/// them. `signature` is in hexadecimal.
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
