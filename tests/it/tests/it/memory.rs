//! The gateway's memory stays within the configured limit, independent of its clients.

use std::io::Write as _;
use std::time::Duration;

use crate::client::{Request, read_answer, sha256};
use crate::content::{bytes, etag};
use crate::servers::{Blocks, Setup};

const MIB: usize = 1 << 20;

/// Number of concurrent uploads. Every second one is divided into blocks; the others share blocks.
const UPLOADS: usize = 256;

/// Limit of the gateway's memory with its default settings, in bytes.
const LIMIT: u64 = 300 << 20;

#[test]
fn large_and_concurrent_uploads_stay_within_the_budget() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = Setup::new(folder.path(), Blocks::Folder).options(&[]).start();
    let client = &gateway.client;
    client.put("/box", b"").expect(200);
    let content = bytes(1, 200 * MIB);
    let answer = client.put("/box/large", &content).expect(200);
    assert_eq!(answer.header("etag"), etag(&content));
    let after_one = gateway.child.peak_memory();
    assert!(after_one < LIMIT, "one upload of 200 MiB took {} MiB", after_one >> 20);
    drop(content);

    let contents = &[bytes(2, 6 * MIB), bytes(3, MIB)];
    let claims = &contents.each_ref().map(|content| sha256(content));
    std::thread::scope(|scope| {
        for at in 0..UPLOADS {
            let (content, claim) = (&contents[at % 2], &claims[at % 2]);
            scope.spawn(move || {
                let request = Request::new("PUT", &format!("/box/{at}")).claim(claim);
                let sealed = request.length(&content.len().to_string()).sealed(client.signature());
                loop {
                    let mut stream = client.connect().expect("a connection");
                    // A refusal may arrive before the body is sent.
                    let _ = stream.write_all(&sealed.head).and_then(|()| stream.write_all(content));
                    let answer = read_answer(&mut stream, "PUT");
                    match answer.map(|answer| answer.status) {
                        Ok(200) => return,
                        // Beyond its capacity, the gateway asks for a later retry.
                        Ok(503) => std::thread::sleep(Duration::from_millis(200)),
                        other => panic!("{other:?}"),
                    }
                }
            });
        }
    });
    let after_many = gateway.child.peak_memory();
    assert!(after_many < LIMIT, "{UPLOADS} uploads took {} MiB", after_many >> 20);
    for at in [0, 1, UPLOADS - 2, UPLOADS - 1] {
        let answer = client.get(&format!("/box/{at}")).expect(200);
        assert!(answer.body == contents[at % 2], "{at}");
    }
    gateway.check_log();
    gateway.stop();
}

/// Clients that send slowly, or that do not read their responses, use little memory.
#[test]
fn slow_clients_use_little_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = Setup::new(folder.path(), Blocks::Folder).options(&[]).start();
    let client = &gateway.client;
    client.put("/box", b"").expect(200);
    let content = bytes(1, 32 * MIB);
    client.put("/box/large", &content).expect(200);
    let mut slow = Vec::new();
    for at in 0..100 {
        let request = Request::new("PUT", &format!("/box/slow-{at}"))
            .claim("UNSIGNED-PAYLOAD")
            .length("104857600");
        let sealed = request.sealed(client.signature());
        let mut stream = client.connect().expect("a connection");
        stream.write_all(&sealed.head).expect("the head is taken");
        stream.write_all(&content[..100_000]).expect("some of the body is taken");
        slow.push(stream);
        let request = Request::new("GET", "/box/large").sealed(client.signature());
        let mut stream = client.connect().expect("a connection");
        stream.write_all(&request.wire()).expect("a request is taken");
        slow.push(stream);
    }
    std::thread::sleep(Duration::from_secs(2));
    let peak = gateway.child.peak_memory();
    assert!(peak < LIMIT, "200 slow clients took {} MiB", peak >> 20);
    drop(slow);
    client.put("/box/after", &content[..300_000]).expect(200);
    assert_eq!(client.keys("box", "", 1000), ["after", "large"]);
    gateway.check_log();
    gateway.stop();
}
