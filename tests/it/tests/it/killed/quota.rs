//! SIGKILL of a mount whose programs have unlinked files open. Their bytes count for the quota
//! until the session of the dead mount is ended; then another gateway releases them.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Duration;

use crate::content::bytes;
use crate::fleet::{BlockKind, Engine, Fleet};
use crate::mounted::{Mount, can_mount};
use crate::servers::wait_for;

/// Length of a file in bytes.
const FILE: usize = 300_000;

/// The quota of each bucket: exactly the bytes of the files of the test.
const QUOTA: usize = 3 * FILE;

/// The time limit for the release: 30 seconds until the session is ended, and some more on a busy
/// machine.
const ENDED: Duration = Duration::from_mins(3);

/// The time between two attempts to use the bytes.
const BETWEEN: Duration = Duration::from_millis(500);

/// Creates a file with synced content, and returns it open.
fn synced(path: &Path) -> File {
    let mut options = OpenOptions::new();
    let mut file = options.read(true).write(true).create(true).open(path).expect("a file");
    file.write_all(&bytes(1, FILE)).expect("it is written");
    file.sync_all().expect("it is synced");
    file
}

/// Fills a bucket up to its quota with open files of a mount, two of them unlinked.
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
    let Some(fleet) = Fleet::new(Engine::Redis, BlockKind::Folder) else { return };
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
    // The quota is reached. Two thirds of it are bytes of unlinked files, or of noncurrent
    // versions.
    let refused = |bucket: &str| client.put(&format!("/{bucket}/more"), &bytes(2, 1_000)).status;
    assert_eq!((refused("box"), refused("versions")), (403, 403));
    // A noncurrent version must not change. If the quota allows a copy, a write through the old
    // descriptor separates the file from the version.
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
    fleet.stop_and_check(vec![gateway]);
}
