//! Bodies of a client that sends one after the other: acknowledged by the metadata store alone, and
//! put into blocks a little later.

use std::time::Duration;

use crate::client::Request;
use crate::content::bytes;
use crate::servers::{Blocks, Setup, wait_for};

/// How soon a body lies in a block, generously.
const SETTLED_WITHIN: Duration = Duration::from_secs(20);

#[test]
fn a_body_that_rests_survives_a_kill_and_is_settled() {
    let folder = tempfile::tempdir().expect("a folder");
    let setup = Setup::new(folder.path(), Blocks::Folder);
    let mut gateway = setup.start();
    let client = gateway.client.clone();
    client.put("/box", b"").expect(200);
    let (killed, settled) = (bytes(1, 50_000), bytes(2, 60_000));
    client.put("/box/killed", &killed).expect(200);
    gateway.child.kill();
    assert_eq!(setup.block_files().len(), 0, "it rested when the gateway was killed");

    let gateway = setup.start();
    let client = gateway.client.clone();
    assert!(client.get("/box/killed").expect(200).body == killed);
    client.put("/box/settled", &settled).expect(200);
    assert!(client.get("/box/settled").expect(200).body == settled, "while it rests");
    let count = r#"ashlar_volume_reclaimed_total{what="bodies_settled"}"#;
    assert!(wait_for(SETTLED_WITHIN, || gateway.counter(count) == 1), "it goes on resting");
    assert_eq!(setup.block_files().len(), 1);
    assert!(client.get("/box/settled").expect(200).body == settled);
    assert!(client.get("/box/killed").expect(200).body == killed);
    gateway.check_log();
    gateway.stop();
    let (status, told) = setup.run("fsck", &[]);
    assert!(status.success(), "{told}");

    // What was settled comes from its block now, and what another run left still rests.
    for block in setup.block_files() {
        std::fs::remove_file(block).expect("it can be removed");
    }
    let gateway = setup.start();
    let client = gateway.client.clone();
    let answer = client.try_send(&Request::new("GET", "/box/settled"));
    assert!(answer.is_err() || answer.is_ok_and(|answer| answer.body != settled));
    assert!(client.get("/box/killed").expect(200).body == killed);
    gateway.stop();
}
