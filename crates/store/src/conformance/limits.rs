//! Limits: calls up to a limit succeed; calls above it fail and change nothing.

use super::{
    ORDERED, POINT, ask, check_malformed_plans, check_malformed_reads, check_record, counter,
    decide, follow, get, key, number, plan, point, put, range, suffixes, value, write,
};
use crate::{Follow, Guard, Key, Limits, MetaStore, Plan, Read, ReadResult, Value, Verdict, Write};

fn filled(length: usize, salt: u8) -> Value {
    (0..length).map(|at| salt ^ u8::try_from(at % 251).expect("below 251")).collect()
}

fn longest_key(store: &dyn MetaStore, salt: u8) -> Key {
    key(1, filled(store.limits().key_bytes - Key::PREFIX_BYTES, salt))
}

/// The limits are at least [`Limits::LEAST`](crate::Limits::LEAST), on which callers rely.
pub async fn limits_are_large_enough(store: &dyn MetaStore) {
    let (limits, least) = (store.limits(), Limits::LEAST);
    assert!(limits.key_bytes >= least.key_bytes, "{limits:?}");
    assert!(limits.value_bytes >= least.value_bytes, "{limits:?}");
    assert!(limits.plan_items >= least.plan_items, "{limits:?}");
    assert!(limits.plan_bytes >= least.plan_bytes, "{limits:?}");
    assert!(limits.batch_plans >= least.batch_plans, "{limits:?}");
    assert!(limits.batch_items >= least.batch_items.max(limits.plan_items), "{limits:?}");
    assert!(limits.batch_bytes >= least.batch_bytes.max(limits.plan_bytes), "{limits:?}");
    assert!(limits.reads >= least.reads, "{limits:?}");
    assert!(limits.range_records >= least.range_records, "{limits:?}");
    assert!(limits.commits_in_flight >= least.commits_in_flight, "{limits:?}");
    assert!(limits.reads_in_flight >= least.reads_in_flight, "{limits:?}");
    assert_eq!(store.limits(), limits, "they are constant while the store is open");
    let many = least.plan_items as u64;
    write(store, (0..many).map(|number| put(point(number), "x")).collect::<Vec<_>>()).await;
    check_record(store, &point(many - 1), Some(b"x")).await;
}

/// Values of no bytes and of the largest size are read as they were written.
pub async fn values_may_be_empty_or_as_long_as_allowed(store: &dyn MetaStore) {
    let longest = filled(store.limits().value_bytes, 0x5a);
    write(store, [put(key(1, "empty"), ""), put(key(1, "long"), &longest)]).await;
    check_record(store, &key(1, "empty"), Some(b"")).await;
    check_record(store, &key(1, "long"), Some(&longest)).await;
    let guarded = plan([Guard::Equals(key(1, "long"), longest)], [put(key(1, "long"), "short")]);
    assert_eq!(decide(store, &[guarded]).await, [Verdict::Committed]);
    check_record(store, &key(1, "long"), Some(b"short")).await;
}

/// The longest keys differ up to their last byte, in records, counters and ranges.
pub async fn keys_may_be_as_long_as_allowed(store: &dyn MetaStore) {
    let one = longest_key(store, 0);
    let mut other = one.as_bytes().to_vec();
    *other.last_mut().expect("not empty") ^= 1;
    let other = Key::from_bytes(other);
    write(store, [put(one.clone(), "one"), put(other.clone(), "other")]).await;
    write(store, [Write::Add(crate::CounterKey(one.clone()), 1)]).await;
    check_record(store, &one, Some(b"one")).await;
    check_record(store, &other, Some(b"other")).await;
    assert_eq!(number(store, &crate::CounterKey(one.clone())).await, 1);
    assert_eq!(number(store, &crate::CounterKey(other.clone())).await, 0);
    assert_eq!(suffixes(store, key(1, ""), key(2, ""), 9).await.len(), 2);
    let (low, high) = if one < other { (one, other) } else { (other, one) };
    assert_eq!(suffixes(store, low.clone(), high, 9).await, [low.suffix()]);
}

