//! Keys below very many directories, served by a volume that remembers none of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use block::MemoryBlocks;
use maintained::MaintainedVolume;
use store::MemoryStore;
use volume::{
    FsError, ListQuery, SessionOptions, Volume, VolumeError, VolumeOptions, WriteCondition,
    count_round_trips,
};

use super::{bytes, get, owner, put, put_if};

/// Directories above the keys of these tests.
const LEVELS: usize = 60;

#[derive(Debug, Default)]
pub(super) struct Place {
    store: Arc<MemoryStore>,
    blocks: Arc<MemoryBlocks>,
}

impl Place {
    /// A volume with an empty cache, which is authoritative.
    pub(super) async fn open(&self) -> MaintainedVolume {
        let options = VolumeOptions {
            session: SessionOptions { authoritative_reads: true, ..SessionOptions::default() },
            ..VolumeOptions::default()
        };
        MaintainedVolume::open(options, None, self.store.clone(), self.blocks.clone())
            .await
            .unwrap()
    }
}

fn everything() -> ListQuery {
    ListQuery { prefix: Vec::new(), delimiter: None, after: None, limit: 1_000 }
}

fn below(levels: usize) -> String {
    format!("{}x", "d/".repeat(levels))
}

fn removals(keys: &[String]) -> Vec<(Vec<u8>, Option<volume::RemoveCondition>)> {
    keys.iter().map(|key| (key.clone().into_bytes(), None)).collect()
}

async fn remove(volume: &Volume, keys: &[String]) -> usize {
    let removed = volume.delete("bkt", removals(keys)).await.unwrap();
    removed.into_iter().filter(|removed| removed.as_ref().unwrap().existed).count()
}

/// A key below directories that PUTs made one by one, so their inode numbers cannot be guessed.
async fn grow(volume: &Volume) -> String {
    let keys: Vec<String> = (1..=LEVELS).map(below).collect();
    for key in &keys {
        put(volume, key, &bytes(10, 0)).await.unwrap();
    }
    assert_eq!(remove(volume, &keys[..LEVELS - 1]).await, LEVELS - 1);
    keys[LEVELS - 1].clone()
}

/// One read for each of the directories, for the bucket and for the name.
const ONE_A_LEVEL: u64 = LEVELS as u64 + 2;

/// As the only session and beside a peer: then all that is answered is read.
#[tokio::test]
async fn a_key_below_sixty_uncached_directories_costs_one_read_a_level() {
    for peer in [false, true] {
        let place = Place::default();
        let first = place.open().await;
        first.create_bucket("bkt", &volume::NewBucket::owned_by(&owner())).await.unwrap();
        let key = grow(&first).await;
        let first = if peer {
            Some(first)
        } else {
            first.close().await;
            None
        };

        let cold = place.open().await;
        let (found, trips) = count_round_trips(cold.stat("bkt", key.as_bytes())).await;
        assert_eq!(found.unwrap().size(), 10);
        assert!((10..=ONE_A_LEVEL).contains(&trips.reads), "{trips:?}, peer: {peer}");
        assert_eq!(get(&cold, &key).await, bytes(10, 0));
        cold.close().await;

        let cold = place.open().await;
        let missing = format!("{key}-not");
        let (missing, trips) = count_round_trips(cold.stat("bkt", missing.as_bytes())).await;
        assert!(matches!(missing, Err(VolumeError::Fs(FsError::NoSuchKey))), "{missing:?}");
        assert!(trips.reads <= ONE_A_LEVEL, "{trips:?}, peer: {peer}");
        cold.close().await;

        let cold = place.open().await;
        let again = put_if(&cold, &key, &bytes(10, 0), WriteCondition::IfAbsent).await;
        assert!(matches!(again, Err(VolumeError::Fs(FsError::PreconditionFailed))), "{again:?}");
        cold.close().await;

        let cold = place.open().await;
        let (overwritten, trips) = count_round_trips(put(&cold, &key, &bytes(11, 1))).await;
        overwritten.unwrap();
        // Numbers are leased; that the first directory is absent is a wrong guess, and the name.
        assert!(trips.reads <= ONE_A_LEVEL && trips.commits <= 4, "{trips:?}, peer: {peer}");
        cold.close().await;

        let cold = place.open().await;
        let (removed, trips) = count_round_trips(remove(&cold, std::slice::from_ref(&key))).await;
        assert_eq!(removed, 1);
        // Then, what else its directories hold.
        assert!(trips.reads <= ONE_A_LEVEL + 3 && trips.commits == 1, "{trips:?}");
        assert_eq!(cold.list("bkt", everything()).await.unwrap().entries, []);
        cold.delete_bucket("bkt").await.unwrap();
        cold.close().await;
        if let Some(first) = first {
            first.close().await;
        }
    }
}

#[tokio::test]
async fn names_of_neighbouring_directories_are_removed_by_few_plans() {
    let place = Place::default();
    let volume = place.open().await;
    volume.create_bucket("bkt", &volume::NewBucket::owned_by(&owner())).await.unwrap();
    let chain: Vec<String> = (1..=400).map(below).collect();
    let beside: Vec<String> = (0..400).map(|n| format!("{}{n:03}/x", "e/".repeat(100))).collect();
    for (keys, most) in [(chain, 8), (beside, 8)] {
        for key in &keys {
            put(&volume, key, &bytes(10, 0)).await.unwrap();
        }
        let (removed, trips) = count_round_trips(remove(&volume, &keys)).await;
        assert_eq!(removed, 400);
        assert!(trips.commits <= most, "{trips:?}");
        assert_eq!(volume.list("bkt", everything()).await.unwrap().entries, []);
    }
    volume.delete_bucket("bkt").await.unwrap();
}

#[tokio::test]
async fn pages_of_deep_keys_cost_bounded_reads_and_list_all_keys() {
    let place = Place::default();
    let volume = place.open().await;
    volume.create_bucket("bkt", &volume::NewBucket::owned_by(&owner())).await.unwrap();
    let deep = |n: usize| format!("{n:02}{}x", "/".repeat(510));
    let keys: BTreeSet<String> = (0..30).map(deep).collect();
    for key in &keys {
        put(&volume, key, &bytes(10, 0)).await.unwrap();
    }
    volume.close().await;
    let cold = place.open().await;
    let (mut query, mut listed, mut pages) = (everything(), Vec::new(), 0);
    loop {
        let (page, trips) = count_round_trips(cold.list("bkt", query.clone())).await;
        let page = page.unwrap();
        assert!(trips.reads <= 100, "{trips:?}");
        listed.extend(page.entries.iter().map(|entry| entry.key().to_vec()));
        pages += 1;
        query.after = listed.last().cloned();
        if !page.truncated {
            break;
        }
    }
    assert_eq!(listed, keys.iter().map(|key| key.as_bytes().to_vec()).collect::<Vec<_>>());
    assert!(pages > 2, "{pages} pages: each did the work of all");
    let keys: Vec<String> = keys.into_iter().collect();
    assert_eq!(remove(&cold, &keys).await, keys.len());
    cold.delete_bucket("bkt").await.unwrap();
}
