//! Signature Version 4, and the part of Version 2 that is still in use. The code is independent of
//! the gateway's, so that an error in the gateway's code cannot hide behind the same error in the
//! tests.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha1::Sha1;
use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;
use time::macros::format_description;

/// The SHA-256 of an empty body, in hex.
pub(crate) const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Formats a time as signatures do: `20260102T030405Z`.
pub(crate) fn timestamp(at: OffsetDateTime) -> String {
    at.format(format_description!("[year][month][day]T[hour][minute][second]Z"))
        .expect("every time has these parts")
}

/// Returns the SHA-256 in hex.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

fn hmac(key: &[u8], text: &[u8]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("any length is a key");
    mac.update(text);
    mac.finalize().into_bytes().into()
}

/// Returns the signature of a text by Signature Version 2.
pub(crate) fn version_2(secret: &str, text: &str) -> String {
    let mut mac = Hmac::<Sha1>::new_from_slice(secret.as_bytes()).expect("any length is a key");
    mac.update(text.as_bytes());
    STANDARD.encode(mac.finalize().into_bytes())
}

/// Signs a request and the chunks of its body.
#[derive(Clone, Debug)]
pub(crate) struct Signer {
    key: [u8; 32],
    /// The time of the signature.
    pub(crate) timestamp: String,
    /// `date/region/service/aws4_request`.
    pub(crate) scope: String,
}

impl Signer {
    pub(crate) fn new(secret: &str, at: OffsetDateTime) -> Signer {
        Signer::of_service(secret, at, "s3")
    }

    /// Returns a signer for another service than S3.
    pub(crate) fn of_service(secret: &str, at: OffsetDateTime, service: &str) -> Signer {
        let timestamp = timestamp(at);
        let date = &timestamp[..8];
        let mut key = hmac(format!("AWS4{secret}").as_bytes(), date.as_bytes());
        for part in ["us-east-1", service, "aws4_request"] {
            key = hmac(&key, part.as_bytes());
        }
        let scope = format!("{date}/us-east-1/{service}/aws4_request");
        Signer { key, timestamp, scope }
    }

    fn sign(&self, text: &str) -> String {
        hex::encode(hmac(&self.key, text.as_bytes()))
    }

    /// Returns the signature of a canonical request.
    pub(crate) fn request(&self, canonical: &str) -> String {
        let (timestamp, scope) = (&self.timestamp, &self.scope);
        let hash = sha256(canonical.as_bytes());
        self.sign(&format!("AWS4-HMAC-SHA256\n{timestamp}\n{scope}\n{hash}"))
    }

    /// Returns the signature of the policy of an HTML form, given in base64.
    pub(crate) fn form(&self, policy: &str) -> String {
        self.sign(policy)
    }

    /// Returns the signature of a chunk that follows the signature `previous`.
    pub(crate) fn chunk(&self, previous: &str, bytes: &[u8]) -> String {
        let (timestamp, scope, hash) = (&self.timestamp, &self.scope, sha256(bytes));
        self.sign(&format!(
            "AWS4-HMAC-SHA256-PAYLOAD\n{timestamp}\n{scope}\n{previous}\n{EMPTY}\n{hash}"
        ))
    }

    /// Returns the signature of a trailer, given as `name:value\n` lines.
    pub(crate) fn trailer(&self, previous: &str, lines: &str) -> String {
        let (timestamp, scope, hash) = (&self.timestamp, &self.scope, sha256(lines.as_bytes()));
        self.sign(&format!("AWS4-HMAC-SHA256-TRAILER\n{timestamp}\n{scope}\n{previous}\n{hash}"))
    }
}

/// Percent-encodes all bytes except those that a canonical request keeps. Keeps slashes if `path`.
pub(crate) fn escape(bytes: &[u8], path: bool) -> String {
    let mut out = String::new();
    for &byte in bytes {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            b'/' if path => out.push('/'),
            _ => out.extend(["%", &hex::encode_upper([byte])]),
        }
    }
    out
}

/// Decodes percent escapes. A percent sign without two hexadecimal digits stays as it is.
pub(crate) fn unescape(text: &str) -> Vec<u8> {
    let (bytes, mut out, mut at) = (text.as_bytes(), Vec::new(), 0);
    while at < bytes.len() {
        let digits = text.get(at + 1..at + 3).and_then(|two| u8::from_str_radix(two, 16).ok());
        match digits {
            Some(byte) if bytes[at] == b'%' => {
                out.push(byte);
                at += 3;
            }
            _ => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    out
}

/// Returns a raw query in canonical form.
pub(crate) fn canonical_query(raw: &str) -> String {
    let respell = |text: &str| escape(&unescape(text), false);
    let pairs = raw.split('&').filter(|pair| !pair.is_empty());
    let mut pairs: Vec<(String, String)> = pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (respell(name), respell(value)))
        .collect();
    pairs.sort();
    let pairs: Vec<String> = pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
    pairs.join("&")
}
