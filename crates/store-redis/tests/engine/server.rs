//! Servers for tests: one that was given, and ones that a test starts to do as it likes with.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, UNIX_EPOCH};

use store_redis::{RedisOptions, RedisStore};
use tempfile::TempDir;

#[expect(clippy::disallowed_methods, reason = "only the environment knows where the server is")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The URL of the server under test, or `None` if there is none.
pub(crate) fn given() -> Option<String> {
    let url = variable("ASHLAR_TEST_REDIS");
    if url.is_none() {
        assert!(
            variable("ASHLAR_TEST_REQUIRE_SERVICES").is_none_or(|required| required != "1"),
            "ASHLAR_TEST_REDIS must name a server"
        );
        // Written past the capture of test output: who reads the result shall know.
        let notice = b"NOT RUN against Redis: ASHLAR_TEST_REDIS is not set\n";
        std::io::stderr().write_all(notice).expect("standard error is open");
    }
    url
}

/// Whatever the server's settings, for tests that are not about them.
pub(crate) fn relaxed() -> RedisOptions {
    RedisOptions { relaxed: true, ..RedisOptions::default() }
}

/// A volume with a name that no other has; its keys are deleted when it is dropped.
#[derive(Debug)]
pub(crate) struct Volume {
    pub(crate) url: String,
    server: String,
    name: String,
}

impl Volume {
    /// On a server whose URL has no parameters.
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

    /// What every key begins with.
    pub(crate) fn prefix(&self) -> String {
        format!("{{{}}}:", self.name)
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        // A server that the test has ended has nothing left to delete.
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

/// Settings that keep what was acknowledged.
pub(crate) const STRICT: &[&str] =
    &["--appendonly", "yes", "--appendfsync", "always", "--save", ""];

/// A server of a test's own, in a folder of its own. Killed when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    settings: Vec<String>,
    folder: TempDir,
    child: Option<Child>,
}

impl Server {
    /// Starts a server, or says that there is no program to start and returns `None`.
    pub(crate) fn start(settings: &[&str]) -> Option<Server> {
        if Command::new("redis-server").arg("--version").stdout(Stdio::null()).status().is_err() {
            assert!(
                variable("ASHLAR_TEST_REQUIRE_SERVICES").is_none_or(|required| required != "1"),
                "redis-server must be installed"
            );
            let notice = b"NOT RUN with a server of its own: there is no redis-server\n";
            std::io::stderr().write_all(notice).expect("standard error is open");
            return None;
        }
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = free.local_addr().expect("an address");
        drop(free);
        let mut server = Server {
            address,
            settings: settings.iter().map(|&setting| setting.to_owned()).collect(),
            folder: TempDir::new().expect("a folder"),
            child: None,
        };
        server.run();
        Some(server)
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}/", self.address)
    }

    pub(crate) fn connection(&self) -> redis::Connection {
        let client = redis::Client::open(self.url()).expect("an address");
        client.get_connection_with_timeout(Duration::from_secs(2)).expect("a connection")
    }

    /// Starts the server over what an earlier one left, and waits until it answers.
    pub(crate) fn run(&mut self) {
        assert!(self.child.is_none(), "the server runs");
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--port", &self.address.port().to_string()]);
        command.arg("--dir").arg(self.folder.path()).args(&self.settings);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.child = Some(child.expect("a process"));
        let patience = Instant::now() + Duration::from_secs(20);
        loop {
            let answered = redis::Client::open(self.url())
                .and_then(|client| client.get_connection_with_timeout(Duration::from_secs(1)))
                .and_then(|mut connection| redis::cmd("PING").query::<String>(&mut connection));
            match answered {
                Err(error) if error.code() != Some("NOAUTH") => {
                    assert!(Instant::now() < patience, "the server does not answer: {error}");
                    std::thread::sleep(Duration::from_millis(20));
                }
                _ => return,
            }
        }
    }

    /// Ends the server at once, as a crash does.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("the process is ours");
            child.wait().expect("the process ends");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
