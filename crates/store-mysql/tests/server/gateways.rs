//! Several stores on one database at the same time, as several gateways have them.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::service::{
    Database, connect, counter, decide_one, key, number, open, plan, put, record, run,
};
use futures::future::join_all;
use sqlx::{Executor, Row};
use store::{Changes, Guard, Key, MetaStore, Read, Value, Verdict, Write};
use store_mysql::MysqlStore;

async fn two() -> (MysqlStore, MysqlStore, Database) {
    let database = Database::new().await;
    let url = database.url();
    let (one, other) = futures::join!(open(&url), open(&url));
    (one, other, database)
}

fn found(bytes: &[u8]) -> Verdict {
    Verdict::Refused { guard: 0, found: Some(Value::copy_from_slice(bytes)) }
}

/// Both stores add to one bounded counter.
#[test]
fn concurrent_additions_of_two_stores_never_exceed_a_bound() {
    run(async {
        let (one, other, _database) = two().await;
        store::conformance::check_concurrent_additions(&one, &other).await;
    });
}

/// If two stores create a record, one succeeds, and the other gets the record of the winner.
#[test]
fn racing_creators_of_two_stores_have_one_winner() {
    run(async {
        let (one, other, database) = two().await;
        for round in 0..150_u64 {
            let prize = key(round, "prize");
            let create =
                |who: &'static str| plan([Guard::Absent(prize.clone())], [put(prize.clone(), who)]);
            let verdicts = futures::join!(
                decide_one(&one, create("one")),
                decide_one(&other, create("other"))
            );
            match verdicts {
                (Verdict::Committed, lost) => assert_eq!(lost, found(b"one")),
                (lost, Verdict::Committed) => assert_eq!(lost, found(b"other")),
                neither => panic!("round {round}: {neither:?}"),
            }
        }
        futures::join!(one.close(), other.close());
        drop(database);
    });
}

/// Two plans that each rely on the absence of the other's record are never both committed, and the
/// absence that they rely on leaves no row.
#[test]
fn plans_that_rely_on_each_others_absence_exclude_each_other() {
    run(async {
        let (one, other, database) = two().await;
        let mut committed = 0;
        for round in 0..150_u64 {
            let (left, right) = (key(round, "left"), key(round, "right"));
            let relying = |absent: &Key, made: &Key| {
                plan([Guard::Absent(absent.clone())], [put(made.clone(), "made")])
            };
            let verdicts = futures::join!(
                decide_one(&one, relying(&left, &right)),
                decide_one(&other, relying(&right, &left))
            );
            let both = [verdicts.0, verdicts.1].map(|verdict| verdict == Verdict::Committed);
            assert_ne!(both, [true, true], "round {round}");
            committed += u32::from(both != [false, false]);
            let there = [record(&one, &right).await, record(&one, &left).await];
            assert_eq!(there.map(|there| there.is_some()), both, "round {round}");
        }
        assert_eq!(committed, 150, "one of two always can");
        futures::join!(one.close(), other.close());
        drop(database);
    });
}

/// A deletion of a missing record and a creation, with a record that both guard, have an order.
#[test]
fn unguarded_deletions_have_an_order() {
    run(async {
        let (one, other, database) = two().await;
        for round in 0..150_u64 {
            let (at, mark) = (key(round, "at"), key(round, "mark"));
            let deleting = plan([], [Write::Delete(at.clone()), put(mark.clone(), "deleted")]);
            let creating = plan([Guard::Absent(mark.clone())], [put(at.clone(), "made")]);
            let (deleted, created) =
                futures::join!(decide_one(&one, deleting), decide_one(&other, creating));
            assert_eq!(deleted, Verdict::Committed);
            let there = record(&one, &at).await.is_some();
            // The creation came first, or was refused: in both cases no record remains.
            assert!(!there, "round {round}: {created:?}");
        }
        futures::join!(one.close(), other.close());
        drop(database);
    });
}

