//! Bodies that are staged inline, and how they get into blocks.

use std::sync::Arc;
use std::time::Duration;

use block::MemoryBlocks;
use bytes::Bytes;
use content::DESTAGE_DELAY;
use faulty::{Fault, Faulty};
use record::key::{self, space};
use record::{Content, ObjectHeaders, Tag};
use session::SESSION_SILENCE;
use store::{MetaStore, Plan, StoreErrorKind, Write};
use upkeep::{Finding, Moves, SURVEY_DELAY, SweepOptions};

use super::packs::{bytes_of, counters, findings};
use super::reaping::{copy, delete, owner, read, records};
use super::{MaintainedVolume, count_blocks, lookup, make_bucket};
use crate::{NewObject, Volume, VolumeError, VolumeOptions, WriteCondition};

/// Bytes that may be staged inline here.
const STAGED_INLINE_BYTES: u64 = 1 << 20;

async fn open_with(
    store: &Arc<Faulty>,
    blocks: &Arc<MemoryBlocks>,
    staged_inline_bytes_max: u64,
    background: bool,
) -> MaintainedVolume {
    let options = VolumeOptions { staged_inline_bytes_max, ..Default::default() };
    if background {
        MaintainedVolume::open(options, store.clone(), blocks.clone()).await.unwrap()
    } else {
        MaintainedVolume::open_without_tasks(options, store.clone(), blocks.clone()).await.unwrap()
    }
}

async fn world() -> (Arc<Faulty>, Arc<MemoryBlocks>, MaintainedVolume) {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let volume = open_with(&store, &blocks, STAGED_INLINE_BYTES, false).await;
    make_bucket(&volume).await;
    (store, blocks, volume)
}

/// Puts an object as a client does.
async fn put(volume: &Volume, name: &str, bytes: usize) {
    try_put(volume, name, bytes, WriteCondition::None).await.unwrap();
}

async fn try_put(
    volume: &Volume,
    name: &str,
    bytes: usize,
    condition: WriteCondition,
) -> Result<(), VolumeError> {
    let mut writer = volume.writer(None, Some(bytes as u64));
    writer.write(Bytes::from(bytes_of(name, bytes))).await?;
    let body = writer.finish().await?;
    let (headers, tag) = (ObjectHeaders::default(), Tag::Md5([7; 16]));
    let new = NewObject { owner: owner(), headers, tag, sums: Vec::new(), encryption: None };
    volume.put("b", name.as_bytes(), body, new, condition).await.map(drop)
}

async fn is_inline(volume: &Volume, name: &str) -> bool {
    let inode = lookup(volume, name.as_bytes()).await.unwrap().inode;
    matches!(inode.file().unwrap().content, Content::Inline(_))
}

async fn marks(store: &Faulty) -> usize {
    records(store, space::STAGED_INLINE).await
}

#[tokio::test(start_paused = true)]
async fn a_lone_body_is_staged_inline_until_it_is_destaged() {
    let (store, blocks, volume) = world().await;
    put(&volume, "a", 150_000).await;
    assert_eq!(count_blocks(&blocks).await, 0);
    assert_eq!(marks(&store).await, 1);
    assert!(read(&volume, b"a").await.unwrap() == bytes_of("a", 150_000));
    assert_eq!(findings(&store, &blocks).await, [], "while it is staged inline");
    let before = lookup(&volume, b"a").await.unwrap();
    let destaged = volume.upkeep.destage_now().await.unwrap();
    assert_eq!(destaged, Moves { sources: 1, bytes: 150_000, ..Moves::default() });
    assert_eq!(volume.upkeep.destage_now().await.unwrap(), Moves::default(), "not twice");
    assert_eq!((count_blocks(&blocks).await, marks(&store).await), (1, 0));
    assert!(read(&volume, b"a").await.unwrap() == bytes_of("a", 150_000));
    assert_eq!(findings(&store, &blocks).await, []);
    // Nothing else of the file has changed.
    let after = lookup(&volume, b"a").await.unwrap();
    assert_eq!((after.ino, after.inode.attributes), (before.ino, before.inode.attributes));
    let mut was = before.inode.file().unwrap().clone();
    let is = after.inode.file().unwrap().clone();
    was.content = is.content.clone();
    assert_eq!(was, is);
    delete(&volume, b"a").await;
    volume.upkeep.reap_now().await.unwrap();
    assert_eq!(count_blocks(&blocks).await, 0);
    assert_eq!(findings(&store, &blocks).await, []);
}

