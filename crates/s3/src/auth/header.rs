//! The `Authorization` header of SigV4, and what its parts mean.

use http::HeaderMap;
use sigv4::{ALGORITHM, CredentialScope, format_timestamp, parse_timestamp};
use time::format_description::well_known::Rfc2822;
use time::{OffsetDateTime, UtcOffset};

use super::head::single;
use crate::{Code, Fault};

const ECDSA_SCHEME: &str = "AWS4-ECDSA-P256-SHA256";

/// A parsed SigV4 `Authorization` header. Its claims are not yet checked.
#[derive(Clone, Debug)]
pub struct HeaderSignature {
    pub(super) claim: Claim,
}

/// What every SigV4 signature states, in a header or in a query.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    pub(super) access_key: String,
    pub(super) scope: CredentialScope,
    /// Lower case, in the order given.
    pub(super) signed_headers: Vec<String>,
    pub(super) signature: String,
    /// `YYYYMMDDTHHMMSSZ`.
    pub(super) timestamp: String,
    pub(super) signed_at: OffsetDateTime,
}

impl HeaderSignature {
    /// The access key claimed.
    pub fn access_key(&self) -> &str {
        &self.claim.access_key
    }

    pub(super) fn parse(value: &[u8], headers: &HeaderMap) -> Result<HeaderSignature, Fault> {
        let value = std::str::from_utf8(value).map_err(|_| malformed("It is not UTF-8 text."))?;
        let (scheme, rest) = value.split_once(' ').unwrap_or((value, ""));
        check_scheme(scheme, value)?;
        let (mut credential, mut signed_headers, mut signature) = (None, None, None);
        for field in rest.split(',') {
            let (name, text) = field
                .trim()
                .split_once('=')
                .ok_or_else(|| malformed("A field of it has no value."))?;
            let slot = match name {
                "Credential" => &mut credential,
                "SignedHeaders" => &mut signed_headers,
                "Signature" => &mut signature,
                _ => return Err(malformed("It has an unknown field.")),
            };
            if slot.replace(text).is_some() {
                return Err(malformed("A field of it is given twice."));
            }
        }
        let (Some(credential), Some(signed_headers), Some(signature)) =
            (credential, signed_headers, signature)
        else {
            return Err(malformed("It needs Credential, SignedHeaders and Signature."));
        };
        let (access_key, scope) = parse_credential(credential)
            .ok_or_else(|| malformed("Its Credential is not valid."))?;
        let signed_headers = parse_signed_headers(signed_headers)
            .ok_or_else(|| malformed("Its SignedHeaders are not valid."))?;
        let (timestamp, signed_at) = request_time(headers)?;
        let signature = signature.to_owned();
        let claim = Claim { access_key, scope, signed_headers, signature, timestamp, signed_at };
        Ok(HeaderSignature { claim })
    }
}

fn check_scheme(scheme: &str, value: &str) -> Result<(), Fault> {
    match scheme {
        ALGORITHM => Ok(()),
        ECDSA_SCHEME => Err(Fault::because(Code::NotImplemented, "SigV4a is not implemented.")),
        "AWS" => Err(Fault::because(
            Code::InvalidRequest,
            "The authorization mechanism you have provided is not supported. \
             Please use AWS4-HMAC-SHA256.",
        )),
        // The value is not repeated, because it may be a password of another scheme.
        _ if value.is_empty() => Err(malformed("It is empty.")),
        _ => Err(Fault::because(Code::InvalidArgument, "Unsupported Authorization Type")
            .with("ArgumentName", "Authorization")),
    }
}

/// Splits `KEY/DATE/REGION/SERVICE/aws4_request`. The key may hold slashes.
pub(super) fn parse_credential(text: &str) -> Option<(String, CredentialScope)> {
    let (key_end, _) = text.rmatch_indices('/').nth(3).filter(|(at, _)| *at > 0)?;
    Some((text[..key_end].to_owned(), CredentialScope::parse(&text[key_end + 1..])?))
}

/// Splits `host;x-amz-date`. Names are lower case and not empty, and `host` is among them.
pub(super) fn parse_signed_headers(text: &str) -> Option<Vec<String>> {
    let names: Vec<String> = text.split(';').map(str::to_owned).collect();
    let legal = |name: &String| {
        let plain = |byte: u8| byte.is_ascii_graphic() && !byte.is_ascii_uppercase();
        !name.is_empty() && name.bytes().all(plain)
    };
    (names.iter().all(legal) && names.iter().any(|name| name == "host")).then_some(names)
}

/// The time of a request that is signed in its headers, also in the form in which it is signed.
fn request_time(headers: &HeaderMap) -> Result<(String, OffsetDateTime), Fault> {
    let text = match single(headers, "x-amz-date")? {
        Some(value) => Some(value),
        None => single(headers, "date")?,
    };
    let read = || {
        let text = std::str::from_utf8(text?).ok()?;
        let time = parse_timestamp(text).or_else(|| OffsetDateTime::parse(text, &Rfc2822).ok())?;
        let time = time.checked_to_offset(UtcOffset::UTC)?;
        Some((format_timestamp(time), time))
    };
    read().ok_or_else(|| {
        Fault::because(
            Code::AccessDenied,
            "AWS authentication requires a valid Date or x-amz-date header",
        )
    })
}

fn malformed(why: &'static str) -> Fault {
    let message = format!("The authorization header is malformed. {why}");
    Fault::because(Code::AuthorizationHeaderMalformed, message)
}
