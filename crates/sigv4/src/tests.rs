//! Known answers: the signatures in AWS's documentation.

use time::macros::datetime;

use super::*;

const SECRET: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
const TIMESTAMP: &str = "20130524T000000Z";
const HOST: &[u8] = b"examplebucket.s3.amazonaws.com";

fn scope() -> CredentialScope {
    CredentialScope::new("20130524", "us-east-1", "s3")
}

/// Checks the signature of a documented request. All of them have the same time.
#[track_caller]
fn check(
    (method, path, query): (&str, &str, &str),
    headers: &[(&str, &[u8])],
    payload_hash: &str,
    expected: &str,
) {
    let mut request = CanonicalRequest::builder(method, path, query);
    for (name, value) in headers {
        request.header(name, value);
    }
    let request = request.finish(payload_hash);
    let text = string_to_sign(TIMESTAMP, &scope(), &request);
    let signature = SigningKey::derive(SECRET, &scope()).sign(&text);
    assert_eq!(signature.to_hex(), expected);
    assert!(signature.matches(expected));
}

#[test]
fn get_of_a_range_has_the_documented_signature() {
    check(
        ("GET", "/test.txt", ""),
        &[
            ("host", HOST),
            ("range", b"bytes=0-9"),
            ("x-amz-content-sha256", EMPTY_SHA256.as_bytes()),
            ("x-amz-date", TIMESTAMP.as_bytes()),
        ],
        EMPTY_SHA256,
        "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
    );
}

#[test]
fn put_of_a_key_with_a_dollar_has_the_documented_signature() {
    let hash = sha256_hex(b"Welcome to Amazon S3.");
    assert_eq!(hash, "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072");
    check(
        ("PUT", &uri::escape_path("/test$file.text"), ""),
        &[
            ("date", b"Fri, 24 May 2013 00:00:00 GMT"),
            ("host", HOST),
            ("x-amz-content-sha256", hash.as_bytes()),
            ("x-amz-date", TIMESTAMP.as_bytes()),
            ("x-amz-storage-class", b"REDUCED_REDUNDANCY"),
        ],
        &hash,
        "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
    );
}

#[test]
fn subresource_and_listing_have_the_documented_signatures() {
    let headers: [(&str, &[u8]); 3] = [
        ("host", HOST),
        ("x-amz-content-sha256", EMPTY_SHA256.as_bytes()),
        ("x-amz-date", TIMESTAMP.as_bytes()),
    ];
    check(
        ("GET", "/", &uri::canonical_query([("lifecycle", "")].into_iter())),
        &headers,
        EMPTY_SHA256,
        "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
    );
    check(
        ("GET", "/", &uri::canonical_query([("prefix", "J"), ("max-keys", "2")].into_iter())),
        &headers,
        EMPTY_SHA256,
        "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
    );
}

#[test]
fn presigned_url_has_the_documented_signature() {
    let credential = uri::escape_query(&format!("AKIAIOSFODNN7EXAMPLE/{}", scope().as_str()));
    let query = uri::canonical_query(
        [
            ("X-Amz-Algorithm", ALGORITHM),
            ("X-Amz-Credential", credential.as_str()),
            ("X-Amz-Date", TIMESTAMP),
            ("X-Amz-Expires", "86400"),
            ("X-Amz-SignedHeaders", "host"),
        ]
        .into_iter(),
    );
    check(
        ("GET", "/test.txt", &query),
        &[("host", HOST)],
        UNSIGNED_PAYLOAD,
        "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404",
    );
}

/// The example in AWS's general documentation, for another service.
#[test]
fn request_to_iam_has_the_documented_signature() {
    let timestamp = "20150830T123600Z";
    let scope = CredentialScope::new("20150830", "us-east-1", "iam");
    let mut request = CanonicalRequest::builder("GET", "/", "Action=ListUsers&Version=2010-05-08");
    request.header("content-type", b"application/x-www-form-urlencoded; charset=utf-8");
    request.header("host", b"iam.amazonaws.com");
    request.header("x-amz-date", timestamp.as_bytes());
    let request = request.finish(EMPTY_SHA256);
    let key = SigningKey::derive("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", &scope);
    let expected = "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7";
    assert_eq!(key.sign(&string_to_sign(timestamp, &scope, &request)).to_hex(), expected);
}

/// The documented upload of 66,560 bytes in chunks of 64 KiB.
#[test]
fn signed_chunks_have_the_documented_signatures() {
    let key = SigningKey::derive(SECRET, &scope());
    let mut request = CanonicalRequest::builder("PUT", "/examplebucket/chunkObject.txt", "");
    let payload = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD";
    for (name, value) in [
        ("content-encoding", "aws-chunked"),
        ("content-length", "66824"),
        ("host", "s3.amazonaws.com"),
        ("x-amz-content-sha256", payload),
        ("x-amz-date", TIMESTAMP),
        ("x-amz-decoded-content-length", "66560"),
        ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
    ] {
        request.header(name, value.as_bytes());
    }
    let request = request.finish(payload);
    let mut signature = key.sign(&string_to_sign(TIMESTAMP, &scope(), &request)).to_hex();
    assert_eq!(signature, "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9");
    let chunks: [(usize, &str); 3] = [
        (65_536, "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648"),
        (1024, "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497"),
        (0, "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9"),
    ];
    for (length, expected) in chunks {
        let hash = sha256_hex(&vec![b'a'; length]);
        let text = chunk_string_to_sign(TIMESTAMP, &scope(), &signature, &hash);
        signature = key.sign(&text).to_hex();
        assert_eq!(signature, expected, "{length} bytes");
    }
}

