//! Requests as a client sends them, signed by the AWS SDK's own signer.

use std::time::{Duration, UNIX_EPOCH};

use aws_credential_types::Credentials as AwsCredentials;
use aws_sigv4::http_request::{
    PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SignatureLocation,
    SigningSettings, UriPathNormalizationMode, sign,
};
use aws_sigv4::sign::v4;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use time::OffsetDateTime;

use crate::Fault;
use crate::auth::{Credentials, RequestHead, SignatureRules, Verified};

pub(crate) const KEY: &str = "AKIAIOSFODNN7EXAMPLE";
pub(crate) const SECRET: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";

/// 24 May 2013, 00:00:00 UTC: the day of AWS's examples.
pub(crate) const DAY: i64 = 1_369_353_600;

/// A request on the wire.
#[derive(Clone, Debug)]
pub(crate) struct SentRequest {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) headers: HeaderMap,
    pub(crate) authority: Option<String>,
    pub(crate) host_bucket: Option<String>,
}

impl SentRequest {
    pub(crate) fn new(method: &str, target: &str, headers: &[(&str, &str)]) -> SentRequest {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut sent = SentRequest {
            method: method.parse().unwrap(),
            path: path.to_owned(),
            query: query.to_owned(),
            headers: HeaderMap::new(),
            authority: None,
            host_bucket: None,
        };
        for (name, value) in headers {
            sent = sent.with(name, value);
        }
        sent
    }

    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: &str) -> SentRequest {
        let name: HeaderName = name.parse().unwrap();
        self.headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        self
    }

    #[must_use]
    pub(crate) fn without(mut self, name: &str) -> SentRequest {
        self.headers.remove(name);
        self
    }

    /// Replaces text in the query or in one header.
    #[must_use]
    pub(crate) fn tampered(mut self, from: &str, to: &str) -> SentRequest {
        let mut found = self.query.contains(from);
        self.query = self.query.replace(from, to);
        for value in self.headers.values_mut() {
            let text = String::from_utf8(value.as_bytes().to_vec()).unwrap();
            if text.contains(from) {
                found = true;
                *value = text.replace(from, to).parse().unwrap();
            }
        }
        assert!(found, "{from} is not in the request");
        self
    }

    pub(crate) fn head(&self) -> RequestHead<'_> {
        RequestHead {
            method: &self.method,
            path: &self.path,
            query: &self.query,
            headers: &self.headers,
            authority: self.authority.as_deref(),
            host_bucket: self.host_bucket.as_deref(),
        }
    }

    /// Signs the headers, including `x-amz-content-sha256`.
    #[must_use]
    pub(crate) fn signed(self) -> SentRequest {
        self.sign_with(None)
    }

    /// Signs as a presigned URL.
    #[must_use]
    pub(crate) fn presigned(self, seconds: u64) -> SentRequest {
        self.sign_with(Some(seconds))
    }

    fn sign_with(mut self, expires: Option<u64>) -> SentRequest {
        let mut settings = SigningSettings::default();
        settings.percent_encoding_mode = PercentEncodingMode::Single;
        settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
        if let Some(seconds) = expires {
            settings.signature_location = SignatureLocation::QueryParams;
            settings.expires_in = Some(Duration::from_secs(seconds));
        } else {
            settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
        }
        let identity = AwsCredentials::new(KEY, SECRET, None, None, "tests").into();
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region("us-east-1")
            .name("s3")
            .time(UNIX_EPOCH + Duration::from_secs(DAY.unsigned_abs()))
            .settings(settings)
            .build()
            .unwrap()
            .into();
        let payload = self.headers.remove("x-amz-content-sha256");
        let payload = payload
            .map_or("UNSIGNED-PAYLOAD".to_owned(), |value| value.to_str().unwrap().to_owned());
        let host = self.headers.get("host").map_or("localhost", |host| host.to_str().unwrap());
        let uri = if self.query.is_empty() {
            format!("https://{host}{}", self.path)
        } else {
            format!("https://{host}{}?{}", self.path, self.query)
        };
        let headers: Vec<(String, String)> = self
            .headers
            .iter()
            .map(|(name, value)| {
                (name.to_string(), String::from_utf8(value.as_bytes().to_vec()).unwrap())
            })
            .collect();
        let headers = headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let body = SignableBody::Precomputed(payload);
        let request =
            SignableRequest::new(self.method.as_str(), uri.as_str(), headers, body).unwrap();
        let (instructions, _) = sign(request, &params).unwrap().into_parts();
        for (name, value) in instructions.headers() {
            let name: HeaderName = name.parse().unwrap();
            self.headers.insert(name, value.parse().unwrap());
        }
        for (name, value) in instructions.params() {
            if !self.query.is_empty() {
                self.query.push('&');
            }
            let value =
                percent_encoding::utf8_percent_encode(value, percent_encoding::NON_ALPHANUMERIC);
            self.query.extend([name, "=", &value.to_string()]);
        }
        self
    }

    pub(crate) fn verify_on(&self, rules: &SignatureRules<'_>) -> Result<Verified, Fault> {
        let head = self.head();
        let credentials = Credentials::parse(&head)?;
        let secret = credentials.access_key().filter(|key| *key == KEY).map(|_| SECRET);
        credentials.verify(secret, &head, rules)
    }

    /// Verifies at the time of signing, with streams and SigV2 allowed.
    pub(crate) fn verify(&self) -> Result<Verified, Fault> {
        self.verify_on(&rules())
    }
}

pub(crate) fn rules() -> SignatureRules<'static> {
    terms_at(DAY)
}

pub(crate) fn terms_at(seconds: i64) -> SignatureRules<'static> {
    SignatureRules {
        region: "us-east-1",
        service: "s3",
        has_session: false,
        sigv2_presign: true,
        accepts_aws_chunked: true,
        now: OffsetDateTime::from_unix_timestamp(seconds).unwrap(),
    }
}
