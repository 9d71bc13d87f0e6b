//! Sparse packs and the rewriting of their live members.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use block::{BlockStore, MemoryBlocks, Sealer};
use faulty::{Fault, Faulty};
use futures::TryStreamExt;
use record::key::space;
use record::{BlockId, Content};
use session::SESSION_SILENCE;
use upkeep::{Moves, REPACK_DELAY, SweepOptions};

use super::packs::{
    THREE, bytes_of, complete_with_copy, counters, exists, findings, lay, pack, publish_member,
    world,
};
use super::reaping::{copy, delete, put, read, records, upload};
use super::{MaintainedVolume, count_blocks, lookup, make_bucket, open};
use crate::{ObjectMode, Volume, VolumeOptions};

/// Two packs of which little is alive; the dead has been reaped.
async fn sparse(volume: &MaintainedVolume) -> [BlockId; 2] {
    let one = pack(volume, &THREE).await;
    let two = pack(volume, &[("d", 300_000), ("e", 66_000), ("f", 1_000)]).await;
    delete(volume, b"c").await;
    delete(volume, b"d").await;
    volume.upkeep.reap_now().await.unwrap();
    [one, two]
}

const LEFT: [(&str, usize); 4] = [("a", 1_000), ("b", 2_000), ("e", 66_000), ("f", 1_000)];

async fn assert_all_there(volume: &Volume) {
    for (name, length) in LEFT {
        let found = read(volume, name.as_bytes()).await.unwrap();
        assert!(found == bytes_of(name, length), "{name} is another");
    }
}

#[tokio::test(start_paused = true)]
async fn live_members_of_sparse_packs_move_to_one_pack() {
    let (store, blocks, volume) = world().await;
    let old = sparse(&volume).await;
    let before = lookup(&volume, b"e").await.unwrap();
    let done = volume.upkeep.repack_now().await.unwrap();
    assert_eq!(done, Moves { sources: 2, bytes: 70_000, skipped: 0, refused: 0 });
    assert_all_there(&volume).await;
    assert_eq!(findings(&store, &blocks).await, [], "before the old shares are reaped");
    assert_eq!(volume.upkeep.repack_now().await.unwrap(), Moves::default(), "not twice");
    volume.upkeep.reap_now().await.unwrap();
    assert_eq!(count_blocks(&blocks).await, 1);
    assert!(!exists(&blocks, old[0]).await && !exists(&blocks, old[1]).await);
    let [(new, live)] = counters(&*store).await.into_iter().collect::<Vec<_>>()[..] else {
        panic!("one pack is left")
    };
    assert!(new.is_pack() && live == 70_000);
    assert_eq!(records(&*store, space::SHARE).await, 4);
    assert_eq!(records(&*store, space::ORPHAN).await, 0);
    assert_all_there(&volume).await;
    assert_eq!(findings(&store, &blocks).await, []);
    // Nothing else of the file has changed.
    let after = lookup(&volume, b"e").await.unwrap();
    assert_eq!((after.ino, after.inode.attributes), (before.ino, before.inode.attributes));
    let (mut was, mut is) =
        (before.inode.file().unwrap().clone(), after.inode.file().unwrap().clone());
    assert_ne!(was.content, is.content);
    (was.content, is.content) = (Content::Pages(Vec::new()), Content::Pages(Vec::new()));
    assert_eq!(was, is);
    let meters = volume.upkeep.meters();
    assert_eq!((meters.packs_rewritten.get(), meters.bytes_repacked.get()), (2, 70_000));
}

#[tokio::test(start_paused = true)]
async fn the_reaper_starts_the_rewriter() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let volume = MaintainedVolume::open(VolumeOptions::default(), store.clone(), blocks.clone())
        .await
        .unwrap();
    make_bucket(&volume).await;
    let old = pack(&volume, &THREE).await;
    tokio::time::sleep(REPACK_DELAY).await;
    delete(&volume, b"c").await;
    tokio::time::sleep(REPACK_DELAY * 2).await;
    assert_eq!(volume.upkeep.meters().packs_rewritten.get(), 1);
    assert!(!exists(&blocks, old).await);
    assert_eq!(count_blocks(&blocks).await, 1);
    assert_eq!(read(&volume, b"b").await.unwrap(), bytes_of("b", 2_000));
    volume.close().await;
    assert_eq!(findings(&store, &blocks).await, []);
}

