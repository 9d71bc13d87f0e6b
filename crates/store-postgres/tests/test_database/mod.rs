//! PostgreSQL for tests: a new database for each test, on the server that `ASHLAR_TEST_POSTGRES`
//! names. Its role must be able to create databases and roles. Tests that kill a server start one
//! of their own.

#![expect(dead_code, reason = "each test file needs a part of this")]

use std::io::Write as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::UNIX_EPOCH;

use databases::{Database, Engine};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _};
use store::{
    CounterKey, Guard, Key, MetaStore as _, Plan, Read, ReadResult, Space, Value, Verdict, Write,
};
use store_postgres::{PostgresOptions, PostgresStore};
use url::Url;

#[expect(clippy::disallowed_methods, reason = "only the environment knows where the server is")]
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Returns the server under test, or `None`, with a message, if there is none.
pub(crate) fn server() -> Option<Url> {
    let Some(url) = variable("ASHLAR_TEST_POSTGRES") else {
        assert!(
            variable("ASHLAR_TEST_REQUIRE_SERVICES").is_none_or(|required| required != "1"),
            "ASHLAR_TEST_POSTGRES must name a server"
        );
        // Written past the capture of test output, so that the reader of the results sees it.
        let notice = b"NOT RUN against PostgreSQL: ASHLAR_TEST_POSTGRES is not set\n";
        std::io::stderr().write_all(notice).expect("standard error is open");
        return None;
    };
    Some(Url::parse(&url).expect("ASHLAR_TEST_POSTGRES is a URL"))
}

/// Runs a test to its end.
pub(crate) fn run(case: impl Future<Output = ()>) {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().expect("a runtime").block_on(case);
}

/// Starts a server for one test. Returns `None`, with a message, if PostgreSQL is not installed.
pub(crate) fn own_server() -> Option<Database> {
    server()?;
    assert!(Database::installed(Engine::Postgres), "PostgreSQL must be installed");
    Some(Database::start(Engine::Postgres))
}

pub(crate) fn key(name: &str) -> Key {
    Key::new(Space(b'd'), 1, name.as_bytes())
}

pub(crate) fn put(name: &str, value: &str) -> Write {
    Write::Put(key(name), Value::copy_from_slice(value.as_bytes()))
}

pub(crate) fn plan(guards: impl Into<Vec<Guard>>, writes: impl Into<Vec<Write>>) -> Plan {
    Plan { guards: guards.into(), writes: writes.into() }
}

/// Commits writes without guards.
pub(crate) async fn write(store: &PostgresStore, writes: impl Into<Vec<Write>>) {
    let verdicts = store.commit(&[plan([], writes)]).await.expect("a verdict");
    assert_eq!(verdicts, [Verdict::Committed]);
}

/// Returns the bytes of a record.
pub(crate) async fn held(store: &PostgresStore, name: &str) -> Option<Value> {
    let read = [Read::Record { key: key(name), follow: None }];
    match store.read(&read).await.expect("an answer").remove(0) {
        ReadResult::Record(entry) => entry.map(|entry| entry.value),
        other => panic!("a record was asked for, not {other:?}"),
    }
}

/// Returns a counter.
pub(crate) async fn number(store: &PostgresStore, name: &str) -> i64 {
    let read = [Read::Counter(CounterKey(key(name)))];
    match store.read(&read).await.expect("an answer").remove(0) {
        ReadResult::Counter(number) => number,
        other => panic!("a counter was asked for, not {other:?}"),
    }
}

/// Opens a store that commits with functions, or with plain statements.
pub(crate) async fn open(url: &Url, functions: bool) -> PostgresStore {
    let options = PostgresOptions { functions, ..PostgresOptions::default() };
    PostgresStore::open(url.as_str(), options).await.expect("a store")
}

/// Returns a name that no other test uses.
pub(crate) fn unique() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    #[expect(clippy::disallowed_methods, reason = "a name that no earlier run has used")]
    let now = std::time::SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("ashlar_test_{}_{}_{number}", std::process::id(), now.as_nanos())
}

/// A database of one test.
pub(crate) struct TestDatabase {
    server: Url,
    name: String,
}

impl TestDatabase {
    /// Creates a database on the server under test.
    pub(crate) async fn fresh() -> Option<TestDatabase> {
        Some(TestDatabase::on(server()?).await)
    }

    /// Creates a database on a server.
    pub(crate) async fn on(server: Url) -> TestDatabase {
        let name = unique();
        run_at(&server, &format!("create database {name}")).await;
        TestDatabase { server, name }
    }

    /// Returns the database's URL.
    pub(crate) fn url(&self) -> Url {
        let mut url = self.server.clone();
        url.set_path(&self.name);
        url
    }

    /// Runs statements in the database.
    pub(crate) async fn run(&self, text: &str) {
        run_at(&self.url(), text).await;
    }

    /// Connects to the database without a store.
    pub(crate) async fn connect(&self) -> PgConnection {
        connect(&self.url()).await
    }
}

pub(crate) async fn connect(url: &Url) -> PgConnection {
    let options = PgConnectOptions::from_url(url).expect("a URL of PostgreSQL");
    options.connect().await.expect("the server is there")
}

pub(crate) async fn run_at(url: &Url, text: &str) {
    let mut connection = connect(url).await;
    let done = sqlx::raw_sql(AssertSqlSafe(text.to_owned())).execute(&mut connection).await;
    done.unwrap_or_else(|error| panic!("{text}: {error}"));
    connection.close().await.expect("a goodbye");
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        let (server, name) = (self.server.clone(), self.name.clone());
        // The test's own runtime may be in the middle of a task, so another one drops the database.
        let dropping = std::thread::Builder::new().spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async {
                let options = PgConnectOptions::from_url(&server).expect("a URL of PostgreSQL");
                // A server that was killed took its databases along.
                if let Ok(mut connection) = options.connect().await {
                    let text = format!("drop database if exists {name} with (force)");
                    let _ = sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut connection).await;
                }
            });
        });
        let _ = dropping.expect("a thread").join();
    }
}
