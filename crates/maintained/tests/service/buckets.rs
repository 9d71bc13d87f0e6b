//! Settings of buckets.

use std::sync::Arc;

use block::MemoryBlocks;
use maintained::MaintainedVolume;
use record::Ino;
use store::MemoryStore;
use upkeep::{NoProgress, fsck};
use volume::{FsError, Usage, VolumeError, VolumeOptions, count_round_trips};

use super::{bytes, owner, put, volume};

fn tags(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[tokio::test]
async fn tags_of_a_bucket_are_set_replaced_and_removed() {
    let volume = volume().await;
    assert_eq!(volume.bucket_tags("bkt").await.unwrap(), []);
    for list in [tags(&[("a", "1"), ("größe", "")]), tags(&[("b", "2")]), tags(&[])] {
        let (set, trips) = count_round_trips(volume.set_bucket_tags("bkt", &list)).await;
        set.unwrap();
        assert_eq!((trips.reads, trips.commits), (0, 1));
        let (found, trips) = count_round_trips(volume.bucket_tags("bkt")).await;
        assert_eq!((found.unwrap(), trips.reads), (list, 1));
    }
    let absent = VolumeError::Fs(FsError::NoSuchBucket).to_string();
    assert_eq!(volume.bucket_tags("other").await.unwrap_err().to_string(), absent);
    let set = volume.set_bucket_tags("other", &tags(&[("a", "1")])).await;
    assert_eq!(set.unwrap_err().to_string(), absent);
}

#[tokio::test]
async fn a_bucket_of_the_same_name_does_not_inherit_tags() {
    let (store, blocks) = (Arc::new(MemoryStore::new()), Arc::new(MemoryBlocks::new()));
    let volume =
        MaintainedVolume::open(VolumeOptions::default(), None, store.clone(), blocks.clone()).await;
    let volume = volume.unwrap();
    volume.create_bucket("bkt", &volume::NewBucket::owned_by(&owner())).await.unwrap();
    volume.set_bucket_tags("bkt", &tags(&[("a", "1")])).await.unwrap();
    volume.delete_bucket("bkt").await.unwrap();
    assert!(volume.bucket_tags("bkt").await.is_err());
    assert!(volume.set_bucket_tags("bkt", &tags(&[("a", "1")])).await.is_err());
    volume.create_bucket("bkt", &volume::NewBucket::owned_by(&owner())).await.unwrap();
    assert_eq!(volume.bucket_tags("bkt").await.unwrap(), []);
    let report = fsck(store, blocks, &NoProgress).await.unwrap();
    assert_eq!(report.findings, [], "nothing is left of the bucket before");
}

/// Two gateways, of which one removes the bucket that the other one remembers.
#[tokio::test]
async fn a_bucket_removed_by_another_client_gets_no_tags() {
    let (store, blocks) = (Arc::new(MemoryStore::new()), Arc::new(MemoryBlocks::new()));
    let open =
        || MaintainedVolume::open(VolumeOptions::default(), None, store.clone(), blocks.clone());
    let (one, other) = (open().await.unwrap(), open().await.unwrap());
    one.create_bucket("bkt", &volume::NewBucket::owned_by(&owner())).await.unwrap();
    one.set_bucket_tags("bkt", &tags(&[("a", "1")])).await.unwrap();
    assert_eq!(other.bucket_tags("bkt").await.unwrap(), tags(&[("a", "1")]));
    one.set_bucket_tags("bkt", &tags(&[("a", "2")])).await.unwrap();
    assert_eq!(other.bucket_tags("bkt").await.unwrap(), tags(&[("a", "2")]));
    one.delete_bucket("bkt").await.unwrap();
    let late = other.set_bucket_tags("bkt", &tags(&[("a", "3")])).await;
    assert!(matches!(late, Err(VolumeError::Fs(FsError::NoSuchBucket))), "{late:?}");
    let report = fsck(store, blocks, &NoProgress).await.unwrap();
    assert_eq!(report.findings, []);
}

#[tokio::test]
async fn holdings_equal_the_counters_of_the_volume() {
    let volume = volume().await;
    volume.create_bucket("other", &volume::NewBucket::owned_by(&owner())).await.unwrap();
    let (first, second) = (bytes(10_000, 1), bytes(100, 2));
    put(&volume, "a/b", &first).await.unwrap();
    put(&volume, "c", &second).await.unwrap();
    let bucket = volume.bucket("bkt").await.unwrap().ino;
    let (held, trips) = count_round_trips(volume.holdings(bucket)).await;
    assert_eq!((held.unwrap(), trips.reads), (Usage { bytes: 10_100, names: 3 }, 1));
    let (held, trips) = count_round_trips(volume.holdings(Ino::ROOT)).await;
    assert_eq!((held.unwrap(), trips.reads), (Usage { bytes: 10_100, names: 4 }, 2));
    volume.delete("bkt", vec![(b"a/b".to_vec(), None)]).await.unwrap();
    volume.upkeep().reap_now().await.unwrap();
    assert_eq!(volume.holdings(bucket).await.unwrap(), Usage { bytes: 100, names: 2 });
}
