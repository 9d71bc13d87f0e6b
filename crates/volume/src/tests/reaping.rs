//! The reaper: deleted files, the time of their deletion, and the files that stay.

use std::sync::Arc;
use std::time::Duration;

use block::MemoryBlocks;
use bytes::Bytes;
use faulty::{Fault, Faulty};
use futures::TryStreamExt;
use namespace::WriteCondition;
use record::key::{self, CounterKind, space};
use record::{ObjectHeaders, PartTag, Sum, Tag};
use session::SessionOptions;
use store::{MetaStore, Page, Read, ReadResult, Space};
use upkeep::UPLOAD_RESULT_KEPT;

use super::{MaintainedVolume, count_blocks, make_bucket, open, publish, staged};
use crate::{
    CompletePart, CompleteUpload, CopyChanges, FileOwner, NewUpload, ObjectDigests, UploadId,
    Volume, VolumeError, VolumeOptions,
};

pub(super) fn owner() -> FileOwner {
    FileOwner {
        access_key: "root".to_owned(),
        account: record::AccountId::MAIN,
        writer: None,
        uid: 0,
        gid: 0,
        umask: 0o022,
    }
}

pub(super) async fn records(store: &dyn MetaStore, space: Space) -> usize {
    let (mut count, mut resume) = (0, None);
    loop {
        let Page { records, resume: next } = store.walk(space, resume, 1_000).await.unwrap();
        count += records.len();
        resume = next;
        if resume.is_none() {
            return count;
        }
    }
}

pub(super) async fn bytes_of(store: &dyn MetaStore, bucket: record::Ino) -> i64 {
    let read = Read::Counter(key::counter(bucket, CounterKind::Bytes));
    match store.read(&[read]).await.unwrap()[..] {
        [ReadResult::Counter(bytes)] => bytes,
        _ => panic!("a counter was asked for"),
    }
}

pub(crate) async fn delete(volume: &Volume, name: &[u8]) {
    let deleted = volume.delete("b", vec![(name.to_vec(), None)]).await.unwrap();
    assert!(deleted[0].as_ref().unwrap().existed);
}

pub(crate) async fn copy(volume: &Arc<Volume>, from: &[u8], to: &[u8]) {
    let source = volume.stat("b", from).await.unwrap();
    let none = WriteCondition::None;
    volume.copy(&source, "b", to, CopyChanges::default(), none, &owner()).await.unwrap();
}

pub(super) async fn read(volume: &Volume, name: &[u8]) -> Result<Vec<u8>, VolumeError> {
    let object = volume.stat("b", name).await?;
    let pieces: Vec<Bytes> = volume.read(&object, 0..object.size()).try_collect().await?;
    Ok(pieces.concat())
}

#[tokio::test(start_paused = true)]
async fn deleted_and_replaced_objects_are_reaped_with_their_blocks() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let volume = open(store.clone(), blocks.clone()).await;
    let bucket = make_bucket(&volume).await;
    publish(&volume, b"d/stays", 70_000).await.unwrap();
    publish(&volume, b"d/replaced", 200_000).await.unwrap();
    publish(&volume, b"d/replaced", 70_000).await.unwrap();
    publish(&volume, b"d/deleted", 200_000).await.unwrap();
    publish(&volume, b"inline", 5).await.unwrap();
    delete(&volume, b"d/deleted").await;
    delete(&volume, b"inline").await;
    assert_eq!(records(&*store, space::ORPHAN).await, 2, "files without blocks are gone already");
    assert_eq!(bytes_of(&*store, bucket).await, 540_000);
    assert_eq!(count_blocks(&blocks).await, 2 + 4 + 2 + 4);
    let reaped = volume.upkeep.reap_now().await.unwrap();
    assert_eq!((reaped.orphans, reaped.blocks), (2, 8));
    assert_eq!(count_blocks(&blocks).await, 4);
    assert_eq!(bytes_of(&*store, bucket).await, 140_000);
    for space in [space::ORPHAN, space::PENDING, space::SHARE] {
        assert_eq!(records(&*store, space).await, 0, "{space:?}");
    }
    assert_eq!(read(&volume, b"d/replaced").await.unwrap().len(), 70_000);
    assert_eq!(volume.upkeep.reap_now().await.unwrap().orphans, 0);
}

