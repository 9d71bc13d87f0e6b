//! Commits: two round trips, and why they are correct.
//!
//! The isolation level is READ COMMITTED. At this level a locking read returns the latest committed
//! row and holds its lock until the transaction ends, and a key without a row is not locked.
//!
//! **Trip 1** begins the transaction. In the order of keys it locks each row that a plan guards or
//! deletes, or that a plan with an `Empty` guard puts: exclusively if a plan of the batch writes
//! it, otherwise shared. Then it reads the ranges that must be empty: as many rows as decide that,
//! with shared locks.
//!
//! **In between** this process decides the plans in memory, in order, on the rows that it found.
//!
//! **Trip 2** writes the combined changes and commits. All verdicts are true at one instant, just
//! before its COMMIT, because:
//!
//! - Each row that was found is unchanged, since it has been locked. This covers `Equals` and
//!   `Present` that hold, `Equals` and `Absent` that fail, and ranges that are not empty.
//! - Each guarded key without a row still has none, and is locked. If the batch puts a record
//!   there, this is a plain `INSERT`; otherwise a placeholder is inserted and deleted again, which
//!   no other transaction ever sees. Both fail with a duplicate key if another transaction has
//!   inserted the row, and wait for one that is about to. After this failure the transaction is
//!   rolled back, and the batch starts again with trip 1. This covers `Absent` that holds, and
//!   `Equals` and `Present` that found nothing. Deleting a missing record counts as such a guard,
//!   because otherwise a record could be created after the deletion and be visible before it.
//! - An empty range is still empty: each transaction that writes into it locks the range's owner
//!   record first, and this transaction locked the owner exclusively before it read the range. So
//!   the others have ended or not begun. But an owner without a row cannot be locked in trip 1. So
//!   if a guarded key has no row, trip 2 looks at the ranges again after it has inserted the rows
//!   and placeholders, which are locks. If a range has a row that trip 1 did not find and this
//!   batch did not write, the batch starts again.
//! - Records that are put without a guard are inserted or updated by one statement.
//! - Counters are changed by arithmetic. If a guard of the batch bounds a counter, all counters of
//!   the batch are locked and read at the end of trip 1, in the order in which trip 2 changes them.
//!   A missing one is created with 0, and deleted by trip 2 if it is not changed.
//!
//! For example, two gateways create the same name: both find no row in trip 1; the second `INSERT`
//! waits for the first transaction, fails with a duplicate key, and its batch starts again and is
//! refused.
//!
//! A batch that writes nothing need not lock absent keys until it commits. Its second trip reads
//! them again in one statement, while the found rows are still locked. If they are still absent,
//! this is the instant; otherwise the batch starts again.
//!
//! Rows are locked in one order: exclusive keys, shared keys, ranges, inserts, updates, counters,
//! the shard of the feed; counters come before inserts only if one is bounded. Still, the shared
//! keys of one batch and the exclusive keys of another may be in opposite order, and so may a
//! bounded counter and a new record that two batches create. The server detects the deadlock and
//! rolls one of them back; that batch starts again.
//!
//! **Errors.** Nothing is committed before COMMIT runs, and the server stops at the first statement
//! that fails. So an error that the server reports for an earlier statement is definite, as is any
//! error before the packet with COMMIT was sent, and any error of a batch that writes nothing.
//! After any other error the outcome is unknown, and the connection is closed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use store::{
    Batch, CounterKey, Guard, Key, Plan, StoreError, StoreErrorKind, Value, Verdict, Write,
};
use tokio::time::Instant;

use crate::error::{is_contention, is_unknown, kind};
use crate::feed;
use crate::pool::{ConnectionPool, PooledConnection};
use crate::row;
use crate::script::{Failure, LIST_ROWS_MAX, Script, StatementResult, push, push_bytes};
use crate::writes::{RowState, Writes, delete, rank};

/// Limit of the tries of a batch that other transactions disturb (contention).
const TRIES: u32 = 16;

/// Time since the first try after which a batch is not tried again.
const RETRY_DEADLINE: Duration = Duration::from_secs(8);

/// The first pause before a retry, and the longest. The pause doubles with each try. Half of it
/// depends on the connection, so that two batches that disturbed each other do not meet again.
const PAUSE: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(64);

/// The reason why one try to commit a batch failed.
enum TryError {
    /// Another transaction's lock or row was in the way. The transaction may need to be rolled
    /// back.
    Contention(sqlx::Error),
    /// The server had ended the connection before the call began, so nothing was sent on it.
    Ended,
    /// Any other failure. The kind says if nothing was committed or if the outcome is unknown.
    Failed(StoreErrorKind, sqlx::Error),
}

