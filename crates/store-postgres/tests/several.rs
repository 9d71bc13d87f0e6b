//! Two stores on one database: one commits with functions, the other with plain statements.

mod test_database;

use std::collections::BTreeSet;
use std::sync::Mutex;

use futures::future::{join, join_all};
use sqlx::{Connection as _, Row as _};
use store::feed::FEED_BATCHES;
use store::{Changes, CounterKey, Guard, Key, MetaStore as _, Position, Value, Verdict, Write};
use store_postgres::PostgresStore;

use crate::test_database::{TestDatabase, held, key, number, open, plan, put, run, write};

async fn two() -> Option<(PostgresStore, PostgresStore, TestDatabase)> {
    let place = TestDatabase::fresh().await?;
    let (one, other) = (open(&place.url(), true).await, open(&place.url(), false).await);
    Some((one, other, place))
}

async fn decide(store: &PostgresStore, plan: store::Plan) -> Verdict {
    store.commit(&[plan]).await.expect("a verdict").remove(0)
}

/// Returns the keys that changed since a position, and the next position.
async fn since(store: &PostgresStore, position: &Position) -> (Option<BTreeSet<Key>>, Position) {
    match store.changes(Some(position)).await.expect("changes") {
        Changes::Notified { keys, next } => (Some(keys.into_iter().collect()), next),
        Changes::Gap { next } => (None, next),
    }
}

async fn here(store: &PostgresStore) -> Position {
    match store.changes(None).await.expect("a position") {
        Changes::Notified { next, .. } | Changes::Gap { next } => next,
    }
}

#[test]
fn concurrent_additions_of_two_stores_never_exceed_a_bound() {
    run(async {
        let Some((one, other, _place)) = two().await else { return };
        store::conformance::check_concurrent_additions(&one, &other).await;
    });
}

#[test]
fn creators_on_two_stores_have_one_winner() {
    run(async {
        let Some((one, other, _place)) = two().await else { return };
        for round in 0..30 {
            let name = format!("prize {round}");
            let racers = (0..8).map(|racer| {
                let store = if racer % 2 == 0 { &one } else { &other };
                let writes = [put(&name, &racer.to_string()), add("wins", 1)];
                decide(store, plan([Guard::Absent(key(&name))], writes))
            });
            let verdicts = join_all(racers).await;
            let won: Vec<_> = (0..8).filter(|n| verdicts[*n] == Verdict::Committed).collect();
            let [winner] = won[..] else { panic!("one winner, not {won:?}") };
            let bytes = Value::from(winner.to_string());
            assert_eq!(held(&one, &name).await, Some(bytes.clone()));
            let lost = Verdict::Refused { guard: 0, found: Some(bytes) };
            assert_eq!(verdicts.iter().filter(|verdict| **verdict == lost).count(), 7);
        }
        assert_eq!(number(&other, "wins").await, 30);
    });
}

fn add(name: &str, by: i64) -> Write {
    Write::Add(CounterKey(key(name)), by)
}

#[test]
fn a_counter_counts_additions_of_both_stores() {
    run(async {
        let Some((one, other, _place)) = two().await else { return };
        write(&one, [put("counter", "0")]).await;
        join_all([&one, &other, &one, &other].map(|store| async move {
            let mut done = 0;
            while done < 25 {
                let seen = held(store, "counter").await.expect("it is there");
                let next: u64 = std::str::from_utf8(&seen).expect("text").parse().expect("digits");
                let writes = [put("counter", &(next + 1).to_string()), add("sum", 1)];
                let plan = plan([Guard::Equals(key("counter"), seen)], writes);
                done += usize::from(decide(store, plan).await == Verdict::Committed);
            }
        }))
        .await;
        assert_eq!(held(&one, "counter").await, Some(Value::from_static(b"100")));
        assert_eq!(number(&one, "sum").await, 100);
    });
}

#[test]
fn a_range_is_empty_when_its_owner_is_deleted() {
    run(async {
        let Some((one, other, _place)) = two().await else { return };
        let mut created = 0;
        for round in 0..60 {
            let (owner, child) = (format!("owner {round}"), format!("child {round}/a"));
            write(&one, [put(&owner, "v")]).await;
            let as_it_was = Guard::Equals(key(&owner), Value::from_static(b"v"));
            let range = (key(&format!("child {round}/")), key(&format!("child {round}0")));
            let making = plan([as_it_was.clone()], [put(&child, "x")]);
            let removing =
                plan([as_it_was, Guard::Empty(range.0, range.1)], [Write::Delete(key(&owner))]);
            let (a, b) = if round % 2 == 0 { (&one, &other) } else { (&other, &one) };
            let (made, gone) = join(decide(a, making), decide(b, removing)).await;
            let (made, gone) = (made == Verdict::Committed, gone == Verdict::Committed);
            assert!(made != gone, "round {round}: created {made}, removed {gone}");
            assert_eq!(held(&one, &owner).await.is_some(), made);
            assert_eq!(held(&one, &child).await.is_some(), made);
            created += usize::from(made);
        }
        println!("the creator came first in {created} of 60 rounds");
    });
}

