//! Clients that request much data and read none of it.

use std::io::Write as _;
use std::time::Duration;

use crate::client::Request;
use crate::content::bytes;
use crate::servers::{Blocks, Setup};

/// Data that is buffered for clients that do not read is dropped when others need the memory.
#[test]
fn unread_frames_do_not_hold_memory_that_readers_need() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = ["--memory-budget", "64MiB", "--cache-memory", "0B"];
    let gateway = Setup::new(folder.path(), Blocks::Folder).options(&options).start();
    let client = &gateway.client;
    client.put("/box", b"").expect(200);
    let content = bytes(1, 48 << 20);
    client.put("/box/large", &content).expect(200);
    // Three times as many first frames as fit into memory. Each request waits for its turn and is
    // refused after five seconds, so more requests would need a fast machine.
    let mut lazy = Vec::new();
    for _ in 0..24 {
        let request = Request::new("GET", "/box/large").sealed(client.signature());
        let mut stream = client.connect().expect("a connection");
        stream.write_all(&request.wire()).expect("a request is taken");
        lazy.push(stream);
    }
    std::thread::sleep(Duration::from_secs(3));
    for _ in 0..2 {
        let answer = client.get("/box/large").expect(200);
        assert!(answer.body == content, "other bytes");
    }
    // A client that reads again gets the rest, including the dropped part.
    let mut whole = 0;
    for mut stream in lazy {
        let answer = crate::client::read_answer(&mut stream, "GET");
        whole += usize::from(answer.is_ok_and(|answer| answer.body == content));
    }
    assert!(whole > 0, "no client got the whole object");
    gateway.check_log();
    gateway.stop();
}
