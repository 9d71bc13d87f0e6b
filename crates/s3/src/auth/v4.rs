//! SigV4 verification: it checks that the signature covers this request, was made with the secret
//! of the access key, and is valid at the current time.

use http::header::CONTENT_LENGTH;
use http::{HeaderMap, HeaderValue, Method};
use sigv4::{EMPTY_SHA256, SigningKey, UNSIGNED_PAYLOAD, parse_timestamp};
use time::Duration;

use super::canonical::Canonical;
use super::head::RequestHead;
use super::header::{CREDENTIAL_FORM, Claim, HeaderSignature, SignedHeaders, malformed};
use super::kind::AuthKind;
use super::payload::PayloadMode;
use super::presigned::PresignedV4;
use super::signature_rules::{
    SKEW_SECONDS_MAX, SignatureRules, check_expiry, check_skew, format_rfc3339,
};
use super::token::SESSION_TOKEN;
use super::unknown_key::{DUMMY_SECRET, unknown_key};
use super::verified::{ChunkSeed, Verified};
use crate::{Code, Fault};

impl HeaderSignature {
    /// Verifies a signature in the `Authorization` header. `payload_line` is the last line of the
    /// canonical request.
    pub(super) fn verify(
        &self,
        secret: Option<&str>,
        request: &RequestHead<'_>,
        rules: &SignatureRules<'_>,
        payload: PayloadMode,
        payload_line: Option<&str>,
    ) -> Result<Verified, Fault> {
        let claim = &self.claim;
        if let Some(why) = scope_error(claim, rules).or_else(|| date_error(claim)) {
            return Err(with_region(malformed(&why), claim, rules.region));
        }
        // The checks without cryptography come first. None of them depends on the access key.
        check_skew(claim.signed_at, rules.now)?;
        check_signed_headers(request.headers, &claim.signed_headers)?;
        let line = payload_line.unwrap_or_default();
        let has_token = request.headers.contains_key(SESSION_TOKEN);
        let key = check_signature(claim, secret, request, line, has_token && !rules.has_session)?;
        check_empty_body_hash(request, payload)?;
        // Only a chunked body needs the signing key after the verification.
        let seed = matches!(payload, PayloadMode::SignedChunks { .. }).then(|| ChunkSeed {
            key,
            timestamp: claim.timestamp.clone(),
            scope: claim.scope.clone(),
            signature: claim.signature.clone(),
        });
        Ok(Verified {
            access_key: Some(claim.access_key.clone()),
            kind: AuthKind::Header,
            payload,
            seed,
            hoisted: Vec::new(),
            signed_at: Some(claim.signed_at),
        })
    }
}

impl PresignedV4 {
    /// Verifies a presigned URL. `payload_line` is the last line of the canonical request; by
    /// default the body is unsigned.
    pub(super) fn verify(
        &self,
        secret: Option<&str>,
        request: &RequestHead<'_>,
        rules: &SignatureRules<'_>,
        payload: PayloadMode,
        payload_line: Option<&str>,
    ) -> Result<Verified, Fault> {
        let claim = &self.claim;
        if let Some(why) = scope_error(claim, rules) {
            let message = format!("Error parsing the X-Amz-Credential parameter; {why}");
            let fault = Fault::because(Code::AuthorizationQueryParametersError, message);
            return Err(with_region(fault, claim, rules.region));
        }
        if let Some(why) = date_error(claim) {
            return Err(Fault::because(Code::AuthorizationQueryParametersError, why));
        }
        // The client's clock may be ahead of the gateway's, so the URL is already valid some
        // minutes before its time.
        let valid_from = claim.signed_at.saturating_sub(Duration::seconds(SKEW_SECONDS_MAX));
        if rules.now < valid_from {
            return Err(Fault::because(Code::AccessDenied, "Request is not valid yet.")
                .with("ServerTime", format_rfc3339(rules.now)));
        }
        check_expiry(
            claim.signed_at.saturating_add(Duration::seconds(self.expires_seconds)),
            rules.now,
        )
        .map_err(|fault| fault.with("X-Amz-Expires", self.expires_seconds.to_string()))?;
        check_signed_headers(request.headers, &claim.signed_headers)?;
        let line = payload_line.unwrap_or(UNSIGNED_PAYLOAD);
        let has_token = self.token.is_some() || request.headers.contains_key(SESSION_TOKEN);
        check_signature(claim, secret, request, line, has_token && !rules.has_session)?;
        Ok(Verified {
            access_key: Some(claim.access_key.clone()),
            kind: AuthKind::Query,
            payload,
            seed: None,
            hoisted: self.hoisted.clone(),
            signed_at: Some(claim.signed_at),
        })
    }
}

