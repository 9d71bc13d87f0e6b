//! The phases of a shutdown by signals.
//!
//! ```text
//! Serving --signal--> Delayed --delay over, or signal--> Closed --signal--> the process ends
//! ```
//!
//! After the first signal, the readiness check answers 503. In `Delayed` the gateway still accepts
//! connections and serves requests, so that a load balancer can notice and send clients elsewhere.
//! In `Closed` requests in flight finish. Without a delay, the first signal leads to `Closed`. For
//! example, with `--shutdown-delay 10s`, a second SIGTERM after 3 seconds closes the listener at
//! once.

use std::sync::Arc;
use std::time::Duration;

use edge::{Edge, Service};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::supervisor;

/// The exit status after a signal in `Closed`, which does not wait for requests in flight.
const EXIT_ABORTED: i32 = 130;

/// The phase of a shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// No signal was received.
    Serving,
    /// The gateway is not ready, and accepts connections until this instant.
    Delayed(Instant),
    /// The listener is closed.
    Closed,
}

impl Phase {
    /// Waits until the end of the delay. Never returns in other phases.
    pub(super) async fn delay_over(self) {
        match self {
            Phase::Delayed(until) => tokio::time::sleep_until(until).await,
            Phase::Serving | Phase::Closed => std::future::pending().await,
        }
    }
}

/// The parts of a gateway that a signal stops.
#[derive(Debug)]
pub(super) struct Shutdown<S> {
    pub(super) edge: Arc<Edge<S>>,
    /// Cancelled when the listener closes.
    pub(super) accepting: CancellationToken,
    pub(super) delay: Duration,
}

impl<S: Service> Shutdown<S> {
    /// Handles a signal to stop, and returns the next phase. Ends the process if the listener is
    /// closed already.
    pub(super) fn signalled(&self, phase: Phase) -> Phase {
        // The token instead of the phase, because the loss of the session closes the listener, too.
        if self.accepting.is_cancelled() {
            tracing::warn!("second signal: stopping at once, without requests in flight");
            std::process::exit(EXIT_ABORTED);
        }
        match phase {
            Phase::Serving if !self.delay.is_zero() => {
                supervisor::stopping();
                tracing::info!(delay = ?self.delay, "signal to stop: the readiness check fails from now on; accepting connections until the delay is over");
                self.edge.drain();
                Phase::Delayed(Instant::now() + self.delay)
            }
            Phase::Serving | Phase::Delayed(_) | Phase::Closed => self.close(),
        }
    }

    /// Closes the listener.
    pub(super) fn close(&self) -> Phase {
        supervisor::stopping();
        tracing::info!("stopping: the listener is closed; waiting for requests in flight");
        self.edge.drain();
        self.accepting.cancel();
        Phase::Closed
    }
}
