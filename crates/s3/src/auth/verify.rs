//! The one gate: whoever holds a [`Verified`] came through here.

use http::HeaderMap;
use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};

use super::canonical::Canonical;
use super::header::Claim;
use super::key::DUMMY_SECRET;
use super::{
    AuthKind, Credentials, HeaderSignature, PayloadMode, PresignedV4, RequestHead,
    SKEW_SECONDS_MAX, SigningKey, Terms, single,
};
use crate::{Code, Fault};

/// A request whose sender is known, or known to be nobody, and the way its body is to be read.
///
/// Only [`Credentials::verify`] makes one.
#[derive(Clone, Debug)]
pub struct Verified {
    pub(super) access_key: Option<String>,
    pub(super) kind: AuthKind,
    pub(super) payload: PayloadMode,
    pub(super) seed: Option<ChunkSeed>,
    pub(super) hoisted: Vec<(String, String)>,
}

/// Where a chain of chunk signatures begins.
#[derive(Clone, Debug)]
pub(crate) struct ChunkSeed {
    pub(crate) key: SigningKey,
    pub(crate) timestamp: String,
    pub(crate) scope: String,
    /// The request's own signature, in hex.
    pub(crate) signature: String,
}

impl Verified {
    /// Whose key signed the request; nobody's when it is anonymous.
    pub fn access_key(&self) -> Option<&str> {
        self.access_key.as_deref()
    }

    /// How it was signed.
    pub fn kind(&self) -> AuthKind {
        self.kind
    }

    /// How its body is framed.
    pub fn payload(&self) -> PayloadMode {
        self.payload
    }

    /// The signed `x-amz-*` query parameters of a presigned URL, which count as headers.
    /// Names are in lower case, values decoded.
    pub fn hoisted(&self) -> &[(String, String)] {
        &self.hoisted
    }

    pub(crate) fn seed(&self) -> Option<&ChunkSeed> {
        self.seed.as_ref()
    }
}

impl Credentials {
    /// Checks the proof. `secret` belongs to [`access_key`](Self::access_key), if there is such a
    /// key; without one the same work is done, and the answer is `InvalidAccessKeyId`.
    ///
    /// The secret must not be that of a key which is disabled: pass `None` then.
    ///
    /// Faults, in the order of the checks: `InvalidRequest` and `NotImplemented` (payload mode);
    /// `AuthorizationHeaderMalformed` or `AuthorizationQueryParametersError` (scope);
    /// `RequestTimeTooSkewed`, or `AccessDenied` for an expired URL; `AccessDenied` for headers
    /// that are not signed; `InvalidAccessKeyId`; `SignatureDoesNotMatch`; `InvalidToken`.
    pub fn verify(
        &self,
        secret: Option<&str>,
        request: &RequestHead<'_>,
        terms: &Terms<'_>,
    ) -> Result<Verified, Fault> {
        let header = content_sha256(request.headers)?;
        let choose = |value| PayloadMode::choose(value, self.kind(), terms.may_stream);
        match self {
            Credentials::Anonymous => Ok(Verified {
                access_key: None,
                kind: AuthKind::Anonymous,
                payload: choose(header)?,
                seed: None,
                hoisted: Vec::new(),
            }),
            Credentials::Header(signature) => {
                signature.verify(secret, request, terms, choose(header)?, header)
            }
            Credentials::Query(signature) => {
                let value = one_claim(signature.content_sha256.as_deref(), header)?;
                signature.verify(secret, request, terms, choose(value)?, value)
            }
            Credentials::QueryV2(signature) => {
                let value = one_claim(signature.content_sha256(), header)?;
                signature.verify(secret, request, terms, choose(value)?)
            }
        }
    }
}

impl HeaderSignature {
    fn verify(
        &self,
        secret: Option<&str>,
        request: &RequestHead<'_>,
        terms: &Terms<'_>,
        payload: PayloadMode,
        payload_line: Option<&str>,
    ) -> Result<Verified, Fault> {
        let claim = &self.claim;
        if let Some(why) = scope_error(claim, terms.region) {
            let message = format!("The authorization header is malformed; {why}");
            return Err(Fault::because(Code::AuthorizationHeaderMalformed, message)
                .with("Region", terms.region));
        }
        check_skew(claim.signed_at, terms.now)?;
        check_coverage(request.headers, &claim.signed_headers)?;
        let line = payload_line.unwrap_or_default();
        let key = check_signature(claim, secret, request, line)?;
        if request.headers.contains_key("x-amz-security-token") {
            return Err(Code::InvalidToken.into());
        }
        let seed = matches!(payload, PayloadMode::SignedChunks { .. }).then(|| ChunkSeed {
            key,
            timestamp: claim.timestamp.clone(),
            scope: claim.scope.to_text(),
            signature: claim.signature.clone(),
        });
        Ok(Verified {
            access_key: Some(claim.access_key.clone()),
            kind: AuthKind::Header,
            payload,
            seed,
            hoisted: Vec::new(),
        })
    }
}

