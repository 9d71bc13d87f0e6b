//! Objects whose content only a client's key opens (SSE-C).

use std::ops::Range;
use std::sync::Arc;

use block::MemoryBlocks;
use bytes::Bytes;
use content::ContentError;
use faulty::Faulty;
use futures::TryStreamExt;
use namespace::{FsError, NodeName, WriteCondition};
use record::{Content, Ino, ObjectHeaders, PartTag, Tag};

use super::ranges::KEPT;
use super::reaping::{finished, owner};
use super::{MaintainedVolume, count_blocks, make_bucket, open};
use crate::{
    CompletePart, CompleteUpload, CopyChanges, FileWrite, NewObject, NewUpload, Object, ObjectMode,
    UploadId, Volume, VolumeError, WrongCustomerKey,
};

const FIRST: [u8; 32] = [1; 32];
const SECOND: [u8; 32] = [2; 32];

async fn world() -> (Arc<MemoryBlocks>, MaintainedVolume, Ino) {
    let blocks = Arc::new(MemoryBlocks::new());
    let volume = open(Faulty::new(), blocks.clone()).await;
    let bucket = make_bucket(&volume).await;
    (blocks, volume, bucket)
}

fn content(bytes: usize) -> Bytes {
    (0..bytes).map(|at| u8::try_from(at % 251).unwrap()).collect()
}

fn mode_of(customer: Option<&[u8; 32]>) -> ObjectMode {
    customer.map_or_else(ObjectMode::default, |key| ObjectMode::of_customer(key).unwrap())
}

async fn put(volume: &Volume, key: &[u8], bytes: &Bytes, customer: Option<&[u8; 32]>) {
    let mode = mode_of(customer);
    let keys = volume.object_keys(&mode).await.unwrap();
    let mut writer = volume.writer(Some(&keys), Some(bytes.len() as u64));
    writer.write(bytes.clone()).await.unwrap();
    let body = writer.finish().await.unwrap();
    let (headers, tag) = (ObjectHeaders::default(), Tag::Md5([7; 16]));
    let encryption = mode.encryption().cloned();
    let new = NewObject { owner: owner(), headers, tag, sums: Vec::new(), encryption };
    volume.put("b", key, body, new, WriteCondition::None).await.unwrap();
}

async fn unlocked(volume: &Volume, key: &[u8], customer: Option<&[u8; 32]>) -> Object {
    let mut object = volume.stat("b", key).await.unwrap();
    object.unlock(customer).unwrap();
    object
}

async fn read(volume: &Volume, object: &Object, range: Range<u64>) -> Result<Bytes, ContentError> {
    let frames: Vec<Bytes> = volume.read(object, range).try_collect().await?;
    Ok(frames.concat().into())
}

async fn is(volume: &Volume, key: &[u8], customer: Option<&[u8; 32]>, wanted: &Bytes) -> bool {
    let object = unlocked(volume, key, customer).await;
    read(volume, &object, 0..object.size()).await.unwrap() == wanted
}

async fn copy(volume: &Arc<Volume>, from: &Object, mode: ObjectMode) -> Result<(), VolumeError> {
    let changes = CopyChanges { mode, ..CopyChanges::default() };
    let none = WriteCondition::None;
    volume.copy(from, "b", b"to", changes, none, &owner()).await.map(drop)
}

#[tokio::test(start_paused = true)]
async fn only_the_right_key_reads_an_object() {
    let (_, volume, _) = world().await;
    for size in [5, 40_000, 200_000] {
        let bytes = content(size);
        put(&volume, b"k", &bytes, Some(&FIRST)).await;
        let mut object = volume.stat("b", b"k").await.unwrap();
        let size = object.size();
        let locked = read(&volume, &object, 0..size).await;
        assert!(matches!(locked, Err(ContentError::NeedsCustomerKey)), "{locked:?}");
        assert_eq!(object.unlock(None), Err(WrongCustomerKey));
        assert_eq!(object.unlock(Some(&SECOND)), Err(WrongCustomerKey));
        object.unlock(Some(&FIRST)).unwrap();
        assert_eq!(read(&volume, &object, 0..size).await.unwrap(), bytes);
        let range = size / 2..size;
        let part = bytes.slice(usize::try_from(range.start).unwrap()..);
        assert_eq!(read(&volume, &object, range).await.unwrap(), part);
    }
}

#[tokio::test(start_paused = true)]
async fn a_copy_to_another_key_of_a_client_moves_no_byte() {
    let (blocks, volume, _) = world().await;
    for size in [5, 200_000] {
        let bytes = content(size);
        put(&volume, b"from", &bytes, Some(&FIRST)).await;
        let before = count_blocks(&blocks).await;
        let source = unlocked(&volume, b"from", Some(&FIRST)).await;
        let mode = ObjectMode::sealed(Arc::clone(source.key().unwrap()), &SECOND).unwrap();
        copy(&volume, &source, mode).await.unwrap();
        assert_eq!(count_blocks(&blocks).await, before, "{size} bytes");
        assert!(is(&volume, b"to", Some(&SECOND), &bytes).await);
        let mut copy = volume.stat("b", b"to").await.unwrap();
        assert_eq!(copy.unlock(Some(&FIRST)), Err(WrongCustomerKey));
        assert!(is(&volume, b"from", Some(&FIRST), &bytes).await);
    }
}

