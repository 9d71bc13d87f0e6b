//! Versions of objects: pages compared with the acts before them, and no leftover of removed
//! versions.

use std::collections::BTreeMap;
use std::sync::Arc;

use block::MemoryBlocks;
use record::{
    BucketConfig, ObjectLock, RetainUntil, RetentionDefault, RetentionMode, Tag, Timestamp,
    Versioning,
};
use session::SessionOptions;
use store::MemoryStore;
use upkeep::{NoProgress, fsck};

use super::reaping::{finished, part, upload};
use super::{MaintainedVolume, count_blocks, make_bucket, open, publish};
use crate::{
    BucketChange, CompletePart, CompleteUpload, FsError, ListedAs, ObjectChange, SetClock,
    VersionRef, VersionsEntry, VersionsQuery, Volume, VolumeError, VolumeOptions, WriteCondition,
};

const KEYS: [&str; 5] = ["a", "a/b", "a/c/d", "a0", "k"];

/// The expected versions of each key, the newest first: a version, and true for a marker.
type Model = BTreeMap<&'static str, Vec<(VersionRef, bool)>>;

/// Numbers that look random.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % limit
    }
}

async fn set(volume: &Volume, versioning: Versioning) {
    volume.set_bucket("b", BucketChange::Versioning(versioning)).await.unwrap();
}

/// One act of a client, and its effect on the versions.
async fn step(volume: &Volume, model: &mut Model, suspended: &mut bool, numbers: &mut Numbers) {
    let key = KEYS[numbers.below(KEYS.len())];
    let versions = model.entry(key).or_default();
    match numbers.below(20) {
        0 => {
            *suspended = !*suspended;
            let now = if *suspended { Versioning::Suspended } else { Versioning::Enabled };
            set(volume, now).await;
        }
        1..10 => {
            // Some bodies are inline, and some in blocks.
            let bytes = if numbers.below(2) == 0 { 7 } else { 70_000 };
            let version = publish(volume, key.as_bytes(), bytes).await.unwrap().version.unwrap();
            assert_eq!(version == VersionRef::Null, *suspended);
            versions.retain(|(other, _)| *other != version);
            versions.insert(0, (version, false));
        }
        10..14 => {
            let removed = volume.delete("b", vec![(key.as_bytes().to_vec(), None)]).await.unwrap();
            let removed = *removed[0].as_ref().unwrap();
            assert_eq!(removed.existed, versions.first().is_some_and(|(_, marker)| !marker));
            let marker = removed.marker.unwrap();
            versions.retain(|(other, _)| *other != marker);
            versions.insert(0, (marker, true));
        }
        _ if versions.is_empty() => {}
        _ => {
            let (version, marker) = versions.remove(numbers.below(versions.len()));
            let removed = volume.delete_version("b", key.as_bytes(), version, false).await.unwrap();
            assert!(removed.existed && removed.was_marker == marker);
        }
    }
}

/// The expected listing of all versions, in order.
fn all(model: &Model, delimiter: bool) -> Vec<String> {
    let mut shown: Vec<String> = Vec::new();
    for (key, versions) in model {
        let common = key.split_once('/').filter(|_| delimiter).map(|(first, _)| first);
        for (place, (version, marker)) in versions.iter().enumerate() {
            let entry = match common {
                Some(first) => format!("{first}/"),
                None => format!("{key} {version:?} {} {marker}", place == 0),
            };
            if shown.last() != Some(&entry) || common.is_none() {
                shown.push(entry);
            }
        }
    }
    shown
}

/// The pages of this size, in sequence.
async fn listed(volume: &Volume, limit: usize, delimiter: bool) -> Vec<String> {
    let delimiter = delimiter.then(|| b"/".to_vec());
    let (mut shown, mut after) = (Vec::new(), None);
    loop {
        let (prefix, delimiter) = (Vec::new(), delimiter.clone());
        let query = VersionsQuery { prefix, delimiter, after, limit };
        let page = volume.list_versions(b"b".into(), &query).await.unwrap();
        assert!(page.entries.len() <= limit);
        after = page.entries.last().map(|last| match last {
            VersionsEntry::Prefix(prefix) => (prefix.clone(), None),
            VersionsEntry::Version { key, version, .. } => (key.clone(), Some(*version)),
        });
        shown.extend(page.entries.into_iter().map(|entry| match entry {
            VersionsEntry::Prefix(prefix) => String::from_utf8(prefix).unwrap(),
            VersionsEntry::Version { key, version, is_latest, listed_as, .. } => {
                let marker = matches!(listed_as, ListedAs::Marker(_));
                let key = String::from_utf8(key).unwrap();
                format!("{key} {version:?} {is_latest} {marker}")
            }
        }));
        if !page.truncated {
            return shown;
        }
    }
}