#[tokio::test(start_paused = true)]
async fn sparse_packs_of_earlier_sessions_are_found() {
    let (store, blocks, volume) = world().await;
    let old = sparse(&volume).await;
    volume.close().await;
    drop(volume);
    let volume = MaintainedVolume::open(VolumeOptions::default(), store.clone(), blocks.clone())
        .await
        .unwrap();
    tokio::time::sleep(upkeep::SURVEY_DELAY + REPACK_DELAY).await;
    assert_eq!(volume.upkeep.meters().packs_rewritten.get(), 2);
    assert!(!exists(&blocks, old[0]).await && !exists(&blocks, old[1]).await);
    assert_all_there(&volume).await;
    volume.close().await;
    assert_eq!(findings(&store, &blocks).await, []);
}

#[tokio::test(start_paused = true)]
async fn a_reader_gets_the_bytes_of_its_beginning_to_its_end() {
    let (store, blocks, volume) = world().await;
    let old = sparse(&volume).await;
    let object = volume.stat("b", b"e").await.unwrap();
    volume.upkeep.repack_now().await.unwrap();
    let reaping = tokio::time::timeout(Duration::from_mins(1), volume.upkeep.reap_now()).await;
    assert!(reaping.is_err(), "the reader holds the old place");
    assert!(exists(&blocks, old[1]).await);
    let pieces: Vec<bytes::Bytes> =
        volume.read(&object, 0..object.size()).try_collect().await.unwrap();
    assert!(pieces.concat() == bytes_of("e", 66_000));
    drop(object);
    volume.upkeep.reap_now().await.unwrap();
    assert!(!exists(&blocks, old[1]).await);
    assert_eq!(findings(&store, &blocks).await, []);
}

#[tokio::test(start_paused = true)]
async fn a_sweep_spares_rewritten_packs_with_readers() {
    let (store, blocks, volume) = world().await;
    let old = sparse(&volume).await;
    volume.close().await;
    drop(volume);
    let heir = open(store.clone(), blocks.clone()).await;
    let object = heir.stat("b", b"e").await.unwrap();
    heir.upkeep.repack_now().await.unwrap();
    let swept = heir.upkeep.sweep(SweepOptions::default()).await.unwrap();
    assert_eq!((swept.listed, swept.unreferenced), (2, 0), "the old packs are of an ended session");
    let pieces: Vec<bytes::Bytes> =
        heir.read(&object, 0..object.size()).try_collect().await.unwrap();
    assert!(pieces.concat() == bytes_of("e", 66_000));
    drop(object);
    heir.upkeep.reap_now().await.unwrap();
    assert!(!exists(&blocks, old[0]).await && !exists(&blocks, old[1]).await);
    assert_eq!(findings(&store, &blocks).await, []);
}

#[tokio::test(start_paused = true)]
async fn copies_of_one_member_are_rewritten_once() {
    let (store, blocks, volume) = world().await;
    pack(&volume, &[("a", 1_000), ("b", 2_000), ("c", 90_000)]).await;
    copy(&volume, b"b", b"twin").await;
    delete(&volume, b"c").await;
    volume.upkeep.reap_now().await.unwrap();
    let done = volume.upkeep.repack_now().await.unwrap();
    assert_eq!((done.sources, done.bytes), (1, 5_000));
    volume.upkeep.reap_now().await.unwrap();
    let session = blocks.sessions().await.unwrap()[0];
    let page = blocks.list(session, None).await.unwrap();
    assert_eq!(page.blocks[0].1, block::sealed::sealed_bytes(3_000), "the copy's bytes lie once");
    assert_eq!(read(&volume, b"twin").await.unwrap(), bytes_of("b", 2_000));
    assert_eq!(findings(&store, &blocks).await, []);
    delete(&volume, b"b").await;
    delete(&volume, b"a").await;
    volume.upkeep.reap_now().await.unwrap();
    assert_eq!(read(&volume, b"twin").await.unwrap(), bytes_of("b", 2_000));
}

#[tokio::test(start_paused = true)]
async fn owners_that_cannot_be_moved_keep_their_pack() {
    let (store, blocks, volume) = world().await;
    let old = pack(&volume, &[("a", 1_000), ("b", 2_000), ("c", 90_000)]).await;
    let id = upload(&volume, b"big").await;
    let source = volume.stat("b", b"b").await.unwrap();
    volume
        .copy_part("b", b"big", id, 1, &ObjectMode::default(), &source, 0..2_000, None)
        .await
        .unwrap();
    drop(source);
    delete(&volume, b"c").await;
    volume.upkeep.reap_now().await.unwrap();
    let done = volume.upkeep.repack_now().await.unwrap();
    assert_eq!(done, Moves { skipped: 1, ..Moves::default() });
    assert!(exists(&blocks, old).await);
    volume.abort("b", b"big", id).await.unwrap();
    volume.upkeep.reap_now().await.unwrap();
    assert_eq!(volume.upkeep.repack_now().await.unwrap().sources, 1, "nothing holds it any more");
    volume.upkeep.reap_now().await.unwrap();
    assert!(!exists(&blocks, old).await);
    assert_eq!(findings(&store, &blocks).await, []);
}

