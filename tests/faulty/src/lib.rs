//! An in-memory metadata store that fails on demand, for tests.
//!
//! For example, after `store.inject(None, Fault::LostAnswer)` the next commit is applied, and its
//! caller gets the error `Unknown`.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use store::{
    Changes, CounterPage, Durability, Guard, Key, Limits, MemoryStore, MetaStore, Page, Plan,
    Position, Read, ReadResult, Snapshot, Space, StoreError, StoreErrorKind, Verdict, Write,
};
use tokio::sync::Notify;

/// A fault of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The commit is not applied; the caller gets `Unavailable`.
    Unavailable,
    /// The commit is not applied; the caller gets `Unknown`.
    LostRequest,
    /// The commit is applied; the caller gets `Unknown`.
    LostAnswer,
    /// The caller gets `Unknown`; the commit is applied by [`Faulty::deliver`].
    Delayed,
    /// The commit is applied; the reply comes after [`Faulty::release`].
    Hang,
    /// The commit is not applied, and no reply ever comes.
    Stuck,
    /// No fault.
    Pass,
}

/// The faults of reads.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// The delay between the snapshot of a read and its reply.
    pub takes: Duration,
    /// Every read fails with this error.
    pub fails: Option<StoreErrorKind>,
    /// Reads of this record fail with `Corrupt`.
    pub damaged: Option<Key>,
}

/// Makes a walk wait before its first page of a space, or before a later one.
#[derive(Clone, Debug)]
pub struct Gate {
    /// The space of the walk.
    pub space: Space,
    /// True to wait before a later page than the first.
    pub later: bool,
    /// Notified when the walk waits.
    pub reached: Arc<Notify>,
    /// Lets the walk continue.
    pub open: Arc<Notify>,
}

impl Gate {
    /// Returns a closed gate.
    pub fn before(space: Space, later: bool) -> Gate {
        Gate { space, later, reached: Arc::default(), open: Arc::default() }
    }
}

/// Another writer that always commits first: it replaces a record just before each commit that
/// guards the record.
#[derive(Clone, Debug)]
pub struct Rival {
    /// The record.
    pub key: Key,
    /// The values that it writes, alternately.
    pub values: [Bytes; 2],
}

/// Another gateway that acts during a request.
#[async_trait]
pub trait Interruption: fmt::Debug + Send + Sync {
    /// Acts. It may use the same store.
    async fn act(&self);
}

/// An in-memory store with faults.
#[derive(Debug, Default)]
pub struct Faulty {
    inner: MemoryStore,
    faults: Mutex<VecDeque<(Option<Space>, Fault)>>,
    delayed: Mutex<Vec<Vec<Plan>>>,
    released: Notify,
    /// Number of faults that have occurred.
    pub fired: AtomicU64,
    /// Number of commits that were requested.
    pub commits: AtomicU64,
    /// Number of reads that were requested.
    pub reads: AtomicU64,
    /// The faults of reads.
    pub reading: Mutex<Reading>,
    /// The gate for the next walk that reaches it; it applies once.
    pub gate: Mutex<Option<Gate>>,
    /// Another writer, which always commits first.
    pub rival: Mutex<Option<Rival>>,
    /// Acts before the next commit, once.
    pub interruption: Mutex<Option<Arc<dyn Interruption>>>,
    /// The arguments of each read so far.
    pub asked: Mutex<Vec<Vec<Read>>>,
}

impl Faulty {
    /// Returns an empty store without faults.
    pub fn new() -> Arc<Faulty> {
        Arc::new(Faulty::default())
    }

    /// Injects a fault into the next commit that writes a record of this space, or into the next
    /// commit if `space` is `None`.
    pub fn inject(&self, space: Option<Space>, fault: Fault) {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).push_back((space, fault));
    }

    /// Returns the number of faults that have occurred.
    pub fn fired(&self) -> u64 {
        self.fired.load(Ordering::SeqCst)
    }

    /// Applies the delayed commits and returns their verdicts.
    pub async fn deliver(&self) -> Vec<Vec<Verdict>> {
        let delayed =
            std::mem::take(&mut *self.delayed.lock().unwrap_or_else(PoisonError::into_inner));
        let mut verdicts = Vec::new();
        for plans in delayed {
            verdicts.push(self.inner.commit(&plans).await.expect("it takes plans"));
        }
        verdicts
    }

    /// Commits at once, without a fault.
    pub async fn commit_now(&self, plans: &[Plan]) {
        self.inner.commit(plans).await.expect("it takes plans");
    }

    /// Releases all commits that hang.
    pub fn release(&self) {
        self.released.notify_waiters();
    }

    /// Lets the rival write if a plan guards its record.
    async fn overtake(&self, plans: &[Plan]) {
        let rival = self.rival.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(Rival { key, values }) = rival else { return };
        let guards = plans.iter().flat_map(|plan| &plan.guards);
        let is_guarded = |guard: &Guard| match guard {
            Guard::Equals(guarded, _) | Guard::Absent(guarded) | Guard::Present(guarded) => {
                *guarded == key
            }
            Guard::Empty(..) | Guard::AtMost(..) => false,
        };
        if guards.into_iter().any(is_guarded) {
            let turn = self.fired.fetch_add(1, Ordering::SeqCst) % 2;
            let value = if turn == 0 { &values[0] } else { &values[1] };
            let writes = vec![Write::Put(key, value.clone())];
            self.commit_now(&[Plan { guards: Vec::new(), writes }]).await;
        }
    }

    fn next(&self, plans: &[Plan]) -> Fault {
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        let writes = |space: Space| {
            plans.iter().flat_map(|plan| &plan.writes).any(
                |write| matches!(write, Write::Put(key, _) | Write::Delete(key) if key.space() == space),
            )
        };
        match faults.front() {
            Some((space, fault)) if space.is_none_or(writes) => {
                let fault = *fault;
                faults.pop_front();
                self.fired.fetch_add(1, Ordering::SeqCst);
                fault
            }
            _ => Fault::Pass,
        }
    }
}

