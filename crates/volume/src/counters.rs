//! The counters of a volume, for metrics and the status page.
//!
//! For example, `session.plans / session.commits` is the mean number of plans in a batch.

use std::time::Duration;

use content::Traffic;
use runtime::{Metered, Metric};
use session::Meters;

use crate::Volume;

/// Counters of a volume since it was opened, and a few current values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Operations, round trips and plans of the session.
    pub session: Meters<u64>,
    /// Blocks that readers and writers of content put and got.
    pub traffic: Traffic<u64>,
    /// Current number of files with a hold, which is a record that keeps the blocks of a file for
    /// long readers.
    pub holds: u64,
    /// Time for which the oldest running reader has pinned an epoch that is not the newest any
    /// more; 0 if none does. Sessions report by the epoch, a counter, that earlier readers have
    /// ended. So deletions of blocks wait as long as this time grows.
    pub oldest_pin: Duration,
}

impl Volume {
    /// Returns the current counters.
    pub fn counters(&self) -> Counters {
        Counters {
            session: self.session.meters().read(),
            traffic: self.staging.traffic.read(),
            holds: u64::try_from(self.session.holds().count()).unwrap_or(u64::MAX),
            oldest_pin: self.session.epochs().oldest_pin().unwrap_or_default(),
        }
    }
}

impl Metered for Volume {
    fn visit_metrics(&self, visit: &mut dyn FnMut(Metric)) {
        self.session.visit_metrics(visit);
        self.staging.traffic.visit_metrics(visit);
    }
}