#[tokio::test(start_paused = true)]
async fn a_file_in_pages_keeps_its_pack() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let options = VolumeOptions { block_bytes: 8_192, ..Default::default() };
    let volume =
        MaintainedVolume::open_without_tasks(options, store.clone(), blocks.clone()).await.unwrap();
    make_bucket(&volume).await;
    pack(&volume, &THREE).await;
    complete_with_copy(&volume, b"big", b"b").await;
    delete(&volume, b"c").await;
    volume.upkeep.reap_now().await.unwrap();
    let done = volume.upkeep.repack_now().await.unwrap();
    assert_eq!(done, Moves { skipped: 1, ..Moves::default() });
    assert_eq!(findings(&store, &blocks).await, []);
}

#[tokio::test(start_paused = true)]
async fn a_member_changed_during_a_rewrite_moves_in_a_later_one() {
    let (store, blocks, volume) = world().await;
    sparse(&volume).await;
    // The change is under way when the rewriter reads the owner's record, and lands before its
    // swap.
    let tags = vec![("team".to_owned(), "a".to_owned())];
    let mut again = BTreeSet::new();
    let (changed, round) =
        futures::join!(volume.set_tags("b", b"e", tags), volume.upkeep.repack_some(&mut again));
    changed.unwrap();
    let done = round.unwrap().unwrap().done;
    assert_eq!((done.refused, done.bytes), (1, 4_000), "the change came between");
    assert_eq!(again.len(), 2, "its pack, and the new one, which is sparse from the beginning");
    assert_all_there(&volume).await;
    volume.upkeep.reap_now().await.unwrap();
    while volume.upkeep.repack_now().await.unwrap().sources > 0 {
        volume.upkeep.reap_now().await.unwrap();
    }
    assert_all_there(&volume).await;
    let tagged = lookup(&volume, b"e").await.unwrap().inode;
    assert_eq!(tagged.file().unwrap().object.tags.len(), 1);
    assert_eq!(findings(&store, &blocks).await, []);
    assert_eq!(counters(&*store).await.values().sum::<i64>(), 70_000);
}

#[tokio::test(start_paused = true)]
async fn two_concurrent_rewriters_keep_the_content() {
    let (store, blocks, volume) = world().await;
    let other = open(store.clone(), blocks.clone()).await;
    let old = sparse(&volume).await;
    let (one, two) = futures::join!(volume.upkeep.repack_now(), other.upkeep.repack_now());
    let (one, two) = (one.unwrap(), two.unwrap());
    assert!(one.refused + two.refused > 0, "they met: {one:?} {two:?}");
    assert_eq!(one.bytes + two.bytes, 70_000, "each owner moved once");
    assert_all_there(&volume).await;
    assert_all_there(&other).await;
    let reaped = futures::join!(volume.upkeep.reap_now(), other.upkeep.reap_now());
    reaped.0.unwrap();
    reaped.1.unwrap();
    volume.upkeep.reap_now().await.unwrap();
    assert!(!exists(&blocks, old[0]).await && !exists(&blocks, old[1]).await);
    assert_all_there(&other).await;
    assert_eq!(findings(&store, &blocks).await, []);
}

#[tokio::test(start_paused = true)]
async fn a_kill_between_block_put_and_swap_leaves_only_blocks_that_are_swept() {
    for (fault, moved) in [(Fault::Stuck, false), (Fault::Hang, true)] {
        let (store, blocks, volume) = world().await;
        let old = sparse(&volume).await;
        store.inject(Some(space::INODE), fault);
        let repacking = tokio::time::timeout(Duration::from_secs(5), volume.upkeep.repack_now());
        assert!(repacking.await.is_err());
        assert_eq!(store.fired(), 1);
        assert_eq!(count_blocks(&blocks).await, 3, "the new pack is there");
        drop(volume);
        let heir = open(store.clone(), blocks.clone()).await;
        tokio::time::sleep(SESSION_SILENCE * 2).await;
        let collected = heir.upkeep.gc(SweepOptions::default()).await.unwrap();
        assert_eq!(collected.swept.deleted, u64::from(!moved), "{fault:?}");
        assert_all_there(&heir).await;
        assert_eq!(exists(&blocks, old[0]).await, !moved, "{fault:?}");
        heir.upkeep.repack_now().await.unwrap();
        heir.upkeep.reap_now().await.unwrap();
        assert_eq!(count_blocks(&blocks).await, 1);
        assert_all_there(&heir).await;
        assert_eq!(findings(&store, &blocks).await, []);
    }
}

