//! A store for tests whose calls take random time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use runtime::Tasks;
use store::{
    Changes, CounterPage, Durability, Limits, MemoryStore, MetaStore, Page, Plan, Position, Read,
    ReadResult, Snapshot, Space, StoreError, StoreErrorKind, Verdict,
};

/// A store whose calls yield to the scheduler a few times before and after they happen. Some of its
/// batches commit much later than their callers get `Unknown`.
#[derive(Debug)]
pub(crate) struct Slow {
    inner: Arc<MemoryStore>,
    random: Mutex<SmallRng>,
    tasks: Tasks,
    /// The time that a call waits before and after it happens, at most; 0 if it only yields.
    pause: Duration,
}

impl Slow {
    /// Creates an empty store whose calls only yield to the scheduler.
    pub(crate) fn new(seed: u64, tasks: Tasks) -> Slow {
        Slow::with_pauses(seed, tasks, Duration::ZERO)
    }

    /// Creates an empty store whose calls wait twice for at most `pause`.
    pub(crate) fn with_pauses(seed: u64, tasks: Tasks, pause: Duration) -> Slow {
        let random = Mutex::new(SmallRng::seed_from_u64(seed));
        Slow { inner: Arc::default(), random, tasks, pause }
    }

    /// Decides plans without a pause and with a certain outcome.
    pub(crate) async fn commit_at_once(&self, plans: &[Plan]) -> Vec<Verdict> {
        self.inner.commit(plans).await.expect("the memory commits")
    }

    fn dice(&self, sides: u32) -> u32 {
        self.random.lock().unwrap().random_range(0..sides)
    }

    async fn dawdle(&self) {
        if !self.pause.is_zero() {
            tokio::time::sleep(self.pause * self.dice(100) / 100).await;
        }
        for _ in 0..self.dice(6) {
            tokio::task::yield_now().await;
        }
    }
}

#[async_trait]
impl MetaStore for Slow {
    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    fn durability(&self) -> Durability {
        self.inner.durability()
    }

    fn shortage(&self) -> Option<String> {
        self.inner.shortage()
    }

    async fn read(&self, reads: &[Read]) -> Result<Vec<ReadResult>, StoreError> {
        self.dawdle().await;
        let found = self.inner.read(reads).await;
        self.dawdle().await;
        found
    }

    async fn commit(&self, plans: &[Plan]) -> Result<Vec<Verdict>, StoreError> {
        self.dawdle().await;
        match self.dice(200) {
            0 => {
                let (inner, plans, turns) = (self.inner.clone(), plans.to_vec(), self.dice(500));
                let late = self.tasks.spawn("late", async move {
                    for _ in 0..turns {
                        tokio::task::yield_now().await;
                    }
                    inner.commit(&plans).await
                });
                drop(late);
                Err(StoreError::new(StoreErrorKind::Unknown, "losing an answer"))
            }
            1 => Err(StoreError::new(StoreErrorKind::Unavailable, "refusing a connection")),
            _ => {
                let verdicts = self.inner.commit(plans).await;
                self.dawdle().await;
                verdicts
            }
        }
    }

    async fn walk(&self, _: Space, _: Option<Bytes>, _: u32) -> Result<Page, StoreError> {
        unreachable!("no test walks")
    }

    async fn walk_counters(
        &self,
        _: Space,
        _: Option<Bytes>,
        _: u32,
    ) -> Result<CounterPage, StoreError> {
        unreachable!("no test walks")
    }

    async fn changes(&self, since: Option<&Position>) -> Result<Changes, StoreError> {
        self.inner.changes(since).await
    }

    async fn snapshot(&self) -> Result<Box<dyn Snapshot>, StoreError> {
        self.inner.snapshot().await
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}
