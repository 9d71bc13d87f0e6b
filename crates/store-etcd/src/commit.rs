//! Commits: one optimistic transaction for a batch, and a second one if a condition does not hold.
//!
//! This process decides a batch on the assumption that its guards hold (`store::Assumptions`). The
//! transaction has the assumptions as conditions, and the net writes, the cells of counters and the
//! entry of the change feed as its success branch. Its failure branch asks for the records, ranges
//! and counters of the batch, at one revision. From them `store::Batch` decides again. If it
//! refuses all plans, nothing more is sent. Otherwise a second transaction writes the net effect,
//! under the conditions that nothing has changed since that revision, and so on.
//!
//! Counters that a plan bounds, and counters that a batch both adds to and raises, need their
//! values. A batch with one of them begins with the question instead.
//!
//! For example, a PUT takes one round trip. A PUT that loses a race takes one too: the failure
//! branch brings the record that refuses it. A batch with that PUT and others takes two.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use rand::RngExt as _;
use store::feed::compact;
use store::{
    Assumptions, Batch, Before, CounterChange, CounterKey, DecidedBatch, Guard, Key, Plan,
    StoreError, StoreErrorKind, Verdict, Write, counter_changes,
};
use tokio::time::{Instant, sleep};

use crate::counters::{Cells, CounterWrites, change_known, unchanged};
use crate::error::{FULL_REMEDY, garbled, unavailable};
use crate::feed::with_mark;
use crate::limits::{BYTES_WITH_QUESTIONS, TXN_ITEMS};
use crate::rpc::{Compare, KeyValue, Range, Step, StepAnswer, TXN, Txn, TxnAnswer};
use crate::shared::Shared;
use crate::watching::last_change;

/// Limit of the transactions of one batch whose conditions do not hold.
const TRIES: u32 = 32;

/// Time since the first try after which a batch is not tried again.
const TRYING: Duration = Duration::from_secs(8);

/// Upper limit of the pause before the third try. It doubles with each try.
const PAUSE: Duration = Duration::from_millis(2);

/// Upper limit of every pause.
const PAUSE_MAX: Duration = Duration::from_millis(200);

const DOING: &str = "committing to etcd";

/// A question for everything on which the verdicts of a batch depend.
struct Questions<'a> {
    plans: &'a [Plan],
    batch: Batch,
    /// The counters on whose values verdicts or writes depend.
    valued: BTreeSet<&'a CounterKey>,
}

/// The answer to [`Questions`], at one revision.
struct Snapshot {
    revision: i64,
    /// The records in the order of `Batch::records`, each with the revision of its last change.
    records: Vec<Option<KeyValue>>,
    /// The keys that were found in the ranges of the batch.
    in_ranges: Vec<Key>,
    /// The counters in the order of `Batch::counters`.
    counters: Vec<Cells>,
}

/// Decides plans, and commits those whose guards hold. Returns the verdicts.
///
/// Fails with `Unavailable` if other processes change the records in each of [`TRIES`] tries, with
/// `Full` if etcd has no space, and with `Unknown` if the outcome is not known.
pub(crate) async fn commit(shared: &Shared, plans: &[Plan]) -> Result<Vec<Verdict>, StoreError> {
    // Two transactions that put the same cell would refuse each other.
    let _turn =
        if plans.iter().any(changes_counters) { Some(shared.counting.lock().await) } else { None };
    let questions = Questions::of(plans);
    let mut snapshot = None;
    let mut decided = Assumptions::new(plans).decide();
    if let Some(decided) = decided.take()
        && let Some((mut txn, writes)) = assumed(shared, &decided)
    {
        if txn.compare.is_empty() && txn.success.is_empty() {
            return Ok(decided.verdicts);
        }
        let has_questions = questions.add_to(shared, &mut txn);
        let answer = send(shared, &txn).await?;
        if answer.succeeded {
            shared.cells.committed(writes, answer.revision());
            return Ok(decided.verdicts);
        }
        if has_questions {
            snapshot = Some(questions.parse(shared, answer)?);
        }
    }
    commit_known(shared, questions, snapshot).await
}

