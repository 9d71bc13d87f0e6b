//! Broken connections, callers that go away, and servers that are killed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use databases::Database;
use proxy::{Cut, Proxy};
use store::{Guard, MetaStore, Read, ReadResult, StoreErrorKind, Verdict, Write};
use store_redis::{RedisOptions, RedisStore};

use crate::server::{self, Volume};
use crate::{counter, equals, key, number, plan, point, put, record, write};

/// A volume of the server under test, and a proxy in front of it.
fn behind_proxy() -> Option<(Volume, Proxy, String)> {
    let server = server::given()?;
    let address = server.trim_start_matches("redis://").trim_end_matches('/');
    let target = address.parse().expect("ASHLAR_TEST_REDIS is redis://IP:PORT/");
    let proxy = Proxy::start(target).expect("a proxy");
    let volume = Volume::new(&server);
    let url = Database::through(&volume.url, target, proxy.address());
    Some((volume, proxy, url))
}

async fn one_connection(url: &str) -> RedisStore {
    let options = RedisOptions { connections: 1, ..server::relaxed() };
    RedisStore::open(url, options).await.expect("a store")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_is_one_round_trip() {
    let Some((_volume, proxy, url)) = behind_proxy() else { return };
    let store = one_connection(&url).await;
    let plans: Vec<_> = (0..64_u64)
        .map(|number| {
            let guards = [Guard::Absent(point(number)), Guard::Empty(key(9, ""), key(10, ""))];
            plan(
                guards,
                [put(point(number), "x"), put(key(1, "a"), "x"), Write::Add(counter(1), 1)],
            )
        })
        .collect();
    let follow = store::Follow { prefix: b"I"[..].into(), offset: 0, length: 8, bytes_max: None };
    let reads: Vec<_> = (0..64_u64)
        .map(|number| match number % 3 {
            0 => Read::Record { key: point(number), follow: Some(follow.clone()) },
            1 => Read::Range {
                start: key(1, ""),
                end: key(2, ""),
                limit: 1_000,
                follow: Some(follow.clone()),
            },
            _ => Read::Counter(counter(1)),
        })
        .collect();
    let place = store.changes(None).await.expect("a position");
    let store::Changes::Notified { next, .. } = place else { panic!("there cannot be a gap") };
    // The server learns each script at its first call.
    store.commit(&plans).await.expect("decided");
    store.read(&reads).await.expect("answered");
    for _ in 0..3 {
        let before = proxy.trips();
        store.commit(&plans).await.expect("decided");
        assert_eq!(proxy.trips() - before, 1, "a commit");
        store.read(&reads).await.expect("answered");
        assert_eq!(proxy.trips() - before, 2, "a read");
        store.changes(Some(&next)).await.expect("answered");
        assert_eq!(proxy.trips() - before, 3, "the changes");
        store.walk(store::Space(b'I'), None, 100).await.expect("a page");
        assert_eq!(proxy.trips() - before, 4, "a page of a walk");
    }
}

/// A batch that records refuse as a whole takes one round trip, one that they refuse in part two,
/// and so does one with a counter over its bound.
#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_one_round_trip_and_a_partial_one_two() {
    let Some((_volume, proxy, url)) = behind_proxy() else { return };
    let store = one_connection(&url).await;
    write(&store, [put(key(1, "a"), "here"), Write::Add(counter(1), 5)]).await;
    let absent = || plan([Guard::Absent(key(1, "a"))], [put(key(1, "a"), "other")]);
    let bounded = || plan([Guard::AtMost(counter(1), 4)], [put(key(1, "c"), "x")]);
    let fine = |name: &str| plan([], [put(key(1, name), "x")]);
    let here = Verdict::Refused { guard: 0, found: Some("here".into()) };
    let full = Verdict::Refused { guard: 0, found: None };
    for round in 0..3 {
        let cases = [
            (vec![absent(), absent()], vec![here.clone(), here.clone()], 1),
            (vec![bounded()], vec![full.clone()], 1),
            (vec![absent(), fine("b")], vec![here.clone(), Verdict::Committed], 2),
            (
                vec![bounded(), absent(), fine("d"), fine("e")],
                vec![full.clone(), here.clone(), Verdict::Committed, Verdict::Committed],
                2,
            ),
        ];
        for (plans, expected, trips) in cases {
            let before = proxy.trips();
            assert_eq!(store.commit(&plans).await.expect("decided"), expected);
            // The server learns the script at the first call.
            if round > 0 {
                assert_eq!(proxy.trips() - before, trips, "{plans:?}");
            }
        }
    }
    assert_eq!(record(&store, key(1, "c")).await, None);
}

