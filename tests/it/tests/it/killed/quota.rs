//! kill -9 of a mount whose programs hold files without a name: their bytes count for the quota until the
//! session of the dead mount has ended, and then another gateway gives them back.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Duration;

use crate::content::bytes;
use crate::fleet::{Engine, Fleet, Place};
use crate::mounted::{Mount, can_mount};
use crate::servers::wait_for;

/// Bytes of a file.
const FILE: usize = 300_000;

/// The quota of each bucket: no more than what the files of the test take.
const QUOTA: usize = 3 * FILE;

/// How long bytes of a dead mount may count: half a minute until its session has ended, and some more on
/// a busy machine.
const ENDED: Duration = Duration::from_mins(3);

/// The time between two attempts to use the bytes.
const BETWEEN: Duration = Duration::from_millis(500);

/// Makes a file with bytes that are synced, and returns it open.
fn synced(path: &Path) -> File {
    let mut options = OpenOptions::new();
    let mut file = options.read(true).write(true).create(true).open(path).expect("a file");
    file.write_all(&bytes(1, FILE)).expect("it is written");
    file.sync_all().expect("it is synced");
    file
}

/// Fills a bucket up to its quota with files that programs of a mount have open, two of them unlinked.
fn fill(folder: &Path, bucket: &str) -> Vec<File> {
    let directory = folder.join(bucket);
    let mut held = Vec::new();
    for name in ["one", "two", "three"] {
        held.push(synced(&directory.join(name)));
    }
    for name in ["one", "two"] {
        std::fs::remove_file(directory.join(name)).expect("it is unlinked");
    }
    held
}

#[test]
fn bytes_of_a_killed_mount_return_to_the_quota() {
    if !can_mount() {
        return;
    }
    let Some(fleet) = Fleet::new(Engine::Redis, Place::Folder) else { return };
    let folder = fleet.first.folder.join("mount");
    let mount = Mount::start(&fleet.first, &folder);
    let gateway = fleet.second().start();
    let client = &gateway.client;
    let versioning = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
    for bucket in ["box", "versions"] {
        client.put(&format!("/{bucket}"), b"").expect(200);
    }
    client.put("/versions?versioning", versioning.as_bytes()).expect(200);
    let quota = QUOTA.to_string();
    for bucket in ["box", "versions"] {
        let (status, said) = fleet.first.run("bucket", &["quota", bucket, "--bytes", &quota]);
        assert!(status.success(), "{said}");
    }
    let unlinked = fill(&folder, "box");
    let versions = fill(&folder, "versions");
    // The quota is met: two thirds of it are bytes of files without a name, or of versions.
    let refused = |bucket: &str| client.put(&format!("/{bucket}/more"), &bytes(2, 1_000)).status;
    assert_eq!((refused("box"), refused("versions")), (403, 403));
    // A version is no file of a program: with room for a copy, the write parts them.
    let (status, said) =
        fleet.first.run("bucket", &["quota", "versions", "--bytes", &(4 * FILE).to_string()]);
    assert!(status.success(), "{said}");
    versions[0].write_all_at(b"changed", 0).expect("it is written");
    versions[0].sync_all().expect("it is synced");
    assert_eq!(refused("versions"), 403, "the copy counts");
    mount.kill();
    drop((unlinked, versions));

    let fits = |bucket: &str, size: usize| {
        std::thread::sleep(BETWEEN);
        client.put(&format!("/{bucket}/more"), &bytes(3, size)).status == 200
    };
    assert!(wait_for(ENDED, || fits("box", 2 * FILE)), "bytes of the dead mount still count");
    assert!(wait_for(ENDED, || fits("versions", FILE)), "bytes of the dead mount still count");
    // The named files stay, and count.
    assert_eq!(client.get("/box/three").expect(200).body, bytes(1, FILE));
    assert!(!fits("versions", FILE), "noncurrent versions count");
    let page = client.get("/versions?versions").expect(200);
    for (key, id) in page.elements("Key").iter().zip(page.elements("VersionId")) {
        client.delete(&format!("/versions/{key}?versionId={id}")).expect(204);
    }
    client.delete("/versions").expect(204);
    fleet.ends_tidy(vec![gateway]);
}
