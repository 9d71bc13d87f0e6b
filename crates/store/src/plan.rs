//! Plans: writes that are committed together if all conditions hold.

use crate::{CounterKey, Key, StoreErrorKind, Value};

/// A condition that must hold at the instant of the commit.
///
/// Guards compare bytes, not versions. A record that changed and then returned to the same bytes
/// has the same meaning, because ids are never reused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Guard {
    /// Holds if the record with this key exists and has exactly these bytes.
    Equals(Key, Value),
    /// Holds if there is no record with this key.
    Absent(Key),
    /// Holds if there is a record with this key, with any bytes.
    Present(Key),
    /// Holds if `start..end` contains no record. Both bounds belong to one partition of one ordered
    /// space. Engines do not lock the range itself, so callers keep a rule: the range belongs to an
    /// owner record; each plan that writes into the range guards the owner, and each plan with this
    /// guard deletes or rewrites the owner, or guards its absence. For example, the owner of a
    /// directory's entries is the directory's inode; the owner of a key's delete markers is the
    /// key's dentry, which is absent while the newest marker hides the key.
    Empty(Key, Key),
    /// Holds if the counter is at most this number after the addition that the plan itself makes to
    /// it. For example, a quota is such a bound on the bytes of a bucket. The plans of a batch are
    /// decided in order, so each counts the additions of the committed plans before it. A plan with
    /// this guard may add to the counter or leave it unchanged; it must not set, raise or clear it.
    /// The refusal does not return the counter's value: a caller that needs it reads it.
    AtMost(CounterKey, i64),
}

/// The largest absolute value that a write may set a counter to or add to it. Callers also keep the
/// sums within it. If a sum exceeds it, the value of that counter is undefined; other counters are
/// unaffected. Some engines compute in floating point and lose digits beyond 2^53.
pub const COUNTER_MAX: i64 = 1 << 53;

/// One change of a record or counter, as a part of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Sets the bytes of the record with this key. Creates the record if it does not exist.
    Put(Key, Value),
    /// Deletes the record with this key if it exists.
    Delete(Key),
    /// Adds this number, which may be negative, to the counter. Additions of several plans give the
    /// same sum in any order. A counter that does not exist counts as 0.
    Add(CounterKey, i64),
    /// Raises the counter to this value if it is lower.
    Max(CounterKey, i64),
    /// Sets the counter to this value.
    Set(CounterKey, i64),
    /// Deletes the counter. It then reads as 0.
    Clear(CounterKey),
}

impl Write {
    /// Returns the key that the write changes, and true if it is the key of a counter.
    pub(crate) fn key(&self) -> (bool, &Key) {
        match self {
            Write::Put(key, _) | Write::Delete(key) => (false, key),
            Write::Add(CounterKey(key), _)
            | Write::Max(CounterKey(key), _)
            | Write::Set(CounterKey(key), _)
            | Write::Clear(CounterKey(key)) => (true, key),
        }
    }
}

/// Writes that are committed together, if every guard holds, or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The conditions. If several do not hold, the verdict names the first one.
    pub guards: Vec<Guard>,
    /// The writes. No two of them change the same record or the same counter.
    pub writes: Vec<Write>,
}

/// The store's decision on a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every guard held, and all writes are committed.
    Committed,
    /// A guard did not hold, so nothing was written. Other plans of the batch are not affected.
    Refused {
        /// The index of the first guard, in the plan's order, that did not hold.
        guard: usize,
        /// The bytes of the record that a guard `Equals` or `Absent` found. `None` if the record
        /// does not exist, and for all other guards.
        found: Option<Value>,
    },
    /// The plan failed for a reason of its own, and nothing was written. The kind means the same as
    /// in an error of the call. With [`StoreErrorKind::Full`] the store has no space for the
    /// records that this plan adds; with [`StoreErrorKind::Corrupt`] a record that it guards is
    /// damaged. If every plan of a batch fails, the call fails instead.
    Failed(StoreErrorKind),
}

impl Plan {
    /// Returns the largest value that `counter` may have before this plan, so that it has at most
    /// `most` after the plan's own addition to it. The guard [`Guard::AtMost`] holds if the
    /// counter's value before the plan is at most this result.
    pub fn limit_before(&self, counter: &CounterKey, most: i64) -> i64 {
        most.saturating_sub(self.addition(counter).unwrap_or(0))
    }

    /// Returns the number that this plan adds to `counter`; `None` if it adds none.
    pub fn addition(&self, counter: &CounterKey) -> Option<i64> {
        self.writes.iter().find_map(|write| match write {
            Write::Add(key, by) if key == counter => Some(*by),
            Write::Put(..)
            | Write::Delete(_)
            | Write::Add(..)
            | Write::Max(..)
            | Write::Set(..)
            | Write::Clear(_) => None,
        })
    }

    /// Returns the keys of the records that this plan writes or deletes. For example, the change
    /// feed reports them; the counters of the plan are not among them.
    pub fn changed_records(&self) -> impl Iterator<Item = &Key> {
        self.writes.iter().filter_map(|write| match write {
            Write::Put(key, _) | Write::Delete(key) => Some(key),
            Write::Add(..) | Write::Max(..) | Write::Set(..) | Write::Clear(_) => None,
        })
    }

    /// Returns the counters of the `AtMost` guards.
    pub fn bounded_counters(&self) -> impl Iterator<Item = &CounterKey> {
        self.guards.iter().filter_map(|guard| match guard {
            Guard::AtMost(counter, _) => Some(counter),
            Guard::Equals(..) | Guard::Absent(_) | Guard::Present(_) | Guard::Empty(..) => None,
        })
    }

    /// Returns the number of guards and writes, added: the quantity that `Limits::plan_items`
    /// bounds.
    pub fn items(&self) -> usize {
        self.guards.len() + self.writes.len()
    }

    /// Returns the bytes of all keys and values in guards and writes: the quantity that
    /// `Limits::plan_bytes` bounds. A number counts as eight bytes.
    pub fn bytes(&self) -> usize {
        let guards = self.guards.iter().map(|guard| match guard {
            Guard::Equals(key, value) => key.as_bytes().len() + value.len(),
            Guard::Absent(key) | Guard::Present(key) => key.as_bytes().len(),
            Guard::Empty(start, end) => start.as_bytes().len() + end.as_bytes().len(),
            Guard::AtMost(counter, _) => counter.0.as_bytes().len() + size_of::<i64>(),
        });
        let writes = self.writes.iter().map(|write| match write {
            Write::Put(key, value) => key.as_bytes().len() + value.len(),
            other => other.key().1.as_bytes().len() + size_of::<i64>(),
        });
        guards.sum::<usize>() + writes.sum::<usize>()
    }
}
