//! The logins that ended by a logout.
//!
//! A ticket has all facts of a login, so a copy of one would be accepted after the logout. This
//! list refuses it. For example, a slow page that began before the logout cannot renew the login.
//!
//! The attempts to log in at an OpenID issuer have a list of their own: an attempt ends when the
//! browser returns with its `state`, and no other request can use it again.
//!
//! The list is that of one gateway. Another gateway of the volume refuses the ticket when the
//! person has made no request for the time [`identity::LOGIN_IDLE_MAX`].

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use identity::LOGIN_MAX;
use tokio::time::Instant;

/// The limit of logins in memory. If more people log out within the longest login, the oldest
/// entries are forgotten.
const ENDED_MAX: usize = 16_384;

/// Logins that have ended, each by its form token, with the time of the logout.
#[derive(Debug, Default)]
pub(crate) struct EndedLogins(Mutex<HashMap<String, Instant>>);

impl EndedLogins {
    /// Notes the end of the login with this form token, or of the attempt with this `state`.
    /// Returns false if it has ended before.
    pub(crate) fn end(&self, form_token: String) -> bool {
        let now = Instant::now();
        let mut ended = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if ended.len() >= ENDED_MAX {
            ended.retain(|_, at| now.duration_since(*at) < LOGIN_MAX);
        }
        if ended.len() >= ENDED_MAX {
            // The older half at once, so that this happens once in many logouts.
            let mut ages: Vec<Instant> = ended.values().copied().collect();
            let middle = ages.len() / 2;
            let (_, median, _) = ages.select_nth_unstable(middle);
            let median = *median;
            ended.retain(|_, at| *at > median);
        }
        ended.insert(form_token, now).is_none()
    }

    /// Returns true if the login with this form token has ended.
    pub(crate) fn has(&self, form_token: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains_key(form_token)
    }
}

#[cfg(test)]
mod tests;
