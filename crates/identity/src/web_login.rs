//! Logins of people at an OpenID issuer, with a browser.
//!
//! No record and no memory holds a login that has begun: its facts are in an *attempt*, which the
//! browser keeps as a cookie, sealed as a ticket is. So the browser may return to another gateway
//! of the volume. The view removes the cookie and spends the attempt at the return.
//!
//! For example, `anna` presses "Log in with Keycloak", and the view sets the cookie and sends the
//! browser to the issuer. The browser returns with a code and the `state`. The view opens the
//! attempt, compares the `state`, and finishes the login with the code.
//!
//! ```text
//! begin_web_login --> cookie, page of the issuer --> open_web_login --> finish_web_login --> Login
//!                                                        └--> WebLoginError after WEB_LOGIN_WAIT
//! ```

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use openid::{CodeError, CodeRequest};
use s3::{Code, Fault};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;
use time::OffsetDateTime;

use crate::access::{Access, MasterKey, NewSession, Secret, WebRole};
use crate::assume_role::{identity, refused};
use crate::login::{LOGIN_MAX, Login, TICKET_BYTES_MAX, random};

/// The time within which a person must return from the issuer.
pub const WEB_LOGIN_WAIT: Duration = Duration::from_mins(10);

/// The purpose of the key that seals attempts.
const ATTEMPT_PURPOSE: &str = "console web login";

/// The name to which the encryption of an attempt is bound. No access key contains a slash.
const SEAL_NAME: &str = "console/web-login";

/// The limit of the path that is opened after the login, in bytes. After a longer one, the first
/// page is opened.
const NEXT_BYTES_MAX: usize = 1_024;

/// The limit of a code in bytes. The longest known ones, of Entra, have less than 2 KiB.
const CODE_BYTES_MAX: usize = 4 << 10;

/// The name of a session whose subject is no legal name of one.
const SESSION_NAME: &str = "console";

/// The number of random bytes in a state, a nonce and a verifier.
const RANDOM_BYTES: usize = 32;

/// An issuer at which people can log in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebLoginOffer {
    /// The ARN of the role, which the view sends to [`Access::begin_web_login`].
    pub role: String,
    /// The name of the issuer for people.
    pub label: String,
}

/// A login that has begun.
#[derive(Debug)]
pub struct BegunWebLogin {
    /// The page of the issuer.
    pub location: String,
    /// The sealed attempt, for a cookie.
    pub cookie: Secret,
}

/// The facts of a login that has begun, which only this volume can read.
#[derive(Deserialize, Serialize)]
pub struct WebLoginAttempt {
    role: String,
    state: String,
    nonce: String,
    verifier: String,
    next: String,
    /// The time at which the login began, in seconds since 1970.
    began: i64,
}

/// Omits the texts, which are credentials until the login ends.
impl std::fmt::Debug for WebLoginAttempt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WebLoginAttempt").field("role", &self.role).finish_non_exhaustive()
    }
}

/// A login that has succeeded.
#[derive(Debug)]
pub struct FinishedWebLogin {
    /// The login, for a ticket.
    pub login: Login,
    /// The name of the user at the issuer.
    pub subject: String,
    /// The name of the role.
    pub role: String,
    /// The names of the user's policies: those of the role, and those that the token names.
    pub policies: Vec<String>,
}

/// The reason why a login at an issuer fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WebLoginError {
    /// There is no role of this name, or its users cannot log in with a browser.
    #[error("there is no such login")]
    NoLogin,
    /// The browser has no attempt of this volume.
    #[error("the login was not begun in this browser")]
    NotBegun,
    /// The login began more than [`WEB_LOGIN_WAIT`] ago.
    #[error("the login took too long")]
    Late,
    /// The browser returned from another issuer than the one to which it was sent.
    #[error("the answer comes from another issuer")]
    OtherIssuer,
    /// The code is empty or too long.
    #[error("the code is malformed")]
    Code,
    /// The issuer does not answer, refuses the code, or gives a token that is refused.
    #[error("{0}")]
    Issuer(#[from] CodeError),
    /// The role does not admit the user, or its policies cannot be used.
    #[error("{}", .0.message)]
    Refused(Fault),
}

impl From<Fault> for WebLoginError {
    fn from(fault: Fault) -> WebLoginError {
        WebLoginError::Refused(fault)
    }
}

impl WebLoginAttempt {
    /// Returns true if the browser has returned with the `state` of this attempt. The time does not
    /// depend on the text.
    pub fn has_state(&self, state: &str) -> bool {
        self.state.as_bytes().ct_eq(state.as_bytes()).into()
    }

    /// Returns the `state`, which identifies the attempt.
    pub fn state(&self) -> &str {
        &self.state
    }

    /// Returns the ARN of the role.
    pub fn role(&self) -> &str {
        &self.role
    }

    /// Returns the path to open after the login, as the view gave it.
    pub fn next(&self) -> &str {
        &self.next
    }

    fn request(&self) -> CodeRequest<'_> {
        CodeRequest { state: &self.state, nonce: &self.nonce, verifier: &self.verifier }
    }
}

impl Access {
    /// Returns the issuers at which people can log in, in the order of the settings.
    pub fn web_logins(&self) -> Vec<WebLoginOffer> {
        let roles = self.web_roles();
        let offered = roles.iter().filter_map(|role| {
            let login = role.login.as_ref()?;
            Some(WebLoginOffer { role: role.arn(), label: login.label.clone() })
        });
        offered.collect()
    }

