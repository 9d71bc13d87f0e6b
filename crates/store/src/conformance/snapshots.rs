//! Snapshots: the whole store at one instant, while other commits continue.

use std::collections::BTreeMap;

use super::{Dice, counter, give_way, key, plan, point, put, value, write};
use crate::{CounterKey, Key, MetaStore, Snapshot, Space, Value, Verdict, Write};

async fn rest(
    snapshot: &mut dyn Snapshot,
    limit: u32,
) -> (Vec<(Key, Value)>, Vec<(CounterKey, i64)>) {
    let mut records = Vec::new();
    loop {
        let page = snapshot.records(limit).await.expect("a page of records");
        if page.is_empty() {
            break;
        }
        records.extend(page);
    }
    let mut counters = Vec::new();
    loop {
        let page = snapshot.counters(limit).await.expect("a page of counters");
        if page.is_empty() {
            break;
        }
        counters.extend(page);
    }
    (records, counters)
}

/// Fills a store with records of several spaces and with counters, and returns its contents.
async fn fill(store: &dyn MetaStore) -> (BTreeMap<Key, Value>, BTreeMap<CounterKey, i64>) {
    let mut records = BTreeMap::new();
    for space in [b'A', b'I', b'd', b'e', b'z'].map(Space) {
        for partition in [0, 1, 255, 256, 1 << 40, u64::MAX] {
            for suffix in [&b""[..], b"\0", b"a", b"a\0", b"ab", b"b", b"\xff\xff"] {
                records.insert(Key::new(space, partition, suffix), value([suffix, b"!"].concat()));
            }
        }
    }
    let counters: BTreeMap<_, _> =
        (1..=40_i64).map(|n| (counter(n.unsigned_abs() % 7, n.to_be_bytes()), n - 20)).collect();
    let puts = records.iter().map(|(key, value)| put(key.clone(), value));
    write(store, puts.collect::<Vec<_>>()).await;
    let sets = counters.iter().map(|(key, number)| Write::Set(key.clone(), *number));
    write(store, sets.collect::<Vec<_>>()).await;
    let counters = counters.into_iter().filter(|(_, number)| *number != 0).collect();
    (records, counters)
}

/// A snapshot returns each record and each counter that is not 0 once, in byte order, for any
/// limit.
pub async fn a_snapshot_holds_everything_in_order(store: &dyn MetaStore) {
    let mut empty = store.snapshot().await.expect("a snapshot");
    assert_eq!(rest(&mut *empty, 10).await, (Vec::new(), Vec::new()));
    drop(empty);
    let (records, counters) = fill(store).await;
    for limit in [0, 1, 7, u32::MAX] {
        let mut snapshot = store.snapshot().await.expect("a snapshot");
        let found = rest(&mut *snapshot, limit).await;
        assert_eq!(found.0, records.clone().into_iter().collect::<Vec<_>>(), "in pages of {limit}");
        assert_eq!(
            found.1,
            counters.clone().into_iter().collect::<Vec<_>>(),
            "in pages of {limit}"
        );
    }
}

/// Records and counters that change after the snapshot began, before and behind its reading
/// position, are returned as they were.
pub async fn a_snapshot_stays_as_it_was(store: &dyn MetaStore) {
    let (records, counters) = fill(store).await;
    let mut snapshot = store.snapshot().await.expect("a snapshot");
    let mut seen = snapshot.records(11).await.expect("a page");
    let (early, late) = (records.keys().next(), records.keys().next_back());
    let (early, late) = (early.expect("some").clone(), late.expect("some").clone());
    write(store, [put(early, "changed"), Write::Delete(late.clone())]).await;
    write(store, [put(late, "again"), put(key(7, "new"), "new"), put(point(7_777), "new")]).await;
    for (number, (key, _)) in records.iter().enumerate() {
        let change = match number % 3 {
            0 => put(key.clone(), "later"),
            1 => Write::Delete(key.clone()),
            _ => continue,
        };
        write(store, [change]).await;
    }
    for (number, (key, _)) in counters.iter().enumerate() {
        let change = match number % 4 {
            0 => Write::Add(key.clone(), 1_000),
            1 => Write::Clear(key.clone()),
            2 => Write::Max(key.clone(), 1_000),
            _ => Write::Set(key.clone(), 7),
        };
        write(store, [change]).await;
    }
    write(store, [Write::Add(counter(1, "new"), 1)]).await;
    let (more, numbers) = rest(&mut *snapshot, 11).await;
    seen.extend(more);
    assert_eq!(seen, records.into_iter().collect::<Vec<_>>());
    assert_eq!(numbers, counters.into_iter().collect::<Vec<_>>());
}

