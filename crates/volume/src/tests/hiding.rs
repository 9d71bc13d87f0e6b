//! Blocks of live files that later writes have hidden, and the time of their deletion.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use block::MemoryBlocks;
use bytes::Bytes;
use faulty::{Fault, Faulty};
use futures::TryStreamExt;
use record::key::{self, space};
use record::{
    BlockId, Content, File, HiddenBlock, Ino, Inode, InodeBody, MapPage, Mark, Orphan, PageRef,
    Slice, Tag,
};
use session::{Outcome, Priority, SESSION_SILENCE};
use store::{Guard, Plan, Write};

use super::packs::{THREE, counters, findings, pack, world};
use super::reaping::{copy, delete, finished, put, read, records, upload};
use super::{MaintainedVolume, count_blocks, lookup, make_bucket, open};
use crate::{
    CompletePart, CompleteUpload, ObjectMode, Volume, VolumeError, VolumeOptions, WriteCondition,
};

/// A volume whose blocks are of so many bytes, with a bucket.
async fn world_of(block_bytes: u32) -> (Arc<Faulty>, Arc<MemoryBlocks>, MaintainedVolume) {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let options = VolumeOptions { block_bytes, ..VolumeOptions::default() };
    let volume =
        MaintainedVolume::open_without_tasks(options, store.clone(), blocks.clone()).await.unwrap();
    make_bucket(&volume).await;
    (store, blocks, volume)
}

fn hidden(slice: &Slice) -> HiddenBlock {
    let Slice { block, block_length, .. } = *slice;
    HiddenBlock { block, block_length }
}

/// Writes a file's inode anew, as a program that writes into it does, and says what that hides.
async fn hide(
    volume: &Volume,
    name: &[u8],
    change: impl FnOnce(&mut File),
    blocks: Vec<HiddenBlock>,
    pages: Vec<u32>,
    mut writes: Vec<Write>,
) -> Ino {
    let found = lookup(volume, name).await.unwrap();
    let mut inode = found.inode.clone();
    let InodeBody::File(file) = &mut inode.body else { panic!("a file") };
    file.data_version += 1;
    file.sparse = true;
    change(file);
    let at = key::inode(found.ino);
    let orphan = key::orphan(volume.session.allocate_inodes(1).await.unwrap()[0]);
    let hides = Orphan::Hidden { owner: found.ino, blocks, pages };
    writes.push(Write::Put(at.clone(), inode.encode(&at)));
    writes.push(Write::Put(orphan.clone(), hides.encode(&orphan)));
    commit(volume, vec![Guard::Equals(at, found.record)], writes).await;
    found.ino
}

async fn commit(volume: &Volume, guards: Vec<Guard>, writes: Vec<Write>) {
    let outcome = volume.session.commit_plan(Plan { guards, writes }).await;
    assert!(matches!(outcome, Outcome::Committed), "{outcome:?}");
}

async fn slices(volume: &Volume, name: &[u8]) -> Vec<Slice> {
    let object = volume.stat("b", name).await.unwrap();
    volume.slices(&object).await.unwrap()
}

/// Leaves a file the first and last of its four slices.
fn punch(all: &[Slice]) -> impl FnOnce(&mut File) {
    let left = vec![all[0], all[3]];
    move |file| file.content = Content::Slices(left)
}

#[tokio::test(start_paused = true)]
async fn hidden_blocks_are_deleted_and_named_blocks_stay() {
    let (store, blocks, volume) = world_of(65_536).await;
    put(&volume, b"x", 200_000).await;
    let all = slices(&volume, b"x").await;
    // The first is named still, or again.
    let listed = all[..3].iter().map(hidden).collect();
    hide(&volume, b"x", punch(&all), listed, vec![], vec![]).await;
    assert_eq!(findings(&store, &blocks).await, [], "with an orphan");
    let reaped = volume.upkeep.reap_now().await.unwrap();
    assert_eq!((reaped.orphans, reaped.blocks), (1, 2));
    assert_eq!((count_blocks(&blocks).await, records(&*store, space::ORPHAN).await), (2, 0));
    assert_eq!(findings(&store, &blocks).await, []);
    let mut expected = vec![5; 200_000];
    expected[65_536..3 * 65_536].fill(0);
    assert!(read(&volume, b"x").await.unwrap() == expected, "a hole reads as zeros");
    delete(&volume, b"x").await;
    volume.upkeep.reap_now().await.unwrap();
    assert_eq!(count_blocks(&blocks).await, 0);
    assert_eq!(findings(&store, &blocks).await, []);
}

