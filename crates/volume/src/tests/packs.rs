//! Owners of packs, and the time of their deletion.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use block::{BlockStore, MemoryBlocks, SUB_BLOCK_BYTES, Sealer};
use cache::{Cache, CacheOptions};
use content::REMEMBERED_BYTES_MAX;
use faulty::{Fault, Faulty};
use namespace::{Path, Publish, WriteCondition, add_pack_shares};
use record::key::{self, space};
use record::{BlockId, Content, Ino, Mark, PartTag, Slice, Tag};
use session::{COMMIT_DEADLINE, ReaderGuard, SESSION_SILENCE};
use store::{CounterKey, MetaStore, Plan, Write};
use upkeep::{Finding, NoProgress, SweepOptions, fsck};

use super::reaping::{copy, delete, finished, part, read, records, upload};
use super::{MaintainedVolume, count_blocks, file, make_bucket, open, publish};
use crate::{
    CompletePart, CompleteUpload, CopyChanges, ObjectMode, Volume, VolumeError, VolumeOptions,
};

/// Bytes that differ for each object.
pub(super) fn bytes_of(name: &str, length: usize) -> Vec<u8> {
    let seed: usize = name.bytes().map(usize::from).sum();
    (0..length).map(|at| (at * 31 + at / 97 + seed).to_le_bytes()[0]).collect()
}

/// A durable pack and the positions of its members.
pub(crate) struct Laid {
    pub(super) id: BlockId,
    /// The position of each member.
    members: BTreeMap<String, Slice>,
    /// Keeps the reaper from the pack as long as members may come.
    pub(super) pin: Option<ReaderGuard>,
}

/// Puts a pack without publishing anything.
pub(crate) async fn lay(volume: &Volume, members: &[(&str, usize)]) -> Laid {
    let pin = Some(volume.session.reading());
    let mut sealer = Sealer::new(volume.staging.ids.allocate_pack(), 1 << 16);
    let mut places = Vec::new();
    for (name, length) in members {
        places.push((*name, sealer.len(), u32::try_from(*length).unwrap()));
        sealer.push_copy(&bytes_of(name, *length));
    }
    let block = sealer.finish();
    volume.blocks.put(&block).await.unwrap();
    let slice = |(name, offset, length): (&str, u32, u32)| {
        let slice = Slice {
            position: 0,
            block: block.id(),
            block_length: block.length(),
            block_crc32c: block.crc32c(),
            offset,
            length,
        };
        (name.to_owned(), slice)
    };
    Laid { id: block.id(), members: places.into_iter().map(slice).collect(), pin }
}

/// Publishes a member of a pack.
pub(crate) async fn publish_member(volume: &Volume, laid: &Laid, name: &str) {
    let slice = laid.members[name];
    let [ino] = volume.session.allocate_inodes(1).await.unwrap()[..] else {
        panic!("one was asked for")
    };
    let path = Path::new(b"b", name.as_bytes());
    let inode = file(u64::from(slice.length), Content::Slices(vec![slice]));
    let operation = Publish {
        path: &path,
        ino,
        fresh: &[],
        inode: &inode,
        condition: &WriteCondition::None,
        assumptions: &[],
        writes: &add_pack_shares(&[slice], ino),
    };
    let published = volume.session.run(&operation).await.unwrap();
    if published.replaced.is_some() {
        volume.session.wake_reaper();
    }
}

/// Publishes objects that share a pack.
pub(super) async fn pack(volume: &Volume, members: &[(&str, usize)]) -> BlockId {
    let laid = lay(volume, members).await;
    for (name, _) in members {
        publish_member(volume, &laid, name).await;
    }
    laid.id
}

/// Every pack's counter that is not 0.
pub(super) async fn counters(store: &dyn MetaStore) -> BTreeMap<BlockId, i64> {
    let page = store.walk_counters(space::LIVE, None, 1_000).await.unwrap();
    assert!(page.resume.is_none());
    let counter = |(CounterKey(key), live): (CounterKey, i64)| {
        (BlockId(key.suffix().try_into().unwrap()), live)
    };
    page.counters.into_iter().filter(|(_, live)| *live != 0).map(counter).collect()
}

pub(super) async fn findings(store: &Arc<Faulty>, blocks: &Arc<MemoryBlocks>) -> Vec<Finding> {
    fsck(store.clone(), blocks.clone(), &NoProgress).await.unwrap().findings
}

