//! Ends of uploads. Completed uploads that still answer delay no other work.

use std::sync::Arc;
use std::time::Duration;

use block::MemoryBlocks;
use faulty::{Fault, Faulty, get};
use namespace::{WriteCondition, end_upload};
use record::key::{self, space};
use record::{Ino, ObjectHeaders, Orphan, Tag, Timestamp, Upload, UploadState};
use session::{Priority, SessionOptions};
use store::{Plan, Write};
use tokio::time::Instant;
use upkeep::{NoProgress, UPLOAD_RESULT_KEPT, fsck};

use super::reaping::{bytes_of, delete, finished, part, put, read, records, upload};
use super::{MaintainedVolume, count_blocks, lookup, make_bucket, open, publish};
use crate::{
    CompletePart, CompleteUpload, ObjectMode, SetClock, UploadId, UploadsEntry, UploadsQuery,
    Volume, VolumeError, VolumeOptions,
};

/// More orphans than one pass takes.
const MANY: usize = 30_100;

/// Time after which the feed has reported the writes of other gateways.
const FEED_LATENCY: Duration = Duration::from_secs(1);

/// Duration of each metadata read.
const READ: Duration = Duration::from_millis(20);

/// Returns `count` unused inode numbers.
async fn numbers(volume: &Volume, count: usize) -> Vec<Ino> {
    let mut inos = Vec::new();
    while inos.len() < count {
        inos.extend(
            volume.session.allocate_inodes((count - inos.len()).min(10_000)).await.unwrap(),
        );
    }
    inos
}

/// Writes `count` orphan records of files that do not exist.
async fn stray_orphans(volume: &Volume, store: &Faulty, bucket: Ino, count: usize) {
    for ino in numbers(volume, count).await {
        let at = key::orphan(ino);
        let put = Write::Put(at.clone(), Orphan::File { bucket }.encode(&at));
        store.commit_now(&[Plan { guards: Vec::new(), writes: vec![put] }]).await;
    }
    tokio::time::sleep(FEED_LATENCY).await;
}

/// Writes `count` uploads that were completed now, with the orphan records that an earlier release
/// kept until they expired.
async fn completed(volume: &Volume, store: &Faulty, bucket: Ino, count: usize) {
    for (n, ino) in numbers(volume, count).await.into_iter().enumerate() {
        let state = UploadState::Done {
            ino: Ino(7),
            tag: Tag::Multipart([3; 16], 1),
            sums: Vec::new(),
            used: Vec::new(),
            at: volume.now(),
        };
        let upload = Upload {
            ino,
            begun: Timestamp::default(),
            uid: 0,
            gid: 0,
            umask: 0o022,
            initiator: String::new(),
            account: record::AccountId::MAIN,
            writer: None,
            checksum: None,
            object: ObjectHeaders::default(),
            asked: Vec::new(),
            encryption: None,
            state,
        };
        let at = key::upload(bucket, format!("u{n}").as_bytes(), [4; 16]);
        let writes = end_upload(&at, &upload);
        store.commit_now(&[Plan { guards: Vec::new(), writes }]).await;
    }
    tokio::time::sleep(FEED_LATENCY).await;
}

#[tokio::test(start_paused = true)]
async fn many_completed_uploads_do_not_stop_the_reaper() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let volume = open(store.clone(), blocks.clone()).await;
    let bucket = make_bucket(&volume).await;
    completed(&volume, &store, bucket, MANY).await;
    publish(&volume, b"gone", 100_000).await.unwrap();
    delete(&volume, b"gone").await;
    assert_eq!(records(&*store, space::ORPHAN).await, MANY + 1);
    volume.upkeep.reap_now().await.unwrap();
    assert_eq!(count_blocks(&blocks).await, 0, "files removed behind them are gone");
    assert_eq!(records(&*store, space::UPLOAD).await, MANY, "and they still answer");
}

