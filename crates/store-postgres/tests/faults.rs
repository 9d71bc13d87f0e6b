//! Broken connections, and a server that is killed, frozen or overloaded.

mod test_database;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures::future::{join, join_all};
use proxy::{Cut, Proxy};
use sqlx::{AssertSqlSafe, Row as _};
use store::{
    Changes, CounterKey, Durability, Guard, MetaStore as _, Read, ReadResult, Space,
    StoreErrorKind, Value, Verdict, Write,
};
use store_postgres::{PostgresOptions, PostgresStore};
use url::Url;

use crate::test_database::{
    TestDatabase, connect, held, key, number, open, own_server, plan, put, run, run_at, write,
};

/// A database behind a proxy: one store that uses the proxy, and one that does not.
async fn behind_proxy(
    functions: bool,
) -> Option<(PostgresStore, PostgresStore, Proxy, TestDatabase)> {
    let place = TestDatabase::fresh().await?;
    let mut url = place.url();
    let host = url.host_str().expect("a host").to_owned();
    let addresses = tokio::net::lookup_host((host, url.port().unwrap_or(5432))).await;
    let target: SocketAddr = addresses.expect("an address").next().expect("an address");
    let proxy = Proxy::start(target).expect("a proxy");
    let straight = open(&url, functions).await;
    url.set_host(Some(&proxy.address().ip().to_string())).expect("a host");
    url.set_port(Some(proxy.address().port())).expect("a port");
    // The driver negotiates TLS in a round trip of its own, once for each connection.
    Some((open(&url, functions).await, straight, proxy, place))
}

fn record(name: &str) -> Read {
    Read::Record { key: key(name), follow: None }
}

fn range() -> Read {
    Read::Range { start: key(""), end: key("zzz"), limit: 10, follow: None }
}

#[test]
fn each_call_is_one_round_trip() {
    run(async {
        let Some((store, _straight, proxy, _place)) = behind_proxy(true).await else { return };
        let commit = |n: u64| {
            let put = put(&n.to_string(), "x");
            plan([Guard::Present(key("shared"))], [put, Write::Add(CounterKey(key("n")), 1)])
        };
        let shapes = [
            vec![record("a"), record("b")],
            vec![range()],
            vec![record("a"), range(), Read::Counter(CounterKey(key("n"))), record("c")],
        ];
        write(&store, [put("shared", "x")]).await;
        let position = match store.changes(None).await.expect("a position") {
            Changes::Notified { next, .. } | Changes::Gap { next } => next,
        };
        // Connections and prepared statements are made once.
        let mut counted = BTreeMap::new();
        for turn in 0..3_u64 {
            let mut count = |what: &'static str, before: u64| {
                counted.insert((what, turn), proxy.trips() - before);
            };
            let before = proxy.trips();
            let plans: Vec<_> = (turn * 40..turn * 40 + 40).map(commit).collect();
            let verdicts = store.commit(&plans).await.expect("verdicts");
            assert!(verdicts.iter().all(|verdict| *verdict == Verdict::Committed));
            count("commit", before);
            let before = proxy.trips();
            for shape in &shapes {
                store.read(shape).await.expect("answers");
            }
            count("three reads", before);
            let before = proxy.trips();
            store.changes(Some(&position)).await.expect("changes");
            count("changes", before);
        }
        for turn in 1..3 {
            assert_eq!(counted[&("commit", turn)], 1);
            assert_eq!(counted[&("three reads", turn)], 3);
            assert_eq!(counted[&("changes", turn)], 1);
        }
    });
}

#[test]
fn without_functions_a_commit_is_two_round_trips() {
    run(async {
        let Some((store, _straight, proxy, _place)) = behind_proxy(false).await else { return };
        write(&store, [put("a", "x")]).await;
        let before = proxy.trips();
        write(&store, [put("a", "y"), Write::Add(CounterKey(key("n")), 1)]).await;
        assert_eq!(proxy.trips() - before, 2);
    });
}

