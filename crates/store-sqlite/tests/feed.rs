//! The change feed in the file: numbers without gaps, two handles, trimming, other files.

#![expect(clippy::unwrap_used, reason = "the helpers of tests may fail as tests do")]

use std::collections::BTreeSet;
use std::path::Path;

use futures::future::join_all;
use sqlx::ConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;
use store::feed::{FEED_BATCH_BYTES_MAX, FEED_BATCHES};
use store::{
    Changes, Key, MetaStore, Plan, Position, Space, StoreErrorKind, Value, Verdict, Write,
};
use store_sqlite::{SqliteOptions, SqliteStore};
use tempfile::TempDir;

const EXCLUSIVE: SqliteOptions = SqliteOptions { exclusive: true, spared: &[] };
const BESIDE: SqliteOptions = SqliteOptions { exclusive: false, spared: &[] };

fn key(number: u64) -> Key {
    Key::new(Space(b'd'), 1, &number.to_be_bytes())
}

async fn put(store: &SqliteStore, key: Key) {
    let plan = Plan { guards: Vec::new(), writes: vec![Write::Put(key, Value::new())] };
    assert_eq!(store.commit(&[plan]).await.unwrap(), [Verdict::Committed]);
}

/// Of two writers that never pause, one may wait too long for the other's lock, and tries again.
async fn put_at_last(store: &SqliteStore, key: Key) {
    let plan = Plan { guards: Vec::new(), writes: vec![Write::Put(key, Value::new())] };
    loop {
        match store.commit(std::slice::from_ref(&plan)).await {
            Err(error) if error.kind() == StoreErrorKind::Unavailable => {}
            done => return assert_eq!(done.unwrap(), [Verdict::Committed]),
        }
    }
}

async fn here(store: &SqliteStore) -> Position {
    match store.changes(None).await.unwrap() {
        Changes::Notified { next, .. } => next,
        gap @ Changes::Gap { .. } => panic!("{gap:?}"),
    }
}

/// The keys that have changed since a position, or `None` after a gap, and where to continue.
async fn since(store: &SqliteStore, position: &Position) -> (Option<BTreeSet<Key>>, Position) {
    match store.changes(Some(position)).await.unwrap() {
        Changes::Notified { keys, next } => (Some(keys.into_iter().collect()), next),
        Changes::Gap { next } => (None, next),
    }
}

/// The first number in the table, the last, and how many there are.
async fn numbers(path: &Path) -> (i64, i64, i64) {
    let mut connection =
        SqliteConnectOptions::new().filename(path).read_only(true).connect().await.unwrap();
    let text = "SELECT min(seq), max(seq), count(*) FROM change";
    sqlx::query_as(text).fetch_one(&mut connection).await.unwrap()
}

