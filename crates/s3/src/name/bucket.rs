//! Bucket names.

use std::fmt;

use super::decode_once;
use crate::{Code, Fault};

/// A bucket's name: 3 to 63 of `a-z`, `0-9`, `.` and `-`, by S3's rules, and not reserved.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BucketName(String);

/// `minio` is where MinIO's health checks are, which are served too.
const RESERVED: [&str; 1] = ["minio"];
const RESERVED_PREFIXES: [&str; 2] = ["xn--", "sthree-"];
const RESERVED_SUFFIXES: [&str; 5] = ["-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3"];

impl BucketName {
    /// Takes a name that is decoded already. Fault: `InvalidBucketName`.
    pub fn parse(text: &str) -> Result<BucketName, Fault> {
        if is_valid(text) && !is_reserved(text) {
            Ok(BucketName(text.to_owned()))
        } else {
            // A name from the network may be long; a valid one is not.
            let shown: String = text.chars().take(100).collect();
            Err(Fault::new(Code::InvalidBucketName).with("BucketName", shown))
        }
    }

    /// Takes a name as it stands in a URL's path. Faults: `InvalidBucketName`, `InvalidURI`.
    pub fn from_path(raw: &str) -> Result<BucketName, Fault> {
        match decode_once(raw) {
            Ok(text) => BucketName::parse(&text),
            Err(fault) if fault.code == Code::InvalidURI => Err(fault),
            Err(_) => Err(Code::InvalidBucketName.into()),
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_valid(text: &str) -> bool {
    let is_allowed = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-');
    // A label that is empty or begins or ends with a dash also covers `..`, `.-` and `-.`.
    let is_label =
        |label: &str| !label.is_empty() && !label.starts_with('-') && !label.ends_with('-');
    (3..=63).contains(&text.len())
        && text.bytes().all(is_allowed)
        && text.split('.').all(is_label)
        && !is_address(text)
}

/// Four runs of digits with dots between them look like an IPv4 address, whatever their values.
fn is_address(text: &str) -> bool {
    text.split('.').count() == 4
        && text.split('.').all(|label| label.bytes().all(|byte| byte.is_ascii_digit()))
}

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
