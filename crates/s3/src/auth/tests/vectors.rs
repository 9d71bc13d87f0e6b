//! The signatures in AWS's documentation.

use super::sent_request::{DAY, KEY, SentRequest, terms_at};
use crate::Code;
use crate::auth::{AuthKind, PayloadMode, SignatureRules};

const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

fn authorization(signed_headers: &str, signature: &str) -> String {
    format!(
        "AWS4-HMAC-SHA256 Credential={KEY}/20130524/us-east-1/s3/aws4_request,\
         SignedHeaders={signed_headers},Signature={signature}"
    )
}

#[track_caller]
fn check(sent: &SentRequest, signed_headers: &str, signature: &str) {
    let good = sent.clone().with("authorization", &authorization(signed_headers, signature));
    let verified = good.verify().unwrap();
    assert_eq!(verified.access_key(), Some(KEY));
    assert_eq!(verified.kind(), AuthKind::Header);
    let last = if signature.ends_with('0') { "1" } else { "0" };
    let bad = format!("{}{last}", &signature[..63]);
    let bad = sent.clone().with("authorization", &authorization(signed_headers, &bad));
    assert_eq!(bad.verify().unwrap_err().code, Code::SignatureDoesNotMatch);
}

fn get(target: &str) -> SentRequest {
    SentRequest::new(
        "GET",
        target,
        &[
            ("host", "examplebucket.s3.amazonaws.com"),
            ("x-amz-content-sha256", EMPTY),
            ("x-amz-date", "20130524T000000Z"),
        ],
    )
}

#[test]
fn s3_a1_documented_get_object_is_accepted() {
    check(
        &get("/test.txt").with("range", "bytes=0-9"),
        "host;range;x-amz-content-sha256;x-amz-date",
        "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
    );
}

#[test]
fn s3_a1_documented_put_object_is_accepted() {
    let sent = SentRequest::new(
        "PUT",
        "/test$file.text",
        &[
            ("date", "Fri, 24 May 2013 00:00:00 GMT"),
            ("host", "examplebucket.s3.amazonaws.com"),
            (
                "x-amz-content-sha256",
                "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
            ),
            ("x-amz-date", "20130524T000000Z"),
            ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
        ],
    );
    check(
        &sent,
        "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
        "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
    );
}

#[test]
fn s3_a6_documented_subresource_and_listing_are_accepted() {
    check(
        &get("/?lifecycle"),
        "host;x-amz-content-sha256;x-amz-date",
        "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
    );
    for target in ["/?max-keys=2&prefix=J", "/?prefix=J&max-keys=2", "/?prefix=%4A&max-keys=2"] {
        check(
            &get(target),
            "host;x-amz-content-sha256;x-amz-date",
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
        );
    }
}

#[test]
fn s3_a8_documented_presigned_get_is_accepted() {
    let sent = SentRequest::new(
        "GET",
        "/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F\
         20130524%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z&\
         X-Amz-Expires=86400&X-Amz-SignedHeaders=host&X-Amz-Signature=\
         aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404",
        &[("host", "examplebucket.s3.amazonaws.com")],
    );
    for seconds in [DAY - 900, DAY, DAY + 86_400] {
        let verified = sent.verify_on(&terms_at(seconds)).unwrap();
        assert_eq!(verified.kind(), AuthKind::Query);
        assert_eq!(verified.payload(), PayloadMode::Unsigned);
    }
    for (seconds, message) in
        [(DAY - 901, "Request is not valid yet."), (DAY + 86_401, "Request has expired.")]
    {
        let fault = sent.verify_on(&terms_at(seconds)).unwrap_err();
        assert_eq!((fault.code, fault.message.as_ref()), (Code::AccessDenied, message));
    }
    let fault = sent.tampered("d404", "d405").verify().unwrap_err();
    assert_eq!(fault.code, Code::SignatureDoesNotMatch);
}