#[tokio::test]
async fn positions_outlive_closing_and_trimming() {
    const BATCHES: u64 = FEED_BATCHES as u64 + 1_000;
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("meta.db");
    let store = SqliteStore::open(&path, EXCLUSIVE).await.unwrap();
    let first = here(&store).await;
    put(&store, key(0)).await;
    let second = here(&store).await;
    store.close().await;
    let store = SqliteStore::open(&path, EXCLUSIVE).await.unwrap();
    assert_eq!(here(&store).await, second, "closing changes nothing");
    assert_eq!(since(&store, &first).await.0, Some([key(0)].into()));
    // One after the other, so that none shares a transaction.
    let mut last = second.clone();
    for number in 1..BATCHES {
        let before =
            if BATCHES - number == FEED_BATCHES as u64 { here(&store).await } else { last };
        put(&store, key(number)).await;
        last = before;
    }
    let (lowest, highest, count) = numbers(&path).await;
    assert_eq!(highest.cast_unsigned(), BATCHES, "one for each transaction, over two openings");
    assert_eq!(count, highest - lowest + 1, "numbers have gaps");
    let kept = usize::try_from(count).unwrap();
    assert!((FEED_BATCHES..=FEED_BATCHES + 256).contains(&kept), "{kept} rows are kept");
    for gone in [&first, &second] {
        let (told, next) = since(&store, gone).await;
        assert_eq!(told, None, "rows after it are gone");
        assert_eq!(next, here(&store).await);
    }
    let expected: BTreeSet<_> = (BATCHES - FEED_BATCHES as u64..BATCHES).map(key).collect();
    assert_eq!(since(&store, &last).await.0, Some(expected), "so many are remembered");
    store.close().await;
    let store = SqliteStore::open(&path, EXCLUSIVE).await.unwrap();
    let now = here(&store).await;
    put(&store, key(7)).await;
    assert_eq!(since(&store, &now).await.0, Some([key(7)].into()));
    assert_eq!(numbers(&path).await.1, highest + 1);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_handles_tell_each_other_everything() {
    const EACH: u64 = 300;
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("meta.db");
    let gateway = SqliteStore::open(&path, EXCLUSIVE).await.unwrap();
    let command = SqliteStore::open(&path, BESIDE).await.unwrap();
    let start = here(&gateway).await;
    let write = async |store, from: u64| {
        for number in (from..from + EACH).step_by(3) {
            join_all((number..number + 3).map(|number| put_at_last(store, key(number)))).await;
        }
    };
    // Reads through one handle all the while, and never loses sight of the other's commits.
    let watch = async {
        let (mut told, mut position) = (BTreeSet::new(), start.clone());
        while told.len() < 2 * usize::try_from(EACH).unwrap() {
            let (keys, next) = since(&gateway, &position).await;
            told.extend(keys.expect("not so far behind"));
            position = next;
            tokio::task::yield_now().await;
        }
        (told, position)
    };
    let ((), (), (told, last)) = futures::join!(write(&gateway, 0), write(&command, EACH), watch);
    let all: BTreeSet<_> = (0..2 * EACH).map(key).collect();
    assert_eq!(told, all);
    assert_eq!(since(&command, &start).await, (Some(all), last), "the other handle says the same");
    let (lowest, highest, count) = numbers(&path).await;
    assert_eq!((lowest, count), (1, highest), "numbers have gaps");
    command.close().await;
    gateway.close().await;
}

#[tokio::test]
async fn a_position_of_another_file_or_of_the_future_is_a_gap() {
    let folder = TempDir::new().unwrap();
    let paths = ["one.db", "two.db"].map(|name| folder.path().join(name));
    let one = SqliteStore::open(&paths[0], EXCLUSIVE).await.unwrap();
    let two = SqliteStore::open(&paths[1], EXCLUSIVE).await.unwrap();
    for store in [&one, &two] {
        put(store, key(1)).await;
    }
    let (told, next) = since(&two, &here(&one).await).await;
    assert_eq!((told, &next), (None, &here(&two).await), "as many rows, and another file");
    // A copy of the file as it was, put back later, has not seen what was told.
    one.close().await;
    let copy = folder.path().join("copy.db");
    std::fs::copy(&paths[0], &copy).unwrap();
    let one = SqliteStore::open(&paths[0], EXCLUSIVE).await.unwrap();
    put(&one, key(2)).await;
    let restored = SqliteStore::open(&copy, EXCLUSIVE).await.unwrap();
    let (told, next) = since(&restored, &here(&one).await).await;
    assert_eq!((told, &next), (None, &here(&restored).await), "ahead of the file");
    for store in [one, two, restored] {
        store.close().await;
    }
}

#[tokio::test]
async fn a_reader_far_behind_gets_no_more_than_an_answer_may_hold() {
    const ANSWER_BYTES_MAX: usize = 16 << 20;
    let folder = TempDir::new().unwrap();
    let store = SqliteStore::open(&folder.path().join("meta.db"), EXCLUSIVE).await.unwrap();
    // Each batch's entry is nearly as long as an entry may be.
    let keys =
        |batch: u64| (0..64).map(move |n| Key::new(Space(b'd'), batch * 64 + n, &[9; 1_000]));
    let bytes = 64 * (2 + Key::PREFIX_BYTES + 1_000);
    assert!(bytes <= FEED_BATCH_BYTES_MAX);
    let start = here(&store).await;
    let mut later = start.clone();
    for batch in 0..=u64::try_from(ANSWER_BYTES_MAX / bytes).unwrap() {
        let writes = keys(batch).map(|key| Write::Put(key, Value::new())).collect();
        store.commit(&[Plan { guards: Vec::new(), writes }]).await.unwrap();
        if batch == 0 {
            later = here(&store).await;
        }
    }
    assert_eq!(since(&store, &start).await.0, None, "too much to tell");
    let last = ANSWER_BYTES_MAX / bytes;
    let told = since(&store, &later).await.0.expect("one batch fewer can be told");
    assert_eq!(told.len(), last * 64);
    store.close().await;
}

#[tokio::test]
async fn calls_that_share_a_transaction_are_all_notified() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("meta.db");
    let store = SqliteStore::open(&path, EXCLUSIVE).await.unwrap();
    let start = here(&store).await;
    join_all((0..500).map(|number| put(&store, key(number)))).await;
    assert_eq!(since(&store, &start).await.0, Some((0..500).map(key).collect()));
    let (_, highest, _) = numbers(&path).await;
    assert!(highest < 500, "no two of the calls shared a transaction");
    store.close().await;
}