/// Decides the plans, in order, in one transaction, which commits those whose guards hold. Tries
/// again after contention with other transactions.
///
/// Fails with `Unavailable` if the contention does not end within [`TRIES`] tries and
/// [`RETRY_DEADLINE`], and with `Unknown` if COMMIT may have run and was not answered.
pub(crate) async fn commit(
    pool: &ConnectionPool,
    plans: &[Plan],
) -> Result<Vec<Verdict>, StoreError> {
    let doing = || format!("committing {} plans", plans.len());
    let began = Instant::now();
    let mut connection = pool.acquire().await?;
    let mut tries = 1;
    loop {
        match attempt(&mut connection, plans).await {
            Ok((verdicts, entry)) => {
                trim(connection, entry).await;
                return Ok(verdicts);
            }
            // A new connection has not been idle, so this does not repeat.
            Err(TryError::Ended) => connection.renew().await?,
            Err(TryError::Contention(error)) => {
                let again = tries < TRIES && began.elapsed() < RETRY_DEADLINE;
                // Some errors of contention undo only one statement, so the transaction still holds
                // locks.
                roll_back(&mut connection).await?;
                if !again {
                    connection.keep();
                    let doing = format!("{}: contention in {tries} tries", doing());
                    return Err(StoreError::because(StoreErrorKind::Unavailable, doing, error));
                }
                tokio::time::sleep(pause(tries, connection.id())).await;
                tries += 1;
            }
            Err(TryError::Failed(kind, error)) => {
                if kind == StoreErrorKind::Unknown {
                    tracing::warn!(%error, "the outcome of a commit is not known");
                }
                return Err(StoreError::because(kind, doing(), error));
            }
        }
    }
}

fn pause(tries: u32, connection: u64) -> Duration {
    let whole = PAUSE.saturating_mul(1 << tries.min(10)).min(PAUSE_MAX);
    // Multiples of the golden ratio are far apart for consecutive numbers.
    let own = connection.wrapping_add(u64::from(tries)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
    whole / 2 + whole / 2 * u32::try_from(own).unwrap_or(0) / 256
}

/// Ends a transaction that may be open, by ROLLBACK or by closing its connection.
async fn roll_back(connection: &mut PooledConnection<'_>) -> Result<(), StoreError> {
    let mut script = Script::default();
    script.statement("ROLLBACK");
    match connection.run(script).await {
        Ok(_) => Ok(()),
        Err(_) => connection.renew().await,
    }
}

/// Returns the connection to the pool. If this is due, it first deletes old entries of one shard
/// (one of 16 parts) of the change feed. `entry` is the number of the batch's entry in that shard.
async fn trim(mut connection: PooledConnection<'_>, entry: Option<u64>) {
    let trimming = entry.and_then(|number| feed::trim(feed::shard(connection.id()), number));
    if let Some(script) = trimming
        && let Err(failure) = connection.run(script).await
    {
        tracing::warn!(error = %failure.error, "the change feed was not trimmed");
        return;
    }
    connection.keep();
}

/// Tries once to commit a batch. Returns the verdicts, and the number of the batch's entry in its
/// shard (part) of the change feed; `None` if no record changed.
async fn attempt(
    connection: &mut PooledConnection<'_>,
    plans: &[Plan],
) -> Result<(Vec<Verdict>, Option<u64>), TryError> {
    let locks = Locks::of(plans);
    // Empty unless a guard bounds a counter: other counters change without being read, so that
    // batches wait for them only in trip 2.
    let locked = locked_counters(plans);
    let mut batch = Batch::new(plans.iter());
    // Sent even if there is nothing to read: this detects an idle connection that has ended before
    // anything is committed on it.
    let mut script = locks.script(&batch);
    let unbounded = script.len();
    lock_counters(&mut script, &locked);
    let answers = connection.run(script).await;
    let answers = answers.map_err(|failure| definite(connection, failure))?;
    let (answers, numbers) = answers.split_at(unbounded.min(answers.len()));
    let taken = take(&mut batch, answers, numbers);
    let Taken { found, whole } = taken.map_err(|error| TryError::Failed(kind(&error), error))?;
    let verdicts: Vec<Verdict> = plans.iter().map(|plan| batch.decide(plan)).collect();
    let absent: Vec<&Key> = batch.records().filter(|key| locks.lacks(&found, key)).collect();
    let committed = plans.iter().zip(&verdicts);
    let committed = committed.filter(|(_, verdict)| **verdict == Verdict::Committed);
    let counters = store::counter_changes(committed.map(|(plan, _)| plan));
    let ranges = ranges_in_doubt(&batch, &whole, &absent, &verdicts);
    let state = |key: &Key| locks.state(&found, key);
    let writes = Writes::new(&batch, &counters, &absent, ranges, state);
    // A longer list of absent keys would need several statements, which would not read them at one
    // instant. Such a batch takes the placeholders of the usual way.
    if writes.is_empty() && absent.len() <= LIST_ROWS_MAX {
        end(connection, &absent, locked.is_empty()).await?;
        return Ok((verdicts, None));
    }
    let mut script = Script::default();
    writes.add_to(&mut script);
    // Counters that were created only to be locked.
    let made = locked.into_iter().filter(|key| !counters.contains_key(key) && batch.is_zero(key));
    delete(&mut script, "ashlar_counter", made.map(|CounterKey(key)| key));
    let entry = feed::entry(plans, &verdicts);
    // The position of the statement that numbers the entry, to find its answer below.
    let numbered = (!entry.is_empty()).then_some(script.len());
    if !entry.is_empty() {
        feed::append(&mut script, feed::shard(connection.id()), &entry);
    }
    script.statement("COMMIT");
    let answers = match connection.run(script).await {
        Ok(answers) => answers,
        Err(failure) if is_unknown(&failure) => {
            return Err(TryError::Failed(StoreErrorKind::Unknown, failure.error));
        }
        Err(failure) => return Err(definite(connection, failure)),
    };
    let number = numbered.and_then(|at| answers.get(at)).map(|answer| answer.last_insert_id);
    Ok((verdicts, number))
}

/// Returns the meaning of a failed script if nothing can have been committed.
fn definite(connection: &PooledConnection<'_>, failure: Failure) -> TryError {
    if is_contention(&failure.error) {
        TryError::Contention(failure.error)
    } else if connection.had_ended(&failure) {
        TryError::Ended
    } else {
        TryError::Failed(kind(&failure.error), failure.error)
    }
}

/// Returns the ranges at which trip 2 must look again, each with the number of its records after
/// the batch: those of which every row was read, if the owner of one may be among the absent keys.
/// Other ranges have a row that stays, or an owner that is locked. Refusals promise nothing about
/// ranges.
fn ranges_in_doubt<'a>(
    batch: &'a Batch,
    whole: &[bool],
    absent: &[&Key],
    verdicts: &[Verdict],
) -> Vec<(&'a Key, &'a Key, usize)> {
    if absent.is_empty() || !verdicts.contains(&Verdict::Committed) {
        return Vec::new();
    }
    let ranges = batch.ranges().zip(whole).filter(|(_, whole)| **whole);
    ranges.map(|((start, end, _), _)| (start, end, batch.count_in(start, end))).collect()
}

