//! Signatures of version 4 in the `Authorization` header.
//!
//! The signed headers are the host, the time, the hash of the body, and the session token if there
//! is one. The signing key is derived once per day, so a signature costs one SHA-256 and one HMAC.
//! For example, a run over midnight UTC derives two keys.

use http::HeaderMap;
use http::header::{AUTHORIZATION, HOST, HeaderName, HeaderValue};
use sigv4::{
    CanonicalRequest, CredentialScope, SigningKey, authorization, format_timestamp, string_to_sign,
};
use time::OffsetDateTime;

use crate::Trouble;

const AMZ_DATE: HeaderName = HeaderName::from_static("x-amz-date");
const AMZ_SHA256: HeaderName = HeaderName::from_static("x-amz-content-sha256");
const AMZ_TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");

/// The credentials of a client.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyPair {
    /// The access key.
    pub access_key: String,
    /// The secret key.
    pub secret_key: String,
    /// The session token of temporary credentials; `None` for other credentials.
    pub session_token: Option<String>,
}

impl std::fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyPair").field("access_key", &self.access_key).finish_non_exhaustive()
    }
}

/// The parts of a request that its signature covers, in addition to the headers that all requests
/// have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signable<'a> {
    pub(crate) method: &'a str,
    /// The path, percent-encoded.
    pub(crate) path: &'a str,
    /// The query, percent-encoded and sorted, without the question mark.
    pub(crate) query: &'a str,
    /// The SHA-256 of the body in hexadecimal, or [`UNSIGNED_PAYLOAD`](sigv4::UNSIGNED_PAYLOAD).
    pub(crate) content: &'a str,
}

/// The signer of requests to one host.
#[derive(Clone)]
pub(crate) struct Signer {
    credentials: KeyPair,
    region: String,
    host: HeaderValue,
    day: Option<Day>,
}

/// The values that signatures share: the signing key of a day, and the text of the current second.
#[derive(Clone)]
struct Day {
    date: time::Date,
    scope: CredentialScope,
    key: SigningKey,
    second: i64,
    stamp: String,
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Signer").field("host", &self.host).finish_non_exhaustive()
    }
}

impl Signer {
    /// Creates a signer. `host` is the value of the `Host` header, with the port unless it is the
    /// default of the scheme.
    pub(crate) fn new(credentials: KeyPair, region: &str, host: &str) -> Result<Self, Trouble> {
        let host = HeaderValue::from_str(host).map_err(|_| Trouble::Endpoint(host.to_owned()))?;
        Ok(Self { credentials, region: region.to_owned(), host, day: None })
    }

    /// Returns the signed headers of a request and the signature.
    pub(crate) fn headers(
        &mut self,
        request: Signable<'_>,
        now: OffsetDateTime,
    ) -> Result<HeaderMap, Trouble> {
        let bad = |_| Trouble::Credentials;
        // The key of the day may have changed since the last request.
        self.move_to(now);
        let day = self.day.as_ref().expect("the day was just set");
        let token = self.credentials.session_token.as_deref();
        let Signable { method, path, query, content } = request;
        let mut canonical = CanonicalRequest::builder(method, path, query);
        canonical.header("host", self.host.as_bytes());
        canonical.header("x-amz-content-sha256", content.as_bytes());
        canonical.header("x-amz-date", day.stamp.as_bytes());
        if let Some(token) = token {
            canonical.header("x-amz-security-token", token.as_bytes());
        }
        let canonical = canonical.finish(content);
        let text = string_to_sign(&day.stamp, &day.scope, &canonical);
        let signature = day.key.sign(&text).to_hex();
        let access_key = &self.credentials.access_key;
        let authorization =
            authorization(access_key, &day.scope, canonical.signed_headers(), &signature);
        let mut headers = HeaderMap::with_capacity(8);
        headers.insert(HOST, self.host.clone());
        headers.insert(AMZ_SHA256, HeaderValue::from_str(content).map_err(bad)?);
        headers.insert(AMZ_DATE, HeaderValue::from_str(&day.stamp).map_err(bad)?);
        if let Some(token) = token {
            headers.insert(AMZ_TOKEN, HeaderValue::from_str(token).map_err(bad)?);
        }
        headers.insert(AUTHORIZATION, HeaderValue::from_str(&authorization).map_err(bad)?);
        Ok(headers)
    }

    /// Derives the key of the day if the day has changed, and formats the time.
    fn move_to(&mut self, now: OffsetDateTime) {
        let date = now.date();
        let second = now.unix_timestamp();
        if let Some(day) = &mut self.day
            && day.date == date
        {
            if day.second != second {
                (day.second, day.stamp) = (second, format_timestamp(now));
            }
            return;
        }
        let stamp = format_timestamp(now);
        let scope = CredentialScope::new(&stamp[..8], &self.region, "s3");
        let key = SigningKey::derive(&self.credentials.secret_key, &scope);
        self.day = Some(Day { date, scope, key, second, stamp });
    }
}

#[cfg(test)]
mod tests;
