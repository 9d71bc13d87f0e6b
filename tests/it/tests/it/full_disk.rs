//! A full disk under a gateway: requests that need space fail with a definite error, deletes
//! succeed, and the gateway accepts objects again without a restart.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::client::Client;
use crate::content::bytes;
use crate::mounted::{Mount, can_mount};
use crate::servers::{Blocks, Gateway, Setup, files, wait_for};

/// More objects than any of these disks can hold.
const OBJECTS_MAX: usize = 4_000;

const MEGABYTE: usize = 1 << 20;

/// The time limit of a refusal.
const REFUSED_WITHIN: Duration = Duration::from_secs(10);

/// The time limit until deletes have made space.
const SPACE_AGAIN: Duration = Duration::from_secs(30);

/// A small file system in memory, unmounted when dropped.
struct SmallDisk {
    folder: PathBuf,
}

impl SmallDisk {
    /// Mounts a file system on a new folder. The caller has checked that this user may mount.
    fn mount(folder: &Path, size: &str) -> SmallDisk {
        fs::create_dir(folder).expect("a folder");
        let options = format!("size={size}");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "none"])
            .arg(folder)
            .status();
        assert!(mounted.expect("mount runs").success());
        SmallDisk { folder: folder.to_owned() }
    }

    /// Returns the free bytes, as `df` shows them.
    fn free(&self) -> u64 {
        let stat = rustix::fs::statvfs(&self.folder).expect("a file system");
        stat.f_bavail * stat.f_frsize
    }

    /// Fills all free space, as another program might.
    fn fill(&self) -> PathBuf {
        let path = self.folder.join("filler");
        let mut file = File::options().create(true).append(true).open(&path).expect("a file");
        // The gateway may delete the blocks of a refused PUT at the same time.
        let is_full = || {
            for bytes in [MEGABYTE, 4 << 10] {
                while file.write_all(&vec![1; bytes]).is_ok() {}
            }
            self.free() == 0
        };
        assert!(wait_for(SPACE_AGAIN, is_full), "{} bytes are free", self.free());
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _done = Command::new("umount").arg("-l").arg(&self.folder).status();
    }
}

/// A gateway with metadata and blocks on a small disk. Its log is on another disk, so that it can
/// grow.
fn on_small_disk(root: &TempDir, size: &str) -> (SmallDisk, Setup) {
    let disk = SmallDisk::mount(&root.path().join("disk"), size);
    std::os::unix::fs::symlink(root.path().join("log"), disk.folder.join("log")).expect("a link");
    let setup = Setup::new(&disk.folder, Blocks::Folder);
    (disk, setup)
}

/// Puts objects until one is refused. Returns the number of stored ones.
#[track_caller]
fn put_until_full(client: &Client, name: &str, size: usize) -> usize {
    for number in 0..OBJECTS_MAX {
        let began = Instant::now();
        let answer = client.put(&format!("/box/{name}-{number}"), &bytes(number as u64, size));
        if answer.status != 200 {
            assert_eq!((answer.status, answer.code().as_str()), (507, "XMinioStorageFull"));
            assert!(began.elapsed() < REFUSED_WITHIN, "{:?}", began.elapsed());
            return number;
        }
    }
    panic!("the disk does not fill up");
}

#[track_caller]
fn check_content(client: &Client, name: &str, number: usize, size: usize) {
    let found = client.get(&format!("/box/{name}-{number}")).expect(200).body;
    assert!(found == bytes(number as u64, size), "{name}-{number} has other bytes");
}

/// Waits until a PUT succeeds without a restart.
#[track_caller]
fn takes_objects_again(gateway: &Gateway, key: &str, size: usize) {
    let put = || gateway.client.put(&format!("/box/{key}"), &bytes(77, size)).status == 200;
    assert!(wait_for(SPACE_AGAIN, put), "there is no space yet:\n{}", gateway.log());
}

/// Stops the gateway. Fails unless records and blocks agree and no unfinished file is left.
#[track_caller]
fn stop_and_check(setup: &Setup, gateway: Gateway) {
    gateway.check_log();
    gateway.stop();
    let (status, said) = setup.run("fsck", &[]);
    assert!(status.success() && said.contains("no findings"), "{status}\n{said}");
    let unfinished = files(&setup.folder.join("blocks/tmp"));
    assert!(unfinished.is_empty(), "{unfinished:?}");
}