#[tokio::test(start_paused = true)]
async fn several_bodies_are_destaged_into_one_block() {
    let (store, blocks, volume) = world().await;
    let bodies = [("a", 20_000), ("b", 150_000), ("c", 70_000)];
    for (name, bytes) in bodies {
        put(&volume, name, bytes).await;
    }
    assert_eq!(volume.upkeep.destage_now().await.unwrap().sources, 3);
    assert_eq!(count_blocks(&blocks).await, 1);
    assert_eq!(counters(&*store).await.values().sum::<i64>(), 240_000);
    assert_eq!(records(&*store, space::SHARE).await, 3);
    for (name, bytes) in bodies {
        assert!(read(&volume, name.as_bytes()).await.unwrap() == bytes_of(name, bytes), "{name}");
    }
    assert_eq!(findings(&store, &blocks).await, []);
}

#[tokio::test(start_paused = true)]
async fn bodies_replaced_before_destaging_are_never_put() {
    let (store, blocks, volume) = world().await;
    for _ in 0..3 {
        put(&volume, "a", 150_000).await;
        put(&volume, "b", 20_000).await;
    }
    delete(&volume, b"a").await;
    delete(&volume, b"b").await;
    // Some are seen to have lost their names, some are gone altogether.
    volume.upkeep.reap_now().await.unwrap();
    put(&volume, "c", 90_000).await;
    delete(&volume, b"c").await;
    let destaged = volume.upkeep.destage_now().await.unwrap();
    assert_eq!(destaged, Moves { skipped: 7, ..Moves::default() });
    volume.upkeep.reap_now().await.unwrap();
    assert_eq!(volume.counters().traffic.puts, 0);
    assert_eq!(marks(&store).await, 0);
    assert_eq!(records(&*store, space::INODE).await, 2, "the root and the bucket");
    assert_eq!(findings(&store, &blocks).await, []);
}

#[tokio::test(start_paused = true)]
async fn destaging_runs_by_itself_after_a_while() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let volume = open_with(&store, &blocks, STAGED_INLINE_BYTES, true).await;
    make_bucket(&volume).await;
    for round in 1..=3 {
        put(&volume, "a", 150_000).await;
        tokio::time::sleep(DESTAGE_DELAY / 2).await;
        assert_eq!(volume.upkeep.meters().bodies_destaged.get(), round - 1, "it is staged inline");
        tokio::time::sleep(DESTAGE_DELAY).await;
        assert_eq!(volume.upkeep.meters().bodies_destaged.get(), round);
        assert_eq!(marks(&store).await, 0);
    }
    volume.close().await;
    assert_eq!(findings(&store, &blocks).await, []);
}

#[tokio::test(start_paused = true)]
async fn concurrent_bodies_are_packed_and_not_staged() {
    let (store, blocks, volume) = world().await;
    let all = ["a", "b", "c", "d"].map(|name| put(&volume, name, 50_000));
    futures::future::join_all(all).await;
    assert!(marks(&store).await <= 1, "the first may have been alone");
    assert!(count_blocks(&blocks).await >= 1);
    assert_eq!(findings(&store, &blocks).await, []);
}

#[tokio::test(start_paused = true)]
async fn bodies_beyond_the_staging_limit_are_put_into_blocks() {
    let (store, blocks, volume) = world().await;
    for round in 0..8_u64 {
        put(&volume, &round.to_string(), 200_000).await;
        let staged = (round + 1) * 200_000 <= STAGED_INLINE_BYTES;
        assert_eq!(is_inline(&volume, &round.to_string()).await, staged, "{round}");
    }
    assert_eq!(volume.upkeep.destage_now().await.unwrap().sources, 5);
    put(&volume, "again", 200_000).await;
    assert!(is_inline(&volume, "again").await, "there is room again");
    put(&volume, "long", 300_000).await;
    assert!(!is_inline(&volume, "long").await);
    assert_eq!(findings(&store, &blocks).await, []);
}

