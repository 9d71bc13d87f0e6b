//! The number of round trips of requests to the metadata store: the same on each engine, and one
//! where that is possible. The gateway logs it for each request. Tests of the engines' crates check
//! that a call is one round trip to the server (two for a commit with MariaDB).

use crate::client::{Line, Request};
use crate::fleet::{BlockKind, Engine, Fleet, on_each_engine, on_each_server};
use crate::mounted::{LoneMount, can_mount};
use crate::servers::{Gateway, metric, wait_for};
use crate::sole::is_sole;

on_each_engine!(
    requests_cost_the_same_round_trips,
    a_gateway_without_peers_reads_without_round_trips
);
on_each_server!(idle_peers_cost_a_busy_gateway_nothing);

/// Returns the reads and commits of the latest request of an operation.
#[track_caller]
pub(crate) fn trips(gateway: &Gateway, operation: &str) -> (u64, u64) {
    let log = gateway.log_of_this_run();
    let wanted = format!("operation=\"{operation}\"");
    let line = log.lines().rev().find(|line| line.contains(&wanted));
    let line = line.unwrap_or_else(|| panic!("no {operation} in\n{log}"));
    let number = |name: &str| {
        let value = line.split_whitespace().find_map(|word| word.strip_prefix(name)).expect(name);
        value.parse().expect("a number")
    };
    (number("reads="), number("commits="))
}

/// A name for failures, the request, its status, its operation, and its reads and commits.
type Step<'a> = (&'a str, Request, u16, &'a str, (u64, u64));

fn requests_cost_the_same_round_trips(engine: Engine) {
    let Some(fleet) = Fleet::new(engine, BlockKind::Folder) else { return };
    // Without authoritative reads, as if a second gateway existed.
    let options = ["--log", "info,access=debug", "--authoritative-reads", "false"];
    let gateway = fleet.first.clone().options(&options).start();
    let client = &gateway.client;
    client.put("/box", b"").expect(200);
    client.put("/box/a/b/known", b"x").expect(200);
    let small = |key: &str| Request::new("PUT", key).body("small");
    let steps: [Step; 11] = [
        ("a new object", small("/box/a/b/new"), 200, "PutObject", (0, 1)),
        ("an overwrite", small("/box/a/b/new"), 200, "PutObject", (0, 1)),
        ("into new directories", small("/box/c/d/e/new"), 200, "PutObject", (0, 1)),
        // The gateway reads for the condition before it accepts the body; the commit decides it.
        (
            "a creation",
            small("/box/a/b/once").header("if-none-match", "*"),
            200,
            "PutObject",
            (1, 1),
        ),
        (
            "a body in a block",
            Request::new("PUT", "/box/a/large").body(vec![7; 50_000]),
            200,
            "PutObject",
            (0, 1),
        ),
        ("its bytes", Request::new("GET", "/box/a/large"), 200, "GetObject", (1, 0)),
        ("a small object's bytes", Request::new("GET", "/box/a/b/new"), 200, "GetObject", (1, 0)),
        ("its headers", Request::new("HEAD", "/box/a/b/new"), 200, "HeadObject", (1, 0)),
        (
            "a page of a directory",
            Request::new("GET", "/box?list-type=2&delimiter=%2F&prefix=a%2Fb%2F"),
            200,
            "ListObjectsV2",
            (1, 0),
        ),
        ("a deletion", Request::new("DELETE", "/box/a/b/new"), 204, "DeleteObject", (0, 1)),
        ("a deleted object", Request::new("GET", "/box/a/b/new"), 404, "GetObject", (1, 0)),
    ];
    for (what, request, status, operation, cost) in steps {
        client.send(&request).expect(status);
        assert_eq!(trips(&gateway, operation), cost, "reads and commits of {what}");
    }
    fleet.stop_and_check(vec![gateway]);
}

/// Number of tries. On a busy machine the gateway may have to establish again that it has no peer.
const TRIES: u32 = 5;

