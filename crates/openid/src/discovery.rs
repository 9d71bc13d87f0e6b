//! OpenID discovery: fetches the keys and the endpoints of an issuer.
//!
//! The configuration of an issuer is at a well-known path below its URL, and contains the URLs of
//! its keys and of its endpoints. For example, the configuration of `https://idp.example.com` is at
//! `https://idp.example.com/.well-known/openid-configuration`.

use bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use url::Url;

use crate::fetch::{FETCH_DEADLINE, Fetcher};
use crate::keys::KeySet;

/// The path of the OpenID configuration document below the issuer's URL.
const WELL_KNOWN: &str = "/.well-known/openid-configuration";

/// The member of the configuration document that names its issuer.
#[derive(Deserialize)]
struct Named {
    issuer: String,
}

/// The member of the configuration document with the URL of the keys.
#[derive(Deserialize)]
struct KeysMember {
    jwks_uri: String,
}

/// The members of the configuration document about logins. They are parsed apart from the others,
/// so that an issuer without logins can have any text there.
#[derive(Deserialize)]
struct LoginMembers {
    authorization_endpoint: String,
    token_endpoint: String,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
}

/// The endpoints of an issuer for logins.
#[derive(Debug)]
pub(crate) struct Endpoints {
    /// The page to which browsers go.
    pub(crate) authorization: Url,
    /// The URL at which this service redeems codes.
    pub(crate) token: Url,
    /// True if the issuer accepts the secret of a client in the form alone, and not in a header.
    pub(crate) secret_in_form: bool,
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

/// Fetches the endpoints of an issuer for logins. The error is a text for the operator.
pub(crate) async fn endpoints(fetcher: &Fetcher, issuer: &str) -> Result<Endpoints, String> {
    let late = |_| Err(format!("it does not answer within {} s", FETCH_DEADLINE.as_secs()));
    let found = timeout(FETCH_DEADLINE, fetch_endpoints(fetcher, issuer)).await;
    found.unwrap_or_else(late).map_err(|error| truncated(&error, ERROR_CHARS_MAX))
}

async fn fetch_endpoints(fetcher: &Fetcher, issuer: &str) -> Result<Endpoints, String> {
    let (place, document) = configuration(fetcher, issuer).await?;
    let found: LoginMembers = parse(&place, &document)?;
    let endpoint = |name: &str, text: &str| {
        let url = fetcher.check_endpoint(text).and_then(|url| as_safe_as(&place, url));
        url.map_err(|why| format!("its {name} {:?}: {why}", truncated(text, QUOTED_CHARS_MAX)))
    };
    // Without this member, an issuer supports the header (RFC 8414, section 2).
    let methods = found.token_endpoint_auth_methods_supported.unwrap_or_default();
    let has = |method: &str| methods.iter().any(|known| known == method);
    Ok(Endpoints {
        authorization: endpoint("authorization_endpoint", &found.authorization_endpoint)?,
        token: endpoint("token_endpoint", &found.token_endpoint)?,
        secret_in_form: has("client_secret_post") && !has("client_secret_basic"),
    })
}

/// Fetches the issuer's configuration document, then the public keys at the URL in it.
async fn fetch_keys(fetcher: &Fetcher, issuer: &str) -> Result<KeySet, String> {
    let (place, document) = configuration(fetcher, issuer).await?;
    let found: KeysMember = parse(&place, &document)?;
    let keys = fetcher.check(&found.jwks_uri).and_then(|url| as_safe_as(&place, url));
    let keys = keys.map_err(|why| {
        format!("its jwks_uri {:?}: {why}", truncated(&found.jwks_uri, QUOTED_CHARS_MAX))
    })?;
    KeySet::parse(&fetcher.get(&keys).await?)
}

/// Fetches the issuer's configuration document. Returns its URL and its text. Fails if the document
/// names another issuer.
async fn configuration(fetcher: &Fetcher, issuer: &str) -> Result<(Url, Bytes), String> {
    let place = configuration_url(fetcher, issuer)?;
    let document = fetcher.get(&place).await?;
    let found: Named = parse(&place, &document)?;
    // Otherwise this issuer's keys would be accepted for tokens of another issuer.
    if found.issuer != issuer {
        return Err(format!(
            "its configuration names the issuer {:?}",
            truncated(&found.issuer, QUOTED_CHARS_MAX)
        ));
    }
    Ok((place, document))
}

fn parse<T: DeserializeOwned>(place: &Url, document: &[u8]) -> Result<T, String> {
    serde_json::from_slice(document)
        .map_err(|error| format!("the document at {place} is not an OpenID configuration: {error}"))
}

/// Returns a URL of the configuration document that was fetched from `place`. If the document was
/// fetched over TLS, the URL must use TLS, too, even if plain HTTP is allowed.
fn as_safe_as(place: &Url, url: Url) -> Result<Url, &'static str> {
    if place.scheme() == "https" && url.scheme() != "https" {
        return Err("it uses plain http, although the issuer uses https");
    }
    Ok(url)
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
