//! Ranges of files that become holes or that two files share: deletion of their blocks.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use block::MemoryBlocks;
use faulty::Faulty;
use namespace::{AttributeChange, FoundNode, FsError};
use proptest::prelude::*;
use record::key::space;
use record::{Content, Ino};
use upkeep::Moves;

use super::packs::{bytes_of, counters, findings, pack};
use super::reaping::{copy, delete, put, put_bytes, read, records};
use super::{MaintainedVolume, count_blocks, lookup, make_bucket};
use crate::{FileWrite, SeekTarget, Volume, VolumeError, VolumeOptions};

async fn world_of(block_bytes: u32) -> (Arc<Faulty>, Arc<MemoryBlocks>, MaintainedVolume) {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let options = VolumeOptions { block_bytes, ..VolumeOptions::default() };
    let volume =
        MaintainedVolume::open_without_tasks(options, store.clone(), blocks.clone()).await.unwrap();
    make_bucket(&volume).await;
    (store, blocks, volume)
}

pub(super) const KEPT: AttributeChange = AttributeChange {
    mode: None,
    uid: None,
    gid: None,
    accessed: None,
    modified: None,
    drop_rights: false,
};

fn to(ino: Ino) -> FileWrite<'static> {
    FileWrite { attributes: &KEPT, ..FileWrite::new(ino, None) }
}

async fn node(volume: &Volume, name: &[u8]) -> FoundNode {
    let ino = lookup(volume, name).await.unwrap().ino;
    volume.find_node(ino).await.unwrap()
}

/// Shares all of a range, in as many steps as it takes; answers with how many.
async fn share(
    volume: &Volume,
    from: &[u8],
    range: Range<u64>,
    into: &[u8],
    mut position: u64,
) -> Result<usize, VolumeError> {
    let (mut at, mut steps) = (range.start, 0);
    let target = node(volume, into).await.ino;
    while at < range.end {
        let source = node(volume, from).await;
        let (_, bytes) = volume.share_range(to(target), &source, at..range.end, position).await?;
        assert!(bytes > 0);
        (at, position, steps) = (at + bytes, position + bytes, steps + 1);
    }
    Ok(steps)
}

#[tokio::test(start_paused = true)]
async fn punching_a_hole_deletes_its_blocks_and_reads_zeros() {
    for (block_bytes, left) in [(65_536, 2), (1_024, 3)] {
        let (store, blocks, volume) = world_of(block_bytes).await;
        put(&volume, b"x", 200_000).await;
        let x = node(&volume, b"x").await;
        volume.clear_range(to(x.ino), 1_000..199_000).await.unwrap();
        assert_eq!(findings(&store, &blocks).await, [], "with an orphan");
        volume.upkeep.reap_now().await.unwrap();
        assert_eq!(findings(&store, &blocks).await, []);
        assert_eq!(count_blocks(&blocks).await, left);
        let mut expected = vec![5; 200_000];
        expected[1_000..199_000].fill(0);
        assert!(read(&volume, b"x").await.unwrap() == expected);
        delete(&volume, b"x").await;
        volume.upkeep.reap_now().await.unwrap();
        assert_eq!(count_blocks(&blocks).await, 0);
        assert_eq!(findings(&store, &blocks).await, []);
    }
}

#[tokio::test(start_paused = true)]
async fn data_and_holes_are_found_in_slices_and_in_pages() {
    for block_bytes in [65_536, 256] {
        let (_, _, volume) = world_of(block_bytes).await;
        put(&volume, b"x", 200_000).await;
        let whole = node(&volume, b"x").await;
        let paged = matches!(whole.inode.file().unwrap().content, Content::Pages(_));
        assert_eq!(paged, block_bytes == 256);
        assert_eq!(volume.seek_node(&whole, 7..200_000, SeekTarget::Data).await.unwrap(), Some(7));
        assert_eq!(volume.seek_node(&whole, 7..200_000, SeekTarget::Hole).await.unwrap(), None);
        for range in [0..100, 50_000..150_000, 199_900..200_000] {
            volume.clear_range(to(whole.ino), range).await.unwrap();
        }
        let x = node(&volume, b"x").await;
        let expected = [
            (0, Some(100), Some(0)),
            (99, Some(100), Some(99)),
            (100, Some(100), Some(50_000)),
            (60_000, Some(150_000), Some(60_000)),
            (150_000, Some(150_000), Some(199_900)),
            (199_900, None, Some(199_900)),
        ];
        for (at, data, hole) in expected {
            let range = at..200_000;
            let found = volume.seek_node(&x, range.clone(), SeekTarget::Data).await.unwrap();
            assert_eq!(found, data, "data from {at}");
            assert_eq!(volume.seek_node(&x, range, SeekTarget::Hole).await.unwrap(), hole, "{at}");
        }
        assert_eq!(volume.seek_node(&x, 9..9, SeekTarget::Hole).await.unwrap(), None);
    }
}

