//! A metadata store in memory that fails as it is told, for tests.

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

/// What happens to a commit that the faults are aimed at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
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
pub struct Reading {
    /// How long after its snapshot a read answers.
    pub takes: Duration,
    /// Every read fails like this.
    pub fails: Option<StoreErrorKind>,
    /// The same for those that ask for this record.
    pub damaged: Option<Key>,
}

/// A walk waits before its first page of a space, or before a later one.
#[derive(Clone, Debug)]
pub struct Gate {
    /// Whose walk waits.
    pub space: Space,
    /// Before a later page than the first.
    pub later: bool,
    /// Told when the walk waits.
    pub reached: Arc<Notify>,
    /// Lets it go on.
    pub open: Arc<Notify>,
}

impl Gate {
    /// A gate that is shut.
    pub fn before(space: Space, later: bool) -> Gate {
        Gate { space, later, reached: Arc::default(), open: Arc::default() }
    }
}

/// Another writer that is always faster: it replaces a record right before each commit that guards it.
#[derive(Clone, Debug)]
pub struct Rival {
    /// The record.
    pub key: Key,
    /// What it becomes, in turn.
    pub values: [Bytes; 2],
}

/// Another gateway, which acts in the middle of a request.
#[async_trait]
pub trait Interruption: fmt::Debug + Send + Sync {
    /// Acts. May use the same store.
    async fn act(&self);
}

/// A store in memory with faults in front.
#[derive(Debug, Default)]
pub struct Faulty {
    inner: MemoryStore,
    faults: Mutex<VecDeque<(Option<Space>, Fault)>>,
    delayed: Mutex<Vec<Vec<Plan>>>,
    released: Notify,
    /// Faults that have happened.
    pub fired: AtomicU64,
    /// Commits that were asked for.
    pub commits: AtomicU64,
    /// Reads that were asked for.
    pub reads: AtomicU64,
    /// What becomes of reads.
    pub reading: Mutex<Reading>,
    /// Where the next walk that comes there waits, once.
    pub gate: Mutex<Option<Gate>>,
    /// Another writer, which always commits first.
    pub rival: Mutex<Option<Rival>>,
    /// Acts before the next commit, once.
    pub interruption: Mutex<Option<Arc<dyn Interruption>>>,
    /// The questions of each read so far.
    pub asked: Mutex<Vec<Vec<Read>>>,
}

impl Faulty {
    /// A store without faults, with nothing in it.
    pub fn new() -> Arc<Faulty> {
        Arc::new(Faulty::default())
    }

    /// The next commit that writes a record of this space, or any at all, fails like this.
    pub fn inject(&self, space: Option<Space>, fault: Fault) {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).push_back((space, fault));
    }

    /// Faults that have happened.
    pub fn fired(&self) -> u64 {
        self.fired.load(Ordering::SeqCst)
    }

    /// Delivers what was delayed; answers its verdicts.
    pub async fn deliver(&self) -> Vec<Vec<Verdict>> {
        let delayed =
            std::mem::take(&mut *self.delayed.lock().unwrap_or_else(PoisonError::into_inner));
        let mut verdicts = Vec::new();
        for plans in delayed {
            verdicts.push(self.inner.commit(&plans).await.expect("it takes plans"));
        }
        verdicts
    }

    /// Commits without a fault, and before anything else happens.
    pub async fn commit_now(&self, plans: &[Plan]) {
        self.inner.commit(plans).await.expect("it takes plans");
    }

    /// Lets all go on that hang.
    pub fn release(&self) {
        self.released.notify_waiters();
    }

    /// Lets the rival write, if a plan guards its record.
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

/// The record under a key.
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
            return Err(StoreError::because(kind, "reading what fails", "as it was told"));
        }
        if damaged.as_ref().is_some_and(asks) {
            return Err(StoreError::new(StoreErrorKind::Corrupt, "reading what is damaged"));
        }
        found
    }

    async fn commit(&self, plans: &[Plan]) -> Result<Vec<Verdict>, StoreError> {
        self.commits.fetch_add(1, Ordering::SeqCst);
        // A round trip takes a while, so that others can collect behind it.
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
