//! Files in versioned buckets: a noncurrent version never changes, and each write reaches the
//! current file. Programs write through open descriptors and through hard links of a version's
//! inode.

use std::sync::Arc;

use bytes::Bytes;
use files::{Files, HandleId};
use futures::TryStreamExt;
use record::{
    BucketConfig, Ino, RetainUntil, RetentionDefault, RetentionMode, VersionRef, Versioning,
};
use rustix::io::Errno;
use volume::{BucketChange, RenameMode, Volume};

use super::fleet::Fleet;
use super::{Bench, WRITES, by, bytes, owner};

/// Sizes of inline content, of content staged inline, and of content in blocks.
const SIZES: [usize; 3] = [20, 30_000, 400_000];

async fn versioned() -> Bench {
    let bench = Bench::new().await;
    let change = BucketChange::Versioning(Versioning::Enabled);
    bench.volume.set_bucket("bkt", change).await.unwrap();
    bench
}

async fn read_version(volume: &Volume, key: &str, version: Option<VersionRef>) -> Vec<u8> {
    let object = volume.stat_version("bkt", key.as_bytes(), version).await.unwrap();
    let frames: Vec<Bytes> = volume.read(&object, 0..object.size()).try_collect().await.unwrap();
    frames.concat()
}

async fn version_of(volume: &Volume, key: &str) -> Option<VersionRef> {
    volume.stat("bkt", key.as_bytes()).await.unwrap().version
}

/// Writes through a descriptor, truncates the file, and reads it completely.
async fn change(files: &Files, handle: HandleId, size: usize) -> Vec<u8> {
    files.write(handle, 3, b"EDIT", false, false).await.unwrap();
    files.flush(handle).await.unwrap();
    files.read(handle, 0, size as u64).await.unwrap().concat()
}

/// Takes the key `k` from its object: by a removal or a rename on the mount, or by S3.
async fn supersede(bench: &Bench, how: &str) {
    match how {
        "unlink" => bench.files.unlink(bench.bucket, b"k").await.unwrap(),
        "rename over" => {
            bench.write("t", b"new").await;
            let (from, to) = ((bench.bucket, &b"t"[..]), (bench.bucket, &b"k"[..]));
            bench.files.rename(from, to, RenameMode::Replace).await.unwrap();
        }
        "put" => bench.put("k", b"new").await,
        _ => assert!(bench.delete("k").await),
    }
}

#[tokio::test]
async fn write_through_a_descriptor_keeps_noncurrent_versions() {
    for size in SIZES {
        for how in ["unlink", "rename over", "put", "delete"] {
            let bench = versioned().await;
            let (volume, files) = (&bench.volume, &bench.files);
            let body = bytes(size, 7);
            bench.put("k", &body).await;
            let version = version_of(volume, "k").await;
            let handle = bench.open("k", WRITES).await;
            supersede(&bench, how).await;
            let mut expected = body.clone();
            expected[3..7].copy_from_slice(b"EDIT");
            let read = change(files, handle, size).await;
            assert!(read == expected, "{how}, {size}: the descriptor reads what it wrote");
            bench.close(handle).await;
            let kept = read_version(volume, "k", version).await;
            assert!(kept == body, "{how}, {size}: the version changed");
            bench.check(how).await;
        }
    }
}

#[tokio::test]
async fn write_through_a_hard_link_keeps_noncurrent_versions() {
    for size in SIZES {
        let bench = versioned().await;
        let body = bytes(size, 7);
        bench.put("k", &body).await;
        let version = version_of(&bench.volume, "k").await;
        let ino = bench.files.look_up(bench.bucket, b"k").await.unwrap().ino;
        bench.files.link(ino, bench.bucket, b"other").await.unwrap();
        bench.put("k", b"new").await;
        let handle = bench.open("other", WRITES).await;
        change(&bench.files, handle, size).await;
        bench.close(handle).await;
        assert!(read_version(&bench.volume, "k", version).await == body, "{size}");
        let other = bench.cat("other").await.unwrap();
        assert!(other[3..7] == *b"EDIT" && other.len() == size, "{size}: the write is there");
        let still = bench.files.look_up(bench.bucket, b"other").await.unwrap().ino;
        assert_eq!(still, ino, "a file keeps its number");
        bench.check("after a write to the other link").await;
    }
}

