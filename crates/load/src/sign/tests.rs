use sigv4::{EMPTY_SHA256, UNSIGNED_PAYLOAD};
use time::macros::datetime;

use super::*;

/// The credentials and the time of the examples in the protocol's own documentation.
fn signed(query: &str) -> HeaderMap {
    let credentials = KeyPair {
        access_key: "AKIAIOSFODNN7EXAMPLE".to_owned(),
        secret_key: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
        session_token: None,
    };
    let mut signer =
        Signer::new(credentials, "us-east-1", "examplebucket.s3.amazonaws.com").expect("a host");
    let request = Signable { method: "GET", path: "/", query, content: EMPTY_SHA256 };
    // A signature of another day first: the key of that day must not be used.
    signer.headers(request, datetime!(2013-05-23 23:59:59 UTC)).expect("headers");
    signer.headers(request, datetime!(2013-05-24 00:00:00 UTC)).expect("headers")
}

#[test]
fn signatures_are_those_of_the_published_examples() {
    let cases = [
        ("lifecycle=", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
        ("max-keys=2&prefix=J", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
    ];
    for (query, signature) in cases {
        let expected = format!(
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, \
             SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature={signature}"
        );
        assert_eq!(signed(query)[AUTHORIZATION], expected);
    }
}

#[test]
fn the_time_of_a_signature_advances() {
    let credentials = KeyPair {
        access_key: "a".to_owned(),
        secret_key: "b".to_owned(),
        session_token: Some("t".to_owned()),
    };
    let mut signer = Signer::new(credentials, "r", "h:1").expect("a host");
    let request = Signable { method: "PUT", path: "/b/k", query: "", content: UNSIGNED_PAYLOAD };
    let first = signer.headers(request, datetime!(2026-01-02 03:04:05 UTC)).expect("headers");
    let second = signer.headers(request, datetime!(2026-01-02 03:04:06 UTC)).expect("headers");
    assert_eq!(first[AMZ_DATE], "20260102T030405Z");
    assert_eq!(second[AMZ_DATE], "20260102T030406Z");
    assert_eq!(second[AMZ_TOKEN], "t");
    assert_ne!(first[AUTHORIZATION], second[AUTHORIZATION]);
}
