//! Plans: what must hold, and what happens then.

use crate::{CounterKey, Key, StoreErrorKind, Value};

/// A condition that must hold at the instant of commit.
///
/// Guards compare bytes, not versions: a record that returned to the same bytes says the same
/// thing, and ids are never reused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Guard {
    /// The record has exactly these bytes.
    Equals(Key, Value),
    /// There is no such record.
    Absent(Key),
    /// The record exists; its bytes do not matter.
    Present(Key),
    /// No record in `start..end`, both in one partition of one ordered space. The range belongs to
    /// an owner record that every plan writing into it guards, and that a plan relying on this
    /// guard deletes or rewrites: engines do not protect the range itself.
    Empty(Key, Key),
    /// The counter, with what this plan adds to it, is at most this number. Plans of one batch are
    /// decided in their order, so each counts what those before it have done to the counter. A plan
    /// with this guard adds to the counter or leaves it alone; it does not set, raise or clear it.
    /// A refusal says that there was no room and brings nothing else: what the counter was by then
    /// is for a read to find out.
    AtMost(CounterKey, i64),
}

/// The largest number, positive or negative, that a write may set a counter to or add to it. Callers
/// keep sums within it, too. Beyond it the value of that counter is not defined, and nothing else
/// suffers. Engines that count in floating point lose digits there.
pub const COUNTER_MAX: i64 = 1 << 53;

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Sets a record.
    Put(Key, Value),
    /// Removes a record, if it is there.
    Delete(Key),
    /// Adds to a counter. Additions commute.
    Add(CounterKey, i64),
    /// Raises a counter to at least this value.
    Max(CounterKey, i64),
    /// Sets a counter.
    Set(CounterKey, i64),
    /// Removes a counter; it reads as 0 from then on.
    Clear(CounterKey),
}

impl Write {
    /// Its key, and whether that is a counter's.
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

/// Writes that happen together, or not at all, if every guard holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// What must hold.
    pub guards: Vec<Guard>,
    /// What happens then. A key stands in at most one write.
    pub writes: Vec<Write>,
}

/// The store's decision on a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every guard held and every write happened.
    Committed,
    /// A guard did not hold; nothing was written.
    Refused {
        /// The first guard, in the plan's order, that did not hold.
        guard: usize,
        /// The record that `Equals` or `Absent` met instead, if there was one.
        found: Option<Value>,
    },
    /// Nothing was written, for a reason that concerns this plan and not the whole batch: what an
    /// error of the whole call would mean. [`StoreErrorKind::Full`] says that the store has no
    /// space for the records that the plan adds, and [`StoreErrorKind::Corrupt`] that a record which it guards is
    /// damaged. A batch of which every plan failed is an error of the call.
    Failed(StoreErrorKind),
}

impl Plan {
    /// What a counter may be at most before this plan, if it is to be at most `most` with what the
    /// plan adds to it: what [`Guard::AtMost`] means.
    pub fn most_before(&self, counter: &CounterKey, most: i64) -> i64 {
        let added = self.writes.iter().find_map(|write| match write {
            Write::Add(key, by) if key == counter => Some(*by),
            _ => None,
        });
        most.saturating_sub(added.unwrap_or(0))
    }

    /// The counters that guards bound.
    pub fn bounded(&self) -> impl Iterator<Item = &CounterKey> {
        self.guards.iter().filter_map(|guard| match guard {
            Guard::AtMost(counter, _) => Some(counter),
            _ => None,
        })
    }

    /// Guards and writes, together.
    pub fn items(&self) -> usize {
        self.guards.len() + self.writes.len()
    }

    /// Bytes of keys and values.
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