    /// Begins a login of a user of a role, by its ARN. `next` is a path of the view. May have to
    /// fetch the issuer's endpoints.
    ///
    /// # Errors
    /// `NoLogin`; `Issuer` if the issuer does not answer; `Refused` if the machine gives no random
    /// bytes.
    pub async fn begin_web_login(
        &self,
        role: &str,
        next: &str,
        now: OffsetDateTime,
    ) -> Result<BegunWebLogin, WebLoginError> {
        let found = self.web_login_role(role).ok_or(WebLoginError::NoLogin)?;
        let login = found.login.as_ref().ok_or(WebLoginError::NoLogin)?;
        let text = || random::<RANDOM_BYTES>().map(|bytes| URL_SAFE_NO_PAD.encode(bytes));
        let attempt = WebLoginAttempt {
            role: role.to_owned(),
            state: text()?,
            nonce: text()?,
            verifier: text()?,
            next: if next.len() <= NEXT_BYTES_MAX { next } else { "/" }.to_owned(),
            began: now.unix_timestamp(),
        };
        let location = found.issuer.authorization_url(&login.client, attempt.request()).await?;
        let text = serde_json::to_string(&attempt);
        let text = text.map_err(|_| Fault::from(Code::InternalError))?;
        let nonce = random::<{ MasterKey::NONCE_BYTES }>()?;
        let sealed = self.attempt_key().seal(SEAL_NAME, &Secret::new(text), nonce);
        Ok(BegunWebLogin { location, cookie: Secret::new(URL_SAFE_NO_PAD.encode(sealed)) })
    }

    /// Returns the attempt in the cookie of a browser.
    ///
    /// # Errors
    /// `NotBegun` and `Late`.
    pub fn open_web_login(
        &self,
        cookie: &str,
        now: OffsetDateTime,
    ) -> Result<WebLoginAttempt, WebLoginError> {
        // A longer cookie is never set, so no work is spent on one.
        let bytes = Some(cookie).filter(|cookie| cookie.len() <= TICKET_BYTES_MAX);
        let bytes = bytes.and_then(|cookie| URL_SAFE_NO_PAD.decode(cookie).ok());
        let bytes = bytes.ok_or(WebLoginError::NotBegun)?;
        let text = self.attempt_key().open(SEAL_NAME, &bytes);
        let text = text.map_err(|_| WebLoginError::NotBegun)?;
        let attempt: WebLoginAttempt =
            serde_json::from_str(text.expose()).map_err(|_| WebLoginError::NotBegun)?;
        let age = now.unix_timestamp().saturating_sub(attempt.began);
        // The clock of another gateway may be a little ahead, so an age below 0 is no error.
        if age >= WEB_LOGIN_WAIT.as_secs().cast_signed() {
            return Err(WebLoginError::Late);
        }
        Ok(attempt)
    }

    /// Finishes a login with the code that the browser brought from the issuer. `issuer` is the URL
    /// with which the issuer identifies itself (RFC 9207), if it does.
    ///
    /// The caller has compared the `state` before, and finishes an attempt once.
    ///
    /// # Errors
    /// `NoLogin` if the role is gone; `Code`; `OtherIssuer`; `Issuer`; `Refused`.
    pub async fn finish_web_login(
        &self,
        attempt: &WebLoginAttempt,
        code: &str,
        issuer: Option<&str>,
        now: OffsetDateTime,
    ) -> Result<FinishedWebLogin, WebLoginError> {
        if code.is_empty() || code.len() > CODE_BYTES_MAX {
            return Err(WebLoginError::Code);
        }
        let role = self.web_login_role(&attempt.role).ok_or(WebLoginError::NoLogin)?;
        let login = role.login.as_ref().ok_or(WebLoginError::NoLogin)?;
        if issuer.is_some_and(|issuer| issuer != role.issuer.url()) {
            return Err(WebLoginError::OtherIssuer);
        }
        let redeemed = role.issuer.redeem(&login.client, code, attempt.request(), now).await;
        let claims = redeemed.map_err(|error| match error {
            CodeError::Token(error) => WebLoginError::Refused(refused(error)),
            CodeError::Unreachable(_)
            | CodeError::Refused(_)
            | CodeError::Nonce
            | CodeError::Party => WebLoginError::Issuer(error),
        })?;
        let web = identity(&role, &claims)?;
        // Unusable policies are an error now, not on the first page.
        self.web_policies(&role, &web.policies)?;
        let policies = role.policies.iter().chain(&web.policies).cloned().collect();
        let subject = claims.subject().to_owned();
        // The token proves the identity now, and may expire minutes later. The settings of the role
        // limit the login.
        let expires = now + login.session.min(LOGIN_MAX);
        let name = session_name(&subject);
        let new = NewSession { name, policy: None, began: now, expires };
        let credentials = self.begin_web_session(web, &new)?;
        let login = self.log_in_session(&credentials, now)?;
        Ok(FinishedWebLogin { login, subject, role: role.name, policies })
    }

    fn web_login_role(&self, arn: &str) -> Option<WebRole> {
        let roles = self.web_roles();
        roles.iter().find(|role| role.login.is_some() && role.arn() == arn).cloned()
    }

    fn attempt_key(&self) -> MasterKey {
        MasterKey::new(self.derived_key(ATTEMPT_PURPOSE))
    }
}

/// Returns the name of a user's session in ARNs: the subject, if it is a legal name.
fn session_name(subject: &str) -> &str {
    let is_legal = |char: char| char.is_ascii_alphanumeric() || "+=,.@-_".contains(char);
    let legal = (2..=64).contains(&subject.len()) && subject.chars().all(is_legal);
    if legal { subject } else { SESSION_NAME }
}

#[cfg(test)]
mod tests;
