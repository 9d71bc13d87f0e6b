//! S3 names: buckets, object keys, prefixes, versions, copy sources.
//!
//! Names arrive in URLs, headers, XML bodies and forms, and the same parser handles all of them.
//! Invariant: a name is decoded at most once and never normalised, so the stored name is exactly
//! the sent name. For example, the path `/bucket/a%2525` names the key `a%25`.
//!
//! The module does not know how keys become file names.

use std::borrow::Cow;
use std::fmt;

use crate::{Code, Fault};

mod bucket;
mod source;

#[cfg(test)]
mod tests;

pub use bucket::BucketName;
pub use source::CopySource;

/// An object key: 1 to 1024 bytes of UTF-8 without NUL, with at most 512 slashes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey(String);

impl ObjectKey {
    /// The maximum length of a key in bytes.
    pub const BYTES_MAX: usize = 1024;

    /// The maximum number of slashes in a key.
    pub const SLASHES_MAX: usize = 512;

    /// Parses a key that is already decoded, as in XML bodies and form fields.
    ///
    /// Fails with `KeyTooLongError`, or with `InvalidArgument` if the key is empty or contains NUL.
    pub fn parse(text: &str) -> Result<ObjectKey, Fault> {
        if text.is_empty() {
            return Err(invalid_key("The key is empty."));
        }
        check(text)?;
        // A key with more slashes could be created and never deleted: the commit that removes it
        // with all its directories would be larger than some metadata stores allow.
        if text.bytes().filter(|byte| *byte == b'/').count() > ObjectKey::SLASHES_MAX {
            let why = "The key has more than 512 slashes.";
            return Err(Fault::because(Code::KeyTooLongError, why));
        }
        Ok(ObjectKey(text.to_owned()))
    }

    /// Parses a key from a URL path, without its leading slash, and decodes it exactly once.
    ///
    /// Fails as `parse`; with `InvalidArgument` if it is not UTF-8; or with `InvalidURI` if a `%`
    /// is not followed by two hex digits.
    pub fn from_path(raw: &str) -> Result<ObjectKey, Fault> {
        ObjectKey::parse(&decode_once(raw)?)
    }

    /// Returns the key.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A key prefix, or a marker in a listing: 0 to 1024 bytes of UTF-8 without NUL.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyPrefix(String);

impl KeyPrefix {
    /// Parses a key prefix that is already decoded. Fails with `KeyTooLongError`, or with
    /// `InvalidArgument` if it contains NUL.
    pub fn parse(text: &str) -> Result<KeyPrefix, Fault> {
        check(text)?;
        Ok(KeyPrefix(text.to_owned()))
    }

    /// Returns the prefix.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns true if the prefix is empty and therefore matches all keys.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A version id in a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum VersionId {
    /// `null`: the version that a bucket without versioning has.
    Null,
    /// Any other id: 1 to 128 visible ASCII characters. The version may not exist.
    Other(String),
}

impl VersionId {
    /// Parses the value of `versionId`. Fails with `InvalidArgument`.
    pub fn parse(text: &str) -> Result<VersionId, Fault> {
        match text {
            "null" => Ok(VersionId::Null),
            // S3 has its own message for an empty id.
            "" => Err(Fault {
                message: "Version id cannot be the empty string".into(),
                ..invalid_version(text)
            }),
            _ if text.len() > 128 => Err(invalid_version(text)),
            _ if !text.bytes().all(|byte| byte.is_ascii_graphic()) => Err(invalid_version(text)),
            _ => Ok(VersionId::Other(text.to_owned())),
        }
    }

    /// Returns the fault of a malformed version id.
    pub fn invalid(text: &str) -> Fault {
        invalid_version(text)
    }

    /// Returns the id as requests and responses have it.
    pub fn as_str(&self) -> &str {
        match self {
            VersionId::Null => "null",
            VersionId::Other(id) => id,
        }
    }
}

/// Decodes percent escapes exactly once. A `+` remains a plus.
pub(crate) fn decode_once(raw: &str) -> Result<Cow<'_, str>, Fault> {
    if !raw.contains('%') {
        return Ok(raw.into());
    }
    let bytes = unescape(raw).ok_or_else(|| {
        Fault::new(Code::InvalidURI).detail("A % in the URI is not followed by two hex digits.")
    })?;
    let text = String::from_utf8(bytes).map_err(|_| invalid_key("The key is not UTF-8."))?;
    Ok(text.into())
}

fn unescape(raw: &str) -> Option<Vec<u8>> {
    let mut bytes = raw.bytes();
    // The result is at most as long as the input.
    let mut out = Vec::with_capacity(raw.len());
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let high = hex_digit(bytes.next()?)?;
            let low = hex_digit(bytes.next()?)?;
            out.push(high << 4 | low);
        } else {
            out.push(byte);
        }
    }
    Some(out)
}

fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// Checks the limits that keys and prefixes share.
fn check(text: &str) -> Result<(), Fault> {
    if text.len() > ObjectKey::BYTES_MAX {
        return Err(Fault::new(Code::KeyTooLongError)
            .with("Size", text.len().to_string())
            .with("MaxSizeAllowed", ObjectKey::BYTES_MAX.to_string()));
    }
    // No file name can contain NUL.
    if text.contains('\0') {
        return Err(invalid_key("The key contains a NUL."));
    }
    Ok(())
}

fn invalid_key(why: &'static str) -> Fault {
    Fault::because(Code::InvalidArgument, why).with("ArgumentName", "key")
}

fn invalid_version(text: &str) -> Fault {
    Fault::because(Code::InvalidArgument, "Invalid version id specified")
        .with("ArgumentName", "versionId")
        .with("ArgumentValue", text)
}

impl AsRef<str> for ObjectKey {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for KeyPrefix {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Debug for KeyPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for KeyPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
