//! Throttles background work while requests are served.
//!
//! Deleting what is dead and rewriting packs cost the machine, the database and the bucket as much
//! as requests do, and nobody waits for them. So background work goes in short steps, and while this
//! process serves requests each step is followed by a pause that is a multiple of what it took.
//! There is no pause while nothing is asked of the volume, none when so much is left to do that it
//! would pile up, and none when somebody waits for the end of the work.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::epoch::Epochs;
use crate::meters::Meters;

/// How many times as long as its step took a background task pauses while requests are served: it
/// works a twentieth of the time.
pub const PAUSE_FACTOR: u32 = 19;

/// The longest pause.
pub const PAUSE_MAX: Duration = Duration::from_secs(5);

/// How often a pause looks whether it is still needed.
const RECHECK_INTERVAL: Duration = Duration::from_millis(25);

/// How background work is treated while requests are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// It pauses after each step.
    Background,
    /// It never pauses: somebody waits for it, or too much is left to do.
    Urgent,
}

/// A step of background work that is under way.
#[derive(Clone, Copy, Debug)]
pub struct ThrottledStep {
    priority: Priority,
    began: Instant,
    /// Operations served until then.
    served: u64,
}

/// Knows whether requests are served, and for how long background work pauses.
#[derive(Debug)]
pub struct Throttle {
    meters: Arc<Meters>,
    epochs: Arc<Epochs>,
    closing: CancellationToken,
}

impl Throttle {
    /// Watches what a session serves, until it closes.
    pub(crate) fn new(
        meters: &Arc<Meters>,
        epochs: &Arc<Epochs>,
        closing: &CancellationToken,
    ) -> Throttle {
        let (meters, epochs) = (Arc::clone(meters), Arc::clone(epochs));
        Throttle { meters, epochs, closing: closing.clone() }
    }

    /// Whether the session closes: then no new step is begun.
    pub fn is_closing(&self) -> bool {
        self.closing.is_cancelled()
    }

    /// Begins a step of background work.
    pub fn begin_step(&self, priority: Priority) -> ThrottledStep {
        ThrottledStep { priority, began: Instant::now(), served: self.meters.served.get() }
    }

    /// Ends a step, and pauses if requests were served during it, for as long as more come.
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

    /// Whether anything was asked of the volume since so many operations were served, or somebody
    /// reads of it right now.
    fn is_serving(&self, served: &mut u64) -> bool {
        let before = std::mem::replace(served, self.meters.served.get());
        before != *served || self.epochs.has_readers()
    }
}
