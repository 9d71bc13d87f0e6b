//! A server whose memory is exhausted can be emptied.

use std::sync::Arc;

use store::{Guard, Key, MetaStore, Space, StoreErrorKind, Value, Verdict, Write};
use store_redis::{RedisOptions, RedisStore};

use crate::server;
use crate::settings::set;
use crate::{counter, equals, key, number, plan, point, put, record, write};

/// A space whose records may always be put.
const SPARED: Space = Space(b'o');

fn filled(byte: u8) -> Value {
    vec![byte; 3_000].into()
}

async fn opened(url: &str) -> Result<RedisStore, store::StoreError> {
    RedisStore::open(url, RedisOptions { spared: vec![SPARED], ..RedisOptions::default() }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_server_commits_only_plans_that_free_space() {
    let Some(server) = server::own() else { return };
    let store = opened(&server.url()).await.expect("a store");
    let mut connection = server::connection(&server.url());
    write(&store, [put(key(1, "a"), "short"), Write::Put(point(1), filled(1))]).await;
    write(&store, [put(key(1, "b"), "short"), Write::Put(point(2), filled(2))]).await;
    set(&mut connection, &[("maxmemory", "1")]);
    // A new connection is accepted too.
    for store in [&store, &opened(&server.url()).await.expect("the volume is there")] {
        let grow = plan([], [put(key(1, "new"), "x")]);
        let error = store.commit(&[grow]).await.expect_err("there is no memory");
        assert_eq!(error.kind(), StoreErrorKind::Full, "{error}");
        assert!(error.to_string().contains("OOM"), "{error}");
    }
    // A plan deletes a name, puts a note, and replaces a long record by one of the same size.
    let orphan = Key::new(SPARED, 1, b"orphan");
    let change = plan(
        [equals(key(1, "a"), "short"), Guard::Equals(point(1), filled(1))],
        [
            Write::Delete(key(1, "a")),
            Write::Put(point(1), filled(9)),
            put(orphan.clone(), "note"),
            Write::Add(counter(1), -1),
        ],
    );
    assert!(crate::commit(&store, change).await.expect("it makes room"));
    assert_eq!(record(&store, key(1, "a")).await, None);
    assert!(record(&store, point(1)).await == Some(filled(9)));
    assert_eq!(record(&store, orphan.clone()).await.as_deref(), Some(&b"note"[..]));
    assert_eq!(number(&store, counter(1)).await, -1);
    let change = plan([Guard::Equals(point(2), filled(2))], [Write::Delete(point(2))]);
    assert!(crate::commit(&store, change).await.expect("it makes room"));
    assert_eq!(record(&store, point(2)).await, None);
    // Guards are checked as usual.
    let change = plan([equals(key(1, "b"), "other")], [Write::Delete(key(1, "b"))]);
    assert!(!crate::commit(&store, change).await.expect("decided"));
    set(&mut connection, &[("maxmemory", "0")]);
    write(&store, [put(key(1, "new"), "x")]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_that_free_space_do_not_wait_for_others() {
    let Some(server) = server::own() else { return };
    let store = opened(&server.url()).await.expect("a store");
    let mut connection = server::connection(&server.url());
    write(&store, [put(key(1, "a"), "x"), put(key(1, "b"), "x")]).await;
    let place = store.changes(None).await.expect("a position");
    let store::Changes::Notified { next, .. } = place else { panic!("there cannot be a gap") };
    set(&mut connection, &[("maxmemory", "1")]);
    let remove = |name| plan([equals(key(1, name), "x")], [Write::Delete(key(1, name))]);
    let grow = || plan([], [Write::Put(point(1), filled(1))]);
    let refused = plan([equals(key(1, "a"), "y")], [Write::Delete(key(1, "a"))]);
    let batch = [grow(), remove("a"), grow(), refused, remove("b")];
    let verdicts = store.commit(&batch).await.expect("some are decided");
    let no_room = Verdict::Failed(StoreErrorKind::Full);
    assert_eq!(
        verdicts,
        [
            no_room.clone(),
            Verdict::Committed,
            no_room,
            Verdict::Refused { guard: 0, found: None },
            Verdict::Committed,
        ]
    );
    assert_eq!(record(&store, key(1, "a")).await, None);
    assert_eq!(record(&store, key(1, "b")).await, None);
    assert_eq!(record(&store, point(1)).await, None);
    let changed = store.changes(Some(&next)).await.expect("an answer");
    let store::Changes::Notified { keys, .. } = changed else { panic!("there was no gap") };
    assert!(keys.contains(&key(1, "a")) && !keys.contains(&point(1)), "{keys:?}");
}

/// A full server accepts no transaction, so plans that must be decided one by one are a call each.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_server_decides_plans_one_by_one() {
    let Some(server) = server::own() else { return };
    let store = opened(&server.url()).await.expect("a store");
    let mut connection = server::connection(&server.url());
    write(&store, [put(key(1, "a"), "x"), put(key(1, "b"), "x"), Write::Add(counter(1), 5)]).await;
    set(&mut connection, &[("maxmemory", "1")]);
    let remove = |name| plan([equals(key(1, name), "x")], [Write::Delete(key(1, name))]);
    let bounded = plan([Guard::AtMost(counter(1), 4)], [Write::Delete(key(1, "b"))]);
    let verdicts = store.commit(&[remove("a"), bounded, remove("a"), remove("b")]).await;
    let refused = Verdict::Refused { guard: 0, found: None };
    assert_eq!(
        verdicts.expect("decided"),
        [Verdict::Committed, refused.clone(), refused, Verdict::Committed]
    );
    assert_eq!(record(&store, key(1, "a")).await, None);
    assert_eq!(record(&store, key(1, "b")).await, None);
}

/// Memory fills up with records, and deletes free it.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_server_can_be_emptied_and_filled_again() {
    const MOST: u64 = 20_000;
    let Some(server) = server::own() else { return };
    let store = Arc::new(opened(&server.url()).await.expect("a store"));
    set(&mut server::connection(&server.url()), &[("maxmemory", "6mb")]);
    let fill = async || {
        for number in 0..MOST {
            let put = plan([], [Write::Put(point(number), filled(7))]);
            if let Err(error) = store.commit(&[put]).await {
                assert_eq!(error.kind(), StoreErrorKind::Full, "{error}");
                return number;
            }
        }
        panic!("it does not fill up");
    };
    let first = fill().await;
    assert!(first > 100, "{first} records are no test");
    for number in 0..first {
        let guard = Guard::Equals(point(number), filled(7));
        let verdict = store.commit(&[plan([guard], [Write::Delete(point(number))])]).await;
        assert_eq!(verdict.expect("it makes room"), [Verdict::Committed]);
    }
    let second = fill().await;
    assert!(second > first / 2, "{second} records after {first}");
}
