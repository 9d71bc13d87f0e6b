//! Passes over a volume in memory: many pages, several processes, and an interrupted pass.

mod noncurrent;
mod progress;
mod tags;
mod trash;

use block::MemoryBlocks;
use record::{AccountId, ObjectHeaders, Tag, Timestamp, Versioning};
use store::MemoryStore;
use volume::{FileOwner, NewBucket, NewObject, VolumeOptions, WriteCondition};

use super::*;

fn owner() -> FileOwner {
    let (access_key, account) = ("anna".to_owned(), AccountId::MAIN);
    FileOwner { access_key, account, writer: None, uid: 1, gid: 1, umask: 0o022 }
}

/// A volume with the bucket `bkt` and its lifecycle rules.
struct World {
    volume: Arc<Volume>,
}

impl World {
    async fn new(versioning: Versioning, rules: &str) -> World {
        let (store, blocks) = (Arc::new(MemoryStore::new()), Arc::new(MemoryBlocks::new()));
        let volume = Volume::open(VolumeOptions::default(), store, blocks).await.unwrap();
        let owner = owner();
        let new = NewBucket { versioning, ..NewBucket::owned_by(&owner) };
        volume.create_bucket("bkt", &new).await.unwrap();
        let world = World { volume };
        world.set(rules).await;
        world
    }

    async fn set(&self, rules: &str) {
        self.set_in("bkt", rules).await;
    }

    async fn set_in(&self, bucket: &str, rules: &str) {
        let text = format!("<LifecycleConfiguration>{rules}</LifecycleConfiguration>");
        let config = BucketConfig { bytes: text.into_bytes().into() };
        let kind = BucketConfigKind::Lifecycle;
        self.volume.set_bucket_config(bucket, kind, Some(&config)).await.unwrap();
    }

    async fn put(&self, key: &str) {
        let body = self.volume.writer(None, Some(0)).finish().await.unwrap();
        let (headers, tag) = (ObjectHeaders::default(), Tag::Md5([0; 16]));
        let new = NewObject { owner: owner(), headers, tag, sums: Vec::new(), encryption: None };
        let put = self.volume.put("bkt", key.as_bytes(), body, new, WriteCondition::None);
        put.await.unwrap();
    }

    fn follower(&self, day: Duration) -> Lifecycle {
        let options = LifecycleOptions { day, ..LifecycleOptions::default() };
        Lifecycle::new(Arc::clone(&self.volume), Arc::new(RulesCache::new()), options)
    }

    /// Returns the keys of all versions, and for each if it is the newest of its key.
    async fn remaining(&self) -> Vec<(String, bool)> {
        let (mut left, mut after) = (Vec::new(), None);
        loop {
            let query = volume::VersionsQuery {
                prefix: Vec::new(),
                delimiter: None,
                after: after.take(),
                limit: 1_000,
            };
            let page = self.volume.list_versions("bkt".into(), &query).await.unwrap();
            for entry in page.entries {
                let volume::VersionsEntry::Version { key, version, is_latest, .. } = entry else {
                    panic!("nothing is rolled up")
                };
                left.push((String::from_utf8(key.clone()).unwrap(), is_latest));
                after = Some((key, Some(version)));
            }
            if !page.truncated {
                return left;
            }
        }
    }
}

fn rule(prefix: &str, actions: &str) -> String {
    format!(
        "<Rule><ID>{prefix}</ID><Status>Enabled</Status><Filter><Prefix>{prefix}</Prefix></Filter>\
         {actions}</Rule>"
    )
}

/// An action that is due for each object.
const GOES: &str = "<Expiration><Date>2020-01-01T00:00:00Z</Date></Expiration>";

const DAY: Duration = Duration::from_hours(24);

#[tokio::test]
async fn newer_noncurrent_versions_are_kept_across_pages() {
    const SPARED: usize = 3;
    let spares = "<NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays>\
                  <NewerNoncurrentVersions>3</NewerNoncurrentVersions>\
                  </NoncurrentVersionExpiration>";
    let world = World::new(Versioning::Enabled, &rule("k", spares)).await;
    for _ in 0..2_300 {
        world.put("k/many").await;
    }
    for _ in 0..3 {
        world.put("k/few").await;
        world.put("other").await;
    }
    // Several days of 1 ms pass.
    let day = Duration::from_millis(1);
    tokio::time::sleep(10 * day).await;
    let follower = world.follower(day);
    follower.follow_now().await.unwrap();
    let left = world.remaining().await;
    let count = |key: &str| left.iter().filter(|(other, _)| other == key).count();
    assert_eq!((count("k/many"), count("k/few"), count("other")), (1 + SPARED, 3, 3));
    let counters = follower.counters();
    assert_eq!((counters.noncurrent, counters.expired, counters.failures), (2_299 - 3, 0, 0));
}

#[tokio::test]
async fn several_processes_do_a_pass_once() {
    let world = World::new(Versioning::Off, &rule("goes/", GOES)).await;
    for number in 0..2_500 {
        world.put(&format!("goes/{number}")).await;
        if number % 10 == 0 {
            world.put(&format!("stays/{number}")).await;
        }
    }
    let followers = [world.follower(DAY), world.follower(DAY), world.follower(DAY)];
    let followed = futures::future::join_all(followers.iter().map(Lifecycle::follow_now)).await;
    followed.into_iter().for_each(|followed| followed.unwrap());
    let left = world.remaining().await;
    assert_eq!(left.len(), 250);
    assert!(left.iter().all(|(key, is_latest)| key.starts_with("stays/") && *is_latest));
    let sum = |of: fn(LifecycleCounters) -> u64| -> u64 {
        followers.iter().map(|follower| of(follower.counters())).sum()
    };
    assert_eq!((sum(|seen| seen.expired), sum(|seen| seen.failures)), (2_500, 0));
    assert_eq!(sum(|seen| seen.passes), 1);
    // On this day no further pass begins until the rules change.
    world.put("goes/late").await;
    followers[1].follow_now().await.unwrap();
    assert_eq!(world.remaining().await.len(), 251);
    world.set(&rule("goes/", GOES)).await;
    followers[1].follow_now().await.unwrap();
    assert_eq!(world.remaining().await.len(), 250);
}

#[tokio::test]
async fn a_process_continues_an_interrupted_pass() {
    let world = World::new(Versioning::Enabled, &rule("goes/", GOES)).await;
    for number in 0..2_500 {
        world.put(&format!("goes/{number:04}")).await;
    }
    // The record of a pass whose process stopped after the first half.
    let noted = LifecyclePass {
        configs_version: world.volume.bucket("bkt").await.unwrap().bucket.configs_version,
        day: day_of(world.volume.now(), DAY),
        position: PassPosition::KeysAfter(Some(b"goes/1249".to_vec())),
    };
    let config = noted.to_config();
    assert!(world.volume.save_lifecycle_position("bkt".into(), None, &config).await.unwrap());
    assert!(
        !world.volume.save_lifecycle_position("bkt".into(), None, &config).await.unwrap(),
        "one was noted"
    );
    let follower = world.follower(DAY);
    follower.follow_now().await.unwrap();
    let counters = follower.counters();
    assert_eq!((counters.expired, counters.passes), (1_250, 1));
    // Each expired object is hidden behind a delete marker.
    let left = world.remaining().await;
    assert_eq!(left.len(), 2_500 + 1_250);
    assert!(left.iter().all(|(key, is_latest)| *is_latest || &key[..] > "goes/1249"));
}
