//! Changes through one gateway are visible through the other one at once.

use std::time::{Duration, Instant};

use crate::client::{Client, Request, part_list};
use crate::content::{bytes, etag, etag_of_parts};
use crate::fleet::{BlockKind, Engine, Fleet, clients, on_each_engine};
use crate::servers::{Gateway, Setup, wait_for};

on_each_engine!(
    writes_of_one_gateway_are_visible_through_another,
    an_upload_of_one_gateway_continues_through_another,
    changes_of_users_and_policies_take_effect_everywhere_within_a_second,
);

/// Number of rounds; the gateways change roles in each.
const TURNS: u64 = 12;

/// The smallest allowed size of a part that is not the last.
const PART: usize = 5 << 20;

/// The time limit of a change of users or policies to take effect on every gateway. A busy machine
/// may exceed it, but not for half of the changes.
const ACCESS: Duration = Duration::from_secs(1);

fn writes_of_one_gateway_are_visible_through_another(engine: Engine) {
    let Some(fleet) = Fleet::new(engine, BlockKind::Folder) else { return };
    let gateways = fleet.start();
    let [one, other] = clients(&gateways);
    for turn in 0..TURNS {
        let (writer, reader) = if turn % 2 == 0 { (&one, &other) } else { (&other, &one) };
        objects_are_seen(writer, reader, turn);
        listings_are_seen(writer, reader, turn);
        buckets_are_seen(writer, reader, turn);
    }
    gateways.iter().for_each(Gateway::check_log);
    fleet.stop_and_check(gateways);
}

/// Reads after writes: new objects, replaced content in a record and in blocks, deletes.
fn objects_are_seen(writer: &Client, reader: &Client, turn: u64) {
    let key = "/box/object";
    for (step, size) in [100, 20_000, 200_000, 50].into_iter().enumerate() {
        let content = bytes(turn * 10 + step as u64, size);
        writer.put(key, &content).expect(200);
        let read = reader.get(key).expect(200);
        assert!(read.body == content, "turn {turn}: an older object was read");
        let head = reader.send(&Request::new("HEAD", key)).expect(200);
        assert_eq!(head.header("etag"), etag(&content), "turn {turn}");
        let stale = Request::new("PUT", key).header("if-none-match", "*").body("late");
        reader.send(&stale).expect(412);
    }
    writer.delete(key).expect(204);
    reader.get(key).expect(404);
    reader.send(&Request::new("HEAD", key)).expect(404);
}

/// Lists after writes, in directories that the reader has cached, that it has cached as absent, and
/// that were just emptied.
fn listings_are_seen(writer: &Client, reader: &Client, turn: u64) {
    let (new, prefix) = (format!("new-{turn}/deep/key"), format!("new-{turn}/"));
    assert_eq!(reader.keys("box", &prefix, 1000), Vec::<String>::new());
    reader.get(&format!("/box/{new}")).expect(404);
    writer.put(&format!("/box/{new}"), b"new").expect(200);
    assert_eq!(reader.keys("box", &prefix, 1000), std::slice::from_ref(&new));
    let shallow = reader.get("/box?list-type=2&delimiter=/").expect(200);
    assert!(shallow.text().contains(&format!("<Prefix>{prefix}</Prefix>")), "{}", shallow.text());
    // Each gateway also changes a directory that the other one created.
    reader.put(&format!("/box/{new}-2"), b"beside").expect(200);
    assert_eq!(writer.keys("box", &prefix, 1), [new.clone(), format!("{new}-2")]);
    writer.delete(&format!("/box/{new}")).expect(204);
    assert_eq!(reader.keys("box", &prefix, 1000), [format!("{new}-2")]);
    reader.delete(&format!("/box/{new}-2")).expect(204);
    assert_eq!(writer.keys("box", &prefix, 1000), Vec::<String>::new());
    // The directory was removed with its last key; either gateway may create it again.
    writer.put(&format!("/box/{new}"), b"again").expect(200);
    assert_eq!(reader.get(&format!("/box/{new}")).expect(200).text(), "again");
    let both = format!("<Delete><Object><Key>{new}</Key></Object></Delete>");
    reader.send(&Request::new("POST", "/box?delete").body(both)).expect(200);
    assert_eq!(writer.keys("box", &prefix, 1000), Vec::<String>::new());
}

fn buckets_are_seen(writer: &Client, reader: &Client, turn: u64) {
    let name = format!("/bucket-{turn}");
    reader.send(&Request::new("HEAD", &name)).expect(404);
    writer.put(&name, b"").expect(200);
    reader.send(&Request::new("HEAD", &name)).expect(200);
    assert!(reader.get("/").expect(200).elements("Name").contains(&name[1..].to_owned()));
    reader.put(&format!("{name}/key"), b"value").expect(200);
    assert_eq!(writer.delete(&name).expect(409).code(), "BucketNotEmpty");
    writer.delete(&format!("{name}/key")).expect(204);
    reader.delete(&name).expect(204);
    assert_eq!(writer.put(&format!("{name}/key"), b"value").expect(404).code(), "NoSuchBucket");
    writer.send(&Request::new("HEAD", &name)).expect(404);
    assert!(!writer.get("/").expect(200).elements("Name").contains(&name[1..].to_owned()));
}

