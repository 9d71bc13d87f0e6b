//! Opening a store: the servers and databases that it accepts and refuses.

mod test_database;

use futures::future::join_all;
use sqlx::{Connection as _, Row as _};
use store::{
    CounterKey, Durability, Guard, MetaStore as _, Read, StoreErrorKind, Value, Verdict, Write,
};
use store_postgres::{PostgresOptions, PostgresStore};
use url::Url;

use crate::test_database::{
    TestDatabase, held, key, open, plan, put, run, run_at, server, unique, write,
};

async fn refusal(url: &Url) -> store::StoreError {
    let opened = PostgresStore::open(url.as_str(), PostgresOptions::default()).await;
    opened.map(|_| ()).expect_err("it is refused")
}

fn in_schema(place: &TestDatabase, schema: &str) -> Url {
    let mut url = place.url();
    url.query_pairs_mut().append_pair("options[search_path]", schema);
    url
}

/// Another role on the same server.
fn as_role(place: &TestDatabase, role: &str) -> Url {
    let mut url = place.url();
    url.set_username(role).expect("a name");
    url
}

async fn functions(place: &TestDatabase) -> i64 {
    let mut connection = place.connect().await;
    let count = sqlx::query("select count(*) from pg_proc where proname like 'ashlar%'");
    count.fetch_one(&mut connection).await.expect("a row").get(0)
}

#[test]
fn processes_may_open_a_new_store_concurrently() {
    run(async {
        let Some(place) = TestDatabase::fresh().await else { return };
        let url = place.url();
        let stores = join_all((0..12).map(|n| open(&url, n % 3 > 0))).await;
        write(&stores[0], [put("a", "x")]).await;
        for store in &stores {
            assert_eq!(held(store, "a").await, Some(Value::from_static(b"x")));
            write(store, [put("b", "y")]).await;
        }
        assert_eq!(functions(&place).await, 1);
    });
}

#[test]
fn functions_of_another_version_are_kept() {
    run(async {
        let Some(place) = TestDatabase::fresh().await else { return };
        place.run("create function ashlar_commit_1() returns int language sql as 'select 1'").await;
        let store = open(&place.url(), true).await;
        write(&store, [put("a", "x")]).await;
        assert_eq!(held(&store, "a").await, Some(Value::from_static(b"x")));
        assert_eq!(functions(&place).await, 2);
    });
}

#[test]
fn a_reopened_store_has_all_commits() {
    run(async {
        let Some(place) = TestDatabase::fresh().await else { return };
        let store = open(&place.url(), true).await;
        assert_eq!(store.durability(), Durability::Strict);
        write(&store, [put("a", "x")]).await;
        store.close().await;
        let again = open(&place.url(), true).await;
        assert_eq!(held(&again, "a").await, Some(Value::from_static(b"x")));
    });
}

#[test]
fn each_schema_has_a_store_of_its_own() {
    run(async {
        let Some(place) = TestDatabase::fresh().await else { return };
        place.run("create schema one; create schema two").await;
        let one = open(&in_schema(&place, "one"), true).await;
        let two = open(&in_schema(&place, "two"), true).await;
        write(&one, [put("a", "one")]).await;
        write(&two, [put("a", "two")]).await;
        assert_eq!(held(&one, "a").await, Some(Value::from_static(b"one")));
        assert_eq!(held(&two, "a").await, Some(Value::from_static(b"two")));
        let error = refusal(&in_schema(&place, "three")).await;
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("search path"), "{error}");
    });
}

#[test]
fn a_newer_format_is_refused() {
    run(async {
        let Some(place) = TestDatabase::fresh().await else { return };
        open(&place.url(), true).await.close().await;
        place.run("update ashlar_store set format = 2").await;
        let error = refusal(&place.url()).await;
        assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{error}");
        assert!(error.to_string().contains("format 2"), "{error}");
    });
}

#[test]
fn settings_that_lose_commits_are_refused_unless_relaxed() {
    run(async {
        let Some(place) = TestDatabase::fresh().await else { return };
        let name = place.url().path().trim_matches('/').to_owned();
        place.run(&format!("alter database {name} set synchronous_commit = off")).await;
        let error = refusal(&place.url()).await;
        assert_eq!(error.kind(), StoreErrorKind::Unavailable);
        let text = error.to_string();
        assert!(text.contains("synchronous_commit is off"), "{text}");
        assert!(text.contains("--metadata-durability=relaxed"), "{text}");
        let options = PostgresOptions { relaxed: true, ..PostgresOptions::default() };
        let store = PostgresStore::open(place.url().as_str(), options).await.expect("a store");
        assert_eq!(store.durability(), Durability::Relaxed);
        write(&store, [put("a", "x")]).await;
    });
}

