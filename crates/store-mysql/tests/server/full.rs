//! A server whose tables are on a full disk: commits fail for certain, and succeed again later.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use databases::{Database as Server, Engine};
use store::{MetaStore, StoreErrorKind, Verdict};

use crate::service::{decide_one, key, open, plan, put, run, skip};

/// Bytes that another program has on the disk at first.
const OTHER_BYTES: usize = 12 << 20;

/// More records than the disk can hold.
const RECORDS_MAX: usize = 20_000;

/// A mounted file system, unmounted when dropped.
struct SmallDisk(PathBuf);

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _done = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn full_tables_fail_commits_for_certain() {
    run(async {
        if !Server::installed(Engine::Mysql) {
            return skip("MariaDB is not installed");
        }
        let server = Server::start(Engine::Mysql);
        let url = server.fresh("small");
        // The tables are on the small disk, and the logs of the server are not.
        let folder = server.folder().join("data/small");
        let mut mount = Command::new("mount");
        let done =
            mount.args(["-t", "tmpfs", "-o", "size=40m,mode=777", "none"]).arg(&folder).output();
        if !done.is_ok_and(|done| done.status.success()) {
            return skip("this user may not mount a tmpfs");
        }
        let disk = SmallDisk(folder);
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
