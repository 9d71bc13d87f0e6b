//! An issuer, and whether a token is one of its.

use std::sync::Arc;

use runtime::Tasks;
use time::OffsetDateTime;

use crate::claims::{Claims, check};
use crate::discovery;
use crate::error::{IssuerError, TokenError};
use crate::fetch::Fetcher;
use crate::key_cache::KeyCache;
use crate::token::UnverifiedToken;

/// What an operator says about an issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuerSettings {
    /// Its URL, as it stands in `iss`.
    pub url: String,
    /// The certificates that it is known by, in PEM, instead of those of the system.
    pub authorities: Option<Vec<u8>>,
    /// Whether it may be asked over plain HTTP, although it is on another machine.
    pub allow_http: bool,
}

/// An issuer of tokens.
#[derive(Debug)]
pub struct Issuer {
    url: String,
    keys: Arc<KeyCache>,
}

impl Issuer {
    /// An issuer that is asked for its keys as soon as the first token comes. `tasks` run the
    /// questions.
    ///
    /// Errors: a URL that cannot be asked; certificates that cannot be used.
    pub fn new(settings: IssuerSettings, tasks: Tasks) -> Result<Issuer, IssuerError> {
        let fetcher = Fetcher::new(settings.authorities.as_deref(), settings.allow_http)?;
        discovery::configuration_url(&fetcher, &settings.url).map_err(IssuerError::Url)?;
        let keys = KeyCache::new(settings.url.clone(), fetcher, tasks);
        Ok(Issuer { url: settings.url, keys })
    }

    /// Its URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Verifies that it made a token, for one of these audiences, and that the token counts now.
    ///
    /// What costs nothing is looked at first, so a forged token may be refused for what it says.
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
