//! Requests without a valid signature.

use super::Scene;
use crate::client::{Client, Request, Signature};
use crate::content::bytes;

fn overwrite() -> Request {
    Request::new("PUT", "/box/large").body(bytes(9, 200_000))
}

#[test]
fn wrong_secrets_unknown_keys_and_skewed_clocks_are_refused() {
    let mut scene = Scene::new();
    let right = scene.client.clone();
    let client = |key: &str, secret: &str| Client {
        address: right.address.clone(),
        key: key.to_owned(),
        secret: secret.to_owned(),
    };
    let wrong = client(&right.key, "not-the-secret-of-this-key");
    let unknown = client("nobody-has-this-key", &right.secret);
    for request in [
        overwrite(),
        Request::new("GET", "/box/small"),
        Request::new("DELETE", "/box/small"),
        Request::new("PUT", "/other"),
        Request::new("POST", "/box/new?uploads"),
    ] {
        let wire = request.sealed(wrong.signature()).wire();
        scene.refuses_wire(&request.method, &wire, 403, "SignatureDoesNotMatch");
        let wire = request.sealed(unknown.signature()).wire();
        scene.refuses_wire(&request.method, &wire, 403, "InvalidAccessKeyId");
        for seconds in [-16 * 60, 16 * 60] {
            let skewed = request.clone().skewed(seconds);
            scene.refuses(&skewed, 403, "RequestTimeTooSkewed");
        }
    }
    scene.stays_untouched();
}

#[test]
fn a_request_changed_after_it_was_signed_is_refused() {
    let mut scene = Scene::new();
    let sealed = overwrite().sealed(scene.client.signature());
    let text = String::from_utf8(sealed.head.clone()).expect("the head is text");
    for (before, after) in [
        ("PUT /box/large", "PUT /box/small"),
        ("PUT /box/large", "PUT /box/large?tagging"),
        ("us-east-1/s3", "us-east-1/s4"),
    ] {
        let mut wire = text.replacen(before, after, 1).into_bytes();
        wire.extend_from_slice(&sealed.body);
        let code = if after.ends_with("s4") {
            (400, "AuthorizationHeaderMalformed")
        } else {
            (403, "SignatureDoesNotMatch")
        };
        scene.refuses_wire("PUT", &wire, code.0, code.1);
    }
    scene.stays_untouched();
}

/// The holder of a URL for writing must not be able to read, copy, tag or add metadata as its
/// signer.
#[test]
fn unsigned_amz_headers_are_refused() {
    let mut scene = Scene::new();
    for (name, value) in [
        ("x-amz-copy-source", "/box/middle"),
        ("x-amz-copy-source-range", "bytes=0-9"),
        ("x-amz-meta-owner", "somebody"),
        ("x-amz-tagging", "a=b"),
        ("x-amz-acl", "public-read"),
        ("x-amz-storage-class", "STANDARD"),
        ("x-amz-checksum-crc32", "AAAAAA=="),
        ("x-amz-decoded-content-length", "5"),
        ("x-amz-trailer", "x-amz-checksum-crc32"),
        ("x-amz-metadata-directive", "REPLACE"),
        ("x-amz-security-token", "token"),
        ("x-amz-anything", "at all"),
    ] {
        let request = overwrite().unsigned(name, value);
        let answer = scene.refuses(&request, 403, "AccessDenied");
        assert_eq!(answer.element("HeadersNotSigned"), name);
        let wire = request.presigned(scene.client.signature(), "300");
        let answer = scene.refuses_wire("PUT", &wire, 403, "AccessDenied");
        assert_eq!(answer.element("HeadersNotSigned"), name);
    }
    scene.stays_untouched();
}

#[test]
fn expired_and_overlong_presigned_urls_are_refused() {
    let mut scene = Scene::new();
    let by = scene.client.clone();
    let presigned = |request: &Request, expires: &str| request.presigned(by.signature(), expires);
    let request = Request::new("GET", "/box/small");
    let good = by.exchange("GET", &presigned(&request, "60")).expect("an answer").expect(200);
    assert_eq!(good.body, bytes(1, 1000), "a URL that is good is served");

    for request in [overwrite(), request] {
        let method = request.method.clone();
        let late = presigned(&request.clone().skewed(-120), "60");
        scene.refuses_wire(&method, &late, 403, "AccessDenied");
        let early = presigned(&request.clone().skewed(3600), "60");
        scene.refuses_wire(&method, &early, 403, "AccessDenied");
        for expires in ["604801", "-1", "1e3", "", "99999999999999999999"] {
            let wire = presigned(&request, expires);
            scene.refuses_wire(&method, &wire, 400, "AuthorizationQueryParametersError");
        }
        let signature = Signature { secret: "wrong-wrong-wrong", ..by.signature() };
        let wire = request.presigned(signature, "60");
        scene.refuses_wire(&method, &wire, 403, "SignatureDoesNotMatch");
    }
    scene.stays_untouched();
}

#[test]
fn a_presigned_url_with_a_streaming_mode_is_refused() {
    let mut scene = Scene::new();
    for mode in [
        "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
        "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
        "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
    ] {
        let wire = overwrite().claim(mode).presigned(scene.client.signature(), "60");
        scene.refuses_wire("PUT", &wire, 400, "InvalidRequest");
    }
    scene.stays_untouched();
}

