//! The changes of counters that a batch makes, and their order.
//!
//! Each change locks its counter until the transaction ends. So all commits change counters in one
//! order. For example, a batch changes counters that are only added to before counters that it
//! sets.

use std::collections::BTreeMap;

use store::{CounterChange, CounterKey, Plan, counter_changes};

/// The bound, positive and negative, to which sums of counters are clamped, so that the next sum
/// fits 64 bits.
pub(crate) const SUM_MAX: i64 = 1 << 61;

/// Returns the change of each counter that the plans change or bound.
pub(crate) fn changes(plans: &[Plan]) -> BTreeMap<&CounterKey, CounterChange> {
    let mut changes = counter_changes(plans);
    for counter in plans.iter().flat_map(Plan::bounded_counters) {
        changes.entry(counter).or_insert(CounterChange::By { add: 0, floor: None });
    }
    changes
}

/// Returns the rank of a counter's change. Counters are written, and thereby locked, in the order
/// of their rank, then of their key.
pub(crate) fn rank(change: CounterChange) -> u8 {
    match change {
        CounterChange::By { floor: None, .. } => 0,
        CounterChange::By { add: 0, floor: Some(0..) } => 1,
        CounterChange::By { .. } => 2,
        CounterChange::To(1.. | ..0) => 3,
        CounterChange::To(0) => 4,
    }
}
