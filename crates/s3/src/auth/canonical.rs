//! The canonical request of a received request: the bytes that its signature covers.

use sigv4::{CanonicalRequest, SigningKey, string_to_sign};

use super::customer_key::has_customer_key;
use super::head::RequestHead;
use super::header::Claim;
use super::uri::{Parameters, canonical_path};
use crate::{Code, Fault};

/// A canonical request, that is, the unique text form of a received request, with its string to
/// sign, which contains the hash of the canonical request.
#[derive(Debug)]
pub(super) struct Canonical {
    request: CanonicalRequest,
    string_to_sign: String,
    /// True if the request has each header that the signature claims to cover.
    all_headers_present: bool,
}

impl Canonical {
    /// Builds the canonical request, over which the signature was computed. `payload` is its last
    /// line: the hash of the body or its replacement. Fails with `InvalidURI`, or as
    /// `RequestHead::host`.
    pub(super) fn new(
        request: &RequestHead<'_>,
        claim: &Claim,
        payload: &str,
    ) -> Result<Canonical, Fault> {
        let path = canonical_path(request.path)?;
        let query = Parameters::parse(request.query)?.canonical();
        let mut canonical = CanonicalRequest::builder(request.method.as_str(), &path, &query);
        let mut all_headers_present = true;
        for name in claim.signed_headers.names() {
            // The host can come from the request target (HTTP/2), so it is not read from the
            // headers.
            all_headers_present &= match name {
                "host" => canonical.header_values(name, request.host()?),
                _ => {
                    let values = request.headers.get_all(name).into_iter();
                    canonical.header_values(name, values.map(http::HeaderValue::as_bytes))
                }
            };
        }
        let request = canonical.finish(payload);
        let string_to_sign = string_to_sign(&claim.timestamp, &claim.scope, &request);
        Ok(Canonical { request, string_to_sign, all_headers_present })
    }

    /// Returns true if `signature` is the signature of this request with `key`, and the request has
    /// each signed header.
    pub(super) fn is_signed(&self, key: &SigningKey, signature: &str) -> bool {
        key.sign(&self.string_to_sign).matches(signature) && self.all_headers_present
    }

    /// Returns the fault of a wrong signature. It contains the gateway's canonical request and
    /// string to sign, so that a developer can compare them with the client's.
    pub(super) fn mismatch(&self, claim: &Claim) -> Fault {
        Fault::because(
            Code::SignatureDoesNotMatch,
            "The request signature we calculated does not match the signature you provided. \
             Check your key and signing method.",
        )
        .with("AWSAccessKeyId", claim.access_key.as_str())
        .with("StringToSign", self.string_to_sign.as_str())
        .with("SignatureProvided", claim.signature.as_str())
        .with("StringToSignBytes", spaced_hex(self.string_to_sign.as_bytes()))
        .with_canonical_request(self.request.as_bytes())
    }
}

impl Fault {
    /// Adds the canonical request, unless it has a key of the client (SSE-C): logs of clients and
    /// proxies keep faults.
    fn with_canonical_request(self, request: &[u8]) -> Fault {
        if has_customer_key(request) {
            return self;
        }
        self.with("CanonicalRequest", String::from_utf8_lossy(request))
            .with("CanonicalRequestBytes", spaced_hex(request))
    }
}

/// Returns bytes in hexadecimal, with spaces, as S3 shows them, so that invisible differences
/// become visible.
pub(super) fn spaced_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| hex::encode([*byte])).collect::<Vec<_>>().join(" ")
}
