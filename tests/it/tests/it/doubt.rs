//! Connections to the database that break during a commit. Acknowledged writes stay, writes without
//! a known outcome are applied at most once, and blocks of such writes are not deleted too early.

use std::time::{Duration, Instant};

use proxy::{Cut, Proxy};

use crate::client::{Answer, Client, Request};
use crate::content::bytes;
use crate::fleet::{BlockKind, Engine, Fleet, on_each_server, on_servers_together};
use crate::load::{Load, MARK, Planted, Progress};
use crate::scale;
use crate::servers::wait_for;

on_each_server!(
    cut_connections_lose_and_repeat_nothing,
    requests_fail_in_time_while_the_database_is_unreachable
);
on_servers_together!(
    an_unknown_outcome_is_reported_and_settled_later,
    requests_fail_in_time_while_the_database_hangs
);

/// The time limit of an error while the database is unreachable.
const DEADLINE: Duration = Duration::from_secs(5);

/// The time limit of recovery once the database is reachable again.
const RECOVERY: Duration = Duration::from_secs(5);

/// The duration of the outage.
const OUTAGE: Duration = Duration::from_secs(4);

/// The least number of responses, however long they take.
const ENOUGH: u64 = 800;

/// The pause between two cuts.
const PAUSE: Duration = Duration::from_millis(60);

/// Returns bytes of the request that commits a small body.
fn commit_of(engine: Engine) -> &'static [u8] {
    match engine {
        // MariaDB gets the commit as a separate request, after the writes.
        Engine::Mysql => b"COMMIT",
        _ => MARK,
    }
}

/// The least number of cuts, however long they take.
const CUTS: u64 = 12;

/// Cuts connections for a while, in alternating ways. Returns the number of cuts.
fn disturb(proxy: &Proxy, engine: Engine, progress: &Progress) -> u64 {
    let end = Instant::now() + scale::load();
    progress.wait_for_more(50);
    for turn in 0.. {
        if Instant::now() > end && proxy.cuts() >= CUTS {
            break;
        }
        let cut = if turn % 2 == 0 { Cut::AfterReply } else { Cut::BeforeRequest };
        let needle = if turn % 3 == 2 { &b""[..] } else { commit_of(engine) };
        let before = proxy.cuts();
        proxy.cut(cut, needle, 1 + turn % 2);
        let happened = wait_for(Duration::from_secs(20), || proxy.cuts() > before);
        assert!(happened, "no request came that could be cut");
        std::thread::sleep(PAUSE + Duration::from_millis(turn * 31 % 90));
        // Every fourth turn lets the clients make progress, since one client may meet only cuts
        // twice in a row.
        if turn % 4 == 3 {
            proxy.cut(cut, b"", 0);
            progress.wait_for_more(20);
        }
    }
    proxy.cut(Cut::AfterReply, b"", 0);
    progress.wait_for_at_least(ENOUGH);
    proxy.cuts()
}

fn cut_connections_lose_and_repeat_nothing(engine: Engine) {
    let Some(fleet) = Fleet::new(engine, BlockKind::Folder) else { return };
    let proxy = Proxy::start(fleet.address()).expect("a proxy");
    let behind = fleet.through(&fleet.first, proxy.address()).start();
    let beside = fleet.second().start();
    behind.client.put("/box", b"").expect(200);
    let clients = [behind.client.clone(), beside.client.clone()];
    let mut load = Load::new("hot", Planted::None);
    let cuts = load.run(&clients, |progress| disturb(&proxy, engine, progress));
    let works = wait_for(RECOVERY, || clients[0].put("/box/after", b"").status == 200);
    assert!(works, "it does not work again:\n{}", behind.log());
    load.read_all(&clients);
    let figures = load.is_linearizable();
    assert_eq!(figures.of("cut"), 0, "every request has an answer: {figures}");
    let doubts = behind.counter("ashlar_metadata_plans_in_doubt_total ");
    let unresolved = behind.counter("ashlar_metadata_plans_unresolved_total ");
    eprintln!(
        "{}: {cuts} cuts, {doubts} plans in doubt, {unresolved} of them not resolved in time: \
         {figures}",
        engine.name()
    );
    assert!(cuts >= CUTS, "only {cuts} cuts");
    assert!(doubts > unresolved, "no doubt was resolved");
    fleet.stop_and_check(vec![behind, beside]);
}

