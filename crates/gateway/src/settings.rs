//! What an operator decides about a gateway, and limits that are fixed.

use std::time::Duration;

use record::ObjectOwnership;

/// What an operator decides about a gateway.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The region that requests are signed for.
    pub region: String,
    /// Names below which the first label of a host is a bucket, in lower case, without ports.
    pub domains: Vec<String>,
    /// Whom the objects of a new bucket belong to if the request does not say.
    pub object_ownership: ObjectOwnership,
    /// Whether SigV2 presigned URLs of objects are accepted.
    pub sigv2_presign: bool,
    /// How long the days of lifecycle rules are taken to be: 24 hours, but for tests.
    pub lifecycle_day: Duration,
    /// Versions, or uploads, that one page of a lifecycle pass reads at most: 1,000, but for tests.
    pub lifecycle_page: usize,
    /// How long a body may arrive more slowly than [`BODY_BYTES_PER_SECOND_MIN`] before its request
    /// fails.
    pub body_patience: Duration,
}

/// A request fails if its body arrives more slowly than this for [`Settings::body_patience`].
pub const BODY_BYTES_PER_SECOND_MIN: u64 = 1_024;

/// Bytes of memory that the long XML documents of all requests may hold at a time. The contents of
/// objects have a budget of their own, so documents cannot use it up.
pub const DOCUMENT_BYTES_MAX: u64 = 32 << 20;

/// Bytes of one configuration of a bucket. With what a record has besides, a store takes it as one value.
pub(crate) const CONFIG_BYTES_MAX: usize = (1 << 20) - 1_024;

/// Bytes of memory that the beginnings of XML documents may hold at a time. Long documents cannot use
/// it up, so they do not hold up short ones.
pub(crate) const BEGINNINGS_BYTES_MAX: u64 = 16 << 20;

/// As [`DOCUMENT_BYTES_MAX`] and [`BEGINNINGS_BYTES_MAX`], of documents whose senders are not known, or
/// not yet.
pub(crate) const STRANGERS_BYTES_MAX: u64 = 8 << 20;

/// Bytes of memory that the tokens of web identities may hold at a time.
pub(crate) const TOKENS_BYTES_MAX: u64 = 8 << 20;

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            region: "us-east-1".to_owned(),
            domains: Vec::new(),
            object_ownership: ObjectOwnership::BucketOwnerEnforced,
            sigv2_presign: true,
            lifecycle_day: Duration::from_hours(24),
            lifecycle_page: 1_000,
            body_patience: Duration::from_secs(30),
        }
    }
}
