//! Bodies of a client that sends one after another. A commit of the metadata store alone
//! acknowledges them, and they move to blocks a little later.

use std::time::Duration;

use crate::client::Request;
use crate::content::bytes;
use crate::servers::{Blocks, Setup, wait_for};

/// The time limit until a body is in a block.
const DESTAGED_WITHIN: Duration = Duration::from_secs(20);

#[test]
fn a_staged_body_survives_a_kill_and_is_destaged() {
    let folder = tempfile::tempdir().expect("a folder");
    let setup = Setup::new(folder.path(), Blocks::Folder);
    let mut gateway = setup.start();
    let client = gateway.client.clone();
    client.put("/box", b"").expect(200);
    let (killed, destaged) = (bytes(1, 50_000), bytes(2, 60_000));
    client.put("/box/killed", &killed).expect(200);
    gateway.child.kill();
    assert_eq!(setup.block_files().len(), 0, "it was staged inline when the gateway was killed");

    let gateway = setup.start();
    let client = gateway.client.clone();
    assert!(client.get("/box/killed").expect(200).body == killed);
    client.put("/box/destaged", &destaged).expect(200);
    assert!(client.get("/box/destaged").expect(200).body == destaged, "while it is staged inline");
    let count = "ashlar_relocator_moved_sources_total{policy=\"destage\"} ";
    assert!(wait_for(DESTAGED_WITHIN, || gateway.counter(count) == 1), "it stays staged inline");
    assert_eq!(setup.block_files().len(), 1);
    assert!(client.get("/box/destaged").expect(200).body == destaged);
    assert!(client.get("/box/killed").expect(200).body == killed);
    gateway.check_log();
    gateway.stop();
    let (status, told) = setup.run("fsck", &[]);
    assert!(status.success(), "{told}");

    // The destaged body is read from its block; the body of the earlier run is still staged inline.
    for block in setup.block_files() {
        std::fs::remove_file(block).expect("it can be removed");
    }
    let gateway = setup.start();
    let client = gateway.client.clone();
    let answer = client.try_send(&Request::new("GET", "/box/destaged"));
    assert!(answer.is_err() || answer.is_ok_and(|answer| answer.body != destaged));
    assert!(client.get("/box/killed").expect(200).body == killed);
    gateway.stop();
}
