//! SigV2 in the query, for objects only.
//!
//! boto3 and the AWS CLI still create such presigned URLs for their oldest regions. SigV2 leaves
//! most of the query unsigned, so this module refuses each parameter that SigV2 does not sign.
//!
//! The string to sign has no escapes, so in general different requests can have the same string.
//! Invariant: here only one request can have it. Header names are tokens and contain neither a
//! colon nor a line feed, values contain no control characters, and each value is used exactly as
//! it was signed. For example, the value `1\nx-amz-acl:private` is refused, because its string to
//! sign would equal that of a request with the header `x-amz-acl`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::Method;
use sha1::Sha1;
use subtle::ConstantTimeEq;
use time::OffsetDateTime;

use super::customer_key::has_customer_key;
use super::head::{RequestHead, single};
use super::kind::AuthKind;
use super::payload::PayloadMode;
use super::signature_rules::{SignatureRules, check_expiry};
use super::token::{SESSION_TOKEN, check_token};
use super::unknown_key::{DUMMY_SECRET, unknown_key};
use super::uri::{Parameters, decode, header_name};
use super::verified::Verified;
use crate::{Code, Fault};

/// A parsed SigV2 presigned URL, not yet verified.
#[derive(Clone, Debug)]
pub struct PresignedV2 {
    access_key: String,
    signature: String,
    /// The expiration as sent, because the text is signed.
    expires: String,
    expires_at: OffsetDateTime,
    /// The signed query parameters that replace no header: sorted by name, with decoded values.
    resources: Vec<(String, Option<String>)>,
    /// Query parameters that replace headers: lower-case names, and decoded values without
    /// surrounding blanks, as HTTP does with headers.
    fields: Vec<(String, String)>,
}

/// The query parameters that SigV2 signs (it calls them subresources) and that have a meaning for
/// objects.
const SUBRESOURCES: [&str; 16] = [
    "acl",
    "legal-hold",
    "partNumber",
    "response-cache-control",
    "response-content-disposition",
    "response-content-encoding",
    "response-content-language",
    "response-content-type",
    "response-expires",
    "restore",
    "retention",
    "tagging",
    "torrent",
    "uploadId",
    "uploads",
    "versionId",
];

/// Returns true if a query has any part of a SigV2 signature.
pub(super) fn is_present(parameters: &Parameters) -> bool {
    parameters.has("AWSAccessKeyId") || parameters.has("Signature")
}

impl PresignedV2 {
    /// Returns the token of temporary credentials, if the URL has one.
    pub(super) fn token(&self) -> Option<&str> {
        let token = self.fields.iter().find(|(name, _)| name == SESSION_TOKEN);
        token.map(|(_, value)| value.as_str())
    }

    /// Returns the access key in the query.
    pub fn access_key(&self) -> &str {
        &self.access_key
    }