/// Returns the record under a key.
pub async fn get(store: &dyn MetaStore, key: &Key) -> Option<store::Value> {
    let found =
        store.read(&[Read::Record { key: key.clone(), follow: None }]).await.expect("it answers");
    match found.first() {
        Some(ReadResult::Record(Some(entry))) => Some(entry.value.clone()),
        _ => None,
    }
}

#[async_trait]
impl MetaStore for Faulty {
    /// Returns the limits of a database server: several sessions may use it, and reads that wait
    /// are sent together.
    fn limits(&self) -> Limits {
        Limits { reads_in_flight: 1, serves_one: false, ..self.inner.limits() }
    }

    fn durability(&self) -> Durability {
        self.inner.durability()
    }

    fn shortage(&self) -> Option<String> {
        self.inner.shortage()
    }

    async fn read(&self, reads: &[Read]) -> Result<Vec<ReadResult>, StoreError> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(reads.to_vec());
        let Reading { takes, fails, damaged } =
            self.reading.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let found = self.inner.read(reads).await;
        if !takes.is_zero() {
            tokio::time::sleep(takes).await;
        }
        let asks = |damaged: &Key| {
            reads.iter().any(|read| matches!(read, Read::Record { key, .. } if key == damaged))
        };
        if let Some(kind) = fails {
            return Err(StoreError::because(kind, "reading with an injected fault", "as injected"));
        }
        if damaged.as_ref().is_some_and(asks) {
            return Err(StoreError::new(StoreErrorKind::Corrupt, "reading a damaged record"));
        }
        found
    }

    async fn commit(&self, plans: &[Plan]) -> Result<Vec<Verdict>, StoreError> {
        self.commits.fetch_add(1, Ordering::SeqCst);
        // A commit takes some time, so that others can form a batch behind it.
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        self.overtake(plans).await;
        let interruption = self.interruption.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(interruption) = interruption {
            self.fired.fetch_add(1, Ordering::SeqCst);
            interruption.act().await;
        }
        let unknown = || StoreError::new(StoreErrorKind::Unknown, "losing an answer");
        match self.next(plans) {
            Fault::Pass => self.inner.commit(plans).await,
            Fault::Unavailable => {
                Err(StoreError::new(StoreErrorKind::Unavailable, "refusing a connection"))
            }
            Fault::LostRequest => Err(unknown()),
            Fault::LostAnswer => {
                self.inner.commit(plans).await?;
                Err(unknown())
            }
            Fault::Delayed => {
                self.delayed.lock().unwrap_or_else(PoisonError::into_inner).push(plans.to_vec());
                Err(unknown())
            }
            Fault::Stuck => std::future::pending().await,
            Fault::Hang => {
                let verdicts = self.inner.commit(plans).await;
                self.released.notified().await;
                verdicts
            }
        }
    }

    async fn walk(
        &self,
        space: Space,
        resume: Option<Bytes>,
        limit: u32,
    ) -> Result<Page, StoreError> {
        tokio::time::sleep(std::time::Duration::from_millis(3)).await;
        let here = |gate: &mut Gate| gate.space == space && gate.later == resume.is_some();
        let gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner).take_if(here);
        if let Some(gate) = gate {
            self.fired.fetch_add(1, Ordering::SeqCst);
            gate.reached.notify_one();
            gate.open.notified().await;
        }
        self.inner.walk(space, resume, limit).await
    }

    async fn walk_counters(
        &self,
        space: Space,
        resume: Option<Bytes>,
        limit: u32,
    ) -> Result<CounterPage, StoreError> {
        self.inner.walk_counters(space, resume, limit).await
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
