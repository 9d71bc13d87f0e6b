//! What requests cost in round trips to the metadata store: the same on every engine, and no more
//! than one where that is possible. The gateway says it itself, in a line for each request; that a
//! call is one trip to the server (for MariaDB two, if it commits) is tested by each engine's crate.

use crate::client::Request;
use crate::fleet::{Engine, Fleet, Place, on_each_engine};
use crate::servers::Gateway;
use crate::sole::is_sole;

on_each_engine!(requests_cost_the_same_round_trips, the_only_gateway_reads_without_round_trips);

/// Reads and commits of the newest request of an operation.
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

/// What is asked for, the request, its status and operation, and its reads and commits.
type Step<'a> = (&'a str, Request, u16, &'a str, (u64, u64));

fn requests_cost_the_same_round_trips(engine: Engine) {
    let Some(fleet) = Fleet::new(engine, Place::Folder) else { return };
    // As with a second gateway beside it.
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
        // The condition is looked at before the body is taken, and decided by the commit.
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
        ("what is gone", Request::new("GET", "/box/a/b/new"), 404, "GetObject", (1, 0)),
    ];
    for (what, request, status, operation, cost) in steps {
        client.send(&request).expect(status);
        assert_eq!(trips(&gateway, operation), cost, "reads and commits of {what}");
    }
    fleet.ends_tidy(vec![gateway]);
}

/// On a busy machine a gateway may have to find out again that it is the only one: then it is asked again.
const TRIES: u32 = 5;

fn the_only_gateway_reads_without_round_trips(engine: Engine) {
    let Some(fleet) = Fleet::new(engine, Place::Folder) else { return };
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
        ("what is gone", new(), 404, "GetObject", (0, 0)),
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
    // Its directory was made here, and is known whole unless the gateway thought that it had company.
    client.send(&Request::new("GET", "/box/a/none")).expect(404);
    let (reads, commits) = trips(&gateway, "GetObject");
    assert!(reads <= 1 && commits == 0, "what never was: {reads} reads");
    fleet.ends_tidy(vec![gateway]);
}
