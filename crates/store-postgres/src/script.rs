//! Commits under locks: two round trips, each of several plain statements. Roles that may not
//! create functions commit in this way, and so do batches that the function cannot commit. For
//! example, a guard of such a batch bounds a counter and does not hold.
//!
//! The first trip opens a transaction, takes the same locks as the function does, and fetches the
//! records that the plans need. This process decides the plans in memory. The second trip writes
//! the result and commits. Both use one connection. Several statements in one text cannot have
//! parameters, so the text contains bytes as hexadecimal digits, and otherwise only numbers.
//!
//! PostgreSQL answers COMMIT in a failed transaction with ROLLBACK, which the driver reports as
//! success. That cannot happen here: PostgreSQL stops at the first statement of a text that fails,
//! so COMMIT runs only if all statements before it succeeded. In addition the answers are counted.
//!
//! For example, a plan with two guards is `begin`, the locks, one `select` for both records; then
//! one `insert`, the feed's entry and `commit`.

use std::collections::HashMap;
use std::fmt::Write as _;

use futures::StreamExt as _;
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{AssertSqlSafe, Either, Row};
use store::feed::compact;
use store::{Batch, CounterChange, CounterKey, Key, Plan, Verdict, counter_changes};

use crate::counters::{SUM_MAX, changes as changes_of, rank};
use crate::error::{Failure, unreadable};
use crate::locks::locks;

/// Several statements without parameters, which the server gets as one text.
#[derive(Debug, Default)]
struct Script {
    text: String,
    statements: usize,
}

impl Script {
    fn add(&mut self, statement: &str) {
        self.text.push_str(statement);
        self.text.push_str(";\n");
        self.statements += 1;
    }

    /// Runs the statements. Returns the rows of each.
    async fn run(self, connection: &mut PgConnection) -> Result<Vec<Vec<PgRow>>, sqlx::Error> {
        let mut answers = Vec::with_capacity(self.statements);
        let mut rows = Vec::new();
        let mut steps = sqlx::raw_sql(AssertSqlSafe(self.text)).fetch_many(connection);
        while let Some(step) = steps.next().await {
            match step? {
                Either::Right(row) => rows.push(row),
                Either::Left(_done) => answers.push(std::mem::take(&mut rows)),
            }
        }
        if answers.len() == self.statements {
            Ok(answers)
        } else {
            Err(unreadable("fewer answers than statements"))
        }
    }
}

/// Returns bytes as an SQL expression.
fn bytes(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len() + 12);
    text.push_str("'\\x");
    digits(&mut text, bytes);
    text.push_str("'::bytea");
    text
}

/// Returns a list of byte strings as an SQL expression.
fn list<'a>(items: impl Iterator<Item = &'a [u8]>) -> String {
    let mut text = String::from("'{");
    for (number, item) in items.enumerate() {
        // In a quoted element of an array literal a backslash is doubled.
        text.push_str(if number == 0 { "\"\\\\x" } else { ",\"\\\\x" });
        digits(&mut text, item);
        text.push('"');
    }
    text.push_str("}'::bytea[]");
    text
}

fn digits(text: &mut String, bytes: &[u8]) {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    for byte in bytes {
        text.push(DIGITS[usize::from(byte >> 4)]);
        text.push(DIGITS[usize::from(byte & 15)]);
    }
}

/// Decides plans, and commits those whose guards hold.
pub(crate) async fn commit(
    connection: &mut PgConnection,
    plans: &[Plan],
) -> Result<Vec<Verdict>, Failure> {
    let mut batch = Batch::new(plans.iter());
    let answers = questions(plans, &batch).run(connection).await.map_err(Failure::before)?;
    let bounded = plans.iter().any(|plan| plan.bounded_counters().next().is_some());
    fill(&mut batch, answers, bounded).map_err(Failure::before)?;
    let verdicts: Vec<Verdict> = plans.iter().map(|plan| batch.decide(plan)).collect();
    let script = changes(plans, &verdicts, &batch);
    script.run(connection).await.map_err(Failure::after)?;
    Ok(verdicts)
}

/// Returns the statements of the first round trip: they begin the transaction, take the locks, and
/// read the records and ranges that the plans need. Counters are changed without being read, unless
/// a guard bounds one of them.
fn questions(plans: &[Plan], batch: &Batch) -> Script {
    let mut script = Script::default();
    script.add("begin isolation level read committed read write");
    // A mark of this transaction, which trip 2 checks.
    script.add("set local ashlar.batch = 'open'");
    let (mut hashes, mut exclusive) = (String::new(), String::new());
    for (number, (hash, written)) in locks(plans).into_iter().enumerate() {
        let comma = if number == 0 { "" } else { "," };
        let _ = write!(hashes, "{comma}{hash}");
        let _ = write!(exclusive, "{comma}{}", if written { 't' } else { 'f' });
    }
    script.add(&format!(
        "select case when l.exclusive \
         then pg_advisory_xact_lock('ashlar_record'::regclass::oid::int, l.hash)::text \
         else pg_advisory_xact_lock_shared('ashlar_record'::regclass::oid::int, l.hash)::text end \
         from unnest('{{{hashes}}}'::int[], '{{{exclusive}}}'::boolean[]) as l(hash, exclusive)"
    ));
    if let Some(statement) = lock_counters(plans) {
        script.add(&statement);
    }
    script.add(&format!(
        "select q.at, r.value from unnest({}) with ordinality as q(key, at) \
         cross join lateral (select value from ashlar_record where key = q.key limit 1) r",
        list(batch.records().map(Key::as_bytes))
    ));
    for (start, end, limit) in batch.ranges() {
        script.add(&format!(
            "select key from ashlar_record where key >= {} and key < {} order by key limit {limit}",
            bytes(start.as_bytes()),
            bytes(end.as_bytes())
        ));
    }
    script
}

