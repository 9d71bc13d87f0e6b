use http::HeaderMap;

use super::{Metadata, mail_safe};
use crate::Code;
use crate::request::Fields;

#[test]
fn values_that_are_not_ascii_become_encoded_words() {
    for plain in ["", "a b", "tab\there", "=?UTF-8?Q?=C3=B6?="] {
        assert_eq!(mail_safe(plain), plain);
    }
    assert_eq!(mail_safe("ö"), "=?UTF-8?Q?=C3=B6?=");
    assert_eq!(mail_safe("a_b=ö?"), "=?UTF-8?Q?a=5Fb=3D=C3=B6=3F?=");
    assert_eq!(mail_safe("öha, das"), "=?UTF-8?B?w7ZoYSwgZGFz?=");
    let long = mail_safe(&"äö €".repeat(20)).into_owned();
    assert!(long.split(' ').all(|word| word.len() <= 75), "{long}");
    assert!(long.split(' ').count() > 3, "{long}");
}

#[test]
fn labels_are_stored_and_unknown_labels_are_refused() {
    let parse = |name: &'static str, value: &'static str| {
        let mut headers = HeaderMap::new();
        headers.insert(name, value.parse().expect(value));
        Metadata::parse(Fields::new(&headers, &[]))
    };
    let class = |value| parse("x-amz-storage-class", value).map(|found| found.storage_class);
    assert_eq!(class("STANDARD"), Ok(None));
    assert_eq!(class("GLACIER"), Ok(Some("GLACIER".to_owned())));
    for unknown in ["glacier", "COLD"] {
        assert_eq!(class(unknown).expect_err(unknown).code, Code::InvalidStorageClass);
    }
    let name = "x-amz-website-redirect-location";
    for place in ["/a", "http://a", "https://a/b"] {
        let found = parse(name, place).expect(place);
        assert_eq!(found.headers(), [(name.to_owned(), place)]);
    }
    for bad in ["a", "ftp://a", "HTTP://a"] {
        assert_eq!(parse(name, bad).expect_err(bad).code, Code::InvalidRedirectLocation);
    }
}

#[test]
fn s3_o5_a_metadata_name_that_is_not_a_header_name_is_refused() {
    let headers = HeaderMap::new();
    let parse = |name: &str| {
        let hoisted = [(format!("x-amz-meta-{name}"), "1".to_owned())];
        Metadata::parse(Fields::new(&headers, &hoisted))
    };
    for good in ["a", "a-b_c.d", "!#$%&'*+.^`|~0"] {
        assert_eq!(parse(good).expect(good).user, [(good.to_owned(), "1".to_owned())]);
    }
    for bad in ["", "ä", "a b", "a:b", "a\nb", "a/b", "(a)", "a\u{7f}"] {
        assert_eq!(parse(bad).expect_err(bad).code, Code::InvalidArgument);
    }
}

#[test]
fn a_value_that_s3_would_not_store_is_not_returned_as_a_header() {
    let label = |value: &str| Some(value.to_owned());
    let kept = Metadata {
        content_encoding: label("gzip"),
        storage_class: label("GLACIER"),
        website_redirect: label("/a"),
        ..Metadata::default()
    };
    assert_eq!(kept.headers().len(), 3);
    let foreign = Metadata {
        content_type: label(""),
        content_encoding: label("aws-chunked, gzip"),
        storage_class: label("COLD"),
        website_redirect: label("javascript:x"),
        ..Metadata::default()
    };
    assert_eq!(foreign.headers(), []);
}