    /// Parses the query parameters of a SigV2 presigned URL. Fails with `AccessDenied` for a
    /// parameter that SigV2 does not sign, and for ambiguous or repeated parameters.
    pub(super) fn parse(parameters: &Parameters) -> Result<PresignedV2, Fault> {
        let (mut access_key, mut signature, mut expires) = (None, None, None);
        let (mut resources, mut fields) = (Vec::new(), Vec::new());
        for (name, value) in parameters.iter() {
            let name = decode(name)?;
            let lower = name.to_ascii_lowercase();
            let value = decode(value)?.into_owned();
            // This check comes before the name is interpreted, because each value is part of the
            // string to sign.
            if is_ambiguous(&value) {
                return Err(refuse("A parameter value is ambiguous in the string to sign."));
            }
            let slot = match name.as_ref() {
                "AWSAccessKeyId" => &mut access_key,
                "Signature" => &mut signature,
                "Expires" => &mut expires,
                // SigV2 signs a subresource without a value and with an empty value in the same
                // way.
                name if SUBRESOURCES.contains(&name) => {
                    resources.push((name.to_owned(), Some(value).filter(|text| !text.is_empty())));
                    continue;
                }
                _ if lower.starts_with("x-amz-")
                    || matches!(lower.as_str(), "content-type" | "content-md5") =>
                {
                    let name = header_name(&lower)
                        .ok_or_else(|| refuse("A parameter name is not a valid header name."))?;
                    fields.push((name, value.trim_matches([' ', '\t']).to_owned()));
                    continue;
                }
                _ => {
                    return Err(refuse(
                        "The URL has a parameter that its signature does not cover.",
                    ));
                }
            };
            if slot.replace(value).is_some() {
                return Err(refuse("A parameter of the signature is given more than once."));
            }
        }
        let (Some(access_key), Some(signature), Some(expires)) = (access_key, signature, expires)
        else {
            return Err(refuse(
                "Query-string authentication requires the Signature, Expires and \
                 AWSAccessKeyId parameters",
            ));
        };
        let expires_at = expires
            .parse()
            .ok()
            .and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok())
            .ok_or_else(|| refuse("Invalid date (should be seconds since epoch)"))?;
        // SigV2 signs subresources in alphabetical order.
        resources.sort_unstable();
        Ok(PresignedV2 { access_key, signature, expires, expires_at, resources, fields })
    }

    /// Returns the hash of the body, if the URL has one. It is signed like each other header.
    pub(super) fn content_sha256(&self) -> Option<&str> {
        let mut values = self.fields.iter().filter(|(name, _)| name == "x-amz-content-sha256");
        values.next().map(|(_, value)| value.as_str())
    }

    /// Verifies the signature of a SigV2 presigned URL. `payload` is the framing of the body.
    pub(super) fn verify(
        &self,
        secret: Option<&str>,
        request: &RequestHead<'_>,
        rules: &SignatureRules<'_>,
        payload: PayloadMode,
    ) -> Result<Verified, Fault> {
        if !rules.sigv2_presign {
            return Err(unsupported());
        }
        let methods = [Method::GET, Method::HEAD, Method::PUT, Method::DELETE];
        if !methods.contains(request.method) || !names_object(request) {
            return Err(refuse("SigV2 presigned URLs are accepted only for objects."));
        }
        check_expiry(self.expires_at, rules.now)?;
        let string_to_sign = self.string_to_sign(request)?;
        let mac = hmac_sha1(secret.unwrap_or(DUMMY_SECRET).as_bytes(), &string_to_sign);
        let claimed = STANDARD.decode(&self.signature).unwrap_or_default();
        // Base64 has several encodings of the same bytes. Only the canonical one is accepted, so
        // that no two URLs are the same request.
        let canonical = STANDARD.encode(&claimed) == self.signature;
        let signed = bool::from(mac.as_slice().ct_eq(&claimed)) && canonical;
        // The signature was computed first even for an unknown key, so that the duration does not
        // reveal which keys exist.
        if secret.is_none() {
            return Err(unknown_key(&self.access_key));
        }
        if !signed {
            let fault = Fault::new(Code::SignatureDoesNotMatch)
                .with("AWSAccessKeyId", self.access_key.as_str())
                .with("SignatureProvided", self.signature.as_str());
            // Logs of clients and proxies keep faults, so none repeats a key of the client.
            return Err(if has_customer_key(&string_to_sign) {
                fault
            } else {
                fault.with("StringToSign", String::from_utf8_lossy(&string_to_sign))
            });
        }
        check_token(self.token().is_some() || request.headers.contains_key(SESSION_TOKEN), rules)?;
        // A header that the request also has is already in its headers, with an equal value.
        let hoisted =
            self.fields.iter().filter(|(name, _)| !request.headers.contains_key(name)).cloned();
        Ok(Verified {
            access_key: Some(self.access_key.clone()),
            kind: AuthKind::QueryV2,
            payload,
            seed: None,
            hoisted: hoisted.collect(),
            signed_at: None,
        })
    }

    /// Builds the string to sign, that is, the text over which SigV2 computes the signature of this
    /// request. Fails with `AccessDenied` if a header differs from the query, or with
    /// `InvalidArgument`.
    fn string_to_sign(&self, request: &RequestHead<'_>) -> Result<Vec<u8>, Fault> {
        let mut text = Vec::with_capacity(256);
        text.extend_from_slice(request.method.as_str().as_bytes());
        text.push(b'\n');
        for name in ["content-md5", "content-type"] {
            text.extend_from_slice(&self.field(request, name)?.unwrap_or_default());
            text.push(b'\n');
        }
        text.extend_from_slice(self.expires.as_bytes());
        text.push(b'\n');
        for name in self.amz_names(request) {
            text.extend_from_slice(name.as_bytes());
            text.push(b':');
            text.extend_from_slice(&self.field(request, name)?.unwrap_or_default());
            text.push(b'\n');
        }
        // SigV2 always signs the path with the bucket, also if the bucket is in the host.
        if let Some(bucket) = request.host_bucket {
            text.push(b'/');
            text.extend_from_slice(bucket.as_bytes());
        }
        text.extend_from_slice(request.path.as_bytes());
        for (position, (name, value)) in self.resources.iter().enumerate() {
            text.push(if position == 0 { b'?' } else { b'&' });
            text.extend_from_slice(name.as_bytes());
            if let Some(value) = value {
                text.push(b'=');
                text.extend_from_slice(value.as_bytes());
            }
        }
        Ok(text)
    }

    /// Returns the `x-amz-*` names in the headers and the query, sorted, without duplicates.
    fn amz_names<'a>(&'a self, request: &RequestHead<'a>) -> Vec<&'a str> {
        let mut names: Vec<&str> = request
            .headers
            .keys()
            .map(http::HeaderName::as_str)
            .chain(self.fields.iter().map(|(name, _)| name.as_str()))
            .filter(|name| name.starts_with("x-amz-"))
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Returns the value of a header from the headers or the query. If both have it, the values
    /// must be equal.
    fn field(&self, request: &RequestHead<'_>, name: &str) -> Result<Option<Vec<u8>>, Fault> {
        let values: Vec<&[u8]> = match name {
            "content-md5" => single(request.headers, "content-md5")?.into_iter().collect(),
            "content-type" => single(request.headers, "content-type")?.into_iter().collect(),
            _ => request
                .headers
                .get_all(name)
                .iter()
                .map(|value| value.as_bytes().trim_ascii())
                .collect(),
        };
        let header = (!values.is_empty()).then(|| values.join(&b','));
        let mut hoisted = self.fields.iter().filter(|(other, _)| other == name);
        let query = hoisted.next().map(|(_, value)| value.as_bytes().to_vec());
        if hoisted.next().is_some() {
            return Err(refuse("A header in the URL is given more than once."));
        }
        match (header, query) {
            (Some(header), Some(query)) if header != query => {
                Err(refuse("A header differs from the value in the URL."))
            }
            (header, query) => Ok(header.or(query)),
        }
    }
}

