//! The settings that a server must have, and those that durability needs.

use std::path::Path;

use databases::Database;
use rcgen::{CertificateParams, KeyPair};
use redis::Connection;
use store::{Durability, MetaStore, Read, StoreError, StoreErrorKind, Write};
use store_redis::{RedisOptions, RedisStore};

use crate::server::{self, relaxed};
use crate::{key, put, record, write};

/// Settings by name.
type Settings = &'static [(&'static str, &'static str)];

pub(crate) fn set(connection: &mut Connection, settings: &[(&str, &str)]) {
    let mut command = redis::cmd("CONFIG");
    command.arg("SET");
    for (name, value) in settings {
        command.arg(name).arg(value);
    }
    command.query::<()>(connection).expect("the setting is taken");
}

pub(crate) fn run(connection: &mut Connection, command: &[&str]) {
    let mut words = redis::cmd(command[0]);
    words.arg(&command[1..]);
    words.query::<redis::Value>(connection).unwrap_or_else(|error| panic!("{command:?}: {error}"));
}

async fn refused(url: &str, options: RedisOptions, parts: &[&str]) -> StoreError {
    let error = RedisStore::open(url, options).await.expect_err("the server is refused");
    for part in parts {
        assert!(error.to_string().contains(part), "no word of {part}: {error}");
    }
    error
}