pub(super) async fn exists(blocks: &MemoryBlocks, id: BlockId) -> bool {
    blocks.size(id).await.unwrap().is_some()
}

pub(super) const THREE: [(&str, usize); 3] = [("a", 1_000), ("b", 2_000), ("c", 70_000)];

/// A volume with a bucket and without background work.
pub(super) async fn world() -> (Arc<Faulty>, Arc<MemoryBlocks>, MaintainedVolume) {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let volume = open(store.clone(), blocks.clone()).await;
    make_bucket(&volume).await;
    (store, blocks, volume)
}

#[tokio::test(start_paused = true)]
async fn a_pack_lives_as_long_as_any_of_its_members() {
    let (store, blocks, volume) = world().await;
    let id = pack(&volume, &THREE).await;
    assert_eq!(counters(&*store).await, BTreeMap::from([(id, 73_000)]));
    assert_eq!(findings(&store, &blocks).await, []);
    publish(&volume, b"a", 5).await.unwrap();
    assert_eq!(findings(&store, &blocks).await, [], "with an orphan");
    volume.upkeep.reap_now().await.unwrap();
    assert_eq!(counters(&*store).await, BTreeMap::from([(id, 72_000)]));
    delete(&volume, b"c").await;
    volume.upkeep.reap_now().await.unwrap();
    assert_eq!(counters(&*store).await, BTreeMap::from([(id, 2_000)]));
    assert_eq!(read(&volume, b"b").await.unwrap(), bytes_of("b", 2_000));
    assert_eq!(findings(&store, &blocks).await, []);
    delete(&volume, b"b").await;
    volume.upkeep.reap_now().await.unwrap();
    assert!(!exists(&blocks, id).await);
    assert_eq!(counters(&*store).await, BTreeMap::new());
    assert_eq!(records(&*store, space::SHARE).await, 0);
    assert_eq!(findings(&store, &blocks).await, []);
}

/// A volume that reads through a cache of 64 MiB.
async fn cached() -> (Arc<MemoryBlocks>, Arc<Cache<Arc<MemoryBlocks>>>, MaintainedVolume) {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let options = CacheOptions { memory_bytes: 64 << 20, disk: None };
    let cache = Arc::new(Cache::open(blocks.clone(), options).await.unwrap());
    let options = VolumeOptions { reader: Some(cache.clone()), ..VolumeOptions::default() };
    let volume =
        MaintainedVolume::open_without_tasks(options, store, blocks.clone()).await.unwrap();
    make_bucket(&volume).await;
    (blocks, cache, volume)
}

#[tokio::test(start_paused = true)]
async fn a_small_body_is_in_memory_after_its_write() {
    let (blocks, cache, volume) = cached().await;
    let most = REMEMBERED_BYTES_MAX as usize;
    let staged = [most, most + 1, 20_000].map(|bytes| super::staged(&volume, bytes));
    let staged = futures::future::join_all(staged).await;
    // The first is left alone. The others share a block, and the last of them has a fifth page.
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(count_blocks(&blocks).await, 2);
    let pages = u64::from(REMEMBERED_BYTES_MAX / SUB_BLOCK_BYTES);
    assert_eq!(cache.counters().remembered, pages + 1);
    for (name, staged) in [&b"a"[..], b"b", b"c"].into_iter().zip(staged) {
        super::publish_staged(&volume, name, staged, &WriteCondition::None).await.unwrap();
    }
    for (name, length, fetched) in
        [(&b"a"[..], most, 0), (b"c", 20_000, 0), (b"b", most + 1, pages)]
    {
        let before = cache.counters().misses;
        assert_eq!(read(&volume, name).await.unwrap(), vec![5; length]);
        assert_eq!(cache.counters().misses - before, fetched, "pages of a body of {length}");
    }
}

#[tokio::test(start_paused = true)]
async fn deleted_blocks_leave_the_memory_cache() {
    let (_, cache, volume) = cached().await;
    let sub_block = SUB_BLOCK_BYTES as usize;
    let members = [("a", 2 * sub_block), ("b", 3 * sub_block + 1_000), ("c", 2 * sub_block)];
    pack(&volume, &members).await;
    for (name, length) in members {
        assert_eq!(read(&volume, name.as_bytes()).await.unwrap(), bytes_of(name, length));
    }
    assert_eq!(cache.memory_pages(), 8);
    delete(&volume, b"b").await;
    volume.upkeep.reap_now().await.unwrap();
    let seen = cache.counters();
    assert_eq!((cache.memory_pages(), seen.forgotten), (5, 3), "c is in the fourth, too");
    let fetched = seen.fetched_bytes;
    for (name, length) in [members[0], members[2]] {
        assert_eq!(read(&volume, name.as_bytes()).await.unwrap(), bytes_of(name, length));
    }
    assert_eq!(cache.counters().fetched_bytes, fetched, "nothing else has left");
    delete(&volume, b"c").await;
    volume.upkeep.reap_now().await.unwrap();
    assert_eq!(cache.memory_pages(), 3, "a's, and the one that b and c shared");
}

