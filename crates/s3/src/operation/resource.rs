//! The resource that a request's host and path name.
//!
//! For example, with the domain `s3.example.com`, the host `photos.s3.example.com` and the path
//! `/cat.jpg` name the same object as the path `/photos/cat.jpg` with the host `s3.example.com`.

use crate::name::{BucketName, ObjectKey};
use crate::{Code, Fault};

/// The resource that the host and the path of a request name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum S3Resource {
    /// The service, that is, neither a bucket nor an object.
    Service,
    /// A bucket, whether it exists or not.
    Bucket(BucketName),
    /// An object key in a bucket, whether the object exists or not.
    Object(BucketName, ObjectKey),
}

impl S3Resource {
    /// Parses a host and a raw path. `raw_path` is not decoded and has no query.
    ///
    /// If the host is a subdomain of one of the `domains`, the subdomain is the bucket and the
    /// whole path is the key. With any other host, an IP address included, the first path segment
    /// is the bucket. `domains` are lower-case names without ports.
    ///
    /// Fails with `InvalidURI`, `InvalidBucketName`, or the faults of `ObjectKey::from_path`.
    pub fn parse(
        host: Option<&str>,
        raw_path: &str,
        domains: &[String],
    ) -> Result<S3Resource, Fault> {
        // An absolute or empty path is accepted; a path without a leading slash is not a valid
        // request target.
        let path = match raw_path {
            "" => "",
            _ => raw_path.strip_prefix('/').ok_or(Code::InvalidURI)?,
        };
        // The bucket name in the host is never percent-encoded, so it is parsed without decoding.
        if let Some(label) = host.and_then(|host| bucket_label(host, domains)) {
            let bucket = BucketName::parse(&label)?;
            return if path.is_empty() {
                Ok(S3Resource::Bucket(bucket))
            } else {
                Ok(S3Resource::Object(bucket, ObjectKey::from_path(path)?))
            };
        }
        // A client that has an empty bucket name sends `//`.
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

    /// Returns the bucket; `None` for the service.
    pub fn bucket(&self) -> Option<&BucketName> {
        match self {
            S3Resource::Service => None,
            S3Resource::Bucket(bucket) | S3Resource::Object(bucket, _) => Some(bucket),
        }
    }

    /// Returns the key; `None` for the service and for a bucket.
    pub fn key(&self) -> Option<&ObjectKey> {
        match self {
            S3Resource::Service | S3Resource::Bucket(_) => None,
            S3Resource::Object(_, key) => Some(key),
        }
    }
}

/// Returns the part of the host before the longest domain that matches. `None` if the host is a
/// domain itself or is in no domain.
fn bucket_label(host: &str, domains: &[String]) -> Option<String> {
    if domains.is_empty() {
        return None;
    }
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
        // The shortest label belongs to the longest domain. For example, with the domains `a.b` and
        // `b`, the host `x.a.b` names the bucket `x`.
        .min_by_key(|label| label.len())
        .map(str::to_owned)
}

/// Returns `host:port` without its port. An IPv6 address keeps its brackets and therefore matches
/// no domain.
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
