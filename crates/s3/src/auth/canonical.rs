//! The canonical request of SigV4: the bytes that a signature vouches for.

use http::HeaderMap;
use sha2::{Digest as _, Sha256};

use super::head::RequestHead;
use super::header::Claim;
use super::key::SigningKey;
use super::uri::{Parameters, canonical_path};
use crate::{Code, Fault};

/// A canonical request, and what is signed of it.
#[derive(Debug)]
pub(super) struct Canonical {
    /// Header values may be any bytes, so this is not text.
    request: Vec<u8>,
    string_to_sign: String,
    /// Whether each header that was signed has arrived.
    complete: bool,
}

impl Canonical {
    /// `payload` is the canonical request's last line. Faults: `InvalidURI`, as `host`.
    pub(super) fn new(
        request: &RequestHead<'_>,
        claim: &Claim,
        payload: &str,
    ) -> Result<Canonical, Fault> {
        let mut text = Vec::with_capacity(1024);
        text.extend_from_slice(request.method.as_str().as_bytes());
        text.push(b'\n');
        text.extend_from_slice(canonical_path(request.path)?.as_bytes());
        text.push(b'\n');
        text.extend_from_slice(Parameters::parse(request.query)?.canonical().as_bytes());
        text.push(b'\n');
        let mut complete = true;
        for name in &claim.signed_headers {
            text.extend_from_slice(name.as_bytes());
            text.push(b':');
            complete &= match name.as_str() {
                "host" => append(&mut text, request.host()?),
                _ => append_all(&mut text, request.headers, name),
            };
            text.push(b'\n');
        }
        text.push(b'\n');
        text.extend_from_slice(claim.signed_headers.join(";").as_bytes());
        text.push(b'\n');
        text.extend_from_slice(payload.as_bytes());
        let string_to_sign = format!(
            "AWS4-HMAC-SHA256\n{}\n{}\n{}",
            claim.timestamp,
            claim.scope.to_text(),
            hex::encode(Sha256::digest(&text))
        );
        Ok(Canonical { request: text, string_to_sign, complete })
    }

    /// Whether the key signed this.
    pub(super) fn is_signed(&self, key: &SigningKey, signature: &str) -> bool {
        key.sign(self.string_to_sign.as_bytes()).matches(signature) && self.complete
    }

    /// The refusal, with all that a client needs to compare notes.
    pub(super) fn mismatch(&self, claim: &Claim) -> Fault {
        Fault::because(
            Code::SignatureDoesNotMatch,
            "The request signature we calculated does not match the signature you provided. \
             Check your key and signing method.",
        )
        .with("AWSAccessKeyId", claim.access_key.as_str())
        .with("StringToSign", self.string_to_sign.as_str())
        .with("SignatureProvided", claim.signature.as_str())
        .with("CanonicalRequest", String::from_utf8_lossy(&self.request))
    }
}

/// Appends the values of a header, joined by commas. Answers whether there are any.
fn append_all(text: &mut Vec<u8>, headers: &HeaderMap, name: &str) -> bool {
    let mut found = false;
    for value in headers.get_all(name) {
        if found {
            text.push(b',');
        }
        found = append(text, Some(value.as_bytes()));
    }
    found
}

/// Appends a value without the spaces around it, and with one space for a run of them.
fn append(text: &mut Vec<u8>, value: Option<&[u8]>) -> bool {
    let Some(value) = value else { return false };
    let mut spaces = false;
    for byte in value.trim_ascii() {
        if *byte != b' ' || !spaces {
            text.push(*byte);
        }
        spaces = *byte == b' ';
    }
    true
}
