//! The load of a dump into an empty store.
//!
//! The load first claims the store, that is, reserves it for itself: it writes a placeholder under
//! the key of the keystone, the record that makes a store complete. Each plan that fills the store
//! guards the placeholder, and the last plan replaces it with the keystone. So a gateway never
//! opens a half-filled store, and two loads never mix.
//!
//! A commit with an unknown outcome is repeated, and its first attempt can arrive late. For
//! example, if it arrives after the end of the load, its guard fails, because the placeholder is
//! gone. If it arrives earlier, it writes the same values again, because counters are set and not
//! incremented.

use std::io::{Read, Seek};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::FuturesUnordered;
use futures::{StreamExt, TryStreamExt, stream};
use store::{
    COUNTER_MAX, CounterKey, Guard, Key, Limits, MetaStore, Plan, ReadResult, Space, StoreError,
    StoreErrorKind, Value, Verdict, Write,
};

use crate::read::{Piece, Reader};
use crate::{DumpError, Phase, Summary, Watcher};

/// The largest number of commits in flight. With this many the load waits for one of them.
const COMMITS_AT_ONCE: usize = 4;

/// The largest number of records and counters per commit. It keeps the transactions of a database
/// short.
const COMMIT_ITEMS: usize = 2_000;

/// The size of a commit in bytes at which the load sends it.
const COMMIT_BYTES: usize = 1 << 20;

/// The largest number of attempts of a commit that fails or whose outcome is unknown.
const ATTEMPTS: u32 = 8;

/// The pause after the first attempt. It doubles after each further attempt, up to `PAUSE_MAX`.
const PAUSE_MIN: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// The largest number of concurrent reads in the check for an empty store.
const READS_AT_ONCE: usize = 8;

/// The first bytes of the placeholder, which has the key of the keystone (the record that makes a
/// store complete) during a load.
const UNFINISHED: &[u8] = b"ashlar load has not finished ";

/// The record without which a store is not complete, with the placeholder that has its key during a
/// load. A load writes the record itself last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keystone {
    key: Key,
    placeholder: Value,
}

impl Keystone {
    /// Creates the keystone with this key. `name` is random and identifies one load, so that two
    /// loads have different placeholders.
    pub fn new(key: Key, name: [u8; 16]) -> Keystone {
        Keystone { key, placeholder: [UNFINISHED, &name].concat().into() }
    }

    /// Returns true if the value is the placeholder of a load that has not finished.
    pub fn is_unfinished(value: &[u8]) -> bool {
        value.starts_with(UNFINISHED)
    }

    fn guard(&self) -> Guard {
        Guard::Equals(self.key.clone(), self.placeholder.clone())
    }
}

/// Fills an empty store from a dump. The dump is read twice: the first read verifies it and checks
/// that each record fits the engine, and the second read writes.
///
/// # Errors
/// Before anything is written: the errors of [`crate::verify`]; [`DumpError::TooLarge`] and
/// [`DumpError::NoKeystone`] if the store cannot hold the dump; [`DumpError::NotEmpty`] and
/// [`DumpError::Unfinished`] if the store is not empty. Afterwards: [`DumpError::Contested`],
/// [`DumpError::Changed`], and errors of the store. The operator must then empty the store before
/// another attempt.
pub async fn load<I: Read + Seek + Send>(
    store: &dyn MetaStore,
    input: &mut I,
    keystone: &Keystone,
    progress: &dyn Watcher,
) -> Result<Summary, DumpError> {
    check_empty(store, &keystone.key).await?;
    let begin = input.stream_position().map_err(DumpError::Read)?;
    let limits = store.limits();
    let commit_limits = CommitLimits::of(&limits, keystone);
    let summary = check(input, &commit_limits, keystone, progress)?;
    input.seek(std::io::SeekFrom::Start(begin)).map_err(DumpError::Read)?;
    // The verification may have taken long, and another process may have filled the store
    // meanwhile.
    check_empty(store, &keystone.key).await?;
    claim(store, keystone).await?;
    fill(store, input, &commit_limits, (keystone, &summary), progress).await?;
    Ok(summary)
}

/// Verifies the dump and checks that each piece fits the engine.
fn check<I: Read + Send>(
    input: &mut I,
    commit_limits: &CommitLimits,
    keystone: &Keystone,
    progress: &dyn Watcher,
) -> Result<Summary, DumpError> {
    let mut pieces = Reader::begin(input)?;
    let mut excess = None;
    let mut whole = false;
    while let Some(piece) = pieces.next()? {
        // A piece that is too large is reported at the end only: damage is the more important
        // error.
        excess = excess.or_else(|| commit_limits.excess(&piece));
        whole |= matches!(&piece, Piece::Record(key, _) if *key == keystone.key);
        pieces.report(Phase::Verify, progress);
    }
    let summary = pieces.end(Phase::Verify, progress)?;
    match excess {
        Some(excess) => Err(excess),
        None if !whole => Err(DumpError::NoKeystone(keystone.key.clone())),
        None => Ok(summary),
    }
}

