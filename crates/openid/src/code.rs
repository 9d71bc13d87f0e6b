//! Logins with a browser: the authorization code flow with a proof key (RFC 7636, `S256`).
//!
//! ```text
//! browser --> authorization_url --> login at the issuer --> redirect URL?code=…&state=… --> redeem
//! ```
//!
//! The caller makes three random texts for each login: `state`, which binds the return to the
//! browser; `nonce`, which binds the token to the login; and the verifier, which binds the code to
//! this service. For example, an attacker who reads a code from a log cannot redeem it without the
//! verifier, of which the issuer's page saw only the hash.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::StatusCode;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use tokio::time::timeout;
use url::form_urlencoded::{Serializer, byte_serialize};

use crate::claims::{ClaimTexts, Claims};
use crate::discovery::Endpoints;
use crate::error::TokenError;
use crate::fetch::FETCH_DEADLINE;
use crate::issuer::Issuer;
use crate::token::UnverifiedToken;

/// The limit of characters of a text of an issuer that is shown to a person.
const SHOWN_CHARS_MAX: usize = 300;

/// This service as a client of an issuer.
#[derive(Clone, PartialEq, Eq)]
pub struct CodeClient {
    /// The id under which the issuer knows this service. Tokens have it as their audience.
    pub id: String,
    /// The secret of the client; `None` for a client that has none.
    pub secret: Option<String>,
    /// The URL to which the issuer sends the browser back, exactly as the issuer knows it.
    pub redirect_url: String,
    /// Scopes to ask for, in addition to `openid`.
    pub scopes: Vec<String>,
}

/// Omits the secret.
impl fmt::Debug for CodeClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("CodeClient");
        shown.field("id", &self.id).field("redirect_url", &self.redirect_url);
        shown.finish_non_exhaustive()
    }
}

/// The random texts of one login.
#[derive(Clone, Copy)]
pub struct CodeRequest<'a> {
    /// The text with which the browser must return.
    pub state: &'a str,
    /// The text that the token must contain.
    pub nonce: &'a str,
    /// The proof key: 43 to 128 letters, digits and `- . _ ~`.
    pub verifier: &'a str,
}

/// Omits the texts, which are credentials until the login ends.
impl fmt::Debug for CodeRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CodeRequest").finish_non_exhaustive()
    }
}

/// The error of an issuer, in its own words. The texts are not trusted: a page escapes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderError {
    /// The code, such as `access_denied`.
    pub code: String,
    /// The description; empty if there is none.
    pub description: String,
}

impl ProviderError {
    /// Returns an error with at most 300 characters of each text, without control characters.
    pub fn new(code: &str, description: &str) -> ProviderError {
        let shown = |text: &str| -> String {
            text.chars().filter(|char| !char.is_control()).take(SHOWN_CHARS_MAX).collect()
        };
        ProviderError { code: shown(code), description: shown(description) }
    }
}

/// The reason why a login at an issuer fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodeError {
    /// The issuer does not answer, or its answer cannot be used. The value is the reason, for the
    /// operator.
    #[error("{0}")]
    Unreachable(String),
    /// The issuer refuses the code.
    #[error("the issuer answers {}", .0.code)]
    Refused(ProviderError),
    /// The issuer's token is refused.
    #[error("{0}")]
    Token(#[from] TokenError),
    /// The token is of another login: it has another `nonce`, or none.
    #[error("the token is of another login")]
    Nonce,
    /// The token was made for another client: `azp` names it.
    #[error("the token was made for another client")]
    Party,
}

/// The answer to a code that the issuer accepts.
#[derive(Deserialize)]
struct Granted {
    id_token: String,
}

/// The answer to a code that the issuer refuses.
#[derive(Deserialize)]
struct Denied {
    error: String,
    error_description: Option<String>,
}