#[tokio::test(start_paused = true)]
async fn a_file_without_blocks_is_deleted_at_once_and_readers_keep_it() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let deleting = open(store.clone(), blocks.clone()).await;
    let bucket = make_bucket(&deleting).await;
    let reading = open(store.clone(), blocks.clone()).await;
    for name in [&b"deleted"[..], b"replaced"] {
        publish(&deleting, name, 5).await.unwrap();
    }
    let inodes = records(&*store, space::INODE).await;
    let mut found = Vec::new();
    for name in [&b"deleted"[..], b"replaced"] {
        found.push(reading.stat("b", name).await.unwrap());
    }
    delete(&deleting, b"deleted").await;
    publish(&deleting, b"replaced", 7).await.unwrap();
    assert_eq!(records(&*store, space::ORPHAN).await, 0);
    assert_eq!(records(&*store, space::INODE).await, inodes - 1);
    assert_eq!(bytes_of(&*store, bucket).await, 7);
    for (object, name) in found.iter().zip([&b"copy"[..], b"copied"]) {
        let pieces: Vec<Bytes> = reading.read(object, 0..5).try_collect().await.unwrap();
        assert_eq!(pieces.concat(), vec![5; 5], "as it was found");
        let none = WriteCondition::None;
        let copy = reading.copy(object, "b", name, CopyChanges::default(), none, &owner()).await;
        let changed = Err(VolumeError::Fs(namespace::FsError::SourceChanged).to_string());
        assert_eq!(copy.map(|_| ()).map_err(|error| error.to_string()), changed);
    }
    // The hints of this gateway are of deleted files.
    let gone = VolumeError::Fs(namespace::FsError::NoSuchKey).to_string();
    assert_eq!(reading.stat("b", b"deleted").await.unwrap_err().to_string(), gone);
    let tags = vec![("a".to_owned(), "b".to_owned())];
    let refused = reading.set_tags("b", b"deleted", tags.clone()).await;
    assert_eq!(refused.unwrap_err().to_string(), gone);
    reading.set_tags("b", b"replaced", tags).await.unwrap();
    assert_eq!(read(&reading, b"replaced").await.unwrap().len(), 7);
    publish(&reading, b"deleted", 3).await.unwrap();
    // And this one has a hint of an inode whose tags have changed since.
    delete(&deleting, b"replaced").await;
    assert_eq!(bytes_of(&*store, bucket).await, 3);
    assert_eq!(deleting.upkeep.reap_now().await.unwrap().orphans, 0);
    let report = upkeep::fsck(store, blocks, &upkeep::NoProgress).await.unwrap();
    assert_eq!(report.findings, []);
}

#[tokio::test(start_paused = true)]
async fn a_reader_on_another_gateway_delays_the_reaper() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let reaping = open(store.clone(), blocks.clone()).await;
    make_bucket(&reaping).await;
    publish(&reaping, b"one", 200_000).await.unwrap();
    let reader = open(store.clone(), blocks.clone()).await;
    let object = reader.stat("b", b"one").await.unwrap();
    delete(&reaping, b"one").await;
    let early = tokio::time::timeout(Duration::from_mins(2), reaping.upkeep.reap_now()).await;
    assert!(early.is_err(), "the reader has not let go");
    assert_eq!(count_blocks(&blocks).await, 4);
    let stream = reader.read(&object, 0..object.size());
    drop(object);
    let early = tokio::time::timeout(Duration::from_mins(2), reaping.upkeep.reap_now()).await;
    assert_eq!(early.unwrap().unwrap().blocks, 0, "its stream goes on");
    assert_eq!(count_blocks(&blocks).await, 4);
    let pieces: Vec<Bytes> = stream.try_collect().await.unwrap();
    assert_eq!(pieces.concat(), vec![5; 200_000]);
    // The reader held the file long enough for a hold, which is removed a moment after the reader
    // ends.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let reaped = tokio::time::timeout(Duration::from_mins(2), reaping.upkeep.reap_now()).await;
    assert_eq!(reaped.unwrap().unwrap().blocks, 4);
}

