//! The canonical request of a request that arrived: what its signature vouches for.

use sigv4::{CanonicalRequest, SigningKey, string_to_sign};

use super::head::RequestHead;
use super::header::Claim;
use super::uri::{Parameters, canonical_path};
use crate::{Code, Fault};

/// A canonical request, and its string to sign.
#[derive(Debug)]
pub(super) struct Canonical {
    request: CanonicalRequest,
    string_to_sign: String,
    /// Whether each header that was signed has arrived.
    all_headers_present: bool,
}

impl Canonical {
    /// `payload` is the canonical request's last line. Faults: `InvalidURI`, as `host`.
    pub(super) fn new(
        request: &RequestHead<'_>,
        claim: &Claim,
        payload: &str,
    ) -> Result<Canonical, Fault> {
        let path = canonical_path(request.path)?;
        let query = Parameters::parse(request.query)?.canonical();
        let mut canonical = CanonicalRequest::builder(request.method.as_str(), &path, &query);
        let mut all_headers_present = true;
        for name in &claim.signed_headers {
            all_headers_present &= match name.as_str() {
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

    /// Whether the key signed this.
    pub(super) fn is_signed(&self, key: &SigningKey, signature: &str) -> bool {
        key.sign(&self.string_to_sign).matches(signature) && self.all_headers_present
    }

    /// The refusal. It contains what the client needs to find out where the two differ.
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
        .with("CanonicalRequest", String::from_utf8_lossy(self.request.as_bytes()))
        .with("CanonicalRequestBytes", spaced_hex(self.request.as_bytes()))
    }
}

/// Bytes as S3 shows them, so that a client sees what its eyes would miss.
pub(super) fn spaced_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| hex::encode([*byte])).collect::<Vec<_>>().join(" ")
}
