//! Removal of secrets from the path and query of a request.
//!
//! For example, the signature of a presigned URL is a secret until the URL expires: any reader of
//! the log could send the request again. The value is replaced by `-`, and the parameter stays, so
//! the line shows that the URL was presigned.

use std::borrow::Cow;

/// Query parameters with a secret, in lower case. Customer keys and tokens of web identities are
/// here because a presigned URL or an STS request can have them in its query. A browser brings
/// `code` and `state` from an OpenID issuer.
const SECRETS: [&str; 11] = [
    "code",
    "state",
    "signature",
    "token",
    "webidentitytoken",
    "x-amz-copy-source-server-side-encryption-customer-key",
    "x-amz-security-token",
    "x-amz-server-side-encryption-customer-key",
    "x-amz-signature",
    "x-minio-token",
    "authorization",
];

/// The longest name of a parameter that is compared with [`SECRETS`].
const NAME_BYTES_MAX: usize = 256;

/// Returns a path with its query, in which the values of secret parameters are `-`. Names are
/// compared without regard to case and after percent-decoding, as a server reads them.
pub fn redacted(target: &str) -> Cow<'_, str> {
    let Some((path, query)) = target.split_once('?') else { return Cow::Borrowed(target) };
    if !query.split('&').any(has_secret) {
        return Cow::Borrowed(target);
    }
    let mut text = String::with_capacity(target.len());
    text.push_str(path);
    for (index, parameter) in query.split('&').enumerate() {
        text.push(if index == 0 { '?' } else { '&' });
        match parameter.split_once('=') {
            Some((name, _)) if has_secret(parameter) => {
                text.push_str(name);
                text.push_str("=-");
            }
            Some(_) | None => text.push_str(parameter),
        }
    }
    Cow::Owned(text)
}

/// Returns true if a parameter `name=value` has a secret value.
fn has_secret(parameter: &str) -> bool {
    let Some((name, _)) = parameter.split_once('=') else { return false };
    // A name that is encoded beyond the limit is no name of a header, and is treated as a secret.
    if name.len() > NAME_BYTES_MAX {
        return true;
    }
    let name = decoded(name);
    SECRETS.iter().any(|secret| name.eq_ignore_ascii_case(secret.as_bytes()))
}

/// Returns the bytes of a name after percent-decoding.
fn decoded(name: &str) -> Vec<u8> {
    let bytes = name.as_bytes();
    let (mut plain, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(byte) = bytes.get(at) {
        let escaped = (*byte == b'%').then(|| name.get(at + 1..at + 3)).flatten();
        match escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                plain.push(byte);
                at += 3;
            }
            None => {
                plain.push(*byte);
                at += 1;
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests;
