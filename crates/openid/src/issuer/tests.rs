use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{advance, pause, resume};

use super::*;
use crate::tests::server::{Server, document};
use crate::tests::signer::{Signer, base64, message};
use crate::{
    AUDIENCES_MAX, ClaimTexts, DOCUMENT_BYTES_MAX, FETCH_DEADLINE, KEYS_AGE_MAX, KEYS_MAX,
    KEYS_REFRESH_AFTER, LEEWAY, REFRESH_INTERVAL_MIN, REFRESH_WAIT_MAX, TOKEN_BYTES_MAX,
    WAITERS_MAX,
};

const NOW: i64 = 1_800_000_000;

/// An issuer with its server and its first key.
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

    /// The claims of a valid token.
    fn claims(&self) -> Value {
        json!({"iss": self.server.url, "aud": "ours", "sub": "anna", "exp": NOW + 600, "iat": NOW,
               "nbf": NOW, "policy": ["a", "b"], "email": "anna@example.com",
               "email_verified": true, "level": 3, "address": {"city": "x"}})
    }

    fn token(&self) -> String {
        self.signer.token("ES256", Some("one"), &self.claims())
    }

    async fn verify(&self, token: &str) -> Result<Claims, TokenError> {
        verify(&self.issuer, token).await
    }

    /// Returns the error of a token.
    async fn error(&self, token: &str) -> Option<TokenError> {
        self.verify(token).await.err()
    }
}

async fn verify(issuer: &Issuer, token: &str) -> Result<Claims, TokenError> {
    let now = OffsetDateTime::from_unix_timestamp(NOW).unwrap();
    let audiences = ["other".to_owned(), "ours".to_owned()];
    issuer.verify(&UnverifiedToken::parse(token)?, &audiences, now).await
}

/// Advances the clock. It is paused only for this, because sockets need a running clock.
async fn pass(time: Duration) {
    pause();
    advance(time).await;
    resume();
}

#[tokio::test]
async fn a_valid_token_returns_its_claims() {
    let world = World::new().await;
    let claims = world.verify(&world.token()).await.unwrap();
    assert_eq!((claims.subject(), claims.audience()), ("anna", "ours"));
    let leeway = LEEWAY.as_secs().cast_signed();
    assert_eq!(claims.expires_at().unix_timestamp(), NOW + 600 + leeway);
    let texts = |texts: &[&str]| ClaimTexts::Texts(texts.iter().map(|&it| it.to_owned()).collect());
    assert_eq!(claims.texts("policy"), texts(&["a", "b"]));
    assert_eq!(claims.texts("email"), texts(&["anna@example.com"]));
    assert_eq!(claims.texts("level"), texts(&["3"]));
    assert_eq!(claims.texts("address"), ClaimTexts::Malformed);
    assert_eq!(claims.texts("groups"), ClaimTexts::Absent);
    world.verify(&world.token()).await.unwrap();
    assert_eq!(world.server.asked(), (1, 1), "the keys are cached");
    let token = world.token();
    let printed = format!("{:?} {claims:?}", UnverifiedToken::parse(&token).unwrap());
    assert!(!printed.contains("anna") && !printed.contains(&token), "{printed}");
}

#[tokio::test]
async fn an_email_is_returned_only_if_the_issuer_has_verified_it() {
    let world = World::new().await;
    let address = || ClaimTexts::Texts(vec!["anna@example.com".to_owned()]);
    for (verified, expected) in [
        (json!(true), address()),
        (json!("true"), address()),
        (json!(false), ClaimTexts::Absent),
        (json!("false"), ClaimTexts::Absent),
        (json!(1), ClaimTexts::Absent),
        (json!(["true"]), ClaimTexts::Absent),
        (json!(null), ClaimTexts::Absent),
    ] {
        let mut claims = world.claims();
        claims["email_verified"] = verified.clone();
        let token = world.signer.token("ES256", Some("one"), &claims);
        let claims = world.verify(&token).await.unwrap();
        assert_eq!(claims.texts("email"), expected, "{verified}");
        let wanted = ["anna@example.com".to_owned()];
        let named = claims.first_match("email", &wanted);
        assert_eq!(named.is_some(), expected != ClaimTexts::Absent, "{verified}");
    }
}

