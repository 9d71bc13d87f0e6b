//! The law of progress: for any page limit and any cost of keys, each page of versions continues
//! strictly behind its start, and the pages together show each version once.

use std::cmp::Reverse;
use std::sync::Arc;

use block::MemoryBlocks;
use proptest::prelude::*;
use record::{VersionRef, VersionStamp, Versioning};
use store::MemoryStore;

use super::{make_bucket, open, publish};
use crate::{BucketChange, VersionsEntry, VersionsQuery, Volume};

/// More directories than a page may read once it has an entry.
const LEVELS_MAX: usize = 80;

/// A write to a key: the levels of directories above it, one of a few names, and whether it
/// deletes.
type Step = (usize, usize, bool);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let levels = prop_oneof![3 => 0..4_usize, 1 => 0..=LEVELS_MAX];
    proptest::collection::vec((levels, 0..3_usize, proptest::bool::weighted(0.3)), 1..60)
}

fn key((levels, name, _): Step) -> Vec<u8> {
    [&b"d/".repeat(levels)[..], [&b"a"[..], b"k", b"z"][name]].concat()
}

/// The order of versions: by key; of each key the current one first, then the newest.
type Position = (Vec<u8>, Option<Reverse<VersionStamp>>);

fn position(entry: &VersionsEntry) -> Position {
    match entry {
        VersionsEntry::Prefix(prefix) => (prefix.clone(), None),
        VersionsEntry::Version { key, place, .. } => (key.clone(), place.map(Reverse)),
    }
}

/// Lists all versions in pages, and asserts that each page is behind the one before.
async fn list(volume: &Volume, limit: usize, delimiter: bool) -> Vec<Position> {
    let delimiter = delimiter.then(|| b"/".to_vec());
    let (mut all, mut after): (Vec<Position>, _) = (Vec::new(), None);
    loop {
        let (prefix, delimiter) = (Vec::new(), delimiter.clone());
        let query = VersionsQuery { prefix, delimiter, after, limit };
        let page = volume.list_versions(b"b".into(), &query).await.unwrap();
        assert!(page.entries.len() <= limit);
        assert!(!page.truncated || !page.entries.is_empty(), "an empty page has no continuation");
        for entry in &page.entries {
            let position = position(entry);
            assert!(all.last().is_none_or(|last| *last < position), "{position:?} is no progress");
            all.push(position);
        }
        if !page.truncated {
            return all;
        }
        after = page.entries.last().map(|last| match last {
            VersionsEntry::Prefix(prefix) => (prefix.clone(), None),
            VersionsEntry::Version { key, version, place, .. } => {
                (key.clone(), Some(place.map_or(*version, VersionRef::Id)))
            }
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn each_page_continues_strictly_behind_its_start(
        steps in steps(),
        suspended_from in 0..60_usize,
        limits in proptest::collection::vec(1..9_usize, 1..3),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let volume = open(Arc::new(MemoryStore::new()), Arc::new(MemoryBlocks::new())).await;
            make_bucket(&volume).await;
            let set = async |to| volume.set_bucket("b", BucketChange::Versioning(to)).await.unwrap();
            set(Versioning::Enabled).await;
            for (number, step) in steps.into_iter().enumerate() {
                if number == suspended_from {
                    set(Versioning::Suspended).await;
                }
                if step.2 {
                    volume.delete("b", vec![(key(step), None)]).await.unwrap();
                } else {
                    publish(&volume, &key(step), 7).await.unwrap();
                }
            }
            for delimiter in [false, true] {
                let whole = list(&volume, 1_000, delimiter).await;
                for limit in &limits {
                    assert_eq!(list(&volume, *limit, delimiter).await, whole, "limit {limit}");
                }
            }
        });
    }
}
