//! A volume and its upkeep together: their start, reports and end.

use std::sync::Arc;
use std::time::Duration;

use block::{BlockStore, MemoryBlocks};
use maintained::MaintainedVolume;
use record::Tag;
use store::MemoryStore;
use tokio::time::sleep;
use upkeep::{COMPACT_DELAY, DELETION_GRACE_RELAXED, REAP_INTERVAL};
use volume::{BodyRun, FileWrite, Resize, VolumeOptions};

use super::{BLOCK_BYTES, bytes, owner, put, volume, volume_of, volume_without_tasks};

/// Writes over most of an object's first block, as a program on a mount does.
async fn overwrite_most(volume: &MaintainedVolume, key: &str) {
    put(volume, key, &bytes(5 * BLOCK_BYTES as usize, 1)).await.unwrap();
    let object = volume.stat("bkt", key.as_bytes()).await.unwrap();
    let length = u64::from(BLOCK_BYTES / 4 * 3);
    let mut writer = volume.block_writer(None, Some(length));
    writer.write(bytes(usize::try_from(length).unwrap(), 2)).await.unwrap();
    let body = writer.finish().await.unwrap();
    let (write, runs) = (FileWrite::new(object.ino, None), [BodyRun { position: 0, length }]);
    let made = (Tag::Md5([9; 16]), Vec::new());
    volume.write_runs(write, body, &runs, Resize::default(), made).await.unwrap();
}

async fn count_blocks(blocks: &MemoryBlocks) -> usize {
    let mut count = 0;
    for session in blocks.sessions().await.unwrap() {
        count += blocks.list(session, None).await.unwrap().blocks.len();
    }
    count
}

async fn delete(volume: &MaintainedVolume, key: &str) {
    volume.delete("bkt", vec![(key.as_bytes().to_vec(), None)]).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_written_file_is_compacted_a_moment_later() {
    let volume = volume().await;
    overwrite_most(&volume, "a").await;
    // Far less than the time until the relocator looks at all files.
    sleep(COMPACT_DELAY * 4).await;
    assert_eq!(volume.upkeep().meters().files_compacted.get(), 1);
    volume.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_volume_without_tasks_is_maintained_on_demand_only() {
    let volume = volume_without_tasks(VolumeOptions::default()).await;
    overwrite_most(&volume, "a").await;
    put(&volume, "b", &bytes(5 * BLOCK_BYTES as usize, 3)).await.unwrap();
    delete(&volume, "b").await;
    sleep(REAP_INTERVAL * 4).await;
    let meters = volume.upkeep().meters();
    assert_eq!((meters.files_compacted.get(), meters.blocks_reaped.get()), (0, 0));
    assert_eq!(volume.upkeep().compact_now().await.unwrap().sources, 1);
    volume.upkeep().reap_now().await.unwrap();
    assert!(meters.blocks_reaped.get() > 5);
    volume.close().await;
}

#[tokio::test(start_paused = true)]
async fn freed_blocks_are_deleted_after_the_given_grace() {
    let (store, blocks) = (Arc::new(MemoryStore::new()), Arc::new(MemoryBlocks::new()));
    let grace = DELETION_GRACE_RELAXED;
    let opening =
        MaintainedVolume::open(VolumeOptions::default(), Some(grace), store, blocks.clone());
    let volume = opening.await.unwrap();
    volume.create_bucket("bkt", &volume::NewBucket::owned_by(&owner())).await.unwrap();
    put(&volume, "a", &bytes(5 * BLOCK_BYTES as usize, 3)).await.unwrap();
    delete(&volume, "a").await;
    sleep(grace / 2).await;
    assert!(count_blocks(&blocks).await > 0, "the grace is not over");
    sleep(grace).await;
    assert_eq!(count_blocks(&blocks).await, 0);
    volume.close().await;
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_session_ends_the_maintenance_tasks() {
    for hands_over in [false, true] {
        let volume = volume_of(VolumeOptions::default()).await;
        let tasks = volume.background_parts().session.tasks().clone();
        sleep(Duration::from_secs(1)).await;
        assert!(tasks.running() >= 7, "{} tasks", tasks.running());
        if hands_over {
            volume.hand_over().await;
        } else {
            volume.close().await;
        }
        assert_eq!(tasks.running(), 0, "handed over: {hands_over}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_volume_ends_its_maintenance_tasks() {
    let volume = volume().await;
    let tasks = volume.background_parts().session.tasks().clone();
    sleep(Duration::from_secs(1)).await;
    drop(volume);
    sleep(REAP_INTERVAL * 2).await;
    assert_eq!(tasks.running(), 0);
}
