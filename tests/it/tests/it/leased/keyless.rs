//! Mounts that do not have the master key of their volume, with data folders of their own. They
//! connect with the other sessions of the machine, so deep paths cost no round trips.

use std::fs;
use std::path::Path;

use super::CONNECTED;
use super::company::Reads;
use crate::fleet::{BlockKind, Engine, Fleet, on_the_drawn_server};
use crate::mounted::{LoneMount, can_mount};
use crate::servers::{metric, wait_for};

on_the_drawn_server!(mounts_without_the_master_key_have_leases_on_one_machine);

/// The depth of the deep file, in directories.
const DEPTH: usize = 10;

const CALLS: u64 = 200;

/// The most round trips to the metadata store for [`CALLS`] calls: those of background work.
const BACKGROUND_MAX: u64 = CALLS / 4;

fn round_trips(mount: &LoneMount) -> u64 {
    metric(&mount.metrics(), "ashlar_metadata_round_trips_total{operation=\"read\"} ")
}

fn stat(path: &Path, calls: u64) {
    for _ in 0..calls {
        fs::metadata(path).expect("it exists");
    }
}

fn mounts_without_the_master_key_have_leases_on_one_machine(engine: Engine) {
    if !can_mount() {
        return;
    }
    let Some(fleet) = Fleet::new(engine, BlockKind::Folder) else { return };
    let gateway = fleet.first.start();
    gateway.client.put("/box", b"").expect(200);
    let mounts = ["third", "fourth"].map(|name| {
        let setup = fleet.first.sibling(name).without_master_key();
        LoneMount::start(&setup, &setup.folder.join("mount"), &[])
    });
    assert!(!fleet.first.sibling("third").folder.join("data/master.key").exists());
    let [reader, writer] = &mounts;
    let below = (1..DEPTH).map(|depth| format!("d{depth}")).collect::<Vec<_>>().join("/");
    let deep = |mount: &LoneMount| mount.folder.join("box").join(&below);
    fs::create_dir_all(deep(writer)).expect("directories");
    fs::write(deep(writer).join("file"), "1").expect("a file");
    let file = deep(reader).join("file");
    for mount in [reader, writer] {
        let path = deep(mount).join("file");
        let is_leased = || {
            stat(&path, CALLS);
            Reads::of(&mount.metrics()).is_leased
        };
        assert!(wait_for(CONNECTED, is_leased), "no lease:\n{}", gateway.admin_page("/status"));
    }
    stat(&file, 1);
    let before = round_trips(reader);
    stat(&file, CALLS);
    let asked = round_trips(reader) - before;
    assert!(asked <= BACKGROUND_MAX, "{CALLS} calls asked the store {asked} times");
    // Each change is seen at once, from the other mount and from the gateway.
    for number in 0..20 {
        fs::write(deep(writer).join("file"), number.to_string()).expect("a file");
        assert_eq!(fs::read_to_string(&file).expect("a file"), number.to_string());
        let key = format!("/box/{below}/file");
        gateway.client.put(&key, format!("s3 {number}").as_bytes()).expect(200);
        assert_eq!(fs::read_to_string(&file).expect("a file"), format!("s3 {number}"));
    }
    fs::remove_dir_all(writer.folder.join("box/d1")).expect("all is removed");
    mounts.into_iter().for_each(LoneMount::stop);
    fleet.stop_and_check(vec![gateway]);
}