#[tokio::test(start_paused = true)]
async fn a_completed_upload_does_not_slow_the_reaper() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let volume = open(store.clone(), blocks.clone()).await;
    let bucket = make_bucket(&volume).await;
    completed(&volume, &store, bucket, 1).await;
    volume.upkeep.reap_now().await.unwrap();
    publish(&volume, b"stays", 100).await.unwrap();
    stray_orphans(&volume, &store, bucket, MANY).await;
    store.reading.lock().unwrap().takes = READ;
    let asked = Arc::clone(&volume);
    let asking: tokio::task::JoinHandle<()> =
        volume.session.tasks().clone().spawn("ask", async move {
            loop {
                lookup(&asked, b"stays").await.unwrap();
                tokio::time::sleep(Duration::from_millis(3)).await;
            }
        });
    let began = Instant::now();
    let reaped = volume.upkeep.reap_once(Priority::Background).await.unwrap().unwrap();
    let took = began.elapsed();
    assert!(!asking.is_finished(), "it was served all the time");
    asking.abort();
    assert!(reaped.orphans >= 29_999, "{reaped:?}");
    assert!(took < Duration::from_mins(1), "it took {took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_bucket_ends_after_its_last_orphan() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let volume = open(store.clone(), blocks.clone()).await;
    let bucket = make_bucket(&volume).await;
    // An upload of another client, which still answers.
    completed(&volume, &store, Ino(99), 1).await;
    volume.upkeep.reap_now().await.unwrap();
    stray_orphans(&volume, &store, Ino(99), MANY).await;
    publish(&volume, b"last", 100_000).await.unwrap();
    delete(&volume, b"last").await;
    volume.delete_bucket("b").await.unwrap();
    volume.upkeep.reap_now().await.unwrap();
    assert_eq!(count_blocks(&blocks).await, 0);
    assert_eq!(get(&*store, &key::orphan(bucket)).await, None, "it has ended");
    assert_eq!(bytes_of(&*store, bucket).await, 0, "and nothing was taken from it after that");
}

/// Completes an upload of one part. Returns the entity tag of the object.
async fn complete(volume: &Arc<Volume>, id: UploadId) -> Result<Tag, VolumeError> {
    let parts = [CompletePart { number: 1, tag: Tag::Md5([9; 16]), sums: Vec::new() }];
    let wanted =
        CompleteUpload { parts: &parts, object_size: None, condition: WriteCondition::None };
    let finish = |_: &_, _: &[_]| Ok::<_, VolumeError>(finished(Tag::Multipart([3; 16], 1)));
    let completed = volume.complete("b", b"big", id, wanted, finish).await?;
    Ok(completed.tag)
}

#[tokio::test(start_paused = true)]
async fn a_completed_upload_answers_until_it_expires() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let clock = Arc::new(SetClock::new(Timestamp(1_000_000)));
    let options = VolumeOptions {
        session: SessionOptions { clock: clock.clone(), ..SessionOptions::default() },
        ..Default::default()
    };
    let volume =
        MaintainedVolume::open_without_tasks(options, store.clone(), blocks.clone()).await.unwrap();
    make_bucket(&volume).await;
    let id = upload(&volume, b"big").await;
    part(&volume, b"big", id, 1).await;
    complete(&volume, id).await.unwrap();
    volume.upkeep.reap_now().await.unwrap();
    assert_eq!(records(&*store, space::ORPHAN).await, 0, "it awaits nothing but its time");
    assert_eq!(records(&*store, space::EXPIRY).await, 1);
    let report = fsck(store.clone(), blocks.clone(), &NoProgress).await.unwrap();
    assert_eq!(report.findings, []);
    let kept = i64::try_from(UPLOAD_RESULT_KEPT.as_nanos()).unwrap();
    for now in [1_000_000 + kept, 0] {
        // A clock that goes back changes nothing.
        clock.set(Timestamp(now));
        assert_eq!(volume.upkeep.reap_now().await.unwrap().orphans, 0);
        assert_eq!(complete(&volume, id).await.unwrap(), Tag::Multipart([3; 16], 1));
    }
    clock.set(Timestamp(1_000_001 + kept));
    assert_eq!(volume.upkeep.reap_now().await.unwrap().orphans, 1);
    complete(&volume, id).await.unwrap_err();
    for space in [space::EXPIRY, space::UPLOAD] {
        assert_eq!(records(&*store, space).await, 0, "{space:?}");
    }
    assert_eq!(read(&volume, b"big").await.unwrap(), vec![5; 100_000]);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_bucket_removes_records_of_completed_uploads() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let volume = open(store.clone(), blocks.clone()).await;
    make_bucket(&volume).await;
    let id = upload(&volume, b"big").await;
    part(&volume, b"big", id, 1).await;
    complete(&volume, id).await.unwrap();
    volume.upkeep.reap_now().await.unwrap();
    assert_eq!(records(&*store, space::EXPIRY).await, 1);
    delete(&volume, b"big").await;
    volume.delete_bucket("b").await.unwrap();
    volume.upkeep.reap_now().await.unwrap();
    for space in [space::EXPIRY, space::UPLOAD, space::ORPHAN, space::BUCKET] {
        assert_eq!(records(&*store, space).await, 0, "{space:?}");
    }
    assert_eq!(count_blocks(&blocks).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_listing_with_a_delimiter_skips_ended_uploads() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let volume = open(store.clone(), blocks).await;
    let bucket = make_bucket(&volume).await;
    upload(&volume, b"a/1").await;
    completed(&volume, &store, bucket, 2_100).await;
    upload(&volume, b"v/1").await;
    upload(&volume, b"v/2").await;
    // Gives endless background work a duration on the paused clock.
    store.reading.lock().unwrap().takes = READ;
    let query = UploadsQuery {
        prefix: Vec::new(),
        delimiter: Some(b"/".to_vec()),
        key_after: None,
        id_after: None,
        limit: 1_000,
    };
    let listing = tokio::time::timeout(READ * 50, volume.uploads("b", query));
    let page = listing.await.expect("it ends").unwrap();
    let prefixes: Vec<&[u8]> = page
        .entries
        .iter()
        .map(|entry| match entry {
            UploadsEntry::Prefix(prefix) => &prefix[..],
            UploadsEntry::Upload { key, .. } => panic!("{key:?} stands for itself"),
        })
        .collect();
    assert_eq!((prefixes, page.truncated), (vec![&b"a/"[..], b"v/"], false));
}

