//! Versions of keys to which a directory was moved.

use std::sync::Arc;

use block::MemoryBlocks;
use namespace::{NodeName, RenameMode};
use record::Versioning;
use store::MemoryStore;
use upkeep::{NoProgress, fsck};

use super::{make_bucket, open, publish};
use crate::{
    BucketChange, FsError, Note, VersionRef, VersionsEntry, VersionsQuery, Volume, VolumeError,
};

const KEY: &[u8] = b"site/i";

/// How clients name the versions of the key, as pages of this size list them.
async fn listed(volume: &Volume, limit: usize) -> Vec<VersionRef> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let query = VersionsQuery { prefix: KEY.to_vec(), delimiter: None, after, limit };
        let page = volume.list_versions(b"b".into(), &query).await.unwrap();
        for entry in page.entries {
            let VersionsEntry::Version { version, .. } = entry else { panic!("a prefix") };
            all.push(version);
        }
        if !page.truncated {
            return all;
        }
        after = all.last().map(|version| (KEY.to_vec(), Some(*version)));
    }
}

/// A directory that is moved brings a null version to a key that has one already, which is an
/// object or a delete marker. Then `null` names the current version, and the other one has its id
/// as its name: each is listed once, read and removed.
#[tokio::test]
async fn a_second_null_version_after_a_move_is_reached_by_its_id() {
    for marker in [false, true] {
        for keeps in [Versioning::Enabled, Versioning::Suspended] {
            let store = Arc::new(MemoryStore::new());
            let blocks = Arc::new(MemoryBlocks::new());
            let volume = open(store.clone(), blocks.clone()).await;
            let bucket = make_bucket(&volume).await;
            let set =
                async |to| volume.set_bucket("b", BucketChange::Versioning(to)).await.unwrap();
            publish(&volume, b"site.new/i", 70_000).await.unwrap();
            publish(&volume, KEY, 50_000).await.unwrap();
            set(if marker { Versioning::Suspended } else { Versioning::Enabled }).await;
            volume.delete("b", vec![(KEY.to_vec(), None)]).await.unwrap();
            set(Versioning::Enabled).await;
            // A newer version than the null version, so that pages begin in front of that.
            let newer = publish(&volume, KEY, 7).await.unwrap().version.unwrap();
            volume.delete("b", vec![(KEY.to_vec(), None)]).await.unwrap();
            set(keeps).await;
            let name = |name: &str| NodeName { directory: bucket, name: name.into() };
            let note = Note::none();
            let moved = volume.journaled(&note);
            let to = name("site");
            moved.rename_node(&name("site.new"), &to, RenameMode::Replace).await.unwrap();

            let all = listed(&volume, 100).await;
            assert_eq!(all.len(), if marker { 4 } else { 5 }, "{all:?}");
            let last = all[all.len() - 1];
            assert_eq!((all[0], all[2]), (VersionRef::Null, newer));
            let mut distinct = all.clone();
            distinct.sort_unstable();
            distinct.dedup();
            assert_eq!(distinct.len(), all.len(), "two versions of one name: {all:?}");
            for limit in [1, 2, 3] {
                assert_eq!(listed(&volume, limit).await, all, "pages of {limit}");
            }
            let size = async |version| {
                let found = volume.stat_version("b", KEY, Some(version)).await;
                found.map(|object| (object.size(), object.version))
            };
            assert_eq!(size(all[0]).await.unwrap(), (70_000, Some(VersionRef::Null)));
            match size(last).await {
                Ok(found) => assert!(!marker && found == (50_000, Some(last)), "{found:?}"),
                Err(VolumeError::Fs(FsError::IsMarker(named, _))) => {
                    assert!(marker && named == last, "{named:?}");
                }
                Err(error) => panic!("{error}"),
            }
            let removed = volume.delete_version("b", KEY, last, false).await.unwrap();
            assert_eq!((removed.existed, removed.was_marker), (true, marker));
            assert_eq!(listed(&volume, 2).await, all[..all.len() - 1]);
            for version in &all[..all.len() - 1] {
                let removed = volume.delete_version("b", KEY, *version, false).await.unwrap();
                assert!(removed.existed, "{version:?}");
            }
            assert_eq!(listed(&volume, 2).await, []);
            let report = fsck(store, blocks, &NoProgress).await.unwrap();
            assert_eq!(report.findings, []);
            volume.close().await;
        }
    }
}
