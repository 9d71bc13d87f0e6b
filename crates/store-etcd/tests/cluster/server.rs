//! Members for tests: a given one, and ones that a test starts for itself.

use std::io::Write;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, UNIX_EPOCH};

use databases::{Database, Engine};
use store_etcd::{EtcdOptions, EtcdStore};

#[expect(clippy::disallowed_methods, reason = "only the environment knows where the server is")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn required() -> bool {
    variable("ASHLAR_TEST_REQUIRE_SERVICES").is_some_and(|required| required == "1")
}

/// Returns the URL of the member under test, or `None` if there is none.
pub(crate) fn given() -> Option<String> {
    let url = variable("ASHLAR_TEST_ETCD");
    if url.is_none() {
        assert!(!required(), "ASHLAR_TEST_ETCD must name a member");
        // Written past the capture of test output, so that the reader of the results sees it.
        let notice = b"NOT RUN against etcd: ASHLAR_TEST_ETCD is not set\n";
        std::io::stderr().write_all(notice).expect("standard error is open");
    }
    url
}

/// Returns the URL of a store with a unique name.
pub(crate) fn fresh(server: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    #[expect(clippy::disallowed_methods, reason = "a name that no earlier run has used")]
    let now = std::time::SystemTime::now();
    let nanos = now.duration_since(UNIX_EPOCH).expect("after 1970").as_nanos();
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{}/test-{nanos}-{number}", server.trim_end_matches('/'))
}

pub(crate) async fn open(url: &str) -> EtcdStore {
    EtcdStore::open(url, EtcdOptions::default()).await.expect("a store")
}

/// Returns the number of cells of all counters of a store.
pub(crate) fn cells(url: &str) -> usize {
    let (server, name) = url.trim_start_matches("etcd://").split_once('/').expect("a name");
    let output = Command::new("etcdctl")
        .env("ETCDCTL_API", "3")
        .args(["--endpoints", server, "get", "--prefix", "--keys-only"])
        .arg(format!("{name}/c"))
        .output()
        .expect("etcdctl starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let prefix = format!("{name}/c");
    output.stdout.windows(prefix.len()).filter(|part| *part == prefix.as_bytes()).count()
}

/// Returns true if tests can start members. Prints a notice if not.
pub(crate) fn can_start() -> bool {
    let installed = Database::installed(Engine::Etcd);
    if !installed {
        assert!(!required(), "etcd must be installed");
        let notice = b"NOT RUN with members of its own: there is no etcd\n";
        std::io::stderr().write_all(notice).expect("standard error is open");
    }
    installed
}

/// Opens a store as soon as its member answers.
pub(crate) async fn open_patiently(url: &str) -> EtcdStore {
    let begun = Instant::now();
    loop {
        match EtcdStore::open(url, EtcdOptions::default()).await {
            Ok(store) => return store,
            Err(error) => assert!(begun.elapsed() < Duration::from_secs(30), "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