/// The time limit of an error about an unknown outcome or a silent database: 10 seconds for a read,
/// 10 for the commit after it, and some margin for each.
const GIVEN_UP: Duration = Duration::from_secs(25);

/// Number of tries to lose the connection during the commit.
const TRIES: u64 = 10;

/// Sends one PUT, cuts its commit, and makes the database unreachable from that moment. Returns the
/// response and the content.
fn lose_sight(
    client: &Client,
    proxy: &Proxy,
    cut: Cut,
    needle: &[u8],
    seed: u64,
) -> (Answer, Vec<u8>) {
    let content = [MARK, &bytes(seed, 100)].concat();
    let put = Request::new("PUT", "/box/object").body(&content[..]);
    let answer = std::thread::scope(|scope| {
        let before = proxy.cuts();
        proxy.cut(cut, needle, 1);
        let answer = scope.spawn(|| client.send(&put));
        // The gateway retries within milliseconds, so this loop does not sleep.
        while proxy.cuts() == before && !answer.is_finished() {
            std::hint::spin_loop();
        }
        proxy.close(true);
        proxy.cut(cut, b"", 0);
        answer.join().expect("the client does not panic")
    });
    (answer, content)
}

fn an_unknown_outcome_is_reported_and_settled_later(engine: Engine) {
    let Some(fleet) = Fleet::new(engine, BlockKind::Folder) else { return };
    let proxy = Proxy::start(fleet.address()).expect("a proxy");
    let behind = fleet.through(&fleet.first, proxy.address()).start();
    let beside = fleet.second().start();
    let client = &behind.client;
    client.put("/box", b"").expect(200);
    client.put("/box/object", b"before").expect(200);
    let mut last = b"before".to_vec();
    for cut in [Cut::AfterReply, Cut::BeforeRequest] {
        let mut told = false;
        for seed in 0..TRIES {
            let began = Instant::now();
            let (answer, content) = lose_sight(client, &proxy, cut, commit_of(engine), seed);
            let took = began.elapsed();
            told =
                answer.status == 503 && answer.text().contains("outcome of the request is unknown");
            assert!(took < GIVEN_UP, "the client waited for {took:?}");
            proxy.close(false);
            let works = || client.send(&Request::new("PUT", "/box/probe")).status == 200;
            assert!(wait_for(RECOVERY, works), "{}", behind.log());
            let settled = || behind.log().contains("the unknown outcomes of a batch are settled");
            assert!(!told || wait_for(RECOVERY, settled), "{}", behind.log());
            let found = beside.client.get("/box/object").expect(200).body;
            let possible = match (answer.status, cut) {
                (200, _) => found == content,
                // The database applied the commit in the first case and never received it in the
                // second. One connection to etcd carries all calls, so the reply may be that of
                // another one.
                (503, Cut::AfterReply) if told && engine != Engine::Etcd => found == content,
                (503, Cut::BeforeRequest) => found == last,
                (503, _) => found == content || found == last,
                _ => false,
            };
            assert!(possible, "{cut:?}, status {}: {}", answer.status, answer.text());
            last = found;
            if told {
                break;
            }
        }
        assert!(told, "{cut:?}: in {TRIES} tries the outcome was known every time");
    }
    fleet.stop_and_check(vec![behind, beside]);
}

/// The time after which a gateway without peers stops answering from its cache.
const REMEMBERED: Duration = Duration::from_secs(1);

