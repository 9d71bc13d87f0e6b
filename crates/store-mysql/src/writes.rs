//! Converts the changes of a batch into statements.
//!
//! Tables are written in one order (new records, other records, deletions, counters), and each in
//! the order of its keys. Ranges that must be empty are looked at between deletions and counters.
//! So batches wait for each other without deadlocks. For example, two batches that put `a` and `b`
//! both lock `a` first.

use std::collections::{BTreeMap, BTreeSet};

use store::{Batch, CounterChange, CounterKey, Key, Value};

use crate::script::{Script, push, push_bytes};

/// The bound, positive and negative, to which sums of counters are clamped. It is far beyond the
/// defined range, and prevents overflows in additions.
const COUNTER_BOUND: i64 = (1 << 62) - 1;
const _: () =
    assert!(COUNTER_BOUND.checked_add(COUNTER_BOUND).is_some(), "two bounds are no number");

/// Limit of the ranges that one statement looks at.
const RANGES_MAX: usize = 16;

/// The knowledge of a batch about the row of a key, after the first round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowState {
    /// The row exists, and this transaction has locked it exclusively.
    Present,
    /// The row did not exist when it was read, and no lock prevents others from creating it.
    Absent,
    /// The row was not read, so it may exist.
    Unseen,
}

/// Returns the rank of a counter's change. Counters are written, and thereby locked, in the order
/// of their rank, then of their key.
pub(crate) fn rank(change: CounterChange) -> u8 {
    match change {
        CounterChange::By { floor: None, .. } => 0,
        CounterChange::By { add: 0, floor: Some(0..) } => 1,
        CounterChange::By { .. } => 2,
        CounterChange::To(_) => 3,
    }
}

/// The combined changes of a batch, in the form of the statements that write them.
#[derive(Debug)]
pub(crate) struct Writes<'a> {
    /// Records whose keys must not exist before this commit: new records, and placeholders. A
    /// placeholder is inserted and deleted again, to prove that a guarded key is absent.
    new: BTreeMap<&'a Key, &'a [u8]>,
    /// Records to put that exist or may exist, with their new bytes.
    put: Vec<(&'a Key, &'a Value)>,
    /// Existing records to delete, and placeholders, which no other transaction ever sees.
    deleted: BTreeSet<&'a Key>,
    /// Ranges that may have got a row since they were read, each with the number of its records
    /// after this batch.
    ranges: Vec<(&'a Key, &'a Key, usize)>,
    counters: &'a BTreeMap<&'a CounterKey, CounterChange>,
    is_empty: bool,
}

impl<'a> Writes<'a> {
    /// Collects the changes of a decided batch. `absent` are the guarded keys without a row;
    /// `ranges` are looked at again, each with its number of records after the batch; `state`
    /// returns the knowledge about any key.
    pub(crate) fn new(
        batch: &'a Batch,
        counters: &'a BTreeMap<&'a CounterKey, CounterChange>,
        absent: &[&'a Key],
        ranges: Vec<(&'a Key, &'a Key, usize)>,
        state: impl Fn(&Key) -> RowState,
    ) -> Writes<'a> {
        // Start with a placeholder for each absent key; a put replaces it.
        let mut new: BTreeMap<&Key, &[u8]> = absent.iter().map(|key| (*key, &b""[..])).collect();
        let mut deleted: BTreeSet<&Key> = absent.iter().copied().collect();
        let mut put = Vec::new();
        let mut is_empty = counters.is_empty() && ranges.is_empty();
        for (key, value) in batch.written_records() {
            is_empty = false;
            match (value, state(key)) {
                (Some(value), RowState::Absent) => {
                    new.insert(key, value);
                    deleted.remove(key);
                }
                (Some(value), RowState::Present | RowState::Unseen) => put.push((key, value)),
                (None, RowState::Absent) => {
                    new.insert(key, b"");
                    deleted.insert(key);
                }
                (None, RowState::Present | RowState::Unseen) => {
                    deleted.insert(key);
                }
            }
        }
        Writes { new, put, deleted, ranges, counters, is_empty }
    }

    /// Returns true if the plans changed nothing and no range is looked at again.
    pub(crate) fn is_empty(&self) -> bool {
        self.is_empty
    }

    pub(crate) fn add_to(&self, script: &mut Script) {
        const INSERT: &str = "INSERT INTO ashlar_record VALUES ";
        let push_record = |text: &mut String, key: &Key, value: &[u8]| {
            text.push('(');
            push_bytes(text, key.as_bytes());
            text.push(',');
            push_bytes(text, value);
            text.push(')');
        };
        script.list((INSERT, ""), &self.new, |text, (key, value)| push_record(text, key, value));
        let upsert = (INSERT, " ON DUPLICATE KEY UPDATE v = VALUES(v)");
        script.list(upsert, &self.put, |text, (key, value)| push_record(text, key, value));
        delete(script, "ashlar_record", self.deleted.iter().copied());
        self.add_ranges_to(script);
        self.add_counters_to(script);
    }

