//! The source of a copy.

use super::{BucketName, ObjectKey, VersionId, decode_once};
use crate::{Code, Fault};

/// The value of `x-amz-copy-source`: a bucket, a key and an optional version. For example,
/// `photos/a%20b?versionId=null`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopySource {
    /// The bucket to read from.
    pub bucket: BucketName,
    /// The key to read.
    pub key: ObjectKey,
    /// The version to read; `None` for the current version.
    pub version: Option<VersionId>,
}

impl CopySource {
    /// Parses the header: an optional slash, the bucket, a slash, the key, and an optional
    /// `?versionId=`. The version is split off before the rest is decoded once. A plus is a space,
    /// as in a query: S3 decodes it so, and Terraform encodes it so.
    ///
    /// Fails with `InvalidArgument`, or with the faults of `ObjectKey::parse`.
    pub fn parse(value: &str) -> Result<CopySource, Fault> {
        // The text is split before decoding, because an escaped question mark belongs to the key.
        let (path, version) = match value.split_once("?versionId=") {
            Some((path, version)) => (path, Some(VersionId::parse(&decode_once(version)?)?)),
            None => (value, None),
        };
        let path = path.replace('+', " ");
        let path =
            decode_once(&path).map_err(|_| invalid("Invalid copy source encoding", value))?;
        // The leading slash is removed after decoding, because some clients encode it, too.
        let path = path.strip_prefix('/').unwrap_or(&path);
        let no_key = || invalid("Invalid copy source object key", value);
        let (bucket, key) = path.split_once('/').ok_or_else(no_key)?;
        let bucket = BucketName::parse(bucket)
            .map_err(|_| invalid("Invalid copy source bucket name", value))?;
        if key.is_empty() {
            return Err(no_key());
        }
        Ok(CopySource { bucket, key: ObjectKey::parse(key)?, version })
    }
}

fn invalid(why: &'static str, value: &str) -> Fault {
    Fault::because(Code::InvalidArgument, why)
        .with("ArgumentName", "x-amz-copy-source")
        .with("ArgumentValue", value)
        .detail("The copy source must be bucket/key, percent-encoded.")
}