impl Issuer {
    /// Returns the URL of the issuer's page at which a person logs in. May have to fetch the
    /// issuer's endpoints.
    ///
    /// Fails with `Unreachable`.
    pub async fn authorization_url(
        &self,
        client: &CodeClient,
        request: CodeRequest<'_>,
    ) -> Result<String, CodeError> {
        let endpoints = self.endpoints.get().await.map_err(CodeError::Unreachable)?;
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(request.verifier));
        let mut scope = "openid".to_owned();
        for wanted in client.scopes.iter().filter(|wanted| *wanted != "openid") {
            scope.push(' ');
            scope.push_str(wanted);
        }
        let mut url = endpoints.authorization.clone();
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &client.id)
            .append_pair("redirect_uri", &client.redirect_url)
            .append_pair("scope", &scope)
            .append_pair("state", request.state)
            .append_pair("nonce", request.nonce)
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256");
        Ok(url.into())
    }

    /// Exchanges the code with which a browser returned for a token, verifies the token at `now`,
    /// and returns its claims.
    ///
    /// Fails with any variant of `CodeError`.
    pub async fn redeem(
        &self,
        client: &CodeClient,
        code: &str,
        request: CodeRequest<'_>,
        now: OffsetDateTime,
    ) -> Result<Claims, CodeError> {
        let endpoints = self.endpoints.get().await.map_err(CodeError::Unreachable)?;
        let exchange = self.exchange(&endpoints, client, code, request.verifier);
        let late = |_| {
            let seconds = FETCH_DEADLINE.as_secs();
            Err(CodeError::Unreachable(format!("it does not answer within {seconds} s")))
        };
        let id_token = timeout(FETCH_DEADLINE, exchange).await.unwrap_or_else(late)?;
        let token = UnverifiedToken::parse(&id_token)?;
        let claims = self.verify(&token, std::slice::from_ref(&client.id), now).await?;
        if claims.texts("nonce") != ClaimTexts::Texts(vec![request.nonce.to_owned()]) {
            return Err(CodeError::Nonce);
        }
        match claims.texts("azp") {
            ClaimTexts::Absent => Ok(claims),
            ClaimTexts::Texts(party) if party == [client.id.as_str()] => Ok(claims),
            ClaimTexts::Texts(_) | ClaimTexts::Malformed => Err(CodeError::Party),
        }
    }

    /// Sends the code to the issuer, and returns the token, which is not verified.
    async fn exchange(
        &self,
        endpoints: &Endpoints,
        client: &CodeClient,
        code: &str,
        verifier: &str,
    ) -> Result<String, CodeError> {
        let in_form = client.secret.as_deref().filter(|_| endpoints.secret_in_form);
        let form = exchange_form(client, code, verifier, in_form);
        let in_header = client.secret.as_deref().filter(|_| !endpoints.secret_in_form);
        let authorization = in_header.map(|secret| basic(&client.id, secret));
        let sent = self.fetcher.post(&endpoints.token, form, authorization.as_deref());
        let (status, document) = sent.await.map_err(CodeError::Unreachable)?;
        if status == StatusCode::OK {
            // The text of the error could quote the document, which has credentials.
            let granted: Result<Granted, _> = serde_json::from_slice(&document);
            let no_token = "its token endpoint answers without an id_token".to_owned();
            return granted.map(|it| it.id_token).map_err(|_| CodeError::Unreachable(no_token));
        }
        let denied: Result<Denied, _> = serde_json::from_slice(&document);
        Err(match denied {
            Ok(Denied { error, error_description }) => CodeError::Refused(ProviderError::new(
                &error,
                error_description.as_deref().unwrap_or_default(),
            )),
            Err(_) => CodeError::Unreachable(format!("its token endpoint answers {status}")),
        })
    }
}

/// Returns the form that exchanges a code for a token. `secret` is that of the client, if the form
/// has it.
fn exchange_form(client: &CodeClient, code: &str, verifier: &str, secret: Option<&str>) -> String {
    let mut form = Serializer::new(String::new());
    form.append_pair("grant_type", "authorization_code")
        .append_pair("code", code)
        .append_pair("redirect_uri", &client.redirect_url)
        .append_pair("client_id", &client.id)
        .append_pair("code_verifier", verifier);
    if let Some(secret) = secret {
        form.append_pair("client_secret", secret);
    }
    form.finish()
}

/// Returns the header `Authorization` of a client with a secret (RFC 6749, section 2.3.1).
fn basic(id: &str, secret: &str) -> String {
    let escaped = |text: &str| -> String { byte_serialize(text.as_bytes()).collect() };
    let pair = format!("{}:{}", escaped(id), escaped(secret));
    format!("Basic {}", STANDARD.encode(pair))
}

#[cfg(test)]
mod tests;
