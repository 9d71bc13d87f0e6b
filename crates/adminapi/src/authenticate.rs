//! The authentication of a request by a signature of SigV4, or by a bearer token.
//!
//! The credential scope names the service `ashlar`, not `s3`, so a signature for one of the two
//! endpoints has no use at the other one. The signature covers the hash of the body. For example,
//! `curl --aws-sigv4 aws:amz:us-east-1:ashlar --user KEY:SECRET` signs such requests.

use std::sync::Arc;

use http::HeaderValue;
use http::header::AUTHORIZATION;
use http::request::Parts;
use identity::{AcceptedSignatures, Authenticated, BearerError};
use s3::auth::{AuthKind, Credentials, PayloadMode, RequestHead, Verified};
use sha2::{Digest, Sha256};

use crate::{AdminApi, ApiError, SenderProof};

/// The service in the credential scope.
pub const SERVICE: &str = "ashlar";

const HASH: &str = "x-amz-content-sha256";

impl AdminApi {
    /// Returns the sender of a request with this body.
    ///
    /// # Errors
    /// `Unauthenticated` for an anonymous or presigned request, and the errors of S3 for a wrong
    /// signature or an unknown access key.
    pub(crate) fn authenticate(
        &self,
        head: &Parts,
        body: &[u8],
    ) -> Result<Authenticated, ApiError> {
        let now = rules::time(self.volume.now());
        if let Some(token) = bearer(head) {
            let bearer = self.access.token(token, now);
            let bearer = bearer.map_err(|error| ApiError::unauthenticated(sentence(error)))?;
            let identity = Arc::clone(&bearer.identity);
            let verified = Verified::without_signature(identity.signing_key.clone(), now);
            return Ok(Authenticated { verified, identity: Some(identity) });
        }
        let hash: [u8; 32] = Sha256::digest(body).into();
        let mut headers = head.headers.clone();
        // Clients of services other than S3 do not send the hash; the signature covers it anyway.
        if !headers.contains_key(HASH) {
            let value = HeaderValue::from_str(&hex::encode(hash));
            headers.insert(HASH, value.map_err(|_| s3::Code::InternalError)?);
        }
        // Signers escape the path a second time for all services except S3.
        let path = head.uri.path().replace('%', "%25");
        let request = RequestHead {
            method: &head.method,
            path: &path,
            query: head.uri.query().unwrap_or_default(),
            headers: &headers,
            authority: head.uri.authority().map(http::uri::Authority::as_str),
            host_bucket: None,
        };
        let credentials = Credentials::parse(&request)?;
        if matches!(credentials, Credentials::Anonymous) {
            let why = "The request has no credentials. Sign it with SigV4 for the service \"ashlar\", or \
                       send a token.";
            return Err(ApiError::unauthenticated(why));
        }
        let accepted = AcceptedSignatures::sigv4(&self.facts.region, SERVICE, now);
        let authenticated = self.access.authenticate(&credentials, &request, &accepted)?;
        let verified = &authenticated.verified;
        if verified.kind() != AuthKind::Header {
            return Err(ApiError::unauthenticated("The API accepts no presigned requests."));
        }
        // The body is part of the change that the sender wants, so its hash must be signed.
        match verified.payload() {
            PayloadMode::Hashed(signed) if signed == hash => {
                let identity = authenticated.identity;
                let access_key = verified.access_key().unwrap_or_default();
                // The signature is for this request. The requests of S3 that carry it out have
                // bodies of their own.
                let signed_at = verified.signed_at().unwrap_or(now);
                let verified = Verified::without_signature(access_key, signed_at);
                Ok(Authenticated { verified, identity })
            }
            PayloadMode::Hashed(_) => Err(s3::Code::XAmzContentSHA256Mismatch.into()),
            PayloadMode::Unsigned
            | PayloadMode::SignedChunks { .. }
            | PayloadMode::UnsignedTrailer => {
                Err(ApiError::unauthenticated("The signature does not cover the body."))
            }
        }
    }
}

/// Returns the text of a bearer token, if the request has one.
fn bearer(head: &Parts) -> Option<&str> {
    let value = head.headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

/// Returns the kind of the proof of an authenticated request.
pub(crate) fn proof(head: &Parts) -> SenderProof {
    if bearer(head).is_some() { SenderProof::Token } else { SenderProof::Signature }
}

fn sentence(error: BearerError) -> &'static str {
    match error {
        BearerError::Invalid => "The token is not valid.",
        BearerError::Expired => "The token has expired.",
    }
}
