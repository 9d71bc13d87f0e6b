//! Members and URLs that are refused, users, and TLS.

use std::io::Write as _;
use std::process::{Command, Stdio};

use databases::{Database, Engine};
use store::StoreErrorKind;
use store_etcd::{EtcdOptions, EtcdStore};
use tempfile::TempDir;

use crate::calls::{commit, key, plan, put, record, write};
use crate::server;

async fn refused(url: &str) -> store::StoreError {
    EtcdStore::open(url, EtcdOptions::default()).await.expect_err("it is refused")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_with_unfit_flags_is_refused_with_the_remedy() {
    if !server::can_start() {
        return;
    }
    for flag in ["--max-txn-ops=128", "--max-request-bytes=1572864"] {
        let mut member = Database::start(Engine::Etcd);
        member.kill();
        member.set(&[flag]);
        member.restart();
        let error = refused(&member.fresh("volume")).await;
        assert_eq!(error.kind(), StoreErrorKind::Unavailable);
        let text = error.to_string();
        assert!(text.contains("--max-txn-ops=8448 --max-request-bytes=10485760"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn members_that_do_not_answer_are_all_named() {
    if !server::can_start() {
        return;
    }
    let mut member = Database::start(Engine::Etcd);
    let address = member.address().to_string();
    let both = format!("etcd://127.0.0.1:9,{address}/volume");
    // The first member is away, and the second one serves.
    let store = server::open(&both).await;
    write(&store, [put(key(1, "a"), "x")]).await;
    assert!(EtcdStore::is_made(&both, &EtcdOptions::default()).await.expect("an answer"));
    let other = format!("etcd://{address}/other");
    assert!(!EtcdStore::is_made(&other, &EtcdOptions::default()).await.expect("an answer"));
    member.kill();
    let text = refused(&both).await.to_string();
    assert!(text.contains("127.0.0.1:9") && text.contains(&address), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_needs_a_password_and_a_role() {
    if !server::can_start() {
        return;
    }
    let member = Database::start(Engine::Etcd);
    let address = member.address();
    for command in [
        &["user", "add", "root:hush"][..],
        &["user", "grant-role", "root", "root"],
        &["role", "add", "ashlar"],
        &["role", "grant-permission", "ashlar", "--prefix=true", "readwrite", "volume/"],
        &["user", "add", "anna:p/w"],
        &["user", "grant-role", "anna", "ashlar"],
        &["auth", "enable"],
    ] {
        member.etcdctl(command);
    }
    let store = server::open(&format!("etcd://anna:p%2Fw@{address}/volume")).await;
    write(&store, [put(key(1, "a"), "x")]).await;
    assert!(record(&store, key(1, "a")).await.is_some());
    // A change of users makes each token old.
    member.etcdctl(&["--user=root:hush", "user", "add", "other:x"]);
    write(&store, [put(key(1, "b"), "x")]).await;
    assert!(record(&store, key(1, "b")).await.is_some());
    for (url, word) in [
        (format!("etcd://anna:wrong@{address}/volume"), "password"),
        (format!("etcd://{address}/volume"), "user name is empty"),
        (format!("etcd://anna:p%2Fw@{address}/other"), "permission denied"),
    ] {
        let text = refused(&url).await.to_string();
        assert!(text.contains(word), "{url}: {text}");
        assert!(!text.contains("p/w"), "{text}");
    }
}

/// A commit that was not sent because the member gave no token has not happened.
#[tokio::test(flavor = "multi_thread")]
async fn a_changed_password_refuses_commits_and_is_in_no_text() {
    if !server::can_start() {
        return;
    }
    let member = Database::start(Engine::Etcd);
    for command in [
        &["user", "add", "root:hush"][..],
        &["user", "grant-role", "root", "root"],
        &["auth", "enable"],
    ] {
        member.etcdctl(command);
    }
    let store = server::open(&format!("etcd://root:hush@{}/volume", member.address())).await;
    write(&store, [put(key(1, "a"), "x")]).await;
    let text = format!("{store:?}");
    assert!(text.contains("token: RwLock") && text.contains("Sensitive"), "{text}");
    assert!(!text.contains("hush"), "{text}");
    member.etcdctl(&["--user=root:hush", "user", "add", "other:x"]);
    member.etcdctl(&["--user=root:hush", "user", "grant-role", "other", "root"]);
    let mut change = Command::new("etcdctl");
    change.env("ETCDCTL_API", "3").arg(format!("--endpoints={}", member.address()));
    change.args(["--user=other:x", "user", "passwd", "root", "--interactive=false"]);
    let mut change = change.stdin(Stdio::piped()).spawn().expect("etcdctl starts");
    change.stdin.take().expect("a pipe").write_all(b"quiet\n").expect("a password");
    assert!(change.wait().expect("etcdctl ends").success());
    let refused = commit(&store, plan([], [put(key(1, "b"), "x")])).await;
    let error = refused.expect_err("the password is wrong");
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("password"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_verifies_the_members_and_this_client() {
    if !server::can_start() {
        return;
    }
    let folder = TempDir::new().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    for name in ["right", "wrong", "client"] {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]);
        let made = made.expect("a certificate");
        std::fs::write(path(name), made.cert.pem()).expect("a file");
        std::fs::write(path(&format!("{name}.key")), made.signing_key.serialize_pem())
            .expect("a file");
    }
    let (right, key_file, client) = (path("right"), path("right.key"), path("client"));
    let mut member = Database::start(Engine::Etcd);
    let address = member.address();
    let listen = format!("https://{address}");
    member.kill();
    member.set(&[
        "--listen-client-urls",
        &listen,
        "--advertise-client-urls",
        &listen,
        "--cert-file",
        &right,
        "--key-file",
        &key_file,
        "--client-cert-auth",
        "--trusted-ca-file",
        &client,
    ]);
    member.restart_without_waiting();
    let client_key = path("client.key");
    let url = format!("etcds://{address}/volume?cacert={right}&cert={client}&key={client_key}");
    let store = server::open_patiently(&url).await;
    write(&store, [put(key(1, "a"), "x")]).await;
    assert!(record(&store, key(1, "a")).await.is_some());
    let wrong = path("wrong");
    for (url, why) in [
        (
            format!("etcds://{address}/volume?cacert={wrong}&cert={client}&key={client_key}"),
            "certificate",
        ),
        (format!("etcds://{address}/volume?cacert={right}"), ""),
        (format!("etcd://{address}/volume"), ""),
    ] {
        let error = refused(&url).await;
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains(why), "{url}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn members_of_different_clusters_are_refused() {
    if !server::can_start() {
        return;
    }
    let (one, other) = (Database::start(Engine::Etcd), Database::start(Engine::Etcd));
    let error = refused(&format!("etcd://{},{}/volume", one.address(), other.address())).await;
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    assert!(error.to_string().contains("add the member to its cluster"), "{error}");
}