#[tokio::test(start_paused = true)]
async fn members_deleted_together_are_reaped_in_one_pass() {
    let (store, blocks, volume) = world().await;
    let names: Vec<String> = (0..150).map(|n| format!("m{n:03}")).collect();
    let members: Vec<(&str, usize)> = names.iter().map(|name| (name.as_str(), 100)).collect();
    let id = pack(&volume, &members).await;
    let keys = names.iter().map(|name| (name.as_bytes().to_vec(), None)).collect();
    volume.delete("b", keys).await.unwrap();
    let refused = volume.counters().session.refused;
    let reaped = volume.upkeep.reap_now().await.unwrap();
    assert_eq!((reaped.orphans, reaped.blocks), (150, 1));
    assert_eq!(
        volume.counters().session.refused,
        refused,
        "no plan was refused because an owner is gone"
    );
    assert!(!exists(&blocks, id).await);
    assert_eq!(counters(&*store).await, BTreeMap::new());
}

#[tokio::test(start_paused = true)]
async fn a_member_that_is_not_published_yet_keeps_its_pack() {
    for pinned in [true, false] {
        let (store, blocks, volume) = world().await;
        let mut laid = lay(&volume, &THREE).await;
        if !pinned {
            laid.pin = None;
        }
        publish_member(&volume, &laid, "a").await;
        publish(&volume, b"a", 5).await.unwrap();
        // The only member that anybody knows of is overwritten and waits for the reaper.
        let reaping = tokio::time::timeout(Duration::from_mins(1), volume.upkeep.reap_now()).await;
        assert_eq!(reaping.is_err(), pinned);
        assert_eq!(exists(&blocks, laid.id).await, pinned, "it is the pin that keeps it");
        if !pinned {
            continue;
        }
        publish_member(&volume, &laid, "b").await;
        laid.pin = None;
        volume.upkeep.reap_now().await.unwrap();
        assert_eq!(read(&volume, b"b").await.unwrap(), bytes_of("b", 2_000));
        assert_eq!(counters(&*store).await, BTreeMap::from([(laid.id, 2_000)]));
        assert_eq!(findings(&store, &blocks).await, []);
    }
}

#[tokio::test(start_paused = true)]
async fn a_plan_of_unknown_outcome_keeps_its_pack() {
    let (store, blocks, volume) = world().await;
    let mut laid = lay(&volume, &THREE).await;
    publish_member(&volume, &laid, "a").await;
    store.inject(Some(space::INODE), Fault::Stuck);
    let publishing = publish_member(&volume, &laid, "b");
    assert!(tokio::time::timeout(Duration::from_secs(5), publishing).await.is_err());
    assert_eq!(store.fired(), 1);
    laid.pin = None;
    tokio::time::sleep(COMMIT_DEADLINE).await;
    publish(&volume, b"a", 5).await.unwrap();
    let reaping = tokio::time::timeout(Duration::from_mins(1), volume.upkeep.reap_now()).await;
    assert!(reaping.is_err(), "the plan may still be committed, and holds its epoch");
    assert!(exists(&blocks, laid.id).await);
}

#[tokio::test(start_paused = true)]
async fn a_copy_of_a_pack_member_is_an_owner() {
    let (store, blocks, volume) = world().await;
    let id = pack(&volume, &THREE).await;
    copy(&volume, b"b", b"twin").await;
    copy(&volume, b"twin", b"triplet").await;
    assert_eq!(counters(&*store).await, BTreeMap::from([(id, 77_000)]));
    assert_eq!(findings(&store, &blocks).await, []);
    for name in [&b"a"[..], b"b", b"c", b"twin"] {
        delete(&volume, name).await;
        volume.upkeep.reap_now().await.unwrap();
        assert_eq!(read(&volume, b"triplet").await.unwrap(), bytes_of("b", 2_000));
        assert_eq!(findings(&store, &blocks).await, []);
    }
    assert_eq!(counters(&*store).await, BTreeMap::from([(id, 2_000)]));
    delete(&volume, b"triplet").await;
    volume.upkeep.reap_now().await.unwrap();
    assert_eq!(count_blocks(&blocks).await, 0);
    assert_eq!(counters(&*store).await, BTreeMap::new());
}