    /// Adds statements that fail with a duplicate key if a range has more records than this batch
    /// leaves there: they would insert the surplus record once more. A `SELECT` would need a round
    /// trip before COMMIT.
    fn add_ranges_to(&self, script: &mut Script) {
        for ranges in self.ranges.chunks(RANGES_MAX) {
            let mut text = String::from("INSERT INTO ashlar_record ");
            for (place, (start, end, count)) in ranges.iter().enumerate() {
                text.push_str(if place == 0 { "(" } else { " UNION ALL (" });
                text.push_str("SELECT k, v FROM ashlar_record FORCE INDEX (PRIMARY) WHERE k >= ");
                push_bytes(&mut text, start.as_bytes());
                text.push_str(" AND k < ");
                push_bytes(&mut text, end.as_bytes());
                let surplus = format_args!(" ORDER BY k LIMIT 1 OFFSET {count}");
                push(&mut text, surplus);
                text.push_str(" LOCK IN SHARE MODE)");
            }
            script.statement(text);
        }
    }

    /// Adds one statement for each kind of counter change, in the order of [`rank`], and one for
    /// each counter that is both added to and raised.
    fn add_counters_to(&self, script: &mut Script) {
        const INSERT: &str = "INSERT INTO ashlar_counter VALUES ";
        let bounded = |number: i64| number.clamp(-COUNTER_BOUND, COUNTER_BOUND);
        let sum = format!("LEAST(GREATEST(n, -{COUNTER_BOUND}), {COUNTER_BOUND})");
        let (mut adds, mut raises, mut sets) = (Vec::new(), Vec::new(), Vec::new());
        let mut others = Vec::new();
        for (CounterKey(key), change) in self.counters {
            match *change {
                CounterChange::To(number) => sets.push((key, bounded(number))),
                CounterChange::By { add: 0, floor: None } => {}
                CounterChange::By { add, floor: None } => adds.push((key, bounded(add))),
                CounterChange::By { add: 0, floor: Some(floor) } if floor >= 0 => {
                    raises.push((key, bounded(floor)));
                }
                CounterChange::By { add, floor: Some(floor) } => {
                    others.push((key, bounded(add), bounded(floor)));
                }
            }
        }
        let push_counter = |text: &mut String, (key, number): &(&Key, i64)| {
            text.push('(');
            push_bytes(text, key.as_bytes());
            push(text, format_args!(",{number})"));
        };
        let added = format!(" ON DUPLICATE KEY UPDATE n = {sum} + VALUES(n)");
        script.list((INSERT, &added), &adds, push_counter);
        let highest = " ON DUPLICATE KEY UPDATE n = GREATEST(n, VALUES(n))";
        script.list((INSERT, highest), &raises, push_counter);
        for (key, add, floor) in others {
            let mut text = String::from(INSERT);
            push_counter(&mut text, &(key, add.max(floor)));
            push(
                &mut text,
                format_args!(" ON DUPLICATE KEY UPDATE n = GREATEST({sum} + {add}, {floor})"),
            );
            script.statement(text);
        }
        // A counter that becomes 0 is first set, which locks it, and then deleted: deleting a
        // missing row would lock nothing.
        script.list((INSERT, " ON DUPLICATE KEY UPDATE n = VALUES(n)"), &sets, push_counter);
        let cleared = sets.iter().filter(|(_, number)| *number == 0).map(|(key, _)| *key);
        delete(script, "ashlar_counter", cleared);
    }
}

/// Adds the statement that deletes rows by key. With a list of keys the server would scan a small
/// table, and wait for each lock on its way. With a join each key is one index lookup.
pub(crate) fn delete<'k>(script: &mut Script, table: &str, keys: impl Iterator<Item = &'k Key>) {
    let keys: Vec<&Key> = keys.collect();
    if let [key] = keys[..] {
        let mut text = format!("DELETE FROM {table} WHERE k = ");
        push_bytes(&mut text, key.as_bytes());
        script.statement(text);
        return;
    }
    let after = format!(" AS k) q STRAIGHT_JOIN {table} r FORCE INDEX (PRIMARY) ON r.k = q.k");
    let joined = ("DELETE r FROM (SELECT ", " AS k UNION ALL SELECT ", &*after);
    script.joined(joined, keys, |text, key| push_bytes(text, key.as_bytes()));
}

#[cfg(test)]
mod tests;
