//! Failures of the connection or the server, and the number of round trips of each call.
//!
//! These tests have a server of their own, which they may kill, behind a proxy that can cut
//! connections.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::bench::run;
use crate::service::{connect, counter, decide_one, key, number, open, plan, put, record};
use futures::future::join_all;
use proxy::Cut;
use sqlx::Row;
use store::{
    Changes, Follow, Guard, Key, MetaStore, Read, ReadResult, Space, StoreErrorKind, Verdict, Write,
};
use store_mysql::MysqlStore;

fn create(at: &Key) -> store::Plan {
    plan([Guard::Absent(at.clone())], [put(at.clone(), "x"), Write::Add(counter(1), 1)])
}

fn get(key: Key) -> Read {
    Read::Record { key, follow: None }
}

/// Returns the number of round trips of a call that succeeds.
macro_rules! trips {
    ($bench:expr, $call:expr) => {{
        let before = $bench.proxy.trips();
        $call.await.expect("an answer");
        $bench.proxy.trips() - before
    }};
}

#[test]
fn each_call_takes_the_documented_round_trips() {
    run(async |bench| {
        let store = open(&bench.through).await;
        let warm = [create(&key(9, "warm"))];
        store.commit(&warm).await.expect("a commit");
        let position = match store.changes(None).await.expect("a position") {
            Changes::Notified { next, .. } | Changes::Gap { next } => next,
        };
        let follow = Follow { prefix: "I".into(), offset: 0, length: 8, bytes_max: None };
        let mut reads: Vec<Read> = (0..40_u64)
            .map(|n| Read::Range {
                start: key(n, ""),
                end: key(n + 1, ""),
                limit: 10,
                follow: Some(follow.clone()),
            })
            .collect();
        reads.push(Read::Counter(counter(1)));
        reads.push(Read::Record { key: key(1, "a"), follow: Some(follow) });
        let plans: Vec<_> = (0..64_u64).map(|n| create(&key(2, n.to_be_bytes()))).collect();
        let refused = [plan([Guard::Present(key(1, "never"))], [put(key(1, "x"), "")])];
        assert_eq!(trips!(bench, store.read(&reads)), 1);
        assert_eq!(trips!(bench, store.commit(&plans)), 2);
        assert_eq!(trips!(bench, store.commit(&refused)), 2);
        assert_eq!(trips!(bench, store.changes(Some(&position))), 1);
        assert_eq!(trips!(bench, store.walk(Space(b'd'), None, 100)), 1);
        store.close().await;
    });
}

#[test]
fn a_commit_cut_before_it_arrives_is_unknown_and_did_not_happen() {
    run(async |bench| {
        let (store, watcher) = futures::join!(open(&bench.through), open(&bench.direct));
        let at = key(1, "cut");
        bench.proxy.cut(Cut::BeforeRequest, b";COMMIT", 1);
        let error = store.commit(&[create(&at)]).await.expect_err("the connection is cut");
        assert_eq!((error.kind(), bench.proxy.cuts()), (StoreErrorKind::Unknown, 1), "{error}");
        assert_eq!(decide_one(&watcher, create(&at)).await, Verdict::Committed, "it is free");
        assert_eq!(number(&watcher, &counter(1)).await, 1);
        decide_one(&store, create(&key(1, "next"))).await;
        futures::join!(store.close(), watcher.close());
    });
}

/// The server answers statement by statement, so the cut is between the first answer and the last.
/// Some of these commits happened and some did not, each as a whole.
#[test]
fn a_commit_cut_after_it_arrived_is_unknown_and_whole() {
    run(async |bench| {
        let (store, watcher) = futures::join!(open(&bench.through), open(&bench.direct));
        let mut happened = 0;
        for round in 1..=200 {
            let at = key(round, "cut");
            bench.proxy.cut(Cut::AfterReply, b";COMMIT", 1);
            let error = store.commit(&[create(&at)]).await.expect_err("the connection is cut");
            assert_eq!((error.kind(), bench.proxy.cuts()), (StoreErrorKind::Unknown, round));
            // Settles the outcome: waits for the original if it is still running, or prevents it.
            let tombstone = plan([Guard::Absent(at.clone())], [put(at.clone(), "aborted")]);
            if decide_one(&watcher, tombstone).await != Verdict::Committed {
                happened += 1;
                assert_eq!(record(&watcher, &at).await.as_deref(), Some(&b"x"[..]));
            }
            assert_eq!(number(&watcher, &counter(1)).await, happened, "round {round}");
            if happened >= 3 {
                break;
            }
        }
        assert!(happened >= 3, "the server never came to the end");
        futures::join!(store.close(), watcher.close());
    });
}

#[test]
fn a_batch_that_writes_nothing_is_never_unknown() {
    run(async |bench| {
        let store = open(&bench.through).await;
        let refused = [plan([Guard::Present(key(1, "never"))], [put(key(1, "x"), "")])];
        for cut in [Cut::BeforeRequest, Cut::AfterReply] {
            let cuts = bench.proxy.cuts();
            bench.proxy.cut(cut, b";COMMIT", 2);
            let error = store.commit(&refused).await.expect_err("the connection is cut");
            assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
            assert!(bench.proxy.cuts() > cuts, "it was cut");
            bench.proxy.cut(cut, b"", 0);
        }
        store.close().await;
    });
}