/// A number kept by comparison and one kept by a counter end at the same value, through both
/// stores.
#[test]
fn two_stores_lose_no_increment() {
    const EACH: u64 = 40;
    run(async {
        let (one, other, database) = two().await;
        let shared = key(1, "shared");
        decide_one(&one, plan([], [put(shared.clone(), 0_u64.to_be_bytes())])).await;
        join_all([&one, &other, &one, &other, &one, &other].map(|store| {
            let shared = shared.clone();
            async move {
                let mut seen = record(store, &shared).await.expect("it is there");
                for _ in 0..EACH {
                    loop {
                        let now = u64::from_be_bytes(seen[..].try_into().expect("eight bytes"));
                        let next = Value::copy_from_slice(&(now + 1).to_be_bytes());
                        let guards = [Guard::Equals(shared.clone(), seen.clone())];
                        let writes =
                            [Write::Put(shared.clone(), next.clone()), Write::Add(counter(1), 1)];
                        match decide_one(store, plan(guards, writes)).await {
                            Verdict::Committed => {
                                seen = next;
                                break;
                            }
                            Verdict::Refused { found, .. } => seen = found.expect("it is there"),
                            failed @ Verdict::Failed(_) => panic!("{failed:?}"),
                        }
                    }
                }
            }
        }))
        .await;
        assert_eq!(record(&other, &shared).await.as_deref(), Some(&(6 * EACH).to_be_bytes()[..]));
        assert_eq!(number(&one, &counter(1)).await.unsigned_abs(), 6 * EACH);
        futures::join!(one.close(), other.close());
        drop(database);
    });
}

/// The removal of an empty folder and a creation in it do not both succeed: the creator guards the
/// folder, and the remover deletes it.
#[test]
fn a_range_is_empty_when_its_owner_is_deleted() {
    run(async {
        let (one, other, database) = two().await;
        let (mut removed, mut created) = (0, 0);
        for round in 0..150_u64 {
            let owner = Key::new(store::Space(b'I'), round, b"");
            decide_one(&one, plan([], [put(owner.clone(), "folder")])).await;
            let whole = Guard::Empty(key(round, ""), key(round + 1, ""));
            let remove =
                plan([Guard::Present(owner.clone()), whole], [Write::Delete(owner.clone())]);
            let create = |name: &str| {
                let at = key(round, name);
                let guards = [Guard::Present(owner.clone()), Guard::Absent(at.clone())];
                plan(guards, [put(at, "file")])
            };
            let [gone, a, b] = futures::future::join3(
                decide_one(&one, remove),
                decide_one(&other, create("a")),
                decide_one(&one, create("b")),
            )
            .await
            .into();
            let gone = gone == Verdict::Committed;
            let made = [a, b].map(|verdict| verdict == Verdict::Committed);
            assert_eq!(made, [!gone; 2], "round {round}");
            assert_eq!(record(&other, &owner).await.is_none(), gone);
            if gone { removed += 1 } else { created += 1 }
        }
        assert!(removed + created == 150 && created > 0, "{removed} removed, {created} created");
        futures::join!(one.close(), other.close());
        drop(database);
    });
}

/// A plan relies on an empty range and on the absence of the range's owner. Between its two round
/// trips another plan, which guards the same absence, writes into the range. For example, a client
/// removes the delete marker of a key while another client deletes the key once more.
#[test]
fn a_range_that_is_filled_while_its_owner_is_absent_refuses_the_other_plan() {
    run(async {
        let (one, other, database) = two().await;
        let owner = key(1, "owner");
        decide_one(&one, plan([], [Write::Add(counter(9), 1)])).await;
        // The first round trip reads the range, and then waits for this counter.
        let mut blocker = connect(&database.url()).await;
        let hold = "START TRANSACTION; SELECT n FROM ashlar_counter FOR UPDATE";
        blocker.execute(sqlx::raw_sql(hold)).await.expect("the counter is locked");
        let whole = Guard::Empty(key(2, ""), key(3, ""));
        let relying = plan(
            [Guard::Absent(owner.clone()), whole, Guard::AtMost(counter(9), 100)],
            [put(owner.clone(), "made"), Write::Add(counter(9), 1)],
        );
        let filling = plan([Guard::Absent(owner.clone())], [put(key(2, "a"), "")]);
        let between = async {
            let waiting = "SELECT COUNT(*) FROM information_schema.innodb_trx t \
                 JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id \
                 WHERE p.db = DATABASE() AND t.trx_state = 'LOCK WAIT'";
            loop {
                let row = blocker.fetch_one(waiting).await.expect("an answer");
                if row.get::<i64, _>(0) == 1 {
                    break;
                }
                // The server keeps this table as it is while it was read within 0.1 s.
                tokio::time::sleep(Duration::from_millis(150)).await;
            }
            assert_eq!(decide_one(&other, filling).await, Verdict::Committed);
            blocker.execute("ROLLBACK").await.expect("the counter is free");
        };
        let (verdict, ()) = futures::join!(decide_one(&one, relying), between);
        assert_eq!(verdict, Verdict::Refused { guard: 1, found: None });
        assert_eq!(record(&other, &owner).await, None);
        futures::join!(one.close(), other.close());
        drop(database);
    });
}

