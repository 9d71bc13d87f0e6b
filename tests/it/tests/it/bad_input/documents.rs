//! XML documents that are malformed, too long, or refused for their content.

use super::Scene;
use crate::client::{Request, part_list};
use crate::content::bytes;

/// Each operation that reads a document. The upload must exist.
fn readers(upload: &str) -> Vec<(&'static str, String)> {
    vec![
        ("PUT", "/new".to_owned()),
        ("POST", "/box?delete".to_owned()),
        ("POST", format!("/box/parts?uploadId={upload}")),
        ("PUT", "/box/small?tagging".to_owned()),
        ("PUT", "/box?tagging".to_owned()),
    ]
}

#[test]
fn malformed_documents_are_refused() {
    let mut scene = Scene::new();
    let upload = scene.client.begin_upload("/box/parts");
    let deep = format!("{}{}", "<Delete>".repeat(40), "</Delete>".repeat(40));
    let entity = "<!DOCTYPE x [<!ENTITY a \"aaaaaaaa\"><!ENTITY b \"&a;&a;&a;\">]><Delete>\
                  <Object><Key>&b;</Key></Object></Delete>";
    let external = "<!DOCTYPE x SYSTEM \"file:///etc/passwd\"><Delete/>";
    for (method, target) in readers(&upload) {
        for document in [
            "this is no XML".as_bytes(),
            b"<",
            b"<Delete>",
            b"<Delete></Tagging>",
            b"<Unknown/>",
            b"{\"json\": true}",
            b"<Delete><Object><Key>sm\xff\xfe</Key></Object></Delete>",
            b"\xff\xfe<\0D\0/\0>\0",
            entity.as_bytes(),
            external.as_bytes(),
            deep.as_bytes(),
        ] {
            let request = Request::new(method, &target).body(document);
            scene.refuses(&request, 400, "MalformedXML");
        }
    }
    for (method, target) in readers(&upload).into_iter().filter(|(_, target)| target != "/new") {
        let completes = target.contains("uploadId");
        let code = if completes { "MalformedXML" } else { "MissingRequestBodyError" };
        scene.refuses(&Request::new(method, &target), 400, code);
    }
    scene.client.delete(&format!("/box/parts?uploadId={upload}")).expect(204);
    scene.stays_untouched();
}

#[test]
fn documents_that_are_too_long_are_refused() {
    let mut scene = Scene::new();
    let upload = scene.client.begin_upload("/box/parts");
    let long = b" ".repeat((4 << 20) + 1);
    for (method, target) in readers(&upload) {
        let request = Request::new(method, &target).body(&long[..]);
        scene.refuses(&request, 400, "MaxMessageLengthExceeded");
        let unsigned = request.claim("UNSIGNED-PAYLOAD");
        scene.refuses(&unsigned, 400, "MaxMessageLengthExceeded");
    }
    let one = "<Object><Key>small</Key></Object>";
    let many = format!("<Delete>{}</Delete>", one.repeat(1001));
    scene.refuses(&Request::new("POST", "/box?delete").body(many), 400, "MalformedXML");
    scene.client.delete(&format!("/box/parts?uploadId={upload}")).expect(204);
    scene.stays_untouched();
}

/// A document that was changed in transit deletes nothing.
#[test]
fn documents_with_wrong_digests_are_refused() {
    let mut scene = Scene::new();
    let document = "<Delete><Object><Key>small</Key></Object></Delete>";
    let request = Request::new("POST", "/box?delete").body(document);
    let md5 = request.clone().header("content-md5", "AAAAAAAAAAAAAAAAAAAAAA==");
    scene.refuses(&md5, 400, "BadDigest");
    let sum = request.clone().header("x-amz-checksum-crc32", "AAAAAA==");
    scene.refuses(&sum, 400, "BadDigest");
    let hash = request.claim(&"0".repeat(64));
    scene.refuses(&hash, 400, "XAmzContentSHA256Mismatch");
    scene.stays_untouched();
}

#[test]
fn invalid_part_lists_are_refused() {
    let mut scene = Scene::new();
    let upload = scene.client.begin_upload("/box/large");
    let target = format!("/box/large?uploadId={upload}");
    let mut tags = Vec::new();
    for number in 1..=3 {
        let path = format!("/box/large?partNumber={number}&uploadId={upload}");
        let answer = scene.client.put(&path, &bytes(number, 70_000)).expect(200);
        tags.push(answer.header("etag").to_owned());
    }
    let other = "\"00000000000000000000000000000000\"";
    for (list, code) in [
        (part_list(&[(1, &tags[0]), (2, &tags[1])]), "EntityTooSmall"),
        (part_list(&[(2, &tags[1]), (1, &tags[0])]), "InvalidPartOrder"),
        (part_list(&[(1, &tags[0]), (1, &tags[0])]), "InvalidPartOrder"),
        (part_list(&[(4, &tags[0])]), "InvalidPart"),
        (part_list(&[(1, other)]), "InvalidPart"),
        (part_list(&[(1, &tags[1])]), "InvalidPart"),
        (part_list(&[]), "MalformedXML"),
        (part_list(&[(0, &tags[0])]), "InvalidArgument"),
        (part_list(&[(10_001, &tags[0])]), "InvalidArgument"),
    ] {
        let answer = scene.client.send(&Request::new("POST", &target).body(list.as_str()));
        // If the gateway began its response early, the error is inside a response with status 200.
        let said = (matches!(answer.status, 200 | 400), answer.code());
        assert_eq!(said, (true, code.to_owned()), "{list}\n{}", answer.text());
        scene.refused += 1;
    }
    for number in ["0", "10001", "-1", "one", ""] {
        let path = format!("/box/large?partNumber={number}&uploadId={upload}");
        let request = Request::new("PUT", &path).body(bytes(9, 70_000));
        scene.refuses(&request, 400, "InvalidArgument");
    }
    let strange = Request::new("PUT", &format!("/box/other?partNumber=1&uploadId={upload}"));
    scene.refuses(&strange.body(bytes(9, 70_000)), 404, "NoSuchUpload");
    scene.client.delete(&target).expect(204);
    scene.stays_untouched();
}
