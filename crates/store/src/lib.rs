//! The contract between Ashlar and a metadata database: an ordered map of small records with
//! conditional commits.
//!
//! [`MetaStore`] has two main calls. [`MetaStore::read`] answers many questions from one snapshot.
//! [`MetaStore::commit`] decides many [`Plan`]s in order. Each call is one round trip. An engine
//! knows keys, values, guards and counters; it does not know inodes, directories or objects.
//!
//! For example, to create a directory entry once, a caller commits a plan with the guard
//! [`Guard::Absent`] on the entry's key and the write [`Write::Put`]. If two callers race, one plan
//! is committed and the other is refused with the record of the first.
//!
//! There are no optional features and no default methods. Every engine passes all cases of
//! [`mod@conformance`]. [`MemoryStore`] is the reference.

mod assumptions;
mod batch;
mod check;
pub mod conformance;
mod error;
pub mod feed;
mod follow;
mod frees_space;
mod host_list;
mod key;
mod memory;
mod plan;
mod shortage;

pub use assumptions::{Assumptions, Before, DecidedBatch, Found};
pub use batch::{Batch, CounterChange, counter_changes};
pub use check::Malformed;
pub use error::{StoreError, StoreErrorKind};
pub use feed::{Changes, Position};
pub use follow::{Beginning, Follow, Target};
pub use frees_space::frees_space;
pub use host_list::{HOSTS_MAX, HostList, InvalidHosts};
pub use key::{CounterKey, Key, Space, Value};
pub use memory::MemoryStore;
pub use plan::{COUNTER_MAX, Guard, Plan, Verdict, Write};
pub use shortage::Shortage;

use std::fmt::Debug;

use async_trait::async_trait;
use bytes::Bytes;

/// One question of a `MetaStore::read`. A question can *follow* a record: the engine derives a
/// second key, of the *target*, from the bytes of the found record, and returns the target too. For
/// example, a read of a directory entry returns the entry's inode.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Read {
    /// Asks for the record under a key and, with `follow`, also for the record to which it points.
    Record {
        /// The record's key.
        key: Key,
        /// The rule that derives the target's key from the found record, or `None` to read no
        /// target.
        follow: Option<Follow>,
    },
    /// Asks for the first `limit` records of `start..end` in byte order and, with `follow`, for the
    /// target of each. Both bounds belong to one partition (the space and the eight bytes that
    /// follow it in a key) of one ordered space. The end may also be the first key of the next
    /// partition.
    Range {
        /// The first key of the range, inclusive.
        start: Key,
        /// The end of the range, exclusive.
        end: Key,
        /// The largest number of records to return, at most [`Limits::range_records`].
        limit: u32,
        /// The rule that derives each target's key from the found record, or `None` to read no
        /// targets.
        follow: Option<Follow>,
    },
    /// Asks for the value of a counter, an integer to which plans add.
    Counter(CounterKey),
}

/// A record that a read found, and its target: the record to which it points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The record's key.
    pub key: Key,
    /// The record's bytes.
    pub value: Value,
    /// The record to which this one points, if the read had a `Follow`, the rule that finds it.
    /// `Target::Absent` if the read had none, or if there is no such record.
    pub target: Target,
}

/// The answer to the [`Read`] at the same index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadResult {
    /// The answer to `Read::Record`; `None` if there is no record under the key.
    Record(Option<Entry>),
    /// The answer to `Read::Range`: the entries in byte order of their keys. Fewer than `limit`
    /// entries mean that the range has no more.
    Range(Vec<Entry>),
    /// The answer to [`Read::Counter`]. A counter that was never written is 0.
    Counter(i64),
}

/// The largest call that an engine accepts, and the number of calls and processes that it serves at
/// the same time. Callers split their work to stay within the sizes; a call that exceeds one fails
/// as a whole with [`StoreErrorKind::Malformed`]. More calls than the number in flight are answered
/// too, and only cost more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest length of one key, in bytes.
    pub key_bytes: usize,
    /// Largest length of one value, in bytes.
    pub value_bytes: usize,
    /// Number of guards and writes of one plan, added.
    pub plan_items: usize,
    /// Bytes of all keys and values of one plan, in its guards and writes.
    pub plan_bytes: usize,
    /// Number of plans in one batch, which is one call of `MetaStore::commit`.
    pub batch_plans: usize,
    /// Number of guards and writes of all plans of one batch, added.
    pub batch_items: usize,
    /// Bytes of all keys and values of the plans of one batch.
    pub batch_bytes: usize,
    /// Number of questions in one call of `MetaStore::read`.
    pub reads: usize,
    /// Number of records that one range, or one page of a walk or snapshot, returns.
    pub range_records: u32,
    /// Number of calls of `MetaStore::commit` that should be in flight at a time, at least 1. Plans
    /// that wait meanwhile form the next batch. For example, if each batch has a fixed cost, 1
    /// makes fewer and larger batches.
    pub commits_in_flight: usize,
    /// Number of short calls of `MetaStore::read` that should be in flight at a time, at least 1.
    /// Questions that wait meanwhile are asked together. `usize::MAX` if waiting saves nothing.
    pub reads_in_flight: usize,
    /// True if the locks of the engine ensure that no other process serves the volume of this store
    /// while this store is open.
    pub serves_one: bool,
}

/// The failures that an acknowledged commit survives, from the weakest to the strongest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// No failure: the records are in this process's memory.
    None,
    /// Most crashes. The last commits before a crash may be lost. The operator chose this with the
    /// database's settings.
    Relaxed,
    /// A crash of the process and a crash of the machine.
    Strict,
}