/// A batch with the largest number of plans, and one with the largest number of items, are decided
/// like small ones.
pub async fn a_full_batch_is_accepted(store: &dyn MetaStore) {
    let limits = store.limits();
    let many: Vec<Plan> = (0..limits.batch_plans as u64)
        .map(|number| plan([Guard::Absent(point(number))], [put(point(number), "x")]))
        .collect();
    assert_eq!(decide(store, &many).await, vec![Verdict::Committed; many.len()]);
    assert_ne!(decide(store, &many).await[0], Verdict::Committed, "they are there now");

    let mut left = limits.batch_items;
    let mut plans = Vec::new();
    let mut next = 0_u64;
    while left > 1 && plans.len() < limits.batch_plans {
        let pairs = (left.min(limits.plan_items) / 2) as u64;
        let keys: Vec<_> =
            (next..next + pairs).map(|number| key(2, number.to_be_bytes())).collect();
        let guards: Vec<_> = keys.iter().cloned().map(Guard::Absent).collect();
        plans.push(plan(guards, keys.into_iter().map(|key| put(key, "y")).collect::<Vec<_>>()));
        next += pairs;
        left -= 2 * usize::try_from(pairs).expect("small");
    }
    assert_eq!(decide(store, &plans).await, vec![Verdict::Committed; plans.len()]);
    for number in [0, next / 2, next - 1] {
        check_record(store, &key(2, number.to_be_bytes()), Some(b"y")).await;
    }
    let deletes = plans.iter().map(|put| {
        let delete = |guard: &Guard| match guard {
            Guard::Absent(key) => Write::Delete(key.clone()),
            other => unreachable!("{other:?}"),
        };
        plan([], put.guards.iter().map(delete).collect::<Vec<_>>())
    });
    let deletes: Vec<_> = deletes.collect();
    assert_eq!(decide(store, &deletes).await, vec![Verdict::Committed; plans.len()]);
    assert!(suffixes(store, key(2, ""), key(3, ""), 9).await.is_empty());
}

/// A read with the largest number of questions, and a range with the largest number of records, are
/// answered.
pub async fn a_full_read_is_accepted(store: &dyn MetaStore) {
    let limits = store.limits();
    write(store, [put(key(1, "a"), "A"), put(point(7), "P"), Write::Add(counter(1, "n"), 2)]).await;
    let reads: Vec<_> = (0..limits.reads)
        .map(|number| match number % 4 {
            0 => get(key(1, "a")),
            1 => {
                Read::Record { key: key(1, "a"), follow: Some(follow(&point(7).to_bytes(), 0, 0)) }
            }
            2 => Read::Counter(counter(1, "n")),
            _ => get(point(number as u64 * 1_000)),
        })
        .collect();
    for (number, found) in ask(store, &reads).await.into_iter().enumerate() {
        let right = match found {
            ReadResult::Record(Some(entry)) => {
                entry.value == value("A")
                    && entry.target.whole().is_some() == (number % 4 == 1)
                    && number % 4 < 2
            }
            ReadResult::Record(None) => number % 4 == 3,
            ReadResult::Counter(counter) => number % 4 == 2 && counter == 2,
            ReadResult::Range(_) => false,
        };
        assert!(right, "question {number}");
    }
    let ranges = vec![range(key(1, ""), key(2, ""), limits.range_records); limits.reads.min(64)];
    let found = ask(store, &ranges).await;
    assert!(found.iter().all(|found| matches!(found, ReadResult::Range(all) if all.len() == 1)));
}

