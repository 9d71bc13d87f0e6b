//! Continuation tokens: only tokens of the gateway are accepted, and each has one spelling.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use s3::KeyPrefix;
use s3::request::{ContinuationToken, UploadIdText};
use sha2::{Digest as _, Sha256};

/// The input: a text from a client, and also the content of a token.
pub(crate) fn check(input: &[u8]) {
    if let Ok(text) = std::str::from_utf8(input) {
        if let Ok(token) = ContinuationToken::decode(text) {
            assert_eq!(token.encode(), text, "a token has one spelling");
        }
        if let Ok(upload) = UploadIdText::parse(text) {
            assert_eq!(upload.as_str(), text);
        }
        if let Ok(key) = KeyPrefix::parse(text) {
            returns(&ContinuationToken::AfterKey(key.clone()));
            returns(&ContinuationToken::AfterPrefix(key));
        }
        returns(&ContinuationToken::AfterBucket(text.to_owned()));
    }
    // With a correct checksum, any content may be accepted.
    let sum = Sha256::digest(input);
    let text = URL_SAFE_NO_PAD.encode([input, &sum[..4]].concat());
    if let Ok(token) = ContinuationToken::decode(&text) {
        assert_eq!(token.encode(), text);
    }
}

fn returns(token: &ContinuationToken) {
    let text = token.encode();
    assert_eq!(ContinuationToken::decode(&text).as_ref().ok(), Some(token));
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    assert!(text.bytes().all(legal), "it needs no escape in a query");
    assert!(ContinuationToken::decode(&text[1..]).is_err(), "a part of a token is none");
}
