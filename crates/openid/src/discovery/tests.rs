use runtime::Tasks;
use serde_json::json;

use super::*;
use crate::tests::server::Server;

#[test]
fn keys_of_an_issuer_with_tls_must_be_fetched_over_tls() {
    for plain in [false, true] {
        let fetcher = Fetcher::new(None, plain).unwrap();
        let keys = |issuer: &str, jwks_uri: &str| {
            let place = configuration_url(&fetcher, issuer).unwrap();
            let url = fetcher.check(jwks_uri).and_then(|url| as_safe_as(&place, url));
            url.map(|url| url.to_string())
        };
        let (tls, here) = ("https://keys.example.com/k", "http://127.0.0.1:8080/k");
        assert_eq!(keys("https://idp.example.com", tls).as_deref(), Ok(tls));
        assert_eq!(keys("http://localhost:8080", tls).as_deref(), Ok(tls));
        assert_eq!(keys("http://localhost:8080", here).as_deref(), Ok(here));
        let error = keys("https://idp.example.com", here).unwrap_err();
        assert!(error.contains("plain http"), "{error}");
    }
}

#[tokio::test]
async fn error_texts_from_an_issuer_are_truncated() {
    let tasks = Tasks::new();
    let server = Server::start(&tasks, &[]).await;
    let fetcher = Fetcher::new(None, false).unwrap();
    // The parser's error repeats the unexpected text.
    server.set(|script| script.keys = json!({"keys": "x".repeat(100_000)}).to_string().into());
    let error = keys(&fetcher, &server.url).await.unwrap_err();
    assert!(error.contains("not a JSON web key set") && error.contains("xxx"), "{error}");
    assert_eq!(error.chars().count(), ERROR_CHARS_MAX);
    server.set(|script| script.name = Some("y".repeat(100_000)));
    let error = keys(&fetcher, &server.url).await.unwrap_err();
    assert!(error.contains("names the issuer") && error.len() < ERROR_CHARS_MAX, "{error}");
}

#[tokio::test]
async fn endpoints_are_safe_and_of_the_issuer() {
    let tasks = Tasks::new();
    let server = Server::start(&tasks, &[]).await;
    let fetcher = Fetcher::new(None, false).unwrap();
    let found = endpoints(&fetcher, &server.url).await.unwrap();
    assert_eq!(found.authorization.as_str(), format!("{}/authorize?tenant=a", server.url));
    assert_eq!(found.token.as_str(), format!("{}/token", server.url));
    assert!(!found.secret_in_form, "the header is the default");
    for (methods, in_form) in [
        (json!(["client_secret_post"]), true),
        (json!(["client_secret_post", "client_secret_basic"]), false),
        (json!(["private_key_jwt"]), false),
        (json!(null), false),
    ] {
        let change = json!({"token_endpoint_auth_methods_supported": methods});
        server.set(|script| script.configuration = change);
        let found = endpoints(&fetcher, &server.url).await.unwrap();
        assert_eq!(found.secret_in_form, in_form, "{methods}");
    }
    for (name, url, why) in [
        ("authorization_endpoint", "http://idp.example.com/a", "plain http"),
        ("token_endpoint", "http://10.0.0.1/t", "plain http"),
        ("token_endpoint", "file:///etc/passwd", "names no host"),
        ("token_endpoint", "ftp://localhost/t", "neither https nor http"),
        ("token_endpoint", "https://me:secret@idp.example.com/t", "it has a user"),
        ("authorization_endpoint", "https://idp.example.com/a#b", "a fragment"),
    ] {
        server.set(|script| script.configuration = json!({ name: url }));
        let error = endpoints(&fetcher, &server.url).await.unwrap_err();
        assert!(error.contains(name) && error.contains(why), "{error}");
    }
    server.set(|script| script.configuration = json!({"token_endpoint": null}));
    let error = endpoints(&fetcher, &server.url).await.unwrap_err();
    assert!(error.contains("not an OpenID configuration"), "{error}");
    server.set(|script| script.name = Some("https://other.example.com".to_owned()));
    let error = endpoints(&fetcher, &server.url).await.unwrap_err();
    assert!(error.contains("names the issuer"), "{error}");
}