/// Of two files that share blocks either one can be deleted first, and the other stays complete.
/// After both no block is left.
#[tokio::test(start_paused = true)]
async fn shared_blocks_are_deleted_with_their_last_file() {
    for (block_bytes, first, then) in
        [(65_536, b"x", b"y"), (65_536, b"y", b"x"), (256, b"x", b"y"), (256, b"y", b"x")]
    {
        let (store, blocks, volume) = world_of(block_bytes).await;
        put(&volume, b"x", 200_000).await;
        put(&volume, b"y", 300_000).await;
        let before = count_blocks(&blocks).await;
        volume.clear_range(to(node(&volume, b"x").await.ino), 70_000..80_000).await.unwrap();
        let steps = share(&volume, b"x", 1_000..199_000, b"y", 250_000).await.unwrap();
        assert_eq!(steps > 1, block_bytes == 256, "no plan names too much");
        assert_eq!(count_blocks(&blocks).await, before, "no byte moves");
        assert_eq!(findings(&store, &blocks).await, [], "shared");
        let mut of_x = vec![5; 200_000];
        of_x[70_000..80_000].fill(0);
        let of_y = [&vec![5; 250_000][..], &of_x[1_000..199_000]].concat();
        volume.upkeep.reap_now().await.unwrap();
        assert_eq!(findings(&store, &blocks).await, [], "reaped");
        assert!(read(&volume, b"y").await.unwrap() == of_y);
        delete(&volume, first).await;
        assert_eq!(findings(&store, &blocks).await, [], "one is gone");
        volume.upkeep.reap_now().await.unwrap();
        assert_eq!(findings(&store, &blocks).await, [], "one is reaped");
        let left = if then == b"x" { &of_x } else { &of_y };
        assert!(read(&volume, then).await.unwrap() == *left);
        delete(&volume, then).await;
        volume.upkeep.reap_now().await.unwrap();
        assert_eq!(count_blocks(&blocks).await, 0);
        for space in [space::SHARE, space::PENDING, space::ORPHAN, space::MAP] {
            assert_eq!(records(&*store, space).await, 0, "{space:?}");
        }
        assert_eq!(findings(&store, &blocks).await, []);
    }
}

#[tokio::test(start_paused = true)]
async fn half_of_a_pack_member_can_be_shared() {
    let (store, blocks, volume) = world_of(65_536).await;
    put(&volume, b"y", 100_000).await;
    let id = pack(&volume, &[("a", 40_000), ("b", 1_000)]).await;
    share(&volume, b"a", 10_000..30_000, b"y", 50_000).await.unwrap();
    assert_eq!(counters(&*store).await, BTreeMap::from([(id, 61_000)]));
    // Another part of a range that is shared already, written over some of it.
    share(&volume, b"a", 0..20_000, b"y", 60_000).await.unwrap();
    assert_eq!(counters(&*store).await, BTreeMap::from([(id, 71_000)]));
    assert_eq!(findings(&store, &blocks).await, []);
    let mut expected = vec![5; 100_000];
    let of_a = bytes_of("a", 40_000);
    expected[50_000..70_000].copy_from_slice(&of_a[10_000..30_000]);
    expected[60_000..80_000].copy_from_slice(&of_a[..20_000]);
    for gone in [b"a", b"b"] {
        delete(&volume, gone).await;
        volume.upkeep.reap_now().await.unwrap();
        assert_eq!(findings(&store, &blocks).await, []);
        assert!(read(&volume, b"y").await.unwrap() == expected);
    }
    volume.clear_range(to(node(&volume, b"y").await.ino), 50_000..80_000).await.unwrap();
    volume.upkeep.reap_now().await.unwrap();
    assert_eq!(
        (counters(&*store).await, records(&*store, space::SHARE).await),
        (BTreeMap::new(), 0)
    );
    assert_eq!(findings(&store, &blocks).await, []);
}

