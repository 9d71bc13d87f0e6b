//! What an operator decides about a gateway, and limits that nobody decides.

use std::time::Duration;

/// What an operator decides about a gateway.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The region that requests are signed for.
    pub region: String,
    /// Names below which the first label of a host is a bucket, in lower case, without ports.
    pub domains: Vec<String>,
    /// Whether SigV2 presigned URLs of objects are accepted.
    pub sigv2_presign: bool,
    /// How long a body may bring less than [`BODY_BYTES_PER_SECOND_MIN`] before it is given up.
    pub body_patience: Duration,
}

/// A body that is slower than this for [`Settings::body_patience`] is given up.
pub const BODY_BYTES_PER_SECOND_MIN: u64 = 1_024;

/// Bytes of memory that XML documents of requests may hold at a time, all together. What is sent as
/// files has a budget of its own, which they cannot take from it.
pub const DOCUMENT_BYTES_MAX: u64 = 32 << 20;

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            region: "us-east-1".to_owned(),
            domains: Vec::new(),
            sigv2_presign: true,
            body_patience: Duration::from_secs(30),
        }
    }
}
