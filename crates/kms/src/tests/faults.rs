//! Faults of the network and of servers, which have the same results for each KMS over HTTP.

use std::fs::write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::NamedTempFile;

use super::stub::{Asked, Authority, Reply, Stub};
use super::{name, plain_endpoint};
use crate::{KesKms, Kms, KmsEndpoint, KmsErrorKind, REQUEST_DEADLINE, VaultKms, VaultLogin};

/// Both kinds of servers with the given reply to requests for keys. Logins succeed.
async fn both(reply: Reply) -> Vec<(Arc<dyn Kms>, Stub, NamedTempFile)> {
    let token = || {
        let file = NamedTempFile::new().unwrap();
        write(file.path(), "hvs.secret-token\n").unwrap();
        file
    };
    let for_kes = reply.clone();
    let authority = Authority::new();
    let kes = Stub::start(Some(authority.acceptor()), move |_| for_kes.clone()).await;
    let of_kes = KesKms::new(&authority.endpoint(&kes.url)).unwrap();
    let vault = Stub::start(None, move |asked: &Asked| {
        if asked.path.ends_with("lookup-self") {
            return Reply::Json(200, json!({"data": {"ttl": 0, "renewable": false}}));
        }
        reply.clone()
    })
    .await;
    let file = token();
    let login = VaultLogin::Token { file: file.path().to_owned() };
    let of_vault = VaultKms::new(&plain_endpoint(&vault.url), None, login).unwrap();
    vec![(Arc::new(of_kes), kes, token()), (Arc::new(of_vault), vault, file)]
}

/// Returns the errors of all calls.
async fn errors(reply: Reply) -> Vec<(KmsErrorKind, String)> {
    let mut found = Vec::new();
    for (kms, _stub, _file) in both(reply).await {
        for error in [
            kms.generate(&name("photos")).await.map(|_| ()).unwrap_err(),
            kms.decrypt(&name("photos"), b"vault:v1:abc").await.map(|_| ()).unwrap_err(),
            kms.describe(&name("photos")).await.unwrap_err(),
        ] {
            let text = error.to_string();
            assert!(text.starts_with("KMS key photos: "), "{text}");
            assert!(!format!("{error:?} {text} {kms:?}").contains("secret-token"), "{text}");
            found.push((error.kind, text));
        }
    }
    found
}

#[tokio::test]
async fn a_server_that_fails_or_answers_nonsense_is_unavailable() {
    for (reply, expected) in [
        (Reply::Json(500, json!({"message": "m", "errors": ["m"]})), "500"),
        (Reply::Json(503, json!({"message": "m", "errors": ["Vault is sealed"]})), "503"),
        (Reply::Json(429, json!({})), "429"),
        (Reply::Text(200, "<html>"), "JSON"),
        (Reply::Json(200, json!({})), "returns no ciphertext"),
        (Reply::Cut, "does not answer"),
        (Reply::Oversized { announced: true }, "does not answer"),
        (Reply::Oversized { announced: false }, "does not answer"),
    ] {
        let shown = format!("{reply:?}");
        for (index, (kind, text)) in errors(reply).await.into_iter().enumerate() {
            assert_eq!(kind, KmsErrorKind::Unavailable, "{shown}: {text}");
            // A decryption returns no ciphertext.
            let expected = if index % 3 == 1 && expected.contains("ciphertext") {
                "return a key of 32 bytes"
            } else {
                expected
            };
            assert!(text.contains(expected), "{shown}: {text}");
        }
    }
}

#[tokio::test]
async fn a_key_of_another_length_is_not_used() {
    let short = json!({"plaintext": "AAAA", "ciphertext": "AAAA"});
    let data = json!({"plaintext": "AAAA", "ciphertext": "AAAA", "data": short});
    for (kind, text) in errors(Reply::Json(200, data)).await {
        assert_eq!(kind, KmsErrorKind::Unavailable);
        assert!(text.contains("return a key of 32 bytes"), "{text}");
    }
    let wrapped = "A".repeat(8 << 10);
    let inner = json!({"plaintext": "A".repeat(43) + "=", "ciphertext": wrapped});
    let data = json!({"plaintext": "A".repeat(43) + "=", "ciphertext": wrapped, "data": inner});
    for (kms, _stub, _file) in both(Reply::Json(200, data)).await {
        let error = kms.generate(&name("photos")).await.unwrap_err();
        assert_eq!(error.kind, KmsErrorKind::Unavailable, "a wrapped key above the limit");
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let other = Stub::start(None, |_| Reply::Json(200, json!({}))).await;
    for (kind, text) in errors(Reply::Redirect(format!("{}/x", other.url))).await {
        assert_eq!(kind, KmsErrorKind::Unavailable);
        assert!(text.contains("307"), "{text}");
    }
    assert!(other.asked().is_empty(), "no request and no token reached the other server");
}

#[tokio::test]
async fn a_server_that_hangs_is_unavailable_after_the_deadline() {
    for (kms, stub, _file) in both(Reply::Hang).await {
        let began = Instant::now();
        let error = kms.generate(&name("photos")).await.unwrap_err();
        assert_eq!(error.kind, KmsErrorKind::Unavailable);
        assert!(error.cause.contains("no answer within 5 seconds"), "{error}");
        assert!(began.elapsed() >= REQUEST_DEADLINE);
        assert!(began.elapsed() < REQUEST_DEADLINE + Duration::from_secs(3));
        assert!(!stub.asked().is_empty(), "the server got the request");
    }
}

#[tokio::test]
async fn a_server_that_is_away_is_unavailable() {
    for (kms, stub, _file) in both(Reply::Hang).await {
        drop(stub);
        let error = kms.generate(&name("photos")).await.unwrap_err();
        assert_eq!(error.kind, KmsErrorKind::Unavailable);
        assert!(error.cause.contains("does not answer"), "{error}");
    }
}

#[test]
fn settings_that_would_send_keys_in_the_clear_are_refused() {
    let authority = Authority::new();
    let error = |change: &dyn Fn(&mut KmsEndpoint)| {
        let mut endpoint = authority.endpoint("https://kms.example.com:7373");
        change(&mut endpoint);
        KesKms::new(&endpoint).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(error(&|_| ()), Ok(()));
    assert_eq!(error(&|it| "http://127.0.0.1:1".clone_into(&mut it.url)), Ok(()));
    assert_eq!(error(&|it| "http://[::1]:1/".clone_into(&mut it.url)), Ok(()));
    for (url, expected) in [
        ("http://kms.example.com", "plain http"),
        ("http://127.0.0.1.example.com", "plain http"),
        ("ftp://127.0.0.1", "neither https nor http"),
        ("https://user:word@kms.example.com", "user"),
        ("https://kms.example.com/?a=b", "query"),
        ("kms.example.com", "URL"),
        ("unix:/run/kms", "no host"),
    ] {
        let text = error(&|it| url.clone_into(&mut it.url)).unwrap_err();
        assert!(text.contains(expected) && !text.contains("word"), "{url}: {text}");
    }
    let none = error(&|it| it.identity = None).unwrap_err();
    assert!(none.contains("client certificate"), "{none}");
    let bad = error(&|it| it.authorities = Some(b"none".to_vec())).unwrap_err();
    assert!(bad.contains("certificate authorities"), "{bad}");
    let bad = error(&|it| it.identity.as_mut().unwrap().1 = b"secret".to_vec()).unwrap_err();
    assert!(bad.contains("client key") && !bad.contains("secret"), "{bad}");
    let shown = format!("{:?}", authority.endpoint("https://kms.example.com"));
    assert!(!shown.contains("identity"), "{shown}");
}
