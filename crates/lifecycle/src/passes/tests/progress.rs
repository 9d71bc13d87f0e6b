//! A pass ends even if its pages have few entries, and one bucket does not block the others.

use record::VersionStamp;
use volume::{BucketChange, SessionOptions, SetClock, VersionRef};

use super::*;

/// More directories than one page of a listing reads after its first entry.
const LEVELS: usize = 120;

/// Creates a key below this number of directories. Each was made separately, so the listing reads
/// each one separately.
async fn grow(world: &World) -> String {
    let key = |levels: usize| format!("{}k", "d/".repeat(levels));
    for levels in 1..=LEVELS {
        world.put(&key(levels)).await;
    }
    let removals = (1..LEVELS).map(|levels| (key(levels).into_bytes(), None)).collect();
    world.volume.delete("bkt", removals).await.unwrap();
    key(LEVELS)
}

/// Does the pages of a pass, asserts that each makes progress, and returns their number.
async fn walk(world: &World, follower: &Lifecycle, limit: usize) -> usize {
    let name = BucketName::parse("bkt").unwrap();
    let rules = follower.rules.get(&world.volume, &name).await.unwrap();
    let (mut walk, mut pages) = (Walk::after_key(None), 0);
    let versions = world.remaining().await.len();
    loop {
        let page = Page { limit, ..follower.page(b"bkt".into(), &rules) };
        let before = walk.position();
        let more = page.expire(&mut walk).await.unwrap();
        pages += 1;
        assert!(pages <= versions.max(1), "{pages} pages for {versions} versions");
        if !more {
            return pages;
        }
        assert!(walk.position() > before, "page {pages} of {limit} entries is no progress");
    }
}

#[tokio::test]
async fn a_page_with_one_entry_moves_the_pass_forward() {
    let world = World::new(Versioning::Off, &rule("z", GOES)).await;
    // Two rules with different prefixes make the pass begin at the first key.
    world.set(&[rule("z", GOES), rule("none", GOES)].concat()).await;
    world.put("a").await;
    let deep = grow(&world).await;
    world.put("z/expires").await;
    let query =
        volume::VersionsQuery { prefix: Vec::new(), delimiter: None, after: None, limit: 9 };
    let page = world.volume.list_versions("bkt".into(), &query).await.unwrap();
    assert!(page.truncated && page.entries.len() == 1, "a page has one entry of three");
    let follower = world.follower(DAY);
    let ended = tokio::time::timeout(Duration::from_mins(1), follower.follow_now()).await;
    ended.expect("the pass ends").unwrap();
    assert_eq!(world.remaining().await, [("a".to_owned(), true), (deep, true)]);
    assert_eq!(follower.counters().passes, 1);
}

#[tokio::test]
async fn every_page_size_ends_a_pass_with_the_same_result() {
    let goes = "<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>\
                <NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays>\
                <NewerNoncurrentVersions>2</NewerNoncurrentVersions></NoncurrentVersionExpiration>";
    let mut results = Vec::new();
    for limit in [1, 2, 3, 5, 1_000] {
        let world = World::new(Versioning::Enabled, &rule("", goes)).await;
        grow(&world).await;
        for number in 0..5 {
            for key in ["a", "b/c", "z"] {
                world.put(key).await;
                // One of the versions is the null version.
                let suspended = number == 2;
                let to = if suspended { Versioning::Suspended } else { Versioning::Enabled };
                world.volume.set_bucket("bkt", BucketChange::Versioning(to)).await.unwrap();
            }
        }
        for key in ["b/c", "gone"] {
            world.volume.delete("bkt", vec![(key.into(), None)]).await.unwrap();
        }
        let day = Duration::from_millis(1);
        tokio::time::sleep(10 * day).await;
        let follower = world.follower(day);
        walk(&world, &follower, limit).await;
        // A marker that hides no version is removed; one that hides versions stays, for each page
        // size.
        let left = world.remaining().await;
        assert!(!left.iter().any(|(key, _)| key == "gone"), "limit {limit}");
        results.push((limit, left));
    }
    let (_, wanted) = results.last().unwrap().clone();
    assert_eq!(
        wanted.iter().filter(|(key, _)| key == "b/c").count(),
        3,
        "a marker and two versions"
    );
    for (limit, left) in results {
        assert_eq!(left, wanted, "limit {limit}");
    }
}