/// Changes that one store acknowledged are notified by the other, for all of its connections.
#[test]
fn changes_of_one_store_are_notified_by_the_other() {
    run(async {
        let (one, other, database) = two().await;
        let Changes::Notified { next: mut position, .. } =
            other.changes(None).await.expect("a position")
        else {
            panic!("there cannot be a gap")
        };
        for round in 0..40_u64 {
            let keys: BTreeSet<Key> = (0..6_u8).map(|n| key(round, [n])).collect();
            let writers = keys.iter().enumerate().map(|(n, key)| {
                let store = if n % 2 == 0 { &one } else { &other };
                decide_one(store, plan([], [put(key.clone(), "x"), Write::Add(counter(0), 1)]))
            });
            join_all(writers).await;
            match other.changes(Some(&position)).await.expect("changes") {
                Changes::Notified { keys: changed, next } => {
                    assert_eq!(changed.into_iter().collect::<BTreeSet<_>>(), keys, "round {round}");
                    position = next;
                }
                Changes::Gap { .. } => panic!("six batches behind"),
            }
        }
        // A position of another store is not valid here.
        let elsewhere = Database::new().await;
        let stranger = open(&elsewhere.url()).await;
        let answer = stranger.changes(Some(&position)).await.expect("an answer");
        assert!(matches!(answer, Changes::Gap { .. }), "{answer:?}");
        futures::join!(one.close(), other.close(), stranger.close());
        drop((database, elsewhere));
    });
}

/// A reader of one record of a pair finds the other one, through both stores.
#[test]
fn pairs_are_whole_through_both_stores() {
    run(async {
        let (one, other, database) = two().await;
        let writing = join_all((0..4_u64).map(|task| {
            let store = if task % 2 == 0 { &one } else { &other };
            async move {
                for turn in 0..40_u64 {
                    let writes =
                        [1, 2].map(|half| put(key(half, [7]), (task * 40 + turn).to_be_bytes()));
                    decide_one(store, plan([], writes)).await;
                }
            }
        }));
        let reading = join_all([&one, &other].map(|store| async move {
            for _ in 0..80 {
                let reads = [1, 2].map(|half| Read::Record { key: key(half, [7]), follow: None });
                let found = store.read(&reads).await.expect("answers");
                let values = found.into_iter().map(|found| match found {
                    store::ReadResult::Record(entry) => entry.map(|entry| entry.value),
                    other => panic!("a record was asked for, not {other:?}"),
                });
                let values: Vec<_> = values.collect();
                assert_eq!(values[0], values[1], "half a pair");
            }
        }));
        futures::join!(writing, reading);
        futures::join!(one.close(), other.close());
        drop(database);
    });
}

/// Batches that write the same keys in other orders, and delete many at once, all succeed.
#[test]
fn batches_with_crossing_locks_succeed() {
    run(async {
        let (one, other, database) = two().await;
        let keys: Vec<Key> = (0..60_u8).map(|n| key(1, [n])).collect();
        let fill: Vec<_> = keys.iter().map(|key| put(key.clone(), "0")).collect();
        decide_one(&one, plan([], fill)).await;
        join_all((0..6_usize).map(|task| {
            let (store, keys) = (if task % 2 == 0 { &one } else { &other }, &keys);
            async move {
                for turn in 0..30_usize {
                    let at = |step: usize| keys[(task * 7 + turn * 11 + step * 13) % 60].clone();
                    let guards = [Guard::Present(at(3)), Guard::Present(at(4))];
                    let delete = plan([], [Write::Delete(at(0)), Write::Delete(at(1))]);
                    let crossing = plan(guards, [put(at(2), "x"), put(at(5), "x")]);
                    let again = plan([], [put(at(0), "y"), put(at(1), "y")]);
                    let verdicts = store.commit(&[delete, crossing, again]).await;
                    let verdicts = verdicts.expect("everybody gets a turn");
                    assert_eq!(verdicts[0], Verdict::Committed);
                    assert_eq!(verdicts[2], Verdict::Committed);
                }
            }
        }))
        .await;
        let all: Vec<_> = keys.iter().map(|key| Write::Delete(key.clone())).collect();
        let many = (0..3_000_u64).map(|n| Write::Delete(key(2, n.to_be_bytes())));
        decide_one(&one, plan([], all.into_iter().chain(many).collect::<Vec<_>>())).await;
        let page = one.walk(store::Space(b'd'), None, 10_000).await.expect("a page");
        assert_eq!(page.records, [], "everything is deleted, placeholders included");
        futures::join!(one.close(), other.close());
        drop(database);
    });
}
