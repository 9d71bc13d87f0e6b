//! Access keys with ends, groups and tokens, over each engine. Commands change them while gateways
//! serve, and each gateway follows.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::client::Client;
use crate::fleet::{BlockKind, Engine, Fleet, clients, on_each_engine};
use crate::servers::{Gateway, Setup, wait_for};

on_each_engine!(
    commands_manage_keys_groups_and_tokens,
    a_key_is_rotated_under_load_without_a_refused_request
);

/// The time limit until gateways know a change, on a busy machine. It usually takes a fraction of a
/// second.
const HEARD: Duration = Duration::from_secs(5);

/// The rest of the life of a key in these tests. A command decides on the end while it runs: not
/// earlier than this time after its start, and not later than this time after it ended.
const LIFE: Duration = Duration::from_secs(8);

/// The time after the latest end of a key at which each gateway refuses it.
const MARGIN: Duration = Duration::from_secs(1);

/// The time after which clients change to a new key, before the end of the old one.
const CHANGE: Duration = Duration::from_secs(5);

/// The pause of a client between two requests. Without it, the clients would use all cores until
/// the old key ends.
const PAUSE: Duration = Duration::from_millis(20);

/// Runs a command that must succeed, and returns its output.
#[track_caller]
fn run(setup: &Setup, command: &str, arguments: &[&str]) -> String {
    let (status, said) = setup.run(command, arguments);
    assert!(status.success(), "{command} {arguments:?}: {said}");
    said
}

/// Runs a command that must fail with a sentence that contains `part`.
#[track_caller]
fn refused(setup: &Setup, command: &str, arguments: &[&str], part: &str) {
    let (status, said) = setup.run(command, arguments);
    assert!(!status.success() && said.contains(part), "{command} {arguments:?}: {said}");
}

/// Returns the text behind a label in the output of a command.
#[track_caller]
fn labelled<'s>(said: &'s str, label: &str) -> &'s str {
    let found = said.lines().find_map(|line| line.strip_prefix(label));
    found.unwrap_or_else(|| panic!("no {label:?} in {said}")).trim()
}

/// Returns a client with the key in the output of a command.
#[track_caller]
fn client(said: &str, at: &Client) -> Client {
    let (key, secret) = (labelled(said, "access key"), labelled(said, "secret key"));
    Client { address: at.address.clone(), key: key.to_owned(), secret: secret.to_owned() }
}

/// The same credentials at another gateway.
fn at(client: &Client, gateway: &Client) -> Client {
    Client { address: gateway.address.clone(), ..client.clone() }
}

/// Waits until a request of the client has this result: a status, or the code of an error.
#[track_caller]
fn hears(client: &Client, path: &str, result: &str) {
    let mut last = String::new();
    let heard = wait_for(HEARD, || {
        let answer = client.get(path);
        last = if answer.status == 200 { "200".to_owned() } else { answer.code() };
        last == result
    });
    assert!(heard, "{path} has the result {last} and not {result}");
}

fn start(fleet: &Fleet, engine: Engine) -> Vec<Gateway> {
    let mut gateways = vec![fleet.first.clone().start()];
    if engine != Engine::Sqlite {
        gateways.push(fleet.second().start());
    }
    gateways
}

fn commands_manage_keys_groups_and_tokens(engine: Engine) {
    let Some(fleet) = Fleet::new(engine, BlockKind::Folder) else { return };
    let gateways = start(&fleet, engine);
    let [one, other] = clients(&gateways);
    one.put("/box", b"").expect(200);
    one.put("/box/key", b"hello").expect(200);
    let setup = &fleet.first;

    // A user without policies of its own has those of its group.
    let anna = client(&run(setup, "user", &["add", "anna"]), &other);
    run(setup, "group", &["add", "lab", "--policy", "readonly"]);
    refused(setup, "group", &["add", "lab"], "it exists");
    run(setup, "group", &["join", "lab", "anna"]);
    hears(&anna, "/box/key", "200");

    // A further key acts for its user, also at the other gateway, and ends at its time.
    let command = ["add", "anna", "--description", "the laptop", "--expires", "8s"];
    let laptop = client(&run(setup, "key", &command), &one);
    let added = Instant::now();
    let laptop = at(&laptop, &other);
    hears(&laptop, "/box/key", "200");
    run(setup, "group", &["set", "lab", "--enabled", "false"]);
    hears(&anna, "/box/key", "AccessDenied");
    run(setup, "group", &["set", "lab", "--enabled", "true"]);
    hears(&anna, "/box/key", "200");
    // No record changes at the end of the key, so this does not depend on the change feed.
    std::thread::sleep((LIFE + MARGIN).saturating_sub(added.elapsed()));
    assert_eq!(laptop.get("/box/key").code(), "InvalidAccessKeyId", "it has expired");
    anna.get("/box/key").expect(200);
    let listed = run(setup, "key", &["list", "anna"]);
    assert!(listed.contains("the laptop") && listed.lines().count() == 2, "{listed}");
    run(setup, "key", &["set", &laptop.key, "--expires", "never"]);
    hears(&laptop, "/box/key", "200");
    run(setup, "key", &["disable", &laptop.key]);
    hears(&laptop, "/box/key", "InvalidAccessKeyId");
    run(setup, "key", &["enable", &laptop.key]);
    hears(&laptop, "/box/key", "200");

    // A disabled user has no keys.
    run(setup, "user", &["disable", "anna"]);
    hears(&laptop, "/box/key", "InvalidAccessKeyId");
    hears(&anna, "/box/key", "InvalidAccessKeyId");
    run(setup, "user", &["enable", "anna"]);
    hears(&anna, "/box/key", "200");

    // A token is not an access key of S3.
    let said = run(setup, "token", &["add", "--action", "admin:List*", "--user", "anna"]);
    let (name, text) = (labelled(&said, "access key"), labelled(&said, "token"));
    let secret = text.rsplit('_').next().expect("a secret").to_owned();
    let bearer = Client { address: other.address.clone(), key: name.to_owned(), secret };
    assert_eq!(bearer.get("/box/key").code(), "InvalidAccessKeyId");
    assert!(run(setup, "token", &["list"]).contains("admin:List*"));
    refused(setup, "token", &["add", "--action", "s3:GetObject"], "the action of a token");

    refusals_and_forms(setup, &laptop.key);
    run(setup, "user", &["remove", "anna"]);
    hears(&laptop, "/box/key", "InvalidAccessKeyId");
    assert_eq!(run(setup, "token", &["list"]), "", "a token goes with its user");
    run(setup, "group", &["remove", "lab"]);
    let (status, said) = setup.run("group", &["show", "lab"]);
    assert!(!status.success(), "{said}");
}