#[tokio::test]
async fn first_match_returns_the_first_value_that_a_claim_has() {
    let world = World::new().await;
    let claims = world.verify(&world.token()).await.unwrap();
    let among = |name: &str, values: &[&str]| {
        let values: Vec<String> = values.iter().map(|&it| it.to_owned()).collect();
        claims.first_match(name, &values).cloned()
    };
    assert_eq!(among("sub", &["bert", "anna"]).as_deref(), Some("anna"));
    assert_eq!(among("policy", &["b"]).as_deref(), Some("b"), "a list holds it");
    assert_eq!(among("level", &["3"]).as_deref(), Some("3"));
    for (name, values) in [
        ("sub", &["ann", "anna7", "Anna"][..]),
        ("sub", &[]),
        ("policy", &["c", "a,b"]),
        ("address", &["x", "city"]),
        ("groups", &["", "null"]),
    ] {
        assert_eq!(among(name, values), None, "{name}");
    }
}

#[tokio::test]
async fn each_algorithm_works_only_with_keys_of_its_kind() {
    let world = World::new().await;
    let keys = [
        ("rsa", Signer::rsa(), &["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"][..]),
        ("p256", Signer::p256(), &["ES256"]),
        ("p384", Signer::p384(), &["ES384"]),
        ("ed", Signer::ed25519(), &["EdDSA"]),
    ];
    let published: Vec<Value> = keys.iter().map(|(id, signer, _)| signer.jwk(id)).collect();
    world.server.set(|script| script.keys = document(&published));
    let claims = world.claims();
    for (id, signer, algorithms) in &keys {
        for algorithm in *algorithms {
            let token = signer.token(algorithm, Some(id), &claims);
            assert!(world.verify(&token).await.is_ok(), "{algorithm}");
            // The same algorithm with a key of another kind.
            let other = if *id == "p256" { "rsa" } else { "p256" };
            let token = signer.token(algorithm, Some(other), &claims);
            assert_eq!(world.error(&token).await, Some(TokenError::UnknownKey), "{algorithm}");
        }
    }
    // If the issuer names one algorithm for a key, only this one is accepted.
    let (_, rsa, _) = &keys[0];
    let mut named = rsa.jwk("named");
    named["alg"] = "PS256".into();
    let mut encrypts = rsa.jwk("encrypts");
    encrypts["use"] = "enc".into();
    pass(REFRESH_INTERVAL_MIN).await;
    world.server.set(|script| script.keys = document(&[named, encrypts]));
    assert_eq!(world.error(&rsa.token("PS256", Some("named"), &claims)).await, None);
    for (algorithm, id) in [("RS256", "named"), ("RS256", "encrypts"), ("PS256", "encrypts")] {
        let error = world.error(&rsa.token(algorithm, Some(id), &claims)).await;
        assert_eq!(error, Some(TokenError::UnknownKey), "{algorithm} with {id}");
    }
}

