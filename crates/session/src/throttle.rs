//! How background work gives way to requests.
//!
//! Deleting what is dead and rewriting packs cost the machine, the database and the bucket as much
//! as requests do, and nobody waits for them. So they go in short steps, and as long as this process
//! serves requests, each step is followed by a rest that is a multiple of what it took. Where
//! nothing is asked of the volume there is no rest, and where so much is left to do that it would
//! pile up, or somebody waits for the end of it, there is none either.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::epoch::Epochs;
use crate::meters::Meters;

/// How many times as long as it worked a background task rests while requests are served: it takes
/// a twentieth of the time.
pub const REST_FACTOR: u32 = 19;

/// The longest rest.
pub const REST_MAX: Duration = Duration::from_secs(5);

/// How often a rest looks whether it is still needed.
const LOOK_INTERVAL: Duration = Duration::from_millis(25);

/// Whether background work gives way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// It rests while requests are served.
    GivingWay,
    /// It does not: somebody waits for it, or too much is left to do.
    Hurried,
}

/// A step of background work that is under way.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    pace: Pace,
    began: Instant,
    /// Operations served until then.
    served: u64,
}

/// Knows whether requests are served, and for how long background work rests.
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
    pub fn begin_step(&self, pace: Pace) -> Step {
        Step { pace, began: Instant::now(), served: self.meters.served.get() }
    }

    /// Ends a step, and rests if requests were served during it, for as long as more come.
    pub async fn rest_after(&self, step: Step) {
        if step.pace == Pace::Hurried {
            return;
        }
        let now = Instant::now();
        let until = now + (now.duration_since(step.began) * REST_FACTOR).min(REST_MAX);
        let mut served = step.served;
        while self.serves(&mut served) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            tokio::select! {
                () = self.closing.cancelled() => return,
                () = tokio::time::sleep(left.min(LOOK_INTERVAL)) => {}
            }
        }
    }

    /// Whether anything was asked of the volume since so many operations were served, or somebody
    /// reads of it right now.
    fn serves(&self, served: &mut u64) -> bool {
        let before = std::mem::replace(served, self.meters.served.get());
        before != *served || self.epochs.are_pinned()
    }
}
