//! A server that was killed while it appended a transaction to its file.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use databases::Database;
use store::{MetaStore, StoreErrorKind};
use store_redis::{RedisOptions, RedisStore};

use crate::server;
use crate::{commit, plan, point, put, record, write};

async fn open(server: &Database) -> RedisStore {
    RedisStore::open(&server.url(), RedisOptions::default()).await.expect("a store")
}

/// Returns the file to which the server appends.
fn newest_file(server: &Database) -> PathBuf {
    let folder = server.folder().join("appendonlydir");
    let files = fs::read_dir(folder).expect("a folder").map(|file| file.expect("a file").path());
    let number = |file: &PathBuf| -> Option<u64> {
        let name = file.file_name()?.to_str()?.strip_prefix("appendonly.aof.")?;
        name.strip_suffix(".incr.aof")?.parse().ok()
    };
    files.max_by_key(number).expect("a file that is appended to")
}

/// Commits a long record, kills the server, and cuts the file in the last command of the record's
/// transaction. Starts the server, which then has no trace of the transaction.
async fn cut_a_transaction(server: &mut Database) {
    let store = open(server).await;
    write(&store, [put(point(1), &"long".repeat(500))]).await;
    store.close().await;
    server.kill();
    let file = newest_file(server);
    let bytes = fs::read(&file).expect("its bytes");
    let last =
        bytes.windows(6).rposition(|window| window == b"MSETNX").expect("the overflow value");
    let cut = fs::OpenOptions::new().write(true).open(&file).expect("the file");
    cut.set_len(last as u64 + 40).expect("cut");
    server.restart();
    let mut connection = server::connection(&server.url());
    let keys: Vec<String> = redis::cmd("KEYS").arg("*rI*").query(&mut connection).expect("keys");
    assert!(keys.is_empty(), "the server has kept a part of the transaction: {keys:?}");
}

fn start_again(server: &mut Database) {
    server.kill();
    server.restart();
}

