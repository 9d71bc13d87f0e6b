//! Continuation tokens: positions in listings.

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use sha2::{Digest as _, Sha256};

use crate::name::KeyPrefix;
use crate::{Code, Fault};

const VERSION: u8 = 1;
const CHECK_BYTES: usize = 4;

/// A position in a listing.
///
/// The token contains the whole position, so any gateway can continue the listing after any time,
/// without state on the server. To clients it is opaque text. It grants no permission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContinuationToken {
    /// The position after this key.
    AfterKey(KeyPrefix),
    /// The position after all keys with this common prefix.
    AfterPrefix(KeyPrefix),
    /// The position after this bucket.
    AfterBucket(String),
}

impl ContinuationToken {
    /// Returns the token as the text that clients send back: base64 of a format version, the kind
    /// of position, the name, and a check value.
    pub fn encode(&self) -> String {
        let (kind, text) = match self {
            ContinuationToken::AfterKey(key) => (b'k', key.as_str()),
            ContinuationToken::AfterPrefix(prefix) => (b'p', prefix.as_str()),
            ContinuationToken::AfterBucket(bucket) => (b'b', bucket.as_str()),
        };
        // The check value only detects accidental changes. It is not a signature, because the token
        // grants nothing.
        let mut bytes = vec![VERSION, kind];
        bytes.extend_from_slice(text.as_bytes());
        bytes.extend(check(&bytes));
        BASE64_URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Decodes the text of a continuation token. Fails with `InvalidArgument` if the gateway did
    /// not issue this token.
    pub fn decode(text: &str) -> Result<ContinuationToken, Fault> {
        decode(text).ok_or_else(wrong_token)
    }
}

/// Returns the fault of a malformed token, or of a token of another kind of listing.
pub(super) fn wrong_token() -> Fault {
    let why = "The continuation token provided is incorrect";
    Fault::because(Code::InvalidArgument, why).with("ArgumentName", "continuation-token")
}

fn decode(text: &str) -> Option<ContinuationToken> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).ok()?;
    let (content, sum) = bytes.split_last_chunk::<CHECK_BYTES>()?;
    if *sum != check(content) {
        return None;
    }
    // A later format has another version byte, so old gateways refuse its tokens.
    let [VERSION, kind, text @ ..] = content else { return None };
    let text = std::str::from_utf8(text).ok()?;
    match kind {
        b'k' => Some(ContinuationToken::AfterKey(KeyPrefix::parse(text).ok()?)),
        b'p' => Some(ContinuationToken::AfterPrefix(KeyPrefix::parse(text).ok()?)),
        b'b' => Some(ContinuationToken::AfterBucket(text.to_owned())),
        _ => None,
    }
}

fn check(bytes: &[u8]) -> [u8; CHECK_BYTES] {
    let digest: [u8; 32] = Sha256::digest(bytes).into();
    let [a, b, c, d, ..] = digest;
    [a, b, c, d]
}