/// Metadata and blocks share a disk.
#[test]
fn a_full_disk_is_emptied_through_s3_and_takes_objects_again() {
    if !can_mount() {
        return;
    }
    let root = TempDir::new().expect("a folder");
    let (disk, setup) = on_small_disk(&root, "40m");
    let mut gateway = setup.start();
    let client = &gateway.client;
    client.put("/box", b"").expect(200);
    let count = put_until_full(client, "large", MEGABYTE);
    assert!(count > 20, "{count} objects are no test");
    let filler = disk.fill();
    // The gateway deletes the blocks of the refused PUT a moment later; fill that space, too.
    let is_refused = || {
        disk.fill();
        let tiny = client.put("/box/tiny", b"x");
        (tiny.status, tiny.code().as_str()) == (507, "XMinioStorageFull")
    };
    assert!(wait_for(SPACE_AGAIN, is_refused), "a PUT succeeds on a full disk");
    // Each state is that of the last write to the store: a block that still finds space makes the
    // block store's state ok, although the commit of its object fails.
    let shows_both = || {
        disk.fill();
        let large = client.put("/box/large-refused", &bytes(78, MEGABYTE));
        let tiny = client.put("/box/tiny", b"x");
        let status = gateway.admin_page("/status");
        (large.status, tiny.status) == (507, 507)
            && status.contains("which is full: free space on its file system")
            && status.contains("meta.db is full: delete objects or free space")
    };
    assert!(wait_for(SPACE_AGAIN, shows_both), "{}", gateway.admin_page("/status"));
    client
        .exchange("GET", b"GET /-/ready HTTP/1.1\r\nHost: x\r\n\r\n")
        .expect("answered")
        .expect(200);
    for number in 0..count {
        check_content(client, "large", number, MEGABYTE);
    }
    // Clients that keep trying to put do not keep others from deleting.
    std::thread::scope(|scope| {
        let putting = scope.spawn(|| {
            for number in 0..100 {
                let _full = client.put(&format!("/box/vain-{number}"), &vec![7; MEGABYTE]);
            }
        });
        for number in 0..count / 2 {
            client.delete(&format!("/box/large-{number}")).expect(204);
        }
        putting.join().expect("the thread ends");
    });
    for key in client.keys("box", "vain-", 1000) {
        client.delete(&format!("/box/{key}")).expect(204);
    }
    takes_objects_again(&gateway, "again", MEGABYTE);
    // A gateway that starts on a full disk can delete, too. Fill the space that the killed one
    // left, so that its successor has nothing to free.
    disk.fill();
    gateway.child.kill();
    disk.fill();
    let gateway = setup.start();
    for number in count / 2..count {
        check_content(&gateway.client, "large", number, MEGABYTE);
        gateway.client.delete(&format!("/box/large-{number}")).expect(204);
    }
    takes_objects_again(&gateway, "more", MEGABYTE);
    fs::remove_file(filler).expect("removed");
    stop_and_check(&setup, gateway);
}

/// The metadata fills a small disk of its own.
#[test]
fn a_full_metadata_disk_is_emptied_through_s3() {
    const SMALL: usize = 3_500;
    if !can_mount() {
        return;
    }
    let root = TempDir::new().expect("a folder");
    let disk = SmallDisk::mount(&root.path().join("disk"), "16m");
    let meta = format!("sqlite:{}", disk.folder.join("meta.db").display());
    let setup = Setup::new(root.path(), Blocks::Folder).meta(&meta);
    // By default, staged bodies move to blocks after a while; here they must fill the metadata
    // store.
    let setup = setup.options(&["--staged-inline-bytes", "64MiB"]);
    let gateway = setup.start();
    let client = &gateway.client;
    client.put("/box", b"").expect(200);
    let count = put_until_full(client, "small", SMALL);
    assert!(count > 500, "{count} objects are no test");
    assert!(disk.free() < 2 << 20, "{} bytes are free", disk.free());
    disk.fill();
    // The gateway keeps its session meanwhile.
    std::thread::sleep(Duration::from_secs(5));
    let status = gateway.admin_page("/status");
    assert!(status.contains(r#""session": "ok""#), "{status}");
    for number in 0..count {
        check_content(client, "small", number, SMALL);
        client.delete(&format!("/box/small-{number}")).expect(204);
    }
    // The space comes from free pages inside the database file.
    takes_objects_again(&gateway, "again", SMALL);
    let second = put_until_full(client, "second", SMALL);
    assert!(second > count / 3, "{second} objects after {count}");
    stop_and_check(&setup, gateway);
}

/// A program gets an error for writes that are not stored, and keeps the acknowledged ones.
#[test]
fn a_program_on_a_full_disk_gets_enospc_and_writes_again_later() {
    if !can_mount() {
        return;
    }
    let root = TempDir::new().expect("a folder");
    let (disk, setup) = on_small_disk(&root, "40m");
    let mount = Mount::start(&setup, &root.path().join("mnt"));
    let path = |name: &str| mount.folder.join("box").join(name);
    fs::create_dir(mount.folder.join("box")).expect("a bucket");
    let write = |name: &str, content: &[u8]| {
        let mut file = File::create(path(name))?;
        file.write_all(content)?;
        file.sync_all()
    };
    write("kept", &bytes(1, MEGABYTE)).expect("there is space");
    let filler = disk.fill();
    let began = Instant::now();
    for size in [100, MEGABYTE] {
        let error = write("refused", &bytes(2, size)).expect_err("there is no space");
        assert_eq!(error.kind(), ErrorKind::StorageFull, "{size} bytes: {error}");
    }
    assert!(began.elapsed() < REFUSED_WITHIN, "{:?}", began.elapsed());
    assert!(fs::read(path("kept")).expect("read") == bytes(1, MEGABYTE));
    // A name can be removed on a full disk; its blocks are deleted later.
    fs::remove_file(path("kept")).expect("removed");
    let again = || write("again", &bytes(3, MEGABYTE / 2)).is_ok();
    assert!(wait_for(SPACE_AGAIN, again), "there is no space yet:\n{}", mount.gateway().log());
    fs::remove_file(filler).expect("removed");
    write("after", &bytes(4, 4 * MEGABYTE)).expect("there is space");
    for (name, seed, size) in [("again", 3, MEGABYTE / 2), ("after", 4, 4 * MEGABYTE)] {
        let found = mount.gateway().client.get(&format!("/box/{name}")).expect(200).body;
        assert!(found == bytes(seed, size), "{name} has other bytes");
    }
    mount.stop();
    let (status, said) = setup.run("fsck", &[]);
    assert!(status.success(), "{status}\n{said}");
}
