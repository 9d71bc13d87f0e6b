use gateway::{RequestContext, RequestId};
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;

use super::*;

#[tokio::test]
async fn a_refusal_of_the_edge_is_an_error_document_of_s3() {
    let cases = [
        (Refusal::Busy, 503, "<Code>SlowDown</Code>"),
        (Refusal::TooManyHeaders(100), 400, "more than 100 headers"),
        (Refusal::TooLongHeaders(8192), 400, "<MaxSizeAllowed>8192</MaxSizeAllowed>"),
        (Refusal::Panicked, 500, "<Code>InternalError</Code>"),
    ];
    for (refusal, status, text) in cases {
        let mut head = Request::new(()).into_parts().0;
        head.extensions.insert(RequestId("77".to_owned()));
        let response = gateway::refuse(&RequestContext::of(&head), &fault(refusal));
        assert_eq!(response.status(), StatusCode::from_u16(status).unwrap(), "{refusal:?}");
        let retry = response.headers().get(RETRY_AFTER).map(http::HeaderValue::as_bytes);
        assert_eq!(retry, (status == 503).then_some(&b"1"[..]), "{refusal:?}");
        assert!(response.extensions().get::<InMemory>().is_some(), "{refusal:?}");
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert!(String::from_utf8_lossy(&body).contains(text), "{body:?}");
    }
}
