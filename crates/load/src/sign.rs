//! Signature version 4, in the `Authorization` header.
//!
//! Of a request, its host, its time and the SHA-256 of its body are signed, and a session token
//! where there is one. The key of a day is derived once; a signature then costs two hashes.

use hmac::{Hmac, KeyInit as _, Mac as _};
use http::HeaderMap;
use http::header::{AUTHORIZATION, HOST, HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;

use crate::Trouble;

/// What stands for the hash of a body that is not signed.
pub(crate) const UNSIGNED: &str = "UNSIGNED-PAYLOAD";

/// Everything but what a signature leaves as it is.
const QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
const PATH: &AsciiSet = &QUERY.remove(b'/');

const AMZ_DATE: HeaderName = HeaderName::from_static("x-amz-date");
const AMZ_SHA256: HeaderName = HeaderName::from_static("x-amz-content-sha256");
const AMZ_TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");

/// Who asks.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyPair {
    /// The access key.
    pub access_key: String,
    /// Its secret.
    pub secret_key: String,
    /// What temporary credentials have besides.
    pub session_token: Option<String>,
}

impl std::fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyPair").field("access_key", &self.access_key).finish_non_exhaustive()
    }
}

/// A request as far as it is signed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signable<'a> {
    pub(crate) method: &'a str,
    /// Percent-encoded.
    pub(crate) path: &'a str,
    /// Percent-encoded and sorted, without the question mark.
    pub(crate) query: &'a str,
    /// The SHA-256 of the body in hexadecimal, or [`UNSIGNED`].
    pub(crate) content: &'a str,
}

/// Signs for one host.
#[derive(Clone)]
pub(crate) struct Signer {
    credentials: KeyPair,
    region: String,
    host: HeaderValue,
    day: Option<Day>,
}

/// What signatures of one day share, and of one second.
#[derive(Clone)]
struct Day {
    date: time::Date,
    scope: String,
    key: Hmac<Sha256>,
    second: i64,
    stamp: String,
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Signer").field("host", &self.host).finish_non_exhaustive()
    }
}

impl Signer {
    /// `host` as it stands in requests, with its port unless that is the scheme's own.
    pub(crate) fn new(credentials: KeyPair, region: &str, host: &str) -> Result<Self, Trouble> {
        let host = HeaderValue::from_str(host).map_err(|_| Trouble::Endpoint(host.to_owned()))?;
        Ok(Self { credentials, region: region.to_owned(), host, day: None })
    }

    /// The headers of a request: what is signed, and the signature.
    pub(crate) fn headers(
        &mut self,
        request: Signable<'_>,
        now: OffsetDateTime,
    ) -> Result<HeaderMap, Trouble> {
        let bad = |_| Trouble::Credentials;
        self.move_to(now);
        let day = self.day.as_ref().expect("the day was just set");
        let host = self.host.to_str().map_err(|_| Trouble::Credentials)?;
        let token = self.credentials.session_token.as_deref();
        let names = match token {
            Some(_) => "host;x-amz-content-sha256;x-amz-date;x-amz-security-token",
            None => "host;x-amz-content-sha256;x-amz-date",
        };
        let Signable { method, path, query, content } = request;
        let mut hash = Sha256::new();
        for part in [method, "\n", path, "\n", query, "\nhost:", host, "\n"] {
            hash.update(part);
        }
        for part in ["x-amz-content-sha256:", content, "\nx-amz-date:", &day.stamp, "\n"] {
            hash.update(part);
        }
        for part in token.map(|token| ["x-amz-security-token:", token, "\n"]).iter().flatten() {
            hash.update(part);
        }
        for part in ["\n", names, "\n", content] {
            hash.update(part);
        }
        let canonical = hex::encode(hash.finalize());
        let mut mac = day.key.clone();
        for part in ["AWS4-HMAC-SHA256\n", &day.stamp, "\n", &day.scope, "\n", &canonical] {
            mac.update(part.as_bytes());
        }
        let signature = hex::encode(mac.finalize().into_bytes());
        let authorization = format!(
            "AWS4-HMAC-SHA256 Credential={}/{}, SignedHeaders={names}, Signature={signature}",
            self.credentials.access_key, day.scope
        );
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

    /// Derives what depends on the day, if it is another one, and writes the time.
    fn move_to(&mut self, now: OffsetDateTime) {
        let date = now.date();
        let second = now.unix_timestamp();
        if let Some(day) = &mut self.day
            && day.date == date
        {
            if day.second != second {
                (day.second, day.stamp) = (second, stamp(now));
            }
            return;
        }
        let words = format!("{:04}{:02}{:02}", date.year(), u8::from(date.month()), date.day());
        let first = format!("AWS4{}", self.credentials.secret_key);
        let steps = [words.as_str(), &self.region, "s3", "aws4_request"];
        let key = steps.iter().fold(first.into_bytes(), |key, step| {
            let mut mac = keyed(&key);
            mac.update(step.as_bytes());
            mac.finalize().into_bytes().to_vec()
        });
        let scope = format!("{words}/{}/s3/aws4_request", self.region);
        self.day = Some(Day { date, scope, key: keyed(&key), second, stamp: stamp(now) });
    }
}

fn keyed(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("a key may have any length")
}

/// `20130524T000000Z`.
fn stamp(now: OffsetDateTime) -> String {
    let (date, (hour, minute, second)) = (now.date(), now.to_hms());
    let (year, month, day) = (date.year(), u8::from(date.month()), date.day());
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

/// The path of a key, or of a bucket, as it is signed and sent.
pub(crate) fn encode_path(path: &str) -> String {
    utf8_percent_encode(path, PATH).to_string()
}

/// A parameter's value.
pub(crate) fn encode_query(value: &str) -> String {
    utf8_percent_encode(value, QUERY).to_string()
}

/// The SHA-256 of a body, in hexadecimal.
pub(crate) fn sha256(body: &[u8]) -> String {
    hex::encode(Sha256::digest(body))
}

#[cfg(test)]
mod tests;