/// Completes an upload of one long part and a copy of a member of a pack.
pub(super) async fn complete_with_copy(volume: &Arc<Volume>, name: &[u8], of: &[u8]) {
    let id = upload(volume, name).await;
    let mut writer = content::ContentWriter::in_blocks(&volume.writers, None);
    for _ in 0..53 {
        writer.write(vec![5; 100_000].into()).await.unwrap();
    }
    let body = writer.finish().await.unwrap();
    volume.put_part("b", name, id, 1, body, PartTag::Md5([9; 16]), Vec::new()).await.unwrap();
    let source = volume.stat("b", of).await.unwrap();
    let range = 100..source.size();
    let copied = volume
        .copy_part("b", name, id, 2, &ObjectMode::default(), &source, range, None)
        .await
        .unwrap();
    let parts = [
        CompletePart { number: 1, tag: Tag::Md5([9; 16]), sums: Vec::new() },
        CompletePart { number: 2, tag: copied.part.tag.tag(), sums: Vec::new() },
    ];
    let wanted =
        CompleteUpload { parts: &parts, object_size: None, condition: WriteCondition::None };
    let finish = |_: &_, _: &[_]| Ok::<_, VolumeError>(finished(Tag::Multipart([3; 16], 2)));
    volume.complete("b", name, id, wanted, finish).await.unwrap();
}

fn completed_bytes(of: &str, length: usize) -> Vec<u8> {
    [vec![5; 5_300_000], bytes_of(of, length)[100..].to_vec()].concat()
}

#[tokio::test(start_paused = true)]
async fn packed_parts_pass_their_shares_to_the_file() {
    // Blocks so short that the file's map is in pages.
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let options = VolumeOptions { block_bytes: 8_192, ..Default::default() };
    let volume =
        MaintainedVolume::open_without_tasks(options, store.clone(), blocks.clone()).await.unwrap();
    make_bucket(&volume).await;
    let id = pack(&volume, &THREE).await;
    complete_with_copy(&volume, b"big", b"b").await;
    assert_eq!(counters(&*store).await, BTreeMap::from([(id, 73_000 + 2 * 1_900)]));
    assert_eq!(findings(&store, &blocks).await, [], "the part and the file own it");
    volume.upkeep.reap_now().await.unwrap();
    assert_eq!(counters(&*store).await, BTreeMap::from([(id, 73_000 + 1_900)]));
    // A copy of so many slices is staged ahead of its plan.
    copy(&volume, b"big", b"copy").await;
    assert_eq!(counters(&*store).await, BTreeMap::from([(id, 73_000 + 2 * 1_900)]));
    assert_eq!(findings(&store, &blocks).await, []);
    for name in [&b"a"[..], b"b", b"c", b"big"] {
        delete(&volume, name).await;
    }
    volume.upkeep.reap_now().await.unwrap();
    assert_eq!(counters(&*store).await, BTreeMap::from([(id, 1_900)]));
    assert_eq!(read(&volume, b"copy").await.unwrap(), completed_bytes("b", 2_000));
    assert_eq!(findings(&store, &blocks).await, []);
    delete(&volume, b"copy").await;
    volume.upkeep.reap_now().await.unwrap();
    assert_eq!((count_blocks(&blocks).await, counters(&*store).await), (0, BTreeMap::new()));
}

#[tokio::test(start_paused = true)]
async fn an_aborted_upload_releases_its_packs() {
    let (store, blocks, volume) = world().await;
    let id = pack(&volume, &THREE).await;
    let given_up = upload(&volume, b"big").await;
    part(&volume, b"big", given_up, 1).await;
    let source = volume.stat("b", b"c").await.unwrap();
    volume
        .copy_part("b", b"big", given_up, 2, &ObjectMode::default(), &source, 0..70_000, None)
        .await
        .unwrap();
    drop(source);
    delete(&volume, b"c").await;
    volume.upkeep.reap_now().await.unwrap();
    assert_eq!(counters(&*store).await, BTreeMap::from([(id, 73_000)]), "the part lives");
    volume.abort("b", b"big", given_up).await.unwrap();
    volume.upkeep.reap_now().await.unwrap();
    assert_eq!(counters(&*store).await, BTreeMap::from([(id, 3_000)]));
    assert_eq!(findings(&store, &blocks).await, []);
}

