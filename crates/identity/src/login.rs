//! Logins of people, for views with pages such as a console.
//!
//! A login begins with an access key and its secret, or with a session of a web identity. No record
//! holds it: all facts are in a *ticket*, which the browser keeps as a cookie. The ticket is sealed
//! under a key that is derived from the master key, so each gateway of the volume reads it and no
//! client can change one. For example, a user who logs in at one gateway stays logged in when a
//! load balancer sends the next request to another one.
//!
//! The permissions are looked up at each request. If the user is disabled, removed or gets another
//! secret, its logins end.
//!
//! ```text
//! log_in --> Login --ticket--> cookie --resume--> Login, Authenticated
//!                                       └--> LoginError after 12 hours, or 30 minutes without a request
//! ```

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use s3::auth::Verified;
use s3::sts::SessionCredentials;
use s3::{Code, Fault};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use time::OffsetDateTime;

use crate::access::{Access, MasterKey, Secret};
use crate::authenticate::Authenticated;

/// The longest login.
pub const LOGIN_MAX: Duration = Duration::from_hours(12);

/// The longest time between two requests of a login.
pub const LOGIN_IDLE_MAX: Duration = Duration::from_mins(30);

const _: () = assert!(LOGIN_IDLE_MAX.as_secs() < LOGIN_MAX.as_secs());

/// The purpose of the key that seals tickets.
const TICKET_PURPOSE: &str = "console login ticket";

/// The purpose of the key that makes form tokens.
const FORM_PURPOSE: &str = "console form token";

/// The name to which the encryption of a ticket is bound. No access key contains a slash.
const SEAL_NAME: &str = "console/ticket";

/// The limit of a ticket in bytes. A longer one does not fit into a cookie, which has 4,096 bytes
/// with its name and attributes.
pub const TICKET_BYTES_MAX: usize = 3_800;

/// A login of a person.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Login {
    holder: LoginHolder,
    /// The time at which the login began, in seconds since 1970.
    began: i64,
    /// Random bits, so that two logins of one user have different form tokens.
    nonce: u64,
}

/// The credentials with which a login began.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(untagged)]
enum LoginHolder {
    /// A permanent access key, with a hash of its secret.
    Key { key: String, proof: String },
    /// Temporary credentials of a web identity.
    Session { session: String, token: String },
}

/// A ticket before its encryption.
#[derive(Deserialize, Serialize)]
struct Ticket {
    login: Login,
    /// The time of the last request, in seconds since 1970.
    seen: i64,
}

/// The reason why a ticket is refused. The person must log in again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    /// The ticket is not one of this volume.
    #[error("the login is not valid")]
    Invalid,
    /// The login has lasted 12 hours, or there was no request for 30 minutes.
    #[error("the login has expired")]
    Expired,
    /// The access key is disabled, removed or expired, or has another secret.
    #[error("the access key has changed")]
    Changed,
}

impl Access {
    /// Begins a login with an access key and its secret. Returns `None` if one of them is wrong;
    /// the time of the answer does not depend on which one.
    ///
    /// Faults: `InternalError` if the machine gives no random bytes.
    pub fn log_in(
        &self,
        access_key: &str,
        secret: &str,
        now: OffsetDateTime,
    ) -> Result<Option<Login>, Fault> {
        let identity = self.lookup(access_key, now);
        let expected = identity.as_ref().map_or("", |identity| identity.secret.expose());
        // Hashes have one length, so the time depends neither on the key nor on the secret.
        let (expected, given) = (Sha256::digest(expected), Sha256::digest(secret));
        let is_same = bool::from(expected.ct_eq(&given));
        let Some(identity) = identity.filter(|_| is_same && !secret.is_empty()) else {
            return Ok(None);
        };
        identity.note_use(now);
        let holder = LoginHolder::Key { key: access_key.to_owned(), proof: identity.proof() };
        Login::new(holder, now).map(Some)
    }

    /// Begins a login with the temporary credentials of a web identity.
    ///
    /// Faults: `InternalError` if the machine gives no random bytes.
    pub fn log_in_session(
        &self,
        credentials: &SessionCredentials,
        now: OffsetDateTime,
    ) -> Result<Login, Fault> {
        let session = credentials.access_key.clone();
        Login::new(LoginHolder::Session { session, token: credentials.token.clone() }, now)
    }

