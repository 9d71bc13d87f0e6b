//! The trash of a bucket: what keys lose through either view, and that it can be had again or is
//! gone.

use std::sync::Arc;

use block::MemoryBlocks;
use namespace::{NodeName, RenameMode};
use record::key::space;
use record::{BucketConfig, BucketConfigKind, Ino, Timestamp, Versioning};
use store::MemoryStore;
use upkeep::{NoProgress, fsck};

use super::reaping::{bytes_of, read, records};
use super::{MaintainedVolume, count_blocks, make_bucket, open, publish};
use crate::{BucketChange, FsError, VolumeError};

struct World {
    store: Arc<MemoryStore>,
    blocks: Arc<MemoryBlocks>,
    volume: MaintainedVolume,
    bucket: Ino,
}

impl World {
    async fn new() -> World {
        let (store, blocks) = (Arc::new(MemoryStore::new()), Arc::new(MemoryBlocks::new()));
        let volume = open(store.clone(), blocks.clone()).await;
        let bucket = make_bucket(&volume).await;
        let world = World { store, blocks, volume, bucket };
        world.set(Some(9)).await.unwrap();
        world
    }

    async fn set(&self, days: Option<u32>) -> Result<(), VolumeError> {
        let config = days.map(BucketConfig::of_trash_days);
        self.volume.set_bucket_config("b", BucketConfigKind::Trash, config.as_ref()).await
    }

    async fn put(&self, key: &str, bytes: usize) {
        let put = publish(&self.volume, key.as_bytes(), bytes).await.unwrap();
        assert_eq!(put.version, None);
    }

    fn name(&self, name: &str) -> NodeName {
        NodeName { directory: self.bucket, name: name.into() }
    }

    /// The items of the trash: keys and bytes.
    async fn lost(&self) -> Vec<(String, u64)> {
        let found = self.volume.trash(b"b".into(), b"", None).await.unwrap();
        let item = |(key, trashed): (Vec<u8>, crate::Trashed)| {
            (String::from_utf8(key).unwrap(), trashed.bytes)
        };
        found.into_iter().map(item).collect()
    }

    async fn restore(&self, place: usize, replaces: bool) -> Result<(), VolumeError> {
        let found = self.volume.trash(b"b".into(), b"", None).await.unwrap();
        let (key, trashed) = &found[place];
        self.volume.restore(b"b".into(), key, trashed.id, replaces).await
    }

    /// Nothing is wrong, and nothing is left once all is deleted and the trash is emptied.
    async fn ends_clean(&self, keys: &[&str]) {
        let report = fsck(self.store.clone(), self.blocks.clone(), &NoProgress).await.unwrap();
        assert_eq!(report.findings, []);
        let keys = keys.iter().map(|key| (key.as_bytes().to_vec(), None)).collect();
        self.volume.delete("b", keys).await.unwrap();
        self.volume.empty_trash(b"b".into(), b"", Timestamp(i64::MAX)).await.unwrap();
        self.volume.upkeep.reap_now().await.unwrap();
        assert_eq!(self.lost().await, []);
        assert_eq!(bytes_of(&*self.store, self.bucket).await, 0);
        assert_eq!(count_blocks(&self.blocks).await, 0);
        for space in [space::VERSION, space::DENTRY, space::ORPHAN] {
            // The bucket's own name is all that stays.
            let own = usize::from(space == space::DENTRY);
            assert_eq!(records(&*self.store, space).await, own, "{space:?}");
        }
        self.volume.delete_bucket("b").await.unwrap();
    }
}

#[tokio::test]
async fn objects_deleted_by_programs_are_in_the_trash() {
    let world = World::new().await;
    world.put("gone", 7).await;
    world.put("replaced", 70_000).await;
    world.put("moved", 9).await;
    let unnoted = ledger::Note::none();
    let act = world.volume.journaled(&unnoted);
    act.remove_name(&world.name("gone")).await.unwrap();
    let (from, to) = (world.name("moved"), world.name("replaced"));
    act.rename_node(&from, &to, RenameMode::Replace).await.unwrap();
    assert_eq!(world.lost().await, [("gone".to_owned(), 7), ("replaced".to_owned(), 70_000)]);
    assert!(matches!(read(&world.volume, b"gone").await, Err(VolumeError::Fs(FsError::NoSuchKey))));

    // A file that comes back is the same file, with its bytes.
    world.restore(1, true).await.unwrap();
    assert_eq!(read(&world.volume, b"replaced").await.unwrap().len(), 70_000);
    world.restore(0, false).await.unwrap();
    assert_eq!(read(&world.volume, b"gone").await.unwrap().len(), 7);
    assert_eq!(world.lost().await, [("replaced".to_owned(), 9)], "the replaced objects");
    world.ends_clean(&["gone", "replaced"]).await;
}

#[tokio::test]
async fn restore_creates_directories_and_replaces_nothing() {
    let world = World::new().await;
    world.put("a/b/c", 7).await;
    world.volume.delete("b", vec![(b"a/b/c".to_vec(), None)]).await.unwrap();
    assert_eq!(records(&*world.store, space::DENTRY).await, 1, "the directories have gone with it");
    world.put("a", 3).await;
    world.restore(0, false).await.unwrap();
    assert_eq!(read(&world.volume, b"a/b/c").await.unwrap().len(), 7);
    world.put("a/b/c", 8).await;
    let taken = world.restore(0, false).await;
    assert!(matches!(taken, Err(VolumeError::Fs(FsError::NameExists))), "{taken:?}");
    assert_eq!(world.lost().await, [("a/b/c".to_owned(), 7)]);
    world.ends_clean(&["a", "a/b/c"]).await;
}

#[tokio::test]
async fn emptying_the_trash_keeps_later_items() {
    let world = World::new().await;
    world.put("a", 1).await;
    world.put("a", 2).await;
    world.put("a", 3).await;
    let found = world.volume.trash(b"b".into(), b"", None).await.unwrap();
    let [(_, newer), (_, older)] = &found[..] else { panic!("{found:?}") };
    assert!(newer.since > older.since && newer.id > older.id);
    let removed = world.volume.empty_trash(b"b".into(), b"", newer.since).await.unwrap();
    assert_eq!((removed, world.lost().await), (1, vec![("a".to_owned(), 2)]));
    assert_eq!(read(&world.volume, b"a").await.unwrap().len(), 3);
    world.ends_clean(&["a"]).await;
}

#[tokio::test]
async fn a_bucket_has_versions_or_a_trash() {
    let world = World::new().await;
    let enable = BucketChange::Versioning(Versioning::Enabled);
    let refused = world.volume.set_bucket("b", enable).await;
    assert!(matches!(refused, Err(VolumeError::Fs(FsError::HasTrash))), "{refused:?}");
    world.put("a", 1).await;
    world.volume.delete("b", vec![(b"a".to_vec(), None)]).await.unwrap();
    let refused = world.set(None).await;
    assert!(matches!(refused, Err(VolumeError::Fs(FsError::TrashLeft))), "{refused:?}");
    let refused = world.volume.delete_bucket("b").await;
    assert!(matches!(refused, Err(VolumeError::Fs(FsError::TrashLeft))), "{refused:?}");
    world.volume.empty_trash(b"b".into(), b"", Timestamp(i64::MAX)).await.unwrap();
    world.set(None).await.unwrap();
    world.volume.set_bucket("b", enable).await.unwrap();
    let refused = world.set(Some(1)).await;
    assert!(matches!(refused, Err(VolumeError::Fs(FsError::KeepsVersions))), "{refused:?}");
}