/// Decides plans from a snapshot, and commits the result if nothing has changed since. Takes a new
/// snapshot and tries again if something has.
async fn commit_known(
    shared: &Shared,
    questions: Questions<'_>,
    mut snapshot: Option<Snapshot>,
) -> Result<Vec<Verdict>, StoreError> {
    let begun = Instant::now();
    let mut pause = PAUSE;
    for round in 0..TRIES {
        if round > 1 {
            #[expect(clippy::disallowed_methods, reason = "a pause that nothing depends on")]
            let part = rand::rng().random_range(0.2..=1.0);
            sleep(pause.mul_f64(part)).await;
            pause = (2 * pause).min(PAUSE_MAX);
            // After a pause, the answer of the last try is old.
            snapshot = None;
        }
        let found = match snapshot.take() {
            Some(found) => found,
            None => questions.ask(shared).await?,
        };
        let mut batch = Batch::new(questions.plans.iter());
        found.fill(&mut batch);
        let verdicts: Vec<Verdict> =
            questions.plans.iter().map(|plan| batch.decide(plan)).collect();
        // The snapshot is linearizable, so it refuses the plans at an instant of this call.
        if !verdicts.contains(&Verdict::Committed) {
            return Ok(verdicts);
        }
        let (mut txn, writes) = known(shared, &questions, &found, &batch, &verdicts);
        if txn.compare.len() > TXN_ITEMS || txn.success.len() > TXN_ITEMS {
            return Err(unavailable("committing to etcd: too many cells of counters"));
        }
        let has_questions = questions.add_to(shared, &mut txn);
        let answer = send(shared, &txn).await?;
        if answer.succeeded {
            shared.cells.committed(writes, answer.revision());
            return Ok(verdicts);
        }
        if has_questions {
            snapshot = Some(questions.parse(shared, answer)?);
        }
        if begun.elapsed() > TRYING {
            break;
        }
    }
    Err(unavailable("committing to etcd: other processes changed the same records each time"))
}

/// Sends a transaction. One that writes nothing is a read, which may be repeated.
async fn send(shared: &Shared, txn: &Txn) -> Result<TxnAnswer, StoreError> {
    if txn.success.is_empty() {
        return shared.members.ask(TXN, txn, DOING).await;
    }
    let seen = shared.seen();
    let answer = shared.members.commit(txn, DOING).await;
    shared.observe(&answer);
    match answer {
        Err(error) if error.kind() == StoreErrorKind::Full => {
            Err(settle_full(shared, txn, seen, error).await)
        }
        Ok(_) | Err(_) => answer,
    }
}

/// Returns the error of a transaction to which a member answered `error`: that it has no space.
/// Returns `error` if the transaction was certainly not applied, and otherwise an error of the kind
/// `Unknown`.
///
/// A member refuses such a transaction before it proposes it, or while the alarm is on. But the
/// transaction that raises the alarm is applied, with the same answer. A transaction was not
/// applied if the revision of the store, or of the feed's key, is not later than one that was
/// `seen` before it was sent.
async fn settle_full(shared: &Shared, txn: &Txn, seen: i64, error: StoreError) -> StoreError {
    if let Ok((changed, revision)) = last_change(shared).await {
        shared.saw(revision);
        let feed = Some(shared.keys.feed());
        let has_entry = txn.success.iter().any(|step| step.put_key() == feed.as_ref());
        if revision <= seen || (has_entry && changed.revision <= seen) {
            return error;
        }
    }
    StoreError::because(StoreErrorKind::Unknown, DOING, FULL_REMEDY)
}

fn changes_counters(plan: &Plan) -> bool {
    plan.writes.iter().any(|write| match write {
        Write::Add(..) | Write::Max(..) | Write::Set(..) | Write::Clear(_) => true,
        Write::Put(..) | Write::Delete(_) => false,
    })
}

