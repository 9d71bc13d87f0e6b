//! Holes in open files and copies of ranges.

use block::BlockStore;
use files::{HandleId, OpenMode};
use record::{Content, Tag};
use rustix::io::Errno;
use volume::SeekTarget;

use super::{Bench, WRITES, by, bytes};

/// Returns the number of blocks.
async fn count_blocks(bench: &Bench) -> usize {
    let mut count = 0;
    for session in bench.blocks.sessions().await.unwrap() {
        count += bench.blocks.list(session, None).await.unwrap().blocks.len();
    }
    count
}

async fn seek(bench: &Bench, handle: HandleId, at: u64) -> [Result<u64, Errno>; 2] {
    let seek = |sought| bench.files.seek(handle, at, sought);
    [seek(SeekTarget::Data).await, seek(SeekTarget::Hole).await]
}

#[tokio::test]
async fn seek_finds_data_and_holes_before_and_after_the_flush() {
    let bench = Bench::new().await;
    let files = &bench.files;
    let made = files.create(bench.bucket, b"f", by()).await.unwrap();
    let handle = made.handle;
    assert_eq!(seek(&bench, handle, 0).await, [Err(Errno::NXIO); 2]);
    files.write(handle, 100_000, &bytes(50_000, 1), false, false).await.unwrap();
    files.allocate(handle, 400_000, false).await.unwrap();
    for is_flushed in [false, true] {
        assert_eq!(seek(&bench, handle, 0).await, [Ok(100_000), Ok(0)], "{is_flushed}");
        assert_eq!(seek(&bench, handle, 120_000).await, [Ok(120_000), Ok(150_000)]);
        assert_eq!(seek(&bench, handle, 150_000).await, [Err(Errno::NXIO), Ok(150_000)]);
        assert_eq!(seek(&bench, handle, 399_999).await, [Err(Errno::NXIO), Ok(399_999)]);
        assert_eq!(seek(&bench, handle, 400_000).await, [Err(Errno::NXIO); 2]);
        let stat = files.attributes(made.attributes.ino).await.unwrap();
        assert_eq!((stat.size, stat.blocks), (400_000, 50_000_u64.div_ceil(512)), "{is_flushed}");
        files.flush(handle).await.unwrap();
    }
    bench.close(handle).await;
}

#[tokio::test]
async fn zeroing_a_long_range_makes_a_hole_and_frees_blocks() {
    let bench = Bench::new().await;
    let files = &bench.files;
    bench.write("f", &bytes(600_000, 1)).await;
    let handle = bench.open("f", WRITES).await;
    let before = count_blocks(&bench).await;
    files.write(handle, 300_000, b"dirty", false, false).await.unwrap();
    files.zero(handle, 100_000, 400_000, true).await.unwrap();
    assert_eq!(seek(&bench, handle, 0).await, [Ok(0), Ok(100_000)]);
    assert_eq!(seek(&bench, handle, 100_000).await, [Ok(500_000), Ok(100_000)]);
    let mut expected = bytes(600_000, 1);
    expected[100_000..500_000].fill(0);
    assert!(files.read(handle, 0, u64::MAX).await.unwrap().concat() == expected);
    assert!(bench.get("f").await.unwrap() == expected, "everybody sees it at once");
    bench.close(handle).await;
    let stat = files.look_up(bench.bucket, b"f").await.unwrap();
    assert_eq!((stat.size, stat.blocks), (600_000, 200_000_u64.div_ceil(512)));
    bench.volume.upkeep().reap_now().await.unwrap();
    assert!(count_blocks(&bench).await + 4 < before);
    bench.check("after the reaper").await;
}

#[tokio::test]
async fn zeroing_behind_the_end_grows_the_file_unless_size_is_kept() {
    let bench = Bench::new().await;
    let files = &bench.files;
    bench.write("f", &bytes(200_000, 1)).await;
    let handle = bench.open("f", WRITES).await;
    files.zero(handle, 100_000, 300_000, true).await.unwrap();
    let mut expected = bytes(200_000, 1);
    expected[100_000..].fill(0);
    assert!(files.read(handle, 0, u64::MAX).await.unwrap().concat() == expected);
    files.zero(handle, 100_000, 300_000, false).await.unwrap();
    files.zero(handle, 500_000, 100_000, true).await.unwrap();
    expected.resize(400_000, 0);
    assert!(files.read(handle, 0, u64::MAX).await.unwrap().concat() == expected);
    bench.close(handle).await;
    assert!(bench.get("f").await.unwrap() == expected);
}

#[tokio::test]
async fn copy_of_a_file_shares_blocks_and_entity_tag() {
    let bench = Bench::new().await;
    let files = &bench.files;
    let data = bytes(600_000, 1);
    let tag = Tag::Md5([7; 16]);
    bench.put_tagged("o", &data, tag).await;
    let before = count_blocks(&bench).await;
    let from = bench.open("o", OpenMode::default()).await;
    let into = files.create(bench.bucket, b"copy", by()).await.unwrap().handle;
    assert_eq!(files.copy((from, 0), (into, 0), 1 << 40).await, Ok(600_000));
    assert_eq!(files.copy((from, 600_000), (into, 600_000), 1 << 40).await, Ok(0));
    assert!(files.read(into, 0, u64::MAX).await.unwrap().concat() == data);
    assert_eq!(count_blocks(&bench).await, before);
    bench.check("shared").await;
    bench.close(into).await;
    bench.close(from).await;
    assert!(bench.delete("o").await);
    bench.volume.upkeep().reap_now().await.unwrap();
    assert!(bench.get("copy").await.unwrap() == data);
    assert_eq!(*bench.volume.stat("bkt", b"copy").await.unwrap().tag(), tag);
    bench.check("without the source").await;
}

