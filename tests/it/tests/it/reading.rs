//! A GET returns the bytes of the version with which it began, even if that version is deleted
//! meanwhile.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::client::{Client, Request, read_answer};
use crate::content::{bytes, etag};
use crate::servers::{Blocks, Setup, wait_for};

/// A length that exceeds the buffers of the sockets and of the gateway for one client, in bytes.
const LENGTH: usize = 48 << 20;

/// The time limit of the reaper after the last read.
const REAPED: Duration = Duration::from_secs(30);

/// Begins a GET and reads the beginning of its response.
fn begin(client: &Client, path: &str) -> (TcpStream, Vec<u8>) {
    let wire = Request::new("GET", path).sealed(client.signature()).wire();
    let mut stream = client.connect().expect("a connection");
    stream.write_all(&wire).expect("a request is taken");
    let mut begun = vec![0; 10_000];
    stream.read_exact(&mut begun).expect("the answer begins");
    (stream, begun)
}

/// Reads the rest of a response.
fn finish(mut stream: TcpStream, mut read: Vec<u8>) -> Vec<u8> {
    let head = read.windows(4).position(|four| four == b"\r\n\r\n").expect("the head has an end");
    read.drain(..head + 4);
    let rest = LENGTH - read.len();
    let mut buffer = vec![0; rest];
    stream.read_exact(&mut buffer).expect("the response is complete");
    read.append(&mut buffer);
    read
}

#[test]
fn a_get_survives_delete_and_overwrite() {
    let folder = tempfile::tempdir().expect("a folder");
    let setup = Setup::new(folder.path(), Blocks::Folder).options(&["--block-bytes", "1MiB"]);
    let gateway = setup.start();
    let client = &gateway.client;
    client.put("/box", b"").expect(200);
    let content = bytes(1, LENGTH);
    for path in ["/box/deleted", "/box/overwritten"] {
        client.put(path, &content).expect(200);
    }
    let blocks = setup.block_files().len();
    let readers = ["/box/deleted", "/box/overwritten"].map(|path| begin(client, path));
    client.delete("/box/deleted").expect(204);
    client.put("/box/overwritten", b"new").expect(200);
    assert_eq!(client.get("/box/deleted").code(), "NoSuchKey");
    assert_eq!(client.get("/box/overwritten").expect(200).text(), "new");
    // A reaper that did not wait for readers would delete the blocks in this time.
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(setup.block_files().len(), blocks, "blocks are deleted during a read");
    for (stream, begun) in readers {
        assert!(finish(stream, begun) == content, "the answer changed on its way");
    }
    let reaped = wait_for(REAPED, || setup.block_files().is_empty());
    assert!(reaped, "{} blocks are left over", setup.block_files().len());
    gateway.check_log();
    gateway.stop();
}

/// Length, entity tag and bytes of one response belong together, even while the key is overwritten.
#[test]
fn a_response_contains_one_version() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = Setup::new(folder.path(), Blocks::Folder).start();
    let client = &gateway.client;
    client.put("/box", b"").expect(200);
    let sizes = [700, 40_000, 200_000, 500_000];
    let versions: Vec<Vec<u8>> =
        sizes.iter().zip(1..).map(|(&size, seed)| bytes(seed, size)).collect();
    let tags: Vec<String> = versions.iter().map(|version| etag(version)).collect();
    client.put("/box/key", &versions[0]).expect(200);
    let stop = &AtomicBool::new(false);
    let mut seen = [0; 4];
    std::thread::scope(|scope| {
        for version in &versions {
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    client.put("/box/key", version).expect(200);
                }
            });
        }
        let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..300 {
                let wire = Request::new("GET", "/box/key").sealed(client.signature()).wire();
                let mut stream = client.connect().expect("a connection");
                stream.write_all(&wire).expect("a request is taken");
                let answer = read_answer(&mut stream, "GET").expect("an answer").expect(200);
                let tag = answer.header("etag");
                let version = tags.iter().position(|known| known == tag).expect("a known tag");
                assert!(answer.body == versions[version], "bytes of another version than {tag}");
                seen[version] += 1;
            }
        }));
        stop.store(true, Ordering::Relaxed);
        if let Err(panic) = checked {
            std::panic::resume_unwind(panic);
        }
    });
    let versions_seen = seen.iter().filter(|&&count| count > 0).count();
    assert!(versions_seen > 1, "nothing was overwritten between reads: {seen:?}");
    gateway.check_log();
    gateway.stop();
}
