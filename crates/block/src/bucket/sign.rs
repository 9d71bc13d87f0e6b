//! The signatures of the requests for blocks.
//!
//! These requests are of one kind, without a query and with at most two headers that are not in all
//! of them, so what is signed can be written down in one go. The key of a day is derived once; both
//! the derivation and the signature are the SDK's own. The clock is the caller's.

use std::fmt;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use aws_sigv4::sign::v4::{calculate_signature, generate_signing_key};
use http::HeaderValue;
use http::header::InvalidHeaderValue;
use sha2::{Digest, Sha256};
use time::{Date, OffsetDateTime};

/// The payload hash of a request whose body is not signed.
pub(super) const UNSIGNED: &str = "UNSIGNED-PAYLOAD";

/// The payload hash of a request without a body.
pub(super) const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// What is signed of a request.
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
    /// The payload hash.
    pub(super) payload: &'static str,
}

/// What a signature adds to a request, besides its payload hash.
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

/// The key of a day.
struct Day {
    date: Date,
    /// The date as signatures write it.
    digits: String,
    scope: String,
    key: Vec<u8>,
}

impl Signer {
    /// A signer that begins with the day of `at`.
    ///
    /// # Errors
    /// If no request could carry this access key or region.
    pub(super) fn new(
        access_key: String,
        secret_key: String,
        region: String,
        service: String,
        at: SystemTime,
    ) -> Result<Signer, InvalidHeaderValue> {
        HeaderValue::from_str(&format!("{access_key}{region}{service}"))?;
        let day = Day::new(&secret_key, &region, &service, at);
        Ok(Signer { access_key, secret_key, region, service, today: Mutex::new(Arc::new(day)) })
    }

    /// The signature of a request that is sent at an instant.
    ///
    /// # Errors
    /// Never, as `new` has tried what goes into a header.
    pub(super) fn sign(
        &self,
        request: Signable<'_>,
        at: SystemTime,
    ) -> Result<Signature, InvalidHeaderValue> {
        let day = self.day(at);
        let now = OffsetDateTime::from(at);
        let date =
            format!("{}T{:02}{:02}{:02}Z", day.digits, now.hour(), now.minute(), now.second());
        let Signable { method, path, host, condition, metadata, payload } = request;
        let mut signed = String::with_capacity(96);
        let names = [
            Some("host"),
            condition.map(|(name, _)| name),
            Some("x-amz-content-sha256"),
            Some("x-amz-date"),
            metadata.map(|(name, _)| name),
        ];
        for name in names.into_iter().flatten() {
            signed.push_str(if signed.is_empty() { "" } else { ";" });
            signed.push_str(name);
        }
        let mut canonical = String::with_capacity(512);
        // Writing to a string cannot fail.
        let _ = write!(canonical, "{method}\n{path}\n\nhost:{host}\n");
        if let Some((name, value)) = condition {
            let _ = writeln!(canonical, "{name}:{value}");
        }
        let _ = write!(canonical, "x-amz-content-sha256:{payload}\nx-amz-date:{date}\n");
        if let Some((name, value)) = metadata {
            let _ = writeln!(canonical, "{name}:{value}");
        }
        let _ = write!(canonical, "\n{signed}\n{payload}");
        let hash = hex::encode(Sha256::digest(canonical.as_bytes()));
        let scope = &day.scope;
        let stated = [ALGORITHM, &date, scope, &hash].join("\n");
        let signature = calculate_signature(&day.key, stated.as_bytes());
        let authorization = [
            ALGORITHM,
            " Credential=",
            &self.access_key,
            "/",
            scope,
            ", SignedHeaders=",
            &signed,
            ", Signature=",
            &signature,
        ]
        .concat();
        Ok(Signature {
            date: HeaderValue::try_from(date)?,
            authorization: HeaderValue::try_from(authorization)?,
        })
    }

    /// The key of a day: the one at hand, or a new one that is at hand from now on.
    fn day(&self, at: SystemTime) -> Arc<Day> {
        let mut today = self.today.lock().unwrap_or_else(PoisonError::into_inner);
        if today.date != OffsetDateTime::from(at).date() {
            *today = Arc::new(Day::new(&self.secret_key, &self.region, &self.service, at));
        }
        Arc::clone(&today)
    }
}

impl Day {
    fn new(secret_key: &str, region: &str, service: &str, at: SystemTime) -> Day {
        let date = OffsetDateTime::from(at).date();
        let key = generate_signing_key(secret_key, at, region, service).as_ref().to_vec();
        let digits = format!("{:04}{:02}{:02}", date.year(), u8::from(date.month()), date.day());
        Day { date, scope: format!("{digits}/{region}/{service}/aws4_request"), digits, key }
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
