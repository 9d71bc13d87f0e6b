//! XML documents from clients without rights, many at once, and ones that never end.

use std::io::Write as _;
use std::time::{Duration, Instant};

use crate::client::{Request, read_answer};
use crate::servers::{Blocks, Setup, wait_for};

const MIB: u64 = 1 << 20;

/// Length of the longest accepted document, in bytes.
const DOCUMENT_BYTES: usize = 4 << 20;

/// Limit of the additional memory for documents that the gateway refuses unread, in bytes.
const UNREAD_MORE: u64 = 48 * MIB;

/// The same for documents that it reads: one third of their total, and more than their budget,
/// because the allocator returns memory late.
const READ_MORE: u64 = 64 * MIB;

/// Returns a document of the greatest length. Each test breaks off before its end.
fn document() -> Vec<u8> {
    let mut document = b"<Delete><Object><Key>".to_vec();
    document.resize(DOCUMENT_BYTES, b'x');
    document
}

/// A delete without a key is refused before its body is read.
#[test]
fn anonymous_deletes_are_refused_before_their_body() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = Setup::new(folder.path(), Blocks::Folder).start();
    let client = &gateway.client;
    client.put("/box", b"").expect(200);
    let request = Request::new("POST", "/box?delete").body(document());
    let wire = &request.anonymous(&client.address);
    let head = wire.len() - DOCUMENT_BYTES;
    let mut waits = client.connect().expect("a connection");
    waits.write_all(&wire[..head]).expect("the head is taken");
    let began = Instant::now();
    let answer = read_answer(&mut waits, "POST").expect("an answer").expect(403);
    assert_eq!((answer.code(), answer.header("connection")), ("AccessDenied".to_owned(), "close"));
    assert!(began.elapsed() < Duration::from_secs(10), "the body was waited for");

    let before = gateway.child.peak_memory();
    let streams: Vec<_> = std::thread::scope(|scope| {
        let send = || {
            let mut stream = client.connect().expect("a connection");
            // The response comes before the whole request is sent, so the rest of the write may
            // fail.
            let _ = stream.write_all(&wire[..wire.len() - 1]);
            stream
        };
        let senders: Vec<_> = (0..64).map(|_| scope.spawn(send)).collect();
        senders.into_iter().map(|sender| sender.join().expect("it sends")).collect()
    });
    let more = gateway.child.peak_memory() - before;
    assert!(more < UNREAD_MORE, "64 keyless documents took {} MiB", more / MIB);
    drop(streams);
    gateway.check_log();
    gateway.stop();
}

/// Clients that announce long documents and send none reserve no memory.
#[test]
fn announced_documents_reserve_no_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = Setup::new(folder.path(), Blocks::Folder).start();
    let client = &gateway.client;
    client.put("/box", b"").expect(200);
    let sealed = Request::new("POST", "/box?delete").body(document()).sealed(client.signature());
    let silent = || {
        let mut stream = client.connect().expect("a connection");
        stream.write_all(&sealed.head).expect("the head is taken");
        stream
    };
    let streams: Vec<_> = (0..64).map(|_| silent()).collect();
    std::thread::sleep(Duration::from_millis(500));
    let began = Instant::now();
    client.put("/box/file", &vec![7; 1 << 20]).expect(200);
    let delete = b"<Delete><Object><Key>file</Key></Object></Delete>".to_vec();
    client.send(&Request::new("POST", "/box?delete").body(delete)).expect(200);
    assert!(began.elapsed() < Duration::from_secs(4), "the request waited for silent clients");
    drop(streams);
    gateway.check_log();
    gateway.stop();
}

/// Documents have their own memory budget.
#[test]
fn many_documents_stay_within_the_budget() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = Setup::new(folder.path(), Blocks::Folder).start();
    let client = &gateway.client;
    client.put("/box", b"").expect(200);
    let wire = Request::new("POST", "/box?delete").body(document());
    let wire = &wire.sealed(client.signature()).wire();
    let before = gateway.child.peak_memory();
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let send = || {
            let mut stream = client.connect().expect("a connection");
            let _ = stream.write_all(&wire[..wire.len() - 1]);
            std::thread::sleep(Duration::from_secs(1));
            let _ = stream.write_all(&wire[wire.len() - 1..]);
            read_answer(&mut stream, "POST").map_or(0, |answer| answer.status)
        };
        let senders: Vec<_> = (0..48).map(|_| scope.spawn(send)).collect();
        senders.into_iter().map(|sender| sender.join().expect("it sends")).collect()
    });
    let more = gateway.child.peak_memory() - before;
    assert!(more < READ_MORE, "48 documents took {} MiB", more / MIB);
    // The document does not parse. A response with status 400 proves that one was read completely.
    assert!(statuses.contains(&400), "{statuses:?}");
    client.put("/box/after", b"there is memory again").expect(200);
    gateway.check_log();
    gateway.stop();
}

/// A document that arrives slowly but steadily is given up after the timeout.
#[test]
fn a_slow_document_is_given_up_in_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = ["--block-bytes", "64KiB", "--body-timeout-seconds", "2"];
    let gateway = Setup::new(folder.path(), Blocks::Folder).options(&options).start();
    let client = &gateway.client;
    client.put("/box", b"").expect(200);
    let sealed = Request::new("POST", "/box?delete").body(document()).sealed(client.signature());
    let mut stream = client.connect().expect("a connection");
    stream.write_all(&sealed.head).expect("the head is taken");
    let mut pieces = sealed.body.chunks(4096);
    let began = Instant::now();
    stream.set_read_timeout(Some(Duration::from_millis(50))).expect("a timeout");
    let answered = wait_for(Duration::from_secs(8), || {
        // At most 80 KiB per second, at least 4 KiB.
        let _ = stream.write_all(pieces.next().expect("it is long enough"));
        stream.peek(&mut [0]).is_ok()
    });
    let after = began.elapsed();
    assert!(answered, "it is still read after {after:?}");
    assert!(after >= Duration::from_secs(2), "{after:?}");
    let answer = read_answer(&mut stream, "POST").expect("an answer").expect(400);
    assert_eq!(answer.code(), "RequestTimeout");
    gateway.check_log();
    gateway.stop();
}