/// Signature Version 2 signs a text of lines. The holder of a URL may divide that text into other
/// names and values. So a name with a colon or a line feed could turn a copy into a write of other
/// bytes.
#[test]
fn text_signed_by_a_version_2_url_has_one_meaning() {
    let mut scene = Scene::new();
    let by = scene.client.clone();
    let copies = "x-amz-copy-source:/box/middle\nx-amz-meta-a:1\n";
    let put = |query: &str| Request::new("PUT", &format!("/box/large?{query}"));
    let wire = put("x-amz-copy-source=%2Fbox%2Fmiddle&x-amz-meta-a=1");
    let wire = wire.presigned_2(by.signature(), copies);
    by.exchange("PUT", &wire).expect("an answer").expect(200);
    let answer = by.get("/box/large").expect(200);
    assert!(answer.body == bytes(2, 50_000), "a URL that is good makes the copy that it says");
    by.put("/box/large", &bytes(3, 300_000)).expect(200);

    let mine = bytes(9, 1000);
    for name in [
        "x-amz-copy-source%3A%2Fbox%2Fmiddle%0Ax-amz-meta-a",
        "x-amz-copy-source:/box/middle%0Ax-amz-meta-a",
        "X-Amz-Copy-Source%3A%2Fbox%2Fmiddle%0AX-Amz-Meta-A",
    ] {
        let request = put(&format!("{name}=1")).body(mine.clone());
        let wire = request.presigned_2(by.signature(), copies);
        scene.refuses_wire("PUT", &wire, 403, "AccessDenied");
    }
    for name in ["x-amz-meta-%C3%A4", "x-amz-meta-a%20b", "x-amz-meta-a%3A", "x-amz-meta-%28"] {
        let request = put(&format!("{name}=1")).body(mine.clone());
        let plain = String::from_utf8(crate::client::unescape(name)).expect("UTF-8");
        let wire = request.presigned_2(by.signature(), &format!("{plain}:1\n"));
        scene.refuses_wire("PUT", &wire, 403, "AccessDenied");
    }
    // A blank that HTTP does not treat as one is part of the value, both in the signed text and in
    // the stored value.
    for blank in ["%C2%A0", "%E2%80%83", "%E3%80%80"] {
        for query in [format!("x-amz-meta-a={blank}1"), format!("x-amz-meta-a=1{blank}")] {
            let request = put(&query).body(mine.clone());
            let wire = request.presigned_2(by.signature(), "x-amz-meta-a:1\n");
            scene.refuses_wire("PUT", &wire, 403, "SignatureDoesNotMatch");
        }
    }
    // If the signature covers a hash of the body, the body must match it.
    let hash = crate::client::sha256(&mine);
    let query = format!("x-amz-content-sha256={hash}");
    let request = put(&query).body(bytes(8, 1000));
    let wire = request.presigned_2(by.signature(), &format!("x-amz-content-sha256:{hash}\n"));
    scene.refuses_wire("PUT", &wire, 400, "XAmzContentSHA256Mismatch");
    scene.stays_untouched();
}

/// Metadata that no response could contain is refused; it would be stored and never be visible.
#[test]
fn metadata_with_an_invalid_header_name_is_refused() {
    let mut scene = Scene::new();
    let by = scene.client.clone();
    for name in ["x-amz-meta-%C3%A4", "x-amz-meta-a%20b", "x-amz-meta-a%3Ab", "x-amz-meta-a%0Ab"] {
        let request = Request::new("PUT", &format!("/box/large?{name}=1")).body(bytes(9, 1000));
        let wire = request.presigned(by.signature(), "300");
        scene.refuses_wire("PUT", &wire, 400, "AuthorizationQueryParametersError");
    }
    let request = Request::new("PUT", "/box/good?x-amz-meta-a-b=%C3%A4").body(bytes(9, 1000));
    let wire = request.presigned(by.signature(), "300");
    by.exchange("PUT", &wire).expect("an answer").expect(200);
    assert_eq!(by.get("/box/good").expect(200).header("x-amz-meta-a-b"), "=?UTF-8?Q?=C3=A4?=");
    by.delete("/box/good").expect(204);
    scene.stays_untouched();
}

/// The response does not reveal which objects exist.
#[test]
fn anonymous_requests_do_not_reveal_which_objects_exist() {
    let mut scene = Scene::new();
    for (method, target) in [
        ("GET", "/"),
        ("GET", "/box"),
        ("GET", "/box/small"),
        ("GET", "/box/none"),
        ("PUT", "/box/small"),
        ("PUT", "/new"),
        ("DELETE", "/box/small"),
        ("DELETE", "/box"),
        ("POST", "/box/new?uploads"),
        ("PUT", "/box/new?partNumber=1&uploadId=00000000000000000000000000000000"),
    ] {
        let wire = Request::new(method, target).body(bytes(9, 10)).anonymous(&scene.client.address);
        scene.refuses_wire(method, &wire, 403, "AccessDenied");
    }
    // S3 reveals to all clients which buckets exist.
    for target in ["/none", "/none/none"] {
        let wire = Request::new("GET", target).anonymous(&scene.client.address);
        scene.refuses_wire("GET", &wire, 404, "NoSuchBucket");
    }
    for (name, value) in [("if-match", "\"0\""), ("if-none-match", "*")] {
        let request = overwrite().header(name, value);
        let wire = request.anonymous(&scene.client.address);
        scene.refuses_wire("PUT", &wire, 403, "AccessDenied");
    }
    scene.stays_untouched();
}
