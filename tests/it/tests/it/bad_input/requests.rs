//! Requests for missing resources, for operations that are not served, and beyond limits.

use super::Scene;
use crate::client::Request;
use crate::content::bytes;

fn overwrite() -> Request {
    Request::new("PUT", "/box/large").body(bytes(9, 200_000))
}

#[test]
fn missing_buckets_keys_and_uploads_have_their_error_codes() {
    let mut scene = Scene::new();
    let upload = "00000000000000000000000000000000";
    let body = bytes(9, 200_000);
    for (method, target, code) in [
        ("GET", "/none".to_owned(), "NoSuchBucket"),
        ("GET", "/none?list-type=2".to_owned(), "NoSuchBucket"),
        ("GET", "/none?uploads".to_owned(), "NoSuchBucket"),
        ("DELETE", "/none".to_owned(), "NoSuchBucket"),
        ("GET", "/none/key".to_owned(), "NoSuchBucket"),
        ("PUT", "/none/key".to_owned(), "NoSuchBucket"),
        ("DELETE", "/none/key".to_owned(), "NoSuchBucket"),
        ("POST", "/none/key?uploads".to_owned(), "NoSuchBucket"),
        ("GET", "/box/none".to_owned(), "NoSuchKey"),
        ("GET", "/box/none?tagging".to_owned(), "NoSuchKey"),
        ("GET", "/box/small/".to_owned(), "NoSuchKey"),
        ("GET", "/box/small/below".to_owned(), "NoSuchKey"),
        ("PUT", format!("/box/large?partNumber=1&uploadId={upload}"), "NoSuchUpload"),
        ("PUT", "/box/large?partNumber=1&uploadId=nonsense".to_owned(), "NoSuchUpload"),
        ("GET", format!("/box/large?uploadId={upload}"), "NoSuchUpload"),
        ("DELETE", format!("/box/large?uploadId={upload}"), "NoSuchUpload"),
    ] {
        let request = Request::new(method, &target);
        let request = if method == "PUT" { request.body(body.clone()) } else { request };
        scene.refuses(&request, 404, code);
    }
    let list = crate::client::part_list(&[(1, "\"00000000000000000000000000000000\"")]);
    let complete = Request::new("POST", &format!("/box/large?uploadId={upload}")).body(list);
    scene.refuses(&complete, 404, "NoSuchUpload");
    scene.refuses(&Request::new("HEAD", "/box/none"), 404, "");
    scene.refuses(&Request::new("HEAD", "/none"), 404, "");
    scene.refuses(&Request::new("DELETE", "/box"), 409, "BucketNotEmpty");
    scene.stays_untouched();
}

/// An unknown request is never treated as a known one, especially not as a PUT.
#[test]
fn unsupported_requests_are_refused_without_effect() {
    let mut scene = Scene::new();
    for query in [
        "foo",
        "foo=bar",
        "torrent",
        "restore",
        "select",
        "append",
        "annotation",
        "x-amz-meta-a=b",
        "encryption",
    ] {
        for method in ["PUT", "POST", "DELETE"] {
            let target = format!("/box/large?{query}");
            let wire = Request::new(method, &target)
                .body(bytes(9, 1000))
                .sealed(scene.client.signature())
                .wire();
            let answer = scene.client.exchange(method, &wire).expect("an answer");
            let expected = matches!(
                (answer.status, answer.code().as_str()),
                (501, "NotImplemented") | (405, "MethodNotAllowed")
            );
            assert!(expected, "{method} {target}: {} {}", answer.status, answer.text());
            scene.refused += 1;
        }
        let create = Request::new("PUT", &format!("/box/new?{query}")).body(bytes(9, 1000));
        assert!(scene.client.send(&create).status >= 400, "{query} made an object");
    }
    for query in ["legal-hold", "retention"] {
        scene.refuses(&overwrite_with(query), 400, "MalformedXML");
    }
    scene.refuses(&overwrite_with("foo"), 501, "NotImplemented");
    scene.refuses(&overwrite_with("renameObject"), 400, "InvalidArgument");
    for query in [
        "policy",
        "cors",
        "lifecycle",
        "versioning",
        "replication",
        "website",
        "acl=x",
        "logging",
        "notification",
        "object-lock",
        "encryption",
        "ownershipControls",
    ] {
        let target = format!("/box?{query}");
        let answer = scene.client.send(&Request::new("PUT", &target).body(*b"<X/>"));
        assert!(answer.status >= 400, "{target}: {}", answer.text());
        let create = Request::new("PUT", &format!("/unmade?{query}")).body(*b"<X/>");
        let answer = scene.client.send(&create);
        assert!(answer.status >= 400, "{target} made a bucket: {}", answer.text());
    }
    for (method, target) in [("PATCH", "/box/large"), ("BREW", "/box/large"), ("POST", "/box/x")] {
        scene.refuses(&Request::new(method, target).body(*b"x"), 405, "MethodNotAllowed");
    }
    scene.stays_untouched();
}

