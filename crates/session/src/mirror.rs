//! Records that nobody but this process can change, as they stand now.
//!
//! A session that is alone with its volume knows every change to a record: it made it. So what it
//! has read or written once it need not read again, and an answer from here is as good as one from
//! the store: it holds every commit acknowledged before it was asked for, and all of it is true at
//! one instant. [`Mirrored`] is a metadata store on that condition and passes the same conformance
//! suite; whether the session is alone, and until when it may rely on that, [`crate::company`]
//! finds out.
//!
//! A record is kept only while it certainly is the one in the store:
//!
//! - From when a batch that writes it is sent until its verdict is known, it is not kept.
//! - If two such batches are under way at once, nobody knows their order: it is not kept until it
//!   is read again.
//! - If the outcome of such a batch stays unknown, it may change at any time to come: it is never
//!   kept again.
//! - What a read brings is kept only if no such batch ended since the read left.

mod mirrored;
mod record_set;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use record::key::space;
use store::{Entry, Follow, Found, Key, Plan, Read, Space, Target, Value, Verdict, Write};

use record_set::RecordSet;
use runtime::Moment;

pub(crate) use mirrored::Mirrored;

/// Bytes of the records that are kept while a session is alone, keys and overhead included.
pub const MIRROR_BYTES_DEFAULT: u64 = 64 << 20;

/// The largest value that is kept, in bytes: the metadata of any file, and a body that rests in it.
pub const MIRROR_VALUE_BYTES_MAX: u64 = record::INLINE_BYTES_MAX + (8 << 10);

/// Keys of plans whose outcome stayed unknown. With more of them nothing is kept any more.
pub(crate) const DOUBTFUL_KEYS_MAX: usize = 65_536;

/// Keys that were written while reads were under way. With more of them the reads that are under
/// way teach nothing.
pub(crate) const WRITTEN_KEYS_MAX: usize = 16_384;

/// Whose records are kept: what lookups read.
const SPACES: [Space; 4] = [space::DENTRY, space::INODE, space::BUCKET, space::UPLOAD];

fn is_kept(space: Space) -> bool {
    SPACES.contains(&space)
}

/// The records, and what is under way that changes them.
#[derive(Debug)]
pub(crate) struct Mirror {
    state: Mutex<State>,
    /// Whether records are kept at all.
    on: bool,
}

#[derive(Debug)]
struct State {
    records: RecordSet,
    /// Until when nobody else can have changed a record; `None` while somebody may have.
    alone_until: Option<Moment>,
    /// Whether nothing is answered any more.
    over: bool,
    /// Keys that batches under way write.
    sent: HashMap<Key, Sent>,
    /// Keys that batches of unknown outcome write.
    doubtful: HashSet<Key>,
    /// Counts the batches that ended.
    ended: u64,
    /// Reads that are under way.
    reading: usize,
    /// Reads and batches that left before so many batches had ended teach nothing.
    taught_from: u64,
    /// Keys that batches wrote that ended while reads were under way, and how many had ended then.
    written: HashMap<Key, u64>,
}

/// Batches under way that write a key.
#[derive(Clone, Copy, Debug)]
struct Sent {
    batches: u32,
    /// Whether two of them were under way at once.
    raced: bool,
}

