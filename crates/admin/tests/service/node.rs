//! Reports about nodes.

use std::sync::Arc;

use admin::{AdminError, ContentPlace};
use bytes::Bytes;
use record::{Ino, ObjectHeaders, Tag};
use store::{MemoryStore, MetaStore};
use volume::{FileOwner, NewObject, Volume, WriteCondition};

use crate::{make_volume, open, over};

async fn put(volume: &Volume, key: &str, length: usize) {
    let mut writer = volume.writer(None, Some(length as u64));
    writer.write(Bytes::from(vec![7; length])).await.unwrap();
    let body = writer.finish().await.unwrap();
    let owner = FileOwner {
        access_key: "root".to_owned(),
        account: record::AccountId::MAIN,
        writer: None,
        uid: 3,
        gid: 4,
        umask: 0o022,
    };
    let (headers, tag) = (ObjectHeaders::default(), Tag::Md5([1; 16]));
    let new = NewObject { owner, headers, tag, sums: Vec::new(), encryption: None };
    volume.put("box", key.as_bytes(), body, new, WriteCondition::None).await.unwrap();
}

#[tokio::test]
async fn a_node_report_by_key_shows_the_place_of_the_content() {
    let store: Arc<dyn MetaStore> = Arc::new(MemoryStore::new());
    let blocks = make_volume(&store).await;
    let volume = open(&store, &blocks).await;
    put(&volume, "d/small", 100).await;
    put(&volume, "d/large", 20 << 20).await;
    let admin = over(store);
    let told = admin.node(admin.find_node("box/d/small").await.unwrap()).await.unwrap();
    assert_eq!((told.place, told.blocks_count), (Some(ContentPlace::Record), 0));
    assert_eq!(told.node.inode.file().unwrap().size, 100);
    assert_eq!(told.node.inode.attributes.uid, 3);
    let told = admin.node(admin.find_node("box/d/large").await.unwrap()).await.unwrap();
    assert_eq!(told.place, Some(ContentPlace::Blocks));
    assert_eq!((told.stored_bytes, told.blocks_count, told.partial), (20 << 20, 2, false));
    let (blocks, bytes): (u64, u64) = told
        .blocks
        .iter()
        .fold((0, 0), |(all, own), used| (all + used.block_bytes, own + used.bytes));
    assert_eq!((blocks, bytes), (20 << 20, 20 << 20));
    assert!(
        told.blocks.iter().all(|used| used.live_bytes.is_none()),
        "no other file has a part of them"
    );

    let directory = admin.node(admin.find_node("box/d").await.unwrap()).await.unwrap();
    assert_eq!((directory.place, directory.slices), (None, 0));
    assert_eq!(admin.find_node("box/d/").await.unwrap(), directory.node.ino);
    assert_eq!(admin.find_node("/").await.unwrap(), Ino::ROOT);
    for nothing in ["box/none", "none", "none/a", "box/d/small/x"] {
        let found = admin.find_node(nothing).await;
        assert!(matches!(found, Err(AdminError::NoSuchNode)), "{nothing}: {found:?}");
    }
    assert!(matches!(admin.node(Ino(99)).await, Err(AdminError::NoSuchNode)));
    volume.close().await;
}
