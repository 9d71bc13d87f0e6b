//! Counters: integers with keys of their own.

use super::{check_record, counter, decide, equals, key, number, plan, put, refused, write};
use crate::{COUNTER_MAX, CounterKey, Guard, MetaStore, Verdict, Write};

/// Each kind of write, on an existing and on a missing counter, within a batch and across batches.
pub async fn counters_add_raise_set_and_clear(store: &dyn MetaStore) {
    let at = counter(1, "n");
    let steps: [(Write, i64); 14] = [
        (Write::Add(at.clone(), 5), 5),
        (Write::Add(at.clone(), -7), -2),
        (Write::Max(at.clone(), -3), -2),
        (Write::Max(at.clone(), 10), 10),
        (Write::Max(at.clone(), 9), 10),
        (Write::Set(at.clone(), 3), 3),
        (Write::Add(at.clone(), 1), 4),
        (Write::Clear(at.clone()), 0),
        (Write::Clear(at.clone()), 0),
        (Write::Max(at.clone(), -4), 0),
        (Write::Clear(at.clone()), 0),
        (Write::Max(at.clone(), 4), 4),
        (Write::Set(at.clone(), -1), -1),
        (Write::Add(at.clone(), 0), -1),
    ];
    for (step, expected) in &steps {
        write(store, [step.clone()]).await;
        assert_eq!(number(store, &at).await, *expected, "after {step:?}");
    }
    // The same writes as plans of one batch, from the same initial value.
    let other = counter(1, "m");
    let moved = |write: &Write| match write {
        Write::Add(_, by) => Write::Add(other.clone(), *by),
        Write::Max(_, least) => Write::Max(other.clone(), *least),
        Write::Set(_, to) => Write::Set(other.clone(), *to),
        Write::Put(..) | Write::Delete(_) | Write::Clear(_) => Write::Clear(other.clone()),
    };
    let plans: Vec<_> = steps.iter().map(|(step, _)| plan([], [moved(step)])).collect();
    for length in 1..=plans.len() {
        write(store, [Write::Clear(other.clone())]).await;
        decide(store, &plans[..length]).await;
        assert_eq!(number(store, &other).await, steps[length - 1].1, "after {length} plans");
    }
}

/// Numbers keep every digit up to 2^53, positive and negative.
pub async fn counters_hold_large_and_negative_numbers(store: &dyn MetaStore) {
    const LARGE: i64 = COUNTER_MAX;
    let at = counter(1, "large");
    write(store, [Write::Set(at.clone(), LARGE - 2)]).await;
    write(store, [Write::Add(at.clone(), 1)]).await;
    assert_eq!(number(store, &at).await, LARGE - 1);
    write(store, [Write::Max(at.clone(), LARGE)]).await;
    assert_eq!(number(store, &at).await, LARGE);
    write(store, [Write::Add(at.clone(), -LARGE)]).await;
    assert_eq!(number(store, &at).await, 0);
    write(store, [Write::Add(at.clone(), 1 - LARGE)]).await;
    assert_eq!(number(store, &at).await, 1 - LARGE);
    write(store, [Write::Add(at.clone(), LARGE - 1)]).await;
    assert_eq!(number(store, &at).await, 0);
}

/// A record and a counter with the same key bytes are independent.
pub async fn counters_and_records_have_separate_keys(store: &dyn MetaStore) {
    let at = key(1, "both");
    write(store, [put(at.clone(), "record"), Write::Add(CounterKey(at.clone()), 3)]).await;
    check_record(store, &at, Some(b"record")).await;
    assert_eq!(number(store, &CounterKey(at.clone())).await, 3);
    write(store, [Write::Delete(at.clone())]).await;
    assert_eq!(number(store, &CounterKey(at.clone())).await, 3);
    let guards = [Guard::Absent(at.clone()), Guard::Empty(key(1, ""), key(2, ""))];
    assert_eq!(
        decide(store, &[plan(guards, [put(at.clone(), "again")])]).await,
        [Verdict::Committed]
    );
    write(store, [Write::Clear(CounterKey(at.clone()))]).await;
    check_record(store, &at, Some(b"again")).await;
}

/// A refused plan changes no counter.
pub async fn refused_plans_change_no_counter(store: &dyn MetaStore) {
    write(store, [Write::Set(counter(1, "a"), 1), Write::Set(counter(1, "b"), 2)]).await;
    let verdicts = decide(
        store,
        &[
            plan([], [Write::Add(counter(1, "a"), 10)]),
            plan(
                [equals(key(1, "none"), "")],
                [Write::Add(counter(1, "a"), 100), Write::Clear(counter(1, "b"))],
            ),
            plan([], [Write::Max(counter(1, "b"), 3)]),
        ],
    )
    .await;
    assert_eq!(verdicts, [Verdict::Committed, refused(0, None), Verdict::Committed]);
    assert_eq!(number(store, &counter(1, "a")).await, 11);
    assert_eq!(number(store, &counter(1, "b")).await, 3);
}