#[tokio::test(flavor = "multi_thread")]
async fn half_of_a_transaction_does_not_come_back_at_the_second_start() {
    let Some(mut server) = server::own() else { return };
    cut_a_transaction(&mut server).await;
    let store = open(&server).await;
    write(&store, [put(point(2), "later")]).await;
    start_again(&mut server);
    let store = open(&server).await;
    assert_eq!(record(&store, point(1)).await, None);
    assert!(record(&store, point(2)).await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn half_of_a_transaction_does_not_come_back_if_the_rewrite_is_killed() {
    let Some(mut server) = server::own() else { return };
    cut_a_transaction(&mut server).await;
    let mut connection = server::connection(&server.url());
    let slowly = redis::cmd("CONFIG").arg(&["SET", "rdb-key-save-delay", "10000000"]).clone();
    slowly.exec(&mut connection).expect("set");
    let store = open(&server).await;
    write(&store, [put(point(2), "later")]).await;
    let facts: String =
        redis::cmd("INFO").arg("persistence").query(&mut connection).expect("facts");
    assert!(facts.contains("aof_rewrite_in_progress:1"), "the rewrite has ended:\n{facts}");
    start_again(&mut server);
    let store = open(&server).await;
    assert_eq!(record(&store, point(1)).await, None);
    assert!(record(&store, point(2)).await.is_some());
}

/// Shows the defect of the server. If this fails, the server under test no longer has it.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_rewrite_half_of_a_transaction_comes_back() {
    let Some(mut server) = server::own() else { return };
    cut_a_transaction(&mut server).await;
    let mut connection = server::connection(&server.url());
    let mut transaction = redis::pipe();
    // The server writes MULTI only if a transaction has several effects.
    transaction.atomic().set("one", "x").set("other", "x");
    transaction.exec(&mut connection).expect("set");
    start_again(&mut server);
    let mut connection = server::connection(&server.url());
    let keys: Vec<String> = redis::cmd("KEYS").arg("*rI*").query(&mut connection).expect("keys");
    assert!(!keys.is_empty(), "nothing has come back");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_rewrites_its_file_once_in_each_run() {
    let Some(server) = server::own() else { return };
    let mut connection = server::connection(&server.url());
    let stores = [open(&server).await, open(&server).await];
    for store in &stores {
        write(store, [put(point(1), "x")]).await;
    }
    let stats: String =
        redis::cmd("INFO").arg("commandstats").query(&mut connection).expect("facts");
    assert!(stats.contains("cmdstat_bgrewriteaof:calls=1,"), "{stats}");
}

/// Returns how often clients have sent `BGREWRITEAOF`.
fn rewrites_asked(url: &str) -> u64 {
    let mut connection = server::connection(url);
    let stats: String =
        redis::cmd("INFO").arg("commandstats").query(&mut connection).expect("facts");
    let calls = stats.split_once("cmdstat_bgrewriteaof:calls=").map(|(_, rest)| rest);
    let calls = calls.and_then(|rest| rest.split_once(',')).map(|(calls, _)| calls);
    calls.map_or(0, |calls| calls.parse().expect("a number"))
}

/// A server that may not start processes.
struct Lonely {
    server: std::process::Child,
    url: String,
    folder: tempfile::TempDir,
}

impl Lonely {
    /// A user without rights. The kernel does not limit the processes of root.
    const USER: u32 = 65_534;

    /// Returns a command that runs as that user.
    fn command() -> std::process::Command {
        let mut command = std::process::Command::new("setpriv");
        command.args(["--clear-groups", "--reuid", &Lonely::USER.to_string()]);
        command
    }

    /// Returns `None` if this process may not start one.
    fn start() -> Option<Lonely> {
        let folder = tempfile::TempDir::new().expect("a folder");
        if std::os::unix::fs::chown(folder.path(), Some(Lonely::USER), None).is_err() {
            return None;
        }
        let port = ports::reserve().port().to_string();
        let mut command = Lonely::command();
        command.args(["--pdeathsig", "KILL", "redis-server", "--port", &port]);
        command.args(["--save", "", "--appendonly", "yes", "--appendfsync", "always"]);
        command.arg("--dir").arg(folder.path()).stdout(std::process::Stdio::null());
        let server = command.spawn().expect("the server's program starts");
        let url = format!("redis://127.0.0.1:{port}/");
        let lonely = Lonely { server, url, folder };
        let until = std::time::Instant::now() + Duration::from_secs(10);
        while !lonely.answers() {
            assert!(std::time::Instant::now() < until, "the server does not start");
            std::thread::sleep(Duration::from_millis(50));
        }
        let pid = lonely.server.id().to_string();
        let limit = Lonely::command().args(["prlimit", "--pid", &pid, "--nproc=1"]).status();
        assert!(limit.expect("prlimit").success());
        Some(lonely)
    }

    fn answers(&self) -> bool {
        let client = redis::Client::open(&*self.url).expect("an address");
        client.get_connection_with_timeout(Duration::from_secs(1)).is_ok()
    }

    /// Returns the number of files to which the server has appended and which it has not deleted.
    fn appended_files(&self) -> usize {
        let files = fs::read_dir(self.folder.path().join("appendonlydir")).expect("a folder");
        let names = files.map(|file| file.expect("a file").file_name());
        names.filter(|name| name.to_string_lossy().ends_with(".incr.aof")).count()
    }
}

impl Drop for Lonely {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_fork_appends_to_a_new_file_and_is_used() {
    let (Some(_), Some(server)) = (server::own(), Lonely::start()) else { return };
    let store = RedisStore::open(&server.url, RedisOptions::default()).await.expect("a store");
    write(&store, [put(point(2), "x")]).await;
    let mut connection = server::connection(&server.url);
    let facts: String =
        redis::cmd("INFO").arg("persistence").query(&mut connection).expect("facts");
    assert!(facts.contains("aof_last_bgrewrite_status:err"), "the server can fork:\n{facts}");
    assert_eq!((rewrites_asked(&server.url), server.appended_files()), (1, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_saves_a_dump_is_named_as_the_cause_and_used_afterwards() {
    let Some(mut server) = server::own() else { return };
    cut_a_transaction(&mut server).await;
    let mut connection = server::connection(&server.url());
    let slowly = redis::cmd("CONFIG").arg(&["SET", "rdb-key-save-delay", "10000000"]).clone();
    slowly.exec(&mut connection).expect("set");
    // The dump of a server without keys ends at once.
    redis::cmd("SET").arg(&["key", "value"]).exec(&mut connection).expect("set");
    redis::cmd("BGSAVE").exec(&mut connection).expect("a dump begins");
    let error =
        RedisStore::open(&server.url(), RedisOptions::default()).await.expect_err("refused");
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("saves a dump"), "{error}");
    let facts: String =
        redis::cmd("INFO").arg("persistence").query(&mut connection).expect("facts");
    assert!(facts.contains("rdb_bgsave_in_progress:1"), "the dump has ended:\n{facts}");
    let at_once = redis::cmd("CONFIG").arg(&["SET", "rdb-key-save-delay", "0"]).clone();
    at_once.exec(&mut connection).expect("set");
    end_the_dump(&server);
    let store = open_within(&server, Duration::from_secs(20)).await;
    write(&store, [put(point(2), "later")]).await;
}

/// Ends the process that saves a dump.
fn end_the_dump(server: &Database) {
    let processes: Vec<String> = server.processes().iter().map(u32::to_string).collect();
    let children = &processes[1..];
    assert!(!children.is_empty(), "no process saves a dump");
    let sent = std::process::Command::new("kill").arg("-USR1").args(children).status();
    assert!(sent.expect("kill").success());
}

async fn open_within(server: &Database, patience: Duration) -> RedisStore {
    let until = tokio::time::Instant::now() + patience;
    loop {
        match RedisStore::open(&server.url(), RedisOptions::default()).await {
            Ok(store) => return store,
            Err(error) => assert!(tokio::time::Instant::now() < until, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_of_one_server_share_its_rewrite() {
    let Some(server) = server::own() else { return };
    for name in ["one", "two", "three"] {
        let url = format!("{}?prefix={name}", server.url().trim_end_matches('/'));
        let store = RedisStore::open(&url, RedisOptions::default()).await.expect("a store");
        write(&store, [put(point(1), "x")]).await;
        store.close().await;
        // Counts a rewrite that has ended, not one in progress.
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(rewrites_asked(&server.url()), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_who_may_not_rewrite_needs_another_setting() {
    let Some(server) = server::own() else { return };
    let mut connection = server::connection(&server.url());
    let rules = ["SETUSER", "gateway", "on", ">hunter2", "~*", "+@all", "-bgrewriteaof"];
    redis::cmd("ACL").arg(&rules).exec(&mut connection).expect("a user");
    let url = server.url().replace("redis://", "redis://gateway:hunter2@");
    let error = RedisStore::open(&url, RedisOptions::default()).await.expect_err("refused");
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("aof-load-truncated"), "{error}");
    let settings = ["SET", "aof-load-truncated", "no"];
    redis::cmd("CONFIG").arg(&settings).exec(&mut connection).expect("set");
    let store = RedisStore::open(&url, RedisOptions::default()).await.expect("a store");
    assert!(commit(&store, plan([], [put(point(1), "x")])).await.expect("a commit"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_a_volume_gets_no_key() {
    let Some(server) = server::own() else { return };
    assert!(
        !RedisStore::is_made(&server.url(), &RedisOptions::default()).await.expect("an answer")
    );
    let mut connection = server::connection(&server.url());
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut connection).expect("keys");
    assert!(keys.is_empty(), "{keys:?}");
    let stats: String =
        redis::cmd("INFO").arg("commandstats").query(&mut connection).expect("facts");
    assert!(stats.contains("cmdstat_bgrewriteaof:calls=1,"), "{stats}");
}