#[tokio::test]
async fn a_wrong_claim_is_refused_with_its_error() {
    let world = World::new().await;
    let leeway = LEEWAY.as_secs().cast_signed();
    let expired = |at| TokenError::Expired { now: NOW, expired: at };
    for (claim, value, expected) in [
        ("aud", json!("theirs"), Some(TokenError::Audience)),
        ("aud", json!(null), Some(TokenError::Audience)),
        ("aud", json!([]), Some(TokenError::Audience)),
        ("aud", json!(["theirs", "ours"]), None),
        ("aud", json!(["ours", 7, {"a": []}]), None),
        ("aud", json!([["ours"]]), Some(TokenError::Audience)),
        ("aud", json!(vec!["ours"; AUDIENCES_MAX + 1]), Some(TokenError::Audience)),
        ("iss", json!("https://other.example.com"), Some(TokenError::Issuer)),
        ("iss", json!([world.server.url]), Some(TokenError::Issuer)),
        ("iss", json!(format!("{}/", world.server.url)), Some(TokenError::Issuer)),
        ("exp", json!(NOW - leeway), Some(expired(NOW - leeway))),
        ("exp", json!(NOW - leeway + 1), None),
        ("exp", json!(1_800_000_000.5), None),
        ("exp", json!("soon"), Some(TokenError::Claim("exp"))),
        ("exp", json!(null), Some(TokenError::Claim("exp"))),
        ("exp", json!(i64::MAX), Some(TokenError::Claim("exp"))),
        ("exp", json!(1e300), Some(TokenError::Claim("exp"))),
        ("nbf", json!(NOW + leeway), None),
        ("nbf", json!(NOW + leeway + 1), Some(TokenError::NotYet)),
        ("iat", json!(NOW + leeway + 1), Some(TokenError::NotYet)),
        ("iat", json!("now"), Some(TokenError::Claim("iat"))),
        ("sub", json!(null), Some(TokenError::Claim("sub"))),
        ("sub", json!(""), Some(TokenError::Claim("sub"))),
        ("sub", json!("a\nb"), Some(TokenError::Claim("sub"))),
        ("sub", json!("a".repeat(256)), Some(TokenError::Claim("sub"))),
    ] {
        let mut claims = world.claims();
        claims[claim] = value.clone();
        let token = world.signer.token("ES256", Some("one"), &claims);
        assert_eq!(world.error(&token).await, expected, "{claim} = {value}");
    }
}

