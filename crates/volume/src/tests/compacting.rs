//! Files that are overwritten at random positions, and the bytes that they take up.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use block::{BlockStore, MemoryBlocks};
use bytes::Bytes;
use faulty::{Fault, Faulty};
use futures::TryStreamExt;
use namespace::FoundNode;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use record::key::{self, space};
use record::{Content, Ino, Tag};
use session::{SESSION_SILENCE, VolumeError};
use upkeep::{COMPACT_DELAY, JOIN_DELAY, Moves, SURVEY_DELAY, SweepOptions};

use super::packs::{THREE, complete_with_copy, exists, findings, pack};
use super::reaping::{copy, delete, put, read, records};
use super::{MaintainedVolume, count_blocks, lookup, make_bucket};
use crate::{BodyRun, FileWrite, Resize, Volume, VolumeOptions};

/// Bytes of a block here.
const BLOCK: usize = 8_192;

/// Stored bytes for each visible byte, in percent, once compactor and reaper are idle. Headers and
/// checksums of such short blocks add one and a half percent.
const BOUND_PERCENT: u64 = 203;

async fn open(
    store: &Arc<Faulty>,
    blocks: &Arc<MemoryBlocks>,
    background: bool,
) -> MaintainedVolume {
    let block_bytes = u32::try_from(BLOCK).unwrap();
    let options = VolumeOptions { block_bytes, inline_bytes_max: 16, ..VolumeOptions::default() };
    if background {
        MaintainedVolume::open(options, store.clone(), blocks.clone()).await.unwrap()
    } else {
        MaintainedVolume::open_without_tasks(options, store.clone(), blocks.clone()).await.unwrap()
    }
}

async fn world() -> (Arc<Faulty>, Arc<MemoryBlocks>, MaintainedVolume) {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let volume = open(&store, &blocks, false).await;
    make_bucket(&volume).await;
    (store, blocks, volume)
}

/// A file that programs write to, and the content that it must have.
struct Written {
    ino: Ino,
    bytes: Vec<u8>,
    random: SmallRng,
}

impl Written {
    async fn new(volume: &Volume, name: &[u8], size: usize) -> Written {
        put(volume, name, size).await;
        let ino = lookup(volume, name).await.unwrap().ino;
        Written { ino, bytes: vec![5; size], random: SmallRng::seed_from_u64(11) }
    }

    /// Writes runs over the file, in one commit, as a flush does.
    async fn write(&mut self, volume: &Volume, runs: &[(usize, usize)]) -> FoundNode {
        let (runs, body) = self.draw(runs);
        flush(volume, self.ino, &runs, body).await.unwrap()
    }

    /// The next write, which the expected content includes from now on.
    fn draw(&mut self, runs: &[(usize, usize)]) -> (Vec<BodyRun>, Bytes) {
        let mut body = Vec::new();
        let runs = runs.iter().map(|(position, length)| {
            let bytes: Vec<u8> = (0..*length).map(|_| self.random.random()).collect();
            self.bytes[*position..position + length].copy_from_slice(&bytes);
            body.extend(bytes);
            BodyRun { position: *position as u64, length: *length as u64 }
        });
        (runs.collect(), Bytes::from(body))
    }

    /// Runs at random places, in order and apart.
    fn places(&mut self, count: usize, longest: usize) -> Vec<(usize, usize)> {
        let mut places = BTreeMap::new();
        for _ in 0..count {
            let length = self.random.random_range(longest / 16..longest);
            places.insert(self.random.random_range(0..self.bytes.len() - length), length);
        }
        let ends: Vec<usize> = places.keys().copied().skip(1).chain([self.bytes.len()]).collect();
        let apart = places.into_iter().zip(ends);
        apart.map(|((start, length), end)| (start, length.min(end - start))).collect()
    }

    async fn churn(&mut self, volume: &Volume, flushes: usize) {
        for _ in 0..flushes {
            let places = self.places(30, 1_600);
            self.write(volume, &places).await;
        }
    }

    async fn assert_there(&self, volume: &Volume, name: &[u8]) {
        assert!(read(volume, name).await.unwrap() == self.bytes, "another content");
    }
}