#[tokio::test]
async fn a_large_bucket_does_not_block_the_next_bucket() {
    let world = World::new(Versioning::Off, &rule("goes/", GOES)).await;
    for number in 0..(TURN_PAGES + 4) * LifecycleOptions::default().page {
        world.put(&format!("goes/{number}")).await;
    }
    world.volume.create_bucket("later", &NewBucket::owned_by(&owner())).await.unwrap();
    world.set_in("later", &rule("", GOES)).await;
    let follower = world.follower(DAY);
    assert_eq!(follower.give_turns().await.unwrap(), Turn::Paused);
    let counters = follower.counters();
    assert_eq!((counters.passes, counters.failures), (1, 0), "the pass over `later` is done");
    assert!(!world.remaining().await.is_empty(), "that over `bkt` is not");
    follower.follow_now().await.unwrap();
    assert_eq!(follower.counters().passes, 2);
    assert!(world.remaining().await.is_empty());
}

/// First a process starts with a clock ten days ahead, then one with the right clock.
#[tokio::test]
async fn a_recorded_future_day_does_not_stop_expiry_and_trash() {
    const HOUR: i64 = 3_600_000_000_000;
    let (store, blocks) = (Arc::new(MemoryStore::new()), Arc::new(MemoryBlocks::new()));
    let begun = Timestamp((1_000 * 24 + 1) * HOUR);
    let open = async |now: i64| {
        let clock: Arc<SetClock> = Arc::new(SetClock::new(Timestamp(now)));
        let session = SessionOptions { clock: clock.clone(), ..SessionOptions::default() };
        let options = VolumeOptions { session, ..VolumeOptions::default() };
        (clock, Volume::open(options, store.clone(), blocks.clone()).await.unwrap())
    };
    let (clock, volume) = open(begun.0).await;
    volume.create_bucket("bkt", &NewBucket::owned_by(&owner())).await.unwrap();
    let world = World { volume };
    let expires = "<Expiration><Days>1</Days></Expiration>";
    world.set(&rule("t/", expires)).await;
    let right = world.follower(DAY);
    right.follow_now().await.unwrap();

    let (_, volume) = open(begun.0 + 240 * HOUR).await;
    let ahead = World { volume };
    ahead.follower(DAY).follow_now().await.unwrap();
    let kind = BucketConfigKind::LifecyclePass;
    let noted = world.volume.bucket_config("bkt", kind).await.unwrap().unwrap();
    let noted = LifecyclePass::of_config(&noted).unwrap();
    assert_eq!(noted.day, 1_010, "the day of the future is recorded");

    world.put("t/x").await;
    clock.set(Timestamp(begun.0 + 46 * HOUR));
    right.follow_now().await.unwrap();
    assert_eq!(world.remaining().await.len(), 1, "the object is not due before midnight");
    clock.set(Timestamp(begun.0 + 48 * HOUR));
    right.follow_now().await.unwrap();
    assert!(world.remaining().await.is_empty(), "the object expires on its day");
}

/// A comparable position among versions.
type Position = Option<(Vec<u8>, std::cmp::Reverse<VersionStamp>)>;

impl Walk {
    fn position(&self) -> Position {
        let newest = VersionStamp([u8::MAX; VersionStamp::BYTES]);
        let stamp = |version: &Option<VersionRef>| match version {
            Some(VersionRef::Id(id)) => *id,
            Some(VersionRef::Null) | None => newest,
        };
        self.after.as_ref().map(|(key, version)| (key.clone(), std::cmp::Reverse(stamp(version))))
    }
}
