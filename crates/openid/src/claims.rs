//! The claims of a token, and the checks of its audience and times.

use std::time::Duration;

use serde_json::{Map, Value};
use time::OffsetDateTime;

use crate::error::TokenError;
use crate::first_claims::FirstClaim;
use crate::token::UnverifiedToken;

/// The maximum accepted difference between the clocks of an issuer and of this machine. A token is
/// valid this time longer, and begins to be valid this time earlier, than its claims say.
pub const LEEWAY: Duration = Duration::from_mins(1);

/// The maximum length of a subject in bytes, as in OpenID.
const SUBJECT_BYTES_MAX: usize = 255;

/// The last second of the year 9999, so that each time has a year of four digits.
const SECONDS_MAX: i64 = 253_402_300_799;

/// The values of one claim, that is, of one member of the JSON object in a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimTexts {
    /// The token does not have the claim.
    Absent,
    /// The claim is neither a string, number or Boolean nor a list of these. For example, it is a
    /// JSON object.
    Malformed,
    /// The values of the claim as texts, in their order. A single value is a list of one.
    Texts(Vec<String>),
}

/// The claims of a verified token: the statements of the issuer about the user, such as the name
/// and the groups.
pub struct Claims {
    subject: String,
    audience: String,
    expires_at: OffsetDateTime,
    values: Map<String, Value>,
}

impl Claims {
    /// Returns the subject: the name of the user, unique at the issuer.
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// Returns the audience for which the token was accepted, that is, the name under which the
    /// issuer knows this service.
    pub fn audience(&self) -> &str {
        &self.audience
    }

    /// Returns the time from which the token is no longer valid, [`LEEWAY`] included.
    pub fn expires_at(&self) -> OffsetDateTime {
        self.expires_at
    }

    /// Returns the values of the claim with this name. An `email` that the issuer has not verified
    /// is `Absent`, because many issuers let users set any address.
    pub fn texts(&self, name: &str) -> ClaimTexts {
        if name == "email" && !self.is_email_verified() {
            return ClaimTexts::Absent;
        }
        match self.values.get(name) {
            None | Some(Value::Null) => ClaimTexts::Absent,
            Some(Value::Array(values)) => {
                let texts = values.iter().map(text).collect::<Option<Vec<String>>>();
                texts.map_or(ClaimTexts::Malformed, ClaimTexts::Texts)
            }
            Some(value) => {
                text(value).map_or(ClaimTexts::Malformed, |text| ClaimTexts::Texts(vec![text]))
            }
        }
    }

    /// Returns the first of `values` that is a value of the claim `name`. Returns `None` if the
    /// claim has none of them, is absent or is malformed.
    pub fn first_match<'a>(&self, name: &str, values: &'a [String]) -> Option<&'a String> {
        let ClaimTexts::Texts(texts) = self.texts(name) else { return None };
        values.iter().find(|value| texts.contains(value))
    }

    fn is_email_verified(&self) -> bool {
        match self.values.get("email_verified") {
            Some(Value::Bool(verified)) => *verified,
            // Some issuers send the text `"true"` instead of the boolean.
            Some(Value::String(verified)) => verified == "true",
            _ => false,
        }
    }
}

/// Omits the claims, which are personal data, from logs.
impl std::fmt::Debug for Claims {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Claims").field("expires_at", &self.expires_at).finish_non_exhaustive()
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The claims that each token must have, after their checks. The signature may not be verified yet.
pub(crate) struct CheckedClaims {
    subject: String,
    audience: String,
    expires_at: OffsetDateTime,
}

impl CheckedClaims {
    /// Returns the verified claims: these ones together with `values`, all claims of the token. The
    /// caller has verified the signature of the token before.
    pub(crate) fn with_claims(self, values: Map<String, Value>) -> Claims {
        let CheckedClaims { subject, audience, expires_at } = self;
        Claims { subject, audience, expires_at, values }
    }
}

/// Checks that the required claims of a token are present, that the token is for one of the
/// `audiences`, and that it is valid at `now`. The signature is verified later, because these
/// checks cost less.
///
/// Fails with `Claim`, `Audience`, `Expired` or `NotYet`.
pub(crate) fn check(
    token: &UnverifiedToken<'_>,
    audiences: &[String],
    now: OffsetDateTime,
) -> Result<CheckedClaims, TokenError> {
    let audience = token.audience(audiences).ok_or(TokenError::Audience)?;
    let subject = token.claims.sub.text();
    let subject = subject.filter(|it| !it.is_empty() && it.len() <= SUBJECT_BYTES_MAX);
    // The subject appears in documents and logs.
    let subject = subject.filter(|it| !it.contains(char::is_control));
    let subject = subject.ok_or(TokenError::Claim("sub"))?.to_owned();
    let leeway = LEEWAY.as_secs().cast_signed();
    let now = now.unix_timestamp();
    let expires = seconds(&token.claims.exp, "exp")?.ok_or(TokenError::Claim("exp"))?;
    let expires_at = (expires + leeway).min(SECONDS_MAX);
    if now >= expires_at {
        return Err(TokenError::Expired { now, expired: expires });
    }
    for (claim, name) in [(&token.claims.nbf, "nbf"), (&token.claims.iat, "iat")] {
        if seconds(claim, name)?.is_some_and(|begins| begins > now + leeway) {
            return Err(TokenError::NotYet);
        }
    }
    let expires_at =
        OffsetDateTime::from_unix_timestamp(expires_at).map_err(|_| TokenError::Claim("exp"))?;
    Ok(CheckedClaims { subject, audience, expires_at })
}

/// Returns the value of a claim that is a time, in whole seconds since 1970; `None` if the claim is
/// absent. Fails with `Claim` and the name if it is not a time.
fn seconds(claim: &FirstClaim, name: &'static str) -> Result<Option<i64>, TokenError> {
    match claim {
        FirstClaim::Absent => Ok(None),
        FirstClaim::Whole(seconds) if (0..=SECONDS_MAX).contains(seconds) => Ok(Some(*seconds)),
        FirstClaim::Other | FirstClaim::Text(_) | FirstClaim::Whole(_) | FirstClaim::Texts(_) => {
            Err(TokenError::Claim(name))
        }
    }
}