/// Returns the transaction that commits a decision if its assumptions hold. Returns `None` if the
/// decision depends on values of counters.
fn assumed(shared: &Shared, decided: &DecidedBatch<'_>) -> Option<(Txn, CounterWrites)> {
    if !decided.bounds.is_empty() {
        return None;
    }
    let keys = &shared.keys;
    let mut writes = CounterWrites::default();
    for (counter, change) in &decided.counters {
        if !shared.cells.change(keys, counter, *change, &mut writes) {
            return None;
        }
    }
    let condition = |(key, before): (&Key, &Before)| match before {
        Before::Absent => Compare::absent(keys.record(key)),
        Before::Present => Compare::present(keys.record(key)),
        Before::Equal(value) => Compare::value(keys.record(key), value.clone()),
    };
    let mut compare: Vec<Compare> = decided.conditions().map(condition).collect();
    let ranges = decided.ranges.iter();
    compare.extend(ranges.map(|(start, end)| Compare::empty(keys.records(start, end))));
    compare.append(&mut writes.compare);
    let records = decided.writes().map(|(key, _, value)| (key, value));
    let success = success(shared, records, &mut writes, &decided.entry());
    Some((Txn { compare, success, failure: Vec::new() }, writes))
}

/// Returns the transaction that commits the decision of a snapshot if nothing has changed since.
fn known(
    shared: &Shared,
    questions: &Questions<'_>,
    found: &Snapshot,
    batch: &Batch,
    verdicts: &[Verdict],
) -> (Txn, CounterWrites) {
    let keys = &shared.keys;
    let both = || questions.plans.iter().zip(verdicts);
    let committed =
        || both().filter(|(_, verdict)| **verdict == Verdict::Committed).map(|(plan, _)| plan);
    let mut compare: Vec<Compare> = questions
        .batch
        .records()
        .zip(&found.records)
        .map(|(key, record)| {
            let revision = record.as_ref().map_or(0, |record| record.mod_revision);
            Compare::unchanged(keys.record(key), revision)
        })
        .collect();
    // A range that holds has no records but those that the batch deletes. A deletion by another
    // process leaves it empty, and a new record has a later revision.
    let wanted = committed().flat_map(|plan| &plan.guards).filter_map(|guard| match guard {
        Guard::Empty(start, end) => Some((start, end)),
        Guard::Equals(..) | Guard::Absent(_) | Guard::Present(_) | Guard::AtMost(..) => None,
    });
    let wanted: BTreeSet<(&Key, &Key)> = wanted.collect();
    compare.extend(
        wanted
            .into_iter()
            .map(|(start, end)| Compare::none_after(keys.records(start, end), found.revision)),
    );
    let mut writes = CounterWrites::default();
    let changes = counter_changes(committed());
    for (counter, cells) in questions.batch.counters().zip(&found.counters) {
        let Some(change @ CounterChange::By { .. }) = changes.get(counter) else {
            if questions.valued.contains(counter) {
                compare.extend(unchanged(keys, counter, cells, found.revision));
            }
            continue;
        };
        let needs_value = questions.valued.contains(counter) || cells.other_than(*change);
        if needs_value || !shared.cells.change(keys, counter, *change, &mut writes) {
            let at = (cells, found.revision);
            change_known(keys, counter, *change, at, &mut writes);
        }
    }
    for (counter, change) in &changes {
        if let CounterChange::To(_) = change {
            shared.cells.change(keys, counter, *change, &mut writes);
        }
    }
    compare.append(&mut writes.compare);
    let entry = compact::entry(committed());
    let success = success(shared, batch.written_records(), &mut writes, &entry);
    (Txn { compare, success, failure: Vec::new() }, writes)
}

/// Returns the steps that write records, cells of counters, and the entry of the change feed.
fn success<'a>(
    shared: &Shared,
    records: impl Iterator<Item = (&'a Key, Option<&'a Bytes>)>,
    writes: &mut CounterWrites,
    entry: &[u8],
) -> Vec<Step> {
    let keys = &shared.keys;
    let record = |(key, value): (&Key, Option<&Bytes>)| match value {
        Some(value) => Step::put(keys.record(key), value.clone()),
        None => Step::delete(keys.record(key), Bytes::new()),
    };
    let mut steps: Vec<Step> = records.map(record).collect();
    steps.append(&mut writes.steps);
    if !entry.is_empty() {
        steps.push(Step::put(keys.feed(), with_mark(entry)));
    }
    steps
}

