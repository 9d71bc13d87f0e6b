//! SIGTERM: requests in flight finish, no new one begins, and the exit status is 0.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::client::{Request, read_answer};
use crate::content::{bytes, etag};
use crate::mounted::{Mount, can_mount};
use crate::servers::{Blocks, Setup, wait_for};

#[test]
fn an_upload_in_flight_finishes_after_sigterm() {
    let folder = tempfile::tempdir().expect("a folder");
    let setup = Setup::new(folder.path(), Blocks::Folder);
    let mut gateway = setup.start();
    let client = gateway.client.clone();
    client.put("/box", b"").expect(200);
    let content = bytes(1, 1_000_000);
    let sealed = Request::new("PUT", "/box/object").body(&content[..]).sealed(client.signature());
    let mut stream = client.connect().expect("a connection");
    stream.write_all(&sealed.head).expect("the head is taken");
    stream.write_all(&content[..500_000]).expect("half of the body is taken");
    let begun = wait_for(Duration::from_secs(20), || !setup.block_files().is_empty());
    assert!(begun, "the upload is under way when the signal comes");

    gateway.child.signal(Signal::TERM);
    let refuses = wait_for(Duration::from_secs(20), || client.connect().is_err());
    assert!(refuses, "new connections are still accepted");
    stream.write_all(&content[500_000..]).expect("the rest of the body is taken");
    let answer = read_answer(&mut stream, "PUT").expect("an answer").expect(200);
    assert_eq!(answer.header("etag"), etag(&content));
    drop(stream);
    let status = gateway.child.wait();
    assert!(status.success(), "{status}\n{}", gateway.log());

    let gateway = setup.start();
    let stored = gateway.client.get("/box/object").expect(200);
    assert!(stored.body == content, "the acknowledged object exists");
    gateway.check_log();
    gateway.stop();
}

/// An upload whose client stalls is given up after the drain timeout.
#[test]
fn a_stalled_upload_does_not_delay_the_exit() {
    let folder = tempfile::tempdir().expect("a folder");
    let setup = Setup::new(folder.path(), Blocks::Folder).options(&[
        "--block-bytes",
        "64KiB",
        "--drain-timeout-seconds",
        "2",
    ]);
    let mut gateway = setup.start();
    let client = gateway.client.clone();
    client.put("/box", b"").expect(200);
    let content = bytes(1, 1_000_000);
    let sealed = Request::new("PUT", "/box/object").body(&content[..]).sealed(client.signature());
    let mut stream = client.connect().expect("a connection");
    stream.write_all(&sealed.head).expect("the head is taken");
    stream.write_all(&content[..500_000]).expect("half of the body is taken");
    let begun = wait_for(Duration::from_secs(20), || !setup.block_files().is_empty());
    assert!(begun, "the upload is under way when the signal comes");
    let told = Instant::now();
    gateway.child.signal(Signal::TERM);
    let status = gateway.child.wait();
    assert!(status.success(), "{status}\n{}", gateway.log());
    assert!(told.elapsed() < Duration::from_secs(20), "it took {:?}", told.elapsed());

    let gateway = setup.start();
    assert_eq!(gateway.client.get("/box/object").code(), "NoSuchKey");
    let empty = wait_for(Duration::from_secs(30), || setup.block_files().is_empty());
    assert!(empty, "blocks are left over: {:?}", setup.block_files());
    gateway.stop();
}

/// A container that starts while the mount exists has a copy of it, which the gateway cannot
/// unmount.
#[test]
fn a_copy_of_the_mount_in_another_namespace_does_not_delay_the_exit() {
    if !can_mount() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let setup = Setup::new(folder.path(), Blocks::Folder);
    let mount = Mount::start(&setup, &folder.path().join("mnt"));
    mount.gateway().client.put("/box", b"").expect(200);
    std::fs::write(mount.folder.join("box/note"), "kept").expect("a file");
    let mut command = Command::new("unshare");
    command.args(["--mount", "sleep", "60"]).stdin(Stdio::null());
    let mut container = command.spawn().expect("unshare runs");
    let table = format!("/proc/{}/mountinfo", container.id());
    let own = std::fs::read_link("/proc/self/ns/mnt").expect("a namespace");
    let other = format!("/proc/{}/ns/mnt", container.id());
    let at = mount.folder.display().to_string();
    let has_copy = || {
        let is_apart = std::fs::read_link(&other).is_ok_and(|other| other != own);
        is_apart && std::fs::read_to_string(&table).is_ok_and(|table| table.contains(&at))
    };
    assert!(wait_for(Duration::from_secs(20), has_copy), "the container has no copy");

    let began = Instant::now();
    mount.stop();
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    assert!(has_copy(), "the copy exists until the end");
    container.kill().expect("the container ends");
    container.wait().expect("its status");
    let gateway = setup.start();
    assert_eq!(gateway.client.get("/box/note").expect(200).text(), "kept");
    gateway.stop();
}

/// The lines of an access log of a bucket that wait for their delivery are delivered at the stop.
#[test]
fn the_stop_delivers_access_logs_of_buckets() {
    let folder = tempfile::tempdir().expect("a folder");
    // The interval is longer than the test.
    let setup = Setup::new(folder.path(), Blocks::Folder)
        .more_options(&["--bucket-log-interval-seconds", "3600"]);
    let gateway = setup.start();
    let client = gateway.client.clone();
    client.put("/box", b"").expect(200);
    client.put("/logs", b"").expect(200);
    let policy = r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow",
        "Principal":{"Service":"logging.s3.amazonaws.com"},"Action":"s3:PutObject",
        "Resource":"arn:aws:s3:::logs/*"}]}"#;
    client.put("/logs?policy", policy.as_bytes()).expect(204);
    let logging = "<BucketLoggingStatus><LoggingEnabled><TargetBucket>logs</TargetBucket>\
                   <TargetPrefix>a/</TargetPrefix></LoggingEnabled></BucketLoggingStatus>";
    client.put("/box?logging", logging.as_bytes()).expect(200);
    client.put("/box/last", b"content").expect(200);
    assert!(client.keys("logs", "", 10).is_empty(), "delivered before the interval");
    gateway.stop();

    let gateway = setup.start();
    let keys = gateway.client.keys("logs", "", 10);
    let [key] = &keys[..] else { panic!("{keys:?}") };
    let text = gateway.client.get(&format!("/logs/{key}")).expect(200).text();
    assert!(text.contains(" REST.PUT.OBJECT last "), "{text}");
    gateway.check_log();
    gateway.stop();
}
