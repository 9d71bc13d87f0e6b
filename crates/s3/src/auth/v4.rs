//! SigV4: verifies that a signature was made with the access key that it names, for this request,
//! and that it is valid now.

use http::HeaderMap;
use sigv4::{SigningKey, UNSIGNED_PAYLOAD};
use time::Duration;

use super::canonical::Canonical;
use super::head::RequestHead;
use super::header::{Claim, HeaderSignature};
use super::kind::AuthKind;
use super::payload::PayloadMode;
use super::presigned::PresignedV4;
use super::terms::{SKEW_SECONDS_MAX, Terms, check_expiry, check_skew, iso};
use super::unknown_key::{DUMMY_SECRET, unknown_key};
use super::verified::{ChunkSeed, Verified};
use crate::{Code, Fault};

impl HeaderSignature {
    pub(super) fn verify(
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
            scope: claim.scope.clone(),
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
    pub(super) fn verify(
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
        let line = payload_line.unwrap_or(UNSIGNED_PAYLOAD);
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
    if claim.timestamp.get(..8) != Some(scope.date()) {
        Some(format!("the credential's date \"{}\" is not that of the request.", scope.date()))
    } else if scope.region() != region {
        Some(format!("the region '{}' is wrong; expecting '{region}'", scope.region()))
    } else if scope.service() != "s3" {
        Some(format!("incorrect service \"{}\". This endpoint belongs to \"s3\".", scope.service()))
    } else if !scope.is_terminated() {
        let terminal = scope.terminator();
        Some(format!("incorrect terminal \"{terminal}\". This endpoint uses \"aws4_request\"."))
    } else {
        None
    }
}

/// Checks that every `x-amz-*` header is signed. The hash of the body is exempt, because the
/// canonical request has it as its last line anyway.
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

/// Verifies a signature. The same work is done if the access key does not exist, so that the time
/// does not tell which keys exist.
fn check_signature(
    claim: &Claim,
    secret: Option<&str>,
    request: &RequestHead<'_>,
    payload_line: &str,
) -> Result<SigningKey, Fault> {
    let canonical = Canonical::new(request, claim, payload_line)?;
    let key = SigningKey::derive(secret.unwrap_or(DUMMY_SECRET), &claim.scope);
    let signed = canonical.is_signed(&key, &claim.signature);
    match (secret, signed) {
        (None, _) => Err(unknown_key(&claim.access_key)),
        (Some(_), false) => Err(canonical.mismatch(claim)),
        (Some(_), true) => Ok(key),
    }
}