#[tokio::test(start_paused = true)]
async fn a_shared_block_is_deleted_with_its_last_owner() {
    for order in [[&b"a"[..], b"b", b"c"], [b"c", b"b", b"a"], [b"b", b"a", b"c"]] {
        let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
        let volume = open(store.clone(), blocks.clone()).await;
        make_bucket(&volume).await;
        publish(&volume, b"a", 100_000).await.unwrap();
        copy(&volume, b"a", b"b").await;
        copy(&volume, b"b", b"c").await;
        assert_eq!(records(&*store, space::SHARE).await, 6);
        for (left, name) in order.iter().enumerate() {
            delete(&volume, name).await;
            volume.upkeep.reap_now().await.unwrap();
            let expected = if left == 2 { 0 } else { 2 };
            assert_eq!(count_blocks(&blocks).await, expected, "{order:?} after {left}");
            for name in &order[left + 1..] {
                assert_eq!(read(&volume, name).await.unwrap(), vec![5; 100_000]);
            }
        }
        assert_eq!(records(&*store, space::SHARE).await, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn owners_deleted_together_leave_no_block() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let volume = open(store.clone(), blocks.clone()).await;
    let second = open(store.clone(), blocks.clone()).await;
    make_bucket(&volume).await;
    for n in 0..20 {
        publish(&volume, format!("{n}").as_bytes(), 100_000).await.unwrap();
        copy(&volume, format!("{n}").as_bytes(), format!("c{n}").as_bytes()).await;
    }
    for n in 0..20 {
        delete(&volume, format!("{n}").as_bytes()).await;
        delete(&second, format!("c{n}").as_bytes()).await;
    }
    let (one, two) = futures::join!(volume.upkeep.reap_now(), second.upkeep.reap_now());
    one.unwrap();
    two.unwrap();
    volume.upkeep.reap_now().await.unwrap();
    assert_eq!(count_blocks(&blocks).await, 0);
    for space in [space::ORPHAN, space::PENDING, space::SHARE] {
        assert_eq!(records(&*store, space).await, 0, "{space:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_large_content_map_is_reaped_page_by_page() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let options = VolumeOptions { block_bytes: 1, ..VolumeOptions::default() };
    let volume =
        MaintainedVolume::open_without_tasks(options, store.clone(), blocks.clone()).await.unwrap();
    let bucket = make_bucket(&volume).await;
    put(&volume, b"large", 1_200).await;
    assert_eq!(records(&*store, space::MAP).await, 3);
    assert_eq!(count_blocks(&blocks).await, 1_200);
    delete(&volume, b"large").await;
    volume.upkeep.reap_now().await.unwrap();
    assert_eq!(count_blocks(&blocks).await, 0);
    assert_eq!(bytes_of(&*store, bucket).await, 0);
    for space in [space::ORPHAN, space::PENDING, space::MAP] {
        assert_eq!(records(&*store, space).await, 0, "{space:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_reaper_continues_after_a_failure_at_any_step() {
    let (mut fired, mut complete) = (0, 0);
    for skip in 0..24 {
        for fault in [Fault::LostAnswer, Fault::LostRequest, Fault::Unavailable] {
            let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
            let options = VolumeOptions { block_bytes: 256, ..VolumeOptions::default() };
            let volume =
                MaintainedVolume::open_without_tasks(options, store.clone(), blocks.clone())
                    .await
                    .unwrap();
            make_bucket(&volume).await;
            // Contents of several pages, shared and not.
            put(&volume, b"kept", 150_000).await;
            copy(&volume, b"kept", b"copy").await;
            put(&volume, b"gone", 150_000).await;
            put(&volume, b"small", 9_000).await;
            for name in [&b"copy"[..], b"gone", b"small"] {
                delete(&volume, name).await;
            }
            for _ in 0..skip {
                store.inject(None, Fault::Pass);
            }
            store.inject(None, fault);
            let first = volume.upkeep.reap_now().await;
            if store.fired() > skip {
                fired += 1;
            } else {
                complete += 1;
            }
            // After a failure at any step another process finishes the work.
            drop(first);
            drop(volume);
            let heir = open(store.clone(), blocks.clone()).await;
            tokio::time::sleep(session::SESSION_SILENCE * 2).await;
            heir.upkeep.reap_now().await.unwrap();
            assert_eq!(count_blocks(&blocks).await, 586, "{fault:?} after {skip}");
            assert_eq!(read(&heir, b"kept").await.unwrap(), vec![5; 150_000]);
            assert_eq!(records(&*store, space::PENDING).await, 0);
            assert_eq!(records(&*store, space::MAP).await, 2);
        }
    }
    assert!(fired >= 30, "a pass has ten commits and more: {fired}");
    assert!(complete > 0, "the last faults came after the end, so every step was reached");
}

pub(super) async fn put(volume: &Volume, key: &[u8], bytes: usize) {
    put_bytes(volume, key, &vec![5; bytes]).await;
}

pub(super) async fn put_bytes(volume: &Volume, key: &[u8], bytes: &[u8]) {
    let mut writer = crate::ContentWriter::in_blocks(&volume.writers, None);
    writer.write(Bytes::copy_from_slice(bytes)).await.unwrap();
    let body = writer.finish().await.unwrap();
    let tag = Tag::Md5([1; 16]);
    let (headers, sums) = (ObjectHeaders::default(), Vec::new());
    let new = crate::NewObject { owner: owner(), headers, tag, sums, encryption: None };
    volume.put("b", key, body, new, WriteCondition::None).await.unwrap();
}

pub(super) async fn upload(volume: &Volume, key: &[u8]) -> UploadId {
    let headers = ObjectHeaders::default();
    let new =
        NewUpload { owner: owner(), headers, checksum: None, asked: Vec::new(), encryption: None };
    volume.create_upload("b", key, new).await.unwrap()
}

pub(super) async fn part(volume: &Volume, key: &[u8], id: UploadId, number: u16) {
    let body = staged(volume, 100_000).await;
    volume.put_part("b", key, id, number, body, PartTag::Md5([9; 16]), Vec::new()).await.unwrap();
}

pub(super) fn finished(tag: Tag) -> ObjectDigests {
    ObjectDigests { tag, sums: Vec::<Sum>::new(), part_sums: Vec::new() }
}

#[tokio::test(start_paused = true)]
async fn a_completed_upload_keeps_the_blocks_of_its_file() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let clock = Arc::new(crate::SetClock::new(record::Timestamp(1_000_000)));
    let options = VolumeOptions {
        block_bytes: 65_536,
        session: SessionOptions { clock: clock.clone(), ..SessionOptions::default() },
        ..VolumeOptions::default()
    };
    let volume =
        MaintainedVolume::open_without_tasks(options, store.clone(), blocks.clone()).await.unwrap();
    make_bucket(&volume).await;
    let id = upload(&volume, b"big").await;
    // Sent twice: the first transmission loses its blocks.
    part(&volume, b"big", id, 1).await;
    part(&volume, b"big", id, 1).await;
    let given_up = upload(&volume, b"big").await;
    part(&volume, b"big", given_up, 1).await;
    volume.abort("b", b"big", given_up).await.unwrap();
    let parts = [CompletePart { number: 1, tag: Tag::Md5([9; 16]), sums: Vec::new() }];
    let wanted =
        || CompleteUpload { parts: &parts, object_size: None, condition: WriteCondition::None };
    let tag = Tag::Multipart([3; 16], 1);
    let finish = |_: &_, _: &[_]| Ok::<_, VolumeError>(finished(tag));
    volume.complete("b", b"big", id, wanted(), finish).await.unwrap();
    assert_eq!(count_blocks(&blocks).await, 6);
    volume.upkeep.reap_now().await.unwrap();
    assert_eq!(count_blocks(&blocks).await, 2);
    assert_eq!(records(&*store, space::PART).await, 0);
    assert_eq!(records(&*store, space::UPLOAD).await, 1, "the completed one still answers");
    let again = volume.complete("b", b"big", id, wanted(), finish).await.unwrap();
    assert_eq!(again.tag, tag);
    assert_eq!(read(&volume, b"big").await.unwrap(), vec![5; 100_000]);
    let later = i64::try_from(UPLOAD_RESULT_KEPT.as_nanos()).unwrap() + 2_000_000;
    clock.set(record::Timestamp(later));
    volume.upkeep.reap_now().await.unwrap();
    assert_eq!(records(&*store, space::UPLOAD).await, 0);
    assert_eq!(read(&volume, b"big").await.unwrap(), vec![5; 100_000]);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_bucket_takes_its_uploads_along() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let volume = open(store.clone(), blocks.clone()).await;
    make_bucket(&volume).await;
    publish(&volume, b"one", 100_000).await.unwrap();
    let id = upload(&volume, b"big").await;
    part(&volume, b"big", id, 1).await;
    delete(&volume, b"one").await;
    volume.delete_bucket("b").await.unwrap();
    volume.upkeep.reap_now().await.unwrap();
    assert_eq!(count_blocks(&blocks).await, 0);
    for space in [space::ORPHAN, space::UPLOAD, space::PART, space::BUCKET] {
        assert_eq!(records(&*store, space).await, 0, "{space:?}");
    }
}