/// Two requests complete the same upload. The second gets the result of the first, at any point of
/// its progress.
#[tokio::test(start_paused = true)]
async fn a_concurrent_complete_returns_the_first_result() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let options = || VolumeOptions { block_bytes: 256, ..VolumeOptions::default() };
    let first = MaintainedVolume::open_without_tasks(options(), store.clone(), blocks.clone())
        .await
        .unwrap();
    make_bucket(&first).await;
    let second = MaintainedVolume::open_without_tasks(options(), store.clone(), blocks.clone())
        .await
        .unwrap();
    put(&first, b"source", 150_000).await;
    let source = first.stat("b", b"source").await.unwrap();
    let id = upload(&first, b"whole").await;
    // The copy shares the blocks of its source, and each share is a record to stage.
    let copied = first
        .copy_part("b", b"whole", id, 1, &ObjectMode::default(), &source, 0..150_000, None)
        .await
        .unwrap();
    tokio::time::sleep(FEED_LATENCY).await;
    let parts = [CompletePart { number: 1, tag: copied.part.tag.tag(), sums: Vec::new() }];
    let none = WriteCondition::None;
    let whole = || CompleteUpload { parts: &parts, object_size: None, condition: none.clone() };
    let finish = |_: &_, _: &[_]| Ok::<_, VolumeError>(finished(Tag::Multipart([3; 16], 1)));
    store.inject(Some(space::STAGED), Fault::Hang);
    let held_up = first.complete("b", b"whole", id, whole(), finish);
    let overtakes = async {
        while store.fired() == 0 {
            tokio::time::sleep(READ).await;
        }
        let completed = second.complete("b", b"whole", id, whole(), finish).await;
        store.release();
        completed
    };
    let (held_up, overtakes) = futures::join!(held_up, overtakes);
    assert_eq!(held_up.unwrap().tag, overtakes.unwrap().tag);
    assert_eq!(records(&*store, space::STAGED).await, 0, "the staged records are taken back");
    first.close().await;
    assert_eq!(fsck(store, blocks, &NoProgress).await.unwrap().findings, []);
}

#[tokio::test(start_paused = true)]
async fn a_part_of_very_many_blocks_is_copied() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let options = VolumeOptions { block_bytes: 256, ..VolumeOptions::default() };
    let volume =
        MaintainedVolume::open_without_tasks(options, store.clone(), blocks).await.unwrap();
    make_bucket(&volume).await;
    put(&volume, b"source", 700_000).await;
    let source = volume.stat("b", b"source").await.unwrap();
    let id = upload(&volume, b"whole").await;
    let copied = volume
        .copy_part("b", b"whole", id, 1, &ObjectMode::default(), &source, 0..700_000, None)
        .await
        .unwrap();
    assert_eq!(copied.part.slices.len(), 2_735);
}
