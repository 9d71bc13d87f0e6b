//! Counters of a session, and the number of round trips of one operation.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::FutureExt;
runtime::counters! {
    /// Counters of a session since it began.
    pub struct Meters {
        /// Operations that were run for a caller.
        served,
        /// Round trips that read metadata.
        reads: "ashlar_metadata_round_trips_total" { operation: "read" }
            // One metric with the commits, because their sum is the load on the metadata store.
            "Round trips to the metadata store.",
        /// Round trips that committed a batch of plans.
        commits: "ashlar_metadata_round_trips_total" { operation: "commit" },
        /// Metadata reads that the record cache answered without a round trip, because the session
        /// was the only one or had leases of all others.
        remembered: "ashlar_metadata_cached_reads_total",
        /// Plans sent to the metadata store.
        ///
        /// A plan is a list of conditions and changes that the store commits as a whole.
        plans: "ashlar_metadata_plans_total",
        /// Plans that a guard refused. Most of them were planned again.
        refused: "ashlar_metadata_plans_refused_total",
        /// Plans whose outcome was unknown at first.
        ///
        /// For example, the connection was lost. Most outcomes become known a little later.
        in_doubt: "ashlar_metadata_plans_in_doubt_total",
        /// Plans whose outcome was still unknown when the caller got its answer.
        unresolved: "ashlar_metadata_plans_unresolved_total",
        /// Cached records that the change feed invalidated.
        ///
        /// The feed is the store's list of changed records. It reports changes by other sessions.
        notified: "ashlar_metadata_feed_invalidations_total",
        /// Times that the change feed had lost entries, so the whole record cache was dropped.
        ///
        /// More records had changed than the store keeps entries for.
        gaps: "ashlar_metadata_feed_gaps_total",
    }
}

/// Round trips of one operation to the metadata store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoundTrips {
    /// Reads. Each waited for one round trip, which other operations may have shared.
    pub reads: u64,
    /// Plans. Each waited for one round trip, which other operations may have shared.
    pub commits: u64,
}

#[derive(Debug, Default)]
struct Cost {
    reads: AtomicU64,
    commits: AtomicU64,
}

tokio::task_local! {
    static COST: Arc<Cost>;
}

/// Runs a future and returns its output and the round trips of the operations in it.
pub fn count_round_trips<F: Future>(future: F) -> impl Future<Output = (F::Output, RoundTrips)> {
    let cost = Arc::new(Cost::default());
    // Without an `async` block, which would have room for the future twice.
    COST.scope(Arc::clone(&cost), future).map(move |output| {
        let reads = cost.reads.load(Ordering::Relaxed);
        let commits = cost.commits.load(Ordering::Relaxed);
        (output, RoundTrips { reads, commits })
    })
}

/// Runs a future whose round trips to the metadata store are added to the measurement `to`. A task
/// of its own needs this, because it does not inherit the measurement of its caller.
pub(crate) async fn with_charge<F: Future>(future: F, to: Charge) -> F::Output {
    match to.0 {
        Some(cost) => COST.scope(cost, future).await,
        None => future.await,
    }
}

/// The measurement of round trips to which those of a task are added; `None` if none is active.
#[derive(Debug)]
pub(crate) struct Charge(Option<Arc<Cost>>);

/// Returns the measurement to which the current task adds its round trips to the metadata store.
pub(crate) fn current_charge() -> Charge {
    Charge(COST.try_with(Arc::clone).ok())
}

/// Adds a read of metadata to the current task's measurement of round trips, if there is one.
pub(crate) fn charge_read() {
    // Background work is not measured.
    let _unmeasured = COST.try_with(|cost| cost.reads.fetch_add(1, Ordering::Relaxed));
}

/// Adds a commit of a plan to the current task's measurement of round trips, if there is one.
pub(crate) fn charge_commit() {
    let _unmeasured = COST.try_with(|cost| cost.commits.fetch_add(1, Ordering::Relaxed));
}