#[tokio::test]
async fn sequential_file_and_its_copy_have_the_same_md5() {
    let bench = Bench::new().await;
    let files = &bench.files;
    let mut whole = files.create(bench.bucket, b"f", by()).await.unwrap();
    // Written completely, and stored in blocks.
    let data = bytes(46_000, 1);
    files.write(whole.handle, 0, &data, false, false).await.unwrap();
    bench.close(whole.handle).await;
    bench.volume.upkeep().destage_now().await.unwrap();
    let tag = *bench.volume.stat("bkt", b"f").await.unwrap().tag();
    assert!(matches!(tag, Tag::Md5(_)));
    whole = files.open(whole.attributes.ino, OpenMode::default()).await.unwrap();
    let into = files.create(bench.bucket, b"copy", by()).await.unwrap().handle;
    // The range is short, so its bytes are copied and hashed.
    assert_eq!(files.copy((whole.handle, 0), (into, 0), 1 << 40).await, Ok(46_000));
    bench.close(into).await;
    bench.close(whole.handle).await;
    assert_eq!(*bench.volume.stat("bkt", b"copy").await.unwrap().tag(), tag);
}

#[tokio::test]
async fn copy_flushes_dirty_data_of_source_and_target() {
    let bench = Bench::new().await;
    let files = &bench.files;
    bench.write("from", &bytes(300_000, 1)).await;
    bench.write("into", &bytes(300_000, 2)).await;
    let (from, into) = (bench.open("from", WRITES).await, bench.open("into", WRITES).await);
    files.write(from, 150_000, b"source", false, false).await.unwrap();
    files.write(into, 10, b"kept", false, false).await.unwrap();
    files.write(into, 150_000, b"hidden", false, false).await.unwrap();
    assert_eq!(files.copy((from, 100_000), (into, 100_000), 100_000).await, Ok(100_000));
    let mut expected = bytes(300_000, 2);
    expected[10..14].copy_from_slice(b"kept");
    expected[100_000..200_000].copy_from_slice(&bytes(300_000, 1)[100_000..200_000]);
    expected[150_000..150_006].copy_from_slice(b"source");
    assert!(files.read(into, 0, u64::MAX).await.unwrap().concat() == expected);
    bench.close(into).await;
    bench.close(from).await;
    assert!(bench.get("into").await.unwrap() == expected);
    bench.check("shared").await;
}

#[tokio::test]
async fn copy_within_one_file_refuses_overlap() {
    let bench = Bench::new().await;
    let files = &bench.files;
    let data = bytes(400_000, 1);
    bench.write("f", &data).await;
    let (handle, other) = (bench.open("f", WRITES).await, bench.open("f", WRITES).await);
    let before = count_blocks(&bench).await;
    for (from, to) in [(0, 199_999), (199_999, 0), (7, 7)] {
        let copied = files.copy((handle, from), (other, to), 200_000).await;
        assert_eq!(copied, Err(Errno::INVAL), "{from} to {to}");
    }
    assert_eq!(files.copy((handle, 0), (other, 200_000), 200_000).await, Ok(200_000));
    let expected = [&data[..200_000], &data[..200_000]].concat();
    assert!(files.read(handle, 0, u64::MAX).await.unwrap().concat() == expected);
    assert_eq!(count_blocks(&bench).await, before);
    bench.close(handle).await;
    bench.close(other).await;
    bench.volume.upkeep().reap_now().await.unwrap();
    assert!(bench.get("f").await.unwrap() == expected);
    bench.check("after the reaper").await;
}

#[tokio::test]
async fn repeated_copy_before_the_reaper_runs_succeeds() {
    let bench = Bench::new().await;
    let files = &bench.files;
    let data = bytes(300_000, 1);
    bench.write("from", &data).await;
    bench.write("into", b"").await;
    let (from, into) = (bench.open("from", WRITES).await, bench.open("into", WRITES).await);
    for _ in 0..3 {
        let mut copied = 0;
        while copied < 300_000 {
            let left = 300_000 - copied;
            copied += files.copy((from, copied), (into, copied), left).await.unwrap();
        }
        assert!(files.read(into, 0, u64::MAX).await.unwrap().concat() == data);
        files.flush(into).await.unwrap();
        bench.check("copied").await;
        files.zero(into, 0, 300_000, true).await.unwrap();
        bench.check("cleared").await;
    }
    bench.close(from).await;
    bench.close(into).await;
}

#[tokio::test]
async fn copy_to_another_bucket_is_charged_there() {
    let bench = Bench::new().await;
    let files = &bench.files;
    bench.volume.create_bucket("two", &volume::NewBucket::owned_by(&super::owner())).await.unwrap();
    let two = files.look_up(record::Ino::ROOT, b"two").await.unwrap().ino;
    let data = bytes(300_000, 1);
    bench.write("from", &data).await;
    let from = bench.open("from", OpenMode::default()).await;
    let into = files.create(two, b"into", by()).await.unwrap().handle;
    assert_eq!(files.copy((from, 0), (into, 0), 300_000).await, Ok(300_000));
    bench.close(from).await;
    bench.close(into).await;
    bench.check("in two buckets").await;
    let object = bench.volume.stat("two", b"into").await.unwrap();
    assert!(matches!(object.file().content, Content::Slices(_)));
    assert_eq!(object.size(), 300_000);
}
