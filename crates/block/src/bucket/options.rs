//! What there is to know about a bucket before it is asked.

use std::fmt;
use std::time::Duration;

use crate::{BlockError, BlockErrorKind};

/// Text that never shows: in no log, no error, no dump.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretKey(pub(super) String);

impl SecretKey {
    /// Hides a text.
    pub fn new(text: impl Into<String>) -> SecretKey {
        SecretKey(text.into())
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKey(hidden)")
    }
}

/// Where a bucket is, how to be let in, and how long to wait.
#[derive(Clone, Debug)]
pub struct BucketOptions {
    /// `http://…` or `https://…`; AWS by region if absent.
    pub endpoint: Option<String>,
    /// The region that requests are signed for. MinIO takes `us-east-1` unless told otherwise.
    pub region: String,
    /// The bucket, which exists already.
    pub bucket: String,
    /// What the keys of all blocks begin with; slashes at its ends do not matter. May be empty.
    pub prefix: String,
    /// The access key.
    pub access_key: String,
    /// The secret key.
    pub secret_key: SecretKey,
    /// The bucket in the path of a request rather than in its host name. MinIO wants it.
    pub path_style: bool,
    /// How long to wait for a connection.
    pub connect_timeout: Duration,
    /// How long to wait for the head of an answer to a request without a body, and for the next
    /// bytes of a block that is read as it arrives.
    pub answer_timeout: Duration,
    /// How long to wait for one whole block to be sent and answered, or to be received.
    pub block_timeout: Duration,
}

impl BucketOptions {
    /// A bucket on AWS in `us-east-1`, without a prefix, with the usual waits.
    pub fn new(
        bucket: impl Into<String>,
        access_key: impl Into<String>,
        secret_key: SecretKey,
    ) -> BucketOptions {
        BucketOptions {
            endpoint: None,
            region: "us-east-1".to_owned(),
            bucket: bucket.into(),
            prefix: String::new(),
            access_key: access_key.into(),
            secret_key,
            path_style: false,
            connect_timeout: Duration::from_secs(1),
            answer_timeout: Duration::from_secs(5),
            block_timeout: Duration::from_secs(30),
        }
    }

    /// Refuses what cannot be right, before it fails as something else.
    pub(super) fn check(&self) -> Result<(), BlockError> {
        let refused = |why: String| {
            Err(BlockError::because(BlockErrorKind::Refused, "connecting to the block bucket", why))
        };
        if let Some(endpoint) = &self.endpoint {
            let host = endpoint
                .strip_prefix("http://")
                .or_else(|| endpoint.strip_prefix("https://"))
                .unwrap_or_default();
            if host.is_empty() || host.starts_with('/') {
                return refused(format!("endpoint {endpoint:?} is not http://… or https://…"));
            }
        }
        if self.bucket.is_empty() || self.bucket.contains('/') {
            return refused(format!("{:?} is not the name of a bucket", self.bucket));
        }
        if self.access_key.is_empty() || self.secret_key.0.is_empty() {
            return refused("the access key or the secret key is empty".to_owned());
        }
        Ok(())
    }
}
