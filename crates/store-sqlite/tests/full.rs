//! A full disk, on a small file system in memory: deletes succeed, puts fail, and no outcome is
//! unknown.

#![expect(clippy::unwrap_used, reason = "the helpers of tests may fail as tests do")]

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use store::{
    Guard, Key, MetaStore, Plan, Read, ReadResult, Space, StoreErrorKind, Value, Verdict, Write,
};
use store_sqlite::{SqliteOptions, SqliteStore};
use tempfile::TempDir;

/// The space whose records the store may always put, as those of orphans in a volume.
const SPARED: Space = Space(b'o');

const OPTIONS: SqliteOptions = SqliteOptions { exclusive: true, spared: &[SPARED] };

/// More records than fit on any of these disks.
const RECORDS_MAX: u64 = 40_000;

const RECORD_BYTES: usize = 2_000;

/// A small file system in memory, unmounted when dropped.
struct SmallDisk {
    folder: TempDir,
}

impl SmallDisk {
    /// Returns `None`, with a message, if this user may not mount.
    fn mount(size: &str) -> Option<SmallDisk> {
        let folder = TempDir::new().unwrap();
        let options = format!("size={size}");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "none"])
            .arg(folder.path())
            .output()
            .is_ok_and(|done| done.status.success());
        if mounted {
            return Some(SmallDisk { folder });
        }
        let required = std::env::var_os("ASHLAR_TEST_REQUIRE_SERVICES").is_some();
        assert!(!required, "this user may not mount a tmpfs");
        eprintln!("SKIPPED: this user may not mount a tmpfs, so no disk could be filled");
        None
    }

    fn database(&self) -> PathBuf {
        self.folder.path().join("meta.db")
    }

    /// Returns the free bytes, as `df` shows them.
    fn free(&self) -> u64 {
        let stat = rustix::fs::statvfs(self.folder.path()).unwrap();
        stat.f_bavail * stat.f_frsize
    }

    /// Lets another program take all free space. Returns its file.
    fn fill(&self) -> PathBuf {
        let path = self.folder.path().join("filler");
        let mut file = File::options().create(true).append(true).open(&path).unwrap();
        for bytes in [1 << 20, 4 << 10] {
            while file.write_all(&vec![1; bytes]).is_ok() {}
        }
        assert_eq!(self.free(), 0, "the disk is full");
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _done = Command::new("umount").arg("-l").arg(self.folder.path()).status();
    }
}

async fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(path, OPTIONS).await.expect("a store opens, also on a full disk")
}

fn key(number: u64) -> Key {
    Key::new(Space(b'd'), 1, &number.to_be_bytes())
}

fn value(number: u64) -> Value {
    number.to_le_bytes().repeat(RECORD_BYTES / 8).into()
}

fn put(number: u64) -> Plan {
    Plan {
        guards: vec![Guard::Absent(key(number))],
        writes: vec![Write::Put(key(number), value(number))],
    }
}

/// Deletes a record and leaves an orphan, as the removal of an object does.
fn delete(number: u64) -> Plan {
    let orphan = Key::new(SPARED, 1, &number.to_be_bytes());
    Plan {
        guards: vec![Guard::Equals(key(number), value(number))],
        writes: vec![Write::Delete(key(number)), Write::Put(orphan, vec![3; 80].into())],
    }
}

/// Puts records until the disk is full. Returns the number of the first one that was refused.
async fn put_until_full(store: &SqliteStore, first: u64) -> u64 {
    for number in first..first + RECORDS_MAX {
        match store.commit(&[put(number)]).await {
            Ok(verdicts) => assert_eq!(verdicts, [Verdict::Committed]),
            Err(error) => {
                assert_eq!(error.kind(), StoreErrorKind::Full, "{error}");
                assert!(error.to_string().contains("delete objects"), "{error}");
                return number;
            }
        }
    }
    panic!("the disk does not fill up");
}

async fn is_there(store: &SqliteStore, number: u64) -> bool {
    let read = Read::Record { key: key(number), follow: None };
    match store.read(&[read]).await.unwrap().as_slice() {
        [ReadResult::Record(Some(entry))] => {
            assert_eq!(entry.value, value(number));
            true
        }
        [ReadResult::Record(None)] => false,
        other => panic!("{other:?}"),
    }
}