/// The limits of the engine for one commit of the load, less the space of the guard that each
/// commit has.
struct CommitLimits {
    limits: Limits,
    items: usize,
    bytes: usize,
}

impl CommitLimits {
    fn of(limits: &Limits, keystone: &Keystone) -> CommitLimits {
        let guard = Plan { guards: vec![keystone.guard()], writes: Vec::new() };
        let items = limits.plan_items.min(limits.batch_items);
        let bytes = limits.plan_bytes.min(limits.batch_bytes);
        CommitLimits {
            limits: *limits,
            items: items.saturating_sub(guard.items()),
            bytes: bytes.saturating_sub(guard.bytes()),
        }
    }

    /// Returns the error of a piece that exceeds a limit of the engine; `None` if it fits.
    fn excess(&self, piece: &Piece) -> Option<DumpError> {
        let (key, size, number) = match piece {
            Piece::Record(key, value) => (key, value.len(), 0),
            Piece::Counter(CounterKey(key), number) => {
                (key, size_of::<i64>(), number.unsigned_abs())
            }
        };
        let key_bytes = key.as_bytes().len();
        let wide = |size: usize| size as u64;
        [
            ("bytes of its key", wide(key_bytes), wide(self.limits.key_bytes)),
            ("bytes of its value", wide(size), wide(self.limits.value_bytes)),
            ("bytes in all", wide(key_bytes + size), wide(self.bytes)),
            ("counted", number, COUNTER_MAX.unsigned_abs()),
        ]
        .into_iter()
        .find(|(_, size, limit)| size > limit)
        .map(|(what, size, limit)| DumpError::TooLarge {
            key: key.clone(),
            what,
            size,
            limit,
        })
    }
}

/// Fails with `NotEmpty` or `Unfinished` if the store has a record or counter. Counters of 0 are
/// ignored.
async fn check_empty(store: &dyn MetaStore, keystone: &Key) -> Result<(), DumpError> {
    let found = store.read(&[store::Read::Record { key: keystone.clone(), follow: None }]).await?;
    if let Some(ReadResult::Record(Some(entry))) = found.first() {
        return Err(if Keystone::is_unfinished(&entry.value) {
            DumpError::Unfinished
        } else {
            DumpError::NotEmpty(keystone.clone())
        });
    }
    // All spaces are checked, also those that this release does not use: a newer release may have
    // filled them.
    let looks = stream::iter(0..=u8::MAX).map(|space| first(store, Space(space)));
    let mut looks = looks.buffer_unordered(READS_AT_ONCE);
    while let Some(found) = looks.try_next().await? {
        if let Some(key) = found {
            return Err(DumpError::NotEmpty(key));
        }
    }
    Ok(())
}

/// Returns a key of the space; `None` if the space is empty.
async fn first(store: &dyn MetaStore, space: Space) -> Result<Option<Key>, StoreError> {
    let mut resume = None;
    loop {
        let page = store.walk(space, resume, 1).await?;
        if let Some((key, _)) = page.records.into_iter().next() {
            return Ok(Some(key));
        }
        resume = page.resume;
        if resume.is_none() {
            break;
        }
    }
    loop {
        let page = store.walk_counters(space, resume, 1).await?;
        let mut counters = page.counters.into_iter().filter(|(_, number)| *number != 0);
        if let Some((CounterKey(key), _)) = counters.next() {
            return Ok(Some(key));
        }
        resume = page.resume;
        if resume.is_none() {
            return Ok(None);
        }
    }
}

/// Claims the store for this load: writes the placeholder of the keystone, which no other load has.
/// Fails with `Contested` if another process was faster.
async fn claim(store: &dyn MetaStore, keystone: &Keystone) -> Result<(), DumpError> {
    let plan = Plan {
        guards: vec![Guard::Absent(keystone.key.clone())],
        writes: vec![Write::Put(keystone.key.clone(), keystone.placeholder.clone())],
    };
    match commit(store, plan).await? {
        Verdict::Committed => Ok(()),
        // An earlier attempt of this plan has committed.
        Verdict::Refused { found, .. } if found.as_ref() == Some(&keystone.placeholder) => Ok(()),
        Verdict::Refused { .. } | Verdict::Failed(_) => Err(DumpError::Contested),
    }
}

