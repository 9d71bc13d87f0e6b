//! The parts of an open store that calls in flight need.

use std::sync::Weak;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use store::{Shortage, StoreError, StoreErrorKind};
use tokio::sync::Mutex;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::counters::OwnCells;
use crate::error::FULL_REMEDY;
use crate::feed::Feed;
use crate::guesses::Guesses;
use crate::keys::Keys;
use crate::members::Members;
use crate::rpc::TxnAnswer;

/// Interval of the checks of the members.
const CHECK_EVERY: Duration = Duration::from_secs(10);

/// Percentage of the quota of the database from which the log warns.
const WARN_PERCENT: u64 = 75;

/// The parts of an open store that calls in flight need.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) members: Members,
    pub(crate) keys: Keys,
    pub(crate) cells: OwnCells,
    /// Held by the batch that changes counters.
    pub(crate) counting: Mutex<()>,
    /// Held by the task that folds counters.
    pub(crate) folding: Mutex<()>,
    pub(crate) guesses: Guesses,
    pub(crate) feed: Feed,
    pub(crate) shortage: Shortage,
    /// The latest revision that an answer had.
    pub(crate) seen: AtomicI64,
    /// Bytes that the database of a member may have.
    pub(crate) quota: u64,
    /// Tasks that run to their end, also if their callers go away.
    pub(crate) tasks: TaskTracker,
    /// This value, for tasks that it starts.
    pub(crate) this: Weak<Shared>,
    /// Cancelled when the store closes.
    pub(crate) closed: CancellationToken,
}

impl Shared {
    /// Returns the latest revision that an answer had.
    pub(crate) fn seen(&self) -> i64 {
        self.seen.load(Ordering::SeqCst)
    }

    /// Notices the revision of an answer.
    pub(crate) fn saw(&self, revision: i64) {
        self.seen.fetch_max(revision, Ordering::SeqCst);
    }

    /// Notices from the outcome of a commit the revision, and if the database is full.
    pub(crate) fn observe(&self, outcome: &Result<TxnAnswer, StoreError>) {
        if let Ok(answer) = outcome {
            self.saw(answer.revision());
        }
        match outcome {
            Ok(answer) if answer.succeeded => self.shortage.set(None),
            Err(error) if error.kind() == StoreErrorKind::Full => {
                self.shortage.set(Some(FULL_REMEDY.to_owned()));
            }
            Ok(_) | Err(_) => {}
        }
    }

    /// Checks the members from time to time, until the store closes: chooses the leader, and warns
    /// before the database is full.
    pub(crate) async fn check_members(&self) {
        let mut ticks = interval(CHECK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_low = false;
        loop {
            tokio::select! {
                () = self.closed.cancelled() => return,
                _ = ticks.tick() => {}
            }
            let statuses = self.members.statuses().await;
            self.members.choose_by(&statuses);
            let answers =
                statuses.iter().filter_map(|(url, status)| Some((url, status.as_ref().ok()?)));
            let largest = answers.max_by_key(|(_, status)| status.db_bytes);
            let Some((url, status)) = largest else { continue };
            let bytes = u64::try_from(status.db_bytes).unwrap_or(0);
            let was_low = std::mem::replace(&mut is_low, bytes >= self.quota / 100 * WARN_PERCENT);
            if is_low && !was_low {
                tracing::warn!(
                    member = url,
                    bytes,
                    in_use = status.db_bytes_in_use,
                    quota = self.quota,
                    "the database of etcd is almost full: compact and defragment it"
                );
            }
        }
    }
}
