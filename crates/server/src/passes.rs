//! The lifecycle passes of a process: their start after its volume is open, and their end before
//! its session ends.
//!
//! For example, a gateway that stops ends its passes when no request is in flight any more, and
//! another process of the volume continues them.

use std::sync::Arc;
use std::time::Duration;

use lifecycle::{Lifecycle, LifecycleOptions};
use rules::RulesCache;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use volume::Volume;

use crate::metrics::Metrics;

/// The running lifecycle passes of this process.
#[derive(Debug)]
pub(crate) struct Passes {
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Passes {
    /// Begins to follow the lifecycle rules of all buckets of a volume, and registers the counters
    /// of the passes. `day` is the length of a day in these rules.
    pub(crate) fn start(
        volume: &Arc<Volume>,
        rules: Arc<RulesCache>,
        metrics: &Metrics,
        day: Duration,
    ) -> Passes {
        let options = LifecycleOptions { day, ..LifecycleOptions::default() };
        let lifecycle = Arc::new(Lifecycle::new(Arc::clone(volume), rules, options));
        metrics.collect_from(Arc::clone(&lifecycle));
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let until = stop.clone();
        tasks.spawn(async move { lifecycle.follow(until).await });
        Passes { tasks, stop }
    }

    /// Ends the passes. After that they begin no commit any more.
    pub(crate) async fn end(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}
