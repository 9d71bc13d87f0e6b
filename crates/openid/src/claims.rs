//! What a token says, and when that counts.

use std::time::Duration;

use serde_json::{Map, Value};
use time::OffsetDateTime;

use crate::error::TokenError;
use crate::first_claims::FirstClaim;
use crate::token::UnverifiedToken;

/// How far the clocks of an issuer and of this machine may differ.
pub const LEEWAY: Duration = Duration::from_mins(1);

/// The longest subject, in bytes: what OpenID allows.
const SUBJECT_BYTES_MAX: usize = 255;

/// The last second that a date is written with four digits of the year in.
const SECONDS_MAX: i64 = 253_402_300_799;

/// What a claim says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimTexts {
    /// The token does not have it.
    Absent,
    /// It is something else than a value or a list of values.
    Malformed,
    /// Its values, as texts.
    Texts(Vec<String>),
}

/// What a verified token says.
pub struct Claims {
    subject: String,
    audience: String,
    expires_at: OffsetDateTime,
    values: Map<String, Value>,
}

impl Claims {
    /// Whom the token is about, in a name that its issuer gives to nobody else.
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// The audience that it was accepted for.
    pub fn audience(&self) -> &str {
        &self.audience
    }

    /// From when on it does not count any more, clocks that differ allowed for.
    pub fn expires_at(&self) -> OffsetDateTime {
        self.expires_at
    }

    /// What a claim says. An `email` that the issuer has not verified is `Absent`: with many issuers
    /// their users write there what they like.
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

    /// Which of these values a claim has, be it alone or in a list: the first one.
    pub fn first_match<'a>(&self, name: &str, values: &'a [String]) -> Option<&'a String> {
        let ClaimTexts::Texts(texts) = self.texts(name) else { return None };
        values.iter().find(|value| texts.contains(value))
    }

    fn is_email_verified(&self) -> bool {
        match self.values.get("email_verified") {
            Some(Value::Bool(verified)) => *verified,
            // Some issuers write it so.
            Some(Value::String(verified)) => verified == "true",
            _ => false,
        }
    }
}

/// Claims are about a person, so logs do not get them.
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

/// What the claims that every token needs say, once they are right.
pub(crate) struct CheckedClaims {
    subject: String,
    audience: String,
    expires_at: OffsetDateTime,
}

impl CheckedClaims {
    /// With all that the token says. Its signature has been verified.
    pub(crate) fn with_claims(self, values: Map<String, Value>) -> Claims {
        let CheckedClaims { subject, audience, expires_at } = self;
        Claims { subject, audience, expires_at, values }
    }
}

/// Whether the claims that every token needs are there, and its audience and times are right. Its
/// signature is another matter: this is what costs least, so it is looked at first.
///
/// Errors: `Claim`, `Audience`, `Expired`, `NotYet`.
pub(crate) fn check(
    token: &UnverifiedToken<'_>,
    audiences: &[String],
    now: OffsetDateTime,
) -> Result<CheckedClaims, TokenError> {
    let audience = token.audience(audiences).ok_or(TokenError::Audience)?;
    let subject = token.claims.sub.text();
    let subject = subject.filter(|it| !it.is_empty() && it.len() <= SUBJECT_BYTES_MAX);
    // It goes into documents and logs.
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

/// A claim that is a time, in whole seconds since 1970.
fn seconds(claim: &FirstClaim, name: &'static str) -> Result<Option<i64>, TokenError> {
    match claim {
        FirstClaim::Absent => Ok(None),
        FirstClaim::Whole(seconds) if (0..=SECONDS_MAX).contains(seconds) => Ok(Some(*seconds)),
        _ => Err(TokenError::Claim(name)),
    }
}
