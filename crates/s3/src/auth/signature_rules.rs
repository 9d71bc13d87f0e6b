//! The rules for accepting a signature: region, time, and kinds of credentials.

use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};

use crate::{Code, Fault};

/// The maximum difference in seconds between a request's time and the gateway's clock, in both
/// directions.
pub const SKEW_SECONDS_MAX: i64 = 15 * 60;

/// The rules by which the gateway accepts the signature of a request.
#[derive(Clone, Copy, Debug)]
pub struct SignatureRules<'a> {
    /// The gateway's region, which the credential scope must name.
    pub region: &'a str,
    /// The service that the credential scope must name: `s3` or `sts`.
    pub service: &'a str,
    /// True if the access key belongs to a session and the request has the token of this session.
    /// With any other access key a session token is refused.
    pub has_session: bool,
    /// True if SigV2 presigned URLs are accepted, for objects only.
    pub sigv2_presign: bool,
    /// True if the operation accepts bodies in chunks with signatures or trailers.
    pub accepts_aws_chunked: bool,
    /// The current time.
    pub now: OffsetDateTime,
}

/// Refuses a request that was signed more than `SKEW_SECONDS_MAX` before or after `now`. Fails with
/// `RequestTimeTooSkewed`.
pub(super) fn check_skew(signed_at: OffsetDateTime, now: OffsetDateTime) -> Result<(), Fault> {
    if (now - signed_at).abs() <= Duration::seconds(SKEW_SECONDS_MAX) {
        return Ok(());
    }
    Err(skewed(signed_at, now))
}

/// Refuses a request that was signed more than `SKEW_SECONDS_MAX` after `now`. Fails with
/// `RequestTimeTooSkewed`.
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

/// Refuses a presigned URL that expired before `now`.
pub(super) fn check_expiry(expires: OffsetDateTime, now: OffsetDateTime) -> Result<(), Fault> {
    if now <= expires {
        return Ok(());
    }
    Err(Fault::because(Code::AccessDenied, "Request has expired.")
        .with("Expires", format_rfc3339(expires))
        .with("ServerTime", format_rfc3339(now)))
}

/// Returns a time for error messages, in whole seconds: `2013-05-24T00:00:00Z`.
pub(super) fn format_rfc3339(time: OffsetDateTime) -> String {
    time.replace_nanosecond(0).unwrap_or(time).format(&Rfc3339).unwrap_or_default()
}