#[test]
fn idle_connections_that_ended_are_replaced() {
    run(async |bench| {
        let store = open(&bench.through).await;
        // Several idle connections of each kind.
        let several = |round: u64| {
            let store = &store;
            join_all((0..8_u64).map(move |n| async move {
                let at = key(round, n.to_be_bytes());
                decide_one(store, create(&at)).await;
                record(store, &at).await.expect("it is there")
            }))
        };
        several(1).await;
        bench.proxy.close(true);
        bench.proxy.close(false);
        several(2).await;
        // A connection that breaks during the call is also replaced, if nothing can have been
        // committed.
        for (at, needle) in [(key(3, "a"), &b"START TRANSACTION"[..]), (key(3, "b"), b"FOR UPDATE")]
        {
            let cuts = bench.proxy.cuts();
            bench.proxy.cut(Cut::AfterReply, needle, 1);
            assert_eq!(decide_one(&store, create(&at)).await, Verdict::Committed);
            assert_eq!(bench.proxy.cuts(), cuts + 1, "it was cut");
        }
        let cuts = bench.proxy.cuts();
        bench.proxy.cut(Cut::BeforeRequest, b"ashlar_record", 1);
        record(&store, &key(3, "a")).await.expect("it is there");
        assert_eq!(bench.proxy.cuts(), cuts + 1, "it was cut");
        store.close().await;
    });
}

#[test]
fn an_unreachable_server_is_unavailable_at_once() {
    run(async |mut bench| {
        let store = open(&bench.direct).await;
        decide_one(&store, create(&key(1, "before"))).await;
        bench.server.kill();
        for _ in 0..3 {
            let began = Instant::now();
            let error = store.commit(&[create(&key(1, "x"))]).await.expect_err("it is away");
            assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
            let error = store.read(&[get(key(1, "x"))]).await.expect_err("it is away");
            assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
            let error = store.changes(None).await.expect_err("it is away");
            assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
            assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
        }
        bench.server.restart();
        assert_eq!(record(&store, &key(1, "before")).await.as_deref(), Some(&b"x"[..]));
        decide_one(&store, create(&key(1, "x"))).await;
        store.close().await;
    });
}

#[test]
fn calls_to_a_silent_server_time_out() {
    run(async |bench| {
        let store = open(&bench.through).await;
        decide_one(&store, create(&key(1, "before"))).await;
        record(&store, &key(1, "before")).await.expect("it is there");
        bench.server.freeze(true);
        // Threads that run at this moment may still answer.
        tokio::time::sleep(Duration::from_millis(300)).await;
        let began = Instant::now();
        let at = key(1, "silent");
        let plans = [create(&at)];
        let reads = [get(at.clone())];
        let (committed, read) = futures::join!(store.commit(&plans), store.read(&reads));
        let errors = [committed.expect_err("no answer"), read.expect_err("no answer")];
        // The commit had not sent its writes.
        assert!(errors.iter().all(|error| error.kind() == StoreErrorKind::Unavailable));
        assert!(began.elapsed() < Duration::from_secs(13), "{:?}", began.elapsed());
        let began = Instant::now();
        let error = store.read(&reads).await.expect_err("no connection");
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
        bench.server.freeze(false);
        decide_one(&store, create(&key(1, "after"))).await;
        store.close().await;
    });
}

/// A writer that stalls between its trips, as in a stopped process, loses its locks.
#[test]
fn a_stalled_writer_loses_its_locks() {
    const HOLDING: &str = "SELECT CAST(COUNT(*) AS CHAR) FROM information_schema.innodb_trx \
         WHERE trx_rows_locked > 0 AND trx_query IS NULL";
    run(async |bench| {
        let (stopped, other) = futures::join!(open(&bench.through), open(&bench.direct));
        let hot = key(1, "hot");
        decide_one(&other, plan([], [put(hot.clone(), "")])).await;
        let mut watcher = connect(&bench.direct).await;
        let ending = AtomicBool::new(false);
        let mut caught = false;
        let writing = async {
            while !ending.load(Ordering::SeqCst) {
                let turn = plan([Guard::Present(hot.clone())], [put(hot.clone(), "stopped")]);
                // If it stalls for long enough, its commit fails in one of several ways.
                let _ = stopped.commit(&[turn]).await;
            }
        };
        let checking = async {
            for _ in 0..60 {
                tokio::time::sleep(Duration::from_millis(17)).await;
                bench.proxy.hold(true);
                tokio::time::sleep(Duration::from_millis(150)).await;
                let row = sqlx::query(HOLDING).fetch_one(&mut watcher).await.expect("an answer");
                let holding: String = row.get(0);
                if holding != "0" {
                    caught = true;
                    let began = Instant::now();
                    let turn = plan([Guard::Present(hot.clone())], [put(hot.clone(), "other")]);
                    assert_eq!(decide_one(&other, turn).await, Verdict::Committed);
                    let waited = began.elapsed();
                    assert!(waited > Duration::from_secs(1), "nothing was held: {waited:?}");
                    assert!(waited < Duration::from_secs(9), "{waited:?}");
                    ending.store(true, Ordering::SeqCst);
                    bench.proxy.hold(false);
                    return;
                }
                bench.proxy.hold(false);
            }
            ending.store(true, Ordering::SeqCst);
        };
        futures::join!(writing, checking);
        assert!(caught, "the writer never stood between its trips");
        decide_one(&stopped, create(&key(2, "again"))).await;
        futures::join!(stopped.close(), other.close());
    });
}