/// Returns the error message for a wrong credential scope; `None` if it is correct.
fn scope_error(claim: &Claim, rules: &SignatureRules<'_>) -> Option<String> {
    let (scope, service) = (&claim.scope, rules.service);
    let date = scope.date();
    let region = rules.region;
    // If both parts are wrong, S3 reports a malformed credential.
    if scope.service() != service && !scope.is_terminated() {
        Some(format!("the Credential is mal-formed; expecting \"{CREDENTIAL_FORM}\"."))
    } else if scope.service() != service {
        Some(format!(
            "incorrect service \"{}\". This endpoint belongs to \"{service}\".",
            scope.service()
        ))
    } else if !scope.is_terminated() {
        let terminal = scope.terminator();
        Some(format!("incorrect terminal \"{terminal}\". This endpoint uses \"aws4_request\"."))
    } else if !is_date(date, claim) {
        Some(format!(
            "incorrect date format \"{date}\". This date in the credential must be in the format \
             \"yyyyMMdd\"."
        ))
    } else if scope.region() != region {
        Some(format!("the region \"{}\" is wrong; expecting \"{region}\"", scope.region()))
    } else {
        None
    }
}

/// Returns true if the date of a scope is a date, in the form `YYYYMMDD`.
fn is_date(date: &str, claim: &Claim) -> bool {
    // Usually it is the date of the request's time, which was parsed before.
    claim.timestamp.get(..8) == Some(date) || parse_timestamp(&format!("{date}T000000Z")).is_some()
}

/// Adds the gateway's region to a fault that a wrong region caused. Some clients sign again with
/// this region.
fn with_region(fault: Fault, claim: &Claim, region: &str) -> Fault {
    let scope = &claim.scope;
    let is_ours = scope.service() == "s3" && scope.is_terminated();
    if is_ours && scope.region() != region { fault.with("Region", region) } else { fault }
}

/// Returns the error message if the date of the scope is not the date of the request.
fn date_error(claim: &Claim) -> Option<String> {
    let (date, day) = (claim.scope.date(), claim.timestamp.get(..8).unwrap_or_default());
    (date != day).then(|| {
        format!(
            "Invalid credential date \"{date}\". This date is not the same as X-Amz-Date: \"{day}\"."
        )
    })
}

/// Checks that each `x-amz-*` header is signed. The hash of the body is exempt, because it is the
/// last line of the canonical request.
fn check_signed_headers(headers: &HeaderMap, signed: &SignedHeaders) -> Result<(), Fault> {
    let unsigned: Vec<&str> = headers
        .keys()
        .map(http::HeaderName::as_str)
        .filter(|name| name.starts_with("x-amz-") && *name != "x-amz-content-sha256")
        .filter(|name| !signed.names().any(|other| other == *name))
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

/// Refuses a request with `Content-Length: 0` whose body hash is not the hash of an empty body.
/// This needs no body and no metadata, so it is checked early.
fn check_empty_body_hash(request: &RequestHead<'_>, payload: PayloadMode) -> Result<(), Fault> {
    let PayloadMode::Hashed(hash) = payload else { return Ok(()) };
    let writes = [Method::PUT, Method::POST].contains(request.method);
    let length = request.headers.get(CONTENT_LENGTH).map(HeaderValue::as_bytes);
    if !writes || length != Some(b"0") {
        return Ok(());
    }
    let sent = hex::encode(hash);
    if sent == EMPTY_SHA256 {
        return Ok(());
    }
    Err(Fault::new(Code::XAmzContentSHA256Mismatch)
        .with("ClientComputedContentSHA256", sent)
        .with("S3ComputedContentSHA256", EMPTY_SHA256))
}

/// Verifies a signature. If the access key does not exist, the same work is done, so that the
/// duration does not reveal which keys exist.
///
/// `has_foreign_token` is true if the request has a session token although the access key does not
/// belong to a session. Then the fault is `InvalidToken`, even if the token was added after
/// signing.
fn check_signature(
    claim: &Claim,
    secret: Option<&str>,
    request: &RequestHead<'_>,
    payload_line: &str,
    has_foreign_token: bool,
) -> Result<SigningKey, Fault> {
    let canonical = Canonical::new(request, claim, payload_line)?;
    let key = SigningKey::derive(secret.unwrap_or(DUMMY_SECRET), &claim.scope);
    let signed = canonical.is_signed(&key, &claim.signature);
    // The result is decided only here, after the signature was computed for known and unknown keys.
    match (secret, signed) {
        (None, _) => Err(unknown_key(&claim.access_key)),
        (Some(_), _) if has_foreign_token => Err(Code::InvalidToken.into()),
        (Some(_), false) => Err(canonical.mismatch(claim)),
        (Some(_), true) => Ok(key),
    }
}
