//! The metrics for Prometheus at the S3 endpoint, with a token as `mc admin prometheus generate`
//! makes it.
//!
//! The token is a JSON Web Token that the client signs with the secret of its access key. For
//! example, a token of `anna` gets the metrics if a policy of `anna` allows `admin:Prometheus`. It
//! ends when `anna` is disabled or gets another secret, whatever expiry it names itself.

use adminapi::{Actor, ApiError};
use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::StatusCode;
use http::header::AUTHORIZATION;
use http::request::Parts;
use identity::{Access, Authenticated};
use policy::AdminAction;
use s3::auth::Verified;
use serde::Deserialize;
use time::OffsetDateTime;

use crate::minio_admin::MinioAdmin;

/// The content type of the metrics.
pub(crate) const CONTENT_TYPE_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The limit of a token in bytes. A longer text is refused before any work.
const TOKEN_BYTES_MAX: usize = 2_048;

/// The head of a token.
#[derive(Debug, Deserialize)]
struct TokenHead {
    alg: String,
}

/// The claims of a token. MinIO's clients send the access key under one of two names.
#[derive(Debug, Deserialize)]
struct Claims {
    sub: Option<String>,
    #[serde(rename = "accessKey")]
    access_key: Option<String>,
    exp: Option<i64>,
}

/// Returns the owner of the token of a request. Fails with `Unauthenticated`; the text does not
/// reveal whether the access key exists.
pub(crate) fn authenticate(
    access: &Access,
    head: &Parts,
    now: OffsetDateTime,
) -> Result<Authenticated, ApiError> {
    let header = head.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let (scheme, token) = header.and_then(|value| value.split_once(' ')).ok_or_else(refused)?;
    if !scheme.eq_ignore_ascii_case("bearer") || token.len() > TOKEN_BYTES_MAX {
        return Err(refused());
    }
    let (signed, signature) = token.rsplit_once('.').ok_or_else(refused)?;
    let (head, claims) = signed.split_once('.').ok_or_else(refused)?;
    let head: TokenHead = parsed(head)?;
    let claims: Claims = parsed(claims)?;
    let algorithm = match head.alg.as_str() {
        "HS512" => hmac::HMAC_SHA512,
        "HS384" => hmac::HMAC_SHA384,
        "HS256" => hmac::HMAC_SHA256,
        _ => return Err(refused()),
    };
    let name = claims.sub.or(claims.access_key).ok_or_else(refused)?;
    let identity = access.lookup(&name, now).ok_or_else(refused)?;
    let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| refused())?;
    let key = hmac::Key::new(algorithm, identity.secret.expose().as_bytes());
    // Compares in constant time.
    hmac::verify(&key, signed.as_bytes(), &signature).map_err(|_| refused())?;
    if claims.exp.is_some_and(|end| end <= now.unix_timestamp()) {
        return Err(refused());
    }
    let verified = Verified::without_signature(identity.signing_key.clone(), now);
    Ok(Authenticated { verified, identity: Some(identity) })
}

fn parsed<T: for<'a> Deserialize<'a>>(part: &str) -> Result<T, ApiError> {
    let bytes = URL_SAFE_NO_PAD.decode(part).map_err(|_| refused())?;
    serde_json::from_slice(&bytes).map_err(|_| refused())
}

fn refused() -> ApiError {
    ApiError::unauthenticated(
        "The token is not valid. Make one with `mc admin prometheus generate`.",
    )
}

impl MinioAdmin {
    /// Returns the metrics of this process. Fails with `AccessDenied` without `admin:Prometheus`.
    pub(crate) async fn metrics(&self, actor: &Actor<'_>) -> Result<String, ApiError> {
        if !actor.may(AdminAction::Prometheus, None) {
            return Err(ApiError::denied(AdminAction::Prometheus.name()));
        }
        (self.parts.metrics)().await.map_err(|error| {
            tracing::error!(%error, "cannot write the metrics");
            let why = "The metrics cannot be written.";
            ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", why)
        })
    }
}

#[cfg(test)]
mod tests;