/// A call above a limit is refused as a whole, and writes nothing.
pub async fn too_large_is_malformed_and_writes_nothing(store: &dyn MetaStore) {
    let limits = store.limits();
    let marker = || plan([], [put(key(1, "marker"), "")]);
    let long = key(1, filled(limits.key_bytes - Key::PREFIX_BYTES + 1, 0));
    let large = filled(limits.value_bytes + 1, 0);
    let items: Vec<_> = (0..=limits.plan_items as u64).map(|n| Guard::Absent(point(n))).collect();
    let bytes: Vec<_> = (0..=(limits.plan_bytes / limits.value_bytes) as u64)
        .map(|number| put(point(number), filled(limits.value_bytes, 0)))
        .collect();
    let too_large = [
        plan([], [put(long.clone(), "")]),
        plan([], [Write::Delete(long.clone())]),
        plan([Guard::Present(long.clone())], []),
        plan([], [Write::Add(crate::CounterKey(long.clone()), 1)]),
        plan([], [Write::Put(point(1), large.clone())]),
        plan([Guard::Equals(point(1), large)], []),
        plan(items, []),
        plan([], bytes),
    ];
    for bad in too_large {
        check_malformed_plans(store, &[marker(), bad, marker()]).await;
    }
    check_malformed_plans(store, &vec![marker(); limits.batch_plans + 1]).await;
    let part = limits.plan_items.min(limits.batch_items / 2 + 1);
    let items = plan(vec![Guard::Absent(key(1, "marker")); part - 1], [put(key(1, "marker"), "")]);
    let batch = vec![items; limits.batch_items / part + 1];
    if batch.len() <= limits.batch_plans {
        check_malformed_plans(store, &batch).await;
    }
    check_record(store, &key(1, "marker"), None).await;

    check_malformed_reads(store, &[get(long.clone())]).await;
    check_malformed_reads(store, &[Read::Counter(crate::CounterKey(long))]).await;
    check_malformed_reads(store, &vec![get(point(1)); limits.reads + 1]).await;
    let wide = range(key(1, ""), key(2, ""), limits.range_records + 1);
    check_malformed_reads(store, &[get(point(1)), wide]).await;
}

/// No plan may write one key twice, with any kinds of writes.
pub async fn a_key_written_twice_is_malformed(store: &dyn MetaStore) {
    let at = || key(1, "twice");
    let on = || counter(1, "twice");
    let twice = [
        [put(at(), "a"), put(at(), "b")],
        [put(at(), "a"), put(at(), "a")],
        [put(at(), "a"), Write::Delete(at())],
        [Write::Delete(at()), Write::Delete(at())],
        [Write::Add(on(), 1), Write::Add(on(), 1)],
        [Write::Max(on(), 1), Write::Clear(on())],
        [Write::Set(on(), 1), Write::Add(on(), 1)],
    ];
    for writes in twice {
        check_malformed_plans(store, &[plan([], writes)]).await;
    }
    check_record(store, &at(), None).await;
    assert_eq!(number(store, &on()).await, 0);
    write(store, [put(at(), "a"), Write::Add(on(), 1)]).await;
}

/// Ranges over point spaces, across partitions or spaces, or backwards are malformed.
pub async fn bad_ranges_are_malformed(store: &dyn MetaStore) {
    let bad = [
        (point(1), point(2)),
        (Key::new(POINT, 1, b"a"), Key::new(POINT, 1, b"b")),
        (key(1, "a"), key(2, "a")),
        (key(1, ""), key(3, "")),
        (key(1, "b"), key(1, "a")),
        (key(2, ""), key(1, "")),
        (key(u64::MAX, ""), key(0, "")),
        (key(1, ""), Key::new(crate::Space(ORDERED.0 + 1), 1, b"")),
    ];
    for (start, end) in bad {
        let marker = plan([], [put(point(9), "")]);
        let guarded = plan([Guard::Empty(start.clone(), end.clone())], []);
        check_malformed_plans(store, &[marker, guarded]).await;
        check_malformed_reads(store, &[get(point(9)), range(start, end, 1)]).await;
    }
    check_record(store, &point(9), None).await;
}

/// A follow that derives keys of an impossible length is malformed.
pub async fn bad_follows_are_malformed(store: &dyn MetaStore) {
    write(store, [put(key(1, "a"), [0; 300])]).await;
    let long = vec![ORDERED.0; store.limits().key_bytes];
    let most = u32::try_from(store.limits().value_bytes + 1).expect("values are below 4 GiB");
    let greedy = Follow { bytes_max: Some(most), ..follow(&[POINT.0], 0, 8) };
    for by in [follow(&[POINT.0], 0, 7), follow(b"", 0, 0), follow(&long, 0, 1), greedy] {
        let record = Read::Record { key: key(1, "a"), follow: Some(by.clone()) };
        check_malformed_reads(store, &[record]).await;
        let range =
            Read::Range { start: key(1, ""), end: key(2, ""), limit: 1, follow: Some(by.clone()) };
        check_malformed_reads(store, &[range]).await;
    }
}
