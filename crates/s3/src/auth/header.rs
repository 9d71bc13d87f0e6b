//! The `Authorization` header of SigV4. For example, `AWS4-HMAC-SHA256
//! Credential=AK/20260102/us-east-1/s3/aws4_request, SignedHeaders=host;x-amz-date, Signature=1f…`.

use http::HeaderMap;
use sigv4::{ALGORITHM, CredentialScope, format_timestamp, parse_timestamp};
use time::format_description::well_known::Rfc2822;
use time::{OffsetDateTime, UtcOffset};

use super::head::single;
use super::v2::unsupported;
use crate::{Code, Fault};

/// A parsed SigV4 `Authorization` header, not yet verified.
#[derive(Clone, Debug)]
pub struct HeaderSignature {
    pub(super) claim: Claim,
}

/// The parts of a SigV4 signature as the client states them in a header or in a query. None of them
/// is verified.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    pub(super) access_key: String,
    pub(super) scope: CredentialScope,
    pub(super) signed_headers: SignedHeaders,
    pub(super) signature: String,
    /// The time of signing as text: `YYYYMMDDTHHMMSSZ`.
    pub(super) timestamp: String,
    pub(super) signed_at: OffsetDateTime,
}

/// The names of the signed headers in lower case, in the order given, as the client states them:
/// `host;x-amz-date`.
#[derive(Clone, Debug)]
pub(super) struct SignedHeaders(String);

impl SignedHeaders {
    /// Parses the names. Returns `None` if a name is empty or has upper-case letters, or if `host`
    /// is missing.
    pub(super) fn parse(text: &str) -> Option<SignedHeaders> {
        let plain = |byte: u8| byte.is_ascii_graphic() && !byte.is_ascii_uppercase();
        let legal = |name: &str| !name.is_empty() && name.bytes().all(plain);
        let names = || text.split(';');
        (names().all(legal) && names().any(|name| name == "host"))
            .then(|| SignedHeaders(text.to_owned()))
    }

    /// Returns the names in the order given.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.split(';')
    }
}

impl HeaderSignature {
    /// Returns the access key in the header.
    pub fn access_key(&self) -> &str {
        &self.claim.access_key
    }

    /// Parses the header. Its error messages, and the order of the checks, are S3's.
    ///
    /// Fails with `InvalidArgument` for another scheme or without a space, with `InvalidRequest`
    /// for SigV2, with `AuthorizationHeaderMalformed` for wrong components, and with `AccessDenied`
    /// without a valid time.
    pub(super) fn parse(value: &[u8], headers: &HeaderMap) -> Result<HeaderSignature, Fault> {
        let value = std::str::from_utf8(value).map_err(|_| not_one_space(""))?;
        // S3 reports a missing space before an unknown scheme.
        let (scheme, rest) = value.split_once(' ').ok_or_else(|| not_one_space(value))?;
        check_scheme(scheme)?;
        let mut components = [Err(""); COMPONENTS.len()];
        let mut count = 0;
        for component in rest.split(',').map(str::trim) {
            if let Some(place) = components.get_mut(count) {
                *place = component.split_once('=').ok_or(component);
            }
            count += 1;
        }
        // S3 checks the number of components first, then their form, then their names.
        if count != COMPONENTS.len() {
            return Err(malformed(
                "the authorization header requires three components: Credential, SignedHeaders, \
                 and Signature.",
            ));
        }
        for component in &components {
            if let Err(text) = component {
                let why = format!("the authorization component \"{text}\" is malformed.");
                return Err(malformed(&why));
            }
        }
        let [credential, signed_headers, signature] = COMPONENTS.map(|wanted| {
            let mut found = components.iter().flatten().filter(|(name, _)| *name == wanted);
            let missing = || malformed(&format!("missing {wanted}."));
            found.next().map(|(_, text)| *text).ok_or_else(missing)
        });
        let (credential, signed_headers, signature) = (credential?, signed_headers?, signature?);
        let (access_key, scope) = parse_credential(credential).ok_or_else(|| {
            malformed(&format!("the Credential is mal-formed; expecting \"{CREDENTIAL_FORM}\"."))
        })?;
        let signed_headers = SignedHeaders::parse(signed_headers).ok_or_else(|| {
            let why = format!(
                "the authorization component \"SignedHeaders={signed_headers}\" is malformed."
            );
            malformed(&why)
                .detail("SignedHeaders must be header names in lower case, including host.")
        })?;
        let (timestamp, signed_at) = request_time(headers)?;
        let signature = signature.to_owned();
        let claim = Claim { access_key, scope, signed_headers, signature, timestamp, signed_at };
        Ok(HeaderSignature { claim })
    }
}

/// The format of a credential in S3's error messages.
pub(super) const CREDENTIAL_FORM: &str = "<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request";

/// The components of the header, in the order in which S3 reports missing ones.
const COMPONENTS: [&str; 3] = ["Credential", "SignedHeaders", "Signature"];

fn check_scheme(scheme: &str) -> Result<(), Fault> {
    match scheme {
        ALGORITHM => Ok(()),
        "AWS" => Err(unsupported()),
        // The rest of the value is not repeated, because with another scheme it may be a password.
        _ => Err(Fault::because(Code::InvalidArgument, "Unsupported Authorization Type")
            .with("ArgumentName", "Authorization")
            .with("ArgumentValue", scheme)),
    }
}

fn not_one_space(value: &str) -> Fault {
    Fault::because(
        Code::InvalidArgument,
        "Authorization header is invalid -- one and only one ' ' (space) required.",
    )
    .with("ArgumentName", "Authorization")
    .with("ArgumentValue", value)
}

/// Splits a credential, `KEY/DATE/REGION/SERVICE/aws4_request`, into the access key and the
/// credential scope. The key may contain slashes. Returns `None` if a part is missing.
pub(super) fn parse_credential(text: &str) -> Option<(String, CredentialScope)> {
    let (key_end, _) = text.rmatch_indices('/').nth(3).filter(|(at, _)| *at > 0)?;
    Some((text[..key_end].to_owned(), CredentialScope::parse(&text[key_end + 1..])?))
}

/// Returns the time of a request that is signed in its headers, as text and as a time. As AWS
/// specifies, `x-amz-date` takes precedence over `Date`.
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
            "AWS authentication requires a valid Date or x-amz-date header.",
        )
    })
}

/// Returns the fault of a malformed header.
pub(super) fn malformed(why: &str) -> Fault {
    let message = format!("The authorization header is malformed; {why}");
    Fault::because(Code::AuthorizationHeaderMalformed, message)
}
