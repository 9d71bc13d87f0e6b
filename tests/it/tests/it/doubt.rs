//! Connections to the database that break in the middle of a commit: what was told stands, what
//! could not be told happened at most once, and nothing is cleaned up that is in doubt.

use std::time::{Duration, Instant};

use proxy::{Cut, Proxy};

use crate::client::{Client, Request};
use crate::content::bytes;
use crate::fleet::{Engine, Fleet, Place, on_each_server};
use crate::load::{Load, Planted, Pulse};
use crate::scale;
use crate::servers::wait_for;

on_each_server!(cut_connections_lose_and_repeat_nothing, a_database_out_of_reach_is_told_in_time,);

/// How long a request may take to say that the database cannot be reached.
const DEADLINE: Duration = Duration::from_secs(5);

/// How soon it works again once the database can be reached.
const RECOVERY: Duration = Duration::from_secs(5);

/// How long the database is out of reach.
const OUTAGE: Duration = Duration::from_secs(4);

/// A pause between two cuts.
const PAUSE: Duration = Duration::from_millis(60);

/// What a commit looks like on the wire; nothing where any request may be one.
fn commit_of(engine: Engine) -> &'static [u8] {
    match engine {
        Engine::Mysql => b"COMMIT",
        Engine::Redis => b"EVALSHA",
        Engine::Sqlite | Engine::Postgres => b"",
    }
}

/// Cuts connections for a while, each time in another way; how often it did.
fn disturb(proxy: &Proxy, engine: Engine, pulse: &Pulse) -> u64 {
    let end = Instant::now() + scale::load();
    pulse.wait_for_more(50);
    for turn in 0.. {
        if Instant::now() > end {
            break;
        }
        let cut = if turn % 2 == 0 { Cut::AfterReply } else { Cut::BeforeRequest };
        let needle = if turn % 3 == 2 { &b""[..] } else { commit_of(engine) };
        let before = proxy.cuts();
        proxy.cut(cut, needle, 1 + turn % 2);
        let happened = wait_for(Duration::from_secs(20), || proxy.cuts() > before);
        assert!(happened, "no request came that could be cut");
        std::thread::sleep(PAUSE + Duration::from_millis(turn * 31 % 90));
        // Twice in a row the same client meets nothing but cuts; then it shall get on.
        if turn % 4 == 3 {
            proxy.cut(cut, b"", 0);
            pulse.wait_for_more(20);
        }
    }
    proxy.cut(Cut::AfterReply, b"", 0);
    proxy.cuts()
}

fn cut_connections_lose_and_repeat_nothing(engine: Engine) {
    let Some(fleet) = Fleet::new(engine, Place::Folder) else { return };
    let proxy = Proxy::start(fleet.address()).expect("a proxy");
    let behind = fleet.by_way_of(&fleet.first, proxy.address()).start();
    let beside = fleet.second().start();
    behind.client.put("/box", b"").expect(200);
    let clients = [behind.client.clone(), beside.client.clone()];
    let mut load = Load::new("hot", Planted::None);
    let cuts = load.run(&clients, |pulse| disturb(&proxy, engine, pulse));
    let works = wait_for(RECOVERY, || clients[0].put("/box/after", b"").status == 200);
    assert!(works, "it does not work again:\n{}", behind.log());
    load.read_all(&clients);
    let figures = load.is_linearizable();
    assert_eq!(figures.of("cut"), 0, "every request has an answer: {figures}");
    let fate =
        |fate: &str| behind.counter(&format!("ashlar_volume_plans_total{{fate=\"{fate}\"}}"));
    let (doubts, unresolved) = (fate("in_doubt"), fate("unresolved"));
    eprintln!(
        "{}: {cuts} cuts, {doubts} plans in doubt, {unresolved} of them not resolved in time: \
         {figures}",
        engine.name()
    );
    assert!(cuts >= scale::load().as_secs(), "only {cuts} cuts");
    assert!(doubts > unresolved, "no doubt was resolved");
    fleet.ends_tidy(vec![behind, beside]);
}

/// What a client is told while the database is out of reach, in time.
#[track_caller]
fn is_refused_in_time(client: &Client, request: &Request) -> Duration {
    let began = Instant::now();
    let answer = client.send(request);
    let took = began.elapsed();
    assert_eq!(answer.status, 503, "{request:?}: {}", answer.text());
    assert!(took < DEADLINE, "{request:?} took {took:?}");
    took
}

fn a_database_out_of_reach_is_told_in_time(engine: Engine) {
    let Some(fleet) = Fleet::new(engine, Place::Folder) else { return };
    let proxy = Proxy::start(fleet.address()).expect("a proxy");
    let behind = fleet.by_way_of(&fleet.first, proxy.address()).start();
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
    assert!(read.body == bytes(1, 50_000), "whoever reaches the database finds it unchanged");
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
    assert!(read.body == bytes(3, 50_000), "what is written then is seen");
    assert_eq!(beside.client.keys("box", "", 1000), ["object"], "nothing else was written");
    fleet.ends_tidy(vec![behind, beside]);
}
