//! How an issuer tells its keys: a document at a place that follows from its URL names another one.

use serde::Deserialize;
use tokio::time::timeout;
use url::Url;

use crate::fetch::{FETCH_DEADLINE, Fetcher};
use crate::keys::KeySet;

/// What is behind an issuer's URL.
const WELL_KNOWN: &str = "/.well-known/openid-configuration";

/// What is read of the document.
#[derive(Deserialize)]
struct Configuration {
    issuer: String,
    jwks_uri: String,
}

/// The longest sentence about what went wrong, in characters. What an issuer has answered may stand
/// in it.
const ERROR_CHARS_MAX: usize = 600;

/// The most of a text of an issuer that is repeated in a sentence, in characters.
const QUOTED_CHARS_MAX: usize = 200;

/// Asks an issuer for its keys. Error: a sentence for the operator.
pub(crate) async fn keys(fetcher: &Fetcher, issuer: &str) -> Result<KeySet, String> {
    let late = |_| Err(format!("it does not answer within {} s", FETCH_DEADLINE.as_secs()));
    let keys = timeout(FETCH_DEADLINE, fetch_keys(fetcher, issuer)).await.unwrap_or_else(late);
    keys.map_err(|error| truncated(&error, ERROR_CHARS_MAX))
}

async fn fetch_keys(fetcher: &Fetcher, issuer: &str) -> Result<KeySet, String> {
    let place = configuration_url(fetcher, issuer)?;
    let document = fetcher.get(&place).await?;
    let found: Configuration = serde_json::from_slice(&document)
        .map_err(|error| format!("what is at {place} is no configuration of OpenID: {error}"))?;
    if found.issuer != issuer {
        // It would be believed for tokens of another issuer.
        return Err(format!("it calls itself {:?}", truncated(&found.issuer, QUOTED_CHARS_MAX)));
    }
    let keys = keys_url(fetcher, &place, &found.jwks_uri).map_err(|why| {
        format!("its jwks_uri {:?}: {why}", truncated(&found.jwks_uri, QUOTED_CHARS_MAX))
    })?;
    KeySet::parse(&fetcher.get(&keys).await?)
}

/// Where an issuer's keys are, by its configuration at `place`. TLS is not given up on the way there,
/// although plain http may be allowed otherwise.
fn keys_url(fetcher: &Fetcher, place: &Url, jwks_uri: &str) -> Result<Url, &'static str> {
    let keys = fetcher.check(jwks_uri)?;
    if place.scheme() == "https" && keys.scheme() != "https" {
        return Err("it is plain http, although the issuer is asked over https");
    }
    Ok(keys)
}

/// Where an issuer's configuration is.
pub(crate) fn configuration_url(fetcher: &Fetcher, issuer: &str) -> Result<Url, &'static str> {
    fetcher.check(&format!("{}{WELL_KNOWN}", issuer.trim_end_matches('/')))
}

/// As much of a text as a line of a log may take up.
fn truncated(text: &str, chars_max: usize) -> String {
    text.chars().take(chars_max).collect()
}

#[cfg(test)]
mod tests;