async fn flush(
    volume: &Volume,
    ino: Ino,
    runs: &[BodyRun],
    body: Bytes,
) -> Result<FoundNode, VolumeError> {
    let mut writer = volume.block_writer(None, Some(body.len() as u64));
    writer.write(body).await.unwrap();
    let body = writer.finish().await.unwrap();
    let made = (Tag::Md5([9; 16]), Vec::new());
    volume.write_runs(FileWrite::new(ino, None), body, runs, Resize::default(), made).await
}

/// Bytes of all blocks as they are stored.
async fn stored(blocks: &MemoryBlocks) -> u64 {
    let mut stored = 0;
    for session in blocks.sessions().await.unwrap() {
        let mut resume = None;
        loop {
            let page = blocks.list(session, resume).await.unwrap();
            stored += page.blocks.iter().map(|(_, size)| size).sum::<u64>();
            resume = page.resume;
            if resume.is_none() {
                break;
            }
        }
    }
    stored
}

async fn percent(blocks: &MemoryBlocks, live: usize) -> u64 {
    stored(blocks).await * 100 / live as u64
}

/// Lets compactor and reaper do all that there is to do.
async fn settle(volume: &MaintainedVolume) -> Moves {
    let mut all = Moves::default();
    loop {
        volume.upkeep.reap_now().await.unwrap();
        let done = volume.upkeep.compact_now().await.unwrap();
        volume.upkeep.repack_now().await.unwrap();
        (all.bytes, all.refused) = (all.bytes + done.bytes, all.refused + done.refused);
        if done.bytes == 0 {
            volume.upkeep.reap_now().await.unwrap();
            return all;
        }
    }
}

/// Leaves a quarter of each of the first four blocks.
const MOST: [(usize, usize); 4] = [
    (0, BLOCK * 3 / 4),
    (BLOCK, BLOCK * 3 / 4),
    (2 * BLOCK + BLOCK / 4, BLOCK * 3 / 4),
    (3 * BLOCK, BLOCK * 3 / 4),
];

#[tokio::test(start_paused = true)]
async fn compaction_moves_visible_bytes_and_keeps_the_content() {
    let (store, blocks, volume) = world().await;
    let mut file = Written::new(&volume, b"x", 5 * BLOCK).await;
    let before = file.write(&volume, &MOST).await;
    volume.upkeep.reap_now().await.unwrap();
    assert_eq!(count_blocks(&blocks).await, 8, "nothing of them is gone");
    let done = volume.upkeep.compact_now().await.unwrap();
    assert_eq!((done.sources, done.bytes, done.refused), (1, BLOCK as u64, 0));
    assert_eq!(findings(&store, &blocks).await, [], "before the old blocks are reaped");
    file.assert_there(&volume, b"x").await;
    assert_eq!(volume.upkeep.compact_now().await.unwrap(), Moves::default(), "not twice");
    volume.upkeep.reap_now().await.unwrap();
    assert_eq!(count_blocks(&blocks).await, 5, "four were one, and one is new");
    file.assert_there(&volume, b"x").await;
    let after = volume.find_node(file.ino).await.unwrap();
    assert_eq!(after.inode.attributes, before.inode.attributes);
    let (mut was, mut is) =
        (before.inode.file().unwrap().clone(), after.inode.file().unwrap().clone());
    assert_ne!(was.content, is.content);
    (was.content, is.content) = (Content::Pages(Vec::new()), Content::Pages(Vec::new()));
    assert_eq!(was, is);
    assert_eq!(records(&*store, space::ORPHAN).await, 0);
    assert_eq!(findings(&store, &blocks).await, []);
    let meters = volume.upkeep.meters();
    assert_eq!((meters.files_compacted.get(), meters.bytes_compacted.get()), (1, BLOCK as u64));
    delete(&volume, b"x").await;
    volume.upkeep.reap_now().await.unwrap();
    assert_eq!(count_blocks(&blocks).await, 0);
}