/// A program writes to a file that it has open on one mount, and another mount renames the file.
/// The write was acknowledged, so it must be in the file under the new name.
#[tokio::test]
async fn write_reaches_a_file_renamed_by_another_mount() {
    for versioning in [Versioning::Off, Versioning::Enabled, Versioning::Trash] {
        for size in SIZES {
            for how in ["rename", "unlink one of two links", "rename by S3"] {
                let fleet = Fleet::new();
                let (volume, files) = fleet.open().await;
                volume.create_bucket("bkt", &volume::NewBucket::owned_by(&owner())).await.unwrap();
                if versioning == Versioning::Trash {
                    let days = record::BucketConfig::of_trash_days(3);
                    let kind = record::BucketConfigKind::Trash;
                    volume.set_bucket_config("bkt", kind, Some(&days)).await.unwrap();
                } else {
                    let change = BucketChange::Versioning(versioning);
                    volume.set_bucket("bkt", change).await.unwrap();
                }
                let (volume2, files2) = fleet.open().await;
                let bucket = files.look_up(Ino::ROOT, b"bkt").await.unwrap().ino;
                let handle = created(&files, bucket, &bytes(size, 7)).await;
                match how {
                    "rename" => {
                        let (from, to) = ((bucket, &b"k"[..]), (bucket, &b"new"[..]));
                        files2.rename(from, to, RenameMode::Replace).await.unwrap();
                    }
                    "unlink one of two links" => {
                        let ino = files2.look_up(bucket, b"k").await.unwrap().ino;
                        files2.link(ino, bucket, b"new").await.unwrap();
                        files2.unlink(bucket, b"k").await.unwrap();
                    }
                    _ if versioning == Versioning::Enabled => continue,
                    _ => {
                        let conditions = volume::RenameConditions::default();
                        volume2.rename("bkt", b"k", b"new", &conditions, None).await.unwrap();
                    }
                }
                change(&files, handle, size).await;
                files.release(handle).await;
                let got = read_version(&volume2, "new", None).await;
                assert!(got[3..7] == *b"EDIT", "{versioning:?}, {how}, {size}");
                assert_eq!(got.len(), size);
                volume.close().await;
                volume2.close().await;
                fleet.check().await;
            }
        }
    }
}

/// A file `k` with content, open for writing.
async fn created(files: &Arc<Files>, bucket: Ino, body: &[u8]) -> HandleId {
    let opened = files.create(bucket, b"k", by()).await.unwrap();
    files.write(opened.handle, 0, body, false, false).await.unwrap();
    files.flush(opened.handle).await.unwrap();
    files.release(opened.handle).await;
    let ino = files.look_up(bucket, b"k").await.unwrap().ino;
    files.open(ino, WRITES).await.unwrap().handle
}

/// A versioned bucket with a default retention of ten days in compliance mode.
async fn retaining() -> Bench {
    let bench = versioned().await;
    let config = BucketConfig { bytes: Bytes::from_static(b"<ObjectLockConfiguration/>") };
    let default = RetentionDefault { mode: RetentionMode::Compliance, days: 10 };
    bench.volume.set_object_lock("bkt", &config, Some(default)).await.unwrap();
    bench
}

async fn retention(bench: &Bench, key: &str) -> Option<RetainUntil> {
    let object = bench.volume.stat("bkt", key.as_bytes()).await.unwrap();
    object.file().object.lock.retention
}

