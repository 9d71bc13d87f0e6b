//! A server that was killed while it appended a transaction to its file.

use std::fs;
use std::path::PathBuf;

use databases::Database;
use store::{MetaStore, StoreErrorKind};
use store_redis::{RedisOptions, RedisStore};

use crate::server;
use crate::{commit, plan, point, put, record, write};

async fn open(server: &Database) -> RedisStore {
    RedisStore::open(&server.url(), RedisOptions::default()).await.expect("a store")
}

/// The file that the server appends to.
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
/// transaction. Starts the server, which has no trace of the transaction then.
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