    /// Returns the ticket of a login, for a cookie. `now` is the time of the current request.
    ///
    /// Faults: `PackedPolicyTooLarge` if the ticket does not fit into a cookie, because the token
    /// of the web identity has too many claims; `InternalError` if the machine gives no random
    /// bytes.
    pub fn ticket(&self, login: &Login, now: OffsetDateTime) -> Result<String, Fault> {
        let ticket = Ticket { login: login.clone(), seen: now.unix_timestamp() };
        let text = serde_json::to_string(&ticket).map_err(|_| Code::InternalError)?;
        let nonce = random::<{ MasterKey::NONCE_BYTES }>()?;
        let sealed = self.ticket_key().seal(SEAL_NAME, &Secret::new(text), nonce);
        let ticket = URL_SAFE_NO_PAD.encode(sealed);
        if ticket.len() > TICKET_BYTES_MAX {
            return Err(Code::PackedPolicyTooLarge.into());
        }
        Ok(ticket)
    }

    /// Returns the login of a ticket, and its sender as an authenticated one.
    ///
    /// # Errors
    /// The reason why the person must log in again.
    pub fn resume(
        &self,
        ticket: &str,
        now: OffsetDateTime,
    ) -> Result<(Login, Authenticated), LoginError> {
        // A longer ticket is never issued, so no work is spent on one.
        let bytes = Some(ticket).filter(|ticket| ticket.len() <= TICKET_BYTES_MAX);
        let bytes = bytes.and_then(|ticket| URL_SAFE_NO_PAD.decode(ticket).ok());
        let bytes = bytes.ok_or(LoginError::Invalid)?;
        let text = self.ticket_key().open(SEAL_NAME, &bytes).map_err(|_| LoginError::Invalid)?;
        let Ticket { login, seen } =
            serde_json::from_str(text.expose()).map_err(|_| LoginError::Invalid)?;
        let at = now.unix_timestamp();
        let is_within = |since: i64, max: Duration| {
            u64::try_from(at.saturating_sub(since)).map_or(true, |age| age < max.as_secs())
        };
        if !is_within(login.began, LOGIN_MAX) || !is_within(seen, LOGIN_IDLE_MAX) {
            return Err(LoginError::Expired);
        }
        let identity = match &login.holder {
            LoginHolder::Key { key, proof } => {
                let known = self.lookup(key, now).filter(|known| known.proof() == *proof);
                known.ok_or(LoginError::Changed)?
            }
            LoginHolder::Session { session, token } => {
                self.session(session, token, now).map_err(|_| LoginError::Expired)?
            }
        };
        let access_key = match &login.holder {
            LoginHolder::Key { key, .. } => key.as_str(),
            LoginHolder::Session { session, .. } => session.as_str(),
        };
        let verified = Verified::without_signature(access_key, now);
        Ok((login, Authenticated { verified, identity: Some(identity) }))
    }

    /// Returns the token that each form of a login contains. A page of another origin cannot know
    /// it, so a form that such a page sends is refused.
    pub fn form_token(&self, login: &Login) -> String {
        let key = self.derived_key(FORM_PURPOSE);
        let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("HMAC takes keys of any size");
        mac.update(&serde_json::to_vec(login).unwrap_or_default());
        URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes())
    }

    /// Returns true if a form has the token of the login.
    pub fn is_form_token(&self, login: &Login, token: &str) -> bool {
        self.form_token(login).as_bytes().ct_eq(token.as_bytes()).into()
    }

    fn ticket_key(&self) -> MasterKey {
        MasterKey::new(self.derived_key(TICKET_PURPOSE))
    }
}

impl Login {
    fn new(holder: LoginHolder, now: OffsetDateTime) -> Result<Login, Fault> {
        let nonce = u64::from_le_bytes(random()?);
        Ok(Login { holder, began: now.unix_timestamp(), nonce })
    }
}

pub(crate) fn random<const N: usize>() -> Result<[u8; N], Fault> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| {
        tracing::error!(%error, "cannot begin a login: the machine gives no random bytes");
        Code::InternalError
    })?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
