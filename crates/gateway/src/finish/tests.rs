//! Headers of all responses.

use http::header::{CONTENT_LENGTH, RETRY_AFTER, SERVER};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use s3::{Code, Fault};

use super::{HOST_ID, REQUEST_ID, finish, refuse};
use crate::http::{HttpBody, InMemory, RequestContext, RequestId, Served};

fn context(method: Method) -> RequestContext {
    let mut request = Request::new(());
    *request.method_mut() = method;
    *request.uri_mut() = "/bucket/key?x=1".parse().unwrap();
    request.extensions_mut().insert(RequestId("77".to_owned()));
    RequestContext::of(&request.into_parts().0)
}

fn answer(status: StatusCode, body: &'static str) -> Response<HttpBody> {
    let body = Full::new(body.into()).map_err(|never| match never {}).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}

fn header(response: &Response<HttpBody>, name: &http::HeaderName) -> Option<String> {
    Some(response.headers().get(name)?.to_str().unwrap().to_owned())
}

async fn text(response: Response<HttpBody>) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().into()).unwrap()
}

#[tokio::test]
async fn responses_and_refusals_have_the_same_headers() {
    let get = context(Method::GET);
    let refusal = refuse(&get, &Code::NoSuchKey.into());
    for (response, length) in [(answer(StatusCode::OK, "four"), 4), (refusal, 0)] {
        let response = finish(&get, response);
        assert_eq!(header(&response, &REQUEST_ID).as_deref(), Some("77"));
        assert_eq!(header(&response, &HOST_ID).as_deref(), Some("77"));
        assert_eq!(header(&response, &SERVER).as_deref(), Some("Ashlar"));
        let said = header(&response, &CONTENT_LENGTH).unwrap().parse::<usize>().unwrap();
        let text = text(response).await;
        assert_eq!(said, text.len());
        assert!(length == 4 || text.contains("<RequestId>77</RequestId>"), "{text}");
    }
}

#[tokio::test]
async fn a_refusal_names_its_code_and_resource() {
    let fault = Fault::new(Code::SlowDown).with_header(RETRY_AFTER, "1");
    let response = refuse(&context(Method::PUT), &fault);
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(header(&response, &RETRY_AFTER).as_deref(), Some("1"));
    let served = response.extensions().get::<Served>().unwrap();
    assert_eq!((served.operation, served.code), ("Unserved", Some("SlowDown")));
    assert!(response.extensions().get::<InMemory>().is_some());
    let text = text(response).await;
    assert!(text.contains("<Code>SlowDown</Code>"), "{text}");
    assert!(text.contains("<Resource>/bucket/key</Resource>"), "{text}");
}

#[tokio::test]
async fn bodies_and_lengths_that_http_forbids_are_removed() {
    let head = finish(&context(Method::HEAD), answer(StatusCode::OK, "four"));
    assert_eq!(text(head).await, "");
    for status in [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED] {
        let mut response = answer(status, "four");
        response.headers_mut().insert(CONTENT_LENGTH, 4.into());
        let response = finish(&context(Method::GET), response);
        assert_eq!(header(&response, &CONTENT_LENGTH), None);
        assert!(header(&response, &REQUEST_ID).is_some());
        assert_eq!(text(response).await, "");
    }
    // A HEAD response has the length of the body that a GET would return.
    let mut response = answer(StatusCode::OK, "");
    response.headers_mut().insert(CONTENT_LENGTH, 12_345.into());
    let response = finish(&context(Method::HEAD), response);
    assert_eq!(header(&response, &CONTENT_LENGTH).as_deref(), Some("12345"));
}