/// Ends a transaction that writes nothing, if the absent keys, on which its verdicts rest, are
/// still absent. Otherwise fails with contention, and the batch starts again.
async fn end(
    connection: &mut PooledConnection<'_>,
    absent: &[&Key],
    nothing_made: bool,
) -> Result<(), TryError> {
    let mut script = Script::default();
    let look = ("SELECT k FROM ashlar_record FORCE INDEX (PRIMARY) WHERE k IN (", ") LIMIT 1");
    script.list(look, absent, |text, key| push_bytes(text, key.as_bytes()));
    // ROLLBACK also removes the counters that were created to be locked.
    script.statement(if nothing_made { "COMMIT" } else { "ROLLBACK" });
    let answers = connection.run(script).await.map_err(|failure| definite(connection, failure))?;
    if answers.iter().any(|answer| !answer.rows.is_empty()) {
        let came = "a record was created while the batch relied on its absence";
        return Err(TryError::Contention(sqlx::Error::Protocol(came.into())));
    }
    Ok(())
}

/// The rows to lock in the first round trip, in the order of keys, each with true for an exclusive
/// lock.
struct Locks<'a>(BTreeMap<&'a Key, bool>);

impl<'a> Locks<'a> {
    fn of(plans: &'a [Plan]) -> Locks<'a> {
        let mut locks = BTreeMap::new();
        for guard in plans.iter().flat_map(|plan| &plan.guards) {
            if let Guard::Equals(key, _) | Guard::Absent(key) | Guard::Present(key) = guard {
                locks.insert(key, false);
            }
        }
        let writes = || plans.iter().flat_map(|plan| &plan.writes);
        for write in writes() {
            if let Write::Delete(key) = write {
                locks.insert(key, true);
            }
        }
        // The owner of a range that must be empty is deleted or put, with or without a guard.
        let empties = |guard: &Guard| matches!(guard, Guard::Empty(..));
        for plan in plans.iter().filter(|plan| plan.guards.iter().any(empties)) {
            for write in &plan.writes {
                if let Write::Put(key, _) = write {
                    locks.insert(key, true);
                }
            }
        }
        for write in writes() {
            if let Write::Put(key, _) = write
                && let Some(exclusive) = locks.get_mut(key)
            {
                *exclusive = true;
            }
        }
        Locks(locks)
    }

    /// Returns the script of the first round trip, which locks rows and reads them. Its first
    /// statement begins the transaction.
    fn script(&self, batch: &Batch) -> Script {
        const LOOK: &str = "SELECT k, v FROM ashlar_record FORCE INDEX (PRIMARY) WHERE k IN (";
        let keys = |exclusive| self.0.iter().filter(move |lock| *lock.1 == exclusive);
        let push_key = |text: &mut String, (key, _): (&&Key, &bool)| {
            push_bytes(text, key.as_bytes());
        };
        let mut script = Script::default();
        script.statement("START TRANSACTION");
        script.list((LOOK, ") FOR UPDATE"), keys(true), push_key);
        script.list((LOOK, ") LOCK IN SHARE MODE"), keys(false), push_key);
        for (start, end, limit) in batch.ranges() {
            let mut text =
                String::from("SELECT k FROM ashlar_record FORCE INDEX (PRIMARY) WHERE k >= ");
            push_bytes(&mut text, start.as_bytes());
            text.push_str(" AND k < ");
            push_bytes(&mut text, end.as_bytes());
            push(&mut text, format_args!(" ORDER BY k LIMIT {limit} LOCK IN SHARE MODE"));
            script.statement(text);
        }
        script
    }

    fn state(&self, found: &HashMap<Key, Value>, key: &Key) -> RowState {
        match (found.contains_key(key), self.0.contains_key(key)) {
            (true, _) => RowState::Present,
            (false, true) => RowState::Absent,
            (false, false) => RowState::Unseen,
        }
    }

    /// Returns true if a key was read and had no row.
    fn lacks(&self, found: &HashMap<Key, Value>, key: &Key) -> bool {
        self.state(found, key) == RowState::Absent
    }
}

/// Returns the counters to lock, in the order in which they are written; empty if none is bounded.
fn locked_counters(plans: &[Plan]) -> Vec<&CounterKey> {
    let bounded: BTreeSet<&CounterKey> = plans.iter().flat_map(Plan::bounded_counters).collect();
    if bounded.is_empty() {
        return Vec::new();
    }
    let changes = store::counter_changes(plans);
    let all: BTreeSet<&CounterKey> = changes.keys().copied().chain(bounded).collect();
    let mut all: Vec<&CounterKey> = all.into_iter().collect();
    all.sort_by_key(|key| changes.get(key).map_or(0, |change| rank(*change)));
    all
}

/// Adds the statements that lock and read counters. A missing row cannot be locked, so it is
/// created first.
fn lock_counters(script: &mut Script, counters: &[&CounterKey]) {
    const MAKE: (&str, &str) =
        ("INSERT INTO ashlar_counter VALUES ", " ON DUPLICATE KEY UPDATE n = n");
    const LOOK: (&str, &str) = (
        "SELECT k, CAST(n AS CHAR) FROM ashlar_counter FORCE INDEX (PRIMARY) WHERE k IN (",
        ") FOR UPDATE",
    );
    script.list(MAKE, counters, |text, CounterKey(key)| {
        text.push('(');
        push_bytes(text, key.as_bytes());
        text.push_str(",0)");
    });
    script.list(LOOK, counters, |text, CounterKey(key)| push_bytes(text, key.as_bytes()));
}

/// The rows that the first round trip found.
struct Taken {
    /// The guarded and deleted records, by key.
    found: HashMap<Key, Value>,
    /// For each range of the batch, true if all of its rows were read.
    whole: Vec<bool>,
}

/// Sets the values that the first round trip returned in the batch.
fn take(
    batch: &mut Batch,
    answers: &[StatementResult],
    numbers: &[StatementResult],
) -> Result<Taken, sqlx::Error> {
    // Each range is one statement, and the ranges come last. All statements before them are lists
    // of records.
    let lists = answers.len().saturating_sub(batch.ranges().count());
    let mut found = HashMap::new();
    for row in answers.iter().take(lists).flat_map(|answer| &answer.rows) {
        found.insert(row::key(row, 0)?, row::value(row, 1)?);
    }
    let of_ranges = batch.ranges().zip(answers.iter().skip(lists));
    let whole = of_ranges.map(|((_, _, limit), answer)| answer.rows.len() < limit).collect();
    let in_ranges = answers.iter().skip(lists).flat_map(|answer| &answer.rows);
    let in_ranges: Result<Vec<Key>, _> = in_ranges.map(|row| row::key(row, 0)).collect();
    let records = batch.records().map(|key| found.get(key).cloned()).collect();
    let mut counters: HashMap<CounterKey, i64> = HashMap::new();
    for row in numbers.iter().flat_map(|answer| &answer.rows) {
        counters.insert(CounterKey(row::key(row, 0)?), row::integer(row, 1)?);
    }
    let counters = batch.counters().map(|key| counters.get(key).copied()).collect();
    batch.set_found(records, counters, in_ranges?);
    Ok(Taken { found, whole })
}
