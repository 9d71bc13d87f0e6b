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
const SHARED: SqliteOptions = SqliteOptions { exclusive: false, spared: &[] };

fn key(number: u64) -> Key {
    Key::new(Space(b'd'), 1, &number.to_be_bytes())
}

async fn put(store: &SqliteStore, key: Key) {
    let plan = Plan { guards: Vec::new(), writes: vec![Write::Put(key, Value::new())] };
    assert_eq!(store.commit(&[plan]).await.unwrap(), [Verdict::Committed]);
}

/// If two writers never pause, one may wait too long for the other's lock. It then tries again.
async fn put_with_retries(store: &SqliteStore, key: Key) {
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

/// Returns the keys that changed since a position, or `None` after a gap, and the next position.
async fn since(store: &SqliteStore, position: &Position) -> (Option<BTreeSet<Key>>, Position) {
    match store.changes(Some(position)).await.unwrap() {
        Changes::Notified { keys, next } => (Some(keys.into_iter().collect()), next),
        Changes::Gap { next } => (None, next),
    }
}

/// Returns the first number in the table, the last one, and the number of rows.
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
    // One commit after the other, so that each has a transaction of its own.
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
        let (changed, next) = since(&store, gone).await;
        assert_eq!(changed, None, "rows after it are gone");
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
async fn two_handles_see_each_others_changes() {
    const EACH: u64 = 300;
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("meta.db");
    let gateway = SqliteStore::open(&path, EXCLUSIVE).await.unwrap();
    let command = SqliteStore::open(&path, SHARED).await.unwrap();
    let start = here(&gateway).await;
    let write = async |store, from: u64| {
        for number in (from..from + EACH).step_by(3) {
            join_all((number..number + 3).map(|number| put_with_retries(store, key(number)))).await;
        }
    };
    // One handle reads the feed during all commits, and must see each commit of the other handle.
    let watch = async {
        let (mut changed, mut position) = (BTreeSet::new(), start.clone());
        while changed.len() < 2 * usize::try_from(EACH).unwrap() {
            let (keys, next) = since(&gateway, &position).await;
            changed.extend(keys.expect("the reader is not far behind"));
            position = next;
            tokio::task::yield_now().await;
        }
        (changed, position)
    };
    let ((), (), (changed, last)) =
        futures::join!(write(&gateway, 0), write(&command, EACH), watch);
    let all: BTreeSet<_> = (0..2 * EACH).map(key).collect();
    assert_eq!(changed, all);
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
    let (changed, next) = since(&two, &here(&one).await).await;
    assert_eq!((changed, &next), (None, &here(&two).await), "as many rows, and another file");
    // A restored copy of the file is older than the position.
    one.close().await;
    let copy = folder.path().join("copy.db");
    std::fs::copy(&paths[0], &copy).unwrap();
    let one = SqliteStore::open(&paths[0], EXCLUSIVE).await.unwrap();
    put(&one, key(2)).await;
    let restored = SqliteStore::open(&copy, EXCLUSIVE).await.unwrap();
    let (changed, next) = since(&restored, &here(&one).await).await;
    assert_eq!((changed, &next), (None, &here(&restored).await), "ahead of the file");
    for store in [one, two, restored] {
        store.close().await;
    }
}

#[tokio::test]
async fn an_answer_has_a_limit_beyond_which_a_reader_gets_a_gap() {
    const ANSWER_BYTES_MAX: usize = 16 << 20;
    let folder = TempDir::new().unwrap();
    let store = SqliteStore::open(&folder.path().join("meta.db"), EXCLUSIVE).await.unwrap();
    // The entry of each batch is nearly as long as an entry may be.
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
    let changed = since(&store, &later).await.0.expect("one batch fewer fits");
    assert_eq!(changed.len(), last * 64);
    store.close().await;
}

#[tokio::test]
async fn changes_of_calls_in_one_transaction_are_notified() {
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