/// One gateway starts an upload, both receive parts, and the other one completes it.
fn an_upload_of_one_gateway_continues_through_another(engine: Engine) {
    let Some(fleet) = Fleet::new(engine, BlockKind::Bucket) else { return };
    let gateways = fleet.start();
    let [one, other] = clients(&gateways);
    for (turn, (here, there)) in [(&one, &other), (&other, &one)].into_iter().enumerate() {
        let key = format!("/box/upload-{turn}");
        let upload = here.begin_upload(&key);
        let contents = [bytes(1, PART), bytes(2, PART), bytes(3, 30_000)];
        let mut tags = Vec::new();
        for (at, content) in contents.iter().enumerate() {
            let to = if at % 2 == 0 { there } else { here };
            // Each part twice: the second one, through another gateway, replaces the first.
            let path = format!("{key}?partNumber={}&uploadId={upload}", at + 1);
            here.put(&path, &bytes(9, 6_000_000)).expect(200);
            tags.push(to.put(&path, content).expect(200).header("etag").to_owned());
        }
        let parts = here.get(&format!("{key}?uploadId={upload}")).expect(200);
        assert_eq!(parts.elements("ETag").len(), 3, "{}", parts.text());
        assert_eq!(there.get("/box?uploads").expect(200).elements("UploadId"), [&*upload]);
        let list = part_list(&[(1, &tags[0]), (2, &tags[1]), (3, &tags[2])]);
        let path = format!("{key}?uploadId={upload}");
        there.send(&Request::new("POST", &path).body(list)).expect(200);
        let read = here.get(&key).expect(200);
        assert!(read.body == contents.concat(), "the parts are one object");
        let [a, b, c] = &contents;
        assert_eq!(read.header("etag"), etag_of_parts(&[a, b, c]));
        assert_eq!(here.get("/box?uploads").expect(200).elements("UploadId"), Vec::<String>::new());
        // An upload that one gateway aborts is gone on the other.
        let upload = here.begin_upload(&key);
        here.put(&format!("{key}?partNumber=1&uploadId={upload}"), &bytes(4, 30_000)).expect(200);
        there.delete(&format!("{key}?uploadId={upload}")).expect(204);
        let gone = here.get(&format!("{key}?uploadId={upload}")).expect(404);
        assert_eq!(gone.code(), "NoSuchUpload");
    }
    gateways.iter().for_each(Gateway::check_log);
    fleet.stop_and_check(gateways);
}

/// Runs a command, which must succeed.
#[track_caller]
fn run(setup: &Setup, command: &str, arguments: &[&str]) -> String {
    let (status, said) = setup.run(command, arguments);
    assert!(status.success(), "{command} {arguments:?}: {status}\n{said}");
    said
}

/// Waits until a change has taken effect for all clients. Returns the elapsed time.
#[track_caller]
fn takes_effect(what: &str, clients: &[Client], is_so: impl Fn(&Client) -> bool) -> Duration {
    let changed = Instant::now();
    for client in clients {
        let so = wait_for(ACCESS * 10, || is_so(client));
        assert!(so, "{what}: not even within {:?}", ACCESS * 10);
    }
    changed.elapsed()
}

fn changes_of_users_and_policies_take_effect_everywhere_within_a_second(engine: Engine) {
    let Some(fleet) = Fleet::new(engine, BlockKind::Folder) else { return };
    let gateways = fleet.start();
    let (setup, mut times) = (&fleet.first, Vec::new());
    clients(&gateways)[0].put("/box/object", b"content").expect(200);
    let document = |action: &str| {
        let path = setup.folder.join("policy.json");
        let text = format!(
            r#"{{"Version":"2012-10-17","Statement":[{{"Effect":"Allow","Action":["{action}"],
                "Resource":["arn:aws:s3:::*"]}}]}}"#
        );
        std::fs::write(&path, text).expect("a file for a policy");
        path.display().to_string()
    };
    for turn in 0..3 {
        let name = format!("user-{turn}");
        let said = run(setup, "user", &["add", &name, "--policy", "readonly"]);
        let secret = said.lines().find_map(|line| line.strip_prefix("secret key"));
        let secret = secret.expect("a secret is printed").trim().to_owned();
        let users = clients(&gateways).map(|client| Client {
            key: name.clone(),
            secret: secret.clone(),
            ..client
        });
        let gets = |client: &Client| client.get("/box/object").status;
        let puts = |client: &Client| client.put("/box/theirs", b"content").status;
        let mut note = |what: &str, is_so: &dyn Fn(&Client) -> bool| {
            times.push(takes_effect(what, &users, is_so));
        };
        note("a user was made", &|user| (gets(user), puts(user)) == (200, 403));
        run(setup, "user", &["policy", &name, "writeonly"]);
        note("a user has another policy", &|user| (gets(user), puts(user)) == (403, 200));
        run(setup, "policy", &["add", "own", &document("s3:GetObject")]);
        run(setup, "user", &["policy", &name, "own"]);
        note("a user has a new policy", &|user| (gets(user), puts(user)) == (200, 403));
        run(setup, "policy", &["add", "own", &document("s3:PutObject")]);
        note("a policy was changed", &|user| (gets(user), puts(user)) == (403, 200));
        run(setup, "user", &["policy", &name]);
        note("a user has no policy", &|user| (gets(user), puts(user)) == (403, 403));
        run(setup, "user", &["remove", &name]);
        note("a user was removed", &|user| user.get("/box/object").code() == "InvalidAccessKeyId");
        run(setup, "policy", &["remove", "own"]);
    }
    times.sort_unstable();
    let (median, slowest) = (times[times.len() / 2], times[times.len() - 1]);
    assert!(median < ACCESS, "it took {median:?} until every gateway knew, at most {slowest:?}");
    eprintln!("{}: changes of access took effect within {slowest:?}", engine.name());
    gateways.iter().for_each(Gateway::check_log);
    fleet.stop_and_check(gateways);
}
