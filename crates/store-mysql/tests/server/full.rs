//! A server whose tables are on a full disk: commits fail for certain, and succeed again after
//! space was freed.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use databases::{Database as Server, Engine};
use store::{MetaStore, StoreErrorKind, Verdict};

use crate::service::{decide_one, key, open, plan, put, run, skip};

/// Bytes that another program has on the disk at first.
const OTHER_BYTES: usize = 12 << 20;

/// More records than the disk can hold.
const RECORDS_MAX: usize = 20_000;

/// Limit of the time of a commit on a full disk.
const ANSWERED_WITHIN: Duration = Duration::from_secs(30);

/// Limit of the time until a full disk is reported, and until commits succeed again.
const NAMED_WITHIN: Duration = Duration::from_secs(150);

/// A mounted file system, unmounted when dropped.
struct SmallDisk(PathBuf);

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _done = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Mounts a small file system in memory on a folder. Returns `None` if this user may not.
fn mount(folder: &Path, size: &str) -> Option<SmallDisk> {
    let options = format!("size={size},mode=777");
    let mut mount = Command::new("mount");
    let done = mount.args(["-t", "tmpfs", "-o", &options, "none"]).arg(folder).output();
    done.is_ok_and(|done| done.status.success()).then(|| SmallDisk(folder.to_owned()))
}

fn fill(disk: &SmallDisk) -> PathBuf {
    let path = disk.0.join("filler");
    let mut file = fs::File::create(&path).expect("a file");
    while file.write_all(&[1; 4 << 10]).is_ok() {}
    path
}

/// The server first writes the events of a large transaction to a temporary file.
#[test]
fn a_full_folder_of_temporary_files_fails_a_large_commit_for_certain() {
    run(async {
        if !Server::installed(Engine::Mysql) {
            return skip("MariaDB is not installed");
        }
        let mut server = Server::start(Engine::Mysql);
        let folder = server.folder().join("temporary");
        fs::create_dir(&folder).expect("a folder");
        let Some(disk) = mount(&folder, "8m") else {
            return skip("this user may not mount a tmpfs");
        };
        server.kill();
        server.set(&[&format!("--tmpdir={}", folder.display())]);
        server.restart();
        let store = open(&server.fresh("temporary")).await;
        let other = fill(&disk);
        let value = "x".repeat(200_000);
        let began = Instant::now();
        let error = store.commit(&[plan([], [put(key(1, "large"), &value)])]).await;
        let error = error.expect_err("there is no space for its events");
        assert_eq!(error.kind(), StoreErrorKind::Full, "{error}");
        assert!(began.elapsed() < ANSWERED_WITHIN, "{:?}", began.elapsed());
        assert!(store.shortage().is_some(), "operators see it");
        decide_one(&store, plan([], [put(key(1, "small"), "x")])).await;
        fs::remove_file(other).expect("removed");
        decide_one(&store, plan([], [put(key(1, "large"), &value)])).await;
        assert_eq!(store.shortage(), None);
        store.close().await;
        drop(server);
    });
}

/// A COMMIT on a full disk waits or fails. Its outcome is then unknown.
#[test]
fn a_full_disk_of_the_binary_log_is_reported_until_it_has_space() {
    run(async {
        if !Server::installed(Engine::Mysql) {
            return skip("MariaDB is not installed");
        }
        let mut server = Server::start(Engine::Mysql);
        let folder = server.folder().join("logs");
        fs::create_dir(&folder).expect("a folder");
        let Some(disk) = mount(&folder, "16m") else {
            return skip("this user may not mount a tmpfs");
        };
        server.kill();
        server.set(&[&format!("--log-bin={}", folder.join("binlog").display())]);
        server.restart();
        let store = open(&server.fresh("logged")).await;
        decide_one(&store, plan([], [put(key(1, "before"), "x")])).await;
        let other = fill(&disk);
        let value = "x".repeat(10_000);
        let until = Instant::now() + NAMED_WITHIN;
        for number in 0_u32.. {
            let began = Instant::now();
            let large = plan([], [put(key(1, number.to_be_bytes()), &value)]);
            let error = store.commit(&[large]).await.err();
            assert!(began.elapsed() < ANSWERED_WITHIN, "{:?}", began.elapsed());
            if store.shortage().is_some() {
                break;
            }
            assert!(Instant::now() < until, "no full disk is named: {error:?}");
        }
        fs::remove_file(other).expect("removed");
        let until = Instant::now() + NAMED_WITHIN;
        while let Err(error) = store.commit(&[plan([], [put(key(1, "after"), "x")])]).await {
            assert!(Instant::now() < until, "{error}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(store.shortage(), None);
        store.close().await;
        drop(server);
    });
}

#[test]
fn full_tables_fail_commits_for_certain() {
    run(async {
        if !Server::installed(Engine::Mysql) {
            return skip("MariaDB is not installed");
        }
        let server = Server::start(Engine::Mysql);
        let url = server.fresh("small");
        // The tables are on the small disk; the logs of the server are not.
        let folder = server.folder().join("data/small");
        let Some(disk) = mount(&folder, "40m") else {
            return skip("this user may not mount a tmpfs");
        };
        let other = disk.0.join("other");
        fs::write(&other, vec![1; OTHER_BYTES]).expect("there is space");
        let store = open(&url).await;
        let value = "x".repeat(10_000);
        let mut refused = None;
        for number in 0..RECORDS_MAX {
            match store.commit(&[plan([], [put(key(1, number.to_be_bytes()), &value)])]).await {
                Ok(verdicts) => assert_eq!(verdicts, [Verdict::Committed]),
                Err(error) => {
                    refused = Some((number, error));
                    break;
                }
            }
        }
        let (number, error) = refused.expect("the disk fills up");
        assert!(number > 100, "{number} records are no test");
        assert_eq!(error.kind(), StoreErrorKind::Full, "{error}");
        assert!(store.shortage().is_some(), "operators see it");
        fs::remove_file(other).expect("removed");
        decide_one(&store, plan([], [put(key(1, "after"), &value)])).await;
        assert_eq!(store.shortage(), None);
        store.close().await;
        drop(server);
    });
}
