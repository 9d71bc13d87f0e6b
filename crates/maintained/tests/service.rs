//! The volume as its views call it: results, costs and moved bytes of its operations.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue fails")]

#[path = "service/buckets.rs"]
mod buckets;
#[path = "service/composition.rs"]
mod composition;
#[path = "service/contended.rs"]
mod contended;
#[path = "service/costs.rs"]
mod costs;
#[path = "service/deep.rs"]
mod deep;
#[path = "service/listings.rs"]
mod listings;
#[path = "service/moved.rs"]
mod moved;
#[path = "service/multipart.rs"]
mod multipart;
#[path = "service/objects.rs"]
mod objects;
#[path = "service/space.rs"]
mod space;

use std::sync::Arc;

use block::MemoryBlocks;
use bytes::Bytes;
use futures::TryStreamExt;
use maintained::MaintainedVolume;
use md5::{Digest, Md5};
use record::{ObjectHeaders, Tag};
use store::MemoryStore;
use volume::{
    FileOwner, NewObject, Object, PublishedObject, Volume, VolumeError, VolumeOptions,
    WriteCondition,
};

/// Content bytes of a full block here: several make a small file.
const BLOCK_BYTES: u32 = 256 << 10;

async fn volume() -> MaintainedVolume {
    volume_of(VolumeOptions::default()).await
}

async fn volume_of(options: VolumeOptions) -> MaintainedVolume {
    let options = VolumeOptions { block_bytes: BLOCK_BYTES, ..options };
    let (store, blocks) = (Arc::new(MemoryStore::new()), Arc::new(MemoryBlocks::new()));
    let volume = MaintainedVolume::open(options, None, store, blocks).await.unwrap();
    volume.create_bucket("bkt", &volume::NewBucket::owned_by(&owner())).await.unwrap();
    volume
}

async fn volume_without_tasks(options: VolumeOptions) -> MaintainedVolume {
    let options = VolumeOptions { block_bytes: BLOCK_BYTES, ..options };
    let (store, blocks) = (Arc::new(MemoryStore::new()), Arc::new(MemoryBlocks::new()));
    let volume = MaintainedVolume::open_without_tasks(options, None, store, blocks).await.unwrap();
    volume.create_bucket("bkt", &volume::NewBucket::owned_by(&owner())).await.unwrap();
    volume
}

fn owner() -> FileOwner {
    FileOwner {
        access_key: "someone".to_owned(),
        account: record::AccountId::MAIN,
        writer: None,
        uid: 7,
        gid: 8,
        umask: 0o022,
    }
}

/// Bytes that differ from place to place.
fn bytes(length: usize, seed: u8) -> Bytes {
    let low = |at: usize| at.to_le_bytes()[0];
    (0..length).map(|at| low(at / 251) ^ low(at) ^ seed).collect()
}

fn md5(bytes: &[u8]) -> [u8; 16] {
    Md5::digest(bytes).into()
}

async fn put(volume: &Volume, key: &str, content: &Bytes) -> Result<PublishedObject, VolumeError> {
    put_if(volume, key, content, WriteCondition::None).await
}

async fn put_if(
    volume: &Volume,
    key: &str,
    content: &Bytes,
    condition: WriteCondition,
) -> Result<PublishedObject, VolumeError> {
    let mut writer = volume.writer(None, Some(content.len() as u64));
    writer.write(content.clone()).await?;
    let body = writer.finish().await?;
    let new = NewObject {
        owner: owner(),
        headers: ObjectHeaders::default(),
        tag: Tag::Md5(md5(content)),
        sums: Vec::new(),
        encryption: None,
    };
    volume.put("bkt", key.as_bytes(), body, new, condition).await
}

async fn read(volume: &Volume, object: &Object) -> Vec<u8> {
    let frames: Vec<Bytes> = volume.read(object, 0..object.size()).try_collect().await.unwrap();
    frames.concat()
}

async fn get(volume: &Volume, key: &str) -> Vec<u8> {
    let object = volume.stat("bkt", key.as_bytes()).await.unwrap();
    read(volume, &object).await
}
