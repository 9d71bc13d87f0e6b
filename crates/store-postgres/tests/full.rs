//! A full table space: commits fail for certain, and succeed again after space was freed.

mod test_database;

use std::fs;
use std::path::Path;
use std::process::Command;

use store::{MetaStore as _, StoreErrorKind, Verdict};
use tempfile::TempDir;
use url::Url;

use crate::test_database::{held, open, own_server, plan, put, run, run_at, write};

/// Bytes that another program has on the disk at first.
const OTHER_BYTES: usize = 4 << 20;

/// More records than the disk can hold.
const RECORDS_MAX: usize = 20_000;

/// A small file system in memory, unmounted when dropped.
struct SmallDisk(TempDir);

impl SmallDisk {
    /// Returns `None`, with a message, if this user may not mount.
    fn mount(size: &str) -> Option<SmallDisk> {
        let folder = TempDir::new().expect("a folder");
        let options = format!("size={size}");
        let done = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "none"])
            .arg(folder.path())
            .output();
        if done.is_ok_and(|done| done.status.success()) {
            return Some(SmallDisk(folder));
        }
        eprintln!("SKIPPED: this user may not mount a tmpfs, so no disk could be filled");
        None
    }

    fn folder(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _done = Command::new("umount").arg("-l").arg(self.folder()).status();
    }
}

async fn fails_and_succeeds_again(functions: bool) {
    let Some(server) = own_server() else { return };
    let Some(disk) = SmallDisk::mount("32m") else { return };
    let space = disk.folder().join("space");
    fs::create_dir(&space).expect("a folder");
    let owned = Command::new("chown").arg("postgres").arg(&space).status();
    assert!(owned.expect("chown runs").success());
    let other = disk.folder().join("other");
    fs::write(&other, vec![1; OTHER_BYTES]).expect("there is space");
    let mut url = Url::parse(&server.url()).expect("a URL");
    let place = space.display();
    run_at(&url, &format!("create tablespace small location '{place}'")).await;
    run_at(&url, "create database small tablespace small").await;
    url.set_path("small");
    let store = open(&url, functions).await;
    let value = "x".repeat(20_000);
    let name = |number: usize| format!("record {number}");
    let mut refused = None;
    for number in 0..RECORDS_MAX {
        // PostgreSQL compresses long values, so each has different text.
        let value: String = value.chars().zip(0..).map(|(_, at)| noise(number, at)).collect();
        match store.commit(&[plan([], [put(&name(number), &value)])]).await {
            Ok(verdicts) => assert_eq!(verdicts, [Verdict::Committed]),
            Err(error) => {
                refused = Some((number, error));
                break;
            }
        }
    }
    let (number, error) = refused.expect("the disk fills up");
    assert_eq!(error.kind(), StoreErrorKind::Full, "{error}");
    assert!(store.shortage().is_some_and(|why| why.contains("No space left")), "{error}");
    assert!(held(&store, &name(number)).await.is_none(), "nothing of it was committed");
    assert!(held(&store, &name(number - 1)).await.is_some());
    fs::remove_file(other).expect("removed");
    write(&store, [put("after", &value)]).await;
    assert_eq!(store.shortage(), None);
    store.close().await;
}

/// Returns a letter that depends on its position.
fn noise(record: usize, at: usize) -> char {
    let mixed = (record * 20_011 + at).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    char::from(b' ' + u8::try_from(mixed % 90).unwrap_or(0))
}

#[test]
fn a_full_table_space_fails_the_functions_for_certain() {
    run(fails_and_succeeds_again(true));
}

#[test]
fn a_full_table_space_fails_the_statements_for_certain() {
    run(fails_and_succeeds_again(false));
}