#[tokio::test]
async fn default_retention_applies_to_writes_renames_and_links() {
    let bench = retaining().await;
    let files = &bench.files;
    let opened = files.create(bench.bucket, b"k", by()).await.unwrap();
    // The file takes several flushes, and its program continues after each of them.
    for at in 0..4_u64 {
        files.write(opened.handle, at * 50_000, &bytes(50_000, 1), false, false).await.unwrap();
        files.flush(opened.handle).await.unwrap();
        assert!(retention(&bench, "k").await.is_some(), "after flush {at}");
    }
    bench.close(opened.handle).await;
    assert_eq!(bench.cat("k").await.unwrap().len(), 200_000);
    // After the last close, it cannot be opened for writing any more.
    let ino = files.look_up(bench.bucket, b"k").await.unwrap().ino;
    assert_eq!(files.open(ino, WRITES).await.unwrap_err(), Errno::PERM);
    let version = version_of(&bench.volume, "k").await;
    // A rename leaves the locked version under the old key, and the new name is locked too.
    let (from, to) = ((bench.bucket, &b"k"[..]), (bench.bucket, &b"renamed"[..]));
    files.rename(from, to, RenameMode::Replace).await.unwrap();
    assert!(retention(&bench, "renamed").await.is_some());
    assert_eq!(files.look_up(bench.bucket, b"k").await.unwrap_err(), Errno::NOENT);
    assert_eq!(read_version(&bench.volume, "k", version).await.len(), 200_000);
    let ino = files.look_up(bench.bucket, b"renamed").await.unwrap().ino;
    files.link(ino, bench.bucket, b"linked").await.unwrap();
    assert!(retention(&bench, "linked").await.is_some());
    bench.check("in the end").await;
}

#[tokio::test]
async fn writing_continues_on_a_renamed_retained_file() {
    let bench = retaining().await;
    let files = &bench.files;
    let opened = files.create(bench.bucket, b"log", by()).await.unwrap();
    files.write(opened.handle, 0, b"one", false, false).await.unwrap();
    files.flush(opened.handle).await.unwrap();
    let (version, first) = (version_of(&bench.volume, "log").await, retention(&bench, "log").await);
    // A retention ends at a whole second.
    tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
    let (from, to) = ((bench.bucket, &b"log"[..]), (bench.bucket, &b"log.1"[..]));
    files.rename(from, to, RenameMode::Replace).await.unwrap();
    assert_ne!(retention(&bench, "log.1").await, first, "the rename begins a retention anew");
    for at in 1..4 {
        files.write(opened.handle, at * 3, b"two", false, false).await.unwrap();
        files.flush(opened.handle).await.unwrap();
    }
    bench.close(opened.handle).await;
    assert_eq!(bench.get("log.1").await.unwrap(), b"onetwotwotwo");
    assert_eq!(read_version(&bench.volume, "log", version).await, b"one");
    bench.check("in the end").await;
}

/// `O_TMPFILE`, linkat(2), and then the writes: the link gives the retention, and the program that
/// created the file writes its content after it.
#[tokio::test]
async fn writing_continues_on_a_retained_file_that_this_mount_links() {
    let bench = retaining().await;
    let files = &bench.files;
    let opened = files.create_unnamed(bench.bucket, by()).await.unwrap();
    let ino = opened.attributes.ino;
    files.link(ino, bench.bucket, b"first").await.unwrap();
    assert!(retention(&bench, "first").await.is_some());
    for (at, name) in [(0, None), (3, Some(&b"second"[..])), (6, None)] {
        if let Some(name) = name {
            files.link(ino, bench.bucket, name).await.unwrap();
        }
        files.write(opened.handle, at, b"own", false, false).await.unwrap();
        assert_eq!(files.flush(opened.handle).await, Ok(()), "at {at}");
    }
    bench.close(opened.handle).await;
    assert_eq!(bench.get("first").await.unwrap(), b"ownownown");
    assert_eq!(bench.get("second").await.unwrap(), b"ownownown");
    assert_eq!(files.open(ino, WRITES).await.unwrap_err(), Errno::PERM);
    bench.check("in the end").await;
}

