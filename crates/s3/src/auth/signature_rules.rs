//! The rules on which a signature is accepted: region, time, kinds.

use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};

use crate::{Code, Fault};

/// A request's time may differ from ours by this many seconds, either way.
pub const SKEW_SECONDS_MAX: i64 = 15 * 60;

/// The rules on which a signature is accepted.
#[derive(Clone, Copy, Debug)]
pub struct SignatureRules<'a> {
    /// Our region, which a credential's scope must name.
    pub region: &'a str,
    /// The service that it must name: `s3`, or `sts`.
    pub service: &'a str,
    /// Whether the access key is a session's, and the session token that came with it is its own.
    /// Of any other access key a token is refused.
    pub has_session: bool,
    /// Whether SigV2 presigned URLs are accepted, for objects only.
    pub sigv2_presign: bool,
    /// Whether the operation takes bodies in chunks with signatures or trailers.
    pub accepts_aws_chunked: bool,
    /// The time by our clock.
    pub now: OffsetDateTime,
}

/// Refuses a request whose time differs too much from ours.
pub(super) fn check_skew(signed_at: OffsetDateTime, now: OffsetDateTime) -> Result<(), Fault> {
    if (now - signed_at).abs() <= Duration::seconds(SKEW_SECONDS_MAX) {
        return Ok(());
    }
    Err(skewed(signed_at, now))
}

/// Refuses a time that is too far ahead of ours.
pub(super) fn check_future(signed_at: OffsetDateTime, now: OffsetDateTime) -> Result<(), Fault> {
    if signed_at - now <= Duration::seconds(SKEW_SECONDS_MAX) {
        return Ok(());
    }
    Err(skewed(signed_at, now))
}

fn skewed(signed_at: OffsetDateTime, now: OffsetDateTime) -> Fault {
    Fault::because(
        Code::RequestTimeTooSkewed,
        "The difference between the request time and the current time is too large.",
    )
    .with("RequestTime", format_rfc3339(signed_at))
    .with("ServerTime", format_rfc3339(now))
    .with("MaxAllowedSkewMilliseconds", (SKEW_SECONDS_MAX * 1000).to_string())
}

/// Refuses a URL that has expired.
pub(super) fn check_expiry(expires: OffsetDateTime, now: OffsetDateTime) -> Result<(), Fault> {
    if now <= expires {
        return Ok(());
    }
    Err(Fault::because(Code::AccessDenied, "Request has expired.")
        .with("Expires", format_rfc3339(expires))
        .with("ServerTime", format_rfc3339(now)))
}

pub(super) fn format_rfc3339(time: OffsetDateTime) -> String {
    time.replace_nanosecond(0).unwrap_or(time).format(&Rfc3339).unwrap_or_default()
}