/// A shared range is rewritten with its pack.
#[tokio::test(start_paused = true)]
async fn shared_ranges_of_a_sparse_pack_are_rewritten_with_it() {
    let (store, blocks, volume) = world_of(65_536).await;
    put(&volume, b"y", 100_000).await;
    pack(&volume, &[("a", 4_000), ("b", 40_000)]).await;
    share(&volume, b"a", 0..3_000, b"y", 50_000).await.unwrap();
    share(&volume, b"a", 1_000..4_000, b"y", 90_000).await.unwrap();
    delete(&volume, b"b").await;
    volume.upkeep.reap_now().await.unwrap();
    assert_ne!(volume.upkeep.repack_now().await.unwrap(), Moves::default());
    assert_eq!(findings(&store, &blocks).await, []);
    volume.upkeep.reap_now().await.unwrap();
    let mut expected = vec![5; 100_000];
    let of_a = bytes_of("a", 4_000);
    expected[50_000..53_000].copy_from_slice(&of_a[..3_000]);
    expected[90_000..93_000].copy_from_slice(&of_a[1_000..]);
    assert!(read(&volume, b"y").await.unwrap() == expected);
    assert!(read(&volume, b"a").await.unwrap() == of_a);
    assert_eq!(findings(&store, &blocks).await, []);
}

#[tokio::test(start_paused = true)]
async fn a_released_block_cannot_be_shared_until_it_is_reaped() {
    let (store, blocks, volume) = world_of(65_536).await;
    put(&volume, b"x", 200_000).await;
    copy(&volume, b"x", b"z").await;
    let z = node(&volume, b"z").await.ino;
    volume.truncate(to(z), 0).await.unwrap();
    let error = share(&volume, b"x", 0..200_000, b"z", 0).await.unwrap_err();
    assert!(matches!(error, VolumeError::Fs(FsError::BlockReleasePending)), "{error}");
    volume.upkeep.reap_now().await.unwrap();
    share(&volume, b"x", 0..200_000, b"z", 0).await.unwrap();
    delete(&volume, b"x").await;
    volume.upkeep.reap_now().await.unwrap();
    assert!(read(&volume, b"z").await.unwrap() == vec![5; 200_000]);
    assert_eq!(findings(&store, &blocks).await, []);
}

#[tokio::test(start_paused = true)]
async fn a_changed_source_is_not_shared() {
    let (store, blocks, volume) = world_of(65_536).await;
    put(&volume, b"x", 200_000).await;
    put(&volume, b"y", 100_000).await;
    let (x, y) = (node(&volume, b"x").await, node(&volume, b"y").await.ino);
    volume.clear_range(to(x.ino), 0..100_000).await.unwrap();
    let error = volume.share_range(to(y), &x, 0..200_000, 0).await.unwrap_err();
    assert!(matches!(error, VolumeError::Fs(FsError::SourceChanged)), "{error}");
    let x = node(&volume, b"x").await;
    delete(&volume, b"x").await;
    volume.upkeep.reap_now().await.unwrap();
    let error = volume.share_range(to(y), &x, 0..200_000, 0).await.unwrap_err();
    assert!(matches!(error, VolumeError::Fs(FsError::SourceChanged)), "{error}");
    assert!(read(&volume, b"y").await.unwrap() == vec![5; 100_000]);
    assert_eq!(findings(&store, &blocks).await, []);
}

/// An action on two files while the reaper runs.
#[derive(Clone, Debug)]
enum Act {
    /// Between files 0 and 1.
    Share {
        from: usize,
        into: usize,
        at: usize,
        length: usize,
        to: usize,
    },
    Clear {
        file: usize,
        at: usize,
        length: usize,
    },
    Put {
        file: usize,
        seed: u8,
    },
}

const SPAN: usize = 40_000;

fn act() -> impl Strategy<Value = Act> {
    let length = || 1..30_000_usize;
    prop_oneof![
        6 => (0..2_usize, 0..2_usize, 0..SPAN, length(), 0..SPAN)
            .prop_map(|(from, into, at, length, to)| Act::Share { from, into, at, length, to }),
        4 => (0..2_usize, 0..SPAN, length())
            .prop_map(|(file, at, length)| Act::Clear { file, at, length }),
        1 => (0..2_usize, any::<u8>()).prop_map(|(file, seed)| Act::Put { file, seed }),
    ]
}

