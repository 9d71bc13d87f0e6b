//! Servers for tests: a given one, and ones that a test starts for itself.

use std::io::Write;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use databases::{Database, Engine};
use store_redis::{RedisOptions, RedisStore};

#[expect(clippy::disallowed_methods, reason = "only the environment knows where the server is")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

pub(crate) fn required() -> bool {
    variable("ASHLAR_TEST_REQUIRE_SERVICES").is_some_and(|required| required == "1")
}

/// Returns the URL of the server under test, or `None` if there is none.
pub(crate) fn given() -> Option<String> {
    let url = variable("ASHLAR_TEST_REDIS");
    if url.is_none() {
        assert!(!required(), "ASHLAR_TEST_REDIS must name a server");
        // Written past the capture of test output, so that the reader of the results sees it.
        let notice = b"NOT RUN against Redis: ASHLAR_TEST_REDIS is not set\n";
        std::io::stderr().write_all(notice).expect("standard error is open");
    }
    url
}

/// Accepts any settings of the server, for tests that are not about them.
pub(crate) fn relaxed() -> RedisOptions {
    RedisOptions { relaxed: true, ..RedisOptions::default() }
}

/// A volume with a unique name. Its keys are deleted when it is dropped.
#[derive(Debug)]
pub(crate) struct Volume {
    pub(crate) url: String,
    server: String,
    name: String,
}

impl Volume {
    /// Creates a volume on a server whose URL has no parameters.
    pub(crate) fn new(server: &str) -> Volume {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        #[expect(clippy::disallowed_methods, reason = "a name that no earlier run has used")]
        let now = std::time::SystemTime::now();
        let nanos = now.duration_since(UNIX_EPOCH).expect("after 1970").as_nanos();
        let name = format!("test-{nanos}-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        Volume { url: format!("{server}?prefix={name}"), server: server.to_owned(), name }
    }

    pub(crate) async fn open(&self) -> RedisStore {
        RedisStore::open(&self.url, relaxed()).await.expect("a store")
    }

    /// Returns the first bytes of all keys.
    pub(crate) fn prefix(&self) -> String {
        format!("{{{}}}:", self.name)
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        // A server that the test has ended has no keys to delete.
        let Ok(mut connection) = redis::Client::open(&*self.server)
            .and_then(|client| client.get_connection_with_timeout(Duration::from_secs(2)))
        else {
            return;
        };
        let pattern = format!("{{{}}}:*", self.name);
        let keys: Vec<Vec<u8>> =
            redis::cmd("KEYS").arg(pattern).query(&mut connection).unwrap_or_default();
        for some in keys.chunks(500) {
            let _: Result<i64, _> = redis::cmd("UNLINK").arg(some).query(&mut connection);
        }
    }
}

/// Starts a server with strict settings. Returns `None` if no server is installed.
pub(crate) fn own() -> Option<Database> {
    if Database::installed(Engine::Redis) {
        return Some(Database::start(Engine::Redis));
    }
    assert!(!required(), "redis-server must be installed");
    let notice = b"NOT RUN with a server of its own: there is no redis-server\n";
    std::io::stderr().write_all(notice).expect("standard error is open");
    None
}

/// Returns a connection for commands that a store never sends.
pub(crate) fn connection(url: &str) -> redis::Connection {
    let client = redis::Client::open(url).expect("an address");
    client.get_connection_with_timeout(Duration::from_secs(2)).expect("a connection")
}
