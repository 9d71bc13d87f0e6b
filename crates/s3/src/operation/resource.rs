//! The resource that a request's host and path name.

use crate::name::{BucketName, ObjectKey};
use crate::{Code, Fault};

/// What a request is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum S3Resource {
    /// The service as a whole.
    Service,
    /// A bucket.
    Bucket(BucketName),
    /// An object, or a key where one may come to be.
    Object(BucketName, ObjectKey),
}

impl S3Resource {
    /// Reads a host and a raw path, without its query, as sent.
    ///
    /// With a host below one of the `domains` the bucket is the host's first part and the whole
    /// path is the key; with any other host, an address included, the bucket is the path's first
    /// part. Domains are lower-case names without ports.
    ///
    /// Faults: `InvalidURI`, `InvalidBucketName`, and what `ObjectKey::from_path` answers.
    pub fn parse(
        host: Option<&str>,
        raw_path: &str,
        domains: &[String],
    ) -> Result<S3Resource, Fault> {
        let path = match raw_path {
            "" => "",
            _ => raw_path.strip_prefix('/').ok_or(Code::InvalidURI)?,
        };
        if let Some(label) = host.and_then(|host| bucket_label(host, domains)) {
            let bucket = BucketName::parse(&label)?;
            return if path.is_empty() {
                Ok(S3Resource::Bucket(bucket))
            } else {
                Ok(S3Resource::Object(bucket, ObjectKey::from_path(path)?))
            };
        }
        // `//` is what a client makes of an empty bucket name.
        if path.is_empty() || path == "/" {
            return Ok(S3Resource::Service);
        }
        let (bucket, key) = path.split_once('/').unwrap_or((path, ""));
        let bucket = BucketName::from_path(bucket)?;
        if key.is_empty() {
            Ok(S3Resource::Bucket(bucket))
        } else {
            Ok(S3Resource::Object(bucket, ObjectKey::from_path(key)?))
        }
    }

    /// The bucket, if there is one.
    pub fn bucket(&self) -> Option<&BucketName> {
        match self {
            S3Resource::Service => None,
            S3Resource::Bucket(bucket) | S3Resource::Object(bucket, _) => Some(bucket),
        }
    }

    /// The key, if there is one.
    pub fn key(&self) -> Option<&ObjectKey> {
        match self {
            S3Resource::Service | S3Resource::Bucket(_) => None,
            S3Resource::Object(_, key) => Some(key),
        }
    }
}

/// What stands before the longest domain that the host lies below.
fn bucket_label(host: &str, domains: &[String]) -> Option<String> {
    let host = without_port(host).trim_end_matches('.').to_ascii_lowercase();
    if domains.iter().any(|domain| domain.trim_end_matches('.') == host) {
        return None;
    }
    domains
        .iter()
        .filter_map(|domain| {
            let label = host.strip_suffix(domain.trim_end_matches('.'))?.strip_suffix('.')?;
            (!label.is_empty()).then_some(label)
        })
        .min_by_key(|label| label.len())
        .map(str::to_owned)
}

/// `host:port` without its port. An IPv6 address keeps its brackets, and so matches no domain.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port))
            if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.contains(':') =>
        {
            name
        }
        _ => host,
    }
}
