use http::{HeaderName, HeaderValue};

use super::*;

fn headers(all: &[(&str, &str)]) -> HeaderMap {
    let pair = |(name, value): &(&str, &str)| {
        let value = HeaderValue::from_str(value).unwrap();
        (HeaderName::from_bytes(name.as_bytes()).unwrap(), value)
    };
    all.iter().map(pair).collect()
}

#[test]
fn an_empty_header_counts_as_absent() {
    let headers = headers(&[("x-amz-acl", ""), ("if-match", "  "), ("x-amz-tagging", "a=b")]);
    let hoisted = [("x-amz-storage-class".to_owned(), String::new())];
    let fields = Fields::new(&headers, &hoisted);
    for name in ["x-amz-acl", "if-match", "x-amz-storage-class", "range"] {
        assert!(!fields.has(name), "{name}");
        assert_eq!(fields.get(name).unwrap(), None, "{name}");
        assert_eq!(fields.joined(name).unwrap(), None, "{name}");
    }
    assert_eq!(fields.names("x-amz-"), ["x-amz-tagging"]);
    assert_eq!(fields.joined_with_empty("if-match").unwrap().as_deref(), Some(""));
    assert!(fields.is_sent("x-amz-acl") && fields.is_sent("x-amz-storage-class"));
    assert!(!fields.is_sent("range"));
}

#[test]
fn an_empty_value_next_to_another_value_is_ignored() {
    let mut headers = headers(&[("x-amz-acl", "")]);
    headers.append("x-amz-acl", HeaderValue::from_static("private"));
    let fields = Fields::new(&headers, &[]);
    assert_eq!(fields.get("x-amz-acl").unwrap(), Some("private"));
    headers.append("x-amz-acl", HeaderValue::from_static("public-read"));
    assert!(Fields::new(&headers, &[]).get("x-amz-acl").is_err());
}

#[test]
fn empty_metadata_and_empty_conditions_are_kept() {
    let names = ["x-amz-meta-a", "x-amz-copy-source", "x-amz-write-offset-bytes"];
    let headers = headers(&names.map(|name| (name, "")));
    let fields = Fields::new(&headers, &[]);
    for name in names {
        assert_eq!(fields.get(name).unwrap(), Some(""), "{name}");
    }
}

#[test]
fn an_empty_header_of_encryption_counts_only_if_it_belongs_to_a_key_of_the_client() {
    let plain = "x-amz-server-side-encryption";
    for (name, kept) in [
        (plain.to_owned(), false),
        (format!("{plain}-aws-kms-key-id"), false),
        (format!("{plain}-customer-key"), true),
        (format!("{plain}-customer-algorithm"), true),
        ("x-amz-copy-source-server-side-encryption-customer-key-md5".to_owned(), true),
    ] {
        let headers = headers(&[(name.as_str(), "")]);
        let value = Fields::new(&headers, &[]).get(&name).unwrap();
        assert_eq!(value, kept.then_some(""), "{name}");
    }
}