#[tokio::test]
async fn a_forged_token_is_refused() {
    let world = World::new().await;
    let good = world.token();
    assert_eq!(world.error(&good).await, None);
    let forged = Signer::p256().token("ES256", Some("one"), &world.claims());
    assert_eq!(world.error(&forged).await, Some(TokenError::Signature));
    // The claims of one token with the signature of another.
    let mut richer = world.claims();
    richer["policy"] = "everything".into();
    let signature = good.rsplit_once('.').unwrap().1;
    let swapped = message(&json!({"alg": "ES256", "kid": "one"}), &richer) + "." + signature;
    assert_eq!(world.error(&swapped).await, Some(TokenError::Signature));

    let claims = world.claims();
    for (header, expected) in [
        (json!({"alg": "none", "kid": "one"}), TokenError::Malformed),
        (json!({"alg": "None"}), TokenError::Malformed),
        (json!({"kid": "one"}), TokenError::Malformed),
        (json!({"alg": "HS256", "kid": "one"}), TokenError::Algorithm),
        (json!({"alg": "HS512", "kid": "one"}), TokenError::Algorithm),
        (json!({"alg": "ES256", "kid": "one", "crit": ["exp"]}), TokenError::Algorithm),
        (json!({"alg": "ES384", "kid": "one"}), TokenError::UnknownKey),
        (json!({"alg": "ES256", "kid": "one"}), TokenError::Signature),
        // A key or a key URL in the token itself is ignored.
        (json!({"alg": "ES256", "jwk": Signer::p256().jwk("two")}), TokenError::Signature),
        (
            json!({"alg": "ES256", "kid": "two", "jku": "http://127.0.0.1:1/"}),
            TokenError::UnknownKey,
        ),
    ] {
        for signature in ["", &base64([7; 64])] {
            let token = format!("{}.{signature}", message(&header, &claims));
            assert_eq!(world.error(&token).await, Some(expected), "{header}");
        }
    }
    // Two subjects: parsers differ in which one they use.
    let claims = world.claims().to_string().replacen('{', r#"{"sub":"root","#, 1);
    let twice = format!("{}.{}.", base64(r#"{"alg":"ES256"}"#), base64(claims));
    assert_eq!(world.error(&twice).await, Some(TokenError::Malformed));
    for (text, expected) in [
        ("", TokenError::Malformed),
        ("a", TokenError::Malformed),
        ("a.b", TokenError::Malformed),
        ("a.b.c", TokenError::Malformed),
        ("..", TokenError::Malformed),
        (&format!("{good}."), TokenError::Malformed),
        (&format!("{}.x.y", base64("{}")), TokenError::Malformed),
        (&"a".repeat(TOKEN_BYTES_MAX + 1), TokenError::TooLong),
    ] {
        assert_eq!(world.error(text).await, Some(expected), "{text:.40}");
    }
}

#[tokio::test]
async fn a_token_without_a_key_id_uses_the_only_matching_key() {
    let world = World::new().await;
    let token = world.signer.token("ES256", None, &world.claims());
    assert_eq!(world.error(&token).await, None);
    let (rsa, second) = (Signer::rsa().jwk("rsa"), Signer::p256().jwk("two"));
    pass(KEYS_REFRESH_AFTER).await;
    world.server.set(|script| script.keys = document(&[rsa.clone(), world.signer.jwk("one")]));
    assert_eq!(world.error(&token).await, None);
    pass(KEYS_REFRESH_AFTER).await;
    world.server.set(|script| script.keys = document(&[second, world.signer.jwk("one")]));
    assert_eq!(world.error(&token).await, Some(TokenError::UnknownKey));
}

#[tokio::test]
async fn unknown_keys_refresh_the_cache_at_most_once_in_an_interval() {
    let world = World::new().await;
    assert_eq!(world.error(&world.token()).await, None);
    let next = Signer::p256();
    world.server.set(|script| script.keys = document(&[next.jwk("two")]));
    let token = next.token("ES256", Some("two"), &world.claims());
    for _ in 0..20 {
        assert_eq!(world.error(&token).await, Some(TokenError::UnknownKey));
    }
    assert_eq!(world.server.asked(), (1, 1), "the refresh interval has not passed");
    pass(REFRESH_INTERVAL_MIN).await;
    assert_eq!(world.error(&token).await, None);
    assert_eq!(
        world.error(&world.token()).await,
        Some(TokenError::UnknownKey),
        "the key was revoked"
    );
    for id in 0..20 {
        let made_up = next.token("ES256", Some(&format!("no {id}")), &world.claims());
        assert_eq!(world.error(&made_up).await, Some(TokenError::UnknownKey));
    }
    assert_eq!(world.server.asked(), (2, 2));
}

#[tokio::test]
async fn an_unreachable_issuer_is_retried_after_the_refresh_interval() {
    let world = World::new().await;
    world.server.set(|script| script.status = 503);
    for _ in 0..20 {
        assert_eq!(world.error(&world.token()).await, Some(TokenError::Unreachable));
    }
    assert_eq!(world.server.asked(), (1, 0));
    world.server.set(|script| script.status = 200);
    pass(REFRESH_INTERVAL_MIN).await;
    assert_eq!(world.error(&world.token()).await, None);

    // Known keys remain valid for a limited time.
    world.server.set(|script| script.status = 503);
    pass(KEYS_REFRESH_AFTER).await;
    assert_eq!(world.error(&world.token()).await, None);
    assert_eq!(world.server.asked(), (3, 1), "newer keys were requested");
    pass(KEYS_AGE_MAX).await;
    assert_eq!(world.error(&world.token()).await, Some(TokenError::Unreachable));
}

#[tokio::test]
async fn an_unknown_key_is_unreachable_while_the_issuer_is_down() {
    let world = World::new().await;
    assert_eq!(world.error(&world.token()).await, None);
    let next = Signer::p256();
    let token = next.token("ES256", Some("two"), &world.claims());
    world.server.set(|script| {
        script.status = 503;
        script.keys = document(&[next.jwk("two")]);
    });
    pass(REFRESH_INTERVAL_MIN).await;
    for _ in 0..2 {
        assert_eq!(world.error(&token).await, Some(TokenError::Unreachable));
    }
    assert_eq!(world.server.asked(), (2, 1), "the issuer was asked and did not return its keys");
    world.server.set(|script| script.status = 200);
    pass(REFRESH_INTERVAL_MIN).await;
    assert_eq!(world.error(&token).await, None);
    assert_eq!(
        world.error(&world.token()).await,
        Some(TokenError::UnknownKey),
        "the issuer returned its keys again"
    );
}

#[tokio::test]
async fn a_request_with_a_known_key_does_not_wait_for_a_slow_issuer() {
    let world = World::new().await;
    assert_eq!(world.error(&world.token()).await, None);
    world.server.set(|script| script.wait = Duration::from_hours(1));
    pass(KEYS_REFRESH_AFTER).await;
    // Real time: a paused clock would advance to the issuer's deadline.
    let waited = std::time::Instant::now();
    assert_eq!(world.error(&world.token()).await, None);
    let waited = waited.elapsed();
    assert!((REFRESH_WAIT_MAX..FETCH_DEADLINE / 2).contains(&waited), "{waited:?}");
    assert_eq!(world.server.asked(), (2, 1), "newer keys were requested");

    // Tokens with invented keys occupy all waiting places.
    let made_up = Signer::p256().token("ES256", Some("none"), &world.claims());
    let ask = |_| {
        let (issuer, token) = (Arc::clone(&world.issuer), made_up.clone());
        world.tasks.spawn("an invented token", async move { verify(&issuer, &token).await.err() })
    };
    let requests: Vec<_> = (0..=WAITERS_MAX).map(ask).collect();
    let (refused, _, _waiting) = futures::future::select_all(requests).await;
    assert_eq!(refused.unwrap(), Some(TokenError::Busy), "all waiting places are taken");
    assert_eq!(world.error(&world.token()).await, None, "a known key needs no waiting place");
}

#[tokio::test]
async fn requests_share_one_refresh_and_the_number_of_waiters_is_limited() {
    let world = World::new().await;
    world.server.set(|script| script.wait = Duration::from_millis(300));
    let token = world.token();
    let ask = |_| {
        let (issuer, token) = (Arc::clone(&world.issuer), token.clone());
        world.tasks.spawn("a request", async move { verify(&issuer, &token).await.err() })
    };
    let asked: Vec<_> = (0..WAITERS_MAX + 10).map(ask).collect();
    let mut errors = Vec::new();
    for request in asked {
        errors.extend(request.await.unwrap());
    }
    assert_eq!(errors, [TokenError::Busy; 10]);
    assert_eq!(world.server.asked(), (1, 1));
}

#[tokio::test]
async fn a_refresh_continues_after_its_request_is_cancelled() {
    let world = World::new().await;
    world.server.set(|script| script.wait = Duration::from_millis(100));
    let token = world.token();
    let gone = tokio::time::timeout(Duration::from_millis(20), world.verify(&token)).await;
    assert!(gone.is_err(), "it does not wait to the end");
    assert_eq!(world.error(&token).await, None);
    assert_eq!(world.server.asked(), (1, 1));
}

#[tokio::test]
async fn a_refresh_without_waiters_ends_and_another_can_start() {
    let world = World::new().await;
    world.server.set(|script| script.wait = Duration::from_millis(100));
    let token = world.token();
    let gone = tokio::time::timeout(Duration::from_millis(20), world.verify(&token)).await;
    assert!(gone.is_err(), "it does not wait to the end");
    // Only the server's own task continues.
    while world.tasks.running() > 1 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(world.server.asked(), (1, 1), "the refresh ended");
    let next = Signer::p256();
    world.server.set(|script| script.keys = document(&[next.jwk("two")]));
    pass(REFRESH_INTERVAL_MIN).await;
    let token = next.token("ES256", Some("two"), &world.claims());
    assert_eq!(world.error(&token).await, None, "the keys are fetched again");
    assert_eq!(world.server.asked(), (2, 2));
    assert_eq!(
        world.error(&world.token()).await,
        Some(TokenError::UnknownKey),
        "the key was revoked"
    );
}

#[tokio::test]
async fn oversized_or_useless_key_documents_are_refused() {
    let world = World::new().await;
    let key = || world.signer.jwk("one");
    let mut long = key();
    long["note"] = "x".repeat(DOCUMENT_BYTES_MAX).into();
    let many: Vec<Value> = (0..=KEYS_MAX).map(|_| key()).collect();
    for keys in [
        document(&[long]),
        document(&many),
        document(&[]),
        document(&[json!({"kty": "oct", "kid": "one", "k": "c2VjcmV0"})]),
        b"{}".to_vec(),
        b"<html>".to_vec(),
    ] {
        let before = world.server.asked().1;
        world.server.set(|script| script.keys = keys);
        assert_eq!(world.error(&world.token()).await, Some(TokenError::Unreachable));
        assert_eq!(world.server.asked().1, before + 1, "the document was requested");
        pass(REFRESH_INTERVAL_MIN).await;
    }
    // Keys of unknown kinds are skipped, and the other keys are used.
    let new = json!({"kty": "AKP", "alg": "ML-DSA-65", "kid": "new", "pub": "AAAA"});
    world.server.set(|script| script.keys = document(&[new, json!(7), key()]));
    assert_eq!(world.error(&world.token()).await, None);
}

#[tokio::test]
async fn a_wrong_issuer_name_or_a_timeout_makes_the_issuer_unreachable() {
    let world = World::new().await;
    world.server.set(|script| script.name = Some("https://other.example.com".to_owned()));
    assert_eq!(world.error(&world.token()).await, Some(TokenError::Unreachable));
    assert_eq!(world.server.asked(), (1, 0), "its keys are not requested");
    pass(REFRESH_INTERVAL_MIN).await;
    world.server.set(|script| {
        script.name = None;
        script.wait = Duration::from_hours(1);
    });
    let token = world.token();
    let waiting = world.verify(&token);
    let deadline = async {
        while world.server.asked() != (2, 0) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        pass(FETCH_DEADLINE).await;
    };
    let (outcome, ()) = tokio::join!(waiting, deadline);
    assert_eq!(outcome.err(), Some(TokenError::Unreachable));
}

#[tokio::test]
async fn plain_http_is_allowed_only_on_this_machine_unless_configured() {
    let make = |url: &str, allow_http| {
        let settings = IssuerSettings { url: url.to_owned(), authorities: None, allow_http };
        Issuer::new(settings, Tasks::new())
    };
    for url in
        ["https://idp.example.com", "http://127.0.0.1:8080/a", "http://localhost", "http://[::1]:1"]
    {
        assert!(make(url, false).is_ok(), "{url}");
    }
    for url in ["http://idp.example.com", "http://192.0.2.1", "http://127.0.0.1.example.com"] {
        assert!(make(url, false).is_err(), "{url}");
        assert!(make(url, true).is_ok(), "{url}");
    }
    for url in
        ["", "idp", "file:///etc/passwd", "https://a:b@idp", "https://idp?x", "https://idp#x"]
    {
        assert!(make(url, true).is_err(), "{url}");
    }
    let settings = |pem: &[u8]| IssuerSettings {
        url: "https://idp.example.com".to_owned(),
        authorities: Some(pem.to_vec()),
        allow_http: false,
    };
    assert!(Issuer::new(settings(b"no certificate"), Tasks::new()).is_err());
}
