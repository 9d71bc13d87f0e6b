use http::header::{CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Response};

use super::{Preview, as_content, attachment, empty, preview_of};

fn head(kind: &'static str) -> HeaderMap {
    let mut head = HeaderMap::new();
    head.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    head
}

#[test]
fn a_preview_follows_from_type_and_key() {
    assert_eq!(preview_of("a", &head("image/png")), Preview::Image);
    assert_eq!(preview_of("b/a.JPG", &head("binary/octet-stream")), Preview::Image);
    assert_eq!(preview_of("a", &head("application/pdf")), Preview::Pdf);
    assert_eq!(preview_of("a.html", &head("text/html; charset=utf-8")), Preview::Text);
    assert_eq!(preview_of("a.svg", &head("image/svg+xml")), Preview::Text);
    assert_eq!(preview_of("a.bin", &head("application/octet-stream")), Preview::None);
}

#[test]
fn content_that_could_run_is_an_attachment() {
    for (key, kind) in
        [("a.html", "text/html"), ("a.svg", "image/svg+xml"), ("a.js", "text/javascript")]
    {
        for inline in [false, true] {
            let mut response = Response::new(empty());
            *response.headers_mut() = head(kind);
            response
                .headers_mut()
                .insert("content-disposition", HeaderValue::from_static("inline"));
            response.headers_mut().insert("refresh", HeaderValue::from_static("0;url=//evil"));
            let sent = as_content(response, key, inline);
            assert_eq!(sent.headers()[CONTENT_TYPE], "application/octet-stream", "{key}");
            assert!(
                sent.headers()[CONTENT_DISPOSITION].to_str().unwrap().starts_with("attachment")
            );
            assert!(sent.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap().contains("sandbox"));
            assert!(!sent.headers().contains_key("refresh"));
        }
    }
}

#[test]
fn the_name_of_a_download_cannot_leave_its_quotes() {
    assert_eq!(
        attachment("a/b c.txt"),
        "attachment; filename=\"b_c.txt\"; filename*=UTF-8''b%20c.txt"
    );
    let hostile = attachment("x\"; filename=evil\r\nset-cookie: a=b");
    assert!(!hostile.contains('\r') && !hostile.contains('\n'));
    assert_eq!(hostile.matches('"').count(), 2);
}