/// Cuts the connection during one commit. Returns the kind of the error and if the commit happened.
async fn cut(functions: bool, cut: Cut, needle: &[u8]) -> Option<(StoreErrorKind, bool)> {
    let (store, straight, proxy, _place) = behind_proxy(functions).await?;
    write(&store, [put("before", "x")]).await;
    proxy.cut(cut, needle, 1);
    let plans = [plan([], [put("in doubt", "x"), Write::Add(CounterKey(key("n")), 1)])];
    let error = store.commit(&plans).await.expect_err("the connection broke");
    assert_eq!(proxy.cuts(), 1, "the fault happened");
    // A server that lost its client completes the running statement.
    let there = held(&straight, "in doubt").await.is_some();
    assert_eq!(number(&straight, "n").await, i64::from(there), "all of a plan or nothing");
    write(&store, [put("after", "x")]).await;
    assert!(held(&store, "after").await.is_some());
    Some((error.kind(), there))
}

#[test]
fn a_commit_on_a_cut_connection_is_unknown() {
    run(async {
        let Some(lost) = cut(true, Cut::BeforeRequest, b"in doubt").await else { return };
        assert_eq!(lost, (StoreErrorKind::Unknown, false));
        let unheard = cut(true, Cut::AfterReply, b"in doubt").await;
        assert_eq!(unheard, Some((StoreErrorKind::Unknown, true)));
    });
}

#[test]
fn only_the_second_of_two_round_trips_is_unknown() {
    run(async {
        let first = cut(false, Cut::BeforeRequest, b"begin isolation").await;
        let Some(first) = first else { return };
        assert_eq!(first, (StoreErrorKind::Unavailable, false), "nothing can have happened");
        let lost = cut(false, Cut::BeforeRequest, b";\ncommit").await;
        assert_eq!(lost, Some((StoreErrorKind::Unknown, false)));
        let unheard = cut(false, Cut::AfterReply, b";\ncommit").await;
        assert_eq!(unheard, Some((StoreErrorKind::Unknown, true)));
    });
}

#[test]
fn reads_are_retried_after_broken_connections() {
    run(async {
        let Some((store, _straight, proxy, _place)) = behind_proxy(true).await else { return };
        write(&store, [put("a", "x")]).await;
        assert!(held(&store, "a").await.is_some());
        proxy.close(true);
        let error = store.read(&[record("a")]).await.expect_err("no server");
        assert_eq!(error.kind(), StoreErrorKind::Unavailable);
        let error = store.commit(&[plan([], [put("b", "x")])]).await.expect_err("no server");
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        proxy.close(false);
        assert!(held(&store, "a").await.is_some());
        proxy.close(true);
        proxy.close(false);
        assert!(held(&store, "a").await.is_some(), "though its connection is gone");
        write(&store, [put("b", "x")]).await;
    });
}

#[test]
fn a_lock_that_is_never_released_makes_commits_unavailable() {
    run(async {
        let Some(place) = TestDatabase::fresh().await else { return };
        let store = open(&place.url(), true).await;
        let mut other = place.connect().await;
        let lock = "begin; lock table ashlar_record in exclusive mode";
        sqlx::raw_sql(lock).execute(&mut other).await.expect("a lock");
        let began = Instant::now();
        let error = store.commit(&[plan([], [put("a", "x")])]).await.expect_err("it waits");
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("lock timeout"), "{error}");
        assert!(began.elapsed() > Duration::from_secs(4), "it was tried again");
        assert!(began.elapsed() < Duration::from_secs(12), "{:?}", began.elapsed());
        let committing = async {
            let verdicts = store.commit(&[plan([], [put("b", "x")])]).await.expect("it waits");
            assert_eq!(verdicts, [Verdict::Committed]);
        };
        let letting_go = async {
            tokio::time::sleep(Duration::from_millis(2_500)).await;
            sqlx::raw_sql("rollback").execute(&mut other).await.expect("a rollback");
        };
        join(committing, letting_go).await;
        assert_eq!(held(&store, "a").await, None, "what was unavailable did not happen");
        assert!(held(&store, "b").await.is_some());
    });
}

