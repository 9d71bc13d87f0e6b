//! Requests signed by the AWS SDK are accepted, and refused if one byte changes.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use proptest::prelude::*;

use super::sent_request::{SentRequest, rules};
use crate::auth::{Credentials, RequestHead};

/// The characters that the SDKs do not escape.
const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

fn escape(text: &str) -> String {
    utf8_percent_encode(text, KEPT).to_string()
}

fn query_text() -> impl Strategy<Value = String> {
    let pair = ("[a-zA-Z0-9 /+~.-]{1,8}", proptest::option::of("[ -~äß]{0,8}")).prop_map(
        |(name, value)| match value {
            Some(value) => format!("{}={}", escape(&name), escape(&value)),
            None => escape(&name),
        },
    );
    proptest::collection::vec(pair, 0..5).prop_map(|pairs| pairs.join("&"))
}

fn request() -> impl Strategy<Value = SentRequest> {
    let piece = prop_oneof![Just("/".to_owned()), Just("/../".to_owned()), "[ -~äß]{1,5}"];
    let path = proptest::collection::vec(piece, 0..6).prop_map(|pieces| {
        let keep_slashes = escape(&pieces.concat()).replace("%2F", "/");
        format!("/b/{keep_slashes}")
    });
    let header = ("x-amz-meta-[a-z]{1,4}", "[!-~]{1,5}( {0,3}[!-~]{1,5}){0,2}");
    (
        prop_oneof![Just("GET"), Just("PUT"), Just("DELETE"), Just("HEAD"), Just("POST")],
        path,
        query_text(),
        proptest::collection::vec(header, 0..4),
        prop_oneof![
            Just("UNSIGNED-PAYLOAD"),
            Just("44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"),
        ],
    )
        .prop_map(|(method, path, query, headers, payload)| {
            let mut sent = SentRequest::new(method, &path, &[]);
            sent.query = query;
            for (name, value) in &headers {
                if !sent.headers.contains_key(name) {
                    sent = sent.with(name, value);
                }
            }
            sent.with("host", "gateway.example:9700")
                .with("accept-encoding", "identity")
                .with("amz-sdk-invocation-id", "8e8bd8a0-6a4c-4e6f-9f09-6e9a5d5bd8e2")
                .with("amz-sdk-request", "attempt=1; max=3")
                .with("content-length", "20")
                .with("content-type", "text/plain;  charset=utf-8")
                .with("expect", "100-continue")
                .with("range", "bytes=0-9")
                .with("if-none-match", "\"abc\"")
                .with("x-amz-content-sha256", payload)
        })
}

/// Changes one bit of one byte anywhere in the signed request.
fn flip(sent: &SentRequest, place: usize) -> SentRequest {
    let mut changed = sent.clone();
    let flip_in = |text: &str, at: usize| {
        let mut bytes = text.as_bytes().to_vec();
        bytes[at] ^= 1;
        String::from_utf8(bytes).ok()
    };
    let mut place = place;
    // The first byte of a path is its slash; without it, the text is not a path.
    if place < sent.path.len() - 1 {
        changed.path = flip_in(&sent.path, place + 1).unwrap();
        return changed;
    }
    place -= sent.path.len() - 1;
    if place < sent.query.len() {
        changed.query = flip_in(&sent.query, place).unwrap();
        return changed;
    }
    place -= sent.query.len();
    for (name, value) in &sent.headers {
        if place < value.len() {
            let mut bytes = value.as_bytes().to_vec();
            bytes[place] ^= 1;
            match http::HeaderValue::from_bytes(&bytes) {
                Ok(value) => drop(changed.headers.insert(name, value)),
                Err(_) => drop(changed.headers.remove(name)),
            }
            return changed;
        }
        place -= value.len();
    }
    changed.method = http::Method::PATCH;
    changed
}

fn places(sent: &SentRequest) -> usize {
    let headers: usize = sent.headers.values().map(http::HeaderValue::len).sum();
    sent.path.len() + sent.query.len() + headers
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn s3_a1_signed_headers_are_accepted_and_each_changed_byte_refused(
        sent in request(), place in any::<prop::sample::Index>()
    ) {
        let sent = sent.signed();
        prop_assert!(sent.verify().is_ok(), "{:?}", sent.verify());
        let changed = flip(&sent, place.index(places(&sent)));
        prop_assert!(changed.verify().is_err(), "{changed:?}");
    }

    #[test]
    fn s3_a8_presigned_urls_are_accepted_and_each_changed_byte_refused(
        sent in request(), place in any::<prop::sample::Index>()
    ) {
        let sent = sent.without("x-amz-content-sha256").presigned(60);
        prop_assert!(sent.verify().is_ok(), "{:?}", sent.verify());
        let changed = flip(&sent, place.index(places(&sent)));
        prop_assert!(changed.verify().is_err(), "{changed:?}");
    }

    #[test]
    fn s3_s16_no_request_head_panics(
        path in "\\PC{0,30}",
        query in prop_oneof![
            "\\PC{0,60}",
            "(X-Amz-(Algorithm|Credential|Date|Expires|SignedHeaders|Signature)=\
             [\\PC%]{0,20}&){0,7}",
            "X-Amz-Algorithm=AWS4-HMAC-SHA256\
             &X-Amz-Credential=a/[0-9]{0,9}/us-east-1/s3/aws4_request\
             &X-Amz-Date=[0-9]{8}T[0-9]{6}Z&X-Amz-Expires=[0-9-]{0,21}&X-Amz-SignedHeaders=host\
             &X-Amz-Signature=[0-9a-fé]{0,70}",
            "(AWSAccessKeyId|Signature|Expires)=[\\PC%]{0,20}&Expires=[0-9-]{0,20}\
             &Signature=[a-z=]{0,9}",
        ],
        authorization in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..80),
            "AWS4-HMAC-SHA256 (Credential=[a-z/0-9]{0,30}|SignedHeaders=[a-z;]{0,9}\
             |Signature=\\PC{0,9}|,){0,9}"
                .prop_map(String::into_bytes),
        ],
        date in prop_oneof!["[0-9]{8}T[0-9]{6}Z", "\\PC{0,20}"],
    ) {
        let mut sent = SentRequest::new("PUT", "/", &[]);
        if let Ok(value) = http::HeaderValue::from_bytes(&authorization) {
            sent.headers.insert("authorization", value);
        }
        if let Ok(value) = http::HeaderValue::from_bytes(date.as_bytes()) {
            sent.headers.insert("x-amz-date", value);
        }
        for headers in [&sent.headers, &http::HeaderMap::new()] {
            let head = RequestHead {
                method: &sent.method,
                path: &path,
                query: &query,
                headers,
                authority: Some("localhost"),
                host_bucket: None,
            };
            if let Ok(credentials) = Credentials::parse(&head) {
                for secret in [None, Some("secret")] {
                    let outcome = credentials.verify(secret, &head, &rules());
                    let anonymous = matches!(credentials, Credentials::Anonymous);
                    prop_assert!(outcome.is_err() || anonymous);
                }
            }
        }
    }
}