#[tokio::test(start_paused = true)]
async fn bodies_of_a_killed_session_are_destaged_by_another() {
    let (store, blocks, volume) = world().await;
    for name in ["a", "b"] {
        put(&volume, name, 150_000).await;
    }
    drop(volume);
    let heir = open_with(&store, &blocks, 0, true).await;
    tokio::time::sleep(SURVEY_DELAY + Duration::from_secs(1)).await;
    assert_eq!(heir.upkeep.meters().bodies_destaged.get(), 2);
    assert_eq!(marks(&store).await, 0);
    for name in ["a", "b"] {
        assert!(!is_inline(&heir, name).await);
        assert!(read(&heir, name.as_bytes()).await.unwrap() == bytes_of(name, 150_000));
    }
    heir.close().await;
    assert_eq!(findings(&store, &blocks).await, []);
}

/// A session that has cached that a file has no blocks may delete its inode without another read. A
/// body that is staged inline is no such file: it may be in a block when the delete commits.
#[tokio::test(start_paused = true)]
async fn a_body_destaged_by_another_gateway_is_reaped_with_its_block() {
    let (store, blocks, volume) = world().await;
    let other = open_with(&store, &blocks, 0, false).await;
    for name in ["replaced", "removed"] {
        put(&volume, name, 150_000).await;
        assert!(read(&volume, name.as_bytes()).await.is_ok(), "and it is remembered");
    }
    assert_eq!(other.upkeep.destage_now().await.unwrap().sources, 2);
    assert_eq!(count_blocks(&blocks).await, 1);
    put(&volume, "replaced", 10).await;
    delete(&volume, b"removed").await;
    assert_eq!(volume.upkeep.destage_now().await.unwrap().skipped, 2, "it does not know that yet");
    volume.upkeep.reap_now().await.unwrap();
    assert_eq!(count_blocks(&blocks).await, 0, "no block is left behind");
    assert_eq!(findings(&store, &blocks).await, []);
}

#[tokio::test(start_paused = true)]
async fn two_destagers_of_one_body_keep_its_content() {
    let (store, blocks, volume) = world().await;
    let other = open_with(&store, &blocks, 0, false).await;
    for name in ["a", "b", "c"] {
        put(&volume, name, 100_000).await;
    }
    let (one, two) = futures::join!(volume.upkeep.destage_now(), other.upkeep.destage_now());
    let (one, two) = (one.unwrap(), two.unwrap());
    assert!(one.refused + two.refused > 0, "they met: {one:?} {two:?}");
    assert_eq!(one.sources + two.sources, 3, "each was destaged once");
    for name in ["a", "b", "c"] {
        assert!(read(&volume, name.as_bytes()).await.unwrap() == bytes_of(name, 100_000));
    }
    volume.upkeep.destage_now().await.unwrap();
    assert_eq!(findings(&store, &blocks).await, []);
}

#[tokio::test(start_paused = true)]
async fn a_change_during_destaging_is_kept_and_destaging_is_retried() {
    let (store, blocks, volume) = world().await;
    put(&volume, "a", 100_000).await;
    // The change is under way when the record is read, and lands before the swap.
    let tags = vec![("team".to_owned(), "a".to_owned())];
    let (changed, destaged) =
        futures::join!(volume.set_tags("b", b"a", tags), volume.upkeep.destage_now());
    changed.unwrap();
    let destaged = destaged.unwrap();
    assert_eq!((destaged.sources, destaged.refused), (1, 1), "refused, then found by its mark");
    let found = lookup(&volume, b"a").await.unwrap().inode;
    assert_eq!(found.file().unwrap().object.tags.len(), 1);
    assert!(read(&volume, b"a").await.unwrap() == bytes_of("a", 100_000));
    volume.upkeep.destage_now().await.unwrap();
    assert_eq!((count_blocks(&blocks).await, marks(&store).await), (1, 0));
    assert_eq!(findings(&store, &blocks).await, []);
}