/// If an administrator stops a statement, an error means that nothing was committed, while the end
/// of a session may come before or after a commit.
#[test]
fn a_commit_whose_session_is_terminated_is_unknown() {
    run(async {
        let Some(place) = TestDatabase::fresh().await else { return };
        for (stop, kind) in [
            ("pg_cancel_backend", StoreErrorKind::Unavailable),
            ("pg_terminate_backend", StoreErrorKind::Unknown),
        ] {
            let store = open(&place.url(), true).await;
            let mut other = place.connect().await;
            let lock = "begin; lock table ashlar_record in exclusive mode";
            sqlx::raw_sql(lock).execute(&mut other).await.expect("a lock");
            let stopping = async {
                let text = format!(
                    "select {stop}(pid) from pg_stat_activity where datname = current_database() \
                     and application_name = 'ashlar' and wait_event_type = 'Lock'"
                );
                let mut stopped = 0;
                while stopped == 0 {
                    let stop = sqlx::raw_sql(AssertSqlSafe(text.clone()));
                    stopped = stop.fetch_all(&mut other).await.expect("rows").len();
                    // The server caches its statistics within a transaction.
                    let forget = sqlx::raw_sql("select pg_stat_clear_snapshot()");
                    forget.execute(&mut other).await.expect("an answer");
                }
            };
            let plans = [plan([], [put(stop, "x")])];
            let (error, ()) = join(store.commit(&plans), stopping).await;
            assert_eq!(error.expect_err("it was stopped").kind(), kind);
            sqlx::raw_sql("rollback").execute(&mut other).await.expect("a rollback");
            assert_eq!(held(&store, stop).await, None);
            write(&store, [put(stop, "x")]).await;
        }
    });
}

/// A crash takes back the numbers of transactions of which nothing was on disk yet. The server uses
/// them again, and a reader whose position has them as ended must still get their changes.
#[test]
fn a_change_with_a_transaction_number_reused_after_a_crash_is_notified() {
    run(async {
        let Some(mut server) = own_server() else { return };
        let url = Url::parse(&server.fresh("crashed")).expect("a URL");
        run_at(&url, "alter system set wal_writer_delay = '10s'").await;
        server.kill();
        server.restart();
        let store = open(&url, true).await;
        write(&store, [put("before", "x")]).await;
        let mut other = connect(&url).await;
        let mut given = 0;
        for _ in 0..20 {
            let text = "begin; select pg_current_xact_id()::text::bigint; rollback";
            let row = sqlx::raw_sql(text).fetch_one(&mut other).await.expect("a row");
            given = row.get::<i64, _>(0);
        }
        let position = match store.changes(None).await.expect("a position") {
            Changes::Notified { next, .. } | Changes::Gap { next } => next,
        };
        server.kill();
        server.restart();
        assert!(held(&store, "before").await.is_some());
        let mut expected = BTreeSet::new();
        for number in 0..40 {
            let name = format!("again {number}");
            write(&store, [put(&name, "x")]).await;
            expected.insert(key(&name));
        }
        let mut other = connect(&url).await;
        let again = "select count(*) from ashlar_change where xid <= $1::text::xid8";
        let row = sqlx::query(again).bind(given.to_string()).fetch_one(&mut other).await;
        let again = row.expect("a row").get::<i64, _>(0);
        assert!(again > 10, "the fault happened: {again} numbers were given again");
        match store.changes(Some(&position)).await.expect("changes") {
            Changes::Notified { keys, .. } => assert_eq!(BTreeSet::from_iter(keys), expected),
            Changes::Gap { .. } => panic!("there was no gap"),
        }
    });
}

/// A primary that comes back as a standby has old records.
#[test]
fn a_standby_is_refused_at_open_and_later() {
    run(async {
        let Some(mut server) = own_server() else { return };
        let url = Url::parse(&server.fresh("standby")).expect("a URL");
        let store = open(&url, true).await;
        write(&store, [put("a", "x")]).await;
        // The folder of the server's programs.
        run_at(&url, "copy (select 1) to program 'cat > standby.signal'").await;
        server.kill();
        server.restart();
        // A connection that was just in use is not tested before the next call, so a commit on it
        // has an unknown outcome.
        tokio::time::sleep(Duration::from_millis(1_200)).await;
        let read = store.read(&[record("a")]).await.expect_err("it is a standby");
        let commit = store.commit(&[plan([], [put("b", "x")])]).await.expect_err("it is a standby");
        let options = PostgresOptions::default();
        let opened = PostgresStore::open(url.as_str(), options).await.expect_err("it is a standby");
        for error in [read, commit, opened] {
            assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
            assert!(error.to_string().contains("standby"), "{error}");
        }
        run_at(&url, "select pg_promote()").await;
        assert!(held(&store, "a").await.is_some());
        write(&store, [put("b", "x")]).await;
    });
}

