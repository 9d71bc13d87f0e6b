//! Ranges of files that become holes, or that two files name: what goes, and when.

use std::collections::BTreeMap;
use std::sync::Arc;

use block::MemoryBlocks;
use faulty::Faulty;
use namespace::{AttributeChange, FoundNode, FsError};
use record::key::space;
use record::{Content, Ino};

use super::packs::{bytes_of, counters, findings, pack};
use super::reaping::{copy, delete, put, read, records};
use super::{count_blocks, lookup, make_bucket};
use crate::{FileWrite, Repacked, Sought, Volume, VolumeError, VolumeOptions};

async fn world_of(block_bytes: u32) -> (Arc<Faulty>, Arc<MemoryBlocks>, Arc<Volume>) {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let options = VolumeOptions { collect: false, block_bytes, ..VolumeOptions::default() };
    let volume = Volume::open(options, store.clone(), blocks.clone()).await.unwrap();
    make_bucket(&volume).await;
    (store, blocks, volume)
}

const KEPT: AttributeChange = AttributeChange {
    mode: None,
    uid: None,
    gid: None,
    accessed: None,
    modified: None,
    drop_rights: false,
};

fn to(ino: Ino) -> FileWrite<'static> {
    FileWrite { ino, known_as: None, attributes: &KEPT }
}

async fn node(volume: &Volume, name: &[u8]) -> FoundNode {
    let ino = lookup(volume, name).await.unwrap().ino;
    volume.find_node(ino).await.unwrap()
}

/// Shares all of a range, in as many steps as it takes; answers with how many.
async fn share(
    volume: &Volume,
    from: &[u8],
    range: std::ops::Range<u64>,
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
async fn what_a_hole_hides_goes_and_a_reader_sees_zeros() {
    for (block_bytes, left) in [(65_536, 2), (1_024, 3)] {
        let (store, blocks, volume) = world_of(block_bytes).await;
        put(&volume, b"x", 200_000).await;
        let x = node(&volume, b"x").await;
        volume.clear_range(to(x.ino), 1_000..199_000).await.unwrap();
        assert_eq!(findings(&store, &blocks).await, [], "with an orphan");
        volume.reap_now().await.unwrap();
        assert_eq!(findings(&store, &blocks).await, []);
        assert_eq!(count_blocks(&blocks).await, left);
        let mut expected = vec![5; 200_000];
        expected[1_000..199_000].fill(0);
        assert!(read(&volume, b"x").await.unwrap() == expected);
        delete(&volume, b"x").await;
        volume.reap_now().await.unwrap();
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
        assert_eq!(volume.seek_node(&whole, 7..200_000, Sought::Data).await.unwrap(), Some(7));
        assert_eq!(volume.seek_node(&whole, 7..200_000, Sought::Hole).await.unwrap(), None);
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
            let found = volume.seek_node(&x, range.clone(), Sought::Data).await.unwrap();
            assert_eq!(found, data, "data from {at}");
            assert_eq!(volume.seek_node(&x, range, Sought::Hole).await.unwrap(), hole, "{at}");
        }
        assert_eq!(volume.seek_node(&x, 9..9, Sought::Hole).await.unwrap(), None);
    }
}

/// Whichever of two files that share blocks goes first, the other one is whole, and when both are
/// gone nothing is left.
#[tokio::test(start_paused = true)]
async fn files_that_share_blocks_go_one_by_one() {
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
        volume.reap_now().await.unwrap();
        assert_eq!(findings(&store, &blocks).await, [], "reaped");
        assert!(read(&volume, b"y").await.unwrap() == of_y);
        delete(&volume, first).await;
        assert_eq!(findings(&store, &blocks).await, [], "one is gone");
        volume.reap_now().await.unwrap();
        assert_eq!(findings(&store, &blocks).await, [], "one is reaped");
        let left = if then == b"x" { &of_x } else { &of_y };
        assert!(read(&volume, then).await.unwrap() == *left);
        delete(&volume, then).await;
        volume.reap_now().await.unwrap();
        assert_eq!(count_blocks(&blocks).await, 0);
        for space in [space::SHARE, space::PENDING, space::ORPHAN, space::MAP] {
            assert_eq!(records(&*store, space).await, 0, "{space:?}");
        }
        assert_eq!(findings(&store, &blocks).await, []);
    }
}