/// A copy of a sparse file has the content that a reader of it sees.
#[tokio::test(start_paused = true)]
async fn copies_of_a_sparse_file_have_its_zeros() {
    const MIB: usize = 1 << 20;
    let (store, blocks, volume) = world_of(1 << 20).await;
    put(&volume, b"x", 12 * MIB).await;
    let all = slices(&volume, b"x").await;
    let listed = all[4..8].iter().map(hidden).collect();
    let left = [&all[..4], &all[8..]].concat();
    let change = |file: &mut File| file.content = Content::Slices(left);
    hide(&volume, b"x", change, listed, vec![], vec![]).await;
    let mut expected = vec![5; 12 * MIB];
    expected[4 * MIB..8 * MIB].fill(0);
    copy(&volume, b"x", b"copy").await;
    assert!(read(&volume, b"copy").await.unwrap() == expected);
    let id = upload(&volume, b"parts").await;
    let source = volume.stat("b", b"x").await.unwrap();
    let ranges = [0..6 * MIB, 6 * MIB..12 * MIB, 5 * MIB..5 * MIB + 9];
    for (number, range) in (1..).zip(ranges.clone()) {
        let range = range.start as u64..range.end as u64;
        volume
            .copy_part("b", b"parts", id, number, &ObjectMode::default(), &source, range, None)
            .await
            .unwrap();
    }
    let page = volume.parts("b", b"parts", id, 0, 10).await.unwrap();
    let tags: Vec<Tag> = page.parts.iter().map(|stat| stat.part.tag.tag()).collect();
    let parts: Vec<CompletePart> = (1..)
        .zip(tags)
        .map(|(number, tag)| CompletePart { number, tag, sums: Vec::new() })
        .collect();
    let condition = WriteCondition::None;
    let wanted = CompleteUpload { parts: &parts, object_size: None, condition };
    let finish = |_: &_, _: &[_]| Ok::<_, VolumeError>(finished(Tag::Multipart([3; 16], 3)));
    volume.complete("b", b"parts", id, wanted, finish).await.unwrap();
    drop(source);
    let whole = ranges.map(|range| expected[range].to_vec());
    assert!(read(&volume, b"parts").await.unwrap() == whole.concat());
    volume.upkeep.reap_now().await.unwrap();
    assert_eq!(findings(&store, &blocks).await, []);
}

