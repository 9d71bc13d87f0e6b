//! What Ashlar asks of a metadata database: an ordered map of small records with conditional
//! commit, and nothing else.
//!
//! The contract has two verbs. [`MetaStore::read`] answers any number of questions from one
//! snapshot; [`MetaStore::commit`] decides any number of [`Plan`]s. Each call is one round trip.
//! An engine knows keys, values, guards and counters; it does not know what an inode is.
//!
//! There are no optional features and no default methods. Every engine passes all of
//! [`mod@conformance`].

mod batch;
mod check;
pub mod conformance;
mod error;
pub mod feed;
mod follow;
mod key;
mod memory;
mod plan;
mod room;
mod shortage;

pub use batch::{Batch, CounterChange, counter_changes};
pub use check::Malformed;
pub use error::{StoreError, StoreErrorKind};
pub use feed::{Changes, Position};
pub use follow::{Beginning, Follow, Target};
pub use key::{CounterKey, Key, Space, Value};
pub use memory::MemoryStore;
pub use plan::{COUNTER_MAX, Guard, Plan, Verdict, Write};
pub use room::makes_room;
pub use shortage::Shortage;

use std::fmt::Debug;

use async_trait::async_trait;
use bytes::Bytes;

/// One question to the store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Read {
    /// The record under a key, and the record that it points to if `follow` says so.
    Record {
        /// The record's key.
        key: Key,
        /// How to find the record that it points to.
        follow: Option<Follow>,
    },
    /// The first `limit` records in `start..end`, in byte order, each followed if `follow` says
    /// so. Both bounds lie in one partition of one ordered space.
    Range {
        /// The first key that counts.
        start: Key,
        /// The first key after `start` that no longer counts.
        end: Key,
        /// How many records are enough; no more than [`Limits::range_records`].
        limit: u32,
        /// How to find the records that they point to.
        follow: Option<Follow>,
    },
    /// A counter.
    Counter(CounterKey),
}

/// A record as found, and what it pointed to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The record's key.
    pub key: Key,
    /// The record's bytes.
    pub value: Value,
    /// What it pointed to.
    pub target: Target,
}

/// The answer to the [`Read`] at the same index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadResult {
    /// The answer to [`Read::Record`].
    Record(Option<Entry>),
    /// The answer to [`Read::Range`]; fewer than `limit` entries mean that the range holds no more.
    Range(Vec<Entry>),
    /// The answer to [`Read::Counter`]; a counter never written is 0.
    Counter(i64),
}

/// What one call may carry. Callers stay within; an engine refuses a call that does not, as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a key.
    pub key_bytes: usize,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// Guards and writes of one plan, together.
    pub plan_items: usize,
    /// Bytes of keys and values of one plan.
    pub plan_bytes: usize,
    /// Plans of one batch.
    pub batch_plans: usize,
    /// Guards and writes of one batch, together.
    pub batch_items: usize,
    /// Bytes of keys and values of one batch.
    pub batch_bytes: usize,
    /// Questions of one read.
    pub reads: usize,
    /// Records of one range.
    pub range_records: u32,
}

/// What an acknowledged commit survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Nothing: the process's memory.
    None,
    /// Most crashes, except that the last moments before a crash may be lost. The server's settings
    /// say so, and whoever runs the server has agreed to that.
    Relaxed,
    /// A crash of the process and of the machine.
    Strict,
}

/// An ordered map of small records with conditional commit: all that is asked of a database.
///
/// Order is by unsigned bytes of the whole key. Every key belongs to a partition (its space and
/// eight bytes); a range never leaves one.
#[async_trait]
pub trait MetaStore: Debug + Send + Sync + 'static {
    /// What one call may carry.
    fn limits(&self) -> Limits;

    /// What an acknowledged commit survives, as far as the store knows now. The settings of a
    /// database may change while the store is open; this says what was found last. A commit that was
    /// acknowledged while this was not [`Durability::Strict`] may be lost later.
    fn durability(&self) -> Durability;

    /// Returns the cause and the cure if the store has no space for new records, as far as it knows from
    /// the last commits. Reads succeed meanwhile, and plans that free space may.
    fn shortage(&self) -> Option<String>;

    /// Answers every question from one snapshot that holds every commit acknowledged before the
    /// call began. One round trip. Answers stand at the indices of their questions.
    async fn read(&self, reads: &[Read]) -> Result<Vec<ReadResult>, StoreError>;

    /// Decides each plan in order, atomically: all its writes if every guard holds, else none.
    /// A plan sees the writes of the plans before it. One round trip for the batch, if all of it is
    /// committed.
    ///
    /// An error of kind [`StoreErrorKind::Unknown`] leaves every plan of the batch in doubt, each
    /// by itself; of any other kind, no plan was committed. What fails some plans of a batch only is
    /// in their verdicts, [`Verdict::Failed`].
    async fn commit(&self, plans: &[Plan]) -> Result<Vec<Verdict>, StoreError>;

    /// One page of a walk over a whole space, in an order of the engine's choice. What exists
    /// throughout the walk is seen at least once. `resume` is `None` at first, then what the last
    /// page returned. For maintenance: pages are separate snapshots, and `limit` is a wish between
    /// 1 and [`Limits::range_records`].
    async fn walk(
        &self,
        space: Space,
        resume: Option<Bytes>,
        limit: u32,
    ) -> Result<Page, StoreError>;

    /// One page of a walk over every counter of a space, as [`MetaStore::walk`] for records. A counter
    /// that is 0 may be left out.
    async fn walk_counters(
        &self,
        space: Space,
        resume: Option<Bytes>,
        limit: u32,
    ) -> Result<CounterPage, StoreError>;

    /// Which records changed since a position that an earlier call answered; with `None`, nothing,
    /// and the position as of now. One round trip.
    ///
    /// A change is in every answer to a call that began after its commit was acknowledged. So a cache
    /// is never staler than its last call, if it takes a position first, then reads records, and
    /// drops those that have changed since that position. An engine keeps entries of
    /// [`feed::FEED_BATCHES`] batches or more; a reader further behind gets [`Changes::Gap`]. So does a
    /// position of another store, unless it is [`StoreErrorKind::Malformed`].
    async fn changes(&self, since: Option<&Position>) -> Result<Changes, StoreError>;

    /// The whole store as it is at one instant between the beginning and the end of this call,
    /// to be read page by page while others go on committing. For dumps.
    async fn snapshot(&self) -> Result<Box<dyn Snapshot>, StoreError>;

    /// Finishes what is under way and lets go of the database. Calls that come later fail with
    /// [`StoreErrorKind::Unavailable`].
    async fn close(&self);
}

/// A store as it was at one instant. Dropping it frees what it holds at the database.
#[async_trait]
pub trait Snapshot: Debug + Send {
    /// The next records, of all spaces, in byte order of their keys; none at the end. `limit` is a
    /// wish between 1 and [`Limits::range_records`].
    async fn records(&mut self, limit: u32) -> Result<Vec<(Key, Value)>, StoreError>;

    /// The next counters that are not 0, in byte order of their keys; none at the end.
    async fn counters(&mut self, limit: u32) -> Result<Vec<(CounterKey, i64)>, StoreError>;
}

/// A page of [`MetaStore::walk`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Records of the space.
    pub records: Vec<(Key, Value)>,
    /// Where to go on; `None` at the end.
    pub resume: Option<Bytes>,
}

/// A page of [`MetaStore::walk_counters`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterPage {
    /// Counters of the space.
    pub counters: Vec<(CounterKey, i64)>,
    /// Where to go on; `None` at the end.
    pub resume: Option<Bytes>,
}
