//! The length of the change feed.

use sqlx::{AssertSqlSafe, Row};
use store::feed::FEED_BATCHES;
use store::{Changes, MetaStore, Position};
use store_mysql::{MysqlOptions, MysqlStore};

use crate::service::{Database, connect, decide_one, execute, key, open, plan, put, run};

async fn ask(url: &str, text: &str) -> i64 {
    let mut connection = connect(url).await;
    let text = AssertSqlSafe(format!("SELECT CAST(({text}) AS SIGNED)"));
    sqlx::query(text).fetch_one(&mut connection).await.expect("an answer").get(0)
}

fn next(changes: &Changes) -> Position {
    match changes {
        Changes::Notified { next, .. } | Changes::Gap { next } => next.clone(),
    }
}

/// A long shard is trimmed to the entries that must be kept, and continues after them.
#[test]
fn a_long_shard_is_trimmed() {
    run(async {
        let database = Database::new().await;
        let url = database.url();
        let options = MysqlOptions { relaxed: true, writers: 1, readers: 1 };
        let store = MysqlStore::open(&url, options).await.expect("a store");
        let start = next(&store.changes(None).await.expect("a position"));
        decide_one(&store, plan([], [put(key(1, "a"), "x")])).await;
        // The shard's head as if the only writer had made many batches since.
        let batches = 3 * i64::try_from(FEED_BATCHES).expect("few") - 1;
        let shard = ask(&url, "SELECT shard FROM ashlar_change").await;
        execute(
            &url,
            format!(
                "INSERT INTO ashlar_change SELECT {shard}, seq, '' FROM seq_2_to_{batches}; \
                 UPDATE ashlar_shard SET head = {batches} WHERE shard = {shard}"
            ),
        )
        .await;
        assert_eq!(ask(&url, "SELECT COUNT(*) FROM ashlar_change").await, batches);
        let before = next(&store.changes(None).await.expect("a position"));
        decide_one(&store, plan([], [put(key(1, "b"), "x")])).await;
        let kept = i64::try_from(FEED_BATCHES).expect("few");
        assert_eq!(ask(&url, "SELECT COUNT(*) FROM ashlar_change").await, kept);
        assert_eq!(ask(&url, "SELECT MIN(seq) FROM ashlar_change").await, batches + 2 - kept);
        let changes = store.changes(Some(&before)).await.expect("changes");
        assert!(
            matches!(&changes, Changes::Notified { keys, .. } if *keys == [key(1, "b")]),
            "{changes:?}"
        );
        let gap = store.changes(Some(&start)).await.expect("changes");
        assert!(matches!(gap, Changes::Gap { .. }), "{gap:?}");
        let none = store.changes(Some(&next(&gap))).await.expect("changes");
        assert!(matches!(&none, Changes::Notified { keys, .. } if keys.is_empty()), "{none:?}");
        store.close().await;
        drop(database);
    });
}

/// A missing entry, or a store that was restored from an older state, is a gap.
#[test]
fn missing_entries_are_a_gap() {
    run(async {
        let database = Database::new().await;
        let url = database.url();
        let store = open(&url).await;
        let start = next(&store.changes(None).await.expect("a position"));
        for name in ["a", "b", "c"] {
            decide_one(&store, plan([], [put(key(1, name), "x")])).await;
        }
        let end = next(&store.changes(None).await.expect("a position"));
        execute(&url, "DELETE FROM ashlar_change WHERE seq = 1 LIMIT 1").await;
        let gap = store.changes(Some(&start)).await.expect("changes");
        assert!(matches!(gap, Changes::Gap { .. }), "{gap:?}");
        execute(&url, "UPDATE ashlar_shard SET head = 0; DELETE FROM ashlar_change").await;
        let gap = store.changes(Some(&end)).await.expect("changes");
        assert!(matches!(gap, Changes::Gap { .. }), "{gap:?}");
        store.close().await;
        drop(database);
    });
}
