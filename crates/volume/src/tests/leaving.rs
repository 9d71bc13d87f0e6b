//! Clients that leave in the middle of something.

use std::sync::Arc;
use std::time::Duration;

use block::MemoryBlocks;
use faulty::{Fault, Faulty};
use namespace::WriteCondition;
use record::Tag;
use record::key::space;

use super::reaping::{delete, finished, owner, put, records, upload};
use super::{MaintainedVolume, count_blocks, make_bucket, publish};
use crate::{CompletePart, CompleteUpload, CopyChanges, ObjectMode, VolumeError, VolumeOptions};

#[tokio::test(start_paused = true)]
async fn a_copy_whose_client_disconnects_deletes_its_staged_records() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let options = VolumeOptions { block_bytes: 256, ..VolumeOptions::default() };
    let volume =
        MaintainedVolume::open_without_tasks(options, store.clone(), blocks.clone()).await.unwrap();
    make_bucket(&volume).await;
    put(&volume, b"source", 150_000).await;
    publish(&volume, b"there", 5).await.unwrap();
    let source = volume.stat("b", b"source").await.unwrap();
    let by = owner();
    let absent = WriteCondition::IfAbsent;
    let mut copying =
        Box::pin(volume.copy(&source, "b", b"there", CopyChanges::default(), absent, &by));
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
    volume.upkeep.reap_now().await.unwrap();
    assert_eq!(count_blocks(&blocks).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_complete_whose_client_disconnects_finishes() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let options = VolumeOptions { block_bytes: 256, ..VolumeOptions::default() };
    let volume =
        MaintainedVolume::open_without_tasks(options, store.clone(), blocks.clone()).await.unwrap();
    make_bucket(&volume).await;
    put(&volume, b"source", 150_000).await;
    let source = volume.stat("b", b"source").await.unwrap();
    let id = upload(&volume, b"whole").await;
    // The copy shares the blocks of its source, and each share is a record to stage.
    let copied = volume
        .copy_part("b", b"whole", id, 1, &ObjectMode::default(), &source, 0..150_000, None)
        .await
        .unwrap();
    let parts = [CompletePart { number: 1, tag: copied.part.tag.tag(), sums: Vec::new() }];
    let absent = WriteCondition::IfAbsent;
    let whole = || CompleteUpload { parts: &parts, object_size: None, condition: absent.clone() };
    let finish = |_: &_, _: &[_]| Ok::<_, VolumeError>(finished(Tag::Multipart([3; 16], 1)));
    store.inject(Some(space::STAGED), Fault::Hang);
    let completing = volume.complete("b", b"whole", id, whole(), finish);
    let left = tokio::time::timeout(Duration::from_secs(1), completing).await;
    assert!(left.is_err() && store.fired() == 1, "it was staging");
    assert_eq!(records(&*store, space::STAGED).await, 1);
    store.release();
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(records(&*store, space::STAGED).await, 0, "the staged records are published");
    assert_eq!(volume.stat("b", b"whole").await.unwrap().size(), 150_000);
    // A repeated request gets the result, although the name is bound.
    let again = volume.complete("b", b"whole", id, whole(), finish).await.unwrap();
    assert_eq!(again.tag, Tag::Multipart([3; 16], 1));
}
