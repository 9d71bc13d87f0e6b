//! Several stores on one volume, as several gateways have them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use store::{COUNTER_MAX, Changes, Guard, MetaStore, Verdict, Write};

use crate::server::{self, Volume};
use crate::{commit, counter, equals, key, number, plan, point, put, record, write};

/// Opens two stores on one volume of the server under test, if there is one.
async fn two() -> Option<(Arc<dyn MetaStore>, Arc<dyn MetaStore>, Volume)> {
    let volume = Volume::new(&server::given()?);
    let (one, other) = tokio::join!(volume.open(), volume.open());
    Some((Arc::new(one), Arc::new(other), volume))
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_additions_of_two_stores_never_exceed_a_bound() {
    let Some((one, other, _volume)) = two().await else { return };
    store::conformance::check_concurrent_additions(&*one, &*other).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn racing_creators_of_two_stores_have_one_winner() {
    let Some((one, other, _volume)) = two().await else { return };
    for round in 0..100 {
        let racers = (0..16_u64).map(|racer| {
            let store = if racer % 2 == 0 { Arc::clone(&one) } else { Arc::clone(&other) };
            let creation = plan(
                [Guard::Absent(key(round, "prize"))],
                [put(key(round, "prize"), &racer.to_string()), Write::Add(counter(round), 1)],
            );
            async move { commit(&*store, creation).await.expect("decided").then_some(racer) }
        });
        let winners: Vec<u64> =
            futures::future::join_all(racers).await.into_iter().flatten().collect();
        assert_eq!(winners.len(), 1, "round {round}");
        let found = record(&*other, key(round, "prize")).await.expect("one creator won");
        assert_eq!(found, winners[0].to_string());
        assert_eq!(number(&*one, counter(round)).await, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_counter_in_two_stores_loses_no_increment() {
    let Some((one, other, _volume)) = two().await else { return };
    write(&*one, [put(point(1), "0")]).await;
    let refused = AtomicU64::new(0);
    let tasks = (0..8).map(|task| {
        let store = if task % 2 == 0 { Arc::clone(&one) } else { Arc::clone(&other) };
        let refused = &refused;
        async move {
            for _ in 0..25 {
                let mut done = false;
                while !done {
                    let was = record(&*store, point(1)).await.expect("it is there");
                    let was = String::from_utf8(was.into()).expect("digits");
                    let next = (was.parse::<u64>().expect("a number") + 1).to_string();
                    let step = plan(
                        [equals(point(1), &was)],
                        [put(point(1), &next), Write::Add(counter(1), 1)],
                    );
                    done = commit(&*store, step).await.expect("decided");
                    refused.fetch_add(u64::from(!done), Ordering::Relaxed);
                }
            }
        }
    });
    futures::future::join_all(tasks).await;
    assert_eq!(record(&*one, point(1)).await.as_deref(), Some(&b"200"[..]));
    assert_eq!(number(&*other, counter(1)).await, 200);
    assert!(refused.into_inner() > 0, "no plan was refused");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_is_removed_or_written_into_and_never_both() {
    let Some((one, other, _volume)) = two().await else { return };
    let mut outcomes = BTreeSet::new();
    for directory in 1_000..1_200_u64 {
        let owner = || key(1, &directory.to_string());
        write(&*one, [put(owner(), "directory")]).await;
        let create = plan([equals(owner(), "directory")], [put(key(directory, "file"), "")]);
        let remove = plan(
            [
                equals(owner(), "directory"),
                Guard::Empty(key(directory, ""), key(directory + 1, "")),
            ],
            [Write::Delete(owner())],
        );
        let (created, removed) = if directory % 2 == 0 {
            tokio::join!(commit(&*one, create), commit(&*other, remove))
        } else {
            let (removed, created) = tokio::join!(commit(&*one, remove), commit(&*other, create));
            (created, removed)
        };
        let (created, removed) = (created.expect("decided"), removed.expect("decided"));
        assert_ne!(created, removed, "directory {directory}");
        assert_eq!(record(&*one, key(directory, "file")).await.is_some(), created);
        assert_eq!(record(&*other, owner()).await.is_some(), created);
        outcomes.insert(created);
    }
    assert_eq!(outcomes.len(), 2, "the race always went the same way");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_other_store_is_notified_of_commits() {
    let Some((one, other, _volume)) = two().await else { return };
    let Ok(Changes::Notified { mut next, .. }) = other.changes(None).await else {
        panic!("no place")
    };
    for round in 0..50_u64 {
        let changes = plan([], [put(point(round), "x"), Write::Delete(key(round, "gone"))]);
        let refused = plan([Guard::Absent(point(round))], [put(key(round, "never"), "")]);
        let verdicts = one.commit(&[changes, refused]).await.expect("decided");
        assert_eq!(verdicts[0], Verdict::Committed);
        let answer = other.changes(Some(&next)).await.expect("changes");
        let Changes::Notified { keys, next: after } = answer else {
            panic!("a gap in round {round}")
        };
        let keys: BTreeSet<_> = keys.into_iter().collect();
        assert_eq!(keys, [point(round), key(round, "gone")].into());
        next = after;
    }
    // A position of one store is valid at the other, which has the same feed.
    write(&*other, [put(point(1), "y")]).await;
    let answer = one.changes(Some(&next)).await.expect("changes");
    assert!(matches!(answer, Changes::Notified { keys, .. } if keys == [point(1)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_of_one_server_are_independent() {
    let Some((one, _, _volume)) = two().await else { return };
    let Some((foreign, _, _other_volume)) = two().await else { return };
    write(&*one, [put(key(1, "a"), "mine"), Write::Add(counter(1), 5)]).await;
    assert_eq!(record(&*foreign, key(1, "a")).await, None);
    assert_eq!(number(&*foreign, counter(1)).await, 0);
    let Ok(Changes::Notified { next, .. }) = one.changes(None).await else { panic!("no position") };
    let answer = foreign.changes(Some(&next)).await.expect("an answer");
    assert!(matches!(answer, Changes::Gap { .. }), "a position of another volume: {answer:?}");
}

/// The value of a counter beyond its bounds is undefined. It must still be a number, and nothing
/// else may be affected, because a script that fails in the middle is not undone.
#[tokio::test(flavor = "multi_thread")]
async fn a_counter_beyond_its_bounds_affects_nothing_else() {
    let Some((store, _, _volume)) = two().await else { return };
    for (number_of, by) in [(1, COUNTER_MAX), (2, -COUNTER_MAX)] {
        for round in 0..20_u64 {
            let adds = (0..100_u64).map(|plan_number| {
                let at = round * 100 + plan_number;
                plan(
                    [],
                    [Write::Add(counter(number_of), by), put(key(number_of, &at.to_string()), "")],
                )
            });
            let verdicts = store.commit(&adds.collect::<Vec<_>>()).await.expect("decided");
            assert!(verdicts.iter().all(|verdict| *verdict == Verdict::Committed));
        }
        assert!(
            number(&*store, counter(number_of)).await.abs() > COUNTER_MAX,
            "it is within bounds"
        );
        assert!(record(&*store, key(number_of, "1999")).await.is_some());
        write(&*store, [Write::Set(counter(number_of), 7)]).await;
        assert_eq!(number(&*store, counter(number_of)).await, 7);
    }
}
