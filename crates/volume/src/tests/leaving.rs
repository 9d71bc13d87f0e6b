//! Clients that leave in the middle of something.

use std::sync::Arc;
use std::time::Duration;

use block::MemoryBlocks;
use namespace::WriteCondition;
use record::key::space;

use super::faulty::Faulty;
use super::reaping::{delete, owner, put, records};
use super::{count_blocks, make_bucket, publish};
use crate::{Volume, VolumeOptions};

#[tokio::test(start_paused = true)]
async fn a_copy_whose_client_leaves_takes_back_what_it_staged() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let options = VolumeOptions { collect: false, block_bytes: 256, ..VolumeOptions::default() };
    let volume = Volume::open(options, store.clone(), blocks.clone()).await.unwrap();
    make_bucket(&volume).await;
    put(&volume, b"source", 150_000).await;
    publish(&volume, b"there", 5).await.unwrap();
    let source = volume.stat("b", b"source").await.unwrap();
    let by = owner();
    let absent = WriteCondition::IfAbsent;
    let mut copying = Box::pin(volume.copy(&source, "b", b"there", None, None, absent, &by));
    while records(&*store, space::STAGED).await == 0 {
        let step = tokio::time::timeout(Duration::from_millis(1), &mut copying).await;
        assert!(step.is_err(), "it is still under way");
    }
    drop(copying);
    drop(source);
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(records(&*store, space::STAGED).await, 0, "nothing is left of it");
    assert_eq!(records(&*store, space::MAP).await, 2, "but the pages of the source");
    delete(&volume, b"source").await;
    volume.reap_now().await.unwrap();
    assert_eq!(count_blocks(&blocks).await, 0);
}
