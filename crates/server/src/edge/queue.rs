//! A first-come, first-served queue for a limited number of permits.
//!
//! A request waits while the queue moves. For example, a burst of 1,000 requests of one host that has
//! 256 permits is served without a refusal if the last of them gets its permit within
//! [`QUEUE_WAIT_MAX`]. A request is refused early if no permit was given for [`QUEUE_WAIT_MIN`], or if
//! the pace of the queue says that its turn comes too late.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// How long a request waits at least before it is refused.
pub(super) const QUEUE_WAIT_MIN: Duration = Duration::from_secs(1);

/// How long a request waits at most while the queue moves.
pub(super) const QUEUE_WAIT_MAX: Duration = Duration::from_secs(30);

/// How often a waiting request looks for permits that others do not need now.
const RECLAIM_EVERY: Duration = Duration::from_millis(100);

/// How long a request waits for its permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// As long as its turn is expected to come in time, counted from this moment.
    WhileMoving(Instant),
    /// Until this moment.
    Until(Instant),
}

/// A queue for permits. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Queue(Arc<State>);

#[derive(Debug)]
struct State {
    permits: Arc<Semaphore>,
    /// Requests that wait now.
    waiting: AtomicU64,
    /// Permits given so far to requests that had to wait.
    given: AtomicU64,
}

impl Queue {
    /// A queue for `permits` permits.
    pub(super) fn new(permits: usize) -> Queue {
        let permits = Arc::new(Semaphore::new(permits));
        Queue(Arc::new(State { permits, waiting: AtomicU64::new(0), given: AtomicU64::new(0) }))
    }

    /// Waits for a permit. `reclaim` is called whenever there is none; it may give some back.
    /// Returns `None` if the patience ends first.
    pub(super) async fn permit(
        &self,
        patience: Patience,
        reclaim: impl Fn(),
    ) -> Option<OwnedSemaphorePermit> {
        let state = &self.0;
        let try_now = || Arc::clone(&state.permits).try_acquire_owned().ok();
        if let Some(permit) = try_now() {
            return Some(permit);
        }
        reclaim();
        let place = Place::take(state);
        let mut turn = std::pin::pin!(Arc::clone(&state.permits).acquire_owned());
        let mut paced = place.entered;
        loop {
            let tick = Instant::now() + RECLAIM_EVERY;
            let tick = if let Patience::Until(end) = patience { tick.min(end) } else { tick };
            if let Ok(permit) = tokio::time::timeout_at(tick, turn.as_mut()).await {
                state.given.fetch_add(1, Ordering::Relaxed);
                // The semaphore is never closed.
                return permit.ok();
            }
            let now = Instant::now();
            let ended = match patience {
                Patience::Until(end) => now >= end,
                Patience::WhileMoving(since) if now >= since + QUEUE_WAIT_MAX => true,
                Patience::WhileMoving(_) if now < paced + QUEUE_WAIT_MIN => false,
                Patience::WhileMoving(since) => {
                    paced = now;
                    !place.is_expected_by(now, since + QUEUE_WAIT_MAX)
                }
            };
            if ended {
                return None;
            }
            reclaim();
        }
    }
}

/// The place of one request in a queue. It is given up when it is dropped.
struct Place<'a> {
    state: &'a State,
    entered: Instant,
    /// Requests that were waiting when this one came.
    ahead: u64,
    /// Permits that the queue had given by then.
    given: u64,
}

impl Place<'_> {
    fn take(state: &State) -> Place<'_> {
        let given = state.given.load(Ordering::Relaxed);
        let ahead = state.waiting.fetch_add(1, Ordering::Relaxed);
        Place { state, entered: Instant::now(), ahead, given }
    }

    /// Returns true if the queue is expected to reach this place by `latest`, at the pace at which it
    /// has moved since the request came.
    fn is_expected_by(&self, now: Instant, latest: Instant) -> bool {
        let moved = self.state.given.load(Ordering::Relaxed).saturating_sub(self.given);
        if moved == 0 {
            return false;
        }
        let left = self.ahead.saturating_sub(moved);
        let waited = now.duration_since(self.entered).as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let expected = waited * left as f64 / moved as f64;
        expected <= latest.duration_since(now).as_secs_f64()
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.state.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
