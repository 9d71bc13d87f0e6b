//! Limits the CPU time that one request takes on its thread.
//!
//! A policy may be long, and a request that deletes 1,000 keys evaluates it 1,000 times. Between
//! the evaluations other tasks of the thread run. If the policies of a request take too long, the
//! request gets errors for the remaining keys.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::time::{Duration, Instant};

/// The CPU time that one request uses before other tasks of the thread may run.
const WORK_STEP: Duration = Duration::from_millis(2);

/// The CPU time that one request may spend on permissions. Waits for a store do not count.
const WORK_MAX: Duration = Duration::from_secs(2);

/// The CPU time that one request has spent on checks of permissions: since its start, and since it
/// last yielded to other tasks.
#[derive(Debug, Default)]
pub(crate) struct BoundedWork {
    spent: Duration,
    since_pause: Duration,
}

impl BoundedWork {
    /// Returns true if the request has used up [`WORK_MAX`].
    pub(crate) fn is_exhausted(&self) -> bool {
        self.spent >= WORK_MAX
    }

    /// Runs `work` and adds its CPU time. Yields to other tasks first, if the request has used
    /// [`WORK_STEP`] of CPU time since its last yield.
    pub(crate) async fn run<F: Future>(&mut self, work: F) -> F::Output {
        if self.since_pause >= WORK_STEP {
            self.since_pause = Duration::ZERO;
            tokio::task::yield_now().await;
        }
        let mut work = pin!(work);
        // Only the time within a poll is CPU time. Between polls the request waits.
        poll_fn(|cx| {
            let began = Instant::now();
            let polled = work.as_mut().poll(cx);
            let elapsed = began.elapsed();
            self.spent += elapsed;
            self.since_pause += elapsed;
            polled
        })
        .await
    }
}

#[cfg(test)]
mod tests;