/// Returns the statement that locks and reads all counters of a batch, if a guard bounds one of
/// them. The order is the one in which all commits change counters. A missing row cannot be locked,
/// so the statement first creates it with 0.
fn lock_counters(plans: &[Plan]) -> Option<String> {
    plans.iter().find_map(|plan| plan.bounded_counters().next())?;
    let mut all: Vec<(&CounterKey, CounterChange)> = changes_of(plans).into_iter().collect();
    all.sort_by_key(|(_, change)| rank(*change));
    Some(format!(
        "insert into ashlar_counter as t (key, value) select q.key, 0 \
         from unnest({}) with ordinality as q(key, at) order by q.at \
         on conflict (key) do update set value = t.value returning t.key, t.value",
        list(all.iter().map(|(key, _)| key.0.as_bytes()))
    ))
}

/// Sets the values that the database returned in the batch.
fn fill(batch: &mut Batch, answers: Vec<Vec<PgRow>>, bounded: bool) -> Result<(), sqlx::Error> {
    // The answers of BEGIN, SET and the locks have no values.
    let mut answers = answers.into_iter().skip(3);
    let mut numbers: HashMap<Vec<u8>, i64> = HashMap::new();
    if bounded {
        for row in answers.next().into_iter().flatten() {
            numbers.insert(row.try_get(0)?, row.try_get(1)?);
        }
    }
    let mut records = vec![None; batch.records().len()];
    for row in answers.next().into_iter().flatten() {
        let at: i64 = row.try_get(0)?;
        let place = usize::try_from(at - 1).ok().and_then(|at| records.get_mut(at));
        let value: Vec<u8> = row.try_get(1)?;
        *place.ok_or_else(|| unreadable("a record without a question"))? = Some(value.into());
    }
    let mut keys = Vec::new();
    for row in answers.flatten() {
        let key: Vec<u8> = row.try_get(0)?;
        if key.len() < Key::PREFIX_BYTES {
            return Err(unreadable("a key shorter than its space and partition"));
        }
        keys.push(Key::from_bytes(key));
    }
    // Without a bounded counter none was read, and no verdict depends on one.
    let counters = batch.counters().map(|key| numbers.get(key.0.as_bytes()).copied()).collect();
    batch.set_found(records, counters, keys);
    Ok(())
}

/// Returns the statements of the second round trip: they write the changes of the committed plans,
/// and commit.
fn changes(plans: &[Plan], verdicts: &[Verdict], batch: &Batch) -> Script {
    let mut script = Script::default();
    // This statement divides by zero if it does not run in the transaction that holds the locks.
    script.add("select 1 / (coalesce(current_setting('ashlar.batch', true), '') = 'open')::int");
    let (mut keys, mut values, mut gone) = (Vec::new(), Vec::new(), Vec::new());
    for (key, value) in batch.written_records() {
        match value {
            Some(value) => {
                keys.push(key.as_bytes());
                values.push(&value[..]);
            }
            None => gone.push(key.as_bytes()),
        }
    }
    if !keys.is_empty() {
        script.add(&format!(
            "insert into ashlar_record (key, value) select * from unnest({}, {}) \
             on conflict (key) do update set value = excluded.value",
            list(keys.into_iter()),
            list(values.into_iter())
        ));
    }
    if !gone.is_empty() {
        script.add(&format!(
            "delete from ashlar_record where key = any ({})",
            list(gone.into_iter())
        ));
    }
    let committed = || {
        let both = plans.iter().zip(verdicts);
        both.filter(|(_, verdict)| **verdict == Verdict::Committed).map(|(plan, _)| plan)
    };
    let changed = counter_changes(committed());
    // In the order in which all commits change counters, so that they do not deadlock.
    let mut in_order: Vec<_> = changed.iter().collect();
    in_order.sort_by_key(|(_, change)| rank(**change));
    for (key, change) in in_order {
        script.add(&counter(key.0.as_bytes(), *change));
    }
    if lock_counters(plans).is_some() {
        // Rows that were created only to be locked.
        let made = changes_of(plans).into_keys().filter(|key| !changed.contains_key(key));
        script.add(&format!(
            "delete from ashlar_counter where value = 0 and key = any ({})",
            list(made.map(|key| key.0.as_bytes()))
        ));
    }
    let entry = compact::entry(committed());
    if !entry.is_empty() {
        script.add(&format!("insert into ashlar_change (keys) values ({})", bytes(&entry)));
    }
    script.add("commit");
    script
}

/// Returns the statement that applies a change to one counter, for any value that the counter has.
fn counter(key: &[u8], change: CounterChange) -> String {
    let key = bytes(key);
    match change {
        CounterChange::To(0) => format!("delete from ashlar_counter where key = {key}"),
        CounterChange::To(number) => {
            let number = number.clamp(-SUM_MAX, SUM_MAX);
            format!(
                "insert into ashlar_counter (key, value) values ({key}, {number}) \
                 on conflict (key) do update set value = excluded.value"
            )
        }
        CounterChange::By { add, floor } => {
            let add = add.clamp(-SUM_MAX, SUM_MAX);
            // `greatest` ignores nulls.
            let floor = floor.map(|floor| floor.clamp(-SUM_MAX, SUM_MAX));
            let floor = floor.map_or("null".to_owned(), |floor| floor.to_string());
            format!(
                "insert into ashlar_counter as t (key, value) values ({key}, \
                 greatest({add}::bigint, {floor})) on conflict (key) do update set value = \
                 greatest(least(t.value + {add}::bigint, {SUM_MAX}), -{SUM_MAX}, {floor})"
            )
        }
    }
}