/// Also of files whose map is in pages, and whose runs are short.
#[tokio::test(start_paused = true)]
async fn stored_bytes_stay_within_twice_the_visible_bytes() {
    let (store, blocks, volume) = world().await;
    let size = 80 * BLOCK;
    let mut file = Written::new(&volume, b"x", size).await;
    let mut worst_without = 0;
    for round in 0..2 {
        file.churn(&volume, 60).await;
        volume.upkeep.reap_now().await.unwrap();
        worst_without = worst_without.max(percent(&blocks, size).await);
        let done = settle(&volume).await;
        assert!(done.bytes > 0, "round {round}");
        let percent = percent(&blocks, size).await;
        assert!(percent <= BOUND_PERCENT, "stored bytes are {percent} % of the visible bytes");
        file.assert_there(&volume, b"x").await;
        assert_eq!(findings(&store, &blocks).await, [], "round {round}");
    }
    assert!(worst_without > 250, "{worst_without} % need no compactor");
    let node = volume.find_node(file.ino).await.unwrap();
    let Content::Pages(pages) = &node.inode.file().unwrap().content else { return };
    for page in pages {
        let at = key::map_page(file.ino, page.page);
        let record = faulty::get(&*store, &at).await.unwrap();
        let slices = record::MapPage::decode(&at, &record).unwrap().0;
        assert!(slices.len() <= 300, "{} runs in a page", slices.len());
    }
    volume.close().await;
    let heir = open(&store, &blocks, false).await;
    let collected = heir.upkeep.gc(SweepOptions::default()).await.unwrap();
    assert_eq!((collected.swept.unreferenced, collected.reaped.blocks), (0, 0), "nothing leaked");
}

#[tokio::test(start_paused = true)]
async fn a_file_under_constant_writes_is_compacted() {
    let (store, blocks, volume) = world().await;
    let size = 70 * BLOCK;
    let mut file = Written::new(&volume, b"x", size).await;
    file.churn(&volume, 20).await;
    let (mut rounds, mut bytes) = (0, 0);
    while volume.upkeep.meters().compactions_refused.get() < 3 || rounds < 4 {
        let writing = async {
            for _ in 0..12 {
                let places = file.places(10, 1_600);
                file.write(&volume, &places).await;
                tokio::task::yield_now().await;
            }
        };
        let ((), compacted) = futures::join!(writing, volume.upkeep.compact_now());
        bytes += compacted.unwrap().bytes;
        file.assert_there(&volume, b"x").await;
        volume.upkeep.reap_now().await.unwrap();
        rounds += 1;
        assert!(rounds < 50, "they never met");
    }
    assert!(bytes > 0);
    settle(&volume).await;
    file.assert_there(&volume, b"x").await;
    assert!(percent(&blocks, size).await <= BOUND_PERCENT);
    assert_eq!(findings(&store, &blocks).await, []);
}

#[tokio::test(start_paused = true)]
async fn two_concurrent_compactors_keep_the_content() {
    let (store, blocks, volume) = world().await;
    let other = open(&store, &blocks, false).await;
    let size = 70 * BLOCK;
    let mut file = Written::new(&volume, b"x", size).await;
    for _ in 0..2 {
        file.churn(&volume, 20).await;
        let (one, two) = futures::join!(volume.upkeep.compact_now(), other.upkeep.compact_now());
        assert!(one.unwrap().bytes + two.unwrap().bytes > 0);
        file.assert_there(&volume, b"x").await;
        file.assert_there(&other, b"x").await;
        let reaped = futures::join!(volume.upkeep.reap_now(), other.upkeep.reap_now());
        reaped.0.unwrap();
        reaped.1.unwrap();
        file.assert_there(&other, b"x").await;
        assert_eq!(findings(&store, &blocks).await, []);
    }
    settle(&volume).await;
    assert!(percent(&blocks, size).await <= BOUND_PERCENT);
}

#[tokio::test(start_paused = true)]
async fn a_reader_gets_the_bytes_of_its_beginning_to_its_end() {
    let (store, blocks, volume) = world().await;
    for size in [5 * BLOCK, 80 * BLOCK] {
        let mut file = Written::new(&volume, b"x", size).await;
        file.write(&volume, &MOST).await;
        let object = volume.stat("b", b"x").await.unwrap();
        let stored_before = count_blocks(&blocks).await;
        assert!(volume.upkeep.compact_now().await.unwrap().bytes > 0);
        let reaping = tokio::time::timeout(Duration::from_mins(1), volume.upkeep.reap_now()).await;
        assert!(reaping.is_err(), "the reader holds the old place");
        assert!(count_blocks(&blocks).await > stored_before);
        let pieces: Vec<Bytes> =
            volume.read(&object, 0..object.size()).try_collect().await.unwrap();
        assert!(pieces.concat() == file.bytes);
        drop(object);
        volume.upkeep.reap_now().await.unwrap();
        assert!(count_blocks(&blocks).await < stored_before);
        assert_eq!(findings(&store, &blocks).await, []);
        delete(&volume, b"x").await;
    }
}