/// The commits of a writer, by their outcome.
#[derive(Default)]
struct Seen {
    acknowledged: BTreeSet<u64>,
    unknown: BTreeSet<u64>,
    failures: u32,
}

/// Writes pairs until `ending`.
async fn write_pairs(store: &MysqlStore, task: u64, ending: &AtomicBool) -> Seen {
    let mut seen = Seen::default();
    for turn in 0.. {
        if ending.load(Ordering::SeqCst) {
            break;
        }
        let number: u64 = (task << 32) + turn;
        let bytes = number.to_be_bytes();
        let (left, right) = (key(1, bytes), key(2, bytes));
        let writes = [put(left.clone(), "x"), put(right, "x"), Write::Add(counter(1), 1)];
        match store.commit(&[plan([Guard::Absent(left)], writes)]).await {
            Ok(verdicts) => {
                assert_eq!(verdicts, [Verdict::Committed]);
                seen.acknowledged.insert(number);
            }
            Err(error) => {
                match error.kind() {
                    StoreErrorKind::Unknown => assert!(seen.unknown.insert(number)),
                    StoreErrorKind::Unavailable => {}
                    other => panic!("{other:?}: {error}"),
                }
                seen.failures += 1;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
    seen
}

async fn numbers(store: &MysqlStore, partition: u64) -> BTreeSet<u64> {
    let (mut start, mut all) = (key(partition, ""), BTreeSet::new());
    loop {
        let end = key(partition + 1, "");
        let read = Read::Range { start, end, limit: 5_000, follow: None };
        let ReadResult::Range(entries) = store.read(&[read]).await.expect("entries").remove(0)
        else {
            panic!("a range was asked for")
        };
        let suffix = |entry: &store::Entry| entry.key.suffix().try_into().expect("eight bytes");
        all.extend(entries.iter().map(|entry| u64::from_be_bytes(suffix(entry))));
        let Some(last) = entries.last() else { return all };
        start = key(partition, [last.key.suffix(), b"\0"].concat());
    }
}

#[test]
fn a_killed_server_keeps_acknowledged_commits() {
    run(async |mut bench| {
        let store = open(&bench.direct).await;
        let Changes::Notified { next: position, .. } =
            store.changes(None).await.expect("a position")
        else {
            panic!("there cannot be a gap")
        };
        let ending = AtomicBool::new(false);
        let writing = join_all((0..6).map(|task| write_pairs(&store, task, &ending)));
        let killing = async {
            for _ in 0..3 {
                tokio::time::sleep(Duration::from_millis(300)).await;
                bench.server.kill();
                tokio::time::sleep(Duration::from_millis(200)).await;
                tokio::task::block_in_place(|| bench.server.restart());
                let back = Instant::now();
                while let Err(error) = store.commit(&[plan([], [put(key(3, "probe"), "")])]).await {
                    assert!(back.elapsed() < Duration::from_secs(3), "{error}");
                }
            }
            ending.store(true, Ordering::SeqCst);
        };
        let (seen, ()) = futures::join!(writing, killing);
        let failures: u32 = seen.iter().map(|seen| seen.failures).sum();
        assert!(failures > 0, "no call failed");
        let acknowledged: BTreeSet<u64> =
            seen.iter().flat_map(|seen| &seen.acknowledged).copied().collect();
        let unknown: BTreeSet<u64> = seen.iter().flat_map(|seen| &seen.unknown).copied().collect();
        let left = numbers(&store, 1).await;
        assert_eq!(left, numbers(&store, 2).await, "a plan was torn");
        assert!(acknowledged.is_subset(&left), "{:?}", acknowledged.difference(&left));
        let others: BTreeSet<u64> = left.difference(&acknowledged).copied().collect();
        assert!(others.is_subset(&unknown), "{others:?}");
        assert_eq!(number(&store, &counter(1)).await.unsigned_abs(), left.len() as u64);
        if let Changes::Notified { keys, .. } =
            store.changes(Some(&position)).await.expect("changes")
        {
            let changed: BTreeSet<Key> = keys.into_iter().collect();
            assert!(left.iter().all(|number| changed.contains(&key(1, number.to_be_bytes()))));
        } else {
            assert!(left.len() > store::feed::FEED_BATCHES, "so few are remembered");
        }
        store.close().await;
    });
}
