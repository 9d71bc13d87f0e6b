//! Opening a store: the servers that are refused and accepted, and the secrecy of passwords.

use futures::future::join_all;
use sqlx::Row;
use store::{Durability, Guard, MetaStore, StoreErrorKind, Verdict};
use store_mysql::{MysqlOptions, MysqlStore};

use crate::bench;
use crate::service::{Database, connect, decide_one, execute, key, open, plan, put, run};

fn strict() -> MysqlOptions {
    MysqlOptions::default()
}

fn relaxed() -> MysqlOptions {
    MysqlOptions { relaxed: true, ..MysqlOptions::default() }
}

/// Settings that risk acknowledged commits are refused by name, or accepted and reported.
#[test]
fn risky_settings_are_refused_unless_accepted() {
    bench::run(async |bench| {
        let store = MysqlStore::open(&bench.direct, strict()).await.expect("the defaults are safe");
        assert_eq!(store.durability(), Durability::Strict);
        store.close().await;
        let risky = [("innodb_flush_log_at_trx_commit", "2", "1"), ("sync_binlog", "0", "1")];
        for (setting, bad, good) in risky {
            execute(&bench.direct, format!("SET GLOBAL {setting} = {bad}")).await;
            let error = MysqlStore::open(&bench.direct, strict()).await.expect_err("a risk");
            assert_eq!(error.kind(), StoreErrorKind::Unavailable);
            let text = error.to_string();
            assert!(text.contains(setting), "{text}");
            assert!(text.contains("--metadata-durability=relaxed"), "{text}");
            let store = MysqlStore::open(&bench.direct, relaxed()).await.expect("accepted");
            assert_eq!(store.durability(), Durability::Relaxed);
            store.close().await;
            execute(&bench.direct, format!("SET GLOBAL {setting} = {good}")).await;
        }
        execute(&bench.direct, "SET GLOBAL max_allowed_packet = 1048576").await;
        let error = MysqlStore::open(&bench.direct, relaxed()).await.expect_err("too small");
        assert!(error.to_string().contains("max_allowed_packet = 16M"), "{error}");
    });
}

/// If many processes open one new database concurrently, all get the same store.
#[test]
fn a_new_store_can_be_opened_concurrently() {
    run(async {
        let database = Database::new().await;
        let url = database.url();
        let stores = join_all((0..12).map(|_| open(&url))).await;
        let at = key(1, "first");
        let create = || plan([Guard::Absent(at.clone())], [put(at.clone(), "x")]);
        let verdicts = join_all(stores.iter().map(|store| decide_one(store, create()))).await;
        let winners = verdicts.iter().filter(|verdict| **verdict == Verdict::Committed);
        assert_eq!(winners.count(), 1);
        join_all(stores.iter().map(MysqlStore::close)).await;
        drop(database);
    });
}

/// Tables of a later format are refused and unchanged.
#[test]
fn a_newer_format_is_refused() {
    run(async {
        let database = Database::new().await;
        open(&database.url()).await.close().await;
        execute(&database.url(), "UPDATE ashlar_format SET format = 2").await;
        let error = MysqlStore::open(&database.url(), relaxed()).await.expect_err("it is newer");
        assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{error}");
        assert!(error.to_string().contains("format 2"), "{error}");
        drop(database);
    });
}

/// A user without the right to create tables can use existing ones.
#[test]
fn existing_tables_need_no_right_to_create_tables() {
    bench::run(async |bench| {
        open(&bench.direct).await.close().await;
        let user = "CREATE USER small@'%' IDENTIFIED BY 'pass/word'; \
                    GRANT SELECT, INSERT, UPDATE, DELETE ON ashlar.* TO small@'%'";
        execute(&bench.direct, user).await;
        let url = bench.direct.replace("root@", "small:pass%2Fword@");
        let store = open(&url).await;
        decide_one(&store, plan([], [put(key(1, "a"), "x")])).await;
        store.close().await;
        let other = url.replace("/ashlar", "/mysql");
        let error = MysqlStore::open(&other, relaxed()).await.expect_err("no rights there");
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    });
}

/// No error and no `Debug` contains the password, for all defects of the URL or the server.
#[test]
fn no_output_contains_the_password() {
    const SECRET: &str = "hunter2secret";
    bench::run(async |bench| {
        let user = format!(
            "CREATE USER known@'%' IDENTIFIED BY '{SECRET}'; \
                            GRANT ALL ON ashlar.* TO known@'%'"
        );
        execute(&bench.direct, user).await;
        let url = bench.direct.replace("root@", &format!("known:{SECRET}@"));
        let store = open(&url).await;
        let mut texts = vec![format!("{store:?} {store:#?}")];
        store.close().await;
        let wrong = [
            url.replace("known:", "unknown:"),
            url.replace("/ashlar", ""),
            url.replace("/ashlar", "/none"),
            url.replace("mysql://", "postgres://"),
            url.replace("mysql://", ""),
            url.replace("127.0.0.1", "127.0.0.1:x"),
            url.replace("127.0.0.1", "host.invalid"),
            format!("{url}?ssl-mode={SECRET}"),
            format!("{url}?{SECRET}=1"),
            format!("{url}?charset={SECRET}"),
            format!("{url}?ssl-mode=REQUIRED"),
            url.replace(SECRET, &format!("{SECRET}%ff")),
        ];
        for url in wrong {
            let error = MysqlStore::open(&url, relaxed()).await.expect_err(&url);
            assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
            texts.push(format!("{error} {error:?} {error:#?}"));
        }
        for text in texts {
            assert!(!text.contains(SECRET), "{text}");
        }
    });
}

/// Each table is one of `InnoDB`, with long values outside the leaves.
#[test]
fn tables_have_the_engine_and_row_format_of_the_schema() {
    const TABLES: &str = "SELECT CONCAT(table_name, ' ', engine, ' ', row_format) \
         FROM information_schema.tables WHERE table_schema = DATABASE() ORDER BY table_name";
    run(async {
        let database = Database::new().await;
        open(&database.url()).await.close().await;
        let mut connection = connect(&database.url()).await;
        let rows = sqlx::query(TABLES).fetch_all(&mut connection).await.expect("tables");
        let tables: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        let expected = ["change", "counter", "format", "record", "shard"];
        assert_eq!(tables, expected.map(|name| format!("ashlar_{name} InnoDB Dynamic")));
        drop(database);
    });
}
