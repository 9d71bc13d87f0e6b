//! Bearer tokens for the API of administrators.
//!
//! A token is the text `ashlar_NAME_SECRET`. Its record is one of the access keys, and S3 never
//! accepts it. The invariant: a token permits no more than its actions, and no more than the
//! policies of its user, or of the operator if it has no user. The actions are also the session
//! policy of the identity, so a view that forgets [`Bearer::permits`] still permits no other
//! action.
//!
//! For example, a token of `anna` with the action `admin:*` lists users only if a policy of `anna`
//! allows `admin:ListUsers`.

use std::sync::Arc;

use policy::{Policy, PolicyKind};
use subtle::ConstantTimeEq;
use time::OffsetDateTime;

use super::snapshot::{Access, Bearer, Identity, Session};

/// The first characters of each token.
const PREFIX: &str = "ashlar_";

/// The limit of a token in bytes. A longer text is refused before any work.
const TOKEN_BYTES_MAX: usize = 512;

/// The reason why a token is refused. The text does not reveal whether the name exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BearerError {
    /// The text is not a token, or no token has this name and secret, or its user is disabled.
    #[error("the token is not valid")]
    Invalid,
    /// The token has expired. Only a holder of its secret gets this answer.
    #[error("the token has expired")]
    Expired,
}

impl Bearer {
    /// Returns the token of an identity. Fails with a sentence if the actions are not patterns of
    /// actions.
    pub(super) fn new(identity: Identity, actions: &[String]) -> Result<Bearer, String> {
        let document = serde_json::json!({
            "Statement": { "Effect": "Allow", "Action": actions, "Resource": "*" }
        });
        let policy = Policy::parse(&document.to_string(), PolicyKind::Session)
            .map_err(|error| format!("its actions: {error}"))?;
        let session = Session {
            role: identity.access_key.clone(),
            name: identity.signing_key.clone(),
            policy: Some(Arc::new(policy)),
            began: OffsetDateTime::UNIX_EPOCH,
            ends: None,
            proof: None,
            web: None,
            of_token: true,
        };
        let identity = Arc::new(Identity { session: Some(session), ..identity });
        Ok(Bearer { identity, actions: actions.to_vec() })
    }

    /// Returns true if a pattern of the token covers the action. The policies of the user decide,
    /// too.
    pub fn permits(&self, action: &str) -> bool {
        self.actions.iter().any(|pattern| {
            covers(pattern.to_ascii_lowercase().as_bytes(), action.to_ascii_lowercase().as_bytes())
        })
    }
}

/// Returns true if a pattern, in which `*` is any text, covers a text.
fn covers(pattern: &[u8], text: &[u8]) -> bool {
    // The place behind the last `*`, and the text that it covers so far. A longer match of an
    // earlier `*` never helps, so there is one place to return to.
    let (mut at, mut read, mut star) = (0, 0, None);
    while read < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                at += 1;
                star = Some((at, read));
            }
            Some(byte) if *byte == text[read] => (at, read) = (at + 1, read + 1),
            Some(_) | None => {
                let Some((behind, covered)) = star else { return false };
                star = Some((behind, covered + 1));
                (at, read) = (behind, covered + 1);
            }
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

impl Access {
    /// Returns the token with this text, which the client sent as `Authorization: Bearer TEXT`.
    ///
    /// # Errors
    /// [`BearerError`]. The time of the comparison does not depend on the secret.
    pub fn token(&self, text: &str, now: OffsetDateTime) -> Result<Arc<Bearer>, BearerError> {
        let rest = Some(text).filter(|text| text.len() <= TOKEN_BYTES_MAX);
        let rest = rest.and_then(|text| text.strip_prefix(PREFIX)).ok_or(BearerError::Invalid)?;
        // A name can contain the separator, and a secret cannot.
        let (name, secret) = rest.rsplit_once('_').ok_or(BearerError::Invalid)?;
        let bearer = self.known().tokens.get(name).cloned().ok_or(BearerError::Invalid)?;
        let known = bearer.identity.secret.expose().as_bytes();
        if !bool::from(known.ct_eq(secret.as_bytes())) {
            return Err(BearerError::Invalid);
        }
        if !bearer.identity.is_current(now) {
            return Err(BearerError::Expired);
        }
        bearer.identity.note_use(now);
        Ok(bearer)
    }
}

#[cfg(test)]
mod tests;
