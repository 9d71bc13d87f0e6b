//! Bucket names.

use std::fmt;

use super::decode_once;
use crate::{Code, Fault};

/// A bucket name by S3's rules: 3 to 63 characters of `a-z`, `0-9`, `.` and `-`, and not reserved.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BucketName(String);

/// Reserved names. `minio` is the path of MinIO's health checks, which the gateway also serves.
const RESERVED: [&str; 1] = ["minio"];
const RESERVED_PREFIXES: [&str; 2] = ["xn--", "sthree-"];
const RESERVED_SUFFIXES: [&str; 5] = ["-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3"];

impl BucketName {
    /// Parses a bucket name that is already decoded. Fails with `InvalidBucketName`.
    pub fn parse(text: &str) -> Result<BucketName, Fault> {
        if is_valid(text) && !is_reserved(text) {
            Ok(BucketName(text.to_owned()))
        } else {
            // A name from the network can be arbitrarily long, so the error repeats only its
            // beginning.
            let shown: String = text.chars().take(100).collect();
            Err(Fault::new(Code::InvalidBucketName).with("BucketName", shown))
        }
    }

    /// Parses a bucket name from a URL path, which may be percent-encoded. Fails with
    /// `InvalidBucketName` or `InvalidURI`.
    pub fn from_path(raw: &str) -> Result<BucketName, Fault> {
        match decode_once(raw) {
            Ok(text) => BucketName::parse(&text),
            Err(fault) if fault.code == Code::InvalidURI => Err(fault),
            Err(_) => Err(Code::InvalidBucketName.into()),
        }
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns true if the name follows S3's rules.
fn is_valid(text: &str) -> bool {
    let is_allowed = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-');
    // These conditions also exclude `..`, `.-` and `-.`.
    let is_label =
        |label: &str| !label.is_empty() && !label.starts_with('-') && !label.ends_with('-');
    (3..=63).contains(&text.len())
        && text.bytes().all(is_allowed)
        && text.split('.').all(is_label)
        && !is_address(text)
}

/// Returns true if the name looks like an IPv4 address: four groups of digits of any value.
fn is_address(text: &str) -> bool {
    text.split('.').count() == 4
        && text.split('.').all(|label| label.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns true if the name is reserved, or has a prefix or suffix that S3 reserves.
fn is_reserved(text: &str) -> bool {
    RESERVED.contains(&text)
        || RESERVED_PREFIXES.iter().any(|prefix| text.starts_with(prefix))
        || RESERVED_SUFFIXES.iter().any(|suffix| text.ends_with(suffix))
}

impl AsRef<str> for BucketName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for BucketName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for BucketName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