#[tokio::test(start_paused = true)]
async fn staged_pack_shares_are_taken_back() {
    for killed in [false, true] {
        let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
        let options = VolumeOptions { block_bytes: 8_192, ..Default::default() };
        let volume = MaintainedVolume::open_without_tasks(options, store.clone(), blocks.clone())
            .await
            .unwrap();
        make_bucket(&volume).await;
        let id = pack(&volume, &THREE).await;
        complete_with_copy(&volume, b"big", b"b").await;
        volume.upkeep.reap_now().await.unwrap();
        let before = counters(&*store).await;
        assert_eq!(before, BTreeMap::from([(id, 74_900)]));
        let mut heir = None;
        if killed {
            store.inject(Some(space::INODE), Fault::Stuck);
            let copying = copy(&volume, b"big", b"copy");
            assert!(tokio::time::timeout(Duration::from_secs(5), copying).await.is_err());
            assert_eq!(store.fired(), 1);
            assert_eq!(counters(&*store).await, BTreeMap::from([(id, 76_800)]), "staged");
            drop(volume);
            let next = open(store.clone(), blocks.clone()).await;
            tokio::time::sleep(SESSION_SILENCE * 2).await;
            next.upkeep.sweep(SweepOptions::default()).await.unwrap();
            heir = Some(next);
        } else {
            let source = volume.stat("b", b"big").await.unwrap();
            let (absent, owner) = (WriteCondition::IfAbsent, super::reaping::owner());
            let copying = volume.copy(&source, "b", b"big", CopyChanges::default(), absent, &owner);
            copying.await.unwrap_err();
        }
        assert_eq!(counters(&*store).await, before, "killed: {killed}");
        assert_eq!(records(&*store, space::STAGED).await, 0);
        assert_eq!(findings(&store, &blocks).await, [], "killed: {killed}");
        if let Some(heir) = heir {
            assert_eq!(read(&heir, b"big").await.unwrap(), completed_bytes("b", 2_000));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_owner_without_a_record_does_not_delete_its_pack() {
    let (store, blocks, volume) = world().await;
    let id = pack(&volume, &THREE).await;
    let (share, _) = store.walk(space::SHARE, None, 10).await.unwrap().records.swap_remove(0);
    let damage = Plan { guards: Vec::new(), writes: vec![Write::Delete(share)] };
    store.commit(&[damage]).await.unwrap();
    let found = findings(&store, &blocks).await;
    assert!(
        found.iter().any(|finding| matches!(finding, Finding::Unshared(block, _) if *block == id))
    );
    assert!(
        found.iter().any(|finding| matches!(finding, Finding::Live { pack, .. } if *pack == id))
    );
    delete(&volume, b"a").await;
    volume.upkeep.reap_now().await.unwrap();
    assert_eq!(read(&volume, b"b").await.unwrap(), bytes_of("b", 2_000));
    delete(&volume, b"b").await;
    delete(&volume, b"c").await;
    volume.upkeep.reap_now().await.unwrap();
    assert_eq!((exists(&blocks, id).await, counters(&*store).await), (false, BTreeMap::new()));
    let stray = Plan { guards: Vec::new(), writes: vec![Write::Add(key::live(id), 1)] };
    store.commit(&[stray]).await.unwrap();
    let found = findings(&store, &blocks).await;
    assert_eq!(found, [Finding::Live { pack: id, recorded: 1, found: 0 }], "a counter of nothing");
    assert!(!found[0].to_string().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_wrong_live_counter_is_found() {
    let (store, blocks, volume) = world().await;
    let id = pack(&volume, &THREE).await;
    let add = Plan { guards: Vec::new(), writes: vec![Write::Add(key::live(id), -1)] };
    store.commit(&[add]).await.unwrap();
    let wrong = Finding::Live { pack: id, recorded: 72_999, found: 73_000 };
    assert_eq!(findings(&store, &blocks).await, [wrong]);
    let stray = key::share(id, Ino(77));
    let put = Write::Put(stray.clone(), Mark.encode(&stray));
    store.commit(&[Plan { guards: Vec::new(), writes: vec![put] }]).await.unwrap();
    assert!(findings(&store, &blocks).await.contains(&Finding::StrayShare(id, Ino(77))));
}
