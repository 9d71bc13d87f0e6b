//! A bound on the work that one request makes others wait for.
//!
//! A policy may be long, and a request that deletes 1,000 keys asks it 1,000 times. Other tasks of the
//! thread run in between, and a request whose policies take too long gets errors for the other keys.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::time::{Duration, Instant};

/// How long one request works before other tasks of the thread get a chance to run.
const WORK_STEP: Duration = Duration::from_millis(2);

/// How long one request works on permissions. The time in which it waits for a store does not count.
const WORK_MAX: Duration = Duration::from_secs(2);

/// The work of one request.
#[derive(Debug, Default)]
pub(crate) struct BoundedWork {
    spent: Duration,
    since_pause: Duration,
}

impl BoundedWork {
    /// Returns true if the request has worked for as long as it may.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.spent >= WORK_MAX
    }

    /// Carries out some of the work, after other tasks had a chance to run if it is time for that.
    pub(crate) async fn run<F: Future>(&mut self, work: F) -> F::Output {
        if self.since_pause >= WORK_STEP {
            self.since_pause = Duration::ZERO;
            tokio::task::yield_now().await;
        }
        let mut work = pin!(work);
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
