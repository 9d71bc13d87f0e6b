//! An issuer of tokens, and the verification of its tokens.

use std::sync::Arc;

use runtime::Tasks;
use time::OffsetDateTime;

use crate::claims::{Claims, check};
use crate::discovery;
use crate::endpoints::EndpointCache;
use crate::error::{IssuerError, TokenError};
use crate::fetch::Fetcher;
use crate::key_cache::KeyCache;
use crate::token::UnverifiedToken;

/// The operator's settings of an issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuerSettings {
    /// The issuer's URL, exactly as in the claim `iss`.
    pub url: String,
    /// The certificate authorities that may sign its TLS certificate, in PEM; `None` for those of
    /// the system.
    pub authorities: Option<Vec<u8>>,
    /// True if requests over plain HTTP are allowed, even if the issuer is on another machine.
    pub allow_http: bool,
}

/// An OpenID issuer: a service that authenticates users and signs tokens about them. It is
/// identified by its URL.
#[derive(Debug)]
pub struct Issuer {
    url: String,
    keys: Arc<KeyCache>,
    pub(crate) fetcher: Fetcher,
    pub(crate) endpoints: EndpointCache,
}

impl Issuer {
    /// Returns an issuer of tokens. Its public keys are fetched when the first token arrives;
    /// `tasks` runs these requests.
    ///
    /// Fails with `IssuerError` for a URL that cannot be used, and for certificates that cannot be
    /// used.
    pub fn new(settings: IssuerSettings, tasks: Tasks) -> Result<Issuer, IssuerError> {
        let fetcher = Fetcher::new(settings.authorities.as_deref(), settings.allow_http)?;
        discovery::configuration_url(&fetcher, &settings.url).map_err(IssuerError::Url)?;
        let keys = KeyCache::new(settings.url.clone(), fetcher.clone(), tasks.clone());
        let endpoints = EndpointCache::new(settings.url.clone(), fetcher.clone(), tasks);
        Ok(Issuer { url: settings.url, keys, fetcher, endpoints })
    }

    /// Returns the issuer's URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Verifies that the issuer signed the token for one of the `audiences` (names of services),
    /// and that the token is valid at `now`. Returns the claims of the token.
    ///
    /// The checks without cost come first, so a forged token may be refused for its claims.
    ///
    /// Fails with any variant of `TokenError`, except those that only the parser returns: `TooLong`
    /// and `Algorithm`.
    pub async fn verify(
        &self,
        token: &UnverifiedToken<'_>,
        audiences: &[String],
        now: OffsetDateTime,
    ) -> Result<Claims, TokenError> {
        if token.issuer() != Some(self.url.as_str()) {
            return Err(TokenError::Issuer);
        }
        let checked = check(token, audiences, now)?;
        self.keys.verify(token).await?;
        Ok(checked.with_claims(token.all_claims()?))
    }
}

#[cfg(test)]
mod tests;