/// Number of batches of one writer.
const EACH: usize = 40;

#[test]
fn the_other_store_is_notified_of_commits() {
    run(async {
        let Some((one, other, _place)) = two().await else { return };
        let acknowledged = Mutex::new(BTreeSet::new());
        let writers = (0..6).map(|writer| {
            let (store, acknowledged) =
                (if writer % 2 == 0 { &one } else { &other }, &acknowledged);
            async move {
                for batch in 0..EACH {
                    let name = format!("{writer}/{batch}");
                    write(store, [put(&name, "x"), add("hot", 1)]).await;
                    acknowledged.lock().expect("no panic under the lock").insert(key(&name));
                }
            }
        });
        let starts = (here(&one).await, here(&other).await);
        let reader = |store, mut position| {
            let acknowledged = &acknowledged;
            async move {
                let mut changed = BTreeSet::new();
                loop {
                    let expected = acknowledged.lock().expect("no panic under the lock").clone();
                    let (keys, next) = since(store, &position).await;
                    changed.extend(keys.expect("the reader is not far behind"));
                    position = next;
                    let missing: Vec<_> = expected.difference(&changed).collect();
                    assert!(missing.is_empty(), "acknowledged and not notified: {missing:?}");
                    if expected.len() == 6 * EACH {
                        return;
                    }
                }
            }
        };
        futures::join!(reader(&one, starts.0), reader(&other, starts.1), join_all(writers));
        assert_eq!(number(&one, "hot").await, 6 * i64::try_from(EACH).expect("few"));
    });
}

/// A transaction that began before others and commits after them was invisible to a reader that
/// already has the changes of the others.
#[test]
fn a_change_that_becomes_visible_late_is_notified() {
    run(async {
        let Some((one, other, place)) = two().await else { return };
        let start = here(&one).await;
        let mut slow = place.connect().await;
        let entry = store::feed::pieces(&[plan([], [put("slow", "")])]).concat();
        let mut transaction = slow.begin().await.expect("a transaction");
        let insert = sqlx::query("insert into ashlar_change (keys) values ($1)").bind(entry);
        insert.execute(&mut *transaction).await.expect("a row");
        write(&other, [put("fast", "x")]).await;
        let (changed, next) = since(&one, &start).await;
        assert_eq!(changed, Some([key("fast")].into()));
        write(&one, [put("faster", "x")]).await;
        transaction.commit().await.expect("a commit");
        let (changed, last) = since(&other, &next).await;
        assert_eq!(changed, Some([key("slow"), key("faster")].into()));
        assert_eq!(since(&one, &last).await.0, Some(BTreeSet::new()));
    });
}

/// The feed is trimmed and its readers miss no change, also if another program holds an older
/// transaction open.
#[test]
fn a_feed_is_trimmed_behind_its_readers() {
    run(async {
        let Some((one, other, place)) = two().await else { return };
        let mut foreign = place.connect().await;
        let mut transaction = foreign.begin().await.expect("a transaction");
        let id = sqlx::query("select pg_current_xact_id()::text").fetch_one(&mut *transaction);
        id.await.expect("a transaction with a number");
        let (start, mut position) = (here(&one).await, here(&one).await);
        let batches = FEED_BATCHES + 600;
        for from in (0..batches).step_by(100) {
            let names: Vec<_> = (from..from + 100).map(|n| n.to_string()).collect();
            join_all(names.iter().map(|name| write(&one, [put(name, "x")]))).await;
            let (changed, next) = since(&other, &position).await;
            assert_eq!(changed, Some(names.iter().map(|name| key(name)).collect()));
            position = next;
        }
        assert_eq!(since(&one, &position).await.0, Some(BTreeSet::new()));
        transaction.rollback().await.expect("a rollback");
        // The last trim may still be running.
        let mut rows = 0;
        for _ in 0..100 {
            let count = sqlx::query("select count(*) from ashlar_change").fetch_one(&mut foreign);
            rows = usize::try_from(count.await.expect("a row").get::<i64, _>(0)).expect("some");
            if rows < batches {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        assert!((FEED_BATCHES..FEED_BATCHES + 300).contains(&rows), "{rows} rows");
        assert_eq!(since(&one, &start).await.0, None, "a reader far behind gets a gap");
    });
}
