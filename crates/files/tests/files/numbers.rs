//! Nodes that are found by their numbers, as handles of NFS name them.

use files::{NodeKind, OpenMode};
use record::Ino;
use rustix::io::Errno;

use super::{Bench, by, bytes, files_options};

#[tokio::test]
async fn a_file_is_found_and_opened_by_its_number_alone() {
    let bench = Bench::new().await;
    let directory = bench.files.make_directory(bench.bucket, b"d", by()).await.unwrap().ino;
    let ino = bench.write("f", &bytes(100_000, 1)).await;
    // Other files of the same volume know none of its names, as after a remount.
    let files = files::Files::new(bench.volume.clone(), files_options(None));
    assert_eq!(files.open(ino, OpenMode::default()).await.err(), Some(Errno::STALE));
    let files = files::Files::new(bench.volume.clone(), files_options(None));
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
async fn a_number_whose_last_name_is_gone_is_stale() {
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

#[tokio::test]
async fn a_number_does_not_lead_out_of_what_is_mounted() {
    let bench = Bench::new().await;
    let inside = bench.files.make_directory(bench.bucket, b"in", by()).await.unwrap().ino;
    let below = bench.files.make_directory(inside, b"below", by()).await.unwrap().ino;
    let file = bench.files.make_file(below, b"f", by()).await.unwrap().ino;
    let outside = bench.write("f", b"outside").await;
    let mounted = |root| {
        files::Files::new(bench.volume.clone(), files::FilesOptions { root, ..files_options(None) })
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
    // Of a file it is known once a name has led to it.
    files.look_up(below, b"f").await.unwrap();
    assert_eq!(files.look_up_number(file).await.unwrap().ino, file);
}