/// While batches move units between records, each snapshot has all units, and a counter in the same
/// batches agrees with them.
pub async fn a_snapshot_is_of_one_instant(store: &dyn MetaStore) {
    const PLACES: u64 = 24;
    const UNITS: u64 = 10;
    let account = |number: u64| key(number % 3, number.to_be_bytes());
    let amount = |number: u64| value(number.to_be_bytes());
    let fresh = (0..PLACES).map(|number| Write::Put(account(number), amount(UNITS)));
    write(store, fresh.collect::<Vec<_>>()).await;
    let done = std::cell::Cell::new(false);
    let moving = async {
        let mut dice = Dice(7);
        let mut held = vec![UNITS; usize::try_from(PLACES).expect("few")];
        let mut count = 0;
        while !done.get() {
            give_way().await;
            let [from, to] = [0, 0].map(|_: u64| dice.below(PLACES));
            let at = |number: u64| usize::try_from(number).expect("small");
            if from == to || held[at(from)] == 0 {
                continue;
            }
            held[at(from)] -= 1;
            held[at(to)] += 1;
            let moved = [from, to].map(|n| Write::Put(account(n), amount(held[at(n)])));
            write(store, moved).await;
            write(store, [Write::Add(counter(0, "up"), 1), Write::Add(counter(9, "down"), -1)])
                .await;
            count += 1;
        }
        count
    };
    let watching = async {
        for _ in 0..10 {
            let mut snapshot = store.snapshot().await.expect("a snapshot");
            give_way().await;
            let (records, counters) = rest(&mut *snapshot, 3).await;
            assert_eq!(records.len() as u64, PLACES);
            let units = records
                .iter()
                .map(|(_, value)| u64::from_be_bytes(value[..].try_into().expect("eight bytes")));
            assert_eq!(units.sum::<u64>(), PLACES * UNITS, "units came or went");
            assert_eq!(counters.iter().map(|(_, number)| number).sum::<i64>(), 0, "{counters:?}");
        }
        done.set(true);
    };
    let (count, ()) = futures::join!(moving, watching);
    assert!(count > 0, "nothing moved");
}

/// Snapshots of two instants are read alternately, and one is dropped in the middle.
pub async fn snapshots_are_independent(store: &dyn MetaStore) {
    write(store, [put(key(1, "a"), "1"), put(key(1, "b"), "1"), put(key(1, "c"), "1")]).await;
    let mut older = store.snapshot().await.expect("a snapshot");
    assert_eq!(older.records(1).await.expect("a page"), [(key(1, "a"), value("1"))]);
    let verdicts = store
        .commit(&[plan([], [put(key(1, "b"), "2"), Write::Delete(key(1, "c"))])])
        .await
        .expect("decided");
    assert_eq!(verdicts, [Verdict::Committed]);
    let mut newer = store.snapshot().await.expect("a second snapshot");
    let mut dropped = store.snapshot().await.expect("a third snapshot");
    assert_eq!(dropped.records(1).await.expect("a page").len(), 1);
    drop(dropped);
    write(store, [put(key(1, "b"), "3"), put(key(1, "d"), "3")]).await;
    let (old, _) = rest(&mut *older, 10).await;
    assert_eq!(old, [(key(1, "b"), value("1")), (key(1, "c"), value("1"))]);
    let (new, _) = rest(&mut *newer, 10).await;
    assert_eq!(new, [(key(1, "a"), value("1")), (key(1, "b"), value("2"))]);
}