#[tokio::test(start_paused = true)]
async fn members_of_packs_are_shared_by_halves() {
    let (store, blocks, volume) = world_of(65_536).await;
    put(&volume, b"y", 100_000).await;
    let id = pack(&volume, &[("a", 40_000), ("b", 1_000)]).await;
    share(&volume, b"a", 10_000..30_000, b"y", 50_000).await.unwrap();
    assert_eq!(counters(&*store).await, BTreeMap::from([(id, 61_000)]));
    // Another part of what is named already, and over some of that.
    share(&volume, b"a", 0..20_000, b"y", 60_000).await.unwrap();
    assert_eq!(counters(&*store).await, BTreeMap::from([(id, 71_000)]));
    assert_eq!(findings(&store, &blocks).await, []);
    let mut expected = vec![5; 100_000];
    let of_a = bytes_of("a", 40_000);
    expected[50_000..70_000].copy_from_slice(&of_a[10_000..30_000]);
    expected[60_000..80_000].copy_from_slice(&of_a[..20_000]);
    for gone in [b"a", b"b"] {
        delete(&volume, gone).await;
        volume.reap_now().await.unwrap();
        assert_eq!(findings(&store, &blocks).await, []);
        assert!(read(&volume, b"y").await.unwrap() == expected);
    }
    volume.clear_range(to(node(&volume, b"y").await.ino), 50_000..80_000).await.unwrap();
    volume.reap_now().await.unwrap();
    assert_eq!(
        (counters(&*store).await, records(&*store, space::SHARE).await),
        (BTreeMap::new(), 0)
    );
    assert_eq!(findings(&store, &blocks).await, []);
}

/// What a file shares is rewritten with the pack that it is in.
#[tokio::test(start_paused = true)]
async fn what_is_shared_of_a_sparse_pack_moves_with_its_other_owners() {
    let (store, blocks, volume) = world_of(65_536).await;
    put(&volume, b"y", 100_000).await;
    pack(&volume, &[("a", 4_000), ("b", 40_000)]).await;
    share(&volume, b"a", 0..3_000, b"y", 50_000).await.unwrap();
    share(&volume, b"a", 1_000..4_000, b"y", 90_000).await.unwrap();
    delete(&volume, b"b").await;
    volume.reap_now().await.unwrap();
    assert_ne!(volume.repack_now().await.unwrap(), Repacked::default());
    assert_eq!(findings(&store, &blocks).await, []);
    volume.reap_now().await.unwrap();
    let mut expected = vec![5; 100_000];
    let of_a = bytes_of("a", 4_000);
    expected[50_000..53_000].copy_from_slice(&of_a[..3_000]);
    expected[90_000..93_000].copy_from_slice(&of_a[1_000..]);
    assert!(read(&volume, b"y").await.unwrap() == expected);
    assert!(read(&volume, b"a").await.unwrap() == of_a);
    assert_eq!(findings(&store, &blocks).await, []);
}

#[tokio::test(start_paused = true)]
async fn a_block_that_was_let_go_of_is_named_again_once_it_is_gone() {
    let (store, blocks, volume) = world_of(65_536).await;
    put(&volume, b"x", 200_000).await;
    copy(&volume, b"x", b"z").await;
    let z = node(&volume, b"z").await.ino;
    volume.truncate(to(z), 0).await.unwrap();
    let error = share(&volume, b"x", 0..200_000, b"z", 0).await.unwrap_err();
    assert!(matches!(error, VolumeError::Fs(FsError::LettingGo)), "{error}");
    volume.reap_now().await.unwrap();
    share(&volume, b"x", 0..200_000, b"z", 0).await.unwrap();
    delete(&volume, b"x").await;
    volume.reap_now().await.unwrap();
    assert!(read(&volume, b"z").await.unwrap() == vec![5; 200_000]);
    assert_eq!(findings(&store, &blocks).await, []);
}

#[tokio::test(start_paused = true)]
async fn a_source_that_is_another_by_now_is_not_shared() {
    let (store, blocks, volume) = world_of(65_536).await;
    put(&volume, b"x", 200_000).await;
    put(&volume, b"y", 100_000).await;
    let (x, y) = (node(&volume, b"x").await, node(&volume, b"y").await.ino);
    volume.clear_range(to(x.ino), 0..100_000).await.unwrap();
    let error = volume.share_range(to(y), &x, 0..200_000, 0).await.unwrap_err();
    assert!(matches!(error, VolumeError::Fs(FsError::SourceChanged)), "{error}");
    let x = node(&volume, b"x").await;
    delete(&volume, b"x").await;
    volume.reap_now().await.unwrap();
    let error = volume.share_range(to(y), &x, 0..200_000, 0).await.unwrap_err();
    assert!(matches!(error, VolumeError::Fs(FsError::SourceChanged)), "{error}");
    assert!(read(&volume, b"y").await.unwrap() == vec![5; 100_000]);
    assert_eq!(findings(&store, &blocks).await, []);
}
