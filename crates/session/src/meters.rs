//! What a session did, as counters, and what one operation cost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use runtime::MetricCounter;

/// What a session did since it was begun.
#[derive(Debug, Default)]
pub struct Meters {
    /// Operations that were begun for a caller.
    pub served: MetricCounter,
    /// Round trips that read metadata.
    pub reads: MetricCounter,
    /// Reads that needed none, because the session was the only one and remembered the records.
    pub remembered: MetricCounter,
    /// Round trips that committed a batch of plans.
    pub commits: MetricCounter,
    /// Plans sent in those batches.
    pub plans: MetricCounter,
    /// Plans that a guard refused; most were planned again.
    pub refused: MetricCounter,
    /// Plans whose outcome was unknown at first.
    pub in_doubt: MetricCounter,
    /// Plans whose outcome was still unknown when their callers were answered.
    pub unresolved: MetricCounter,
    /// Notifications that another session changed a record that was remembered.
    pub notified: MetricCounter,
    /// Gaps in the feed: how often more had changed than the store remembered.
    pub gaps: MetricCounter,
}

/// What an operation cost in round trips to the metadata store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoundTrips {
    /// Reads that were asked for; each waited for one round trip, maybe together with others.
    pub reads: u64,
    /// Plans that were sent; each waited for one round trip, maybe together with others.
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

/// Runs a future and tells what the operations in it cost.
pub async fn count_round_trips<F: Future>(future: F) -> (F::Output, RoundTrips) {
    let cost = Arc::new(Cost::default());
    let output = COST.scope(Arc::clone(&cost), future).await;
    let reads = cost.reads.load(Ordering::Relaxed);
    let commits = cost.commits.load(Ordering::Relaxed);
    (output, RoundTrips { reads, commits })
}

/// Charges what a future costs to whoever is measured here, wherever it runs.
pub(crate) async fn with_charge<F: Future>(future: F, to: Charge) -> F::Output {
    match to.0 {
        Some(cost) => COST.scope(cost, future).await,
        None => future.await,
    }
}

/// Who is measured.
#[derive(Debug)]
pub(crate) struct Charge(Option<Arc<Cost>>);

/// Who is measured here.
pub(crate) fn current_charge() -> Charge {
    Charge(COST.try_with(Arc::clone).ok())
}

/// Charges a read to the operation under way, if somebody measures it.
pub(crate) fn charge_read() {
    // Nobody measures background work.
    let _unmeasured = COST.try_with(|cost| cost.reads.fetch_add(1, Ordering::Relaxed));
}

/// Charges a commit to the operation under way, if somebody measures it.
pub(crate) fn charge_commit() {
    let _unmeasured = COST.try_with(|cost| cost.commits.fetch_add(1, Ordering::Relaxed));
}