impl PresignedV4 {
    fn verify(
        &self,
        secret: Option<&str>,
        request: &RequestHead<'_>,
        terms: &Terms<'_>,
        payload: PayloadMode,
        payload_line: Option<&str>,
    ) -> Result<Verified, Fault> {
        let claim = &self.claim;
        if let Some(why) = scope_error(claim, terms.region) {
            let message = format!("Error parsing the X-Amz-Credential parameter; {why}");
            return Err(Fault::because(Code::AuthorizationQueryParametersError, message)
                .with("Region", terms.region));
        }
        let begins = claim.signed_at.saturating_sub(Duration::seconds(SKEW_SECONDS_MAX));
        if terms.now < begins {
            return Err(Fault::because(Code::AccessDenied, "Request is not yet valid")
                .with("ServerTime", iso(terms.now)));
        }
        check_expiry(
            claim.signed_at.saturating_add(Duration::seconds(self.expires_seconds)),
            terms.now,
        )?;
        check_coverage(request.headers, &claim.signed_headers)?;
        let line = payload_line.unwrap_or("UNSIGNED-PAYLOAD");
        check_signature(claim, secret, request, line)?;
        if self.has_token || request.headers.contains_key("x-amz-security-token") {
            return Err(Code::InvalidToken.into());
        }
        Ok(Verified {
            access_key: Some(claim.access_key.clone()),
            kind: AuthKind::Query,
            payload,
            seed: None,
            hoisted: self.hoisted.clone(),
        })
    }
}

/// What is wrong with a scope, if anything.
fn scope_error(claim: &Claim, region: &str) -> Option<String> {
    let scope = &claim.scope;
    if claim.timestamp.get(..8) != Some(scope.date.as_str()) {
        Some(format!("the credential's date \"{}\" is not that of the request.", scope.date))
    } else if scope.region != region {
        Some(format!("the region '{}' is wrong; expecting '{region}'", scope.region))
    } else if scope.service != "s3" {
        Some(format!("incorrect service \"{}\". This endpoint belongs to \"s3\".", scope.service))
    } else if scope.terminator != "aws4_request" {
        Some(format!(
            "incorrect terminal \"{}\". This endpoint uses \"aws4_request\".",
            scope.terminator
        ))
    } else {
        None
    }
}

fn check_skew(signed_at: OffsetDateTime, now: OffsetDateTime) -> Result<(), Fault> {
    if (now - signed_at).abs() <= Duration::seconds(SKEW_SECONDS_MAX) {
        return Ok(());
    }
    Err(Fault::because(
        Code::RequestTimeTooSkewed,
        "The difference between the request time and the current time is too large.",
    )
    .with("RequestTime", iso(signed_at))
    .with("ServerTime", iso(now))
    .with("MaxAllowedSkewMilliseconds", (SKEW_SECONDS_MAX * 1000).to_string()))
}

/// Refuses a URL whose time is over.
pub(super) fn check_expiry(expires: OffsetDateTime, now: OffsetDateTime) -> Result<(), Fault> {
    if now <= expires {
        return Ok(());
    }
    Err(Fault::because(Code::AccessDenied, "Request has expired")
        .with("Expires", iso(expires))
        .with("ServerTime", iso(now)))
}

/// Every `x-amz-*` header that arrives is signed. One alone is exempt: the hash of the body, whose
/// value is a line of what is signed anyway.
fn check_coverage(headers: &HeaderMap, signed: &[String]) -> Result<(), Fault> {
    let unsigned: Vec<&str> = headers
        .keys()
        .map(http::HeaderName::as_str)
        .filter(|name| name.starts_with("x-amz-") && *name != "x-amz-content-sha256")
        .filter(|name| !signed.iter().any(|other| other == name))
        .collect();
    if unsigned.is_empty() {
        return Ok(());
    }
    Err(Fault::because(
        Code::AccessDenied,
        "There were headers present in the request which were not signed",
    )
    .with("HeadersNotSigned", unsigned.join(", ")))
}

/// Computes and compares, for a key that does not exist as for one that does.
fn check_signature(
    claim: &Claim,
    secret: Option<&str>,
    request: &RequestHead<'_>,
    payload_line: &str,
) -> Result<SigningKey, Fault> {
    let canonical = Canonical::new(request, claim, payload_line)?;
    let scope = &claim.scope;
    let key = SigningKey::derive(secret.unwrap_or(DUMMY_SECRET), &scope.date, &scope.region);
    let signed = canonical.is_signed(&key, &claim.signature);
    match (secret, signed) {
        (None, _) => Err(unknown_key(&claim.access_key)),
        (Some(_), false) => Err(canonical.mismatch(claim)),
        (Some(_), true) => Ok(key),
    }
}

pub(super) fn unknown_key(access_key: &str) -> Fault {
    Fault::because(
        Code::InvalidAccessKeyId,
        "The AWS Access Key Id you provided does not exist in our records.",
    )
    .with("AWSAccessKeyId", access_key)
}

fn content_sha256(headers: &HeaderMap) -> Result<Option<&str>, Fault> {
    let value = single(headers, "x-amz-content-sha256")?;
    value
        .map(std::str::from_utf8)
        .transpose()
        .map_err(|_| Fault::because(Code::InvalidRequest, "x-amz-content-sha256 is not text."))
}

/// What query and headers say of one body: neither may overrule what the other promised.
fn one_claim<'a>(
    query: Option<&'a str>,
    header: Option<&'a str>,
) -> Result<Option<&'a str>, Fault> {
    match (query, header) {
        (Some(query), Some(header)) if query != header => {
            let why = "x-amz-content-sha256 differs between the query and the headers.";
            Err(Fault::because(Code::InvalidRequest, why))
        }
        _ => Ok(query.or(header)),
    }
}

fn iso(time: OffsetDateTime) -> String {
    time.replace_nanosecond(0).unwrap_or(time).format(&Rfc3339).unwrap_or_default()
}
