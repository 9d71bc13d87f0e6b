//! Names as S3 has them: buckets, object keys, prefixes, versions, copy sources.
//!
//! A name may arrive in a URL, a header, an XML body or a form, and the same parser reads all of
//! them. It is decoded at most once and never normalised: what is stored is what was sent. How keys
//! become file names is not known here.

use std::fmt;

use crate::{Code, Fault};

mod bucket;
mod source;

#[cfg(test)]
mod tests;

pub use bucket::BucketName;
pub use source::CopySource;

/// An object's key: 1 to 1024 bytes of UTF-8 without NUL, at most 512 of them slashes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey(String);

impl ObjectKey {
    /// The longest key, in bytes.
    pub const BYTES_MAX: usize = 1024;

    /// The most slashes of a key.
    pub const SLASHES_MAX: usize = 512;

    /// Takes a key as text that is decoded already, as in XML bodies and form fields.
    ///
    /// Faults: `KeyTooLongError`; `InvalidArgument` when it is empty or holds a NUL.
    pub fn parse(text: &str) -> Result<ObjectKey, Fault> {
        if text.is_empty() {
            return Err(invalid_key("The key is empty."));
        }
        check(text)?;
        if text.bytes().filter(|byte| *byte == b'/').count() > ObjectKey::SLASHES_MAX {
            let why = "The key has more than 512 slashes.";
            return Err(Fault::because(Code::KeyTooLongError, why));
        }
        Ok(ObjectKey(text.to_owned()))
    }

    /// Takes a key as it stands in a URL's path, without the slash before it, and decodes it
    /// exactly once.
    ///
    /// Faults: as `parse`; `InvalidArgument` when it is not UTF-8; `InvalidURI` when a `%` is
    /// not followed by two hex digits.
    pub fn from_path(raw: &str) -> Result<ObjectKey, Fault> {
        ObjectKey::parse(&decode_once(raw)?)
    }

    /// The key.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A prefix of keys, or a marker between keys: 0 to 1024 bytes of UTF-8 without NUL.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyPrefix(String);

impl KeyPrefix {
    /// Takes a prefix as text that is decoded already. Faults as `ObjectKey::parse`.
    pub fn parse(text: &str) -> Result<KeyPrefix, Fault> {
        check(text)?;
        Ok(KeyPrefix(text.to_owned()))
    }

    /// The prefix.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is the prefix of everything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Which version of an object a request names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum VersionId {
    /// `null`: the version that a bucket without versioning keeps.
    Null,
    /// Any other id, not yet known to exist: 1 to 128 visible ASCII characters.
    Other(String),
}

impl VersionId {
    /// Takes the value of `versionId`. Fault: `InvalidArgument`.
    pub fn parse(text: &str) -> Result<VersionId, Fault> {
        match text {
            "null" => Ok(VersionId::Null),
            "" => Err(Fault {
                message: "Version id cannot be the empty string".into(),
                ..invalid_version(text)
            }),
            _ if text.len() > 128 => Err(invalid_version(text)),
            _ if !text.bytes().all(|byte| byte.is_ascii_graphic()) => Err(invalid_version(text)),
            _ => Ok(VersionId::Other(text.to_owned())),
        }
    }

    /// What is said of a text that can be the id of no version.
    pub fn invalid(text: &str) -> Fault {
        invalid_version(text)
    }

    /// The id on the wire.
    pub fn as_str(&self) -> &str {
        match self {
            VersionId::Null => "null",
            VersionId::Other(id) => id,
        }
    }
}

/// Decodes percent escapes exactly once. A `+` is a plus.
pub(crate) fn decode_once(raw: &str) -> Result<String, Fault> {
    let bytes = unescape(raw).ok_or_else(|| {
        Fault::new(Code::InvalidURI).detail("A % in the URI is not followed by two hex digits.")
    })?;
    String::from_utf8(bytes).map_err(|_| invalid_key("The key is not UTF-8."))
}

fn unescape(raw: &str) -> Option<Vec<u8>> {
    let mut bytes = raw.bytes();
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

fn check(text: &str) -> Result<(), Fault> {
    if text.len() > ObjectKey::BYTES_MAX {
        return Err(Fault::new(Code::KeyTooLongError)
            .with("Size", text.len().to_string())
            .with("MaxSizeAllowed", ObjectKey::BYTES_MAX.to_string()));
    }
    if text.contains('\0') {
        return Err(invalid_key("The key holds a NUL."));
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
