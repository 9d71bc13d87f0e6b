//! A token as it arrives, which anybody may have made.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::Algorithm;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Map, Value};

use crate::error::TokenError;
use crate::first_claims::{FirstClaim, FirstClaims};

/// The longest token that is looked at, in bytes: what AWS allows.
pub const TOKEN_BYTES_MAX: usize = 20_000;

/// A token that nobody has verified.
pub struct UnverifiedToken<'a> {
    /// What its signature is about: the header and the claims.
    pub(crate) signed: &'a str,
    pub(crate) signature: &'a str,
    pub(crate) algorithm: Algorithm,
    pub(crate) key_id: Option<String>,
    pub(crate) claims: FirstClaims,
    all_claims: &'a str,
}

/// What is read of the header. Keys, certificates and addresses in it are passed over: a key that a
/// token brings along is worth nothing.
#[derive(Deserialize)]
struct Header {
    alg: Algorithm,
    kid: Option<String>,
    crit: Option<IgnoredAny>,
}

impl<'a> UnverifiedToken<'a> {
    /// Takes a token apart.
    ///
    /// Errors: `TooLong`, `Malformed`, and `Algorithm` for those that are not signed with a private
    /// key.
    pub fn parse(text: &'a str) -> Result<UnverifiedToken<'a>, TokenError> {
        if text.len() > TOKEN_BYTES_MAX {
            return Err(TokenError::TooLong);
        }
        let (signed, signature) = text.rsplit_once('.').ok_or(TokenError::Malformed)?;
        let (header, all_claims) = signed.split_once('.').ok_or(TokenError::Malformed)?;
        let header: Header = read(header)?;
        let symmetric =
            matches!(header.alg, Algorithm::HS256 | Algorithm::HS384 | Algorithm::HS512);
        // What `crit` names changes what the token means, and none of it is known here.
        if symmetric || header.crit.is_some() {
            return Err(TokenError::Algorithm);
        }
        let (algorithm, key_id, claims) = (header.alg, header.kid, read(all_claims)?);
        Ok(UnverifiedToken { signed, signature, algorithm, key_id, claims, all_claims })
    }

    /// Which issuer it claims to be of.
    pub fn issuer(&self) -> Option<&str> {
        self.claims.iss.text()
    }

    /// Whether it claims to be meant for one of these.
    pub fn is_for(&self, audiences: &[String]) -> bool {
        self.audience(audiences).is_some()
    }

    /// The first of these that it claims to be meant for.
    pub(crate) fn audience(&self, audiences: &[String]) -> Option<String> {
        let named = |audience: &String| match &self.claims.aud {
            FirstClaim::Text(one) => one == audience,
            FirstClaim::Texts(several) => several.contains(audience),
            _ => false,
        };
        audiences.iter().find(|audience| named(audience)).cloned()
    }

    /// All that it says, which takes many times the memory of its text. So this is for tokens whose
    /// signature was verified.
    ///
    /// Error: `Malformed`.
    pub(crate) fn all_claims(&self) -> Result<Map<String, Value>, TokenError> {
        read(self.all_claims)
    }
}

/// Reads the JSON in a part of a token.
fn read<T: DeserializeOwned>(part: &str) -> Result<T, TokenError> {
    let text = URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenError::Malformed)?;
    serde_json::from_slice(&text).map_err(|_| TokenError::Malformed)
}

/// A token is as good as a password, so it is never printed.
impl std::fmt::Debug for UnverifiedToken<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UnverifiedToken")
            .field("issuer", &self.issuer())
            .field("algorithm", &self.algorithm)
            .field("key_id", &self.key_id)
            .finish_non_exhaustive()
    }
}
