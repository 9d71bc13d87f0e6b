//! The server of the tests, databases on it, and short forms for plans.

use std::io::Write;
use std::sync::atomic::{AtomicU32, Ordering};

use sqlx::mysql::{MySqlConnectOptions, MySqlConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Executor};
use store::{
    CounterKey, Guard, Key, MetaStore, Plan, Read, ReadResult, Space, Value, Verdict,
    Write as Change,
};
use store_mysql::{MysqlOptions, MysqlStore};

#[expect(clippy::disallowed_methods, reason = "only the environment knows where the service is")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Prints that a test does not run, or fails if all tests must run.
pub(crate) fn skip(why: &str) {
    assert!(variable("ASHLAR_TEST_REQUIRE_SERVICES").is_none_or(|must| must != "1"), "{why}");
    // Written past the capture of test output, so that the reader of the results sees it.
    let notice = format!("NOT RUN against a server: {why}\n");
    std::io::stderr().write_all(notice.as_bytes()).expect("standard error is open");
}

/// Returns the URL of a server on which databases may be created; `None`, with a message, if there
/// is none.
pub(crate) fn server() -> Option<String> {
    let url = variable("ASHLAR_TEST_MYSQL");
    if url.is_none() {
        skip("ASHLAR_TEST_MYSQL is not set");
    }
    url
}

/// Runs a test on a runtime of its own, if there is a server.
pub(crate) fn run(case: impl Future<Output = ()>) {
    if server().is_some() {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(2).enable_all().build().expect("a runtime").block_on(case);
    }
}

pub(crate) async fn connect(url: &str) -> MySqlConnection {
    let options: MySqlConnectOptions = url.parse().expect("a URL");
    options.disable_statement_logging().connect().await.expect("the server lets us in")
}

/// Runs statements of the test.
pub(crate) async fn execute(url: &str, text: impl Into<String>) {
    let mut connection = connect(url).await;
    let done = connection.execute(sqlx::raw_sql(AssertSqlSafe(text.into()))).await;
    done.expect("the statements succeed");
}

/// A database of one test, dropped with this value.
#[derive(Debug)]
pub(crate) struct Database {
    server: String,
    name: String,
}

impl Database {
    /// Creates a database on the server of the environment.
    pub(crate) async fn new() -> Database {
        Database::on(&server().expect("tests without a server do not come here")).await
    }

    /// Creates a database on the server of a URL.
    pub(crate) async fn on(server: &str) -> Database {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("ashlar_test_{}_{number}", std::process::id());
        let make = format!("DROP DATABASE IF EXISTS {name}; CREATE DATABASE {name}");
        execute(server, make).await;
        Database { server: server.to_owned(), name }
    }

    /// Returns the database's URL.
    pub(crate) fn url(&self) -> String {
        let mut url = url::Url::parse(&self.server).expect("a URL");
        url.set_path(&self.name);
        url.into()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let (server, name) = (self.server.clone(), self.name.clone());
        // A runtime cannot wait within another one.
        let dropping = std::thread::Builder::new().spawn(move || {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            let runtime = builder.enable_all().build().expect("a runtime");
            runtime.block_on(execute(&server, format!("DROP DATABASE {name}")));
        });
        let dropped = dropping.expect("a thread").join();
        assert!(dropped.is_ok() || std::thread::panicking(), "the database {} stays", self.name);
    }
}

/// Opens a store and accepts all risks of its server's settings.
pub(crate) async fn open(url: &str) -> MysqlStore {
    let options = MysqlOptions { relaxed: true, ..MysqlOptions::default() };
    MysqlStore::open(url, options).await.expect("a store")
}

pub(crate) fn key(partition: u64, suffix: impl AsRef<[u8]>) -> Key {
    Key::new(Space(b'd'), partition, suffix.as_ref())
}

pub(crate) fn counter(partition: u64) -> CounterKey {
    CounterKey(key(partition, "counter"))
}

pub(crate) fn put(key: Key, bytes: impl AsRef<[u8]>) -> Change {
    Change::Put(key, Value::copy_from_slice(bytes.as_ref()))
}

pub(crate) fn plan(guards: impl Into<Vec<Guard>>, writes: impl Into<Vec<Change>>) -> Plan {
    Plan { guards: guards.into(), writes: writes.into() }
}

pub(crate) async fn decide_one(store: &MysqlStore, plan: Plan) -> Verdict {
    store.commit(&[plan]).await.expect("a batch is decided").remove(0)
}

pub(crate) async fn record(store: &MysqlStore, key: &Key) -> Option<Value> {
    let read = Read::Record { key: key.clone(), follow: None };
    match store.read(&[read]).await.expect("a read is answered").remove(0) {
        ReadResult::Record(found) => found.map(|entry| entry.value),
        other => panic!("a record was asked for, not {other:?}"),
    }
}

pub(crate) async fn number(store: &MysqlStore, key: &CounterKey) -> i64 {
    match store.read(&[Read::Counter(key.clone())]).await.expect("a read is answered").remove(0) {
        ReadResult::Counter(number) => number,
        other => panic!("a counter was asked for, not {other:?}"),
    }
}
