//! Where a copy reads from.

use super::{BucketName, ObjectKey, VersionId, decode_once};
use crate::{Code, Fault};

/// The value of `x-amz-copy-source`: a bucket, a key and perhaps a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopySource {
    /// The bucket to read from.
    pub bucket: BucketName,
    /// The key to read.
    pub key: ObjectKey,
    /// The version to read, if not the current one.
    pub version: Option<VersionId>,
}

impl CopySource {
    /// Takes the header's value: an optional slash, bucket, slash, key, and perhaps
    /// `?versionId=`, which is split off before the rest is decoded, once. A plus is a space, as in
    /// a query: S3 reads it so, and Terraform writes it so.
    ///
    /// Faults: `InvalidArgument`, and what a key answers.
    pub fn parse(value: &str) -> Result<CopySource, Fault> {
        let (path, version) = match value.split_once("?versionId=") {
            Some((path, version)) => (path, Some(VersionId::parse(&decode_once(version)?)?)),
            None => (value, None),
        };
        let path = decode_once(&path.replace('+', " "))
            .map_err(|_| invalid("Invalid copy source encoding", value))?;
        // Only now, because some clients encode the slash too.
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