#[tokio::test]
async fn pages_show_each_version_once_and_removed_versions_leave_no_block() {
    let (store, blocks) = (Arc::new(MemoryStore::new()), Arc::new(MemoryBlocks::new()));
    let volume = open(store.clone(), blocks.clone()).await;
    make_bucket(&volume).await;
    set(&volume, Versioning::Enabled).await;
    let (mut model, mut suspended, mut numbers) = (Model::new(), false, Numbers(7));
    for round in 0..40 {
        for _ in 0..25 {
            step(&volume, &mut model, &mut suspended, &mut numbers).await;
        }
        for delimiter in [false, true] {
            let wanted = all(&model, delimiter);
            for limit in [1, 2, 3, 7, 1_000] {
                let found = listed(&volume, limit, delimiter).await;
                assert_eq!(found, wanted, "round {round}, {limit} a page, {delimiter}");
            }
        }
    }
    volume.upkeep.reap_now().await.unwrap();
    let report = fsck(store.clone(), blocks.clone(), &NoProgress).await.unwrap();
    assert_eq!(report.findings, []);
    for (key, versions) in &model {
        for (version, _) in versions {
            volume.delete_version("b", key.as_bytes(), *version, false).await.unwrap();
        }
    }
    volume.delete_bucket("b").await.unwrap();
    volume.upkeep.reap_now().await.unwrap();
    assert_eq!(count_blocks(&blocks).await, 0);
    assert_eq!(fsck(store, blocks, &NoProgress).await.unwrap().findings, []);
}

/// A volume by such a clock, with a version that is retained until then.
async fn retained(clock: &Arc<SetClock>, mode: RetentionMode) -> (MaintainedVolume, VersionRef) {
    let (store, blocks) = (Arc::new(MemoryStore::new()), Arc::new(MemoryBlocks::new()));
    let session = SessionOptions { clock: Arc::<SetClock>::clone(clock), ..Default::default() };
    let options = VolumeOptions { session, ..Default::default() };
    let volume = MaintainedVolume::open_without_tasks(options, store, blocks).await.unwrap();
    make_bucket(&volume).await;
    set(&volume, Versioning::Enabled).await;
    let version = publish(&volume, b"k", 7).await.unwrap().version.unwrap();
    let retention = Some(RetainUntil { mode, until: UNTIL });
    let change = ObjectChange::Retention { retention, bypasses_governance: false };
    volume.change_object("b", b"k", Some(version), None, change).await.unwrap();
    (volume, version)
}

const UNTIL: Timestamp = Timestamp(2_000_000);

#[tokio::test]
async fn a_clock_set_forward_ends_no_retention() {
    for mode in [RetentionMode::Governance, RetentionMode::Compliance] {
        let clock = Arc::new(SetClock::new(Timestamp(1_000_000)));
        let (volume, version) = retained(&clock, mode).await;
        let is_locked = async || {
            let removed = volume.delete_version("b", b"k", version, false).await;
            let weaker = ObjectChange::Retention { retention: None, bypasses_governance: false };
            let weakened = volume.change_object("b", b"k", Some(version), None, weaker).await;
            let locked = |error: Option<VolumeError>| {
                matches!(error, Some(VolumeError::Fs(FsError::Locked)))
            };
            (locked(removed.err()), locked(weakened.err()))
        };
        assert_eq!(is_locked().await, (true, true));
        clock.jump(Timestamp(i64::MAX / 2));
        assert_eq!(volume.now(), Timestamp(i64::MAX / 2), "the clock was not set");
        assert_eq!(is_locked().await, (true, true), "{mode:?}");
        // A clock that is set back holds it for longer.
        clock.set(UNTIL);
        clock.jump(Timestamp(UNTIL.0 - 1));
        assert_eq!(is_locked().await, (true, true));
        clock.set(UNTIL);
        assert!(volume.delete_version("b", b"k", version, false).await.unwrap().existed);
        volume.close().await;
    }
}

/// A default that is set or changed while an upload is open covers its object, and its days begin
/// when the upload is completed.
#[tokio::test]
async fn a_completed_upload_has_the_default_retention_of_its_completion() {
    let clock = Arc::new(SetClock::new(Timestamp(1_000_000)));
    let (volume, _) = retained(&clock, RetentionMode::Governance).await;
    let config = BucketConfig { bytes: b"<ObjectLockConfiguration/>"[..].into() };
    for days in [None, Some(1), Some(30)] {
        let id = upload(&volume, b"big").await;
        part(&volume, b"big", id, 1).await;
        let default = days.map(|days| RetentionDefault { mode: RetentionMode::Compliance, days });
        volume.set_object_lock("b", &config, default).await.unwrap();
        clock.set(Timestamp(volume.now().0 + 5_000_000_000));
        let parts = [CompletePart { number: 1, tag: Tag::Md5([9; 16]), sums: Vec::new() }];
        let wanted =
            CompleteUpload { parts: &parts, object_size: None, condition: WriteCondition::None };
        let finish = |_: &_, _: &[_]| Ok::<_, VolumeError>(finished(Tag::Multipart([3; 16], 1)));
        let completed = volume.complete("b", b"big", id, wanted, finish).await.unwrap();
        let object = volume.stat("b", b"big").await.unwrap();
        let expected = default.map(|default| default.beginning(completed.changed));
        assert_eq!(object.file().object.lock.retention, expected, "{days:?}");
    }
    volume.close().await;
}

#[test]
fn a_lock_holds_until_its_retention_ends() {
    let retention = Some(RetainUntil { mode: RetentionMode::Compliance, until: UNTIL });
    let lock = ObjectLock { retention, legal_hold: None };
    assert!(lock.holds(Timestamp(UNTIL.0 - 1), true) && !lock.holds(UNTIL, false));
}
