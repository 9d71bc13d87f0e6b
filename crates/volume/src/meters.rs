//! What a volume did, as counters, and what one operation cost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::content::Count;

/// Counters of everything behind the views since the volume was opened. They only grow.
#[derive(Debug, Default)]
pub(crate) struct Meters {
    /// Operations that were begun for a caller.
    pub(crate) served: Count,
    pub(crate) reads: Count,
    pub(crate) mirrored: Count,
    pub(crate) commits: Count,
    pub(crate) plans: Count,
    pub(crate) refused: Count,
    pub(crate) in_doubt: Count,
    pub(crate) unresolved: Count,
    pub(crate) told: Count,
    pub(crate) missed: Count,
    pub(crate) files_reaped: Count,
    pub(crate) blocks_reaped: Count,
    pub(crate) bytes_reaped: Count,
    pub(crate) blocks_swept: Count,
    pub(crate) damaged_kept: Count,
    pub(crate) packs_rewritten: Count,
    pub(crate) packs_left: Count,
    pub(crate) bytes_repacked: Count,
    pub(crate) bodies_settled: Count,
    pub(crate) bytes_settled: Count,
}

/// What a volume did since it was opened, and what it waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Round trips that read metadata.
    pub meta_reads: u64,
    /// Reads that needed none, because the session was alone and knew the records.
    pub reads_mirrored: u64,
    /// Round trips that committed a batch of plans.
    pub meta_commits: u64,
    /// Plans sent in those batches.
    pub plans: u64,
    /// Plans that a guard refused; most were planned again.
    pub refused: u64,
    /// Plans whose outcome was unknown at first.
    pub in_doubt: u64,
    /// Plans whose outcome was still unknown when their callers were answered.
    pub unresolved: u64,
    /// Remembered records that others were told to have changed.
    pub told: u64,
    /// How often more had changed than the store remembered.
    pub missed: u64,
    /// Blocks put.
    pub block_puts: u64,
    /// Content bytes put in blocks.
    pub block_put_bytes: u64,
    /// Block reads.
    pub block_gets: u64,
    /// Content bytes read from blocks.
    pub block_got_bytes: u64,
    /// Staged blocks deleted because nobody published them.
    pub blocks_abandoned: u64,
    /// Files and parts that the reaper removed.
    pub files_reaped: u64,
    /// Blocks that the reaper deleted.
    pub blocks_reaped: u64,
    /// Content bytes of those blocks.
    pub bytes_reaped: u64,
    /// Blocks that the sweeper deleted.
    pub blocks_swept: u64,
    /// Dead things that the reaper keeps, because their records cannot be read.
    pub damaged_kept: u64,
    /// Packs that were rewritten because little of them was alive.
    pub packs_rewritten: u64,
    /// Packs of which little was alive and that could not be rewritten, each as often as it was
    /// looked at.
    pub packs_left: u64,
    /// Bytes of files that were moved to a new pack.
    pub bytes_repacked: u64,
    /// Bodies that rested in their records and were put into blocks.
    pub bodies_settled: u64,
    /// Their bytes.
    pub bytes_settled: u64,
    /// Tasks that ended in a panic.
    pub panics: u64,
    /// Files that are held for readers that last; of now.
    pub holds: u64,
    /// For how long an epoch that the volume has left has been pinned; 0 if none is.
    pub oldest_pin: Duration,
}

/// What an operation cost in round trips to the metadata store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trips {
    /// Reads that were asked for; each waited for one round trip, maybe together with others.
    pub reads: u64,
    /// Plans that were sent; each waited for one round trip, maybe together with others.
    pub commits: u64,
}

#[derive(Debug, Default)]
struct Tally {
    reads: AtomicU64,
    commits: AtomicU64,
}

tokio::task_local! {
    static TALLY: Arc<Tally>;
}

/// Runs a future and tells what the operations in it cost.
pub async fn measured<F: Future>(future: F) -> (F::Output, Trips) {
    let tally = Arc::new(Tally::default());
    let output = TALLY.scope(Arc::clone(&tally), future).await;
    let reads = tally.reads.load(Ordering::Relaxed);
    let commits = tally.commits.load(Ordering::Relaxed);
    (output, Trips { reads, commits })
}

/// Charges what a future costs to whoever is measured here, wherever it runs.
pub(crate) async fn charged<F: Future>(future: F, to: Charge) -> F::Output {
    match to.0 {
        Some(tally) => TALLY.scope(tally, future).await,
        None => future.await,
    }
}

/// Who is measured.
#[derive(Debug)]
pub(crate) struct Charge(Option<Arc<Tally>>);

/// Who is measured here.
pub(crate) fn charge() -> Charge {
    Charge(TALLY.try_with(Arc::clone).ok())
}

/// Charges a read to the operation under way, if somebody measures it.
pub(crate) fn charge_read() {
    // Nobody measures background work.
    let _unmeasured = TALLY.try_with(|tally| tally.reads.fetch_add(1, Ordering::Relaxed));
}

/// Charges a commit to the operation under way, if somebody measures it.
pub(crate) fn charge_commit() {
    let _unmeasured = TALLY.try_with(|tally| tally.commits.fetch_add(1, Ordering::Relaxed));
}