fn overwrite_with(query: &str) -> Request {
    let mut request = overwrite();
    query.clone_into(&mut request.query);
    request
}

#[test]
fn sse_kms_without_a_key_management_service_is_refused() {
    let mut scene = Scene::new();
    let key = ("x-amz-server-side-encryption-aws-kms-key-id", "photos");
    let kms = |request: Request| {
        request.header("x-amz-server-side-encryption", "aws:kms").header(key.0, key.1)
    };
    scene.refuses(&kms(overwrite()), 501, "NotImplemented");
    let copy = Request::new("PUT", "/box/copy").header("x-amz-copy-source", "/box/large");
    scene.refuses(&kms(copy), 501, "NotImplemented");
    scene.refuses(&kms(Request::new("POST", "/box/new?uploads")), 501, "NotImplemented");
    let configuration = "<ServerSideEncryptionConfiguration><Rule>\
                         <ApplyServerSideEncryptionByDefault><SSEAlgorithm>aws:kms</SSEAlgorithm>\
                         <KMSMasterKeyID>photos</KMSMasterKeyID>\
                         </ApplyServerSideEncryptionByDefault></Rule>\
                         </ServerSideEncryptionConfiguration>";
    let default = Request::new("PUT", "/box?encryption").body(configuration);
    scene.refuses(&default, 501, "NotImplemented");
    scene.stays_untouched();
}

#[test]
fn unsatisfiable_ranges_are_refused_and_malformed_ones_ignored() {
    let mut scene = Scene::new();
    for range in ["bytes=300000-", "bytes=400000-500000", "bytes=-0"] {
        let request = Request::new("GET", "/box/large").header("range", range);
        let answer = scene.refuses(&request, 416, "InvalidRange");
        assert_eq!(answer.header("content-range"), "bytes */300000");
    }
    let whole = bytes(3, 300_000);
    for range in ["bytes=0-1,4-5", "bytes=5-2", "bytes=a-b", "lines=1-2", "bytes=", "bytes=--1"] {
        let request = Request::new("GET", "/box/large").header("range", range);
        let answer = scene.client.send(&request).expect(200);
        assert!(answer.body == whole, "{range}");
        assert_eq!(answer.header("content-range"), "");
    }
    for (range, from, to) in [
        ("bytes=0-0", 0, 1),
        ("bytes=65535-65536", 65_535, 65_537),
        ("bytes=-7", 299_993, 300_000),
        ("bytes=299990-999999999", 299_990, 300_000),
        ("bytes=100000-", 100_000, 300_000),
    ] {
        let request = Request::new("GET", "/box/large").header("range", range);
        let answer = scene.client.send(&request).expect(206);
        assert!(answer.body == whole[from..to], "{range}");
    }
    let both = Request::new("GET", "/box/large?partNumber=1").header("range", "bytes=0-1");
    let answer = scene.client.send(&both);
    assert_eq!(answer.status, 400, "{}", answer.text());
    scene.refuses(&Request::new("GET", "/box/large?partNumber=2"), 416, "InvalidPartNumber");
    scene.stays_untouched();
}