/// Protocols of lock files depend on it: the open file has no links as soon as its key is gone, on
/// the mount or by S3, and has them again if the file is restored.
#[tokio::test]
async fn open_file_has_no_links_while_it_is_only_a_version() {
    for versioning in [Versioning::Enabled, Versioning::Suspended, Versioning::Trash] {
        for how in ["unlink", "rename over", "put", "delete"] {
            let bench = Bench::new().await;
            let (volume, files) = (&bench.volume, &bench.files);
            volume.set_bucket("bkt", BucketChange::Versioning(versioning)).await.unwrap();
            bench.put("k", b"lock").await;
            let handle = bench.open("k", WRITES).await;
            let ino = files.look_up(bench.bucket, b"k").await.unwrap().ino;
            let links = async || files.attributes(ino).await.unwrap().links;
            assert_eq!(links().await, 1);
            supersede(&bench, how).await;
            assert_eq!(links().await, 0, "{versioning:?}, {how}");
            if versioning == Versioning::Trash && ["unlink", "delete"].contains(&how) {
                let trash = volume.trash("bkt".into(), b"k", None).await.unwrap();
                volume.restore("bkt".into(), b"k", trash[0].1.id, false).await.unwrap();
                if how == "delete" {
                    files.look_up(bench.bucket, b"k").await.unwrap();
                }
                assert_eq!(links().await, 1, "{how}, then restored");
            }
            bench.close(handle).await;
        }
    }
}

#[tokio::test]
async fn client_set_retention_refuses_writes_of_open_files() {
    let bench = versioned().await;
    let config = BucketConfig { bytes: Bytes::from_static(b"<ObjectLockConfiguration/>") };
    bench.volume.set_object_lock("bkt", &config, None).await.unwrap();
    bench.write("k", b"before").await;
    let handle = bench.open("k", WRITES).await;
    let until = record::Timestamp(i64::MAX / 2);
    let retention = Some(RetainUntil { mode: RetentionMode::Compliance, until });
    let change = volume::ObjectChange::Retention { retention, bypasses_governance: false };
    bench.volume.change_object("bkt", b"k", None, None, change).await.unwrap();
    // Attributes of the locked object may change. That does not allow the program to change its
    // content.
    let attributes = volume::AttributeChange { mode: Some(0o600), ..Default::default() };
    let set = files::SetNode { attributes, size: None };
    let ino = bench.files.look_up(bench.bucket, b"k").await.unwrap().ino;
    bench.files.set(ino, Some(handle), set).await.unwrap();
    for _ in 0..2 {
        bench.files.write(handle, 0, b"after", false, false).await.unwrap();
        assert_eq!(bench.files.flush(handle).await, Err(Errno::PERM));
    }
    bench.files.release(handle).await;
    assert_eq!(bench.get("k").await.unwrap(), b"before");
}

/// An object of a few bytes consists of its inode only, and its dentry says so. The program that
/// has it open knows the name by the inode number of the directory.
#[tokio::test]
async fn write_reaches_a_restored_file_in_a_recreated_directory() {
    for versioning in [Versioning::Enabled, Versioning::Trash] {
        let bench = Bench::new().await;
        let volume = &bench.volume;
        volume.set_bucket("bkt", BucketChange::Versioning(versioning)).await.unwrap();
        bench.put("d/k", b"small").await;
        let directory = bench.files.look_up(bench.bucket, b"d").await.unwrap().ino;
        let ino = bench.files.look_up(directory, b"k").await.unwrap().ino;
        let handle = bench.files.open(ino, WRITES).await.unwrap().handle;
        let keys = vec![(b"d/k".to_vec(), None)];
        let marker = volume.delete("bkt", keys).await.unwrap().remove(0).unwrap().marker;
        // The directory is removed with its last key, or by a program.
        let _removed = bench.files.remove_directory(bench.bucket, b"d").await;
        if versioning == Versioning::Trash {
            let trash = volume.trash("bkt".into(), b"d/k", None).await.unwrap();
            volume.restore("bkt".into(), b"d/k", trash[0].1.id, false).await.unwrap();
        } else {
            volume.delete_version("bkt", b"d/k", marker.unwrap(), false).await.unwrap();
        }
        let anew = volume.stat("bkt", b"d/k").await.unwrap();
        assert_eq!(anew.ino, ino, "{versioning:?}: the file came back");
        let read = change(&bench.files, handle, 20).await;
        assert_eq!(read, b"smaEDIT", "{versioning:?}");
        bench.close(handle).await;
        let now = bench.files.look_up(bench.bucket, b"d").await.unwrap().ino;
        assert_ne!(now, directory, "{versioning:?}: the directory is another one");
        assert_eq!(read_version(volume, "d/k", None).await, b"smaEDIT", "{versioning:?}");
        bench.check("after the write").await;
    }
}
