//! SigV4 in the query: presigned URLs.

use sigv4::{ALGORITHM, parse_timestamp};

use super::header::{Claim, SignedHeaders, parse_credential};
use super::uri::{Parameters, decode, header_name};
use crate::{Code, Fault};

/// The maximum lifetime of a presigned URL in seconds: seven days.
pub const PRESIGN_SECONDS_MAX: i64 = 7 * 24 * 60 * 60;

/// A parsed SigV4 presigned URL, not yet verified.
#[derive(Clone, Debug)]
pub struct PresignedV4 {
    pub(super) claim: Claim,
    /// The lifetime in seconds, from the time of signing.
    pub(super) expires_seconds: i64,
    /// The value of `X-Amz-Content-Sha256`. If the request also has this header, the values must be
    /// equal.
    pub(super) content_sha256: Option<String>,
    /// The `x-amz-*` query parameters that replace headers of the same name: lower-case names,
    /// decoded values.
    pub(super) hoisted: Vec<(String, String)>,
    /// The token of temporary credentials, if the URL has one.
    pub(super) token: Option<String>,
}

/// The query parameters that belong to the signature itself and replace no header.
const SIGNATURE_PARAMETERS: [&str; 8] = [
    "x-amz-algorithm",
    "x-amz-credential",
    "x-amz-date",
    "x-amz-expires",
    "x-amz-signedheaders",
    "x-amz-signature",
    "x-amz-security-token",
    "x-amz-content-sha256",
];

/// Returns true if a query has any part of a SigV4 signature.
pub(super) fn is_present(parameters: &Parameters) -> bool {
    ["x-amz-algorithm", "x-amz-credential", "x-amz-signature"]
        .into_iter()
        .any(|name| parameters.has(name))
}

impl PresignedV4 {
    /// Returns the access key in the query.
    pub fn access_key(&self) -> &str {
        &self.claim.access_key
    }

    pub(super) fn parse(parameters: &Parameters) -> Result<PresignedV4, Fault> {
        // S3 accepts these two parameters in a presigned URL without requiring them.
        let content_sha256 = optional(parameters, "X-Amz-Content-Sha256")?;
        let token = optional(parameters, "X-Amz-Security-Token")?;
        // S3 knows SigV4A as an algorithm, so it has its own message.
        match required(parameters, "X-Amz-Algorithm")?.as_str() {
            ALGORITHM => {}
            "AWS4-ECDSA-P256-SHA256" => {
                return Err(refuse("X-Amz-Algorithm only supports \"AWS4-HMAC-SHA256\""));
            }
            _ => {
                return Err(refuse(
                    "X-Amz-Algorithm only supports \"AWS4-HMAC-SHA256 and \
                     AWS4-ECDSA-P256-SHA256\"",
                ));
            }
        }
        let credential = required(parameters, "X-Amz-Credential")?;
        let timestamp = required(parameters, "X-Amz-Date")?;
        let expires = required(parameters, "X-Amz-Expires")?;
        let signed_headers = required(parameters, "X-Amz-SignedHeaders")?;
        let signature = required(parameters, "X-Amz-Signature")?;

        let (access_key, scope) = parse_credential(&credential).ok_or_else(|| {
            refuse(
                "Error parsing the X-Amz-Credential parameter; the Credential is mal-formed; \
                 expecting \"<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request\".",
            )
        })?;
        let signed_at = parse_timestamp(&timestamp).ok_or_else(|| {
            refuse("X-Amz-Date must be in the ISO8601 Long Format \"yyyyMMdd'T'HHmmss'Z'\"")
        })?;
        let signed_headers = SignedHeaders::parse(&signed_headers)
            .ok_or_else(|| refuse("X-Amz-SignedHeaders is not valid, or lacks host"))?;
        let expires_seconds = parse_expires(&expires)?;
        let hoisted = hoisted(parameters)?;
        let claim = Claim { access_key, scope, signed_headers, signature, timestamp, signed_at };
        Ok(PresignedV4 { claim, expires_seconds, content_sha256, hoisted, token })
    }
}

/// Parses a lifetime in seconds. S3 has different messages for text, for a negative number, and for
/// a number that is too large.
fn parse_expires(text: &str) -> Result<i64, Fault> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(refuse("X-Amz-Expires should be a number"));
    }
    // A number that does not fit the type is also longer than a week.
    match text.parse::<i64>() {
        Ok(seconds) if seconds < 1 => {
            let negative = refuse("X-Amz-Expires must be non-negative");
            Err(if seconds == 0 { negative.detail("It must be at least 1.") } else { negative })
        }
        Ok(seconds) if seconds <= PRESIGN_SECONDS_MAX => Ok(seconds),
        _ => Err(refuse(
            "X-Amz-Expires must be less than a week (in seconds); that is, the given \
             X-Amz-Expires must be less than 604800 seconds",
        )),
    }
}

/// Returns the query parameters that replace headers of the same name.
fn hoisted(parameters: &Parameters) -> Result<Vec<(String, String)>, Fault> {
    let mut hoisted = Vec::new();
    for (name, value) in parameters.iter() {
        let name = decode(name)?.to_ascii_lowercase();
        // Only parameters with this prefix replace headers; all other parameters belong to the
        // operation.
        if name.starts_with("x-amz-") && !SIGNATURE_PARAMETERS.contains(&name.as_str()) {
            let name = header_name(&name)
                .ok_or_else(|| refuse("A parameter name is not a valid header name."))?;
            hoisted.push((name, decode(value)?.into_owned()));
        }
    }
    Ok(hoisted)
}

/// Returns the value of a query parameter that must be present and not empty.
fn required(parameters: &Parameters, name: &'static str) -> Result<String, Fault> {
    optional(parameters, name)?.filter(|value| !value.is_empty()).ok_or_else(|| {
        refuse(
            "Query-string authentication version 4 requires the X-Amz-Algorithm, \
             X-Amz-Credential, X-Amz-Signature, X-Amz-Date, X-Amz-SignedHeaders, and \
             X-Amz-Expires parameters.",
        )
    })
}

/// Returns the decoded value of a query parameter; `None` if it is absent. A repeated parameter is
/// refused, because two readers could use different values.
fn optional(parameters: &Parameters, name: &'static str) -> Result<Option<String>, Fault> {
    let mut values = parameters.values(name);
    let first = values.next();
    if values.next().is_some() {
        return Err(refuse("A parameter of the signature is given more than once."));
    }
    first.map(|value| decode(value).map(std::borrow::Cow::into_owned)).transpose()
}

fn refuse(why: &'static str) -> Fault {
    Fault::because(Code::AuthorizationQueryParametersError, why)
}
