//! A cache of an issuer's keys.
//!
//! An issuer adds and removes keys without notification. The cache therefore fetches the keys again
//! when they are [`KEYS_REFRESH_AFTER`] old, and when a token names an unknown key.
//!
//! Any sender can invent a token with an unknown key. Invariants: an issuer is asked at most once
//! in [`REFRESH_INTERVAL_MIN`], and by one request at a time. A refresh continues if the request
//! that started it is cancelled; otherwise senders that disconnect could prevent it for ever. A
//! request whose key is known waits for newer keys at most [`REFRESH_WAIT_MAX`], and then uses the
//! known key. For example, if the issuer is down, tokens with known keys are accepted for
//! [`KEYS_AGE_MAX`].

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt, Shared};
use runtime::{Moment, Tasks};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::discovery;
use crate::error::TokenError;
use crate::fetch::{FETCH_DEADLINE, Fetcher};
use crate::keys::KeySet;
use crate::token::UnverifiedToken;

/// The age at which an issuer's keys are fetched again, when the next token arrives.
pub const KEYS_REFRESH_AFTER: Duration = Duration::from_mins(15);

/// The age up to which an issuer's keys are used if the issuer does not answer. A key that the
/// issuer has revoked is accepted up to this age.
pub const KEYS_AGE_MAX: Duration = Duration::from_hours(1);

/// The minimum time between the starts of two fetches of an issuer's keys, successful or not.
pub const REFRESH_INTERVAL_MIN: Duration = Duration::from_secs(10);

/// The maximum time for which a request waits for newer keys if the key of its token is known and
/// may still be used. After this time it uses the known key.
pub const REFRESH_WAIT_MAX: Duration = Duration::from_secs(2);

// Keys are fetched several times before they may no longer be used.
const _: () = assert!(2 * KEYS_REFRESH_AFTER.as_secs() <= KEYS_AGE_MAX.as_secs());
// One fetch has ended, by its own deadline, when the next one may start.
const _: () = assert!(FETCH_DEADLINE.as_secs() <= REFRESH_INTERVAL_MIN.as_secs());
const _: () = assert!(REFRESH_WAIT_MAX.as_secs() < FETCH_DEADLINE.as_secs());

/// The maximum number of requests that wait for a fetch of one issuer's keys. Further requests use
/// the known key of their token, or are refused with `Busy`.
pub const WAITERS_MAX: usize = 64;

/// The cache of the public keys of one issuer, which fetches them when necessary.
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
    /// The earliest time at which the keys may be fetched again; `None` before the first fetch.
    next_refresh_at: Option<Moment>,
    /// The fetch of the keys that is in progress, if there is one. Each waiting request has a
    /// clone.
    refresh: Option<Shared<BoxFuture<'static, ()>>>,
    /// True if the last fetch of the keys failed.
    failed: bool,
}

/// The keys of the last successful fetch, with the time at which they should be fetched again and
/// the time from which they must not be used.
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

    /// Verifies the signature of a token with the key that it names, and fetches the keys of the
    /// issuer first if necessary.
    ///
    /// Fails with `Signature`; `UnknownKey`; `Unreachable` if the key is unknown and the issuer did
    /// not return its keys; or `Busy`.
    pub(crate) async fn verify(
        self: &Arc<KeyCache>,
        token: &UnverifiedToken<'_>,
    ) -> Result<(), TokenError> {
        // The cached keys are checked before the issuer is asked.
        let known = self.usable().filter(|cached| cached.keys.find(token).is_some());
        if known.as_ref().is_none_or(|cached| cached.refresh_at.has_passed())
            && let Some(refresh) = self.start_refresh()
        {
            // A request without a usable key must wait for the whole refresh. A request with a
            // known key waits only for a short time, so that an issuer that hangs does not delay
            // its users.
            match (self.waiters.try_acquire(), &known) {
                (Ok(_place), None) => refresh.await,
                (Ok(_place), Some(_)) => {
                    // With or without new keys, the keys that are known after the wait decide.
                    let _in_time = timeout(REFRESH_WAIT_MAX, refresh).await;
                }
                (Err(_), None) => return Err(TokenError::Busy),
                (Err(_), Some(_)) => {}
            }
        }
        let keys = self.usable().ok_or(TokenError::Unreachable)?.keys;
        match keys.find(token) {
            Some(key) => key.verify(token),
            // The key may be among the keys that the failed refresh did not return.
            None if self.state().failed => Err(TokenError::Unreachable),
            None => Err(TokenError::UnknownKey),
        }
    }

    /// Returns the cached keys; `None` if there are none or if they are older than `KEYS_AGE_MAX`.
    fn usable(&self) -> Option<CachedKeys> {
        self.state().cached.clone().filter(|cached| !cached.expires_at.has_passed())
    }

    /// Returns a future that completes when the current fetch of the keys ends. If no fetch is in
    /// progress, starts one; returns `None` if the minimum time since the last start has not
    /// passed.
    fn start_refresh(self: &Arc<KeyCache>) -> Option<Shared<BoxFuture<'static, ()>>> {
        let mut state = self.state();
        // A refresh that has ended and is still registered has panicked, so a new one may start.
        if let Some(refresh) = state.refresh.as_ref().filter(|refresh| refresh.peek().is_none()) {
            return Some(refresh.clone());
        }
        if state.next_refresh_at.is_some_and(|expires_at| !expires_at.has_passed()) {
            return None;
        }
        let cache = Arc::clone(self);
        let task = self.tasks.spawn("keys of an OpenID issuer", async move {
            cache.refresh().await;
            // The task itself clears the registration, because the waiting requests may have been
            // cancelled.
            cache.state().refresh = None;
        });
        let refresh = task.map(|_ended| ()).boxed().shared();
        // The interval starts when the refresh starts, so that a failing issuer is not asked more
        // often.
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
