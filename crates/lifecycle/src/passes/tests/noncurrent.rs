//! The days of a noncurrent version count from the time at which another version replaced it.

use volume::{
    BucketChange, FileWrite, FsError, NodeName, Note, RenameMode, SessionOptions, SetClock,
    VersionsEntry, VersionsQuery,
};

use super::*;

const RULE: &str = "<NoncurrentVersionExpiration><NoncurrentDays>30</NoncurrentDays>\
                    </NoncurrentVersionExpiration>";

/// A fixture whose test sets the clock, in days.
struct Days {
    world: World,
    clock: Arc<SetClock>,
    follower: Lifecycle,
}

impl Days {
    async fn new() -> Days {
        let (store, blocks) = (Arc::new(MemoryStore::new()), Arc::new(MemoryBlocks::new()));
        let clock = Arc::new(SetClock::new(time(1)));
        let session = SessionOptions { clock: clock.clone(), ..SessionOptions::default() };
        let options = VolumeOptions { session, ..VolumeOptions::default() };
        let volume = Volume::open(options, store, blocks).await.unwrap();
        volume.create_bucket("bkt", &NewBucket::owned_by(&owner())).await.unwrap();
        let on = BucketChange::Versioning(Versioning::Enabled);
        volume.set_bucket("bkt", on).await.unwrap();
        let world = World { volume };
        world.set(&rule("site/", RULE)).await;
        let follower = world.follower(DAY);
        Days { world, clock, follower }
    }

    /// Deletes the current version of a key, so that a delete marker is added.
    async fn delete(&self, key: &str) {
        let keys = vec![(key.as_bytes().to_vec(), None)];
        self.world.volume.delete("bkt", keys).await.unwrap().remove(0).unwrap();
    }

    /// Moves a directory of the bucket, as a program does.
    async fn move_directory(&self, from: &str, to: &str) {
        let volume = &self.world.volume;
        let directory = volume.bucket("bkt").await.unwrap().ino;
        let name = |name: &str| NodeName { directory, name: name.into() };
        let (note, from, to) = (Note::none(), name(from), name(to));
        volume.journaled(&note).rename_node(&from, &to, RenameMode::Replace).await.unwrap();
    }

    /// Runs the pass of a day. Returns the number of remaining versions of the key, markers
    /// included.
    async fn pass(&self, day: i64) -> usize {
        self.clock.set(time(day));
        self.follower.follow_now().await.unwrap();
        let (prefix, limit) = (b"site/i".to_vec(), 100);
        let query = VersionsQuery { prefix, delimiter: None, after: None, limit };
        let page = self.world.volume.list_versions("bkt".into(), &query).await.unwrap();
        assert!(page.entries.iter().all(|it| matches!(it, VersionsEntry::Version { .. })));
        page.entries.len()
    }

    fn set_day(&self, day: i64) {
        self.clock.set(time(day));
    }
}

fn time(day: i64) -> Timestamp {
    let day_nanoseconds = i64::try_from(DAY.as_nanos()).unwrap();
    Timestamp((1_000 + day) * day_nanoseconds + day_nanoseconds / 2)
}

/// A moved directory contains a version that is older than the delete marker of its new key. When
/// this version is replaced, it stays below the marker, and its days begin.
#[tokio::test]
async fn a_version_moved_with_its_directory_keeps_its_days() {
    let days = Days::new().await;
    days.world.put("site.new/i").await;
    days.world.put("site/i").await;
    days.set_day(2);
    days.delete("site/i").await;
    days.move_directory("site.new", "site").await;
    days.set_day(40);
    days.world.put("site/i").await;
    // The version that was deleted on day 2 is removed.
    assert_eq!(days.pass(41).await, 3, "the version that was current until day 40 stays");
    assert_eq!(days.pass(69).await, 3);
    assert_eq!(days.pass(72).await, 1, "the marker and that version go after their 30 days");
}

/// A program that writes to the current version changes its time. The days of the version that it
/// replaced do not restart.
#[tokio::test]
async fn writes_to_the_current_version_do_not_keep_noncurrent_ones() {
    let days = Days::new().await;
    days.world.put("site/i").await;
    days.world.put("site/i").await;
    let volume = &days.world.volume;
    let current = volume.stat("bkt", b"site/i").await.unwrap();
    let directory = volume.bucket("bkt").await.unwrap().ino;
    let site = volume.find_name(&NodeName { directory, name: b"site".to_vec() }).await.unwrap();
    let name = NodeName { directory: site.ino, name: b"i".to_vec() };
    for day in 2..40 {
        days.set_day(day);
        let write = FileWrite::new(current.ino, Some(&name));
        volume.truncate(write, u64::try_from(day).unwrap()).await.unwrap();
    }
    let changed = volume.stat("bkt", b"site/i").await.unwrap().changed();
    assert!(changed > time(38), "the writes have changed its time");
    assert_eq!(days.pass(40).await, 1, "the noncurrent version goes");
}

/// A directory moves away with the current version of a key. Its noncurrent versions stay under the
/// key: an object, a marker, and an older object. When all are due, the marker becomes the latest
/// version, so it stays, and the older object does not become current again. The next pass removes
/// the marker, because it hides nothing.
#[tokio::test]
async fn deleted_object_does_not_return_when_the_versions_above_it_expire() {
    for page in [1, 2, 1_000] {
        let mut days = Days::new().await;
        let options = LifecycleOptions { day: DAY, page };
        let (volume, rules) = (Arc::clone(&days.world.volume), Arc::new(RulesCache::new()));
        days.follower = Lifecycle::new(volume, rules, options);
        days.world.put("site/i").await;
        days.delete("site/i").await;
        days.world.put("site/i").await;
        days.world.put("site/i").await;
        days.move_directory("site", "old").await;
        assert_eq!(days.pass(2).await, 3, "nothing is due");
        assert_eq!(days.pass(40).await, 1, "{page} a page: only the marker stays");
        let found = days.world.volume.stat("bkt", b"site/i").await;
        assert!(matches!(found, Err(VolumeError::Fs(FsError::Deleted(_)))), "{page}: {found:?}");
        let markers = "<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker>\
                       </Expiration>";
        days.world.set(&rule("site/", markers)).await;
        assert_eq!(days.pass(41).await, 0, "{page} a page: the marker goes");
    }
}