#[tokio::test(start_paused = true)]
async fn a_swap_whose_answer_was_lost_is_done_once() {
    for fault in [Fault::LostAnswer, Fault::LostRequest, Fault::Unavailable, Fault::Delayed] {
        let (store, blocks, volume) = world().await;
        sparse(&volume).await;
        store.inject(Some(space::INODE), fault);
        // It may have to give up; then it comes again.
        let first = volume.upkeep.repack_now().await;
        assert_eq!(store.fired(), 1);
        store.deliver().await;
        volume.upkeep.repack_now().await.unwrap();
        assert_all_there(&volume).await;
        volume.upkeep.reap_now().await.unwrap();
        assert_eq!(counters(&*store).await.values().sum::<i64>(), 70_000, "{fault:?} {first:?}");
        assert_eq!(findings(&store, &blocks).await, [], "{fault:?}");
        volume.close().await;
        assert_eq!(count_blocks(&blocks).await, 1, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_damaged_pack_is_not_rewritten() {
    let (store, blocks, volume) = world().await;
    let old = sparse(&volume).await;
    blocks.delete(old[0]).await.unwrap();
    let mut sealer = Sealer::new(old[0], 73_000);
    sealer.push_copy(&vec![0; 73_000]);
    blocks.put(&sealer.finish()).await.unwrap();
    let done = volume.upkeep.repack_now().await.unwrap();
    assert_eq!((done.sources, done.skipped), (1, 1));
    volume.upkeep.reap_now().await.unwrap();
    assert!(exists(&blocks, old[0]).await, "nothing vouches for a copy of it");
    assert!(!exists(&blocks, old[1]).await);
    assert_eq!(read(&volume, b"e").await.unwrap(), bytes_of("e", 66_000));
    assert_eq!(findings(&store, &blocks).await, []);
}

#[tokio::test(start_paused = true)]
async fn a_new_pack_without_members_is_deleted() {
    let (store, blocks, volume) = world().await;
    let laid = lay(&volume, &[("a", 1_000), ("c", 90_000)]).await;
    publish_member(&volume, &laid, "a").await;
    drop(laid);
    volume.upkeep.note_sparse_packs(counters(&*store).await.into_keys());
    let tags = vec![("team".to_owned(), "a".to_owned())];
    let mut again = BTreeSet::new();
    let (changed, round) =
        futures::join!(volume.set_tags("b", b"a", tags), volume.upkeep.repack_some(&mut again));
    changed.unwrap();
    let done = round.unwrap().unwrap().done;
    assert_eq!((done.sources, done.refused), (0, 1));
    assert_eq!(count_blocks(&blocks).await, 1, "the old one");
    assert_eq!(again.len(), 1);
    assert_eq!(volume.upkeep.repack_now().await.unwrap().sources, 1);
    volume.upkeep.reap_now().await.unwrap();
    assert_eq!(read(&volume, b"a").await.unwrap(), bytes_of("a", 1_000));
    assert_eq!(findings(&store, &blocks).await, []);
}

#[tokio::test(start_paused = true)]
async fn the_rewriter_ignores_ordinary_blocks() {
    let (store, _, volume) = world().await;
    put(&volume, b"alone", 30_000).await;
    copy(&volume, b"alone", b"twin").await;
    assert_eq!(volume.upkeep.repack_now().await.unwrap(), Moves::default());
    assert_eq!(counters(&*store).await, BTreeMap::new());
}

#[tokio::test(start_paused = true)]
async fn fsck_beside_changing_packs_reports_no_false_finding() {
    let (store, blocks, volume) = world().await;
    let busy = async {
        for round in 0..300_usize {
            // Each pack loses most of itself with the next one, and the rest much later.
            let names = [0, 1, 2].map(|n| format!("m{}", (round * 2 + n) % 47));
            let [one, two, three] = names.each_ref().map(String::as_str);
            pack(&volume, &[("hot", 40_000), (one, 900), (two, 7_000), (three, 3_000)]).await;
            copy(&volume, two.as_bytes(), b"copy").await;
            if round % 3 == 0 {
                delete(&volume, names[0].as_bytes()).await;
            }
            match round % 12 {
                0 => drop(volume.upkeep.reap_now().await.unwrap()),
                6 => drop(volume.upkeep.repack_now().await.unwrap()),
                _ => {}
            }
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    };
    let mut checks = 0;
    let mut busy = std::pin::pin!(busy);
    loop {
        tokio::select! {
            () = &mut busy => break,
            found = findings(&store, &blocks) => assert_eq!(found, []),
        }
        checks += 1;
    }
    assert!(checks >= 3, "packs came and went during {checks} checks");
    assert!(volume.upkeep.meters().packs_rewritten.get() >= 10);
    volume.upkeep.reap_now().await.unwrap();
    volume.close().await;
    assert_eq!(findings(&store, &blocks).await, []);
}
