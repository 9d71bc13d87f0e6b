//! The keys of an issuer as they were told last.
//!
//! An issuer adds keys and takes others away, and tells nobody. So its keys are asked for again when
//! they are [`KEYS_REFRESH_AFTER`] old, and when a token names one that is not known. Anybody can make up
//! such a token: whatever comes, an issuer is asked once in [`REFRESH_INTERVAL_MIN`] at most, and by one
//! request at a time. Asking goes on if whoever caused it is gone, or strangers who hang up could
//! keep it from ever being done. Nor can they keep out users whose key is known: these wait for newer
//! keys for a short time at most, and then known ones do.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt, Shared};
use runtime::{Moment, Tasks};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::discovery;
use crate::error::TokenError;
use crate::fetch::Fetcher;
use crate::keys::KeySet;
use crate::token::UnverifiedToken;

/// For how long keys are used without asking again.
pub const KEYS_REFRESH_AFTER: Duration = Duration::from_mins(15);

/// For how long they are used while the issuer does not answer. A key that it has taken back is
/// believed for as long.
pub const KEYS_AGE_MAX: Duration = Duration::from_hours(1);

/// An issuer is not asked again earlier than this after it was asked, whatever it said.
pub const REFRESH_INTERVAL_MIN: Duration = Duration::from_secs(10);

/// For how long a request waits for newer keys if its key is among known ones that may still be
/// used.
pub const REFRESH_WAIT_MAX: Duration = Duration::from_secs(2);

/// Requests that wait for an issuer at a time. Further ones do with the keys that are known, or are
/// refused.
pub const WAITERS_MAX: usize = 64;

/// The keys of one issuer.
#[derive(Debug)]
pub(crate) struct KeyCache {
    issuer: String,
    fetcher: Fetcher,
    tasks: Tasks,
    state: Mutex<State>,
    waiters: Semaphore,
}

#[derive(Debug, Default)]
struct State {
    cached: Option<CachedKeys>,
    /// From when on the issuer may be asked again.
    next_refresh_at: Option<Moment>,
    /// The question that is under way.
    refresh: Option<Shared<BoxFuture<'static, ()>>>,
    /// Whether the last question brought no keys.
    failed: bool,
}

/// What the issuer said last.
#[derive(Clone, Debug)]
struct CachedKeys {
    keys: Arc<KeySet>,
    refresh_at: Moment,
    expires_at: Moment,
}

impl KeyCache {
    pub(crate) fn new(issuer: String, fetcher: Fetcher, tasks: Tasks) -> Arc<KeyCache> {
        let (state, waiters) = (Mutex::default(), Semaphore::new(WAITERS_MAX));
        Arc::new(KeyCache { issuer, fetcher, tasks, state, waiters })
    }

    /// Verifies the signature of a token with the key that it names.
    ///
    /// Errors: `Signature`, `UnknownKey`; `Unreachable` if the key is not known and the issuer does
    /// not tell its keys; `Busy`.
    pub(crate) async fn verify(
        self: &Arc<KeyCache>,
        token: &UnverifiedToken<'_>,
    ) -> Result<(), TokenError> {
        let known = self.usable().filter(|cached| cached.keys.find(token).is_some());
        if known.as_ref().is_none_or(|cached| cached.refresh_at.has_come())
            && let Some(refresh) = self.start_refresh()
        {
            match (self.waiters.try_acquire(), &known) {
                (Ok(_place), None) => refresh.await,
                (Ok(_place), Some(_)) => {
                    // Late or not, the keys that are known then count.
                    let _in_time = timeout(REFRESH_WAIT_MAX, refresh).await;
                }
                (Err(_), None) => return Err(TokenError::Busy),
                (Err(_), Some(_)) => {}
            }
        }
        let keys = self.usable().ok_or(TokenError::Unreachable)?.keys;
        match keys.find(token) {
            Some(key) => key.verify(token),
            // It may be one of those that the issuer did not tell.
            None if self.state().failed => Err(TokenError::Unreachable),
            None => Err(TokenError::UnknownKey),
        }
    }

    /// What the issuer said last, unless that is too long ago.
    fn usable(&self) -> Option<CachedKeys> {
        self.state().cached.clone().filter(|cached| !cached.expires_at.has_come())
    }

    /// The end of the question that is under way, which begins now if there may be one.
    fn start_refresh(self: &Arc<KeyCache>) -> Option<Shared<BoxFuture<'static, ()>>> {
        let mut state = self.state();
        // One that has ended and is still there has panicked.
        if let Some(refresh) = state.refresh.as_ref().filter(|refresh| refresh.peek().is_none()) {
            return Some(refresh.clone());
        }
        if state.next_refresh_at.is_some_and(|expires_at| !expires_at.has_come()) {
            return None;
        }
        let cache = Arc::clone(self);
        let task = self.tasks.spawn("keys of an OpenID issuer", async move {
            cache.refresh().await;
            // Whoever waits may be gone, so it is not left to them to see that the question is over.
            cache.state().refresh = None;
        });
        let refresh = task.map(|_ended| ()).boxed().shared();
        state.next_refresh_at = Some(Moment::now().after(REFRESH_INTERVAL_MIN));
        state.refresh = Some(refresh.clone());
        Some(refresh)
    }

    async fn refresh(&self) {
        match discovery::keys(&self.fetcher, &self.issuer).await {
            Ok(keys) => {
                let (keys, now) = (Arc::new(keys), Moment::now());
                let (refresh_at, expires_at) =
                    (now.after(KEYS_REFRESH_AFTER), now.after(KEYS_AGE_MAX));
                tracing::debug!(issuer = self.issuer, "the keys of an OpenID issuer were read");
                let mut state = self.state();
                (state.cached, state.failed) =
                    (Some(CachedKeys { keys, refresh_at, expires_at }), false);
            }
            Err(error) => {
                let issuer = &self.issuer;
                tracing::warn!(issuer, error, "cannot read the keys of an OpenID issuer");
                self.state().failed = true;
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