/// Checks the refusals of changes that do not fit, and the forms of the output.
fn refusals_and_forms(setup: &Setup, further: &str) {
    refused(setup, "user", &["remove", further], "a further key or a token of the user \"anna\"");
    refused(setup, "key", &["remove", "anna"], "it is the access key of a user");
    refused(setup, "key", &["disable", "anna"], "ends this access key alone");
    refused(setup, "key", &["rotate", "bert"], "there is none of this name");
    refused(setup, "group", &["join", "lab", further], "there is no user");
    refused(setup, "group", &["remove", "lab"], "these users are members: anna");
    refused(setup, "key", &["set", "anna", "--expires", "soon"], "is not a time such as 30d");

    let shown = run(setup, "user", &["show", "anna", "--output", "json"]);
    for part in
        ["\"effective_policies\": [\n    \"readonly\"\n  ]", "\"description\": \"the laptop\""]
    {
        assert!(shown.contains(part), "{part} is not in {shown}");
    }
    assert!(run(setup, "user", &["show", "anna"]).contains("effective policies  readonly\n"));
    let listed = run(setup, "group", &["list", "--output", "json"]);
    assert!(listed.contains("\"members\": [\n      \"anna\"\n    ]"), "{listed}");
    assert_eq!(run(setup, "group", &["list"]), "lab\tyes\treadonly\tanna\n");
    let shown = run(setup, "bucket", &["show", "box"]);
    for part in ["versioning        off\n", "public\n", "policy\n", "objects           1\n"] {
        assert!(shown.contains(part), "{part:?} is not in {shown}");
    }
    let shown = run(setup, "policy", &["show", "readonly"]);
    assert!(shown.contains("\"s3:GetObject\""), "{shown}");
}

/// Clients use the old key until they have the new one. None is refused, at any gateway.
fn a_key_is_rotated_under_load_without_a_refused_request(engine: Engine) {
    let Some(fleet) = Fleet::new(engine, BlockKind::Folder) else { return };
    let gateways = start(&fleet, engine);
    let [one, other] = clients(&gateways);
    one.put("/box", b"").expect(200);
    one.put("/box/key", b"hello").expect(200);
    let setup = &fleet.first;
    let old = client(&run(setup, "user", &["add", "anna", "--policy", "readonly"]), &one);
    hears(&at(&old, &one), "/box/key", "200");
    hears(&at(&old, &other), "/box/key", "200");

    let (changed, stop, requests) =
        (AtomicBool::new(false), AtomicBool::new(false), AtomicU64::new(0));
    let rotated = std::sync::OnceLock::<Client>::new();
    let load = |gateway: &Client| {
        while !stop.load(Ordering::Relaxed) {
            let key = rotated.get().filter(|_| changed.load(Ordering::Relaxed)).unwrap_or(&old);
            let answer = at(key, gateway).get("/box/key");
            assert_eq!(answer.status, 200, "{}: {}", key.key, answer.text());
            requests.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(PAUSE);
        }
    };
    std::thread::scope(|scope| {
        for gateway in [&one, &other, &one, &other] {
            scope.spawn(move || load(gateway));
        }
        std::thread::sleep(Duration::from_millis(300));
        let began = Instant::now();
        let said = run(setup, "key", &["rotate", "anna", "--old-expires", "8s"]);
        let rotated_at = Instant::now();
        let new = rotated.get_or_init(|| client(&said, &one));
        hears(&at(new, &one), "/box/key", "200");
        hears(&at(new, &other), "/box/key", "200");
        // The old key is in use until shortly before its end.
        std::thread::sleep(CHANGE.saturating_sub(began.elapsed()));
        assert!(began.elapsed() < LIFE, "the machine is too slow");
        changed.store(true, Ordering::Relaxed);
        std::thread::sleep((LIFE + MARGIN).saturating_sub(rotated_at.elapsed()));
        stop.store(true, Ordering::Relaxed);
    });
    assert!(requests.load(Ordering::Relaxed) > 50, "{requests:?}");
    for gateway in [&one, &other] {
        assert_eq!(at(&old, gateway).get("/box/key").code(), "InvalidAccessKeyId");
    }
    gateways.into_iter().for_each(Gateway::stop);
    // Each gateway has noted the uses of its keys when it stopped.
    let listed = run(setup, "key", &["list", "anna"]);
    let used = |line: &str| line.split('\t').nth(4).is_some_and(|used| used.starts_with("20"));
    assert!(listed.lines().count() == 2 && listed.lines().all(used), "{listed}");
}