#[test]
fn a_role_that_may_not_create_functions_can_commit() {
    run(async {
        let Some(place) = TestDatabase::fresh().await else { return };
        let role = unique();
        place
            .run(&format!(
                "revoke usage on language plpgsql from public; create role {role} login; \
                 create schema authorization {role}"
            ))
            .await;
        let store = open(&as_role(&place, &role), true).await;
        write(&store, [put("a", "x")]).await;
        assert_eq!(held(&store, "a").await, Some(Value::from_static(b"x")));
        assert_eq!(functions(&place).await, 0);
        store.close().await;
        drop(place);
        run_at(&server().expect("it was there"), &format!("drop role {role}")).await;
    });
}

#[test]
fn a_role_that_may_not_create_tables_is_refused() {
    run(async {
        let Some(place) = TestDatabase::fresh().await else { return };
        let role = unique();
        place
            .run(&format!("create role {role} login; revoke create on schema public from public"))
            .await;
        let error = refusal(&as_role(&place, &role)).await;
        assert_eq!(error.kind(), StoreErrorKind::Unavailable);
        assert!(error.to_string().contains("may not create tables in schema public"), "{error}");
        drop(place);
        run_at(&server().expect("it was there"), &format!("drop role {role}")).await;
    });
}

#[test]
fn the_function_refuses_other_isolation() {
    run(async {
        let Some(place) = TestDatabase::fresh().await else { return };
        open(&place.url(), true).await.close().await;
        let mut connection = place.connect().await;
        let call = format!("ashlar_commit_3({}'')", "'{}', ".repeat(21));
        for level in ["repeatable read", "serializable"] {
            let text = format!("begin isolation level {level}; select {call}");
            let text = sqlx::AssertSqlSafe(text);
            let called = sqlx::raw_sql(text).execute(&mut connection).await;
            let error = called.expect_err("it is refused");
            assert!(error.to_string().contains("READ COMMITTED"), "{error}");
            sqlx::raw_sql("rollback").execute(&mut connection).await.expect("a rollback");
        }
        connection.close().await.expect("a goodbye");
    });
}

/// A plan that was made for a table of two rows is still used with many rows.
#[test]
fn plans_made_for_small_tables_suit_large_tables() {
    run(async {
        let Some(place) = TestDatabase::fresh().await else { return };
        let options = PostgresOptions {
            commit_connections: 1,
            read_connections: 1,
            ..PostgresOptions::default()
        };
        let store = PostgresStore::open(place.url().as_str(), options).await.expect("a store");
        let (counter, other) = (CounterKey(key("n")), CounterKey(key("m")));
        write(&store, [put("a", "x"), put("b", "x"), Write::Add(counter.clone(), 1)]).await;
        write(&store, [Write::Add(other.clone(), 1)]).await;
        place.run("vacuum analyze").await;
        let commit = || {
            let writes = [put("a", "y"), Write::Delete(key("c")), Write::Add(counter.clone(), 1)];
            plan([Guard::Present(key("b")), Guard::Absent(key("c"))], writes)
        };
        let record = |name| Read::Record { key: key(name), follow: None };
        let range = Read::Range { start: key("a"), end: key("b"), limit: 9, follow: None };
        let shapes = [
            vec![record("a"), record("b")],
            vec![range.clone()],
            vec![record("a"), range, Read::Counter(counter.clone()), Read::Counter(other.clone())],
        ];
        let turn = async || {
            assert_eq!(store.commit(&[commit()]).await.expect("verdicts"), [Verdict::Committed]);
            for shape in &shapes {
                store.read(shape).await.expect("answers");
            }
        };
        turn().await;
        for table in ["record (key, value) select k, k", "counter (key, value) select k, 1"] {
            let keys = "decode('7a' || lpad(to_hex(n), 24, '0'), 'hex')";
            let rows = format!("(select {keys} k from generate_series(1, 20000) n) s");
            place.run(&format!("insert into ashlar_{table} from {rows}")).await;
        }
        let rows_read = "select sum(pg_stat_get_tuples_returned(indexrelid))::bigint \
                         from pg_index where indrelid in \
                         ('ashlar_record'::regclass, 'ashlar_counter'::regclass)";
        let mut connection = place.connect().await;
        for _ in 0..20 {
            turn().await;
        }
        // A session reports its statistics at its end at the latest.
        store.close().await;
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        let row = sqlx::query(rows_read).fetch_one(&mut connection).await.expect("a row");
        let read: i64 = row.get(0);
        assert!((100..2_000).contains(&read), "{read} rows were read in 21 turns");
    });
}

#[test]
fn no_output_contains_the_password() {
    const SECRET: &str = "hush-77c0";
    run(async {
        let Some(place) = TestDatabase::fresh().await else { return };
        let mut url = place.url();
        url.set_password(Some(SECRET)).expect("a password");
        let store = open(&url, true).await;
        assert!(!format!("{store:?}").contains(SECRET));
        url.set_path("there is no such database");
        let unknown = refusal(&url).await;
        url.set_port(Some(1)).expect("a port");
        let deaf = refusal(&url).await;
        for error in [unknown, deaf] {
            assert_eq!(error.kind(), StoreErrorKind::Unavailable);
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains(SECRET), "{shown}");
        }
    });
}
