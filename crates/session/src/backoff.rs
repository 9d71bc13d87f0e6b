//! Random pauses between two tries of an operation that other writers refused.
//!
//! For example, two gateways that write one key at the same moment pause for different times, and
//! do not collide again in step.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use tokio::time::Instant;

use crate::times::CONTENTION_DEADLINE;

/// Limit of the first pause. The limit doubles with each further one, up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// Exponential backoff with full jitter: a pause has a random length between zero and its limit,
/// and the limit doubles.
#[derive(Debug)]
pub(crate) struct Backoff {
    deadline: Instant,
    pauses: u32,
    random: RandomState,
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff::until(Instant::now() + CONTENTION_DEADLINE)
    }
}

impl Backoff {
    /// Creates the pauses of one operation, which is tried again until `deadline`.
    pub(crate) fn until(deadline: Instant) -> Backoff {
        Backoff { deadline, pauses: 0, random: RandomState::new() }
    }

    /// Returns the time after which the operation is not tried again. No pause begins or ends after
    /// it.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Pauses before the operation's next try, for a random time of at most a limit that doubles
    /// with each call. Returns false without a pause if the deadline has passed.
    pub(crate) async fn pause(&mut self) -> bool {
        let limit = PAUSE_MIN.saturating_mul(1 << self.pauses.min(16)).min(PAUSE_MAX);
        self.pause_within(limit).await
    }

    /// Pauses before the operation's next try, for a random time up to `limit`. Returns false
    /// without a pause if the deadline has passed.
    pub(crate) async fn pause_within(&mut self, limit: Duration) -> bool {
        if Instant::now() >= self.deadline {
            return false;
        }
        self.pauses = self.pauses.saturating_add(1);
        let micros = u64::try_from(limit.as_micros()).unwrap_or(u64::MAX).saturating_add(1);
        let pause = Duration::from_micros(self.random.hash_one(self.pauses) % micros);
        tokio::time::sleep_until((Instant::now() + pause).min(self.deadline)).await;
        true
    }
}
