//! Settings of a gateway, and fixed limits.

use std::time::Duration;

use record::ObjectOwnership;

/// The settings that an operator chooses for a gateway.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The region for which requests are signed.
    pub region: String,
    /// Host names whose first label is a bucket (virtual-hosted style), in lower case, without
    /// ports.
    pub domains: Vec<String>,
    /// The object ownership of a new bucket, if the request names none.
    pub object_ownership: ObjectOwnership,
    /// True if presigned URLs with SigV2 signatures are accepted for objects.
    pub sigv2_presign: bool,
    /// The length of a day in lifecycle rules: 24 hours, shorter in tests. Responses announce
    /// expirations with it.
    pub lifecycle_day: Duration,
    /// The time a body may arrive more slowly than [`BODY_BYTES_PER_SECOND_MIN`] before its request
    /// fails.
    pub body_patience: Duration,
    /// The URL of the console, to which a person who opens the endpoint in a browser is redirected.
    pub console_url: Option<String>,
    /// The key of the key management service for objects whose request and bucket name none;
    /// `None` refuses such requests.
    pub kms_default: Option<String>,
    /// True if keys of clients (SSE-C) are accepted without TLS. Clients on this machine may always
    /// send them so.
    pub sse_c_over_http: bool,
}

/// The lowest rate of a body. A request fails if its body is slower for
/// [`Settings::body_patience`].
pub const BODY_BYTES_PER_SECOND_MIN: u64 = 1_024;

/// The memory limit for the long XML documents of all requests, in bytes. Object content has a
/// budget of its own, so documents cannot use it up.
pub const DOCUMENT_BYTES_MAX: u64 = 32 << 20;

/// The memory limit for the beginnings of XML documents, in bytes. Long documents cannot use it up,
/// so they do not delay short ones.
pub(crate) const BEGINNINGS_BYTES_MAX: u64 = 16 << 20;

/// As [`DOCUMENT_BYTES_MAX`] and [`BEGINNINGS_BYTES_MAX`], for documents of senders that are
/// anonymous or not authenticated yet.
pub(crate) const ANONYMOUS_BYTES_MAX: u64 = 8 << 20;

/// The memory limit for the tokens of web identities, in bytes.
pub(crate) const TOKENS_BYTES_MAX: u64 = 8 << 20;

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            region: "us-east-1".to_owned(),
            domains: Vec::new(),
            object_ownership: ObjectOwnership::BucketOwnerEnforced,
            sigv2_presign: true,
            lifecycle_day: Duration::from_hours(24),
            body_patience: Duration::from_secs(30),
            console_url: None,
            kms_default: None,
            sse_c_over_http: false,
        }
    }
}
