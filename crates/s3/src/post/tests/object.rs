//! Forms as `PostObject` requests.

use http::{StatusCode, Version};

use crate::auth::tests::sent_request::{SentRequest, rules};
use crate::auth::{FormCredentials, VerifiedForm};
use crate::body::{BodyDecoder, BodyHead};
use crate::checksum::Expectation;
use crate::post::{FilePart, Form, SuccessAction};
use crate::request::PostObject;
use crate::response::PostObjectOutput;
use crate::{BucketName, Code, Fault, ObjectKey, Operation};

fn form_of(filename: &str, fields: &[(&str, &str)]) -> Result<Form, Fault> {
    let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let file = FilePart { filename: Some(filename.to_owned()), content_type: None };
    Form::new(fields.collect(), &file)
}

fn parse(fields: &[(&str, &str)]) -> Result<PostObject, Fault> {
    let mut all = vec![("key", "k")];
    all.extend_from_slice(fields);
    parse_form(&form_of("a.bin", &all)?)
}

/// Parses an anonymous form, which needs no policy.
fn parse_form(form: &Form) -> Result<PostObject, Fault> {
    PostObject::parse(&verified(form))
}

fn verified(form: &Form) -> VerifiedForm<'_> {
    let sent = SentRequest::new("POST", "/bucket", &[("host", "h"), ("x-amz-acl", "private")]);
    let credentials = FormCredentials::parse(&sent.head(), form).unwrap();
    credentials.verify(None, &BucketName::parse("bucket").unwrap(), &rules()).unwrap()
}

#[track_caller]
fn refused(fields: &[(&str, &str)], code: Code) {
    assert_eq!(parse(fields).expect_err("must be refused").code, code, "{fields:?}");
}

#[test]
fn s3_a9_fields_count_as_headers() {
    let post = parse(&[
        ("acl", "private"),
        ("Content-Type", "image/png"),
        ("Cache-Control", "max-age=100"),
        ("Expires", "Fri, 21 Mar 2026 00:00:00 GMT"),
        ("Content-Language", "en-US"),
        ("Content-Disposition", "inline"),
        ("Content-Encoding", "gzip"),
        ("x-amz-meta-foo", "bär"),
        ("X-Amz-Meta-Baz", "1"),
        ("x-amz-meta-baz", "2"),
        ("x-amz-storage-class", "STANDARD"),
        ("tagging", "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>"),
        ("if-none-match", "*"),
        ("x-amz-copy-source", "/other/key"),
    ])
    .unwrap();
    let metadata = &post.put.metadata;
    let headers = metadata.headers();
    let headers: Vec<(&str, &str)> =
        headers.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    assert_eq!(
        headers,
        [
            ("content-type", "image/png"),
            ("cache-control", "max-age=100"),
            ("content-disposition", "inline"),
            ("content-encoding", "gzip"),
            ("content-language", "en-US"),
            ("expires", "Fri, 21 Mar 2026 00:00:00 GMT"),
            ("x-amz-meta-baz", "1,2"),
            ("x-amz-meta-foo", "bär"),
        ]
    );
    assert_eq!(post.put.tags.as_slice(), [("a".to_owned(), "b".to_owned())]);
    assert_eq!(post.put.condition, parse(&[]).unwrap().put.condition);
    assert!(!post.headers().contains_key("x-amz-copy-source"));
    assert_eq!(parse(&[("Content-Type", "")]).unwrap().put.metadata.content_type, None);
    let query = parse(&[("x-amz-tagging", "a=b")]).unwrap();
    assert_eq!(query.put.tags, post.put.tags);
}

#[test]
fn s3_a9_fields_of_unsupported_features_are_refused() {
    refused(&[("acl", "nonsense")], Code::InvalidArgument);
    refused(&[("x-amz-server-side-encryption", "aws:kms:dsse")], Code::NotImplemented);
    refused(&[("x-amz-object-lock-mode", "GOVERNANCE")], Code::NotImplemented);
    refused(&[("tagging", "invalid")], Code::MalformedXML);
    refused(&[("tagging", "<Tagging/>"), ("x-amz-tagging", "a=b")], Code::InvalidArgument);
}

#[test]
fn s3_s8_a_repeated_field_is_refused() {
    refused(&[("KEY", "other")], Code::InvalidArgument);
    refused(&[("acl", "private"), ("acl", "private")], Code::InvalidArgument);
    refused(&[("acl", "private"), ("x-amz-acl", "private")], Code::InvalidArgument);
    assert!(parse(&[("x-ignore-a", "1"), ("x-ignore-a", "2")]).is_ok());
}

#[test]
fn s3_s18_control_characters_in_header_fields_are_refused() {
    for value in ["a\r\nb: c", "a\nb", "a\0b", "a\u{7f}"] {
        for name in ["content-type", "cache-control", "x-amz-meta-a"] {
            refused(&[(name, value)], Code::InvalidArgument);
        }
    }
    refused(&[("x-amz-meta-a b", "c")], Code::InvalidArgument);
}

