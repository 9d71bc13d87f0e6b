//! Counters of several open stores.

use std::time::{Duration, Instant};

use futures::future::join_all;
use store::{Guard, MetaStore, Space, Write};
use store_etcd::{EtcdOptions, EtcdStore};

use crate::calls::{commit, counter, number, plan, write};
use crate::server;

/// Additions of each store.
const ADDITIONS: i64 = 40;

async fn stores(count: usize, options: EtcdOptions) -> Option<(String, Vec<EtcdStore>)> {
    let url = server::fresh(&server::given()?);
    let mut stores = Vec::new();
    for _ in 0..count {
        stores.push(EtcdStore::open(&url, options).await.expect("a store"));
    }
    Some((url, stores))
}

#[tokio::test(flavor = "multi_thread")]
async fn additions_of_several_stores_do_not_refuse_each_other() {
    let Some((_, stores)) = stores(3, EtcdOptions::default()).await else { return };
    let before: u64 = stores.iter().map(EtcdStore::requests).sum();
    join_all(stores.iter().map(async |store| {
        for _ in 0..ADDITIONS {
            write(store, [Write::Add(counter(1), 2), Write::Max(counter(2), ADDITIONS)]).await;
        }
    }))
    .await;
    let trips: u64 = stores.iter().map(EtcdStore::requests).sum::<u64>() - before;
    // A member of a busy machine may lose its leader for a moment; then a request is repeated.
    let commits = 3 * u64::try_from(ADDITIONS).expect("small");
    assert!((commits..commits + 5).contains(&trips), "{trips} round trips of {commits} commits");
    for store in &stores {
        assert_eq!(number(store, counter(1)).await, 3 * 2 * ADDITIONS);
        assert_eq!(number(store, counter(2)).await, ADDITIONS);
    }
}

/// A store that remembers almost no cells reads them again, and counts the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_forgets_its_cells_counts_right() {
    let options = EtcdOptions { counters_remembered: 1, targets_remembered: 1 };
    let Some((_, stores)) = stores(2, options).await else { return };
    join_all(stores.iter().map(async |store| {
        for round in 0..3 * ADDITIONS {
            let chosen = u64::try_from(round % 10).expect("small");
            write(store, [Write::Add(counter(chosen), 1)]).await;
        }
    }))
    .await;
    for chosen in 0..10 {
        assert_eq!(number(&stores[0], counter(chosen)).await, 2 * 3 * ADDITIONS / 10);
    }
}

/// The operations that need the whole value: bounds, and both kinds of changes of one counter.
#[tokio::test(flavor = "multi_thread")]
async fn all_kinds_of_changes_by_several_stores_agree() {
    let Some((_, stores)) = stores(3, EtcdOptions::default()).await else { return };
    let added: Vec<i64> = join_all(stores.iter().map(async |store| {
        let mut added = 0;
        for round in 0..ADDITIONS {
            let bounded = plan([Guard::AtMost(counter(1), 50)], [Write::Add(counter(1), 1)]);
            added += i64::from(commit(store, bounded).await.expect("decided"));
            let other = match round % 4 {
                0 => Write::Max(counter(2), round),
                1 => Write::Add(counter(2), 1),
                2 => Write::Set(counter(2), 5),
                _ => Write::Clear(counter(2)),
            };
            write(store, [other]).await;
        }
        added
    }))
    .await;
    assert_eq!(added.iter().sum::<i64>(), 50, "{added:?}");
    assert_eq!(number(&stores[0], counter(1)).await, 50);
    write(&stores[0], [Write::Set(counter(2), 10)]).await;
    write(&stores[1], [Write::Add(counter(2), 5)]).await;
    write(&stores[2], [Write::Max(counter(2), 12)]).await;
    assert_eq!(number(&stores[0], counter(2)).await, 15);
    write(&stores[2], [Write::Max(counter(2), 20)]).await;
    write(&stores[1], [Write::Add(counter(2), 1)]).await;
    assert_eq!(number(&stores[0], counter(2)).await, 21);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_folds_a_counter_with_many_cells() {
    let Some((url, stores)) = stores(12, EtcdOptions::default()).await else { return };
    for store in &stores {
        write(store, [Write::Add(counter(1), 3)]).await;
    }
    let reader = server::open(&url).await;
    let begun = Instant::now();
    while server::cells(&url) > 1 {
        assert_eq!(number(&reader, counter(1)).await, 36);
        assert!(begun.elapsed() < Duration::from_secs(10), "{} cells", server::cells(&url));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // The other stores remember cells that are gone.
    for store in &stores {
        write(store, [Write::Add(counter(1), 1)]).await;
    }
    assert_eq!(number(&reader, counter(1)).await, 48);
}

/// Most counters are never read alone. So walks, and changes that need the value, fold them too.
#[tokio::test(flavor = "multi_thread")]
async fn walks_and_bounded_changes_fold_counters_with_many_cells() {
    let Some((url, stores)) = stores(12, EtcdOptions::default()).await else { return };
    for store in &stores {
        write(store, [Write::Add(counter(1), 3), Write::Add(counter(2), 1)]).await;
    }
    assert_eq!(server::cells(&url), 24);
    let bounded = plan([Guard::AtMost(counter(2), 50)], [Write::Add(counter(2), 1)]);
    assert!(commit(&stores[0], bounded).await.expect("decided"));
    assert_eq!(server::cells(&url), 13, "the base of one, and the cells of the other");
    let begun = Instant::now();
    while server::cells(&url) > 2 {
        let page = stores[0].walk_counters(Space(b'n'), None, 100).await.expect("a page");
        assert_eq!(page.counters, [(counter(1), 36), (counter(2), 13)]);
        assert!(begun.elapsed() < Duration::from_secs(10), "{} cells", server::cells(&url));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A page of a walk may end between the cells of one counter.
#[tokio::test(flavor = "multi_thread")]
async fn walks_and_snapshots_add_up_the_cells_of_each_counter() {
    let Some((_, stores)) = stores(3, EtcdOptions::default()).await else { return };
    for store in &stores {
        let writes: Vec<Write> = (0..20).map(|it| Write::Add(counter(it), 2)).collect();
        write(store, writes).await;
    }
    for limit in [1, 2, 7, 100] {
        let (mut found, mut resume) = (Vec::new(), None);
        loop {
            let page = stores[0].walk_counters(Space(b'n'), resume, limit).await.expect("a page");
            found.extend(page.counters);
            resume = page.resume;
            if resume.is_none() {
                break;
            }
        }
        let expected: Vec<_> = (0..20).map(|it| (counter(it), 6)).collect();
        assert_eq!(found, expected, "a walk in pages of {limit}");
        let mut snapshot = stores[0].snapshot().await.expect("a snapshot");
        let mut found = Vec::new();
        loop {
            let page = snapshot.counters(limit).await.expect("a page");
            if page.is_empty() {
                break;
            }
            found.extend(page);
        }
        assert_eq!(found, expected, "a snapshot in pages of {limit}");
    }
}
