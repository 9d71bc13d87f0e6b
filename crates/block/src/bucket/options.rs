//! The options of a bucket: address, keys and timeouts.
//!
//! For example, for MinIO: `endpoint` is `http://127.0.0.1:9000`, and `path_style` is true.

use std::fmt;
use std::time::Duration;

use crate::{BlockError, BlockErrorKind};

/// A secret text that appears in no log, error or debug output.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretKey(pub(super) String);

impl SecretKey {
    /// Creates a secret.
    pub fn new(text: impl Into<String>) -> SecretKey {
        SecretKey(text.into())
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKey(hidden)")
    }
}

/// The address of a bucket, its keys, and timeouts.
#[derive(Clone, Debug)]
pub struct BucketOptions {
    /// The endpoint, `http://…` or `https://…`. If absent, AWS's endpoint for the region.
    pub endpoint: Option<String>,
    /// The region for which requests are signed. MinIO's default is `us-east-1`.
    pub region: String,
    /// The name of the bucket, which must exist.
    pub bucket: String,
    /// The prefix of all keys. Slashes at its ends are ignored. May be empty.
    pub prefix: String,
    /// The access key.
    pub access_key: String,
    /// The secret key.
    pub secret_key: SecretKey,
    /// True to put the bucket in the path of a request and not in its host name. MinIO needs it.
    pub path_style: bool,
    /// The timeout for a connection.
    pub connect_timeout: Duration,
    /// The timeout for the head of a response to a request without a body, and for each next piece
    /// of a streamed block.
    pub answer_timeout: Duration,
    /// The timeout for a whole block to be sent and answered, or to be received.
    pub block_timeout: Duration,
}

impl BucketOptions {
    /// Options of a bucket on AWS in `us-east-1`, without a prefix, with default timeouts.
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

    /// Fails with `Refused` if the options are invalid, before they cause a less clear error.
    pub(super) fn check(&self) -> Result<(), BlockError> {
        let refused = |why: String| {
            Err(BlockError::with_cause(
                BlockErrorKind::Refused,
                "connecting to the block bucket",
                why,
            ))
        };
        // The SDK would accept other schemes and fail later with an unclear error.
        if let Some(endpoint) = &self.endpoint {
            let host = endpoint
                .strip_prefix("http://")
                .or_else(|| endpoint.strip_prefix("https://"))
                .unwrap_or_default();
            if host.is_empty() || host.starts_with('/') {
                return refused(format!("the endpoint {endpoint:?} is not http://… or https://…"));
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
