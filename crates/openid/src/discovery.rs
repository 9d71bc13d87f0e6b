//! OpenID discovery: fetches the keys of an issuer.
//!
//! The configuration of an issuer is at a well-known path below its URL, and contains the URL of
//! its keys. For example, the configuration of `https://idp.example.com` is at
//! `https://idp.example.com/.well-known/openid-configuration`.

use serde::Deserialize;
use tokio::time::timeout;
use url::Url;

use crate::fetch::{FETCH_DEADLINE, Fetcher};
use crate::keys::KeySet;

/// The path of the OpenID configuration document below the issuer's URL.
const WELL_KNOWN: &str = "/.well-known/openid-configuration";

/// The members of the issuer's configuration document that this module uses.
#[derive(Deserialize)]
struct Configuration {
    issuer: String,
    jwks_uri: String,
}

/// The maximum length of an error text in characters. It can contain text from the issuer.
const ERROR_CHARS_MAX: usize = 600;

/// The maximum length of a text from the issuer that an error text quotes, in characters.
const QUOTED_CHARS_MAX: usize = 200;

/// Fetches the public keys of an issuer, from the URL that its configuration names. The error is a
/// text for the operator.
pub(crate) async fn keys(fetcher: &Fetcher, issuer: &str) -> Result<KeySet, String> {
    // One deadline covers both documents, so a slow issuer cannot use it twice.
    let late = |_| Err(format!("it does not answer within {} s", FETCH_DEADLINE.as_secs()));
    let keys = timeout(FETCH_DEADLINE, fetch_keys(fetcher, issuer)).await.unwrap_or_else(late);
    keys.map_err(|error| truncated(&error, ERROR_CHARS_MAX))
}

/// Fetches the issuer's configuration document, then the public keys at the URL in it. Fails if the
/// configuration names another issuer.
async fn fetch_keys(fetcher: &Fetcher, issuer: &str) -> Result<KeySet, String> {
    let place = configuration_url(fetcher, issuer)?;
    let document = fetcher.get(&place).await?;
    let found: Configuration = serde_json::from_slice(&document).map_err(|error| {
        format!("the document at {place} is not an OpenID configuration: {error}")
    })?;
    // Otherwise this issuer's keys would be accepted for tokens of another issuer.
    if found.issuer != issuer {
        return Err(format!(
            "its configuration names the issuer {:?}",
            truncated(&found.issuer, QUOTED_CHARS_MAX)
        ));
    }
    let keys = keys_url(fetcher, &place, &found.jwks_uri).map_err(|why| {
        format!("its jwks_uri {:?}: {why}", truncated(&found.jwks_uri, QUOTED_CHARS_MAX))
    })?;
    KeySet::parse(&fetcher.get(&keys).await?)
}

/// Checks and returns `jwks_uri`, the URL of the keys in the configuration that was fetched from
/// `place`. If the configuration was fetched over TLS, the keys must be, too, even if plain HTTP is
/// allowed.
fn keys_url(fetcher: &Fetcher, place: &Url, jwks_uri: &str) -> Result<Url, &'static str> {
    let keys = fetcher.check(jwks_uri)?;
    if place.scheme() == "https" && keys.scheme() != "https" {
        return Err("it uses plain http, although the issuer uses https");
    }
    Ok(keys)
}

/// Returns the URL of an issuer's configuration document. Fails with the reason if the issuer's URL
/// may not be requested.
pub(crate) fn configuration_url(fetcher: &Fetcher, issuer: &str) -> Result<Url, &'static str> {
    fetcher.check(&format!("{}{WELL_KNOWN}", issuer.trim_end_matches('/')))
}

/// Returns the first `chars_max` characters of a text, so that it does not fill the log.
fn truncated(text: &str, chars_max: usize) -> String {
    text.chars().take(chars_max).collect()
}

#[cfg(test)]
mod tests;