impl Mirror {
    /// Keeps about `bytes` of records; with 0 none.
    pub(crate) fn new(bytes: u64) -> Arc<Mirror> {
        Arc::new(Mirror {
            on: bytes > 0,
            state: Mutex::new(State {
                records: RecordSet::new(bytes.max(1)),
                alone_until: None,
                over: false,
                sent: HashMap::new(),
                doubtful: HashSet::new(),
                ended: 0,
                reading: 0,
                taught_from: 0,
                written: HashMap::new(),
            }),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether records are kept at all.
    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    /// Nobody else changes records until `until`, nor has since this was said first after
    /// [`Mirror::leave`].
    pub(crate) fn rely(&self, until: Moment) {
        if !self.on {
            return;
        }
        let mut state = self.state();
        if state.over {
            return;
        }
        if state.alone_until.replace(until).is_none() {
            state.teach_from_now();
        }
    }

    /// Somebody else may change records from now on, or may have: nothing is kept.
    pub(crate) fn leave(&self) {
        let mut state = self.state();
        state.alone_until = None;
        state.records.clear();
        state.teach_from_now();
    }

    /// Nothing is answered from here any more.
    pub(crate) fn end(&self) {
        self.state().over = true;
        self.leave();
    }

    /// Forgets a record that somebody else was told to have changed.
    pub(crate) fn forget(&self, key: &Key) {
        let mut state = self.state();
        state.records.remove(key);
        state.ended += 1;
        state.note_written(key.clone());
    }

    /// Answers single questions from what is kept, all of them at one instant, or none.
    pub(crate) fn answer(&self, reads: &[Read]) -> Option<Vec<Found>> {
        if !self.on || !reads.iter().all(|read| matches!(read, Read::Record { .. })) {
            return None;
        }
        let state = self.state();
        if state.alone_until.is_none_or(Moment::has_come) {
            return None;
        }
        reads.iter().map(|read| state.found(read)).collect()
    }

    /// A record as last known, or that there is none: for a hint, never for an answer.
    pub(crate) fn recall(&self, key: &Key) -> Option<Option<Value>> {
        if self.on { self.state().records.get(key).cloned() } else { None }
    }

    /// A read leaves for the store.
    fn reading(self: &Arc<Self>) -> Reading {
        let mut state = self.state();
        state.reading += 1;
        Reading { mirror: Arc::clone(self), left_at: state.ended }
    }

    /// A batch leaves for the store.
    fn sending(self: &Arc<Self>, plans: &[Plan]) -> Sending {
        let mut keys = HashSet::new();
        if self.on {
            keys.extend(plans.iter().flat_map(kept_writes).map(|(key, _)| key.clone()));
        }
        let mut state = self.state();
        for key in &keys {
            state.records.remove(key);
            match state.sent.get_mut(key) {
                Some(sent) => *sent = Sent { batches: sent.batches + 1, raced: true },
                None => {
                    state.sent.insert(key.clone(), Sent { batches: 1, raced: false });
                }
            }
        }
        Sending { mirror: Arc::clone(self), keys, left_at: state.ended }
    }
}

/// What a plan writes of the records that are kept: keys, and values or nothing.
fn kept_writes(plan: &Plan) -> impl Iterator<Item = (&Key, Option<&Value>)> {
    plan.writes.iter().filter_map(record_write).filter(|(key, _)| is_kept(key.space()))
}

fn record_write(write: &Write) -> Option<(&Key, Option<&Value>)> {
    match write {
        Write::Put(key, value) => Some((key, Some(value))),
        Write::Delete(key) => Some((key, None)),
        Write::Add(..) | Write::Max(..) | Write::Set(..) | Write::Clear(..) => None,
    }
}

impl State {
    fn found(&self, read: &Read) -> Option<Found> {
        let Read::Record { key, follow } = read else { return None };
        let Some(value) = self.records.get(key)? else { return Some(Found::Record(None)) };
        let target = match follow {
            Some(follow) => self.target(value, follow)?,
            None => Target::Absent,
        };
        Some(Found::Record(Some(Entry { key: key.clone(), value: value.clone(), target })))
    }

    /// What a record points to; `None` if that is not known.
    fn target(&self, value: &Value, follow: &Follow) -> Option<Target> {
        match follow.target(value) {
            Some(target) => Some(follow.found(self.records.get(&target)?.clone())),
            None => Some(Target::Absent),
        }
    }

    /// What is under way teaches nothing.
    fn teach_from_now(&mut self) {
        self.ended += 1;
        self.taught_from = self.taught_from.max(self.ended);
    }

    /// Takes note that a record changed, for reads that are under way.
    fn note_written(&mut self, key: Key) {
        if self.reading == 0 {
            return;
        }
        if self.written.len() >= WRITTEN_KEYS_MAX {
            self.written.clear();
            self.taught_from = self.taught_from.max(self.ended);
        }
        self.written.insert(key, self.ended);
    }

    /// Keeps what a read brought that left when `left_at` batches had ended.
    fn learn(&mut self, left_at: u64, reads: &[Read], found: &[Found]) {
        // Where others may write nothing is answered from here, so nothing is kept either.
        if self.alone_until.is_none() || left_at < self.taught_from {
            return;
        }
        for (read, found) in reads.iter().zip(found) {
            let (Read::Record { key, follow }, Found::Record(entry)) = (read, found) else {
                continue;
            };
            self.learn_record(left_at, key, entry.as_ref().map(|entry| &entry.value));
            let (Some(entry), Some(follow)) = (entry, follow) else { continue };
            let Some(target) = follow.target(&entry.value) else { continue };
            match &entry.target {
                Target::Whole(value) => self.learn_record(left_at, &target, Some(value)),
                Target::Absent => self.learn_record(left_at, &target, None),
                Target::Cut(_) => {}
            }
        }
    }

    fn learn_record(&mut self, left_at: u64, key: &Key, value: Option<&Value>) {
        let unchanged = !self.sent.contains_key(key)
            && !self.doubtful.contains(key)
            && self.written.get(key).is_none_or(|ended| *ended <= left_at);
        if unchanged && is_kept(key.space()) && !self.records.holds(key) {
            self.records.set(key, value);
        }
    }
}

/// A read under way.
#[derive(Debug)]
struct Reading {
    mirror: Arc<Mirror>,
    left_at: u64,
}

impl Reading {
    /// The read has come back with this.
    fn found(self, reads: &[Read], found: &[Found]) {
        if self.mirror.on {
            self.mirror.state().learn(self.left_at, reads, found);
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        let mut state = self.mirror.state();
        state.reading -= 1;
        if state.reading == 0 {
            state.written.clear();
        }
    }
}

/// A batch under way. Dropped without a verdict, its outcome stays unknown.
#[derive(Debug)]
struct Sending {
    mirror: Arc<Mirror>,
    keys: HashSet<Key>,
    left_at: u64,
}

impl Sending {
    /// The batch was decided.
    fn decided(mut self, plans: &[Plan], verdicts: &[Verdict]) {
        if self.keys.is_empty() {
            return;
        }
        let mut last: HashMap<&Key, Option<&Value>> = HashMap::with_capacity(self.keys.len());
        for (plan, verdict) in plans.iter().zip(verdicts) {
            if *verdict == Verdict::Committed {
                last.extend(kept_writes(plan));
            }
        }
        let keys = std::mem::take(&mut self.keys);
        let mut state = self.mirror.state();
        let teaches = state.alone_until.is_some() && self.left_at >= state.taught_from;
        state.ended += 1;
        for key in keys {
            let raced = state.end(&key);
            let known = teaches && !raced && !state.doubtful.contains(&key);
            if let (true, Some(value)) = (known, last.get(&key)) {
                state.records.set(&key, *value);
            }
            state.note_written(key);
        }
    }

    /// The batch certainly never happens.
    fn undone(mut self) {
        let keys = std::mem::take(&mut self.keys);
        let mut state = self.mirror.state();
        for key in keys {
            state.end(&key);
        }
    }
}

impl State {
    /// A batch that wrote this key has ended. Whether another one was under way meanwhile.
    fn end(&mut self, key: &Key) -> bool {
        let Some(sent) = self.sent.get_mut(key) else { return true };
        let raced = sent.raced;
        sent.batches -= 1;
        if sent.batches == 0 {
            self.sent.remove(key);
        }
        raced
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        let keys = std::mem::take(&mut self.keys);
        if keys.is_empty() {
            return;
        }
        let mut state = self.mirror.state();
        for key in keys {
            state.end(&key);
            if state.doubtful.len() < DOUBTFUL_KEYS_MAX {
                state.doubtful.insert(key);
            } else {
                // Reads are not taught from any more, and verdicts neither.
                state.taught_from = u64::MAX;
                state.records.shut();
            }
        }
    }
}

#[cfg(test)]
mod tests;
