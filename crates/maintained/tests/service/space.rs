//! Stored bytes compared with live bytes, while small objects come and go.

use std::collections::BTreeMap;
use std::sync::Arc;

use block::{BlockStore, FolderBlocks};
use bytes::Bytes;
use futures::stream::{self, StreamExt};
use maintained::MaintainedVolume;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use store::MemoryStore;
use upkeep::{LIVE_SHARE_PERCENT, NoProgress, SweepOptions, fsck};
use volume::{Packing, SessionOptions, Volume, VolumeOptions};

use super::{bytes, get, owner, put};

const OBJECTS: usize = 300;
const ROUNDS: usize = 7;
const CLIENTS: usize = 32;

/// Stored bytes for each live one, in percent: what a pack is rewritten at, and one hundredth for
/// headers and checksums of blocks.
const BOUND_PERCENT: u64 = 100 * 100 / LIVE_SHARE_PERCENT + 1;

/// Objects as their clients know them.
type Known = BTreeMap<usize, Bytes>;

struct World {
    volume: MaintainedVolume,
    store: Arc<MemoryStore>,
    blocks: Arc<FolderBlocks>,
    known: Known,
}

fn options() -> VolumeOptions {
    let packing = Packing { pack_bytes: 1 << 20, ..Packing::default() };
    VolumeOptions {
        session: SessionOptions { sole: true, ..SessionOptions::default() },
        packing,
        ..VolumeOptions::default()
    }
}

impl World {
    async fn new(folder: &std::path::Path) -> World {
        let store = Arc::new(MemoryStore::new());
        let blocks = Arc::new(FolderBlocks::open(folder).await.unwrap());
        let volume =
            MaintainedVolume::open_without_tasks(options(), None, store.clone(), blocks.clone())
                .await
                .unwrap();
        volume.create_bucket("bkt", &volume::NewBucket::owned_by(&owner())).await.unwrap();
        World { volume, store, blocks, known: Known::new() }
    }

    /// Puts objects, many at a time, so that they share blocks.
    async fn put(&mut self, objects: Vec<(usize, Bytes)>) {
        let puts = objects.iter().map(async |(name, content)| {
            put(&self.volume, &name.to_string(), content).await.unwrap();
        });
        let puts: Vec<_> = puts.collect();
        stream::iter(puts).buffer_unordered(CLIENTS).collect::<Vec<()>>().await;
        self.known.extend(objects);
    }

    async fn delete(&mut self, name: usize) {
        let deleted = self.volume.delete("bkt", vec![(name.to_string().into_bytes(), None)]).await;
        assert!(deleted.unwrap()[0].as_ref().unwrap().existed);
        self.known.remove(&name);
    }

    /// Overwrites or deletes a random half of the objects, and puts back those that were deleted
    /// before.
    async fn churn(&mut self, random: &mut SmallRng) {
        let absent = (0..OBJECTS).filter(|name| !self.known.contains_key(name));
        let mut objects: Vec<usize> = absent.collect();
        for name in self.known.keys().copied().collect::<Vec<_>>() {
            match random.random_range(0..6) {
                0..2 => objects.push(name),
                2 => self.delete(name).await,
                _ => {}
            }
        }
        let fresh = objects.into_iter().map(|name| (name, content(random))).collect();
        self.put(fresh).await;
    }

    /// Bytes of all objects, and of all blocks as they are stored.
    async fn bytes(&self) -> (u64, u64) {
        let alive = self.known.values().map(|content| content.len() as u64).sum();
        let mut stored = 0;
        for session in self.blocks.sessions().await.unwrap() {
            let mut resume = None;
            loop {
                let page = self.blocks.list(session, resume).await.unwrap();
                stored += page.blocks.iter().map(|(_, size)| size).sum::<u64>();
                resume = page.resume;
                if resume.is_none() {
                    break;
                }
            }
        }
        (alive, stored)
    }

    async fn assert_all_there(&self, volume: &Volume) {
        for (name, content) in &self.known {
            assert!(get(volume, &name.to_string()).await == *content, "{name} is another");
        }
    }
}

fn content(random: &mut SmallRng) -> Bytes {
    bytes(random.random_range(5_000..40_000), random.random())
}

/// The most stored bytes for each live one after any round, in percent.
async fn worst(rewriting: bool) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::new(folder.path()).await;
    let mut random = SmallRng::seed_from_u64(7);
    let first = (0..OBJECTS).map(|name| (name, content(&mut random))).collect();
    world.put(first).await;
    let mut worst = 0;
    for round in 0..ROUNDS {
        world.churn(&mut random).await;
        world.volume.upkeep().reap_now().await.unwrap();
        if rewriting {
            world.volume.upkeep().repack_now().await.unwrap();
            world.volume.upkeep().reap_now().await.unwrap();
            world.assert_all_there(&world.volume).await;
        }
        let (alive, stored) = world.bytes().await;
        println!("round {round}: {alive} bytes alive, {stored} stored, rewriting: {rewriting}");
        worst = worst.max(stored * 100 / alive);
    }
    let meters = world.volume.upkeep().meters();
    let (packs, bytes) = (meters.packs_rewritten.get(), meters.bytes_repacked.get());
    assert_eq!(packs > 0, rewriting);
    println!("{packs} packs, {bytes} bytes moved");
    // After the end of the session fsck would find a block without a reference as leaked.
    world.volume.close().await;
    let report = fsck(world.store.clone(), world.blocks.clone(), &NoProgress).await.unwrap();
    assert_eq!(report.findings, []);
    let heir = MaintainedVolume::open_without_tasks(
        options(),
        None,
        world.store.clone(),
        world.blocks.clone(),
    )
    .await
    .unwrap();
    let collected = heir.upkeep().gc(SweepOptions::default()).await.unwrap();
    assert_eq!((collected.swept.unreferenced, collected.reaped.blocks), (0, 0), "nothing leaked");
    world.assert_all_there(&heir).await;
    heir.close().await;
    worst
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stored_bytes_stay_within_twice_the_live_bytes() {
    let worst_without = worst(false).await;
    assert!(worst_without > BOUND_PERCENT * 5 / 4, "{worst_without} % needs no rewriting");
    let worst = worst(true).await;
    assert!(worst <= BOUND_PERCENT, "stored bytes are {worst} % of the live bytes");
}
