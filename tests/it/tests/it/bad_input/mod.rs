//! Requests that must be refused: with the exact error code, with request ids, and without any
//! effect.
//!
//! Each case is sent to a gateway that holds an object of each layout. Afterwards content, entity
//! tags, listing and blocks on disk must be unchanged.

mod bodies;
mod connections;
mod documents;
mod names;
mod requests;
mod rights;
mod signatures;

use std::time::Duration;

use tempfile::TempDir;

use crate::client::{Answer, Client, Request};
use crate::content::{bytes, etag};
use crate::servers::{Blocks, Gateway, Setup, wait_for};

/// The existing objects: inline in a record, in one block, in several blocks.
const OBJECTS: [(&str, u64, usize); 3] =
    [("/box/small", 1, 1000), ("/box/middle", 2, 50_000), ("/box/large", 3, 300_000)];

/// The time limit for the deletion of a refused upload's blocks.
const LINGER: Duration = Duration::from_secs(20);

/// A gateway with objects.
struct Scene {
    setup: Setup,
    gateway: Gateway,
    client: Client,
    blocks: usize,
    refused: usize,
    _folder: TempDir,
}

impl Scene {
    fn new() -> Scene {
        let folder = tempfile::tempdir().expect("a folder");
        // Without staging, so that the number of blocks is known.
        let options =
            ["--block-bytes", "64KiB", "--memory-budget", "16MiB", "--staged-inline-bytes", "0B"];
        let setup = Setup::new(folder.path(), Blocks::Folder).options(&options);
        let gateway = setup.start();
        let client = gateway.client.clone();
        client.put("/box", b"").expect(200);
        for (path, seed, length) in OBJECTS {
            client.put(path, &bytes(seed, length)).expect(200);
        }
        let blocks = setup.block_files().len();
        assert!(blocks >= 6, "the objects have blocks");
        Scene { setup, gateway, client, blocks, refused: 0, _folder: folder }
    }

    /// Sends a signed request that must be refused.
    #[track_caller]
    fn refuses(&mut self, request: &Request, status: u16, code: &str) -> Answer {
        let wire = request.sealed(self.client.signature()).wire();
        self.refuses_wire(&request.method, &wire, status, code)
    }

    /// Sends bytes that must be refused.
    #[track_caller]
    fn refuses_wire(&mut self, method: &str, wire: &[u8], status: u16, code: &str) -> Answer {
        let answer = self.client.exchange(method, wire);
        self.check(wire, answer, status, code)
    }

    /// Sends bytes and shuts down the sending side; the request must be refused.
    #[track_caller]
    fn refuses_broken(&mut self, method: &str, wire: &[u8], status: u16, code: &str) -> Answer {
        let answer = self.client.break_off(method, wire);
        self.check(wire, answer, status, code)
    }

    #[track_caller]
    fn check(
        &mut self,
        wire: &[u8],
        answer: std::io::Result<Answer>,
        status: u16,
        code: &str,
    ) -> Answer {
        let line = wire.split(|&byte| byte == b'\r').next().unwrap_or_default();
        let line: String = String::from_utf8_lossy(line).chars().take(200).collect();
        let answer = answer.unwrap_or_else(|error| panic!("{line}: no answer: {error}"));
        let said = (answer.status, answer.code());
        assert_eq!(said, (status, code.to_owned()), "{line}\n{}", answer.text());
        let id = answer.header("x-amz-request-id");
        assert!(!id.is_empty(), "{line}: no request id");
        assert!(!answer.header("x-amz-id-2").is_empty(), "{line}: no host id");
        if !answer.body.is_empty() {
            assert_eq!(answer.element("RequestId"), id, "{line}: the document has another id");
            assert!(!answer.element("HostId").is_empty(), "{line}: the document has no host id");
            assert_eq!(answer.header("content-type"), "application/xml", "{line}");
        }
        self.refused += 1;
        answer
    }

    /// Fails unless all objects are unchanged and the gateway serves.
    #[track_caller]
    fn stays_untouched(self) {
        assert!(self.refused > 0, "nothing was refused: the test has tried nothing");
        let keys = self.client.keys("box", "", 1000);
        assert_eq!(keys, ["large", "middle", "small"]);
        for (path, seed, length) in OBJECTS {
            let content = bytes(seed, length);
            let answer = self.client.get(path).expect(200);
            assert!(answer.body == content, "{path} has other bytes");
            assert_eq!(answer.header("etag"), etag(&content), "{path} has another tag");
        }
        let uploads = self.client.get("/box?uploads").expect(200);
        assert_eq!(uploads.elements("UploadId"), Vec::<String>::new());
        let buckets = self.client.get("/").expect(200);
        assert_eq!(buckets.elements("Name"), ["box"]);
        let count = || self.setup.block_files().len();
        let settled = wait_for(LINGER, || count() == self.blocks);
        assert!(settled, "{} blocks on disk, {} before", count(), self.blocks);
        self.gateway.check_log();
        self.gateway.stop();
    }
}
