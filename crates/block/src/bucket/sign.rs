//! Signatures of the requests for blocks.
//!
//! These requests have no query and at most two headers that are not in all of them, so the order
//! of their headers is known. The signing key of a day is derived once. For example, a gateway that
//! sends 1,000 requests per second derives one key per day. The clock is an argument.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use http::HeaderValue;
use http::header::InvalidHeaderValue;
use sigv4::{
    CanonicalRequest, CredentialScope, SigningKey, authorization, format_timestamp, string_to_sign,
};
use time::{Date, OffsetDateTime};

/// The signed parts of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Signable<'a> {
    pub(super) method: &'a str,
    /// Encoded as it is sent.
    pub(super) path: &'a str,
    pub(super) host: &'a str,
    /// A header that sorts behind `host` and before `x-amz-…`, with its value.
    pub(super) condition: Option<(&'a str, &'a str)>,
    /// A header that sorts behind `x-amz-date`, with its value.
    pub(super) metadata: Option<(&'a str, &'a str)>,
    /// The hash of the payload, as in `x-amz-content-sha256`.
    pub(super) payload: &'static str,
}

/// The headers that a signature adds to a request, in addition to the payload hash.
#[derive(Debug)]
pub(super) struct Signature {
    /// `x-amz-date`.
    pub(super) date: HeaderValue,
    /// `authorization`.
    pub(super) authorization: HeaderValue,
}

/// Signs requests with one access key, for one region and service.
pub(super) struct Signer {
    access_key: String,
    secret_key: String,
    region: String,
    service: String,
    today: Mutex<Arc<Day>>,
}

/// The signing key of a day.
struct Day {
    date: Date,
    scope: CredentialScope,
    key: SigningKey,
}

impl Signer {
    /// Creates a signer, with the key of the day of `at`.
    ///
    /// # Errors
    /// Fails if the access key or the region cannot be part of a header.
    pub(super) fn new(
        access_key: String,
        secret_key: String,
        region: String,
        service: String,
        at: SystemTime,
    ) -> Result<Signer, InvalidHeaderValue> {
        // Checked once here, so that signing cannot fail later.
        HeaderValue::from_str(&format!("{access_key}{region}{service}"))?;
        let day = Day::new(&secret_key, &region, &service, at);
        Ok(Signer { access_key, secret_key, region, service, today: Mutex::new(Arc::new(day)) })
    }

    /// Returns the signature of a request that is sent at `at`.
    ///
    /// # Errors
    /// Cannot fail, because `new` has checked the parts of the header.
    pub(super) fn sign(
        &self,
        request: Signable<'_>,
        at: SystemTime,
    ) -> Result<Signature, InvalidHeaderValue> {
        let day = self.day(at);
        let date = format_timestamp(at.into());
        let Signable { method, path, host, condition, metadata, payload } = request;
        // In the order in which AWS4-HMAC-SHA256 sorts them.
        let headers = [
            Some(("host", host)),
            condition,
            Some(("x-amz-content-sha256", payload)),
            Some(("x-amz-date", date.as_str())),
            metadata,
        ];
        let mut canonical = CanonicalRequest::builder(method, path, "");
        for (name, value) in headers.into_iter().flatten() {
            canonical.header(name, value.as_bytes());
        }
        let canonical = canonical.finish(payload);
        let signature = day.key.sign(&string_to_sign(&date, &day.scope, &canonical)).to_hex();
        let authorization =
            authorization(&self.access_key, &day.scope, canonical.signed_headers(), &signature);
        Ok(Signature {
            date: HeaderValue::try_from(date)?,
            authorization: HeaderValue::try_from(authorization)?,
        })
    }

    /// Returns the key of the day of `at`. Derives it if the day has changed.
    fn day(&self, at: SystemTime) -> Arc<Day> {
        let mut today = self.today.lock().unwrap_or_else(PoisonError::into_inner);
        // The key depends on the date of the request, not on the time of its derivation.
        if today.date != OffsetDateTime::from(at).date() {
            *today = Arc::new(Day::new(&self.secret_key, &self.region, &self.service, at));
        }
        Arc::clone(&today)
    }
}

impl Day {
    fn new(secret_key: &str, region: &str, service: &str, at: SystemTime) -> Day {
        let at = OffsetDateTime::from(at);
        let scope = CredentialScope::new(&format_timestamp(at)[..8], region, service);
        Day { date: at.date(), key: SigningKey::derive(secret_key, &scope), scope }
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer")
            .field("region", &self.region)
            .field("service", &self.service)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