/// Applies the action to the files and to the expected contents. An action that is not allowed yet
/// is skipped.
async fn act_on(volume: &Volume, files: &mut [Vec<u8>; 2], act: &Act) {
    let name = |file: usize| [&b"x"[..], b"y"][file];
    match *act {
        Act::Share { from, into, at, length, to: position } => {
            let end = (at + length).min(files[from].len());
            if at >= end || from == into && at < position + (end - at) && position < end {
                return;
            }
            let source = node(volume, name(from)).await;
            let target = node(volume, name(into)).await.ino;
            let range = at as u64..end as u64;
            let shared = volume.share_range(to(target), &source, range, position as u64).await;
            let length = match shared {
                Ok((_, bytes)) => usize::try_from(bytes).unwrap(),
                Err(VolumeError::Fs(FsError::BlockReleasePending | FsError::SourceChanged)) => {
                    return;
                }
                Err(error) => panic!("{error}"),
            };
            let bytes = files[from][at..at + length].to_vec();
            let size = files[into].len().max(position + length);
            files[into].resize(size, 0);
            files[into][position..position + length].copy_from_slice(&bytes);
        }
        Act::Clear { file, at, length } => {
            let ino = node(volume, name(file)).await.ino;
            volume.clear_range(to(ino), at as u64..(at + length) as u64).await.unwrap();
            let end = (at + length).min(files[file].len());
            files[file].get_mut(at..end).unwrap_or_default().fill(0);
        }
        Act::Put { file, seed } => {
            files[file] = (0..SPAN).map(|at| (at / 7).to_le_bytes()[0] ^ seed).collect();
            put_bytes(volume, name(file), &files[file]).await;
        }
    }
}

async fn act_while_reaping(block_bytes: u32, acts: Vec<Act>) {
    let (store, blocks, volume) = world_of(block_bytes).await;
    let mut files = [Vec::new(), Vec::new()];
    for file in [0, 1] {
        act_on(&volume, &mut files, &Act::Put { file, seed: 1 }).await;
    }
    for some in acts.chunks(5) {
        let acting = async {
            for act in some {
                act_on(&volume, &mut files, act).await;
                tokio::time::sleep(Duration::from_millis(3)).await;
            }
        };
        let (reaped, ()) = futures::join!(volume.upkeep.reap_now(), acting);
        reaped.unwrap();
        for (name, expected) in [&b"x"[..], b"y"].iter().zip(&files) {
            assert!(read(&volume, name).await.unwrap() == *expected);
        }
        assert_eq!(findings(&store, &blocks).await, []);
    }
    for name in [b"x", b"y"] {
        delete(&volume, name).await;
        volume.upkeep.reap_now().await.unwrap();
        assert_eq!(findings(&store, &blocks).await, []);
    }
    assert_eq!((count_blocks(&blocks).await, records(&*store, space::SHARE).await), (0, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn files_stay_whole_while_they_share_and_the_reaper_is_at_work(
        block_bytes in prop_oneof![Just(4_096_u32), Just(256)],
        acts in prop::collection::vec(act(), 1..40),
    ) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(true).build().unwrap();
        runtime.block_on(act_while_reaping(block_bytes, acts));
    }
}

/// A reader that reads a large file in small pieces reads each map page once. Content in memory
/// needs no read.
#[tokio::test]
async fn a_map_page_is_read_once() {
    const BLOCK_BYTES: u32 = 64 << 10;
    let (store, _blocks, volume) = world_of(BLOCK_BYTES).await;
    let body: Vec<u8> = (0..200 * BLOCK_BYTES).map(|at| at.to_le_bytes()[1]).collect();
    put_bytes(&volume, b"large", &body).await;
    let node = node(&volume, b"large").await;
    assert!(
        matches!(&node.inode.file().unwrap().content, Content::Pages(pages) if pages.len() == 1)
    );
    let before = store.reads.load(std::sync::atomic::Ordering::SeqCst);
    for at in (0..body.len()).step_by(300_000) {
        let range = at..(at + 4_096).min(body.len());
        let (start, end) = (range.start as u64, range.end as u64);
        assert_eq!(volume.read_from_memory(&node, start..end), None, "nothing is remembered");
        let frames = volume.read_node(&node, volume.reading(), start..end);
        let frames: Vec<bytes::Bytes> = futures::TryStreamExt::try_collect(frames).await.unwrap();
        assert!(frames.concat() == body[range]);
    }
    let reads = store.reads.load(std::sync::atomic::Ordering::SeqCst) - before;
    assert_eq!(reads, 1);
}
