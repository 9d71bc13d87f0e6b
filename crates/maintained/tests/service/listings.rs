//! Listings of a volume that is alone: round trips of the first listing and of later ones.

use std::time::{Duration, Instant};

use maintained::MaintainedVolume;
use record::Versioning;
use volume::{
    BucketChange, ListQuery, Listing, NewBucket, RoundTrips, VersionsQuery, Volume,
    count_round_trips,
};

use super::deep::Place;
use super::{bytes, owner, put};

/// Keys in the listed directory.
const KEYS: usize = 25;

/// Time in which the session finds out that it is alone.
const FOUND_OUT: Duration = Duration::from_secs(10);

/// A volume without cached records that is alone. Another session has made its keys.
async fn cold() -> (Place, MaintainedVolume) {
    let place = Place::default();
    let first = place.open().await;
    first.create_bucket("bkt", &NewBucket::owned_by(&owner())).await.unwrap();
    for key in 0..KEYS {
        put(&first, &format!("a/b/{key:04}"), &bytes(10, 0)).await.unwrap();
    }
    put(&first, "a/c/x", &bytes(10, 0)).await.unwrap();
    put(&first, "known", &bytes(10, 0)).await.unwrap();
    first.close().await;
    let volume = place.open().await;
    let until = Instant::now() + FOUND_OUT;
    loop {
        let (found, cost) = count_round_trips(volume.stat("bkt", b"known")).await;
        found.unwrap();
        if cost == RoundTrips::default() {
            return (place, volume);
        }
        assert!(Instant::now() < until, "it does not find out that it is alone");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn query(prefix: &str, delimiter: bool, limit: usize) -> ListQuery {
    let delimiter = delimiter.then(|| b"/".to_vec());
    ListQuery { prefix: prefix.as_bytes().to_vec(), delimiter, after: None, limit }
}

/// Reads all pages of a listing. Returns the keys and the reads of the metadata store of each page.
async fn pages(volume: &Volume, mut query: ListQuery) -> (Vec<String>, Vec<u64>) {
    let (mut keys, mut costs) = (Vec::new(), Vec::new());
    loop {
        let (page, cost) = count_round_trips(volume.list("bkt", query.clone())).await;
        let Listing { entries, truncated } = page.unwrap();
        assert_eq!(cost.commits, 0);
        costs.push(cost.reads);
        query.after = entries.last().map(|entry| entry.key().to_vec());
        keys.extend(entries.iter().map(|entry| String::from_utf8_lossy(entry.key()).into_owned()));
        if !truncated {
            return (keys, costs);
        }
    }
}

async fn cost(volume: &Volume, query: ListQuery) -> (usize, u64) {
    let (keys, costs) = pages(volume, query).await;
    (keys.len(), costs.iter().sum())
}

#[tokio::test]
async fn a_second_listing_costs_no_round_trip() {
    let (_place, volume) = cold().await;
    let folder = || query("a/b/", true, 1_000);
    assert_eq!(cost(&volume, folder()).await, (KEYS, 3), "the directories above are read first");
    assert_eq!(cost(&volume, folder()).await, (KEYS, 0));
    assert_eq!(cost(&volume, query("a/b/00", false, 1_000)).await, (KEYS, 0), "a prefix");
    let (_, trips) = count_round_trips(volume.stat("bkt", b"a/b/missing")).await;
    assert_eq!(trips.reads, 0, "a missing name");
    let everything = || query("", false, 1_000);
    // The bucket, then `a`, then `a/c` together with `a/b`.
    assert_eq!(cost(&volume, everything()).await, (KEYS + 2, 3));
    assert_eq!(cost(&volume, everything()).await, (KEYS + 2, 0));
    assert_eq!(cost(&volume, query("", true, 1_000)).await, (2, 0), "common prefixes");
    assert_eq!(cost(&volume, query("a/", true, 1_000)).await, (2, 0), "common prefixes");
}

#[tokio::test]
async fn each_page_is_read_once() {
    let (_place, volume) = cold().await;
    let paged = || query("a/b/", true, 10);
    let (keys, costs) = pages(&volume, paged()).await;
    assert_eq!((keys.len(), costs), (KEYS, vec![3, 1, 1]));
    assert_eq!(pages(&volume, paged()).await, (keys, vec![0, 0, 0]));
    assert_eq!(cost(&volume, query("a/b/", false, 1_000)).await, (KEYS, 0));
    // Common prefixes of another delimiter are skipped, so the walk reads many short pages.
    let halves = ListQuery { delimiter: Some(b"1".to_vec()), ..query("a/b/", false, 1_000) };
    let (keys, costs) = pages(&volume, halves).await;
    assert_eq!((keys.len(), costs.iter().sum::<u64>()), (16, 0), "{keys:?}");
}

#[tokio::test]
async fn listings_after_changes_of_this_session_cost_no_round_trip() {
    let (_place, volume) = cold().await;
    let folder = || query("a/b/", true, 1_000);
    cost(&volume, folder()).await;
    put(&volume, "a/b/new", &bytes(10, 0)).await.unwrap();
    assert_eq!(cost(&volume, folder()).await, (KEYS + 1, 0), "a new object");
    put(&volume, "a/b/0003", &bytes(77, 0)).await.unwrap();
    let (page, trips) = count_round_trips(volume.list("bkt", folder())).await;
    assert_eq!(trips.reads, 0, "an overwrite");
    let sizes: Vec<u64> = page
        .unwrap()
        .entries
        .iter()
        .map(|entry| match entry {
            volume::ListEntry::Object { inode, .. } => volume::size_and_tag(inode).0,
            volume::ListEntry::Prefix(prefix) => panic!("{prefix:?} is no object"),
        })
        .collect();
    assert_eq!(sizes[2..5], [10, 77, 10]);
    volume.delete("bkt", vec![(b"a/b/0004".to_vec(), None)]).await.unwrap();
    assert_eq!(cost(&volume, folder()).await, (KEYS, 0), "a deletion");
}

#[tokio::test]
async fn listings_of_versions_read_current_objects_from_memory() {
    let (_place, volume) = cold().await;
    let all =
        VersionsQuery { prefix: b"a/b/".to_vec(), delimiter: None, after: None, limit: 1_000 };
    cost(&volume, query("a/b/", true, 1_000)).await;
    let (page, trips) = count_round_trips(volume.list_versions(b"bkt".into(), &all)).await;
    assert_eq!((page.unwrap().entries.len(), trips.reads), (KEYS, 0), "no versions are kept");
    volume.set_bucket("bkt", BucketChange::Versioning(Versioning::Enabled)).await.unwrap();
    put(&volume, "a/b/0003", &bytes(77, 0)).await.unwrap();
    assert_eq!(cost(&volume, query("a/b/", true, 1_000)).await, (KEYS, 0), "current versions");
    let (page, trips) = count_round_trips(volume.list_versions(b"bkt".into(), &all)).await;
    // The noncurrent versions are read before the current ones and after them.
    assert_eq!((page.unwrap().entries.len(), trips.reads), (KEYS + 1, 2));
}
