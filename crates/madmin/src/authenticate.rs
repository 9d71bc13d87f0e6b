//! The authentication of a request by a signature in its headers.
//!
//! MinIO's clients sign with SigV4 for the service `s3`, and leave the region empty. The signature
//! covers the hash of the body, so it is verified before the body arrives. For example, a request
//! with the body of another sender has a wrong hash and gets `XAmzContentSHA256Mismatch`.

use adminapi::ApiError;
use http::header::AUTHORIZATION;
use http::request::Parts;
use identity::{AcceptedSignatures, Access, Authenticated};
use s3::auth::{AuthKind, Credentials, PayloadMode, RequestHead, Verified};
use time::OffsetDateTime;

/// The service in the credential scope.
const SERVICE: &str = "s3";

/// The end of a credential scope without a region.
const WITHOUT_REGION: &str = "//s3/aws4_request";

/// A verified request: its sender, and the SHA-256 that its body must have.
#[derive(Debug)]
pub(crate) struct Signed {
    pub(crate) authenticated: Authenticated,
    pub(crate) body_hash: [u8; 32],
}

/// Returns the sender of a request.
///
/// # Errors
/// `Unauthenticated` for an anonymous or presigned request, for a token of the API, and if the
/// signature does not cover the body; the errors of S3 for a wrong signature.
pub(crate) fn authenticate(
    access: &Access,
    head: &Parts,
    region: &str,
    now: OffsetDateTime,
) -> Result<Signed, ApiError> {
    let header = head.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let Some(header) = header.filter(|header| header.starts_with("AWS4-HMAC-SHA256 ")) else {
        let why = "The request has no signature of SigV4 in its headers.";
        return Err(ApiError::unauthenticated(why));
    };
    let region = if header.contains(WITHOUT_REGION) { "" } else { region };
    let request = RequestHead {
        method: &head.method,
        path: head.uri.path(),
        query: head.uri.query().unwrap_or_default(),
        headers: &head.headers,
        authority: head.uri.authority().map(http::uri::Authority::as_str),
        host_bucket: None,
    };
    let credentials = Credentials::parse(&request)?;
    let accepted = AcceptedSignatures::sigv4(region, SERVICE, now);
    let authenticated = access.authenticate(&credentials, &request, &accepted)?;
    let verified = &authenticated.verified;
    let is_in_header = verified.kind() == AuthKind::Header;
    let PayloadMode::Hashed(body_hash) = verified.payload() else { return Err(uncovered()) };
    if !is_in_header {
        return Err(uncovered());
    }
    // The signature is for this request. Requests of S3 that carry it out have bodies of their own.
    let signed_at = verified.signed_at().unwrap_or(now);
    let access_key = verified.access_key().unwrap_or_default();
    let verified = Verified::without_signature(access_key, signed_at);
    let identity = authenticated.identity;
    Ok(Signed { authenticated: Authenticated { verified, identity }, body_hash })
}

fn uncovered() -> ApiError {
    ApiError::unauthenticated("The signature does not cover the body.")
}