impl<'a> Questions<'a> {
    fn of(plans: &'a [Plan]) -> Questions<'a> {
        let mut valued: BTreeSet<&CounterKey> =
            plans.iter().flat_map(Plan::bounded_counters).collect();
        let (mut added, mut raised) = (BTreeSet::new(), BTreeSet::new());
        for write in plans.iter().flat_map(|plan| &plan.writes) {
            match write {
                Write::Add(counter, _) => drop(added.insert(counter)),
                Write::Max(counter, _) => drop(raised.insert(counter)),
                Write::Put(..) | Write::Delete(_) | Write::Set(..) | Write::Clear(_) => {}
            }
        }
        valued.extend(added.intersection(&raised).copied());
        Questions { plans, batch: Batch::new(plans.iter()), valued }
    }

    fn steps(&self, shared: &Shared) -> Vec<Step> {
        let keys = &shared.keys;
        let records = self.batch.records().map(|key| Range::one(keys.record(key)));
        let ranges = self.batch.ranges().map(|(start, end, limit)| Range {
            keys_only: true,
            ..Range::between(keys.records(start, end), i64::try_from(limit).unwrap_or(i64::MAX))
        });
        // The cells are also asked for if only a remembered one was wrong.
        let counters = self.batch.counters().map(|it| Range::between(keys.cells(it), 0));
        records.chain(ranges).chain(counters).map(Step::range).collect()
    }

    /// Adds the questions to a transaction, as the steps to take if a condition does not hold. A
    /// transaction that is large already gets none. Returns true if it got them.
    fn add_to(&self, shared: &Shared, txn: &mut Txn) -> bool {
        let bytes: usize = self.plans.iter().map(Plan::bytes).sum();
        if bytes <= BYTES_WITH_QUESTIONS {
            txn.failure = self.steps(shared);
            return true;
        }
        if txn.success.is_empty() {
            // A member decides a transaction without steps alone, perhaps in an older state. A get
            // makes it linearizable.
            txn.failure = vec![Step::range(Range::one(shared.keys.never()))];
        }
        false
    }

    /// Sends the questions in a transaction of their own, which writes nothing.
    async fn ask(&self, shared: &Shared) -> Result<Snapshot, StoreError> {
        let txn = Txn { compare: Vec::new(), success: self.steps(shared), failure: Vec::new() };
        let answer = shared.members.ask(TXN, &txn, DOING).await?;
        self.parse(shared, answer)
    }

    fn parse(&self, shared: &Shared, answer: TxnAnswer) -> Result<Snapshot, StoreError> {
        let revision = answer.revision();
        let mut answers = answer.answers.into_iter();
        let mut next = || -> Result<Vec<KeyValue>, StoreError> {
            let answer: Option<StepAnswer> = answers.next();
            let range = answer.and_then(|answer| answer.range);
            Ok(range.ok_or_else(|| garbled(DOING))?.kvs)
        };
        let mut records = Vec::with_capacity(self.batch.records().len());
        for _ in self.batch.records() {
            records.push(next()?.into_iter().next());
        }
        let mut in_ranges = Vec::new();
        for _ in self.batch.ranges() {
            for kv in next()? {
                in_ranges.push(shared.keys.to_record(&kv.key).ok_or_else(|| garbled(DOING))?);
            }
        }
        let mut counters = Vec::with_capacity(self.batch.counters().len());
        for counter in self.batch.counters() {
            let cells = Cells::parse(&shared.keys, next()?)?;
            shared.cells.learn(&shared.keys, counter, &cells);
            counters.push(cells);
        }
        Ok(Snapshot { revision, records, in_ranges, counters })
    }
}

impl Snapshot {
    /// Gives a batch the values of this snapshot.
    fn fill(&self, batch: &mut Batch) {
        let records = self.records.iter().map(|it| it.as_ref().map(|kv| kv.value.clone()));
        let counters = self.counters.iter().map(|cells| Some(cells.total()));
        batch.set_found(records.collect(), counters.collect(), self.in_ranges.clone());
    }
}
