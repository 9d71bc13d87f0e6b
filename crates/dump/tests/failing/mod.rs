//! A store in memory that fails on purpose.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use store::{
    Changes, CounterKey, CounterPage, Durability, Key, Limits, MemoryStore, MetaStore, Page, Plan,
    Position, Read, ReadResult, Snapshot, Space, StoreError, StoreErrorKind, Value, Verdict,
};

use crate::stores::{keystone_key, put, write};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Nothing,
    /// The commit with this number fails, and all after it, for ever.
    Corrupt,
    /// Every commit's first try is lost on its way.
    BeforeEach,
    /// Every commit happens, and its first answer is lost.
    AfterEach,
    /// Nothing can be reached.
    Always,
    /// Before the commit with this number, another process creates a volume.
    Taken,
    /// Snapshots give their records in the wrong order.
    Disorder,
}

#[derive(Debug)]
pub(crate) struct Failing {
    pub(crate) store: MemoryStore,
    limits: Limits,
    at: u64,
    fault: Fault,
    commits: AtomicU64,
    faults: AtomicU64,
    /// Plans that were tried once.
    tried: Mutex<Vec<Plan>>,
}

impl Failing {
    pub(crate) fn new(at: u64, fault: Fault) -> Failing {
        let store = MemoryStore::new();
        let limits = store.limits();
        let (commits, faults) = (AtomicU64::new(0), AtomicU64::new(0));
        Failing { store, limits, at, fault, commits, faults, tried: Mutex::default() }
    }

    pub(crate) fn limited(mut self, change: impl FnOnce(&mut Limits)) -> Failing {
        change(&mut self.limits);
        self
    }

    pub(crate) fn commits(&self) -> u64 {
        self.commits.load(Ordering::SeqCst)
    }

    pub(crate) fn faults(&self) -> u64 {
        self.faults.load(Ordering::SeqCst)
    }

    /// The plans that were tried once; with [`Fault::BeforeEach`] those whose first try was lost.
    pub(crate) fn take_lost(&self) -> Vec<Plan> {
        std::mem::take(&mut self.tried.lock().expect("no holder panics"))
    }

    fn fail<T>(&self, kind: StoreErrorKind) -> Result<T, StoreError> {
        self.faults.fetch_add(1, Ordering::SeqCst);
        Err(StoreError::new(kind, "failing on purpose"))
    }

    fn is_first_try(&self, plans: &[Plan]) -> bool {
        let mut tried = self.tried.lock().expect("no holder panics");
        let fresh = !plans.iter().any(|plan| tried.contains(plan));
        if fresh {
            tried.extend_from_slice(plans);
        }
        fresh
    }
}

#[async_trait]
impl MetaStore for Failing {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn durability(&self) -> Durability {
        self.store.durability()
    }

    fn shortage(&self) -> Option<String> {
        self.store.shortage()
    }

    async fn read(&self, reads: &[Read]) -> Result<Vec<ReadResult>, StoreError> {
        self.store.read(reads).await
    }

    async fn commit(&self, plans: &[Plan]) -> Result<Vec<Verdict>, StoreError> {
        self.limits.check_commit(plans)?;
        let number = self.commits.fetch_add(1, Ordering::SeqCst) + 1;
        match self.fault {
            Fault::Corrupt if number >= self.at => return self.fail(StoreErrorKind::Corrupt),
            Fault::Always => return self.fail(StoreErrorKind::Unavailable),
            Fault::BeforeEach if self.is_first_try(plans) => {
                return self.fail(StoreErrorKind::Unknown);
            }
            Fault::AfterEach if self.is_first_try(plans) => {
                self.store.commit(plans).await?;
                return self.fail(StoreErrorKind::Unknown);
            }
            Fault::Taken if number == self.at => {
                write(&self.store, vec![put(keystone_key(), "taken")]).await;
            }
            _ => {}
        }
        self.store.commit(plans).await
    }

    async fn walk(
        &self,
        space: Space,
        resume: Option<Bytes>,
        limit: u32,
    ) -> Result<Page, StoreError> {
        self.store.walk(space, resume, limit).await
    }

    async fn walk_counters(
        &self,
        space: Space,
        resume: Option<Bytes>,
        limit: u32,
    ) -> Result<CounterPage, StoreError> {
        self.store.walk_counters(space, resume, limit).await
    }

    async fn changes(&self, since: Option<&Position>) -> Result<Changes, StoreError> {
        self.store.changes(since).await
    }

    async fn snapshot(&self) -> Result<Box<dyn Snapshot>, StoreError> {
        let inner = self.store.snapshot().await?;
        let disorder = self.fault == Fault::Disorder;
        Ok(if disorder { Box::new(Disordered(inner)) } else { inner })
    }

    async fn close(&self) {
        self.store.close().await;
    }
}

#[derive(Debug)]
struct Disordered(Box<dyn Snapshot>);

#[async_trait]
impl Snapshot for Disordered {
    async fn records(&mut self, limit: u32) -> Result<Vec<(Key, Value)>, StoreError> {
        let mut page = self.0.records(limit).await?;
        page.reverse();
        Ok(page)
    }

    async fn counters(&mut self, limit: u32) -> Result<Vec<(CounterKey, i64)>, StoreError> {
        self.0.counters(limit).await
    }
}
