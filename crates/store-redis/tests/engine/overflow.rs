//! Overflow values that are sent out of band: none remains at the server unless its plan is
//! committed.

use std::collections::BTreeSet;

use databases::Database;
use proxy::{Cut, Proxy};
use store::{Guard, MemoryStore, MetaStore, Plan, StoreErrorKind, Value, Verdict, Write};
use store_redis::{RedisOptions, RedisStore};

use crate::server::{self, Volume};
use crate::{counter, equals, key, plan, point, put, record, write};

/// A value that is sent out of band.
fn long(salt: u8) -> Value {
    (0..5_000_u32).map(|at| u8::try_from(at % 241).expect("a byte") ^ salt).collect()
}

/// Returns the names that match a pattern on a server with this URL.
fn names(server: &str, pattern: &str) -> BTreeSet<Vec<u8>> {
    let mut keys = redis::cmd("KEYS");
    keys.arg(pattern);
    keys.query(&mut server::connection(server)).expect("keys")
}

/// Returns the names of a volume that exist only during a commit.
fn left_over(server: &str, prefix: &str) -> BTreeSet<Vec<u8>> {
    names(server, &format!("{prefix}w*"))
}

#[track_caller]
fn check_nothing_is_left(server: &str, volume: &Volume) {
    assert_eq!(left_over(server, &volume.prefix()), BTreeSet::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_plan_leaves_no_overflow_value() {
    let Some(server) = server::given() else { return };
    let volume = Volume::new(&server);
    let store = volume.open().await;
    write(&store, [put(point(1), "here")]).await;
    let puts = [Write::Put(point(2), long(0)), Write::Put(key(1, "a"), long(1))];
    let refused = plan([Guard::Absent(point(1))], puts.clone());
    for plans in [vec![refused.clone()], vec![refused.clone(), refused.clone()]] {
        let verdicts = store.commit(&plans).await.expect("decided");
        assert!(verdicts.iter().all(|verdict| matches!(verdict, Verdict::Refused { .. })));
        assert_eq!(record(&store, point(2)).await, None);
        check_nothing_is_left(&server, &volume);
    }
    assert!(crate::commit(&store, plan([equals(point(1), "here")], puts)).await.expect("decided"));
    assert!(record(&store, point(2)).await == Some(long(0)));
    assert!(record(&store, key(1, "a")).await == Some(long(1)));
    check_nothing_is_left(&server, &volume);
    crate::long_records::check_no_string_is_left(&server, &volume, &store).await;
}

/// Plans of one batch, some of them refused, that write, expect and find the values of others.
fn mixed() -> Vec<Plan> {
    let here = || point(1);
    vec![
        plan([], [Write::Put(point(2), long(2)), Write::Add(counter(1), 1)]),
        // This plan is refused, so its value is never visible.
        plan([Guard::Absent(here())], [Write::Put(point(3), long(3))]),
        plan([Guard::Equals(point(2), long(2))], [Write::Put(key(1, "b"), long(4))]),
        // These plans are refused too, and the refusals return the value of the first plan, or its
        // end.
        plan([Guard::Absent(point(2))], [Write::Put(point(2), long(5))]),
        plan([Guard::Equals(point(2), long(6))], [Write::Delete(point(2))]),
        // A range makes the server write in the middle of the batch.
        plan([Guard::Empty(key(7, ""), key(8, ""))], [Write::Put(point(2), long(7))]),
        plan([Guard::Equals(point(2), long(7))], [Write::Put(key(7, "c"), long(8))]),
        plan([Guard::Empty(key(7, ""), key(8, ""))], [Write::Put(point(4), long(9))]),
        plan([Guard::Present(key(7, "c"))], [Write::Put(key(1, "b"), long(10))]),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_and_committed_plans_with_long_records_agree_with_memory() {
    let Some(server) = server::given() else { return };
    for with_snapshot in [false, true] {
        let volume = Volume::new(&server);
        let (store, model) = (volume.open().await, MemoryStore::new());
        let snapshot = if with_snapshot { store.snapshot().await.ok() } else { None };
        assert_eq!(snapshot.is_some(), with_snapshot);
        for before in [put(point(1), "here"), Write::Put(point(3), long(11))] {
            write(&store, [before.clone()]).await;
            write(&model, [before]).await;
        }
        let verdicts = store.commit(&mixed()).await.expect("decided");
        assert!(verdicts == model.commit(&mixed()).await.expect("decided"));
        let committed = verdicts.iter().filter(|verdict| **verdict == Verdict::Committed).count();
        assert_eq!(committed, 5, "that was no mixture");
        for place in [point(1), point(2), point(3), point(4), key(1, "b"), key(7, "c")] {
            let found = record(&store, place.clone()).await;
            assert!(found == record(&model, place.clone()).await, "{place:?}");
        }
        check_nothing_is_left(&server, &volume);
        crate::long_records::check_no_string_is_left(&server, &volume, &store).await;
    }
}

/// Two puts of one record in a batch that is committed as a whole: the second one remains.
#[tokio::test(flavor = "multi_thread")]
async fn the_last_of_two_puts_of_a_long_record_remains() {
    let Some(server) = server::given() else { return };
    let volume = Volume::new(&server);
    let store = volume.open().await;
    for last in [long(2), Value::from_static(b"short")] {
        let plans = [long(1), last.clone()].map(|value| plan([], [Write::Put(point(1), value)]));
        let verdicts = store.commit(&plans).await.expect("decided");
        assert_eq!(verdicts, [Verdict::Committed, Verdict::Committed]);
        assert!(record(&store, point(1)).await == Some(last));
        check_nothing_is_left(&server, &volume);
        crate::long_records::check_no_string_is_left(&server, &volume, &store).await;
    }
}

/// Starts a proxy in front of a server. Returns it with the URL that leads through it.
fn through_proxy(server: &str, url: &str) -> (Proxy, String) {
    let address = server.trim_start_matches("redis://").trim_end_matches('/');
    let target = address.parse().expect("the URL is redis://IP:PORT/");
    let proxy = Proxy::start(target).expect("a proxy");
    let url = Database::through(url, target, proxy.address());
    (proxy, url)
}

async fn one_connection(url: &str) -> RedisStore {
    let options = RedisOptions { connections: 1, ..server::relaxed() };
    RedisStore::open(url, options).await.expect("a store")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_script_is_loaded_and_leaves_no_overflow_value() {
    let Some(server) = server::own() else { return };
    let server = server.url();
    let (proxy, url) = through_proxy(&server, &server);
    let store = one_connection(&url).await;
    let mut connection = server::connection(&server);
    let mut forget = || {
        let mut flush = redis::cmd("SCRIPT");
        flush.arg("FLUSH").arg("SYNC").query::<()>(&mut connection).expect("flushed");
    };
    for round in 1..=3 {
        forget();
        let salt = u8::try_from(round).expect("few");
        write(&store, [Write::Put(point(round), long(salt)), Write::Add(counter(1), 1)]).await;
        assert!(record(&store, point(round)).await == Some(long(salt)));
        assert_eq!(crate::number(&store, counter(1)).await, i64::from(salt));
        assert_eq!(left_over(&server, "{ashlar}:"), BTreeSet::new());
    }
    // Nothing remains either if the client goes away before it gets the error about the unknown
    // script.
    let overflow = names(&server, "{ashlar}:l*");
    assert_eq!(overflow.len(), 3);
    forget();
    proxy.cut(Cut::AfterReply, b"EVALSHA", 1);
    let lost = store.commit(&[plan([], [Write::Put(point(9), long(9))])]).await;
    assert_eq!(lost.expect_err("the connection was cut").kind(), StoreErrorKind::Unknown);
    assert_eq!(left_over(&server, "{ashlar}:"), BTreeSet::new());
    assert_eq!(names(&server, "{ashlar}:l*"), overflow);
    assert_eq!(record(&store, point(9)).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_of_long_records_is_one_round_trip_and_a_refusal_two() {
    let Some(server) = server::given() else { return };
    let volume = Volume::new(&server);
    let (proxy, url) = through_proxy(&server, &volume.url);
    let store = one_connection(&url).await;
    for round in 0..5_u64 {
        let bring = |number: u64| {
            let place = point(2 * round + number);
            plan([Guard::Absent(place.clone())], [Write::Put(place, long(0))])
        };
        let before = proxy.trips();
        let verdicts = store.commit(&[bring(0)]).await.expect("decided");
        assert_eq!(verdicts, [Verdict::Committed]);
        let between = proxy.trips();
        let refused = plan([Guard::Absent(point(0))], [Write::Put(point(99), long(1))]);
        let verdicts = store.commit(&[bring(1), refused]).await.expect("decided");
        assert_eq!(verdicts[0], Verdict::Committed);
        assert!(matches!(verdicts[1], Verdict::Refused { .. }));
        // The server learns the scripts at the first calls.
        if round > 0 {
            assert_eq!((between - before, proxy.trips() - between), (1, 2));
        }
    }
}

/// A server without memory refuses the whole transaction.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_server_keeps_no_overflow_value() {
    let Some(server) = server::own() else { return };
    let server = server.url();
    let store = one_connection(&server).await;
    write(&store, [Write::Put(point(1), long(1)), Write::Add(counter(1), 1)]).await;
    let (before, mut connection) = (names(&server, "*"), server::connection(&server));
    let mut memory = |bytes: &str| {
        let mut set = redis::cmd("CONFIG");
        set.arg("SET").arg("maxmemory").arg(bytes).query::<()>(&mut connection).expect("set");
    };
    let bring = plan([], [Write::Put(point(2), long(2)), Write::Add(counter(1), 1)]);
    memory("1");
    let full = store.commit(std::slice::from_ref(&bring)).await.expect_err("there is no room");
    assert_eq!(full.kind(), StoreErrorKind::Full);
    assert_eq!(names(&server, "*"), before);
    memory("0");
    assert!(crate::commit(&store, bring).await.expect("decided"));
    assert!(record(&store, point(2)).await == Some(long(2)));
    assert_eq!(crate::number(&store, counter(1)).await, 2);
}