#[tokio::test(start_paused = true)]
async fn copies_between_modes_are_written_again() {
    let (_, volume, _) = world().await;
    let cases = [(None, Some(&FIRST)), (Some(&FIRST), None), (Some(&FIRST), Some(&SECOND))];
    for (from, to) in cases {
        for size in [0, 5, 40_000, 200_000] {
            let bytes = content(size);
            put(&volume, b"from", &bytes, from).await;
            let source = unlocked(&volume, b"from", from).await;
            copy(&volume, &source, mode_of(to)).await.unwrap();
            assert!(is(&volume, b"to", to, &bytes).await, "{size} bytes, {from:?} to {to:?}");
            let tag = *volume.stat("b", b"to").await.unwrap().tag();
            assert_ne!(tag, Tag::Md5([7; 16]), "the copy has a tag of its own");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_locked_source_is_not_copied() {
    let (_, volume, _) = world().await;
    put(&volume, b"from", &content(200_000), Some(&FIRST)).await;
    let locked = volume.stat("b", b"from").await.unwrap();
    for mode in [ObjectMode::default(), mode_of(Some(&SECOND))] {
        let refused = copy(&volume, &locked, mode).await;
        let is_refused = matches!(refused, Err(VolumeError::Fs(FsError::NeedsCustomerKey)));
        assert!(is_refused, "{refused:?}");
    }
}

async fn upload(volume: &Volume, mode: &ObjectMode) -> UploadId {
    let encryption = mode.encryption().cloned();
    let (headers, asked) = (ObjectHeaders::default(), Vec::new());
    let new = NewUpload { owner: owner(), headers, checksum: None, asked, encryption };
    volume.create_upload("b", b"big", new).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn parts_and_copied_parts_become_one_object() {
    const PART: usize = 5 << 20;
    let (_, volume, _) = world().await;
    put(&volume, b"plain", &content(PART), None).await;
    put(&volume, b"sealed", &content(PART), Some(&SECOND)).await;
    let id = upload(&volume, &mode_of(Some(&FIRST))).await;
    let record = volume.upload("b", b"big", id).await.unwrap();
    assert!(ObjectMode::opened(record.encryption.as_ref(), Some(&SECOND)).is_err());
    let mode = ObjectMode::opened(record.encryption.as_ref(), Some(&FIRST)).unwrap();
    let mut listed = Vec::new();
    for (number, key, customer) in [(1, &b"plain"[..], None), (2, b"sealed", Some(&SECOND))] {
        let source = unlocked(&volume, key, customer).await;
        let range = 0..source.size();
        let part = volume.copy_part("b", b"big", id, number, &mode, &source, range, None);
        let tag = part.await.unwrap().part.tag.tag();
        listed.push(CompletePart { number, tag, sums: Vec::new() });
    }
    let keys = volume.object_keys(&mode).await.unwrap();
    let mut writer = volume.block_writer(Some(&keys), None);
    writer.write(content(1_000)).await.unwrap();
    let body = writer.finish().await.unwrap();
    let tag = PartTag::Opaque([3; 16]);
    volume.put_part("b", b"big", id, 3, body, tag, Vec::new()).await.unwrap();
    listed.push(CompletePart { number: 3, tag: tag.tag(), sums: Vec::new() });
    let wanted =
        CompleteUpload { parts: &listed, object_size: None, condition: WriteCondition::None };
    let completed = volume.complete("b", b"big", id, wanted, |_, _| {
        Ok::<_, VolumeError>(finished(Tag::Multipart([3; 16], 3)))
    });
    completed.await.unwrap();
    let all = [content(PART), content(PART), content(1_000)].concat().into();
    assert!(is(&volume, b"big", Some(&FIRST), &all).await);
}

#[tokio::test(start_paused = true)]
async fn programs_see_the_name_and_the_size_and_change_no_content() {
    let (_, volume, bucket) = world().await;
    put(&volume, b"k", &content(200_000), Some(&FIRST)).await;
    let name = NodeName { directory: bucket, name: b"k".to_vec() };
    let node = volume.find_name(&name).await.unwrap();
    assert_eq!(node.inode.file().unwrap().size, 200_000);
    let bytes: Result<Vec<Bytes>, _> =
        volume.read_node(&node, volume.reading(), 0..200_000).try_collect().await;
    assert!(matches!(bytes, Err(ContentError::NeedsCustomerKey)), "{bytes:?}");
    assert_eq!(volume.read_from_memory(&node, 0..100), None);
    let write = FileWrite { attributes: &KEPT, ..FileWrite::new(node.ino, None) };
    let truncated = volume.truncate(write, 10).await;
    let is_refused = matches!(truncated, Err(VolumeError::Fs(FsError::NeedsCustomerKey)));
    assert!(is_refused, "{truncated:?}");
    let object = volume.stat("b", b"k").await.unwrap();
    assert!(volume.append_writer(&object, None).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn upkeep_leaves_the_blocks_where_they_are() {
    let (_, volume, _) = world().await;
    let bytes = content(40_000);
    put(&volume, b"k", &bytes, Some(&FIRST)).await;
    let file = |object: &Object| object.file().content.clone();
    let before = file(&volume.stat("b", b"k").await.unwrap());
    assert!(matches!(before, Content::Slices(_)));
    volume.upkeep.compact_now().await.unwrap();
    assert_eq!(file(&volume.stat("b", b"k").await.unwrap()), before);
    assert!(is(&volume, b"k", Some(&FIRST), &bytes).await);
}
