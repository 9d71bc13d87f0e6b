use http::{Request, header};

use super::*;

const FIREFOX: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
const HTML: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

fn visit(change: impl FnOnce(&mut Parts)) -> bool {
    let request = Request::get("/").header(USER_AGENT, FIREFOX).header(ACCEPT, HTML);
    let (mut head, ()) = request.body(()).unwrap().into_parts();
    change(&mut head);
    is_visit(&head)
}

#[test]
fn a_browser_visits_and_an_s3_client_does_not() {
    assert!(visit(|_| {}));
    assert!(visit(|head| head.method = Method::HEAD));
    assert!(visit(|head| head.uri = "/?".parse().unwrap()));
    assert!(!visit(|head| head.method = Method::POST));
    assert!(!visit(|head| head.method = Method::OPTIONS));
    assert!(!visit(|head| head.uri = "/?X-Amz-Signature=5ec".parse().unwrap()));
    assert!(!visit(|head| head.uri = "/?max-buckets=1".parse().unwrap()));
    for (name, value) in [
        ("authorization", "AWS4-HMAC-SHA256 Credential=AK"),
        ("x-amz-date", "20260101T000000Z"),
        ("x-amz-content-sha256", "UNSIGNED-PAYLOAD"),
        // A script of a page asks for data.
        ("accept", "*/*"),
        ("accept", "application/xml"),
        ("user-agent", "aws-cli/2.0"),
        ("user-agent", "curl/8.0 Mozilla/5.0"),
    ] {
        let name = HeaderName::from_static(name);
        assert!(!visit(|head| drop(head.headers.insert(name.clone(), value.parse().unwrap()))));
    }
    for missing in [header::ACCEPT, header::USER_AGENT] {
        assert!(!visit(|head| drop(head.headers.remove(&missing))), "{missing}");
    }
}