/// Returns the HMAC-SHA1 of a message.
pub(super) fn hmac_sha1(key: &[u8], message: &[u8]) -> [u8; 20] {
    let mac = Hmac::<Sha1>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.chain_update(message).finalize().into_bytes().into()
}

/// Returns the fault for SigV2 if it is disabled.
pub(super) fn unsupported() -> Fault {
    Fault::because(
        Code::InvalidRequest,
        "The authorization mechanism you have provided is not supported. \
         Please use AWS4-HMAC-SHA256.",
    )
}

/// Returns true if the request is about an object.
fn names_object(request: &RequestHead<'_>) -> bool {
    let path = request.path.strip_prefix('/').unwrap_or(request.path);
    match request.host_bucket {
        Some(_) => !path.is_empty(),
        None => {
            path.split_once('/').is_some_and(|(bucket, key)| !bucket.is_empty() && !key.is_empty())
        }
    }
}

/// Returns true if a value could be read as two lines or as two parameters. The string to sign
/// consists of decoded text, so such a value would make it ambiguous.
fn is_ambiguous(value: &str) -> bool {
    let names_another = |text: &str| {
        let name = text.split('=').next().unwrap_or_default();
        SUBRESOURCES.contains(&name)
    };
    value.chars().any(char::is_control) || value.split('&').skip(1).any(names_another)
}

fn refuse(why: &'static str) -> Fault {
    Fault::because(Code::AccessDenied, why)
}