#[tokio::test(start_paused = true)]
async fn a_copy_of_a_staged_body_is_independent_of_it() {
    let (store, blocks, volume) = world().await;
    put(&volume, "a", 100_000).await;
    copy(&volume, b"a", b"twin").await;
    assert!(is_inline(&volume, "twin").await, "it came alone");
    delete(&volume, b"a").await;
    volume.upkeep.reap_now().await.unwrap();
    assert_eq!(volume.upkeep.destage_now().await.unwrap().sources, 1);
    assert!(read(&volume, b"twin").await.unwrap() == bytes_of("a", 100_000));
    assert_eq!(findings(&store, &blocks).await, []);
}

#[tokio::test(start_paused = true)]
async fn a_refused_put_leaves_no_staged_body() {
    let (store, blocks, volume) = world().await;
    put(&volume, "a", 100_000).await;
    let refused = try_put(&volume, "a", 120_000, WriteCondition::IfAbsent).await;
    assert!(refused.is_err());
    assert_eq!(marks(&store).await, 1);
    let destaged = volume.upkeep.destage_now().await.unwrap();
    assert_eq!((destaged.sources, destaged.skipped), (1, 1));
    assert!(read(&volume, b"a").await.unwrap() == bytes_of("a", 100_000));
    assert_eq!(findings(&store, &blocks).await, []);
}

#[tokio::test(start_paused = true)]
async fn a_kill_between_block_put_and_swap_leaves_only_blocks_that_are_swept() {
    for (fault, destaged) in [(Fault::Stuck, false), (Fault::Hang, true)] {
        let (store, blocks, volume) = world().await;
        put(&volume, "a", 100_000).await;
        store.inject(Some(space::INODE), fault);
        let destaging = tokio::time::timeout(Duration::from_secs(5), volume.upkeep.destage_now());
        assert!(destaging.await.is_err());
        assert_eq!(store.fired(), 1);
        assert_eq!(count_blocks(&blocks).await, 1, "the block was put");
        drop(volume);
        let heir = open_with(&store, &blocks, 0, false).await;
        tokio::time::sleep(SESSION_SILENCE * 2).await;
        let collected = heir.upkeep.gc(SweepOptions::default()).await.unwrap();
        assert_eq!(collected.swept.deleted, u64::from(!destaged), "{fault:?}");
        assert!(read(&heir, b"a").await.unwrap() == bytes_of("a", 100_000));
        let again = heir.upkeep.destage_now().await.unwrap();
        assert_eq!(again.sources, u64::from(!destaged), "{fault:?}");
        heir.upkeep.reap_now().await.unwrap();
        assert_eq!((count_blocks(&blocks).await, marks(&store).await), (1, 0));
        assert_eq!(findings(&store, &blocks).await, []);
    }
}