#[test]
fn s3_a12_documented_sigv2_query_is_accepted() {
    let mut sent = SentRequest::new(
        "GET",
        "/photos/puppy.jpg?AWSAccessKeyId=AKIAIOSFODNN7EXAMPLE&Expires=1175139620&\
         Signature=NpgCjnDzrM%2BWFzoENXmpNDUsSn8%3D",
        &[("host", "johnsmith.s3.amazonaws.com")],
    );
    sent.host_bucket = Some("johnsmith".to_owned());
    let rules = terms_at(1_175_139_620);
    assert_eq!(sent.verify_on(&rules).unwrap().access_key(), Some(KEY));

    let late = sent.verify_on(&terms_at(1_175_139_621)).unwrap_err();
    assert_eq!((late.code, late.extra[0].0), (Code::AccessDenied, "Expires"));
    let off = SignatureRules { sigv2_presign: false, ..rules };
    assert_eq!(sent.verify_on(&off).unwrap_err().code, Code::InvalidRequest);

    let mut by_path = sent.clone();
    by_path.host_bucket = None;
    by_path.path = "/johnsmith/photos/puppy.jpg".to_owned();
    by_path.verify_on(&rules).unwrap();
}

/// URLs that boto3 1.43 with botocore 1.44.5 presigned on the day of the examples.
#[test]
fn s3_a12_boto3_sigv2_urls_for_us_east_1_are_accepted() {
    let sent = |method, target: &str| {
        let rest = "AWSAccessKeyId=AKIAIOSFODNN7EXAMPLE";
        let target = target.replace("KEY", rest);
        SentRequest::new(
            method,
            &format!("{target}&Expires=1369357200"),
            &[("host", "localhost:9700")],
        )
    };
    let get = sent(
        "GET",
        "/b/k%20%C3%A9%2B/x%20y?versionId=null&response-content-type=text%2Fplain%3B%20charset\
         %3Dutf-8&response-content-disposition=attachment%3B%20filename%3D%22a%20b.txt%22&KEY\
         &Signature=eeiDDLVwyhMzHoqqdca12LZNlrg%3D",
    );
    let put = sent(
        "PUT",
        "/b/k?KEY&Signature=6YIe%2Bj5DbtX1V6AVz4d5qc%2FyHmQ%3D&content-type=text%2Fplain\
         &x-amz-meta-a=b%20c&x-amz-acl=private",
    );
    let part = sent(
        "PUT",
        "/b/k?uploadId=u%2F1&partNumber=3&KEY&Signature=9KSTxWKl6RPxI4L3q%2FrJtVLmEnU%3D",
    );
    let head = sent("HEAD", "/b/k?KEY&Signature=inD4rbyMHe52lXkUDxfd1CwEKG4%3D");
    let delete = sent("DELETE", "/b/k?KEY&Signature=PILY6QFA64w%2B7b32VXguc4ZYHBE%3D");
    for (sent, hoisted) in [(get, 0), (put, 3), (part, 0), (head, 0), (delete, 0)] {
        let verified = sent.verify().unwrap();
        assert_eq!(verified.kind(), AuthKind::QueryV2);
        assert_eq!(verified.hoisted().len(), hoisted);
        let late = sent.verify_on(&terms_at(1_369_357_201)).unwrap_err();
        assert_eq!(late.code, Code::AccessDenied);
        let other = sent.tampered("Expires=1369357200", "Expires=1369357201");
        assert_eq!(other.verify().unwrap_err().code, Code::SignatureDoesNotMatch);
    }
}

#[test]
fn s3_a8_boto3_sigv4_url_for_eu_central_1_is_accepted() {
    let sent = SentRequest::new(
        "GET",
        "/b/k%20%C3%A9%2B/x%20y?versionId=null&response-content-type=text%2Fplain%3B%20charset\
         %3Dutf-8&response-content-disposition=attachment%3B%20filename%3D%22a%20b.txt%22\
         &X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20261121\
         %2Feu-central-1%2Fs3%2Faws4_request&X-Amz-Date=20261121T122506Z&X-Amz-Expires=3600\
         &X-Amz-SignedHeaders=host&X-Amz-Signature=\
         1b410bc79e3e20e7bd25123cd8f59a5e5b15f5dd26d95c2e9e56dfe13bf10ecc",
        &[("host", "localhost:9700")],
    );
    let rules = SignatureRules {
        region: "eu-central-1",
        service: "s3",
        has_session: false,
        ..terms_at(1_795_263_906)
    };
    assert_eq!(sent.verify_on(&rules).unwrap().kind(), AuthKind::Query);
    let other = sent.tampered("a%20b.txt", "a%20c.txt").verify_on(&rules);
    assert_eq!(other.unwrap_err().code, Code::SignatureDoesNotMatch);
}