/// Plans that are decided one by one are one transaction, with one entry in the feed.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_batch_of_single_plans_is_unknown_and_has_one_entry() {
    let Some((volume, proxy, url)) = behind_proxy() else { return };
    let (store, witness) = (one_connection(&url).await, volume.open().await);
    write(&store, [Write::Add(counter(1), 5)]).await;
    let entries = || -> u64 {
        let feed = format!("{}f", volume.prefix());
        let mut connection = server::connection(&server::given().expect("it was there"));
        redis::cmd("XLEN").arg(feed).query(&mut connection).expect("a length")
    };
    for (round, cut) in [Cut::BeforeRequest, Cut::AfterReply].into_iter().enumerate() {
        let name = |which: &str| key(1, &format!("{round}-{which}"));
        let bounded = plan([Guard::AtMost(counter(1), 4)], [put(name("no"), "x")]);
        let batch = [plan([], [put(name("a"), "x")]), bounded, plan([], [put(name("b"), "x")])];
        // A new connection sends MULTI too, so it must exist before.
        assert_eq!(record(&store, name("a")).await, None);
        let before = entries();
        // The first call is refused, and the second one has the plans one by one.
        proxy.cut(cut, b"MULTI", 1);
        let error = store.commit(&batch).await.expect_err("the connection was cut");
        assert_eq!(error.kind(), StoreErrorKind::Unknown, "{cut:?}: {error}");
        let happened = cut == Cut::AfterReply;
        for which in ["a", "b"] {
            assert_eq!(record(&witness, name(which)).await.is_some(), happened, "{cut:?}");
        }
        assert_eq!(record(&witness, name("no")).await, None);
        assert_eq!(entries() - before, u64::from(happened), "{cut:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_commit_is_unknown_until_its_slot_is_read() {
    let Some((volume, proxy, url)) = behind_proxy() else { return };
    let (store, witness) = (one_connection(&url).await, volume.open().await);
    for (round, cut) in [Cut::BeforeRequest, Cut::AfterReply, Cut::BeforeRequest, Cut::AfterReply]
        .into_iter()
        .enumerate()
    {
        let slot = || key(1, &format!("slot-{round}"));
        write(&store, [put(slot(), "v0")]).await;
        let cuts = proxy.cuts();
        proxy.cut(cut, b"EVALSHA", 1);
        let original =
            plan([equals(slot(), "v0")], [put(slot(), "v1"), Write::Add(counter(round as u64), 1)]);
        let error = store.commit(&[original]).await.expect_err("the connection was cut");
        assert_eq!(error.kind(), StoreErrorKind::Unknown, "{cut:?}: {error}");
        assert_eq!(proxy.cuts(), cuts + 1, "nothing was cut");
        let happened = cut == Cut::AfterReply;
        assert_eq!(number(&witness, counter(round as u64)).await, i64::from(happened), "{cut:?}");
        // The next call uses a new connection, and the slot shows the outcome.
        let tombstone = plan([equals(slot(), "v0")], [put(slot(), "aborted")]);
        let settled = store.commit(&[tombstone]).await.expect("the connection is made anew");
        assert_eq!(matches!(settled[0], Verdict::Refused { .. }), happened, "{cut:?}");
    }
    for cut in [Cut::BeforeRequest, Cut::AfterReply] {
        proxy.cut(cut, b"EVALSHA", 1);
        let error =
            store.read(&[Read::Counter(counter(0))]).await.expect_err("the connection was cut");
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        assert_eq!(number(&store, counter(1)).await, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_ended_while_idle_are_replaced() {
    let Some((_volume, proxy, url)) = behind_proxy() else { return };
    let store = RedisStore::open(&url, server::relaxed()).await.expect("a store");
    for round in 0..10 {
        write(&store, [put(point(round), "x")]).await;
    }
    for round in 0..5 {
        proxy.close(true);
        let begun = Instant::now();
        tokio::time::sleep(Duration::from_millis(20)).await;
        let error = store.commit(&[plan([], [put(point(99), "x")])]).await.expect_err("no server");
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "nothing was sent: {error}");
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
        proxy.close(false);
        for number in 0..6 {
            write(&store, [put(point(number), &round.to_string())]).await;
        }
    }
    assert_eq!(record(&store, point(99)).await, None);
}

/// Waits for this number of turns of the scheduler, in which other tasks run.
async fn turns(count: u64) {
    for _ in 0..count {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_calls_do_not_shift_answers_to_other_callers() {
    let Some(server) = server::given() else { return };
    let volume = Volume::new(&server);
    let store = Arc::new(volume.open().await);
    let all: Vec<Write> = (0..200).map(|number| put(point(number), &number.to_string())).collect();
    write(&*store, all).await;
    let cancelled = Arc::new(AtomicU64::new(0));
    let callers = (0..16_u64).map(|caller| {
        let (store, cancelled) = (Arc::clone(&store), Arc::clone(&cancelled));
        async move {
            for turn in 0..300_u64 {
                let wanted = (caller * 31 + turn * 7) % 200;
                let read = [Read::Record { key: point(wanted), follow: None }];
                if turn % 2 == 0 {
                    // Counts turns of the scheduler, not time: then a caller with no turns has
                    // always gone before its answer, on any machine.
                    let patience = (1 << (turn / 2 % 8)) >> 1;
                    tokio::select! {
                        biased;
                        answer = store.read(&read) => drop(answer.expect("answered")),
                        () = turns(patience) => {
                            cancelled.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                    continue;
                }
                let found = store.read(&read).await.expect("answered");
                let ReadResult::Record(Some(entry)) = &found[0] else { panic!("{found:?}") };
                assert_eq!(entry.value, wanted.to_string(), "the answer of another call");
            }
        }
    });
    futures::future::join_all(callers).await;
    assert!(cancelled.load(Ordering::Relaxed) > 100, "{cancelled:?} calls were cut short");
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_scripts_are_sent_again() {
    let Some(server) = server::own() else { return };
    let store = RedisStore::open(&server.url(), RedisOptions::default()).await.expect("a store");
    let mut connection = server::connection(&server.url());
    for round in 1..=3 {
        let mut flush = redis::cmd("SCRIPT");
        flush.arg("FLUSH").arg("SYNC").query::<()>(&mut connection).expect("flushed");
        write(&store, [Write::Add(counter(1), 1)]).await;
        assert_eq!(number(&store, counter(1)).await, round);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_to_a_hanging_server_time_out() {
    let Some(server) = server::own() else { return };
    let store = RedisStore::open(&server.url(), RedisOptions::default()).await.expect("a store");
    write(&store, [put(point(1), "x")]).await;
    server.freeze(true);
    let begun = Instant::now();
    let plans = [plan([], [put(point(2), "x")])];
    let reads = [Read::Counter(counter(1))];
    let (committed, answered) = tokio::join!(store.commit(&plans), store.read(&reads));
    let waited = begun.elapsed();
    assert_eq!(committed.expect_err("no answer").kind(), StoreErrorKind::Unknown);
    assert_eq!(answered.expect_err("no answer").kind(), StoreErrorKind::Unavailable);
    assert!((9..13).contains(&waited.as_secs()), "{waited:?}");
    // Making a new connection fails too, and sooner.
    let begun = Instant::now();
    let error = store.commit(&plans).await.expect_err("no connection");
    assert!(begun.elapsed() < Duration::from_secs(13), "{:?}", begun.elapsed());
    assert_ne!(error.kind(), StoreErrorKind::Malformed);
    server.freeze(false);
    write(&store, [put(point(3), "x")]).await;
    assert!(record(&store, point(3)).await.is_some());
}

/// Commits that a server with `appendfsync always` acknowledged exist after any number of kills.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_killed_under_load_keeps_whole_acknowledged_commits() {
    const KILLS: u64 = 5;
    const WRITERS: u64 = 8;
    let Some(mut server) = server::own() else { return };
    let store = RedisStore::open(&server.url(), RedisOptions::default()).await.expect("a store");
    let store = Arc::new(store);
    let stop = Arc::new(AtomicU64::new(0));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (store, stop) = (Arc::clone(&store), Arc::clone(&stop));
            #[expect(clippy::disallowed_methods, reason = "the test joins it")]
            tokio::spawn(async move {
                let (mut acknowledged, mut unknown, mut tried) = (Vec::new(), 0_u64, 0_u64);
                while stop.load(Ordering::Relaxed) == 0 {
                    tried += 1;
                    let both = [
                        put(key(writer, &tried.to_string()), "left"),
                        put(point(writer << 32 | tried), &"right".repeat(500)),
                    ];
                    match store.commit(&[plan([], both)]).await {
                        Ok(_) => acknowledged.push(tried),
                        Err(error) if error.kind() == StoreErrorKind::Unknown => unknown += 1,
                        Err(error) => {
                            assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
                            tokio::time::sleep(Duration::from_millis(10)).await;
                        }
                    }
                }
                (acknowledged, unknown, tried)
            })
        })
        .collect();
    let mut slowest = Duration::ZERO;
    for round in 0..KILLS {
        tokio::time::sleep(Duration::from_millis(400)).await;
        server.kill();
        tokio::time::sleep(Duration::from_millis(50)).await;
        server.restart();
        let back = Instant::now();
        while store.commit(&[plan([], [put(point(round), "back")])]).await.is_err() {
            assert!(back.elapsed() < Duration::from_secs(2), "not recovered");
        }
        slowest = slowest.max(back.elapsed());
    }
    stop.store(1, Ordering::Relaxed);
    let (mut all, mut in_doubt) = (0, 0);
    for (writer, task) in (0..WRITERS).zip(writers) {
        let (acknowledged, unknown, tried) = task.await.expect("a writer");
        for number in &acknowledged {
            let left = record(&*store, key(writer, &number.to_string())).await;
            assert!(left.is_some(), "{writer}/{number} was acknowledged and is gone");
        }
        for number in 1..=tried {
            let left = record(&*store, key(writer, &number.to_string())).await.is_some();
            let right = record(&*store, point(writer << 32 | number)).await.is_some();
            assert_eq!(left, right, "{writer}/{number} is torn");
        }
        all += acknowledged.len();
        in_doubt += unknown;
    }
    assert!(all > 200 && in_doubt > 0, "{all} acknowledged, {in_doubt} in doubt: that was no test");
    println!("{all} acknowledged, {in_doubt} in doubt, recovered within {slowest:?}");
}

/// A walk cannot continue after the server was restarted, and returns an error instead of skipping
/// records.
#[tokio::test(flavor = "multi_thread")]
async fn a_walk_fails_after_the_server_was_restarted() {
    const RECORDS: u64 = 3_000;
    let Some(mut server) = server::own() else { return };
    let store = RedisStore::open(&server.url(), RedisOptions::default()).await.expect("a store");
    let all: Vec<Write> = (0..RECORDS).map(|number| put(point(number), "x")).collect();
    write(&store, all).await;
    let space = store::Space(b'I');
    let first = store.walk(space, None, 100).await.expect("a page");
    assert!(first.resume.is_some(), "that was all");
    let second = store.walk(space, first.resume.clone(), 100).await.expect("a page");
    server.kill();
    server.restart();
    while store.read(&[]).await.is_err() {}
    for resume in [first.resume, second.resume] {
        let error = store.walk(space, resume, 100).await.expect_err("another run");
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("restarted"), "{error}");
    }
    let (mut seen, mut resume) = (std::collections::BTreeSet::new(), None);
    loop {
        let page = store.walk(space, resume, 500).await.expect("a page");
        seen.extend(page.records.into_iter().map(|(key, _)| key));
        resume = page.resume;
        if resume.is_none() {
            break;
        }
    }
    assert_eq!(seen, (0..RECORDS).map(point).collect());
    for bytes in [&b""[..], b"1", b"x:y", b"-1:y", &[0xff; 9]] {
        let resume = Some(bytes::Bytes::copy_from_slice(bytes));
        let error = store.walk(space, resume, 1).await.expect_err("no place to go on");
        assert_eq!(error.kind(), StoreErrorKind::Malformed, "{error}");
    }
}