/// The documented upload of the same body with a trailer.
#[test]
fn signed_trailer_has_the_documented_signature() {
    let key = SigningKey::derive(SECRET, &scope());
    let last = "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992";
    let text =
        trailer_string_to_sign(TIMESTAMP, &scope(), last, "x-amz-checksum-crc32c:sOO8/Q==\n");
    let expected = "d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435";
    assert_eq!(key.sign(&text).to_hex(), expected);
}

#[test]
fn a_signature_matches_only_in_lower_case() {
    let signature = SigningKey::derive("secret", &scope()).sign("text");
    let hex = signature.to_hex();
    assert!(signature.matches(&hex));
    let other = if hex.ends_with('0') { '1' } else { '0' };
    for wrong in [&hex.to_uppercase(), &format!("{}{other}", &hex[..63]), &hex[..62], ""] {
        assert!(!signature.matches(wrong), "{wrong}");
    }
}

#[test]
fn debug_prints_nothing_of_a_key() {
    assert_eq!(format!("{:?}", SigningKey::derive("secret", &scope())), "SigningKey(…)");
}

/// A secret longer than a block of SHA-256 is hashed first, as HMAC defines it.
#[test]
fn a_secret_can_have_any_length() {
    let sign = |secret: &str| SigningKey::derive(secret, &scope()).sign("text").to_hex();
    let long = "s".repeat(200);
    let signatures = [sign(""), sign(&long), sign(&long[1..])];
    assert!(signatures.iter().all(|it| it.len() == 64));
    assert!(signatures[0] != signatures[1] && signatures[1] != signatures[2]);
}

#[test]
fn a_scope_has_four_parts() {
    let parsed = CredentialScope::parse("20130524/us-east-1/s3/aws4_request");
    assert_eq!(parsed, Some(scope()));
    let odd = CredentialScope::parse("a/b//d").expect("four parts");
    assert_eq!((odd.date(), odd.region(), odd.service(), odd.terminator()), ("a", "b", "", "d"));
    assert!(scope().is_terminated() && !odd.is_terminated());
    for wrong in ["", "a/b/c", "a/b/c/d/e"] {
        assert_eq!(CredentialScope::parse(wrong), None, "{wrong}");
    }
}

#[test]
fn timestamps_parse_only_in_the_written_format() {
    let at = datetime!(2026-01-02 03:04:05.9 +2);
    assert_eq!(format_timestamp(at), "20260102T010405Z");
    assert_eq!(parse_timestamp("20260102T010405Z"), Some(datetime!(2026-01-02 01:04:05 UTC)));
    for wrong in ["20260102T010405", " 20260102T010405Z", "2026-01-02T01:04", "20261302T010405Z"] {
        assert_eq!(parse_timestamp(wrong), None, "{wrong}");
    }
}

#[test]
fn uris_have_one_canonical_form() {
    assert_eq!(uri::escape_path("/b/a b+c~ä"), "/b/a%20b%2Bc~%C3%A4");
    assert_eq!(uri::escape_query("a/b=c"), "a%2Fb%3Dc");
    assert_eq!(uri::canonical_path(""), Ok("/".to_owned()));
    let cases = ["/a%2fb+c", "/a/b%2Bc", "/%61/b%2bc"];
    for raw in cases {
        assert_eq!(uri::canonical_path(raw).as_deref(), Ok("/a/b%2Bc"), "{raw}");
    }
    assert_eq!(uri::canonical_query_part("a+b%2f").as_deref(), Ok("a%20b%2F"));
    for broken in ["%", "a%2", "%zz", "%+1"] {
        assert_eq!(uri::canonical_path(broken), Err(uri::BrokenEscape), "{broken}");
    }
}

#[test]
fn header_values_are_trimmed_and_spaces_are_folded() {
    let mut request = CanonicalRequest::builder("GET", "/", "");
    request.header("a", b"\t b   c\t d ");
    let values: [&[u8]; 3] = [b" x ", b"", b"\xff"];
    assert!(request.header_values("list", values));
    assert!(!request.header_values("none", []));
    let request = request.finish("hash");
    assert_eq!(request.signed_headers(), "a;list;none");
    let expected = b"GET\n/\n\na:b c\t d\nlist:x,,\xff\nnone:\n\na;list;none\nhash";
    assert_eq!(request.as_bytes(), expected);
}

#[test]
fn authorization_header_has_scope_headers_and_signature() {
    assert_eq!(
        authorization("key", &scope(), "host;x-amz-date", "abc"),
        "AWS4-HMAC-SHA256 Credential=key/20130524/us-east-1/s3/aws4_request, \
         SignedHeaders=host;x-amz-date, Signature=abc"
    );
}
