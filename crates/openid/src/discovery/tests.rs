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
            keys_url(&fetcher, &place, jwks_uri).map(|url| url.to_string())
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
