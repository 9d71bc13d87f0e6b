//! One volume in two views: a write through either is visible in the other at once.

use std::sync::Arc;
use std::time::Duration;

use files::OpenMode;
use md5::{Digest, Md5};
use record::{Content, SumAlgorithm, Tag};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use volume::{AttributeChange, FileWrite};

use super::{Bench, WRITES, by, bytes};

#[tokio::test]
async fn sequential_file_has_md5_and_checksum() {
    let bench = Bench::new().await;
    let data = b"hello\n";
    bench.write("f", data).await;
    let object = bench.volume.stat("bkt", b"f").await.unwrap();
    let md5 = [
        0xb1, 0x94, 0x6a, 0xc9, 0x24, 0x92, 0xd2, 0x34, 0x7c, 0x62, 0x35, 0xb4, 0xd2, 0x61, 0x11,
        0x84,
    ];
    assert_eq!(*object.tag(), Tag::Md5(md5));
    let sums: Vec<_> = object.file().sums.iter().map(|sum| sum.algorithm).collect();
    assert_eq!(sums, [SumAlgorithm::Crc64Nvme]);
}

#[tokio::test]
async fn entity_tag_changes_with_the_content() {
    let bench = Bench::new().await;
    let files = &bench.files;
    bench.write("f", &bytes(300_000, 1)).await;
    let mut tags = vec![*bench.volume.stat("bkt", b"f").await.unwrap().tag()];
    for at in [0, 100_000, 290_000] {
        let handle = bench.open("f", WRITES).await;
        files.write(handle, at, b"changed", false, false).await.unwrap();
        bench.close(handle).await;
        let object = bench.volume.stat("bkt", b"f").await.unwrap();
        assert!(matches!(object.tag(), Tag::Opaque(..)), "an MD5 is not computed by reading");
        assert!(object.file().sums.is_empty());
        assert!(!tags.contains(object.tag()));
        tags.push(*object.tag());
    }
}

#[tokio::test]
async fn change_in_the_middle_writes_only_the_changed_bytes() {
    let bench = Bench::new().await;
    let files = &bench.files;
    bench.write("f", &bytes(300_000, 1)).await;
    let before = bench.volume.stat("bkt", b"f").await.unwrap();
    let handle = bench.open("f", WRITES).await;
    files.write(handle, 150_000, b"changed", false, false).await.unwrap();
    bench.close(handle).await;
    let after = bench.volume.stat("bkt", b"f").await.unwrap();
    assert_eq!(before.ino, after.ino, "a file keeps its number");
    let blocks = |content: &Content| match content {
        Content::Slices(slices) => slices.iter().map(|s| s.block).collect::<Vec<_>>(),
        content => panic!("slices were due: {content:?}"),
    };
    let (before, after) = (blocks(&before.file().content), blocks(&after.file().content));
    let new = after.iter().filter(|block| !before.contains(block)).count();
    assert_eq!(new, 1, "one new block, and the others stay");
}

#[tokio::test]
async fn holes_are_zeros_in_both_views() {
    let bench = Bench::new().await;
    let files = &bench.files;
    let opened = files.create(bench.bucket, b"f", by()).await.unwrap();
    files.write(opened.handle, 1_000_000, b"end", false, false).await.unwrap();
    bench.close(opened.handle).await;
    let mut expected = vec![0; 1_000_000];
    expected.extend_from_slice(b"end");
    assert!(bench.get("f").await.unwrap() == expected);
    assert!(bench.cat("f").await.unwrap() == expected);
}

/// A program that truncates a file and rewrites it within five seconds makes one commit.
#[tokio::test]
async fn dirty_data_is_flushed_after_five_seconds() {
    let bench = Bench::new().await;
    bench.write("f", b"before").await;
    let end = CancellationToken::new();
    let mut flushing = JoinSet::new();
    flushing.spawn(Arc::clone(&bench.files).flush_until(end.clone()));
    tokio::time::pause();
    let mut expected = b"before".to_vec();
    // At any phase between two checks of the flusher.
    for round in 0..5 {
        tokio::time::sleep(Duration::from_millis(230)).await;
        let mode = OpenMode { truncates: true, ..WRITES };
        let handle = bench.open("f", mode).await;
        tokio::time::sleep(Duration::from_millis(4_500)).await;
        assert_eq!(bench.get("f").await.unwrap(), expected, "{round}");
        expected = format!("after {round}").into_bytes();
        bench.files.write(handle, 0, &expected, false, false).await.unwrap();
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(bench.get("f").await.unwrap(), expected);
        bench.close(handle).await;
    }
    end.cancel();
    flushing.join_all().await;
}

