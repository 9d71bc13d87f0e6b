//! Stopping a gateway by signals.
//!
//! ```text
//! Serving --signal--> Delayed --delay over, or signal--> Closed --signal--> the process ends
//! ```
//!
//! From the first signal on, the readiness check answers 503. While the phase is `Delayed` the gateway
//! still accepts connections and serves requests, so a load balancer can see that it is not ready and
//! send clients elsewhere. In `Closed` requests in flight finish. Without a delay the first signal
//! leads to `Closed`.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::edge::{Edge, Service};

/// The exit status after a signal that did not wait for requests in flight.
const EXIT_IMPATIENT: i32 = 130;

/// The phase of a shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// No signal has come.
    Serving,
    /// The gateway is not ready, and accepts connections until then.
    Delayed(Instant),
    /// The listener is closed.
    Closed,
}

impl Phase {
    /// Waits until the delay is over. Never returns in other phases.
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
    /// Handles a signal to stop, and returns the next phase. Ends the process if the listener is closed
    /// already.
    pub(super) fn signalled(&self, phase: Phase) -> Phase {
        if self.accepting.is_cancelled() {
            tracing::warn!("told again to stop: stopping at once");
            std::process::exit(EXIT_IMPATIENT);
        }
        match phase {
            Phase::Serving if !self.delay.is_zero() => {
                tracing::info!(delay = ?self.delay, "told to stop: not ready from now on, accepting meanwhile");
                self.edge.drain();
                Phase::Delayed(Instant::now() + self.delay)
            }
            Phase::Serving | Phase::Delayed(_) | Phase::Closed => self.close(),
        }
    }

    /// Closes the listener.
    pub(super) fn close(&self) -> Phase {
        tracing::info!("told to stop: finishing what is under way");
        self.edge.drain();
        self.accepting.cancel();
        Phase::Closed
    }
}
