//! A first-come, first-served queue for a limited number of permits.
//!
//! A request waits while the queue moves. For example, a burst of 1,000 requests of one host that
//! has 256 permits is served without a refusal if the last of them gets its permit within
//! [`QUEUE_WAIT_MAX`]. At intervals of [`QUEUE_WAIT_MIN`] a request is refused early if the queue
//! has given no permit since the request came, or if at its pace the turn of the request comes too
//! late.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// The minimum time that a request waits for a permit before it can be refused.
pub(super) const QUEUE_WAIT_MIN: Duration = Duration::from_secs(1);

/// The maximum time that a request waits for a permit, even while the queue moves, that is, while
/// requests ahead of it get permits.
pub(super) const QUEUE_WAIT_MAX: Duration = Duration::from_secs(30);

/// The interval at which a request that waits for a permit tries to take permits from other
/// requests, which wait for their clients and need no permit meanwhile.
const RECLAIM_EVERY: Duration = Duration::from_millis(100);

/// The limit of the time that a request waits for a permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitLimit {
    /// Wait while the queue moves fast enough to give the request a permit within
    /// `QUEUE_WAIT_MAX` of this instant, at which the wait started.
    WhileMoving(Instant),
    /// Wait until this instant, whether the queue moves or not.
    Until(Instant),
}

/// A queue of requests for a limited number of permits. Clones are handles of the same queue.
#[derive(Clone, Debug)]
pub(super) struct Queue(Arc<State>);

/// The state of a queue of requests for permits, which all handles of the queue share.
#[derive(Debug)]
struct State {
    permits: Arc<Semaphore>,
    /// The number of waiting requests.
    waiting: AtomicU64,
    /// The number of permits that waiting requests have got so far.
    given: AtomicU64,
}

impl Queue {
    /// Returns a queue in which at most `permits` requests have a permit at the same time.
    pub(super) fn new(permits: usize) -> Queue {
        let permits = Arc::new(Semaphore::new(permits));
        Queue(Arc::new(State { permits, waiting: AtomicU64::new(0), given: AtomicU64::new(0) }))
    }

    /// Returns the number of requests that wait for a permit.
    pub(super) fn waiting(&self) -> u64 {
        self.0.waiting.load(Ordering::Relaxed)
    }

    /// Waits in the queue for a permit, which is returned to the queue when it is dropped. While no
    /// permit is free, calls `reclaim` at intervals, which may free permits of other requests.
    /// Returns `None` if `limit` ends the wait.
    pub(super) async fn permit(
        &self,
        limit: WaitLimit,
        reclaim: impl Fn(),
    ) -> Option<OwnedSemaphorePermit> {
        let state = &self.0;
        let try_now = || Arc::clone(&state.permits).try_acquire_owned().ok();
        // Without contention there is no need for a place in the queue.
        if let Some(permit) = try_now() {
            return Some(permit);
        }
        reclaim();
        let place = Place::take(state);
        // One future for the whole wait, because it holds the place in the queue of the semaphore.
        let mut turn = std::pin::pin!(Arc::clone(&state.permits).acquire_owned());
        let mut paced = place.entered;
        loop {
            let tick = Instant::now() + RECLAIM_EVERY;
            let tick = if let WaitLimit::Until(end) = limit { tick.min(end) } else { tick };
            if let Ok(permit) = tokio::time::timeout_at(tick, turn.as_mut()).await {
                state.given.fetch_add(1, Ordering::Relaxed);
                // Never an error, because the semaphore is never closed.
                return permit.ok();
            }
            let now = Instant::now();
            let is_over = match limit {
                WaitLimit::Until(end) => now >= end,
                WaitLimit::WhileMoving(since) if now >= since + QUEUE_WAIT_MAX => true,
                // The pace is estimated once per minimum wait: shorter spans are too noisy.
                WaitLimit::WhileMoving(_) if now < paced + QUEUE_WAIT_MIN => false,
                WaitLimit::WhileMoving(since) => {
                    paced = now;
                    !place.is_expected_by(now, since + QUEUE_WAIT_MAX)
                }
            };
            if is_over {
                return None;
            }
            reclaim();
        }
    }
}

/// The place of one waiting request in a queue of permits. Until it is dropped, the request counts
/// as waiting.
struct Place<'a> {
    state: &'a State,
    entered: Instant,
    /// The number of requests that were waiting when this one came.
    ahead: u64,
    /// The number of permits that the queue had given when this request came: the value of
    /// `State::given` at that time.
    given: u64,
}

impl Place<'_> {
    /// Returns the place of a request that starts to wait.
    fn take(state: &State) -> Place<'_> {
        let given = state.given.load(Ordering::Relaxed);
        let ahead = state.waiting.fetch_add(1, Ordering::Relaxed);
        Place { state, entered: Instant::now(), ahead, given }
    }

    /// Returns true if the queue is expected to reach this place by `latest`, at the pace at which
    /// it has moved since the request came.
    fn is_expected_by(&self, now: Instant, latest: Instant) -> bool {
        let moved = self.state.given.load(Ordering::Relaxed).saturating_sub(self.given);
        if moved == 0 {
            return false;
        }
        let rest = self.ahead.saturating_sub(moved);
        let waited = now.duration_since(self.entered).as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let expected = waited * rest as f64 / moved as f64;
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