#[tokio::test]
async fn directories_appear_to_s3_as_prefixes_or_objects() {
    let bench = Bench::new().await;
    let files = &bench.files;
    let made = files.make_directory(bench.bucket, b"made", by()).await.unwrap().ino;
    assert!(bench.volume.stat("bkt", b"made/").await.is_ok(), "an empty one is an object");
    let file = files.create(made, b"f", by()).await.unwrap();
    bench.close(file.handle).await;
    assert!(bench.volume.stat("bkt", b"made/").await.is_err(), "only while it is empty");
    assert!(bench.delete("made/f").await);
    assert!(files.look_up(bench.bucket, b"made").await.is_ok(), "S3 removes none that was made");
    bench.put("implied/f", b"x").await;
    assert!(bench.delete("implied/f").await);
    assert!(files.look_up(bench.bucket, b"implied").await.is_err(), "nor leaves any that was not");
    bench.put("marked/", b"").await;
    files.remove_directory(bench.bucket, b"marked").await.unwrap();
    assert!(bench.volume.stat("bkt", b"marked/").await.is_err(), "the marker goes with it");
}

#[tokio::test]
async fn directory_hides_the_object_of_the_same_name() {
    let bench = Bench::new().await;
    let files = &bench.files;
    bench.put("a", b"object").await;
    bench.put("a/b", b"below").await;
    let found = files.look_up(bench.bucket, b"a").await.unwrap();
    assert_eq!(found.kind, files::NodeKind::Directory);
    assert_eq!(bench.get("a").await.unwrap(), b"object");
    let exists = files.make_file(bench.bucket, b"a", by()).await;
    assert_eq!(exists.unwrap_err(), rustix::io::Errno::EXIST);
}

#[tokio::test]
async fn long_sequential_file_has_its_md5_after_many_syncs() {
    let bench = Bench::new().await;
    let files = &bench.files;
    let data = bytes(400_000, 9);
    let opened = files.create(bench.bucket, b"f", by()).await.unwrap();
    for (at, piece) in (0_u64..).step_by(70_000).zip(data.chunks(70_000)) {
        files.write(opened.handle, at, piece, false, false).await.unwrap();
        files.flush(opened.handle).await.unwrap();
        let object = bench.volume.stat("bkt", b"f").await.unwrap();
        let so_far = &data[..usize::try_from(at).unwrap() + piece.len()];
        assert_eq!(*object.tag(), Tag::Md5(Md5::digest(so_far).into()));
        assert_eq!(object.file().sums.len(), 1);
    }
    files.write(opened.handle, 5, b"!", false, false).await.unwrap();
    files.flush(opened.handle).await.unwrap();
    assert!(matches!(bench.volume.stat("bkt", b"f").await.unwrap().tag(), Tag::Opaque(..)));
    bench.close(opened.handle).await;
    let mut expected = data;
    expected[5] = b'!';
    assert!(bench.get("f").await.unwrap() == expected);
}

#[tokio::test]
async fn small_file_changed_by_another_client_is_merged() {
    let bench = Bench::new().await;
    let files = &bench.files;
    let ino = bench.write("f", &bytes(1_000, 1)).await;
    let handle = bench.open("f", WRITES).await;
    files.write(handle, 0, b"mine", false, false).await.unwrap();
    // A commit of another process, which this one does not know.
    let mut theirs = bytes(1_000, 1);
    theirs[500..506].copy_from_slice(b"theirs");
    let mut writer = bench.volume.writer(None, Some(1_000));
    writer.write(theirs.clone().into()).await.unwrap();
    let (body, name) = (writer.finish().await.unwrap(), bench.name("f"));
    let attributes = AttributeChange::default();
    let write = FileWrite { attributes: &attributes, ..FileWrite::new(ino, Some(&name)) };
    let tag = Tag::opaque([7; 16]);
    bench.volume.replace_content(write, body, tag, Vec::new()).await.unwrap();
    bench.close(handle).await;
    theirs[..4].copy_from_slice(b"mine");
    assert!(bench.get("f").await.unwrap() == theirs);
}
