//! Throttles background work while requests are served.
//!
//! Deleting blocks and rewriting packs cost the machine, the database and the bucket as much as
//! requests do, and no client waits for them. So background work runs in short steps. While this
//! process serves requests, each step is followed by a pause that is a multiple of the step's
//! duration. For example, after a step of 10 ms the reaper pauses for 190 ms.
//!
//! There is no pause while the volume is idle, none if so much work is left that it would pile up,
//! and none if a caller waits for the end of the work.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::epoch::Epochs;
use crate::meters::Meters;

/// The pause of background work after a step, as a multiple of the step's duration: the work runs a
/// twentieth of the time.
pub const PAUSE_FACTOR: u32 = 19;

/// The longest pause of background work after one step.
pub const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Interval at which a pause of background work checks if requests are still served.
const RECHECK_INTERVAL: Duration = Duration::from_millis(25);

/// The priority of background work while requests are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// The work pauses after each step.
    Background,
    /// The work never pauses: a caller waits for it, or too much of it is left.
    Urgent,
}

/// A step of background work that is running.
#[derive(Clone, Copy, Debug)]
pub struct ThrottledStep {
    priority: Priority,
    began: Instant,
    /// Number of operations that were served before the step.
    served: u64,
}

/// Decides how long background work pauses after each of its steps while requests are served.
#[derive(Debug)]
pub struct Throttle {
    meters: Arc<Meters>,
    epochs: Arc<Epochs>,
    closing: CancellationToken,
}

impl Throttle {
    /// Creates the throttle of a session. It ends all pauses when the session closes.
    pub(crate) fn new(
        meters: &Arc<Meters>,
        epochs: &Arc<Epochs>,
        closing: &CancellationToken,
    ) -> Throttle {
        let (meters, epochs) = (Arc::clone(meters), Arc::clone(epochs));
        Throttle { meters, epochs, closing: closing.clone() }
    }

    /// Returns true if the session is closing. Then no new step of background work may begin.
    pub fn is_closing(&self) -> bool {
        self.closing.is_cancelled()
    }

    /// Begins a step of background work.
    pub fn begin_step(&self, priority: Priority) -> ThrottledStep {
        ThrottledStep { priority, began: Instant::now(), served: self.meters.served.get() }
    }

    /// Ends a step of background work. Pauses if requests were served during it or a reader is
    /// active. The pause ends after its time, or earlier when there are no requests and no readers.
    pub async fn pause_after(&self, step: ThrottledStep) {
        if step.priority == Priority::Urgent {
            return;
        }
        let now = Instant::now();
        let until = now + (now.duration_since(step.began) * PAUSE_FACTOR).min(PAUSE_MAX);
        let mut served = step.served;
        while self.is_serving(&mut served) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            tokio::select! {
                () = self.closing.cancelled() => return,
                () = tokio::time::sleep(left.min(RECHECK_INTERVAL)) => {}
            }
        }
    }

    /// Returns true if operations were served since the count `served`, which is updated, or if a
    /// reader is active.
    fn is_serving(&self, served: &mut u64) -> bool {
        let before = std::mem::replace(served, self.meters.served.get());
        before != *served || self.epochs.has_readers()
    }
}