/// Of a file that is not sparse a range that nothing holds is damage.
#[tokio::test(start_paused = true)]
async fn a_hole_in_any_other_file_is_damage() {
    let (_, _, volume) = world_of(65_536).await;
    put(&volume, b"x", 200_000).await;
    let all = slices(&volume, b"x").await;
    let torn = |file: &mut File| {
        punch(&all)(file);
        file.sparse = false;
    };
    hide(&volume, b"x", torn, vec![], vec![], vec![]).await;
    let error = read(&volume, b"x").await.unwrap_err();
    assert!(matches!(error, VolumeError::Corrupt(_)), "{error}");
    let id = upload(&volume, b"parts").await;
    let source = volume.stat("b", b"x").await.unwrap();
    let error = volume
        .copy_part("b", b"parts", id, 1, &ObjectMode::default(), &source, 0..200_000, None)
        .await
        .unwrap_err();
    assert!(matches!(error, VolumeError::Corrupt(_)), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_replaced_map_page_is_deleted() {
    let (store, blocks, volume) = world_of(1).await;
    put(&volume, b"x", 1_200).await;
    let all = slices(&volume, b"x").await;
    // The second page loses its end. The other listed blocks are named by it and by the first page.
    let kept = MapPage(all[512..900].to_vec());
    let listed = all[500..1_024].iter().map(hidden).collect();
    let refs = [(0, 0, 512), (512, 3, 388), (1_024, 2, 176)];
    let refs = refs.map(|(start, page, bytes)| PageRef { start, page, bytes });
    let found = lookup(&volume, b"x").await.unwrap();
    let page = key::map_page(found.ino, 3);
    let write = Write::Put(page.clone(), kept.encode(&page));
    let change = |file: &mut File| file.content = Content::Pages(refs.to_vec());
    let ino = hide(&volume, b"x", change, listed, vec![1], vec![write]).await;
    assert_eq!(records(&*store, space::MAP).await, 4);
    assert_eq!(findings(&store, &blocks).await, [], "with an orphan");
    assert_eq!(volume.upkeep.reap_now().await.unwrap().blocks, 124);
    assert_eq!((records(&*store, space::MAP).await, count_blocks(&blocks).await), (3, 1_076));
    assert!(faulty::get(&*store, &key::map_page(ino, 1)).await.is_none());
    assert_eq!(findings(&store, &blocks).await, []);
    let mut expected = vec![5; 1_200];
    expected[900..1_024].fill(0);
    assert_eq!(read(&volume, b"x").await.unwrap(), expected);
    delete(&volume, b"x").await;
    volume.upkeep.reap_now().await.unwrap();
    assert_eq!((records(&*store, space::MAP).await, count_blocks(&blocks).await), (0, 0));
    assert_eq!(findings(&store, &blocks).await, []);
}

#[tokio::test(start_paused = true)]
async fn a_reader_keeps_hidden_blocks_that_it_found() {
    let (store, blocks, volume) = world_of(65_536).await;
    put(&volume, b"x", 200_000).await;
    let reader = open(store.clone(), blocks.clone()).await;
    let object = reader.stat("b", b"x").await.unwrap();
    let stream = reader.read(&object, 0..object.size());
    drop(object);
    let all = slices(&volume, b"x").await;
    let listed = all[1..3].iter().map(hidden).collect();
    hide(&volume, b"x", punch(&all), listed, vec![], vec![]).await;
    for _ in 0..2 {
        let early = tokio::time::timeout(Duration::from_mins(2), volume.upkeep.reap_now()).await;
        assert!(early.is_err() || early.unwrap().unwrap().blocks == 0, "the stream goes on");
    }
    assert_eq!(count_blocks(&blocks).await, 4);
    assert!(!volume.session.held_files().await.unwrap().is_empty(), "it is held by its number");
    let pieces: Vec<Bytes> = stream.try_collect().await.unwrap();
    assert!(pieces.concat() == vec![5; 200_000]);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(volume.upkeep.reap_now().await.unwrap().blocks, 2);
    assert_eq!(findings(&store, &blocks).await, []);
}

#[tokio::test(start_paused = true)]
async fn a_block_hidden_during_the_wait_stays_for_later_readers() {
    let (store, blocks, volume) = world_of(65_536).await;
    put(&volume, b"x", 200_000).await;
    let all = slices(&volume, b"x").await;
    // The first write lists a block that it leaves a name of.
    hide(&volume, b"x", |_| {}, vec![hidden(&all[1])], vec![], vec![]).await;
    let reader = open(store.clone(), blocks.clone()).await;
    let reading = reader.session.reading();
    let second = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let listed = all[1..3].iter().map(hidden).collect();
        hide(&volume, b"x", punch(&all), listed, vec![], vec![]).await;
        drop(reading);
    };
    let (first, ()) = futures::join!(volume.upkeep.reap_once(Priority::Urgent), second);
    let first = first.unwrap().unwrap();
    assert_eq!((first.orphans, first.blocks), (1, 0), "a later reader may have found it named");
    assert_eq!((count_blocks(&blocks).await, records(&*store, space::ORPHAN).await), (4, 1));
    assert_eq!(volume.upkeep.reap_now().await.unwrap().blocks, 2);
    assert_eq!(findings(&store, &blocks).await, []);
}

#[tokio::test(start_paused = true)]
async fn hidden_blocks_of_a_deleted_file_are_deleted() {
    for block_bytes in [65_536, 256] {
        let (store, blocks, volume) = world_of(block_bytes).await;
        put(&volume, b"x", 200_000).await;
        let all = slices(&volume, b"x").await;
        let listed = all[1..3].iter().map(hidden).collect();
        let left = [&all[..1], &all[3..]].concat();
        let ino = lookup(&volume, b"x").await.unwrap().ino;
        let (content, mut writes) = match block_bytes {
            256 => (repaged(&left), repaged_writes(ino, &left)),
            _ => (Content::Slices(left), Vec::new()),
        };
        let pages = if block_bytes == 256 { vec![0, 1] } else { vec![] };
        let change = |file: &mut File| file.content = content;
        hide(&volume, b"x", change, listed, pages, std::mem::take(&mut writes)).await;
        delete(&volume, b"x").await;
        assert_eq!(findings(&store, &blocks).await, [], "with orphans");
        volume.upkeep.reap_now().await.unwrap();
        assert_eq!(count_blocks(&blocks).await, 0);
        for space in [space::ORPHAN, space::PENDING, space::MAP, space::SHARE] {
            assert_eq!(records(&*store, space).await, 0, "{space:?}");
        }
        assert_eq!(findings(&store, &blocks).await, []);
    }
}

/// Slices in pages of other numbers than their first ones.
fn repaged(slices: &[Slice]) -> Content {
    let pages = (10..).zip(slices.chunks(512));
    Content::Pages(pages.map(|(page, slices)| PageRef::of(page, slices)).collect())
}

fn repaged_writes(ino: Ino, slices: &[Slice]) -> Vec<Write> {
    let pages = (10..).zip(slices.chunks(512));
    let put = |(page, slices): (u32, &[Slice])| {
        let key = key::map_page(ino, page);
        Write::Put(key.clone(), MapPage(slices.to_vec()).encode(&key))
    };
    pages.map(put).collect()
}

#[tokio::test(start_paused = true)]
async fn hidden_bytes_of_a_pack_leave_its_live_count_before_its_share() {
    let (store, blocks, volume) = world().await;
    let id = pack(&volume, &THREE).await;
    let all = slices(&volume, b"a").await;
    let live = |bytes: i64| BTreeMap::from([(id, bytes)]);
    let count = |bytes: i64| vec![Write::Add(key::live(id), bytes)];
    let nothing = |file: &mut File| file.content = Content::Slices(Vec::new());
    // It is named again before it was released: its share stays, and its bytes count.
    hide(&volume, b"a", nothing, vec![hidden(&all[0])], vec![], count(-1_000)).await;
    assert_eq!(counters(&*store).await, live(72_000));
    assert_eq!(findings(&store, &blocks).await, [], "hidden");
    let again = all.clone();
    let named = |file: &mut File| file.content = Content::Slices(again);
    hide(&volume, b"a", named, vec![], vec![], count(1_000)).await;
    volume.upkeep.reap_now().await.unwrap();
    assert_eq!(counters(&*store).await, live(73_000));
    assert_eq!(records(&*store, space::SHARE).await, 3);
    assert_eq!(findings(&store, &blocks).await, [], "named again");
    // Two orphans list it: the share goes once.
    hide(&volume, b"a", nothing, vec![hidden(&all[0])], vec![], count(-1_000)).await;
    hide(&volume, b"a", nothing, vec![hidden(&all[0])], vec![], vec![]).await;
    volume.upkeep.reap_now().await.unwrap();
    assert_eq!(counters(&*store).await, live(72_000));
    assert_eq!(records(&*store, space::SHARE).await, 2);
    assert_eq!(findings(&store, &blocks).await, [], "gone");
    for name in [&b"b"[..], b"c"] {
        let last = slices(&volume, name).await;
        let counted = count(-i64::from(last[0].length));
        hide(&volume, name, nothing, vec![hidden(&last[0])], vec![], counted).await;
    }
    volume.upkeep.reap_now().await.unwrap();
    assert_eq!((counters(&*store).await, count_blocks(&blocks).await), (BTreeMap::new(), 0));
    assert_eq!(findings(&store, &blocks).await, []);
}

#[tokio::test(start_paused = true)]
async fn a_hidden_shared_block_is_released_and_not_deleted() {
    let (store, blocks, volume) = world_of(65_536).await;
    put(&volume, b"x", 200_000).await;
    copy(&volume, b"x", b"y").await;
    let all = slices(&volume, b"x").await;
    let listed: Vec<HiddenBlock> = all[1..3].iter().map(hidden).collect();
    hide(&volume, b"x", punch(&all), listed.clone(), vec![], vec![]).await;
    assert_eq!(volume.upkeep.reap_now().await.unwrap().blocks, 0);
    assert_eq!(records(&*store, space::SHARE).await, 6);
    assert_eq!(findings(&store, &blocks).await, []);
    hide(&volume, b"y", punch(&all), listed, vec![], vec![]).await;
    assert_eq!(volume.upkeep.reap_now().await.unwrap().blocks, 2);
    assert_eq!(records(&*store, space::SHARE).await, 4);
    assert_eq!(findings(&store, &blocks).await, []);
}

#[tokio::test(start_paused = true)]
async fn reaping_an_orphan_of_many_blocks_survives_any_failure() {
    let (mut fired, mut complete) = (0, 0);
    for skip in [0, 1, 2, 3, 4, 5, 9, 18] {
        for fault in [Fault::LostAnswer, Fault::LostRequest, Fault::Unavailable] {
            let (store, blocks, volume) = world_of(256).await;
            put(&volume, b"x", 150_000).await;
            let all = slices(&volume, b"x").await;
            // A pack that others are in, as the last of the many.
            let id = pack(&volume, &THREE).await;
            let packed = slices(&volume, b"a").await[0];
            let share = key::share(id, lookup(&volume, b"x").await.unwrap().ino);
            let counted = vec![Write::Put(share.clone(), Mark.encode(&share))];
            let mut listed: Vec<HiddenBlock> = all.iter().map(hidden).collect();
            listed.insert(0, hidden(&packed));
            assert_eq!(listed.len(), 587);
            let nothing = |file: &mut File| file.content = Content::Slices(Vec::new());
            hide(&volume, b"x", nothing, listed, vec![0, 1], counted).await;
            for _ in 0..skip {
                store.inject(None, Fault::Pass);
            }
            store.inject(None, fault);
            let first = volume.upkeep.reap_now().await;
            if store.fired() > skip {
                fired += 1;
            } else {
                complete += 1;
            }
            drop((first, volume));
            let heir = open(store.clone(), blocks.clone()).await;
            tokio::time::sleep(SESSION_SILENCE * 2).await;
            heir.upkeep.reap_now().await.unwrap();
            assert_eq!(count_blocks(&blocks).await, 1, "{fault:?} after {skip}");
            assert_eq!(counters(&*store).await, BTreeMap::from([(id, 73_000)]));
            for space in [space::ORPHAN, space::PENDING, space::MAP] {
                assert_eq!(records(&*store, space).await, 0, "{space:?}");
            }
            assert_eq!(findings(&store, &blocks).await, [], "{fault:?} after {skip}");
        }
    }
    assert!(fired >= 12, "the orphan goes in three steps, after the epoch: {fired}");
    assert!(complete > 0, "the last faults came after the end, so every step was reached");
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_owner_keeps_its_hidden_blocks() {
    let (store, blocks, volume) = world_of(65_536).await;
    put(&volume, b"x", 200_000).await;
    put(&volume, b"y", 200_000).await;
    for name in [&b"x"[..], b"y"] {
        let all = slices(&volume, name).await;
        let listed = all[1..3].iter().map(hidden).collect();
        hide(&volume, name, punch(&all), listed, vec![], vec![]).await;
    }
    let at = key::inode(lookup(&volume, b"x").await.unwrap().ino);
    let damaged = vec![Write::Put(at.clone(), Bytes::from_static(b"no inode"))];
    commit(&volume, Vec::new(), damaged).await;
    volume.upkeep.reap_now().await.unwrap();
    assert_eq!(count_blocks(&blocks).await, 6, "those of the other are gone");
    assert_eq!(records(&*store, space::ORPHAN).await, 1);
    let whole = lookup(&volume, b"y").await.unwrap();
    assert!(Inode::decode(&at, &whole.record).is_err(), "under its own key alone");
}

/// Blocks of a session that is gone are not swept while they are listed as hidden.
#[tokio::test(start_paused = true)]
async fn the_sweeper_spares_hidden_blocks() {
    let (store, blocks, volume) = world_of(65_536).await;
    put(&volume, b"x", 200_000).await;
    let all = slices(&volume, b"x").await;
    let listed = all[1..3].iter().map(hidden).collect();
    hide(&volume, b"x", punch(&all), listed, vec![], vec![]).await;
    drop(volume);
    let heir = open(store.clone(), blocks.clone()).await;
    tokio::time::sleep(SESSION_SILENCE * 2).await;
    let swept = heir.upkeep.sweep(upkeep::SweepOptions::default()).await.unwrap();
    assert_eq!((swept.listed, swept.deleted), (4, 0));
    let block: BlockId = all[1].block;
    assert!(super::packs::exists(&blocks, block).await);
}
