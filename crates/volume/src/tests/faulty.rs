//! A store that fails as it is told.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use store::{
    Changes, Durability, Found, Key, Limits, MemoryStore, MetaStore, Page, Plan, Position, Read,
    Snapshot, Space, StoreError, StoreErrorKind, TallyPage, Verdict, Write,
};
use tokio::sync::Notify;

/// What happens to a commit that the faults are aimed at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing happens, and the caller is told so.
    Unavailable,
    /// Nothing happens, and the caller cannot know.
    LostRequest,
    /// It happens, and the caller cannot know.
    LostAnswer,
    /// The caller cannot know, and it is delivered when [`Faulty::deliver`] says so.
    Delayed,
    /// It happens, and no answer comes until [`Faulty::release`].
    Hang,
    /// It does not happen, and no answer ever comes.
    Stuck,
    /// No fault.
    Pass,
}

/// What becomes of the reads that a store is asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reading {
    /// How long after its snapshot a read answers.
    pub(crate) takes: Duration,
    /// Every read fails like this.
    pub(crate) fails: Option<StoreErrorKind>,
    /// The same for those that ask for this record.
    pub(crate) damaged: Option<Key>,
}

/// A walk waits before its first page of a space, or before a later one.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    pub(crate) space: Space,
    pub(crate) later: bool,
    /// Told when the walk waits.
    pub(crate) reached: Arc<Notify>,
    /// Lets it go on.
    pub(crate) open: Arc<Notify>,
}

impl Gate {
    pub(crate) fn before(space: Space, later: bool) -> Gate {
        Gate { space, later, reached: Arc::default(), open: Arc::default() }
    }
}

/// A store in memory with faults in front.
#[derive(Debug, Default)]
pub(crate) struct Faulty {
    inner: MemoryStore,
    faults: Mutex<VecDeque<(Option<Space>, Fault)>>,
    delayed: Mutex<Vec<Vec<Plan>>>,
    released: Notify,
    pub(crate) fired: AtomicU64,
    pub(crate) commits: AtomicU64,
    pub(crate) reads: AtomicU64,
    pub(crate) reading: Mutex<Reading>,
    /// Where the next walk that comes there waits, once.
    pub(crate) gate: Mutex<Option<Gate>>,
    /// The questions of each read so far.
    pub(crate) asked: Mutex<Vec<Vec<Read>>>,
}

impl Faulty {
    pub(crate) fn new() -> Arc<Faulty> {
        Arc::new(Faulty::default())
    }

    /// The next commit that writes a record of this space, or any at all, fails like this.
    pub(crate) fn inject(&self, space: Option<Space>, fault: Fault) {
        self.faults.lock().unwrap().push_back((space, fault));
    }

    pub(crate) fn fired(&self) -> u64 {
        self.fired.load(Ordering::SeqCst)
    }

    /// Delivers what was delayed; answers its verdicts.
    pub(crate) async fn deliver(&self) -> Vec<Vec<Verdict>> {
        let delayed = std::mem::take(&mut *self.delayed.lock().unwrap());
        let mut verdicts = Vec::new();
        for plans in delayed {
            verdicts.push(self.inner.commit(&plans).await.unwrap());
        }
        verdicts
    }

    /// Commits without a fault, and before anything else happens.
    pub(crate) async fn commit_now(&self, plans: &[Plan]) {
        self.inner.commit(plans).await.unwrap();
    }

    pub(crate) fn release(&self) {
        self.released.notify_waiters();
    }

    fn next(&self, plans: &[Plan]) -> Fault {
        let mut faults = self.faults.lock().unwrap();
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

/// The record under a key.
pub(crate) async fn get(store: &dyn MetaStore, key: &Key) -> Option<store::Value> {
    let found = store.read(&[Read::Record { key: key.clone(), follow: None }]).await.unwrap();
    crate::session::value(found.first())
}

#[async_trait]
impl MetaStore for Faulty {
    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    fn durability(&self) -> Durability {
        self.inner.durability()
    }

    async fn read(&self, reads: &[Read]) -> Result<Vec<Found>, StoreError> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.asked.lock().unwrap().push(reads.to_vec());
        let Reading { takes, fails, damaged } = self.reading.lock().unwrap().clone();
        let found = self.inner.read(reads).await;
        if !takes.is_zero() {
            tokio::time::sleep(takes).await;
        }
        let asks = |damaged: &Key| {
            reads.iter().any(|read| matches!(read, Read::Record { key, .. } if key == damaged))
        };
        if let Some(kind) = fails {
            return Err(StoreError::because(kind, "reading what fails", "as it was told"));
        }
        if damaged.as_ref().is_some_and(asks) {
            return Err(StoreError::new(StoreErrorKind::Corrupt, "reading what is damaged"));
        }
        found
    }

    async fn commit(&self, plans: &[Plan]) -> Result<Vec<Verdict>, StoreError> {
        self.commits.fetch_add(1, Ordering::SeqCst);
        // A round trip takes a while, so that others can gather behind it.
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
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
                self.delayed.lock().unwrap().push(plans.to_vec());
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
        let gate = self.gate.lock().unwrap().take_if(here);
        if let Some(gate) = gate {
            self.fired.fetch_add(1, Ordering::SeqCst);
            gate.reached.notify_one();
            gate.open.notified().await;
        }
        self.inner.walk(space, resume, limit).await
    }

    async fn walk_tallies(
        &self,
        space: Space,
        resume: Option<Bytes>,
        limit: u32,
    ) -> Result<TallyPage, StoreError> {
        self.inner.walk_tallies(space, resume, limit).await
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
