//! Lookups by inode number, as for NFS file handles.

use files::{NodeKind, OpenMode};
use record::{Ino, Versioning};
use rustix::io::Errno;
use volume::BucketChange;

use super::{Bench, WRITES, by, bytes, files_options};

#[tokio::test]
async fn file_is_looked_up_and_opened_by_number() {
    let bench = Bench::new().await;
    let directory = bench.files.make_directory(bench.bucket, b"d", by()).await.unwrap().ino;
    let ino = bench.write("f", &bytes(100_000, 1)).await;
    // Another file system of the same volume knows no names, as after a remount.
    let files = files::Files::new(bench.volume.volume().clone(), files_options(None));
    assert_eq!(files.open(ino, OpenMode::default()).await.err(), Some(Errno::STALE));
    let files = files::Files::new(bench.volume.volume().clone(), files_options(None));
    let found = files.look_up_number(ino).await.unwrap();
    assert_eq!((found.ino, found.kind, found.size), (ino, NodeKind::File, 100_000));
    let handle = files.open(ino, OpenMode::default()).await.unwrap().handle;
    assert!(files.read(handle, 0, u64::MAX).await.unwrap().concat() == bytes(100_000, 1));
    files.release(handle).await;
    let found = files.look_up_number(directory).await.unwrap();
    assert_eq!(found.kind, NodeKind::Directory);
    assert_eq!(files.look_up_parent(directory).await.unwrap().ino, bench.bucket);
    assert_eq!(files.look_up_parent(bench.bucket).await.unwrap().ino, Ino::ROOT);
    assert_eq!(files.look_up_parent(Ino::ROOT).await.unwrap().ino, Ino::ROOT);
    assert_eq!(files.look_up_parent(ino).await.err(), Some(Errno::NOTDIR));
}

#[tokio::test]
async fn lookup_by_number_of_an_unlinked_file_is_stale() {
    let bench = Bench::new().await;
    for length in [100, 100_000] {
        let ino = bench.write("f", &bytes(length, 1)).await;
        bench.files.look_up_number(ino).await.unwrap();
        assert!(bench.delete("f").await);
        let gone = bench.files.look_up_number(ino).await;
        assert_eq!(gone.err(), Some(Errno::STALE), "{length}");
        let opened = bench.files.open(ino, OpenMode::default()).await;
        assert_eq!(opened.err(), Some(Errno::STALE), "{length}");
    }
    assert_eq!(bench.files.look_up_number(Ino(999_999)).await.err(), Some(Errno::STALE));
}

/// In a bucket with versions or a trash the inode remains, as a version. A write through the handle
/// would reach no key.
#[tokio::test]
async fn lookup_by_number_of_a_kept_version_is_stale() {
    for versioning in [Versioning::Enabled, Versioning::Trash] {
        for replaced in [false, true] {
            let bench = Bench::new().await;
            let change = BucketChange::Versioning(versioning);
            bench.volume.set_bucket("bkt", change).await.unwrap();
            let ino = bench.write("f", &bytes(100_000, 1)).await;
            let other = bench.files.link(ino, bench.bucket, b"other").await.unwrap();
            assert_eq!(other.ino, ino);
            let case = format!("{versioning:?}, replaced: {replaced}");
            for name in ["f", "other"] {
                bench.files.look_up_number(ino).await.expect(&case);
                if replaced {
                    bench.put(name, b"newer").await;
                } else {
                    assert!(bench.delete(name).await);
                }
            }
            let gone = bench.files.look_up_number(ino).await;
            assert_eq!(gone.err(), Some(Errno::STALE), "{case}");
            let opened = bench.files.open(ino, WRITES).await;
            assert_eq!(opened.err(), Some(Errno::STALE), "{case}");
        }
    }
}

#[tokio::test]
async fn lookup_by_number_stays_below_the_mounted_root() {
    let bench = Bench::new().await;
    let inside = bench.files.make_directory(bench.bucket, b"in", by()).await.unwrap().ino;
    let below = bench.files.make_directory(inside, b"below", by()).await.unwrap().ino;
    let file = bench.files.make_file(below, b"f", by()).await.unwrap().ino;
    let outside = bench.write("f", b"outside").await;
    let mounted = |root| {
        files::Files::new(
            bench.volume.volume().clone(),
            files::FilesOptions { root, ..files_options(None) },
        )
    };
    let bucket = mounted(bench.bucket);
    for ino in [bench.bucket, inside, below, file, outside] {
        assert_eq!(bucket.look_up_number(ino).await.unwrap().ino, ino, "a bucket's own");
    }
    assert_eq!(bucket.look_up_number(Ino::ROOT).await.err(), Some(Errno::STALE));
    let files = mounted(inside);
    for ino in [inside, below] {
        assert_eq!(files.look_up_number(ino).await.unwrap().ino, ino);
    }
    assert_eq!(files.look_up_parent(below).await.unwrap().ino, inside);
    assert_eq!(files.look_up_parent(inside).await.unwrap().ino, inside, "the root is in itself");
    for ino in [outside, bench.bucket, Ino::ROOT] {
        assert_eq!(files.look_up_number(ino).await.err(), Some(Errno::STALE), "{ino:?}");
    }
    // A file's place is known once it was looked up by name.
    files.look_up(below, b"f").await.unwrap();
    assert_eq!(files.look_up_number(file).await.unwrap().ino, file);
}