fn a_gateway_without_peers_reads_without_round_trips(engine: Engine) {
    let Some(fleet) = Fleet::new(engine, BlockKind::Folder) else { return };
    let gateway = fleet.first.clone().options(&["--log", "info,access=debug"]).start();
    let client = &gateway.client;
    client.put("/box", b"").expect(200);
    client.put("/box/a/b/known", b"x").expect(200);
    is_sole(&gateway, "/box/a/b/known");
    let large = Request::new("PUT", "/box/a/large").body(vec![7; 50_000]);
    let new = || Request::new("GET", "/box/a/b/new");
    let steps: [Step; 7] = [
        ("a new object", Request::new("PUT", "/box/a/b/new").body("s"), 200, "PutObject", (0, 1)),
        ("its bytes", new(), 200, "GetObject", (0, 0)),
        ("its headers", Request::new("HEAD", "/box/a/b/new"), 200, "HeadObject", (0, 0)),
        ("a body that is staged inline", large, 200, "PutObject", (0, 1)),
        ("its bytes", Request::new("GET", "/box/a/large"), 200, "GetObject", (0, 0)),
        ("a deletion", Request::new("DELETE", "/box/a/b/new"), 204, "DeleteObject", (0, 1)),
        ("a deleted object", new(), 404, "GetObject", (0, 0)),
    ];
    for (what, request, status, operation, cost) in steps {
        client.send(&request).expect(status);
        for _ in 1..TRIES {
            if trips(&gateway, operation) == cost || ["PUT", "DELETE"].contains(&&*request.method) {
                break;
            }
            is_sole(&gateway, "/box/a/b/known");
            client.send(&request).expect(status);
        }
        assert_eq!(trips(&gateway, operation), cost, "reads and commits of {what}");
    }
    // The gateway created this directory, so it knows all its entries, unless it assumed a peer
    // meanwhile.
    client.send(&Request::new("GET", "/box/a/none")).expect(404);
    let (reads, commits) = trips(&gateway, "GetObject");
    assert!(reads <= 1 && commits == 0, "a missing key: {reads} reads");
    fleet.stop_and_check(vec![gateway]);
}

/// Number of reads and of writes beside idle peers.
const BESIDE: usize = 60;

/// The time limit until a gateway has leases of its peers.
const LEASED_WITHIN: std::time::Duration = std::time::Duration::from_mins(1);

/// A gateway and a mount that are idle cost a busy gateway no round trip of a read and no message
/// of a write.
fn idle_peers_cost_a_busy_gateway_nothing(engine: Engine) {
    if !can_mount() {
        return;
    }
    let Some(fleet) = Fleet::new(engine, BlockKind::Folder) else { return };
    let busy = fleet.first.clone().more_options(&["--log", "info,access=debug"]).start();
    let idle = fleet.second().start();
    let third = fleet.first.sibling("third");
    let mount = LoneMount::start(&third, &third.folder.join("mount"), &[]);
    busy.client.put("/box", b"").expect(200);
    busy.client.put("/box/a/key", b"x").expect(200);
    (0..3).for_each(|n| drop(idle.client.put(&format!("/box/listed/{n}"), b"x").expect(200)));
    let mut line = Line::new(&busy.client);
    let mut send = |request: &Request| line.send(request).expect("an answer").expect(200);
    let get = Request::new("GET", "/box/a/key");
    let leased = || {
        (0..30).for_each(|_| drop(send(&get)));
        busy.counter("ashlar_session_reads_from{from=\"leased\"}") == 1
    };
    assert!(wait_for(LEASED_WITHIN, leased), "no lease:\n{}", busy.admin_page("/status"));
    let trips_of = |operation: &str| {
        busy.counter(&format!("ashlar_metadata_round_trips_total{{operation=\"{operation}\"}}"))
    };
    let notices = || busy.counter("ashlar_session_notices_total ");
    let before = (trips_of("read"), notices());
    let mut free = 0;
    for _ in 0..BESIDE {
        send(&get);
        free += usize::from(trips(&busy, "GetObject") == (0, 0));
    }
    assert!(free > BESIDE * 9 / 10, "{free} of {BESIDE} warm GETs cost no round trip");
    let list = Request::new("GET", "/box?list-type=2&delimiter=%2F&prefix=listed%2F");
    let mut free = 0;
    for _ in 0..BESIDE {
        send(&list);
        free += usize::from(trips(&busy, "ListObjectsV2") == (0, 0));
    }
    assert!(free > BESIDE * 9 / 10, "{free} of {BESIDE} listings cost no round trip");
    for idle in [idle.admin_page("/metrics"), mount.metrics()] {
        assert_eq!(metric(&idle, "ashlar_session_reads_from{from=\"leased\"}"), 0);
        assert_eq!(metric(&idle, "ashlar_session_leases_given "), 1, "the busy gateway has one");
    }
    for n in 0..BESIDE {
        send(&Request::new("PUT", &format!("/box/a/{n}")).body("small"));
        assert_eq!(trips(&busy, "PutObject"), (0, 1), "reads and commits of PUT {n}");
    }
    // Background work reads sometimes.
    let reads = trips_of("read") - before.0;
    assert!(reads < BESIDE as u64 / 2, "{reads} reads went to the store");
    assert_eq!(notices() - before.1, 0, "an idle peer got notices");
    assert_eq!(busy.counter("ashlar_session_leases_given "), 0);
    mount.stop();
    fleet.stop_and_check(vec![busy, idle]);
}