/// Another client that changes counters in another order causes a deadlock.
#[test]
fn a_commit_is_retried_after_a_deadlock() {
    run(async {
        let Some(place) = TestDatabase::fresh().await else { return };
        let store = open(&place.url(), true).await;
        let counters = |by| ["a", "b"].map(|name| Write::Add(CounterKey(key(name)), by));
        write(&store, counters(1)).await;
        let mut other = place.connect().await;
        let change = |name: &str| {
            let key = hex(key(name).as_bytes());
            format!("update ashlar_counter set value = value + 10 where key = '\\x{key}'")
        };
        let first = AssertSqlSafe(format!("begin; {}", change("b")));
        sqlx::raw_sql(first).execute(&mut other).await.expect("a row");
        let closing_the_circle = async move {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let second = AssertSqlSafe(format!("{}; commit", change("a")));
            sqlx::raw_sql(second).execute(&mut other).await.expect("the one that was not aborted");
        };
        join(write(&store, counters(100)), closing_the_circle).await;
        assert_eq!((number(&store, "a").await, number(&store, "b").await), (111, 111));
        let mut watcher = place.connect().await;
        let mut deadlocks = 0;
        for _ in 0..100 {
            let text = "select deadlocks from pg_stat_database where datname = current_database()";
            let row = sqlx::query(text).fetch_one(&mut watcher).await.expect("a row");
            deadlocks = row.get::<i64, _>(0);
            if deadlocks > 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(deadlocks, 1, "the fault happened");
    });
}

fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from_digit(digit.into(), 16).expect("below 16")).collect()
}