/// An ordered map of small records with conditional commits: the contract that each engine
/// implements.
///
/// Keys are ordered by the unsigned bytes of the whole key. Each key belongs to one partition,
/// which is its space and the eight bytes that follow; a range never leaves a partition.
///
/// A caller may drop the future of any call. The plans of a dropped commit may still be committed,
/// each as a whole.
#[async_trait]
pub trait MetaStore: Debug + Send + Sync + 'static {
    /// Returns the largest call that this engine accepts, and the number of calls and processes
    /// that it serves at the same time. The answer is the same while the store is open.
    fn limits(&self) -> Limits;

    /// Returns the failures that an acknowledged commit survives, as the engine found at its last
    /// check. A database's settings may change while the store is open. A commit that was
    /// acknowledged while this was not [`Durability::Strict`] may be lost later.
    fn durability(&self) -> Durability;

    /// Returns a text for operators with the cause and the remedy if the store has no space for new
    /// records, as the last commits have shown. `None` means that there is space. During a shortage
    /// reads succeed. Plans that free space, as deletes do, succeed if the engine keeps a reserve
    /// for them.
    fn shortage(&self) -> Option<String>;

    /// Answers all questions from one snapshot, in one round trip. The snapshot contains every
    /// commit that was acknowledged before the call began. The answer at index `i` belongs to the
    /// question at index `i`.
    async fn read(&self, reads: &[Read]) -> Result<Vec<ReadResult>, StoreError>;

    /// Decides each plan in order. A plan is atomic: if all of its guards hold, all of its writes
    /// are committed, otherwise none. A plan sees the writes of the earlier plans of its batch. If
    /// all plans are committed, the batch takes one round trip.
    ///
    /// # Errors
    /// [`StoreErrorKind::Unknown`] means that each plan of the batch may have been committed or
    /// not, independently of the others. With any other kind no plan was committed. A failure of
    /// single plans is in their verdicts, as [`Verdict::Failed`].
    async fn commit(&self, plans: &[Plan]) -> Result<Vec<Verdict>, StoreError>;

    /// Returns one page of a walk over all records of a space, in an order that the engine chooses.
    /// A record that exists during the whole walk is returned at least once. `resume` is `None` for
    /// the first page, then [`Page::resume`] of the page before. Each page is a snapshot of its
    /// own, so this is for maintenance. `limit` is the wanted number of records. The engine raises
    /// 0 to 1, and lowers a larger number to [`Limits::range_records`].
    async fn walk(
        &self,
        space: Space,
        resume: Option<Bytes>,
        limit: u32,
    ) -> Result<Page, StoreError>;

    /// Returns one page of a walk over all counters of a space, under the rules of
    /// [`MetaStore::walk`]. A counter that is 0 may be left out.
    async fn walk_counters(
        &self,
        space: Space,
        resume: Option<Bytes>,
        limit: u32,
    ) -> Result<CounterPage, StoreError>;

    /// Returns the keys of the records that changed since `since`, a position in the store's change
    /// feed that an earlier call returned. With `None`, returns no keys and the current position.
    /// One round trip.
    ///
    /// A change is in the answer of each call that begins after the commit was acknowledged. So a
    /// cache is never staler than its last call if it takes a position first, then reads records,
    /// and drops each record that changed since that position.
    ///
    /// An engine keeps the keys that changed in at least the latest [`feed::FEED_BATCHES`] batches.
    /// A reader that is further behind gets [`Changes::Gap`]: any record may have changed, so its
    /// cache must drop all of them. A position of another store also gets [`Changes::Gap`], or
    /// fails with [`StoreErrorKind::Malformed`].
    async fn changes(&self, since: Option<&Position>) -> Result<Changes, StoreError>;

    /// Returns the whole store as it is at one instant during this call. The caller reads it page
    /// by page while other commits continue. Used by dumps.
    async fn snapshot(&self) -> Result<Box<dyn Snapshot>, StoreError>;

    /// Waits for the calls in flight and releases the database. Later calls fail with
    /// [`StoreErrorKind::Unavailable`]. A second `close` does nothing.
    async fn close(&self);
}

/// A store as it was at one instant. Dropping the snapshot releases the resources that it holds at
/// the database.
#[async_trait]
pub trait Snapshot: Debug + Send {
    /// Returns the next records of all spaces, in byte order of their keys; an empty page is the
    /// end. `limit` is the wanted number of records. 0 counts as 1, and a larger number as
    /// [`Limits::range_records`].
    async fn records(&mut self, limit: u32) -> Result<Vec<(Key, Value)>, StoreError>;

    /// Returns the next counters that are not 0, in byte order of their keys; an empty page is the
    /// end. `limit` is as for `records`.
    async fn counters(&mut self, limit: u32) -> Result<Vec<(CounterKey, i64)>, StoreError>;
}

/// A page of `MetaStore::walk`, the enumeration of all records of a space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The records of this page.
    pub records: Vec<(Key, Value)>,
    /// The `resume` argument of the next page; `None` at the end.
    pub resume: Option<Bytes>,
}

/// A page of `MetaStore::walk_counters`, the enumeration of all counters of a space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterPage {
    /// The counters of this page.
    pub counters: Vec<(CounterKey, i64)>,
    /// The `resume` argument of the next page; `None` at the end.
    pub resume: Option<Bytes>,
}
