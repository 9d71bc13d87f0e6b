//! Access times of files and directories.

use files::{OpenMode, SetNode};
use record::{Ino, Timestamp};
use volume::{AttributeChange, SetTime, count_round_trips};

use crate::{Bench, WRITES, bytes};

async fn accessed(bench: &Bench, ino: Ino) -> Timestamp {
    bench.files.attributes(ino).await.unwrap().accessed
}

async fn kept(bench: &Bench, ino: Ino) -> Timestamp {
    bench.volume.find_node(ino).await.unwrap().inode.attributes.accessed
}

async fn set_times(bench: &Bench, ino: Ino, accessed: i64, modified: i64) {
    let at = |time| Some(SetTime::At(Timestamp(time)));
    let attributes = AttributeChange {
        accessed: at(accessed),
        modified: at(modified),
        ..AttributeChange::default()
    };
    bench.files.set(ino, None, SetNode { attributes, size: None }).await.unwrap();
}

#[tokio::test]
async fn access_time_is_committed_later_and_invisible_to_s3() {
    let bench = Bench::new().await;
    bench.put("f", &bytes(100_000, 1)).await;
    let before = bench.volume.stat("bkt", b"f").await.unwrap();
    let ino = before.ino;
    let first = accessed(&bench, ino).await;
    bench.get("f").await.unwrap();
    assert_eq!(accessed(&bench, ino).await, first, "S3's reads do not count");
    let (read, trips) = count_round_trips(bench.cat("f")).await;
    assert_eq!((read.unwrap().len(), trips.commits), (100_000, 0));
    let noted = accessed(&bench, ino).await;
    assert!(noted > first);
    assert_eq!(kept(&bench, ino).await, first);
    bench.files.persist_access_times().await;
    assert_eq!((kept(&bench, ino).await, accessed(&bench, ino).await), (noted, noted));
    bench.files.persist_access_times().await;

    let after = bench.volume.stat("bkt", b"f").await.unwrap();
    assert_eq!(after.file(), before.file());
    let (was, is) = (before.inode.attributes, after.inode.attributes);
    assert_eq!(is, record::Attributes { accessed: noted, ..was });
    let handle = bench.open("f", OpenMode::default()).await;
    bench.files.read(handle, 0, 9).await.unwrap();
    assert_eq!(accessed(&bench, ino).await, noted, "nothing has changed since");
    bench.files.release(handle).await;
    bench.check("read").await;
}

#[tokio::test]
async fn access_time_is_updated_after_a_change_and_after_a_day() {
    let bench = Bench::new().await;
    let ino = bench.write("f", b"hello").await;
    bench.cat("f").await.unwrap();
    bench.files.persist_access_times().await;
    let first = kept(&bench, ino).await;
    let handle = bench.open("f", WRITES).await;
    bench.files.write(handle, 0, b"J", false, false).await.unwrap();
    bench.close(handle).await;
    bench.cat("f").await.unwrap();
    assert!(accessed(&bench, ino).await > first);
    // A time that a program sets is returned, and it is older than the last change.
    set_times(&bench, ino, 5, 4).await;
    assert_eq!(accessed(&bench, ino).await, Timestamp(5));
    bench.cat("f").await.unwrap();
    assert!(accessed(&bench, ino).await > first);
    let directory = bench.files.attributes(bench.bucket).await.unwrap();
    let handle = bench.files.open_directory(bench.bucket).await.unwrap();
    bench.files.release_directory(handle);
    assert!(accessed(&bench, bench.bucket).await > directory.accessed);
    bench.files.persist_access_times().await;
    let after = bench.files.attributes(bench.bucket).await.unwrap();
    assert_eq!((after.modified, after.changed), (directory.modified, directory.changed));
}

#[tokio::test]
async fn noatime_handle_updates_no_access_time() {
    let bench = Bench::new().await;
    let ino = bench.write("f", b"hello").await;
    let first = accessed(&bench, ino).await;
    let opened = bench.files.open(ino, OpenMode::default()).await.unwrap();
    bench.files.note_opened(&opened, false, true).await;
    bench.files.read(opened.handle, 0, 9).await.unwrap();
    assert_eq!(accessed(&bench, ino).await, first);
    bench.files.note_opened(&opened, true, true).await;
    assert!(accessed(&bench, ino).await > first, "pages may be in the kernel cache");
    bench.files.release(opened.handle).await;
}
