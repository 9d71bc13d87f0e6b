//! A token as received; any sender can have made it.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::Algorithm;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Map, Value};

use crate::error::TokenError;
use crate::first_claims::{FirstClaim, FirstClaims};

/// The maximum length of a token in bytes, as in AWS.
pub const TOKEN_BYTES_MAX: usize = 20_000;

/// A parsed token whose signature is not verified, so any sender can have made its content.
pub struct UnverifiedToken<'a> {
    /// The text that the signature covers: the header and the claims, in base64 and separated by a
    /// dot.
    pub(crate) signed: &'a str,
    pub(crate) signature: &'a str,
    pub(crate) algorithm: Algorithm,
    pub(crate) key_id: Option<String>,
    pub(crate) claims: FirstClaims,
    all_claims: &'a str,
}

/// The members of the header that are used. Keys, certificates and URLs in the header are ignored,
/// because a token must not supply its own key.
#[derive(Deserialize)]
struct Header {
    alg: Algorithm,
    kid: Option<String>,
    crit: Option<IgnoredAny>,
}

impl<'a> UnverifiedToken<'a> {
    /// Parses a token: a signed JSON web token (RFC 7519). Verifies nothing.
    ///
    /// Fails with `TooLong`, `Malformed`, or `Algorithm` for a token that is not signed with a
    /// private key.
    pub fn parse(text: &'a str) -> Result<UnverifiedToken<'a>, TokenError> {
        // The length is checked first, before anything is decoded.
        if text.len() > TOKEN_BYTES_MAX {
            return Err(TokenError::TooLong);
        }
        // The signature covers the text up to the last dot exactly as it was sent.
        let (signed, signature) = text.rsplit_once('.').ok_or(TokenError::Malformed)?;
        let (header, all_claims) = signed.split_once('.').ok_or(TokenError::Malformed)?;
        let header: Header = read(header)?;
        let symmetric =
            matches!(header.alg, Algorithm::HS256 | Algorithm::HS384 | Algorithm::HS512);
        // An extension in `crit` changes the meaning of the token, and no extension is implemented.
        if symmetric || header.crit.is_some() {
            return Err(TokenError::Algorithm);
        }
        let (algorithm, key_id, claims) = (header.alg, header.kid, read(all_claims)?);
        Ok(UnverifiedToken { signed, signature, algorithm, key_id, claims, all_claims })
    }

    /// Returns the URL of the issuer that the token names; `None` if the claim is missing or not a
    /// text.
    pub fn issuer(&self) -> Option<&str> {
        self.claims.iss.text()
    }

    /// Returns true if the token names one of the `audiences`, that is, one of the services for
    /// which the caller accepts tokens.
    pub fn is_for(&self, audiences: &[String]) -> bool {
        self.audience(audiences).is_some()
    }

    /// Returns the first of the `audiences` (names of services) that the token names; `None` if it
    /// names none.
    pub(crate) fn audience(&self, audiences: &[String]) -> Option<String> {
        let named = |audience: &String| match &self.claims.aud {
            FirstClaim::Text(one) => one == audience,
            FirstClaim::Texts(several) => several.contains(audience),
            FirstClaim::Absent | FirstClaim::Other | FirstClaim::Whole(_) => false,
        };
        audiences.iter().find(|audience| named(audience)).cloned()
    }

    /// Returns all claims of the token. They use many times the memory of their text, so the caller
    /// verifies the signature first.
    ///
    /// Fails with `Malformed` if the claims are not a JSON object.
    pub(crate) fn all_claims(&self) -> Result<Map<String, Value>, TokenError> {
        read(self.all_claims)
    }
}

/// Parses the JSON in a part of a token, which is in base64. Fails with `Malformed`.
fn read<T: DeserializeOwned>(part: &str) -> Result<T, TokenError> {
    let text = URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenError::Malformed)?;
    serde_json::from_slice(&text).map_err(|_| TokenError::Malformed)
}

/// Omits the token itself, because it is a credential.
impl std::fmt::Debug for UnverifiedToken<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UnverifiedToken")
            .field("issuer", &self.issuer())
            .field("algorithm", &self.algorithm)
            .field("key_id", &self.key_id)
            .finish_non_exhaustive()
    }
}