async fn delete_all(store: &SqliteStore, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let deleted = store.commit(&[delete(number)]).await;
        let deleted = deleted.unwrap_or_else(|error| panic!("record {number}: {error}"));
        assert_eq!(deleted, [Verdict::Committed], "record {number}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_filled_its_disk_can_be_emptied_and_filled_again() {
    let Some(disk) = SmallDisk::mount("24m") else { return };
    let store = open(&disk.database()).await;
    let count = put_until_full(&store, 0).await;
    assert!(count > 2_000, "{count} records");
    assert!(disk.free() < 2 << 20, "{} bytes are free", disk.free());
    for number in (0..count).step_by(101) {
        assert!(is_there(&store, number).await, "record {number}");
    }
    delete_all(&store, 0..count).await;
    // The database keeps its size: its own free pages are the free space.
    let second = put_until_full(&store, RECORDS_MAX).await - RECORDS_MAX;
    assert!(second > count / 2, "{second} records after {count}");
    store.close().await;
    let store = open(&disk.database()).await;
    assert!(!is_there(&store, 0).await && is_there(&store, RECORDS_MAX).await);
    delete_all(&store, RECORDS_MAX..RECORDS_MAX + second).await;
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deletes_succeed_after_another_program_filled_the_disk() {
    const RECORDS: u64 = 3_000;
    let Some(disk) = SmallDisk::mount("40m") else { return };
    let store = open(&disk.database()).await;
    for number in 0..RECORDS {
        assert_eq!(store.commit(&[put(number)]).await.unwrap(), [Verdict::Committed]);
    }
    let filler = disk.fill();
    let refused = store.commit(&[put(RECORDS)]).await.expect_err("there is no space");
    assert_eq!(refused.kind(), StoreErrorKind::Full, "{refused}");
    // In one batch, the plans that free space are committed, and the others fail.
    let batch = [put(RECORDS), delete(0), put(RECORDS + 1), delete(1)];
    let verdicts = store.commit(&batch).await.expect("some are committed");
    let full = Verdict::Failed(StoreErrorKind::Full);
    assert_eq!(verdicts, [full.clone(), Verdict::Committed, full, Verdict::Committed]);
    assert!(!is_there(&store, RECORDS).await && !is_there(&store, 0).await);
    delete_all(&store, 2..RECORDS / 2).await;
    // A store that is opened now also deletes.
    store.close().await;
    disk.fill();
    let store = open(&disk.database()).await;
    delete_all(&store, RECORDS / 2..RECORDS).await;
    fs::remove_file(filler).unwrap();
    assert_eq!(store.commit(&[put(0)]).await.expect("there is space"), [Verdict::Committed]);
    assert!(is_there(&store, 0).await);
    store.close().await;
}

/// The reserve is not lost to programs that take all space that becomes free.
#[tokio::test(flavor = "multi_thread")]
async fn deletes_succeed_while_other_programs_take_all_free_space() {
    const RECORDS: u64 = 1_500;
    let Some(disk) = SmallDisk::mount("32m") else { return };
    let store = open(&disk.database()).await;
    for number in 0..RECORDS {
        store.commit(&[put(number)]).await.unwrap();
    }
    disk.fill();
    let ended = Arc::new(AtomicBool::new(false));
    let thief = {
        let (path, ended) = (disk.folder.path().join("thief"), Arc::clone(&ended));
        tokio::task::spawn_blocking(move || {
            let mut failures = 0_u64;
            while !ended.load(Ordering::Relaxed) {
                let mut file = File::create(&path).unwrap();
                failures += u64::from(file.write_all(&vec![1; 256 << 10]).is_err());
                drop(file);
                std::thread::sleep(Duration::from_millis(2));
                let _gone = fs::remove_file(&path);
            }
            failures
        })
    };
    let putting = async {
        let (mut refused, mut number) = (0_u64, RECORDS_MAX);
        while !ended.load(Ordering::Relaxed) {
            match store.commit(&[put(number)]).await {
                Ok(_) => number += 1,
                Err(error) => {
                    assert_eq!(error.kind(), StoreErrorKind::Full, "{error}");
                    refused += 1;
                }
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        refused
    };
    let deleting = async {
        delete_all(&store, 0..RECORDS).await;
        ended.store(true, Ordering::Relaxed);
    };
    let (refused, ()) = tokio::join!(putting, deleting);
    let failures = thief.await.unwrap();
    assert!(refused > 0 && failures > 0, "the disk was not full");
    store.close().await;
}