#[test]
fn requests_beyond_limits_are_refused() {
    let mut scene = Scene::new();
    let metadata = overwrite().header("x-amz-meta-long", &"m".repeat(2100));
    scene.refuses(&metadata, 400, "MetadataTooLarge");
    let mut metadata = overwrite();
    for at in 0..30 {
        metadata = metadata.header(&format!("x-amz-meta-{at}"), &"m".repeat(80));
    }
    scene.refuses(&metadata, 400, "MetadataTooLarge");
    let tags: Vec<String> = (0..11).map(|at| format!("k{at}=v")).collect();
    let answer = scene.client.send(&overwrite().header("x-amz-tagging", &tags.join("&")));
    assert_eq!(answer.status, 400, "{}", answer.text());
    assert!(matches!(answer.code().as_str(), "BadRequest" | "InvalidTag"), "{}", answer.text());
    scene.refuses(&overwrite().header("x-amz-tagging", "a=1&a=2"), 400, "InvalidArgument");
    for tags in [format!("{}=v", "k".repeat(129)), format!("k={}", "v".repeat(257))] {
        scene.refuses(&overwrite().header("x-amz-tagging", &tags), 400, "InvalidTag");
    }
    let tag = "<Tag><Key>k</Key><Value>v</Value></Tag>";
    let twice = format!("<Tagging><TagSet>{}</TagSet></Tagging>", tag.repeat(2));
    scene.refuses(&Request::new("PUT", "/box/small?tagging").body(twice), 400, "InvalidTag");
    scene.stays_untouched();
}

/// The HTTP parser refuses these before a request has an id.
#[test]
fn heads_that_are_too_large_are_refused() {
    let scene = Scene::new();
    let long = overwrite().header("x-amz-meta-long", &"m".repeat(20_000));
    let mut many = overwrite();
    for at in 0..150 {
        many = many.header(&format!("a-{at}"), "v");
    }
    let target = Request::new("GET", &format!("/box/{}", "k".repeat(70_000)));
    for request in [long, many, target] {
        let answer = scene.client.send(&request);
        assert!(matches!(answer.status, 400 | 414 | 431), "{}", answer.status);
    }
    for line in [
        "GET\r\n\r\n",
        "GET /box HTTP/9.9\r\n\r\n",
        "\0\0\0\0\r\n\r\n",
        "GET / HTTP/1.1\r\n\
        host: a\r\n bad\0header: x\r\n\r\n",
    ] {
        match scene.client.break_off("GET", line.as_bytes()) {
            Ok(answer) => assert!(answer.status >= 400, "{line:?}: {}", answer.status),
            Err(_) => assert_eq!(scene.client.get("/box/small").status, 200),
        }
    }
    let mut scene = scene;
    let repeated = overwrite().unsigned("x-amz-date", "20200101T000000Z");
    let answer = scene.client.send(&repeated);
    assert_eq!(answer.status, 400, "{}", answer.text());
    scene.refused += 1;
    scene.stays_untouched();
}

/// Conditions that do not hold are refused before the body is sent, and also after it.
#[test]
fn conditions_that_do_not_hold_are_refused() {
    let mut scene = Scene::new();
    let other = "\"00000000000000000000000000000000\"";
    for (name, value) in [("if-none-match", "*"), ("if-match", other)] {
        scene.refuses(&overwrite().header(name, value), 412, "PreconditionFailed");
        let request = overwrite().header(name, value).header("expect", "100-continue");
        let sealed = request.sealed(scene.client.signature());
        let answer = scene.client.exchange("PUT", &sealed.head);
        scene.check(&sealed.head, answer, 412, "PreconditionFailed");
    }
    let absent = Request::new("PUT", "/box/none").body(bytes(9, 100_000)).header("if-match", other);
    scene.refuses(&absent, 404, "NoSuchKey");
    let delete = Request::new("DELETE", "/box/small").header("if-match", other);
    scene.refuses(&delete, 412, "PreconditionFailed");
    scene.stays_untouched();
}