#[tokio::test(start_paused = true)]
async fn compaction_keeps_blocks_that_copies_share() {
    let (store, blocks, volume) = world().await;
    let mut file = Written::new(&volume, b"x", 5 * BLOCK).await;
    copy(&volume, b"x", b"copy").await;
    file.write(&volume, &MOST).await;
    assert_eq!(
        volume.upkeep.compact_now().await.unwrap().bytes,
        0,
        "the copy names all of the blocks"
    );
    let original = vec![5; 5 * BLOCK];
    // A second copy has the rest of the blocks, and so has the first one after its overwrite.
    copy(&volume, b"x", b"second").await;
    delete(&volume, b"copy").await;
    volume.upkeep.reap_now().await.unwrap();
    // Two times a quarter is half, which is not less than half.
    assert_eq!(volume.upkeep.compact_now().await.unwrap().bytes, 0);
    let second = file.bytes.clone();
    file.write(&volume, &[(BLOCK * 3 / 4, 9)]).await;
    assert!(volume.upkeep.compact_now().await.unwrap().bytes > 0, "each lets go of one block");
    volume.upkeep.reap_now().await.unwrap();
    file.assert_there(&volume, b"x").await;
    assert!(read(&volume, b"second").await.unwrap() == second);
    assert_ne!(second, original);
    assert_eq!(findings(&store, &blocks).await, []);
    delete(&volume, b"x").await;
    volume.upkeep.reap_now().await.unwrap();
    assert!(read(&volume, b"second").await.unwrap() == second);
    delete(&volume, b"second").await;
    volume.upkeep.reap_now().await.unwrap();
    assert_eq!((count_blocks(&blocks).await, records(&*store, space::SHARE).await), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn copies_of_long_files_are_compacted_into_own_blocks() {
    let (store, blocks, volume) = world().await;
    let size = 80 * BLOCK;
    let mut file = Written::new(&volume, b"x", size).await;
    copy(&volume, b"x", b"twin").await;
    let ino = lookup(&volume, b"twin").await.unwrap().ino;
    let mut twin = Written { ino, bytes: vec![5; size], random: SmallRng::seed_from_u64(3) };
    for _ in 0..2 {
        file.churn(&volume, 25).await;
        twin.churn(&volume, 25).await;
        settle(&volume).await;
        file.assert_there(&volume, b"x").await;
        twin.assert_there(&volume, b"twin").await;
        assert_eq!(findings(&store, &blocks).await, []);
    }
    let percent = percent(&blocks, 2 * size).await;
    assert!(percent <= BOUND_PERCENT, "{percent}");
}

#[tokio::test(start_paused = true)]
async fn compaction_releases_the_pack_of_a_file_in_pages() {
    let (store, blocks, volume) = world().await;
    let old = pack(&volume, &THREE).await;
    complete_with_copy(&volume, b"big", b"b").await;
    let bytes = read(&volume, b"big").await.unwrap();
    delete(&volume, b"c").await;
    volume.upkeep.reap_now().await.unwrap();
    assert_eq!(
        volume.upkeep.repack_now().await.unwrap().skipped,
        1,
        "it is noted for the compactor"
    );
    assert!(volume.upkeep.compact_now().await.unwrap().bytes > 0);
    volume.upkeep.reap_now().await.unwrap();
    assert_eq!(volume.upkeep.repack_now().await.unwrap().sources, 1, "the others follow");
    volume.upkeep.reap_now().await.unwrap();
    assert!(!exists(&blocks, old).await);
    assert!(read(&volume, b"big").await.unwrap() == bytes);
    assert_eq!(findings(&store, &blocks).await, []);
}

#[tokio::test(start_paused = true)]
async fn a_kill_between_block_put_and_swap_leaves_only_blocks_that_are_swept() {
    for (fault, moved) in [(Fault::Stuck, false), (Fault::Hang, true)] {
        let (store, blocks, volume) = world().await;
        let mut file = Written::new(&volume, b"x", 80 * BLOCK).await;
        file.write(&volume, &MOST).await;
        volume.upkeep.reap_now().await.unwrap();
        let before = count_blocks(&blocks).await;
        store.inject(Some(space::INODE), fault);
        let compacting = tokio::time::timeout(Duration::from_secs(5), volume.upkeep.compact_now());
        assert!(compacting.await.is_err());
        assert_eq!(store.fired(), 1);
        assert_eq!(count_blocks(&blocks).await, before + 1, "the new block is there");
        drop(volume);
        let heir = open(&store, &blocks, false).await;
        tokio::time::sleep(SESSION_SILENCE * 2).await;
        let collected = heir.upkeep.gc(SweepOptions::default()).await.unwrap();
        assert_eq!(collected.swept.deleted, u64::from(!moved), "{fault:?}");
        file.assert_there(&heir, b"x").await;
        heir.upkeep.compact_now().await.unwrap();
        heir.upkeep.reap_now().await.unwrap();
        assert_eq!(count_blocks(&blocks).await, before - 3);
        file.assert_there(&heir, b"x").await;
        assert_eq!(findings(&store, &blocks).await, []);
    }
}

#[tokio::test(start_paused = true)]
async fn a_swap_whose_answer_was_lost_is_done_once() {
    for fault in [Fault::LostAnswer, Fault::LostRequest, Fault::Unavailable, Fault::Delayed] {
        let (store, blocks, volume) = world().await;
        let mut file = Written::new(&volume, b"x", 80 * BLOCK).await;
        file.write(&volume, &MOST).await;
        store.inject(Some(space::INODE), fault);
        // It may have to give up; then it comes again.
        let _first = volume.upkeep.compact_now().await;
        assert_eq!(store.fired(), 1);
        store.deliver().await;
        volume.upkeep.compact_now().await.unwrap();
        file.assert_there(&volume, b"x").await;
        volume.upkeep.reap_now().await.unwrap();
        assert_eq!(findings(&store, &blocks).await, [], "{fault:?}");
        volume.close().await;
        let stored = percent(&blocks, file.bytes.len()).await;
        assert!(stored <= 102, "{fault:?}: {stored} %");
    }
}

#[tokio::test(start_paused = true)]
async fn a_damaged_block_stays_and_the_others_move() {
    let (store, blocks, volume) = world().await;
    let mut file = Written::new(&volume, b"x", 5 * BLOCK).await;
    let node = volume.find_node(file.ino).await.unwrap();
    let Content::Slices(slices) = &node.inode.file().unwrap().content else { panic!("slices") };
    let damaged = slices[1].block;
    file.write(&volume, &MOST).await;
    volume.upkeep.reap_now().await.unwrap();
    blocks.delete(damaged).await.unwrap();
    let done = volume.upkeep.compact_now().await.unwrap();
    assert_eq!(done.bytes, BLOCK as u64 * 3 / 4);
    let after = volume.find_node(file.ino).await.unwrap();
    let Content::Slices(slices) = &after.inode.file().unwrap().content else { panic!("slices") };
    assert!(slices.iter().any(|slice| slice.block == damaged), "it is still said to be there");
    assert!(!findings(&store, &blocks).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn background_compaction_runs_soon_after_a_write() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let volume = open(&store, &blocks, true).await;
    make_bucket(&volume).await;
    let size = 80 * BLOCK;
    let mut file = Written::new(&volume, b"x", size).await;
    file.churn(&volume, 50).await;
    tokio::time::sleep(COMPACT_DELAY * 2 + JOIN_DELAY * 4).await;
    assert!(volume.upkeep.meters().files_compacted.get() > 0);
    let percent = percent(&blocks, size).await;
    assert!(percent <= BOUND_PERCENT, "{percent} %");
    file.assert_there(&volume, b"x").await;
    volume.close().await;
    assert_eq!(findings(&store, &blocks).await, []);
}

#[tokio::test(start_paused = true)]
async fn files_of_an_earlier_process_are_compacted() {
    for size in [5 * BLOCK, 80 * BLOCK] {
        let (store, blocks, volume) = world().await;
        let mut file = Written::new(&volume, b"x", size).await;
        file.write(&volume, &MOST).await;
        // Many others, so that the walk takes some steps.
        for n in 0..1_200 {
            put(&volume, format!("other{n}").as_bytes(), 3).await;
        }
        volume.close().await;
        drop(volume);
        let heir = open(&store, &blocks, true).await;
        tokio::time::sleep(SURVEY_DELAY + JOIN_DELAY).await;
        assert_eq!(heir.upkeep.meters().files_compacted.get(), 1);
        file.assert_there(&heir, b"x").await;
        heir.close().await;
        assert_eq!(findings(&store, &blocks).await, []);
    }
}
