use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tempfile::NamedTempFile;
use tokio::time::{advance, pause, resume};

use super::*;
use crate::tests::stub::{Asked, Reply, Stub};
use crate::tests::{name, plain_endpoint};

/// A Vault with one key, `photos`. A wrapped key is its base64 behind a prefix.
fn vault(asked: &Asked, tokens: &[&str]) -> Reply {
    let refuse = |status, text: &str| Reply::Json(status, json!({ "errors": [text] }));
    if asked.path == "/v1/auth/approle/login" {
        if asked.body != json!({"role_id": "role", "secret_id": "word"}) {
            return refuse(400, "invalid role or secret ID");
        }
        let auth = json!({"client_token": tokens[0], "lease_duration": 60, "renewable": true});
        return Reply::Json(200, json!({ "auth": auth }));
    }
    if !tokens.contains(&asked.header("x-vault-token").unwrap_or_default()) {
        return refuse(403, "permission denied");
    }
    let plain = STANDARD.encode([5; 32]);
    match asked.path.as_str() {
        "/v1/auth/token/lookup-self" => {
            Reply::Json(200, json!({"data": {"ttl": 90, "renewable": true}}))
        }
        "/v1/auth/token/renew-self" => {
            Reply::Json(200, json!({"auth": {"client_token": "t", "lease_duration": 90}}))
        }
        "/v1/transit/datakey/plaintext/photos" => {
            let wrapped = format!("vault:v1:{plain}");
            Reply::Json(200, json!({"data": {"plaintext": plain, "ciphertext": wrapped}}))
        }
        "/v1/transit/decrypt/photos" => match asked.body["ciphertext"].as_str().unwrap() {
            "vault:v0:old" => {
                refuse(400, "ciphertext or signature version is disallowed by policy (too old)")
            }
            text => match text.strip_prefix("vault:v1:") {
                Some(plain) => Reply::Json(200, json!({"data": {"plaintext": plain}})),
                None => refuse(400, "invalid ciphertext: no prefix"),
            },
        },
        path if path.starts_with("/v1/transit/") => refuse(400, "encryption key not found"),
        _ => refuse(404, "no handler for route"),
    }
}

struct World {
    stub: Stub,
    kms: VaultKms,
    file: NamedTempFile,
}

async fn with_token() -> World {
    let stub = Stub::start(None, |asked| vault(asked, &["one"])).await;
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "one\n").unwrap();
    let login = VaultLogin::Token { file: file.path().to_owned() };
    let kms = VaultKms::new(&plain_endpoint(&stub.url), None, login).unwrap();
    World { stub, kms, file }
}

async fn with_role() -> World {
    let stub = Stub::start(None, |asked| vault(asked, &["one"])).await;
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "word").unwrap();
    let login =
        VaultLogin::AppRole { role: "role".to_owned(), secret_file: file.path().to_owned() };
    let kms = VaultKms::new(&plain_endpoint(&stub.url), None, login).unwrap();
    World { stub, kms, file }
}

/// Advances the clock. It is paused only for this, because sockets need a running clock.
async fn pass(time: Duration) {
    pause();
    advance(time).await;
    resume();
}

fn paths(asked: &[Asked]) -> Vec<&str> {
    asked.iter().map(|asked| asked.path.as_str()).collect()
}

#[tokio::test]
async fn a_data_key_opens_again() {
    for world in [with_token().await, with_role().await] {
        let made = world.kms.generate(&name("photos")).await.unwrap();
        assert!(made.wrapped.starts_with(b"vault:v1:"));
        let again = world.kms.decrypt(&name("photos"), &made.wrapped).await.unwrap();
        assert_eq!((made.plain.expose(), again.expose()), (&[5; 32], &[5; 32]));
        world.kms.describe(&name("photos")).await.unwrap();
        let asked = world.stub.asked();
        assert_eq!(asked.len(), 4, "one login for three requests: {:?}", paths(&asked));
        assert_eq!(asked[1].body, json!({"bits": 256}));
        assert!(asked[1..].iter().all(|asked| asked.header("x-vault-token") == Some("one")));
        assert!(asked[1..].iter().all(|asked| asked.method == "POST"));
    }
}

#[tokio::test]
async fn the_texts_of_vault_become_kinds_of_errors() {
    let world = with_token().await;
    let kind = async |key: &str, wrapped: &[u8]| {
        world.kms.decrypt(&name(key), wrapped).await.unwrap_err().kind
    };
    assert_eq!(kind("other", b"vault:v1:x").await, KmsErrorKind::NotFound);
    assert_eq!(kind("photos", b"vault:v0:old").await, KmsErrorKind::Refused);
    assert_eq!(kind("photos", b"else").await, KmsErrorKind::Invalid);
    assert_eq!(kind("photos", b"\xff").await, KmsErrorKind::Invalid);
    let error = world.kms.generate(&name("other")).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "KMS key other: Vault has no such key (encryption key not found)"
    );
    let login = VaultLogin::Token { file: world.file.path().to_owned() };
    let elsewhere = VaultKms::new(&plain_endpoint(&world.stub.url), Some("/a/b/"), login).unwrap();
    let error = elsewhere.generate(&name("photos")).await.unwrap_err();
    assert_eq!(error.kind, KmsErrorKind::Unavailable);
    assert!(error.cause.contains("no Transit engine at a/b"), "{error}");
}

