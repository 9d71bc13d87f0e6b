//! Signature Version 4 as AWS documents it, independent of our implementation.

use hmac::{Hmac, KeyInit as _, Mac as _};
use http::HeaderMap;
use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;
use time::macros::datetime;

pub(crate) const ACCESS_KEY: &str = "AKIDEXAMPLE";
pub(crate) const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
pub(crate) const DATE: &str = "20130524";
pub(crate) const TIME: &str = "20130524T000000Z";
pub(crate) const NOW: OffsetDateTime = datetime!(2013-05-24 00:00:00 UTC);
pub(crate) const REGION: &str = "us-east-1";
pub(crate) const SCOPE: &str = "20130524/us-east-1/s3/aws4_request";

/// The signed parts of a request's head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) query: &'a str,
    pub(crate) headers: &'a HeaderMap,
}

/// Returns the signature of a request; it covers all headers except `authorization`. `None` if a
/// percent sign does not begin an escape.
pub(crate) fn signature(head: &Head<'_>, payload: &str) -> Option<String> {
    let request = canonical_request(head, payload)?;
    Some(sign(&string_to_sign(&request)))
}

/// Returns all names of headers except `authorization`, sorted, separated by semicolons.
pub(crate) fn signed_headers(headers: &HeaderMap) -> String {
    let mut names: Vec<&str> = headers.keys().map(http::HeaderName::as_str).collect();
    names.retain(|name| *name != "authorization");
    names.sort_unstable();
    names.join(";")
}

/// Signs a text with the signing key of the day.
pub(crate) fn sign(text: &str) -> String {
    let mut key = mac(format!("AWS4{SECRET}").as_bytes(), DATE);
    for part in [REGION, "s3", "aws4_request"] {
        key = mac(&key, part);
    }
    hex::encode(mac(&key, text))
}

/// Returns the signature of a chunk that follows the signature `previous`.
pub(crate) fn chunk_signature(previous: &str, content: &[u8]) -> String {
    let (none, content) = (hex::encode(Sha256::digest(b"")), hex::encode(Sha256::digest(content)));
    sign(&format!("AWS4-HMAC-SHA256-PAYLOAD\n{TIME}\n{SCOPE}\n{previous}\n{none}\n{content}"))
}

/// Returns the signature of a trailer: lines of `name:value`, each with its line feed.
pub(crate) fn trailer_signature(previous: &str, trailer: &str) -> String {
    let trailer = hex::encode(Sha256::digest(trailer));
    sign(&format!("AWS4-HMAC-SHA256-TRAILER\n{TIME}\n{SCOPE}\n{previous}\n{trailer}"))
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    let mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.chain_update(text).finalize().into_bytes().to_vec()
}

fn string_to_sign(request: &[u8]) -> String {
    format!("AWS4-HMAC-SHA256\n{TIME}\n{SCOPE}\n{}", hex::encode(Sha256::digest(request)))
}

fn canonical_request(head: &Head<'_>, payload: &str) -> Option<Vec<u8>> {
    let path = if head.path.is_empty() { "/".to_owned() } else { canonical_path(head.path)? };
    let query = canonical_query(head.query)?;
    let mut text = format!("{}\n{path}\n{query}\n", head.method).into_bytes();
    let names = signed_headers(head.headers);
    for name in names.split(';') {
        let values: Vec<Vec<u8>> = head.headers.get_all(name).iter().map(collapsed).collect();
        text.extend_from_slice(format!("{name}:").as_bytes());
        text.extend_from_slice(&values.join(&b','));
        text.push(b'\n');
    }
    text.extend_from_slice(format!("\n{names}\n{payload}").as_bytes());
    Some(text)
}

/// Trims a value and replaces several spaces by one.
fn collapsed(value: &http::HeaderValue) -> Vec<u8> {
    let mut bytes = value.as_bytes().trim_ascii().to_vec();
    bytes.dedup_by(|one, other| *one == b' ' && *other == b' ');
    bytes
}

/// Escapes each byte of a path except slashes and unreserved characters.
pub(crate) fn canonical_path(raw: &str) -> Option<String> {
    Some(unescaped(raw)?.into_iter().map(|byte| escaped(byte, true)).collect())
}

/// Sorts the parameters by name and value, without the signature.
pub(crate) fn canonical_query(raw: &str) -> Option<String> {
    let mut parameters = Vec::new();
    for pair in raw.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let part = |raw: &str| {
            let bytes = unescaped(&raw.replace('+', "%20"))?;
            Some(bytes.into_iter().map(|byte| escaped(byte, false)).collect::<String>())
        };
        parameters.push((part(name)?, part(value)?));
    }
    parameters.retain(|(name, _)| name != "X-Amz-Signature");
    parameters.sort();
    let pairs: Vec<String> =
        parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
    Some(pairs.join("&"))
}

fn unescaped(raw: &str) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut bytes = raw.as_bytes();
    while let Some((first, rest)) = bytes.split_first() {
        if *first == b'%' {
            let digits = rest.get(..2)?;
            out.extend(hex::decode(digits).ok()?);
            bytes = &rest[2..];
        } else {
            out.push(*first);
            bytes = rest;
        }
    }
    Some(out)
}

/// Returns one byte as a canonical request spells it.
pub(crate) fn escaped(byte: u8, path: bool) -> String {
    let plain = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    if plain || path && byte == b'/' {
        char::from(byte).to_string()
    } else {
        format!("%{byte:02X}")
    }
}
