//! The example `list_bucket` works: a view authenticates senders, decides and lists.

#[expect(dead_code, reason = "the test calls the parts of the example, and not its `main`")]
#[path = "../examples/list_bucket.rs"]
mod example;

use example::{Answer, View};
use http::{HeaderMap, StatusCode};

#[tokio::test]
async fn a_view_lists_a_bucket_for_senders_with_the_permission_alone() {
    let view = View::open().await.expect("a view");
    let refused = || Answer::Refused(StatusCode::FORBIDDEN);
    let ask = async |access_key: &str, secret: &str| {
        let request = view.sign(access_key, secret).expect("a signed request");
        view.list(&request).await.expect("an answer")
    };
    let keys = ["2024/beach.jpg", "2024/dunes.jpg", "index.html"].map(str::to_owned);
    assert_eq!(ask("anna", "secret-of-anna").await, Answer::Keys(keys.to_vec()));
    assert_eq!(ask("anna", "secret-of-bert").await, refused(), "the secret of another key");
    assert_eq!(ask("bert", "secret-of-bert").await, refused(), "a key without policies");
    assert_eq!(ask("carl", "secret-of-carl").await, refused(), "an unknown key");
    let unsigned = view.list(&HeaderMap::new()).await.expect("an answer");
    assert_eq!(unsigned, refused(), "an anonymous client");
}