#[tokio::test]
async fn a_refused_token_is_replaced_once_and_then_the_key_is_refused() {
    let world = with_token().await;
    world.kms.describe(&name("photos")).await.unwrap();
    // The operator revokes the token, and Vault's agent writes a new one.
    world.stub.set(|asked| vault(asked, &["two"]));
    std::fs::write(world.file.path(), "two").unwrap();
    pass(Duration::from_secs(6)).await;
    world.stub.asked();
    world.kms.describe(&name("photos")).await.unwrap();
    assert_eq!(world.stub.asked().len(), 3, "refused, login, accepted");
    // No token is valid any more.
    world.stub.set(|asked| vault(asked, &["none"]));
    pass(Duration::from_secs(6)).await;
    let error = world.kms.generate(&name("photos")).await.unwrap_err();
    assert_eq!(error.kind, KmsErrorKind::Refused);
    assert!(error.cause.contains("permission denied"), "{error}");
    // A policy that allows the login but not the key: no login for each request.
    world.stub.set(|asked| match asked.path.as_str() {
        "/v1/auth/token/lookup-self" => vault(asked, &["two"]),
        _ => Reply::Json(403, json!({"errors": ["1 error occurred: permission denied"]})),
    });
    pass(Duration::from_secs(6)).await;
    world.stub.asked();
    for _ in 0..10 {
        let error = world.kms.generate(&name("photos")).await.unwrap_err();
        assert_eq!(error.kind, KmsErrorKind::Refused);
    }
    let asked = world.stub.asked();
    let logins = paths(&asked).iter().filter(|path| path.ends_with("lookup-self")).count();
    assert_eq!((logins, asked.len()), (1, 12));
}

#[tokio::test]
async fn logins_are_renewed_before_they_end() {
    for (world, life, renewal) in [
        (with_token().await, 90, "/v1/auth/token/renew-self"),
        (with_role().await, 60, "/v1/auth/approle/login"),
    ] {
        world.kms.describe(&name("photos")).await.unwrap();
        world.stub.asked();
        world.kms.logins.renew_if_due(&world.kms.http).await;
        assert!(world.stub.asked().is_empty(), "it is not due yet");
        pass(Duration::from_secs(life * 2 / 3 + 1)).await;
        // A renewal that fails is tried again, and the token is kept.
        world.stub.set(|_| Reply::Json(503, json!({"errors": ["Vault is sealed"]})));
        world.kms.logins.renew_if_due(&world.kms.http).await;
        world.stub.set(|asked| vault(asked, &["one"]));
        world.stub.asked();
        world.kms.logins.renew_if_due(&world.kms.http).await;
        world.kms.logins.renew_if_due(&world.kms.http).await;
        assert_eq!(paths(&world.stub.asked()), [renewal]);
        world.kms.describe(&name("photos")).await.unwrap();
        assert_eq!(world.stub.asked().len(), 1, "no further login");
    }
}

#[tokio::test]
async fn many_requests_log_in_once() {
    let world = Arc::new(with_role().await);
    let logins = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&logins);
    world.stub.set(move |asked| {
        if asked.path.ends_with("/login") {
            counted.fetch_add(1, Ordering::Relaxed);
        }
        vault(asked, &["one"])
    });
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let world = Arc::clone(&world);
        tasks.spawn(async move { world.kms.describe(&name("photos")).await });
    }
    assert!(tasks.join_all().await.iter().all(Result::is_ok));
    assert_eq!(logins.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_login_without_a_usable_secret_is_refused_with_its_cause() {
    let world = with_role().await;
    for (content, expected) in
        [("wrong", "invalid role or secret ID"), (&"x".repeat(9_000), "too large")]
    {
        std::fs::write(world.file.path(), content).unwrap();
        let error = world.kms.generate(&name("photos")).await.unwrap_err();
        assert_eq!(error.kind, KmsErrorKind::Refused);
        assert!(error.cause.contains(expected), "{error}");
        assert!(!error.to_string().contains(content));
    }
    std::fs::remove_file(world.file.path()).unwrap();
    let error = world.kms.generate(&name("photos")).await.unwrap_err();
    assert_eq!(error.kind, KmsErrorKind::Refused);
    assert!(error.cause.contains("cannot read"), "{error}");
    assert!(world.stub.asked().len() == 1, "only the wrong secret was sent");
    let world = with_token().await;
    std::fs::write(world.file.path(), " \n").unwrap();
    let error = world.kms.generate(&name("photos")).await.unwrap_err();
    assert!(error.cause.contains("there is no token in"), "{error}");
}

#[test]
fn a_mount_that_leaves_its_path_is_refused() {
    let login = || VaultLogin::Token { file: "/none".into() };
    for bad in ["", "..", "a/../b", "a?b", "a//b", "a b"] {
        let endpoint = plain_endpoint("https://vault.example.com");
        assert!(VaultKms::new(&endpoint, Some(bad), login()).is_err(), "{bad:?}");
    }
}
