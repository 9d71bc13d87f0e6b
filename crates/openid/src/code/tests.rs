use std::sync::Arc;
use std::time::Duration;

use runtime::Tasks;
use serde_json::{Value, json};
use tokio::time::{advance, pause, resume};

use super::*;
use crate::tests::server::Server;
use crate::tests::signer::Signer;
use crate::{DOCUMENT_BYTES_MAX, IssuerSettings, KEYS_REFRESH_AFTER, REFRESH_INTERVAL_MIN};

const NOW: i64 = 1_800_000_000;
const REQUEST: CodeRequest<'_> = CodeRequest {
    state: "the-state",
    nonce: "the-nonce",
    // The example of RFC 7636, appendix B.
    verifier: "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk",
};

/// An issuer with its server and its key.
struct World {
    server: Server,
    issuer: Arc<Issuer>,
    signer: Signer,
    tasks: Tasks,
}

impl World {
    async fn new() -> World {
        let (tasks, signer) = (Tasks::new(), Signer::p256());
        let server = Server::start(&tasks, &[signer.jwk("one")]).await;
        let settings =
            IssuerSettings { url: server.url.clone(), authorities: None, allow_http: false };
        let issuer = Arc::new(Issuer::new(settings, tasks.clone()).unwrap());
        World { server, issuer, signer, tasks }
    }

    /// Sets the token that the issuer gives for a code: a valid one, with changes.
    fn give(&self, changes: &Value) {
        let mut claims = json!({"iss": self.server.url, "aud": "console", "sub": "anna",
            "exp": NOW + 600, "iat": NOW, "nonce": "the-nonce"});
        for (name, value) in changes.as_object().unwrap() {
            claims[name] = value.clone();
        }
        let token = self.signer.token("ES256", Some("one"), &claims);
        self.server.set(|script| script.token = (200, json!({"id_token": token})));
    }

    async fn redeem(&self, client: &CodeClient) -> Result<Claims, CodeError> {
        let now = OffsetDateTime::from_unix_timestamp(NOW).unwrap();
        self.issuer.redeem(client, "the+code/1", REQUEST, now).await
    }
}

fn client(secret: Option<&str>) -> CodeClient {
    CodeClient {
        id: "console".to_owned(),
        secret: secret.map(str::to_owned),
        redirect_url: "https://ashlar.example.com/login/callback".to_owned(),
        scopes: vec!["openid".to_owned(), "groups".to_owned()],
    }
}

/// Advances the clock. It is paused only for this, because sockets need a running clock.
async fn pass(time: Duration) {
    pause();
    advance(time).await;
    resume();
}