/// The database is silent and its connections stay open. Clients get errors in time, and are served
/// again once the database continues.
fn requests_fail_in_time_while_the_database_hangs(engine: Engine) {
    let Some(fleet) = Fleet::new(engine, BlockKind::Folder) else { return };
    let gateway = fleet.first.start();
    let client = &gateway.client;
    client.put("/box", b"").expect(200);
    client.put("/box/object", b"before").expect(200);
    let database = fleet.database.as_ref().expect("a server");
    database.freeze(true);
    std::thread::sleep(REMEMBERED);
    let slowest = std::thread::scope(|scope| {
        let asked: Vec<_> = ["GET", "PUT", "DELETE", "HEAD", "PUT", "GET"]
            .into_iter()
            .map(|method| {
                scope.spawn(move || {
                    let began = Instant::now();
                    let answer = client.send(&Request::new(method, "/box/object"));
                    assert_eq!(answer.status, 503, "{method}: {}", answer.text());
                    began.elapsed()
                })
            })
            .collect();
        asked.into_iter().map(|asked| asked.join().expect("the request gets an error")).max()
    });
    let slowest = slowest.unwrap_or_default();
    assert!(slowest < GIVEN_UP, "a client waited for {slowest:?}");
    database.freeze(false);
    let back = Instant::now();
    let put = Request::new("PUT", "/box/object").body("after");
    assert!(wait_for(RECOVERY * 4, || client.send(&put).status == 200), "{}", gateway.log());
    let took = back.elapsed();
    eprintln!("{}: given up within {slowest:?}, served again after {took:?}", engine.name());
    assert!(took < RECOVERY, "it took {took:?} until it served again");
    assert_eq!(client.get("/box/object").expect(200).text(), "after");
    fleet.stop_and_check(vec![gateway]);
}

/// Sends a request while the database is unreachable. Fails unless an error comes in time. Returns
/// the elapsed time.
#[track_caller]
fn is_refused_in_time(client: &Client, request: &Request) -> Duration {
    let began = Instant::now();
    let answer = client.send(request);
    let took = began.elapsed();
    assert_eq!(answer.status, 503, "{request:?}: {}", answer.text());
    assert!(took < DEADLINE, "{request:?} took {took:?}");
    took
}

fn requests_fail_in_time_while_the_database_is_unreachable(engine: Engine) {
    let Some(fleet) = Fleet::new(engine, BlockKind::Folder) else { return };
    let proxy = Proxy::start(fleet.address()).expect("a proxy");
    let behind = fleet.through(&fleet.first, proxy.address()).start();
    let beside = fleet.second().start();
    let client = &behind.client;
    client.put("/box", b"").expect(200);
    client.put("/box/object", &bytes(1, 50_000)).expect(200);
    proxy.close(true);
    let out = Instant::now();
    let (mut slowest, mut refused) = (Duration::ZERO, 0);
    while out.elapsed() < OUTAGE {
        let content = bytes(2, 50_000);
        for request in [
            Request::new("GET", "/box/object"),
            Request::new("PUT", "/box/object").body(&content[..]),
            Request::new("PUT", "/box/other").body("small"),
            Request::new("DELETE", "/box/object"),
            Request::new("GET", "/box?list-type=2"),
            Request::new("PUT", "/another-box"),
        ] {
            slowest = slowest.max(is_refused_in_time(client, &request));
            refused += 1;
        }
    }
    let read = beside.client.get("/box/object").expect(200);
    assert!(read.body == bytes(1, 50_000), "the object is unchanged in the database");
    assert_eq!(client.get("/-/healthy").status, 200);
    assert_eq!(client.get("/-/ready").status, 503);
    proxy.close(false);
    let back = Instant::now();
    let put = Request::new("PUT", "/box/object").body(bytes(3, 50_000));
    assert!(wait_for(RECOVERY * 4, || client.send(&put).status == 200), "{}", behind.log());
    let took = back.elapsed();
    assert!(wait_for(RECOVERY, || client.get("/-/ready").status == 200), "not ready");
    eprintln!(
        "{}: {refused} requests refused within {slowest:?}, served again after {took:?}",
        engine.name()
    );
    assert!(took < RECOVERY, "it took {took:?} until it served again");
    let read = beside.client.get("/box/object").expect(200);
    assert!(read.body == bytes(3, 50_000), "later writes are visible");
    assert_eq!(beside.client.keys("box", "", 1000), ["object"], "nothing else was written");
    fleet.stop_and_check(vec![behind, beside]);
}