#[tokio::test(start_paused = true)]
async fn a_swap_whose_answer_was_lost_is_done_once() {
    for fault in [Fault::LostAnswer, Fault::LostRequest, Fault::Unavailable, Fault::Delayed] {
        let (store, blocks, volume) = world().await;
        put(&volume, "a", 100_000).await;
        put(&volume, "b", 20_000).await;
        store.inject(Some(space::INODE), fault);
        // It may have to give up; then it comes again.
        let first = volume.upkeep.destage_now().await;
        assert_eq!(store.fired(), 1);
        store.deliver().await;
        volume.upkeep.destage_now().await.unwrap();
        assert!(read(&volume, b"a").await.unwrap() == bytes_of("a", 100_000));
        assert!(read(&volume, b"b").await.unwrap() == bytes_of("b", 20_000));
        assert!(!is_inline(&volume, "a").await && !is_inline(&volume, "b").await);
        let live: i64 = counters(&*store).await.values().sum();
        assert!(live == 120_000 || live == 0, "{fault:?} {first:?}: {live}");
        assert_eq!(marks(&store).await, 0);
        assert_eq!(findings(&store, &blocks).await, [], "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_destaging_is_retried() {
    let (store, blocks, volume) = world().await;
    put(&volume, "a", 100_000).await;
    store.reading.lock().unwrap().fails = Some(StoreErrorKind::Unavailable);
    volume.upkeep.destage_now().await.unwrap_err();
    store.reading.lock().unwrap().fails = None;
    assert!(is_inline(&volume, "a").await);
    assert_eq!(marks(&store).await, 1);
    assert_eq!(volume.upkeep.destage_now().await.unwrap().sources, 1);
    assert!(read(&volume, b"a").await.unwrap() == bytes_of("a", 100_000));
    assert_eq!(marks(&store).await, 0);
    assert_eq!(findings(&store, &blocks).await, []);
}

/// A store may fail a read of many records because of one of them.
#[tokio::test(start_paused = true)]
async fn a_damaged_record_does_not_keep_others_staged() {
    let (store, blocks, volume) = world().await;
    put(&volume, "a", 100_000).await;
    put(&volume, "b", 100_000).await;
    put(&volume, "c", 100_000).await;
    let ino = lookup(&volume, b"b").await.unwrap().ino;
    store.reading.lock().unwrap().damaged = Some(key::inode(ino));
    let destaged = volume.upkeep.destage_now().await.unwrap();
    assert_eq!((destaged.sources, destaged.skipped), (2, 0));
    assert_eq!(marks(&store).await, 1, "the damaged one keeps its mark");
    store.reading.lock().unwrap().damaged = None;
    assert!(is_inline(&volume, "b").await, "nothing was done to it");
    for name in ["a", "c"] {
        assert!(read(&volume, name.as_bytes()).await.unwrap() == bytes_of(name, 100_000));
        assert!(!is_inline(&volume, name).await);
    }
    assert_eq!(volume.upkeep.destage_now().await.unwrap().sources, 1);
    assert_eq!(findings(&store, &blocks).await, []);
}

#[tokio::test(start_paused = true)]
async fn fsck_finds_staged_bodies_without_a_mark() {
    let (store, blocks, volume) = world().await;
    put(&volume, "a", 100_000).await;
    let ino = lookup(&volume, b"a").await.unwrap().ino;
    let plan = Plan { guards: Vec::new(), writes: vec![Write::Delete(key::staged_inline(ino))] };
    store.commit(&[plan]).await.unwrap();
    assert_eq!(findings(&store, &blocks).await, [Finding::Unmarked(ino)]);
    delete(&volume, b"a").await;
    assert_eq!(findings(&store, &blocks).await, []);
}

/// A volume that reads all that it answers with, a file that is staged inline in it, and the file's
/// number.
async fn one_that_rests() -> (Arc<Faulty>, MaintainedVolume, record::Ino) {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let options =
        VolumeOptions { staged_inline_bytes_max: STAGED_INLINE_BYTES, ..Default::default() };
    let volume =
        MaintainedVolume::open_without_tasks(options, store.clone(), blocks).await.unwrap();
    make_bucket(&volume).await;
    put(&volume, "one", 20_000).await;
    let marks = store.walk(space::STAGED_INLINE, None, 10).await.unwrap().records;
    assert_eq!(marks.len(), 1);
    (store, volume, session::scan::ino_of(&marks[0].0).unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_mark_stays_if_its_file_is_published_during_the_lookup() {
    let (store, volume, ino) = one_that_rests().await;
    let at = key::inode(ino);
    let inode = faulty::get(&*store, &at).await.unwrap();
    let plan = |writes| [Plan { guards: Vec::new(), writes }];
    store.commit_now(&plan(vec![Write::Delete(at.clone())])).await;
    store.reading.lock().unwrap().takes = Duration::from_secs(1);
    let coming = async {
        // The destager has read that the file is dead and that there is no inode.
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        store.commit_now(&plan(vec![Write::Put(at.clone(), inode.clone())])).await;
    };
    let (destaged, ()) = futures::join!(volume.upkeep.destage_now(), coming);
    store.reading.lock().unwrap().takes = Duration::ZERO;
    let destaged = destaged.unwrap().sources + volume.upkeep.destage_now().await.unwrap().sources;
    assert_eq!(destaged, 1, "its mark led to it");
    assert_eq!(records(&*store, space::STAGED_INLINE).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_staged_file_that_cannot_be_read_keeps_its_mark() {
    let (store, volume, ino) = one_that_rests().await;
    super::skipping::damage(&store, key::inode(ino)).await;
    volume.upkeep.destage_now().await.unwrap();
    assert_eq!(records(&*store, space::STAGED_INLINE).await, 1);
}