#[test]
fn s3_n11_the_key_of_a_form_is_validated() {
    let key = |filename: &str, key: &str| {
        parse_form(&form_of(filename, &[("key", key)])?).map(|post| post.key)
    };
    for text in ["..", "a//b", "%2e%2e", "/a", "\\a", "a b+c"] {
        assert_eq!(key("f", text).unwrap().as_str(), text);
    }
    assert_eq!(key("f", "a\0b").unwrap_err().code, Code::InvalidArgument);
    assert_eq!(key("f", &"a".repeat(1025)).unwrap_err().code, Code::KeyTooLongError);
    assert_eq!(key(&"f".repeat(1025), "${filename}").unwrap_err().code, Code::KeyTooLongError);
    for fields in [&[][..], &[("key", "")]] {
        let fault = parse_form(&form_of("f", fields).unwrap()).unwrap_err();
        assert_eq!(fault.code, Code::InvalidArgument);
        assert_eq!(
            fault.message,
            "Bucket POST must contain a field named 'key'.  If it is specified, please check the \
             order of the fields."
        );
    }
}

#[test]
fn s3_a9_the_file_name_is_inserted_into_fields() {
    let get = |filename: &str, name: &str, value: &str| {
        form_of(filename, &[(name, value)]).unwrap().get(name).unwrap().to_owned()
    };
    assert_eq!(get("a.png", "key", "up/${filename}"), "up/a.png");
    assert_eq!(get("a.png", "x-amz-meta-name", "${filename}-${filename}"), "a.png-a.png");
    assert_eq!(get("C:\\Program Files\\d\\a.png", "key", "${filename}"), "a.png");
    assert_eq!(get("../../etc/passwd", "key", "up/${filename}"), "up/passwd");
    assert_eq!(get("", "key", "up/${filename}"), "up/");
    // The inserted name is not expanded again, and nothing is inserted into signed fields.
    assert_eq!(get("${filename}", "key", "${filename}"), "${filename}");
    assert_eq!(get("a", "policy", "${filename}"), "${filename}");
    let many = "${filename}".repeat(1_000);
    let fault = form_of(&"f".repeat(1_000), &[("key", &many)]).unwrap_err();
    assert_eq!(fault.code, Code::MalformedPOSTRequest);
}

#[test]
fn s3_a9_the_form_selects_the_response_on_success() {
    let action = |fields: &[(&str, &str)]| parse(fields).unwrap().success;
    assert_eq!(action(&[]), SuccessAction::NoContent);
    for (value, status) in [("200", 200), ("201", 201), ("204", 204), ("404", 204), ("", 204)] {
        let status = StatusCode::from_u16(status).unwrap();
        assert_eq!(action(&[("success_action_status", value)]).status(), status);
    }
    let bucket = BucketName::parse("bucket").unwrap();
    let key = ObjectKey::parse("a/ü b&c").unwrap();
    let redirect = |fields: &[(&str, &str)]| {
        let place = action(fields).redirect(&bucket, &key, "abc")?;
        Some(place.to_str().unwrap().to_owned())
    };
    let added = "bucket=bucket&key=a%2F%C3%BC%20b%26c&etag=%22abc%22";
    for (page, expected) in [
        ("http://localhost:1/x", format!("http://localhost:1/x?{added}")),
        ("https://a.b/x?y=1#z", format!("https://a.b/x?y=1&{added}")),
        ("https://a.b", format!("https://a.b/?{added}")),
    ] {
        assert_eq!(redirect(&[("success_action_redirect", page)]), Some(expected.clone()));
        assert_eq!(redirect(&[("redirect", page)]), Some(expected));
    }
    let both = [("redirect", "http://old/"), ("success_action_redirect", "http://new/")];
    assert!(redirect(&both).unwrap().starts_with("http://new/?"));
    assert_eq!(action(&both).status(), StatusCode::SEE_OTHER);
    for page in ["", "/local", "javascript:alert(1)", "http://a/\r\nx: y", "ftp://a/", "not a url"]
    {
        let fields = [("success_action_redirect", page), ("success_action_status", "201")];
        assert_eq!(action(&fields), SuccessAction::Created, "{page:?}");
    }
}

#[test]
fn s3_a9_the_success_document_names_the_object() {
    let output = PostObjectOutput {
        location: "http://h/b/a%26".to_owned(),
        bucket: "b".to_owned(),
        key: "a&".to_owned(),
        etag: "abc".to_owned(),
    };
    assert_eq!(
        output.to_xml(),
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<PostResponse><Location>http://h/b/a%26\
         </Location><Bucket>b</Bucket><Key>a&amp;</Key><ETag>&quot;abc&quot;</ETag></PostResponse>"
    );
}

/// Uses the parts together as the gateway does.
#[test]
fn s3_a9_the_file_is_decoded_and_verified_as_any_body() {
    let fields = [("key", "k"), ("x-amz-checksum-crc32", "0wiusg==")];
    let form = form_of("f", &fields).unwrap();
    let form = verified(&form);
    let post = PostObject::parse(&form).unwrap();
    let expectation =
        Expectation::parse(Operation::PostObject, form.verified(), post.headers()).unwrap();
    assert_eq!(expectation.algorithm(), Some(crate::request::ChecksumAlgorithm::Crc32));
    let head = BodyHead::parse(Version::HTTP_2, post.headers()).unwrap();
    let mut decoder = BodyDecoder::new(form.verified(), &head, form.lengths().max()).unwrap();
    let mut out = Vec::new();
    decoder.push(bytes::Bytes::from_static(b"test data"), &mut out).unwrap();
    let mut hasher = crate::checksum::BodyHasher::new(&expectation, None);
    hasher.update(&out[0]);
    let trailers = decoder.finish().unwrap();
    assert!(form.lengths().check(trailers.content_bytes()).is_ok());
    assert!(expectation.verify(&hasher.finish(), &trailers).is_ok());
}
