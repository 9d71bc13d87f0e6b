//! The change feed: each acknowledged change is in it.

use std::collections::BTreeSet;

use futures::future::join_all;

use super::{counter, decide, equals, give_way, key, plan, point, put, refused, write};
use crate::feed::FEED_BATCHES;
use crate::{Changes, Key, MetaStore, Position, StoreErrorKind, Verdict, Write};

async fn here(store: &dyn MetaStore) -> Position {
    match store.changes(None).await.expect("a position") {
        Changes::Notified { keys, next } => {
            assert!(keys.is_empty(), "without a position there are no changes");
            next
        }
        Changes::Gap { .. } => panic!("there cannot be a gap"),
    }
}

/// Returns the keys that changed since a position, or `None` after a gap, and the next position.
async fn since(store: &dyn MetaStore, position: &Position) -> (Option<BTreeSet<Key>>, Position) {
    match store.changes(Some(position)).await.expect("changes") {
        Changes::Notified { keys, next } => (Some(keys.into_iter().collect()), next),
        Changes::Gap { next } => (None, next),
    }
}

/// Puts and deletes are notified once after each position, and nothing else is.
pub async fn changes_are_notified(store: &dyn MetaStore) {
    write(store, [put(key(1, "before"), "x")]).await;
    let first = here(store).await;
    assert_eq!(since(store, &first).await.0, Some(BTreeSet::new()), "nothing happened");
    write(store, [put(key(1, "a"), "x"), put(point(7), ""), Write::Delete(key(1, "b"))]).await;
    let (changed, second) = since(store, &first).await;
    assert_eq!(changed, Some([key(1, "a"), point(7), key(1, "b")].into()));
    let (changed, third) = since(store, &second).await;
    assert_eq!(changed, Some(BTreeSet::new()), "notified already");
    decide(store, &[plan([], [put(key(2, "c"), "")]), plan([], [Write::Delete(key(1, "a"))])])
        .await;
    let later = BTreeSet::from([key(2, "c"), key(1, "a")]);
    assert_eq!(since(store, &second).await.0, Some(later.clone()), "from the older position");
    assert_eq!(since(store, &third).await.0, Some(later), "from the newer position");
    let all = [key(1, "a"), point(7), key(1, "b"), key(2, "c")];
    assert_eq!(since(store, &first).await.0, Some(all.into()), "a position does not wear out");
}

/// A refused plan has no changes, and counters are not in the feed.
pub async fn refused_plans_and_counters_are_not_notified(store: &dyn MetaStore) {
    let start = here(store).await;
    let verdicts = decide(
        store,
        &[
            plan([equals(key(1, "none"), "")], [put(key(1, "refused"), "")]),
            plan([], [put(key(1, "done"), "")]),
            plan([], [Write::Add(counter(1, "n"), 1)]),
        ],
    )
    .await;
    assert_eq!(verdicts, [refused(0, None), Verdict::Committed, Verdict::Committed]);
    write(store, [Write::Set(counter(1, "n"), 1)]).await;
    assert_eq!(since(store, &start).await.0, Some([key(1, "done")].into()));
}

/// While batches are committed concurrently, a reader that asks repeatedly gets each change that
/// was acknowledged before its call.
pub async fn changes_are_notified_once_acknowledged(store: &dyn MetaStore) {
    const WRITERS: u64 = 6;
    const BATCHES: u64 = 25;
    let acknowledged = std::sync::Mutex::new(BTreeSet::new());
    let writers = (0..WRITERS).map(|writer| {
        let acknowledged = &acknowledged;
        async move {
            for batch in 0..BATCHES {
                let at = key(writer, batch.to_be_bytes());
                write(store, [put(at.clone(), "x"), Write::Add(counter(0, "hot"), 1)]).await;
                acknowledged.lock().expect("no panic under the lock").insert(at);
                give_way().await;
            }
        }
    });
    let mut position = here(store).await;
    let reader = async {
        let mut changed = BTreeSet::new();
        loop {
            let expected = acknowledged.lock().expect("no panic under the lock").clone();
            let (keys, next) = since(store, &position).await;
            changed.extend(keys.expect("the reader is not far behind"));
            position = next;
            let missing: Vec<_> = expected.difference(&changed).collect();
            assert!(missing.is_empty(), "acknowledged and not notified: {missing:?}");
            if expected.len() as u64 == WRITERS * BATCHES {
                return;
            }
            give_way().await;
        }
    };
    futures::join!(join_all(writers), reader);
}

/// A reader that is further behind than the engine's entries gets a gap, or all changes.
pub async fn a_reader_far_behind_gets_a_gap(store: &dyn MetaStore) {
    let start = here(store).await;
    let batches = FEED_BATCHES as u64 + 100;
    let one = |number: u64| write(store, [put(point(number), "x")]);
    for from in (0..batches).step_by(64) {
        join_all((from..batches.min(from + 64)).map(one)).await;
    }
    let (changed, next) = since(store, &start).await;
    if let Some(changed) = changed {
        assert_eq!(changed, (0..batches).map(point).collect());
    }
    one(batches).await;
    assert_eq!(since(store, &next).await.0, Some([point(batches)].into()), "from there on");
}

/// A batch with more keys than an entry may have is notified completely, or is a gap.
pub async fn large_batches_are_notified_or_a_gap(store: &dyn MetaStore) {
    let start = here(store).await;
    let limits = store.limits();
    let many = limits.plan_items as u64;
    let keys: BTreeSet<_> = (0..many).map(|number| key(1, number.to_be_bytes())).collect();
    write(store, keys.iter().cloned().map(|key| put(key, "")).collect::<Vec<_>>()).await;
    let (changed, next) = since(store, &start).await;
    assert!(changed.is_none_or(|changed| changed == keys));
    write(store, [put(point(1), "")]).await;
    assert_eq!(since(store, &next).await.0, Some([point(1)].into()), "from there on");
}

/// A position that is malformed or of another store is refused, or answered with a gap.
pub async fn a_foreign_position_is_refused_or_a_gap(store: &dyn MetaStore) {
    write(store, [put(point(1), "x")]).await;
    for bytes in [&b""[..], b"x", b"\0\0\0\0\0\0\0", b"99999999999999999999:1", &[0xff; 40]] {
        let position = Position(bytes::Bytes::copy_from_slice(bytes));
        match store.changes(Some(&position)).await {
            Ok(Changes::Gap { .. }) => {}
            Ok(changed @ Changes::Notified { .. }) => {
                panic!("{position:?} is not a position, but was answered with {changed:?}")
            }
            Err(error) => assert_eq!(error.kind(), StoreErrorKind::Malformed, "{error}"),
        }
    }
}
