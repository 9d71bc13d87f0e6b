//! One damaged record, and everything else that goes on.

use std::sync::Arc;
use std::time::Duration;

use block::MemoryBlocks;
use bytes::Bytes;
use faulty::{Faulty, get};
use record::Ino;
use record::key::{self, space};
use session::scan::ino_of;
use store::{Key, Plan, Write};

use super::reaping::{copy, delete, put, records};
use super::{MaintainedVolume, count_blocks, make_bucket, open, publish};
use crate::VolumeOptions;

/// Flips a bit of a record, and waits until the feed has reported that.
pub(super) async fn damage(store: &Faulty, key: Key) {
    let mut bytes = get(store, &key).await.unwrap().to_vec();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    let put = Write::Put(key, Bytes::from(bytes));
    store.commit_now(&[Plan { guards: Vec::new(), writes: vec![put] }]).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
}

/// The orphans, in order.
async fn orphans(store: &Faulty) -> Vec<Ino> {
    use store::MetaStore;
    let page = store.walk(space::ORPHAN, None, 1_000).await.unwrap();
    page.records.iter().map(|(key, _)| ino_of(key).unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_removed_file_is_kept_and_others_are_reaped() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let volume = open(store.clone(), blocks.clone()).await;
    make_bucket(&volume).await;
    for name in [&b"a"[..], b"b", b"c"] {
        publish(&volume, name, 100_000).await.unwrap();
    }
    for name in [&b"a"[..], b"b", b"c"] {
        delete(&volume, name).await;
    }
    let dead = orphans(&store).await;
    assert_eq!(dead.len(), 3);
    damage(&store, key::inode(dead[1])).await;
    let reaped = volume.upkeep.reap_now().await.unwrap();
    assert_eq!((reaped.orphans, reaped.blocks), (2, 4));
    assert_eq!(orphans(&store).await, [dead[1]], "it is kept");
    assert_eq!(count_blocks(&blocks).await, 2, "and so are its blocks");
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_orphan_is_kept_and_others_are_reaped() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let volume = open(store.clone(), blocks.clone()).await;
    make_bucket(&volume).await;
    for name in [&b"a"[..], b"b"] {
        publish(&volume, name, 100_000).await.unwrap();
        delete(&volume, name).await;
    }
    let dead = orphans(&store).await;
    damage(&store, key::orphan(dead[0])).await;
    let reaped = volume.upkeep.reap_now().await.unwrap();
    assert_eq!((reaped.orphans, reaped.blocks), (1, 2));
    assert_eq!(orphans(&store).await, [dead[0]]);
    assert_eq!(count_blocks(&blocks).await, 2);
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_map_page_stops_only_its_own_file() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let options = VolumeOptions { block_bytes: 256, ..VolumeOptions::default() };
    let volume =
        MaintainedVolume::open_without_tasks(options, store.clone(), blocks.clone()).await.unwrap();
    make_bucket(&volume).await;
    put(&volume, b"large", 150_000).await;
    copy(&volume, b"large", b"copy").await;
    put(&volume, b"small", 1_000).await;
    for name in [&b"large"[..], b"small"] {
        delete(&volume, name).await;
    }
    let dead = orphans(&store).await;
    damage(&store, key::map_page(dead[0], 0)).await;
    volume.upkeep.reap_now().await.unwrap();
    assert_eq!(orphans(&store).await, [dead[0]]);
    assert_eq!(count_blocks(&blocks).await, 586, "those of the small one are gone");
    assert_eq!(records(&*store, space::PENDING).await, 0);
}