/// Commits pairs until `stop`. Returns the acknowledged names, and the number of other outcomes.
async fn load(store: &PostgresStore, from: u64, stop: &AtomicBool) -> (Vec<String>, usize) {
    let (mut done, mut failed) = (Vec::new(), 0);
    for turn in 0_u64.. {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        let name = format!("{from}/{turn}");
        let writes = [put(&format!("l/{name}"), &name), put(&format!("r/{name}"), &name)];
        let add = Write::Add(CounterKey(key("pairs")), 1);
        let plans = [plan([], [writes[0].clone(), writes[1].clone(), add])];
        let began = Instant::now();
        match store.commit(&plans).await {
            Ok(_) => done.push(name),
            Err(error) => {
                failed += 1;
                assert!(
                    matches!(error.kind(), StoreErrorKind::Unknown | StoreErrorKind::Unavailable),
                    "{error}"
                );
                assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }
    (done, failed)
}

#[test]
fn a_server_that_is_killed_under_load_keeps_acknowledged_commits() {
    run(async {
        let Some(mut server) = own_server() else { return };
        let url = Url::parse(&server.fresh("killed")).expect("a URL");
        for functions in [true, false] {
            let store = Arc::new(open(&url, functions).await);
            let stop = AtomicBool::new(false);
            let faults = async {
                tokio::time::sleep(Duration::from_millis(500)).await;
                let (kill, restart) = (
                    Instant::now(),
                    tokio::task::spawn_blocking(move || {
                        server.kill();
                        std::thread::sleep(Duration::from_millis(300));
                        server.restart();
                        server
                    }),
                );
                let server = restart.await.expect("a server");
                let back = Instant::now();
                while store.read(&[record("x")]).await.is_err() {
                    assert!(back.elapsed() < Duration::from_secs(2), "it does not recover");
                }
                write(&store, [put("first", "x")]).await;
                println!("down {:?}, works {:?} after", back - kill, back.elapsed());
                tokio::time::sleep(Duration::from_millis(300)).await;
                stop.store(true, Ordering::SeqCst);
                server
            };
            let writers = join_all((0..6).map(|writer| load(&store, writer, &stop)));
            let (done, back) = join(writers, faults).await;
            server = back;
            let failed: usize = done.iter().map(|(_, failed)| failed).sum();
            assert!(failed > 0, "the fault happened");
            check_pairs(&store, done.into_iter().flat_map(|(done, _)| done).collect()).await;
            store.close().await;
            run_at(&url, "truncate ashlar_record, ashlar_counter").await;
        }
    });
}

/// Checks that each pair is whole, the counter counts the pairs, and each acknowledged pair exists.
async fn check_pairs(store: &PostgresStore, acknowledged: Vec<String>) {
    let mut pairs: BTreeMap<String, usize> = BTreeMap::new();
    let mut resume = None;
    loop {
        let page = store.walk(Space(b'd'), resume, 10_000).await.expect("a page");
        for (_, value) in page.records.iter().filter(|(key, _)| key.suffix() != b"first") {
            let name = std::str::from_utf8(value).expect("text");
            *pairs.entry(name.to_owned()).or_default() += 1;
        }
        resume = page.resume;
        if resume.is_none() {
            break;
        }
    }
    assert!(pairs.values().all(|records| *records == 2), "half a pair");
    assert!(acknowledged.len() > 10);
    for name in &acknowledged {
        assert!(pairs.contains_key(name), "{name} was acknowledged and is gone");
    }
    let counted = usize::try_from(number(store, "pairs").await).expect("a count");
    assert_eq!(counted, pairs.len());
    println!("{} pairs, {} of them acknowledged", pairs.len(), acknowledged.len());
}

/// A commit may happen after its caller got an unknown outcome.
#[test]
fn a_silent_server_makes_commits_unknown_and_reads_unavailable() {
    run(async {
        let Some((store, straight, proxy, _place)) = behind_proxy(true).await else { return };
        write(&store, [put("a", "x")]).await;
        assert!(held(&store, "a").await.is_some());
        proxy.hold(true);
        let began = Instant::now();
        let plans = [plan([], [put("in doubt", "x")])];
        let reads = [record("a")];
        let (commit, read) = join(store.commit(&plans), store.read(&reads)).await;
        let waited = began.elapsed();
        assert_eq!(commit.expect_err("no answer").kind(), StoreErrorKind::Unknown);
        assert_eq!(read.expect_err("no answer").kind(), StoreErrorKind::Unavailable);
        assert!((9..14).contains(&waited.as_secs()), "{waited:?}");
        let began = Instant::now();
        let error = store.commit(&[plan([], [put("never", "x")])]).await.expect_err("no answer");
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "nothing was sent");
        assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
        assert_eq!(held(&straight, "in doubt").await, None);
        proxy.hold(false);
        write(&store, [put("b", "x")]).await;
        let deadline = Instant::now() + Duration::from_secs(5);
        while held(&store, "in doubt").await.is_none() {
            assert!(Instant::now() < deadline, "what had been sent happens");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(held(&store, "never").await, None);
    });
}

#[test]
fn a_server_without_memory_for_locks_aborts_whole_batches() {
    run(async {
        let Some(mut server) = own_server() else { return };
        let url = Url::parse(&server.fresh("crowded")).expect("a URL");
        run_at(&url, "alter system set max_locks_per_transaction = 10").await;
        server.kill();
        server.restart();
        let store = open(&url, true).await;
        let mut other = connect(&url).await;
        // Another client takes all locks for which the server has memory, and releases a thousand.
        let text = "do $$ declare taken int := 0; begin \
                    loop begin perform pg_advisory_lock(7, taken + 1); taken := taken + 1; \
                    exception when out_of_memory then exit; end; end loop; \
                    perform pg_advisory_unlock(7, n) from generate_series(taken - 1000, taken) n; \
                    end $$";
        sqlx::raw_sql(text).execute(&mut other).await.expect("locks until there is no room");
        let limits = store.limits();
        let many = u64::try_from(limits.plan_items).expect("a number");
        let puts: Vec<_> = (0..many).map(|n| put(&n.to_string(), "x")).collect();
        let error = store.commit(&[plan([], puts.clone())]).await.expect_err("no room");
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("shared memory"), "{error}");
        let text = "select pg_advisory_unlock_all()";
        sqlx::raw_sql(text).execute(&mut other).await.expect("no lock is left");
        let ReadResult::Range(entries) = store.read(&[range()]).await.expect("a range").remove(0)
        else {
            panic!("a range was asked for")
        };
        assert_eq!(entries, []);
        write(&store, [put("small", "x")]).await;
        assert_eq!(held(&store, "small").await, Some(Value::from_static(b"x")));
        assert_eq!(store.durability(), Durability::Strict);
    });
}