const STRICT: Settings = &[
    ("appendonly", "yes"),
    ("appendfsync", "always"),
    ("no-appendfsync-on-rewrite", "no"),
    ("maxmemory-policy", "noeviction"),
];

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_may_lose_commits_are_refused_unless_relaxed() {
    let Some(server) = server::own() else { return };
    let mut connection = server::connection(&server.url());
    let cases: [(Settings, &[&str]); 5] = [
        (&[("appendonly", "no")], &["appendonly is not yes", "loses everything"]),
        (&[("appendfsync", "everysec")], &["appendfsync is everysec", "about the last second"]),
        (&[("appendfsync", "no")], &["appendfsync is no ", "the last half minute"]),
        (&[("no-appendfsync-on-rewrite", "yes")], &["no-appendfsync-on-rewrite is yes"]),
        (
            &[("maxmemory-policy", "allkeys-lru"), ("appendfsync", "everysec")],
            &["maxmemory-policy is allkeys-lru", "throws records away", "appendfsync is everysec"],
        ),
    ];
    for (settings, parts) in cases {
        set(&mut connection, STRICT);
        let store = RedisStore::open(&server.url(), RedisOptions::default()).await.expect("strict");
        assert_eq!(store.durability(), Durability::Strict);
        set(&mut connection, settings);
        let error = refused(&server.url(), RedisOptions::default(), parts).await;
        assert_eq!(error.kind(), StoreErrorKind::Unavailable);
        assert!(error.to_string().contains("--metadata-durability=relaxed"), "{error}");
        let store = RedisStore::open(&server.url(), relaxed()).await.expect("relaxed");
        assert_eq!(store.durability(), Durability::Relaxed);
        write(&store, [put(key(1, "a"), "x")]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_is_refused_with_all_options() {
    let Some(server) = server::own() else { return };
    let store = RedisStore::open(&server.url(), relaxed()).await.expect("a store");
    write(&store, [put(key(1, "a"), "x")]).await;
    let mut connection = server::connection(&server.url());
    run(&mut connection, &["REPLICAOF", "127.0.0.1", "1"]);
    let error = refused(&server.url(), relaxed(), &["replica"]).await;
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    // An open store gets the server's error before anything was written. From then on it does not
    // use answers of the replica.
    for _ in 0..5 {
        assert_eq!(record(&store, key(1, "a")).await.as_deref(), Some(&b"x"[..]));
    }
    let error = store.commit(&[crate::plan([], [put(key(1, "a"), "y")])]).await;
    assert_eq!(error.expect_err("read only").kind(), StoreErrorKind::Unavailable);
    for _ in 0..5 {
        let asked = store.read(&[Read::Record { key: key(1, "a"), follow: None }]).await;
        assert_eq!(asked.expect_err("a replica").kind(), StoreErrorKind::Unavailable);
    }
    run(&mut connection, &["REPLICAOF", "NO", "ONE"]);
    write(&store, [put(key(1, "a"), "z")]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_who_may_not_read_settings_needs_relaxed_durability() {
    let Some(server) = server::own() else { return };
    let mut connection = server::connection(&server.url());
    let rules = ["ACL", "SETUSER", "gateway", "on", ">hunter2", "~{ashlar}:*", "+@all", "-config"];
    run(&mut connection, &rules);
    let url = server.url().replace("redis://", "redis://gateway:hunter2@");
    let error = refused(&url, RedisOptions::default(), &["CONFIG GET", "relaxed"]).await;
    assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
    let store = RedisStore::open(&url, relaxed()).await.expect("relaxed");
    write(&store, [put(key(1, "a"), "x")]).await;
    assert_eq!(store.durability(), Durability::Relaxed);
    assert!(!format!("{store:?}").contains("hunter2"), "{store:?}");
}

/// Long records are committed in transactions, so a user without the right is refused at the start.
#[tokio::test(flavor = "multi_thread")]
async fn a_user_without_the_right_to_transactions_is_refused() {
    let Some(server) = server::own() else { return };
    let mut connection = server::connection(&server.url());
    for command in ["-multi", "-exec"] {
        let rules =
            ["ACL", "SETUSER", "gateway", "reset", "on", ">hunter2", "~*", "+@all", command];
        run(&mut connection, &rules);
        let url = server.url().replace("redis://", "redis://gateway:hunter2@");
        let error = refused(&url, relaxed(), &[&command[1..]]).await;
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_error_contains_a_password() {
    let Some(server) = server::own() else { return };
    let mut connection = server::connection(&server.url());
    set(&mut connection, &[("requirepass", "correct")]);
    let wrong = server.url().replace("redis://", "redis://:hunter2@");
    let nowhere = "redis://user:hunter2@127.0.0.1:1/";
    for url in [&*wrong, nowhere, "redis://user:hunter2@no-such-host.invalid/"] {
        let error = refused(url, relaxed(), &[]).await;
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        let mut said = format!("{error} {error:?}");
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            said = format!("{said} {cause} {cause:?}");
            source = cause.source();
        }
        assert!(!said.contains("hunter2"), "{said}");
    }
    let right = server.url().replace("redis://", "redis://:correct@");
    let store = RedisStore::open(&right, relaxed()).await.expect("a store");
    assert!(!format!("{store:?}").contains("correct"), "{store:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_format_or_foreign_keys_are_refused() {
    let Some(server) = server::own() else { return };
    let mut connection = server::connection(&server.url());
    let store = RedisStore::open(&server.url(), relaxed()).await.expect("a store");
    store.close().await;
    for (format, parts) in [("2", ["format 2", "reads 1 only"]), ("0", ["unknown format", "\"0\""])]
    {
        run(&mut connection, &["HSET", "{ashlar}:m", "format", format]);
        let error = refused(&server.url(), relaxed(), &parts).await;
        assert_eq!(error.kind(), StoreErrorKind::Corrupt);
    }
    run(&mut connection, &["HDEL", "{ashlar}:m", "format"]);
    let error = refused(&server.url(), relaxed(), &["not a volume"]).await;
    assert_eq!(error.kind(), StoreErrorKind::Corrupt);
    run(&mut connection, &["DEL", "{ashlar}:m"]);
    run(&mut connection, &["SET", "{ashlar}:m", "a string"]);
    let error = refused(&server.url(), relaxed(), &[]).await;
    assert_eq!(error.kind(), StoreErrorKind::Corrupt);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_a_cluster_is_refused() {
    let Some(mut server) = server::own() else { return };
    // A setting that cannot be changed while the server runs.
    server.kill();
    let program = std::process::Command::new("redis-server")
        .args(["--port", &server.address().port().to_string(), "--bind", "127.0.0.1"])
        .args(["--cluster-enabled", "yes", "--save", ""])
        .arg("--dir")
        .arg(server.folder())
        .stdout(std::process::Stdio::null())
        .spawn();
    let mut program = program.expect("it starts");
    let mut answer = RedisStore::open(&server.url(), relaxed()).await;
    for _ in 0..100 {
        let Err(error) = &answer else { break };
        if error.to_string().contains("cluster") {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        answer = RedisStore::open(&server.url(), relaxed()).await;
    }
    program.kill().expect("it is ours");
    program.wait().expect("it ends");
    let error = answer.expect_err("the server is refused");
    let text = error.to_string();
    assert!(text.contains("a node of a cluster") && text.contains("redis+sentinel://"), "{error}");
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_out_of_memory_refuses_whole_batches() {
    let Some(server) = server::own() else { return };
    let store = RedisStore::open(&server.url(), RedisOptions::default()).await.expect("a store");
    let mut connection = server::connection(&server.url());
    for after in ["after", &"after".repeat(1_000)] {
        write(&store, [put(key(1, "a"), "before"), Write::Delete(key(2, "b"))]).await;
        set(&mut connection, &[("maxmemory", "1mb")]);
        let both = crate::plan([], [put(key(1, "a"), after), put(key(2, "b"), after)]);
        let refused = store.commit(std::slice::from_ref(&both)).await;
        let error = refused.expect_err("there is no memory");
        assert_eq!(error.kind(), StoreErrorKind::Full, "{error}");
        assert!(error.to_string().contains("OOM") || error.to_string().contains("maxmemory"));
        assert_eq!(record(&store, key(1, "a")).await.as_deref(), Some(&b"before"[..]));
        assert_eq!(record(&store, key(2, "b")).await, None);
        set(&mut connection, &[("maxmemory", "0")]);
        store.commit(&[both]).await.expect("there is memory again");
        assert_eq!(record(&store, key(2, "b")).await.as_deref(), Some(after.as_bytes()));
    }
}

/// Returns the settings of TLS with a new certificate of these names, and the file of its
/// authority.
pub(crate) fn certify(folder: &Path, names: &[&str]) -> ([(&'static str, String); 4], String) {
    let key_pair = KeyPair::generate().expect("a key");
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let params = CertificateParams::new(names).expect("names");
    let certificate = params.self_signed(&key_pair).expect("a certificate");
    let (certificate_file, key_file) = (folder.join("cert.pem"), folder.join("key.pem"));
    std::fs::write(&certificate_file, certificate.pem()).expect("a file");
    std::fs::write(&key_file, key_pair.serialize_pem()).expect("a file");
    let path = certificate_file.display().to_string();
    let settings = [
        ("tls-cert-file", path.clone()),
        ("tls-key-file", key_file.display().to_string()),
        ("tls-ca-cert-file", path.clone()),
        ("tls-auth-clients", "no".to_owned()),
    ];
    (settings, path)
}

/// Makes a server accept TLS with a certificate of these names. Returns the port, and the file of
/// the authority.
pub(crate) fn serve_tls(server: &Database, names: &[&str]) -> (u16, String) {
    let (settings, path) = certify(server.folder(), names);
    let port = ports::reserve().port();
    let port_text = port.to_string();
    let mut all: Vec<(&str, &str)> =
        settings.iter().map(|(name, value)| (*name, &**value)).collect();
    all.push(("tls-port", &port_text));
    set(&mut server::connection(&server.url()), &all);
    (port, path)
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_accepts_only_the_authority_in_the_url() {
    let Some(server) = server::own() else { return };
    let (port, path) = serve_tls(&server, &["localhost"]);
    let trusted = format!("rediss://localhost:{port}/?ca={path}");
    let store = RedisStore::open(&trusted, RedisOptions::default()).await.expect("a store");
    write(&store, [put(key(1, "a"), "secret")]).await;
    assert_eq!(record(&store, key(1, "a")).await.as_deref(), Some(&b"secret"[..]));
    let unknown = format!("rediss://localhost:{port}/");
    let error = refused(&unknown, relaxed(), &["ertificate"]).await;
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    let other_name = format!("rediss://127.0.0.1:{port}/?ca={path}");
    refused(&other_name, relaxed(), &["ertificate"]).await;
}
