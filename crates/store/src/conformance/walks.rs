//! Walks over a whole space, page by page.

use std::collections::{BTreeMap, BTreeSet};

use super::{ORDERED, POINT, counter, key, plan, point, put, value, write};
use crate::{CounterKey, Key, MetaStore, Space, Value, Verdict, Write};

/// More pages than any walk of these cases can have.
const PAGES_MAX: usize = 10_000;

async fn walk_all(store: &dyn MetaStore, space: Space, limit: u32) -> BTreeMap<Key, Value> {
    let mut seen = BTreeMap::new();
    let mut resume = None;
    for _ in 0..PAGES_MAX {
        let page = store.walk(space, resume, limit).await.expect("a page");
        assert!(page.records.len() <= store.limits().range_records as usize);
        seen.extend(page.records);
        resume = page.resume;
        if resume.is_none() {
            return seen;
        }
    }
    panic!("the walk does not end")
}

/// A walk returns each record of its space, for both kinds of spaces and any limit, and no record
/// of another space.
pub async fn a_walk_returns_the_whole_space(store: &dyn MetaStore) {
    let mut expected = BTreeMap::new();
    for partition in [0, 1, 2, 1 << 40, u64::MAX] {
        for suffix in [&b""[..], b"\0", b"a", b"\xff\xff"] {
            expected.insert(key(partition, suffix), value(suffix));
        }
    }
    let writes: Vec<_> = expected.iter().map(|(key, value)| put(key.clone(), value)).collect();
    write(store, writes).await;
    let others = [ORDERED.0 - 1, ORDERED.0 + 1, ORDERED.0.to_ascii_uppercase(), 0x00, 0xff];
    write(store, others.map(|space| put(Key::new(Space(space), u64::MAX, b"x"), "other"))).await;
    write(store, [put(point(0), "p"), put(point(u64::MAX), "p")]).await;
    write(store, [Write::Add(counter(1, "not a record"), 1)]).await;
    for limit in [0, 1, 3, 20, 21, u32::MAX] {
        assert_eq!(walk_all(store, ORDERED, limit).await, expected, "in pages of {limit}");
    }
    assert_eq!(walk_all(store, POINT, 1).await.len(), 2);
    assert_eq!(walk_all(store, Space(0xff), 5).await.len(), 1);
    assert_eq!(walk_all(store, Space(0x00), 5).await.len(), 1);
    assert!(walk_all(store, Space(b'z'), 5).await.is_empty());
}

/// A walk returns the records that exist during the whole walk, while others are created and
/// deleted.
pub async fn a_walk_returns_records_that_exist_throughout(store: &dyn MetaStore) {
    let steady: BTreeSet<Key> = (0..60_u8).map(|n| key(u64::from(n % 5), [n, 1])).collect();
    let writes: Vec<_> = steady.iter().map(|key| put(key.clone(), "steady")).collect();
    write(store, writes).await;
    for limit in [1, 4, 7] {
        let mut seen = BTreeSet::new();
        let mut resume = None;
        let mut page_number = 0_u8;
        for _ in 0..PAGES_MAX {
            let page = store.walk(ORDERED, resume, limit).await.expect("a page");
            // Between pages, delete every second guest that was seen, and put new ones around it.
            let guests: Vec<_> = page
                .records
                .iter()
                .filter(|(key, _)| !steady.contains(key))
                .map(|(key, _)| Write::Delete(key.clone()))
                .step_by(2)
                .collect();
            seen.extend(page.records.into_iter().map(|(key, _)| key));
            // With more new records a walk of small pages would never reach the end.
            let guests_now = if page_number < 40 { 5 } else { 0 };
            let put_guests = (0..guests_now).map(|at| put(key(at, [page_number, 0]), "guest"));
            let verdicts = store
                .commit(&[plan([], guests), plan([], put_guests.collect::<Vec<_>>())])
                .await
                .expect("a batch");
            assert_eq!(verdicts, [Verdict::Committed, Verdict::Committed]);
            page_number = page_number.saturating_add(1);
            resume = page.resume;
            if resume.is_none() {
                break;
            }
        }
        assert!(resume.is_none(), "the walk does not end");
        let missed: Vec<_> = steady.difference(&seen).collect();
        assert!(missed.is_empty(), "not seen in pages of {limit}: {missed:?}");
    }
}

/// A walk over counters returns each counter of the space that is not 0, and no record.
pub async fn a_walk_over_counters_returns_all_of_them(store: &dyn MetaStore) {
    let expected: BTreeMap<CounterKey, i64> =
        (1..=23_i64).map(|n| (counter(n.unsigned_abs() % 4, n.to_be_bytes()), n - 30)).collect();
    let writes: Vec<_> = expected.iter().map(|(key, n)| Write::Set(key.clone(), *n)).collect();
    write(store, writes).await;
    write(store, [Write::Set(CounterKey(point(1)), 5), Write::Add(counter(1, "gone"), 5)]).await;
    write(store, [Write::Clear(counter(1, "gone")), put(key(1, "record"), "")]).await;
    for limit in [1, 5, 23, 1_000] {
        let mut seen = BTreeMap::new();
        let mut resume = None;
        for _ in 0..PAGES_MAX {
            let page = store.walk_counters(ORDERED, resume, limit).await.expect("a page");
            seen.extend(page.counters);
            resume = page.resume;
            if resume.is_none() {
                break;
            }
        }
        assert!(resume.is_none(), "the walk does not end");
        assert_eq!(seen, expected, "in pages of {limit}");
    }
}