#[tokio::test]
async fn the_page_of_a_login_has_the_hash_of_the_verifier_and_not_the_verifier() {
    let world = World::new().await;
    let url = world.issuer.authorization_url(&client(Some("s3cret")), REQUEST).await.unwrap();
    let url = url::Url::parse(&url).unwrap();
    assert_eq!(url.path(), "/realm/authorize");
    let pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
    let expected = [
        ("tenant", "a"),
        ("response_type", "code"),
        ("client_id", "console"),
        ("redirect_uri", "https://ashlar.example.com/login/callback"),
        ("scope", "openid groups"),
        ("state", "the-state"),
        ("nonce", "the-nonce"),
        ("code_challenge", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"),
        ("code_challenge_method", "S256"),
    ];
    assert_eq!(pairs, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let printed = format!("{:?} {REQUEST:?}", client(Some("s3cret")));
    assert!(!printed.contains("s3cret") && !printed.contains("dBjf"), "{printed}");
}

#[tokio::test]
async fn a_code_is_redeemed_with_the_verifier_and_the_secret() {
    let world = World::new().await;
    world.give(&json!({}));
    let claims = world.redeem(&client(None)).await.unwrap();
    assert_eq!((claims.subject(), claims.audience()), ("anna", "console"));
    let of = |form: &[(String, String)], name: &str| {
        form.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    };
    let public = world.server.posted().pop().unwrap();
    assert!(public.head.starts_with("POST /realm/token HTTP/1.1\r\n"));
    assert!(!public.head.to_lowercase().contains("authorization:"), "{}", public.head);
    for (name, value) in [
        ("grant_type", "authorization_code"),
        ("code", "the+code/1"),
        ("redirect_uri", "https://ashlar.example.com/login/callback"),
        ("client_id", "console"),
        ("code_verifier", REQUEST.verifier),
    ] {
        assert_eq!(of(&public.form, name).as_deref(), Some(value), "{name}");
    }
    assert_eq!(of(&public.form, "client_secret"), None);

    world.redeem(&client(Some("s:ü"))).await.unwrap();
    let basic = world.server.posted().pop().unwrap();
    let expected = format!("authorization: Basic {}\r\n", STANDARD.encode("console:s%3A%C3%BC"));
    assert!(basic.head.contains(&expected), "{}", basic.head);
    assert_eq!(of(&basic.form, "client_secret"), None);

    let other = World::new().await;
    let methods = json!({"token_endpoint_auth_methods_supported": ["client_secret_post"]});
    other.server.set(|script| script.configuration = methods);
    other.give(&json!({}));
    other.redeem(&client(Some("s:ü"))).await.unwrap();
    let in_form = other.server.posted().pop().unwrap();
    assert_eq!(of(&in_form.form, "client_secret").as_deref(), Some("s:ü"));
    assert!(!in_form.head.to_lowercase().contains("authorization:"), "{}", in_form.head);
}

#[tokio::test]
async fn a_token_of_another_login_client_issuer_or_time_is_refused() {
    let world = World::new().await;
    let audience = CodeError::Token(TokenError::Audience);
    let expired = CodeError::Token(TokenError::Expired { now: NOW, expired: NOW - 60 });
    for (changes, error) in [
        (json!({"nonce": "another"}), CodeError::Nonce),
        (json!({"nonce": null}), CodeError::Nonce),
        (json!({"nonce": ["the-nonce", "another"]}), CodeError::Nonce),
        (json!({"aud": "another"}), audience),
        (json!({"azp": "another"}), CodeError::Party),
        (json!({"azp": ["console", "another"]}), CodeError::Party),
        (json!({"iss": "https://other.example.com"}), CodeError::Token(TokenError::Issuer)),
        (json!({"exp": NOW - 60}), expired),
        (json!({"sub": null}), CodeError::Token(TokenError::Claim("sub"))),
    ] {
        world.give(&changes);
        assert_eq!(world.redeem(&client(None)).await.err(), Some(error), "{changes}");
    }
    world.give(&json!({"aud": ["console", "other"], "azp": "console"}));
    assert!(world.redeem(&client(None)).await.is_ok());
    let forged = Signer::p256().token(
        "ES256",
        Some("one"),
        &json!({"iss": world.server.url,
        "aud": "console", "sub": "anna", "exp": NOW + 600, "nonce": "the-nonce"}),
    );
    world.server.set(|script| script.token = (200, json!({"id_token": forged})));
    let signature = CodeError::Token(TokenError::Signature);
    assert_eq!(world.redeem(&client(None)).await.err(), Some(signature));
}

#[tokio::test]
async fn an_error_of_the_token_endpoint_is_returned_with_limits() {
    let world = World::new().await;
    let long =
        json!({"error": "invalid_grant", "error_description": format!("a\n{}", "b".repeat(999))});
    world.server.set(|script| script.token = (400, long));
    let Err(CodeError::Refused(error)) = world.redeem(&client(None)).await else { panic!() };
    assert_eq!(error.code, "invalid_grant");
    assert_eq!(error.description, format!("a{}", "b".repeat(299)));
    let unreachable = async |status: u16, document: Value| {
        world.server.set(|script| script.token = (status, document));
        match world.redeem(&client(None)).await {
            Err(CodeError::Unreachable(why)) => why,
            other => panic!("{other:?}"),
        }
    };
    assert!(unreachable(500, json!("<html>")).await.contains("500"));
    assert!(unreachable(302, json!({})).await.contains("302"), "no redirection is followed");
    let why = unreachable(200, json!({"access_token": "private"})).await;
    assert!(why.contains("without an id_token") && !why.contains("private"), "{why}");
    let why = unreachable(200, json!("x".repeat(DOCUMENT_BYTES_MAX))).await;
    assert!(why.contains("limit"), "{why}");
}

#[tokio::test]
async fn the_endpoints_are_fetched_once_for_many_logins_even_if_each_is_cancelled() {
    let world = World::new().await;
    let client = client(None);
    world.server.set(|script| script.status = 503);
    for _ in 0..3 {
        let error = world.issuer.authorization_url(&client, REQUEST).await.unwrap_err();
        assert!(matches!(&error, CodeError::Unreachable(why) if why.contains("503")), "{error}");
    }
    assert_eq!(world.server.asked().0, 1, "an error counts for a while");
    world.server.set(|script| (script.status, script.wait) = (200, Duration::from_millis(200)));
    pass(REFRESH_INTERVAL_MIN).await;
    for _ in 0..5 {
        let (issuer, client) = (Arc::clone(&world.issuer), client.clone());
        let begun = world.tasks.spawn("a login that is cancelled", async move {
            issuer.authorization_url(&client, REQUEST).await.map(|_| ())
        });
        tokio::time::sleep(Duration::from_millis(10)).await;
        begun.abort();
    }
    assert!(world.issuer.authorization_url(&client, REQUEST).await.is_ok());
    assert_eq!(world.server.asked().0, 2);
    pass(KEYS_REFRESH_AFTER).await;
    assert!(world.issuer.authorization_url(&client, REQUEST).await.is_ok());
    assert_eq!(world.server.asked().0, 3);
}