/// Writes all records and counters of the dump, and the keystone last.
async fn fill<I: Read + Send>(
    store: &dyn MetaStore,
    input: &mut I,
    commit_limits: &CommitLimits,
    (keystone, expected): (&Keystone, &Summary),
    progress: &dyn Watcher,
) -> Result<(), DumpError> {
    let mut pieces = Reader::begin(input).map_err(changed)?;
    let mut commits = FuturesUnordered::new();
    let mut load = Load::default();
    let mut last: Option<Value> = None;
    while let Some(piece) = pieces.next().map_err(changed)? {
        if let Some(excess) = commit_limits.excess(&piece) {
            return Err(changed(excess));
        }
        pieces.report(Phase::Fill, progress);
        let (write, bytes) = match piece {
            Piece::Record(key, value) if key == keystone.key => {
                // The keystone waits until all other records are durable.
                last = Some(value);
                continue;
            }
            Piece::Record(key, value) => {
                let bytes = key.as_bytes().len() + value.len();
                (Write::Put(key, value), bytes)
            }
            Piece::Counter(key, number) => {
                let bytes = key.0.as_bytes().len() + size_of::<i64>();
                (Write::Set(key, number), bytes)
            }
        };
        if load.is_full(bytes, commit_limits) {
            // The limit also bounds the memory: each commit in flight holds its records.
            if commits.len() == COMMITS_AT_ONCE {
                commits.try_next().await?;
            }
            commits.push(commit_writes(store, keystone, std::mem::take(&mut load).writes));
        }
        load.bytes += bytes;
        load.writes.push(write);
    }
    let found = pieces.end(Phase::Fill, progress).map_err(changed)?;
    commits.push(commit_writes(store, keystone, load.writes));
    // The keystone must not be visible before all other commits are durable.
    while commits.try_next().await?.is_some() {}
    match last {
        Some(value) if found == *expected => finish(store, keystone, value).await,
        _ => Err(DumpError::Changed),
    }
}

/// The writes of the next commit, and the bytes of their keys and values.
#[derive(Default)]
struct Load {
    writes: Vec<Write>,
    bytes: usize,
}

impl Load {
    fn is_full(&self, more: usize, commit_limits: &CommitLimits) -> bool {
        !self.writes.is_empty()
            && (self.writes.len() >= commit_limits.items.min(COMMIT_ITEMS)
                || self.bytes + more > commit_limits.bytes.min(COMMIT_BYTES))
    }
}

/// Maps the errors of the second read: the dump was complete in the first one, so it has changed.
fn changed(error: DumpError) -> DumpError {
    match error {
        DumpError::Read(_) => error,
        _ => DumpError::Changed,
    }
}

async fn commit_writes(
    store: &dyn MetaStore,
    keystone: &Keystone,
    writes: Vec<Write>,
) -> Result<(), DumpError> {
    match commit(store, Plan { guards: vec![keystone.guard()], writes }).await? {
        Verdict::Committed => Ok(()),
        Verdict::Refused { .. } | Verdict::Failed(_) => Err(DumpError::Contested),
    }
}

/// Replaces the placeholder with the keystone, which makes the store complete. Fails with
/// `Contested` if another process has changed the placeholder.
async fn finish(store: &dyn MetaStore, keystone: &Keystone, value: Bytes) -> Result<(), DumpError> {
    let plan = Plan {
        guards: vec![keystone.guard()],
        writes: vec![Write::Put(keystone.key.clone(), value.clone())],
    };
    match commit(store, plan).await? {
        Verdict::Committed => Ok(()),
        // An earlier attempt of this plan has committed.
        Verdict::Refused { found, .. } if found == Some(value) => Ok(()),
        Verdict::Refused { .. } | Verdict::Failed(_) => Err(DumpError::Contested),
    }
}

/// Commits a plan that may be sent several times.
async fn commit(store: &dyn MetaStore, plan: Plan) -> Result<Verdict, StoreError> {
    let plans = [plan];
    let mut pause = PAUSE_MIN;
    for _ in 1..ATTEMPTS {
        match store.commit(&plans).await {
            Err(error) if may_pass(&error) => {}
            // A repetition does not help against other errors.
            decided => return verdict(decided),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
    verdict(store.commit(&plans).await)
}

/// Returns true if a repetition of the commit can succeed.
fn may_pass(error: &StoreError) -> bool {
    matches!(error.kind(), StoreErrorKind::Unknown | StoreErrorKind::Unavailable)
}

fn verdict(decided: Result<Vec<Verdict>, StoreError>) -> Result<Verdict, StoreError> {
    let verdict = decided?.into_iter().next();
    verdict.ok_or_else(|| StoreError::new(StoreErrorKind::Corrupt, "filling the store: no verdict"))
}
