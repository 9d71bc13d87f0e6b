use std::borrow::Cow;

use http::{HeaderMap, HeaderValue, Method, header::ALLOW};

use super::{Demand, Operation, Permission, S3Resource, Scope, Support, TABLE, route};
use crate::TagSet;
use crate::name::CopySource;
use crate::request::{Fields, Query};
use crate::{Code, Fault};

fn domains() -> Vec<String> {
    vec!["s3.example".to_owned(), "eu.s3.example".to_owned()]
}

fn resource(scope: Scope) -> S3Resource {
    let path = match scope {
        Scope::Service => "/",
        Scope::Bucket => "/bucket",
        Scope::Object => "/bucket/key",
    };
    S3Resource::parse(None, path, &[]).expect("a legal path")
}

fn headers(list: &[(&'static str, &'static str)]) -> HeaderMap {
    list.iter()
        .map(|&(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)))
        .collect()
}

fn routed(
    method: &str,
    path: &str,
    query: &str,
    list: &[(&'static str, &'static str)],
) -> Result<Operation, Fault> {
    let resource = S3Resource::parse(None, path, &[])?;
    let headers = headers(list);
    let method = Method::from_bytes(method.as_bytes()).expect("a method");
    route(&method, &resource, &Query::parse(query)?, Fields::new(&headers, &[]))
}

#[track_caller]
fn check(method: &str, path: &str, query: &str, expected: Operation) {
    assert_eq!(routed(method, path, query, &[]), Ok(expected), "{method} {path}?{query}");
}

#[track_caller]
fn refuse(method: &str, path: &str, query: &str, expected: Code) {
    let fault = routed(method, path, query, &[]).expect_err("must be refused");
    assert_eq!(fault.code, expected, "{method} {path}?{query}");
}

#[test]
fn s3_b4_path_style_and_virtual_host_style_are_parsed() {
    let show = |host: Option<&str>, path: &str| match S3Resource::parse(host, path, &domains())
        .expect("a resource")
    {
        S3Resource::Service => String::from("*"),
        S3Resource::Bucket(bucket) => bucket.to_string(),
        S3Resource::Object(bucket, key) => format!("{bucket} {key}"),
    };
    for host in [
        None,
        Some("s3.example"),
        Some("S3.Example:9000"),
        Some("s3.example."),
        Some("other.example"),
        Some("127.0.0.1:9000"),
        Some("[::1]:9000"),
        Some("[::1]"),
        Some("xs3.example"),
        Some(""),
    ] {
        assert_eq!(show(host, "/"), "*", "{host:?}");
        assert_eq!(show(host, "//"), "*");
        assert_eq!(show(host, ""), "*");
        assert_eq!(show(host, "/bucket"), "bucket");
        assert_eq!(show(host, "/bucket/"), "bucket");
        assert_eq!(show(host, "/bucket//"), "bucket /");
        assert_eq!(show(host, "/bucket/a/b%2Fc"), "bucket a/b/c");
    }
    assert_eq!(show(Some("bucket.s3.example"), "/"), "bucket");
    assert_eq!(show(Some("Bucket.s3.example:80"), "/k"), "bucket k");
    assert_eq!(show(Some("my.dotted.name.s3.example"), "/a//b"), "my.dotted.name a//b");
    assert_eq!(show(Some("bucket.eu.s3.example:9000"), "/bucket/k"), "bucket bucket/k");
    assert_eq!(show(Some("eu.s3.example"), "/bucket/k"), "bucket k");
    assert_eq!(show(Some("bucket.s3.example"), "//"), "bucket /");
    let fault = S3Resource::parse(Some("a_b.s3.example"), "/", &domains()).expect_err("no bucket");
    assert_eq!(fault.code, Code::InvalidBucketName);
    assert_eq!(S3Resource::parse(None, "*", &[]).expect_err("no path").code, Code::InvalidURI);
}

#[test]
fn s3_b3_each_row_of_the_table_is_routed_or_refused() {
    for row in TABLE {
        let copies = matches!(row.operation, Operation::CopyObject | Operation::UploadPartCopy);
        let query = match row.selector {
            "list-type" => "list-type=2".to_owned(),
            "uploadId" if row.method == "PUT" => "uploadId=u&partNumber=1".to_owned(),
            selector => selector.to_owned(),
        };
        let path = match row.scope {
            Scope::Service => "/",
            Scope::Bucket => "/bucket",
            Scope::Object => "/bucket/key",
        };
        let list: &[_] = if copies { &[("x-amz-copy-source", "b/k")] } else { &[] };
        let found = routed(row.method, path, &query, list);
        if row.operation.support() == Support::Refused {
            assert_eq!(found.expect_err("refused").code, Code::NotImplemented, "{row:?}");
        } else {
            assert_eq!(found, Ok(row.operation));
        }
    }
}

#[test]
fn s3_b3_an_unknown_request_never_becomes_another_operation() {
    for query in ["newthing", "newthing=", "newthing=1", "ACL", "versionsx", "Tagging"] {
        refuse("PUT", "/bucket", query, Code::NotImplemented);
        refuse("PUT", "/bucket/key", query, Code::NotImplemented);
        refuse("GET", "/bucket", query, Code::NotImplemented);
        refuse("DELETE", "/bucket", query, Code::NotImplemented);
        refuse("DELETE", "/bucket/key", query, Code::NotImplemented);
        refuse("GET", "/", query, Code::NotImplemented);
    }
    refuse("GET", "/bucket/key", "newthing", Code::NotImplemented);
    refuse("GET", "/bucket/key", "torrent", Code::NotImplemented);
    refuse("GET", "/bucket/key", "uploads=1", Code::InvalidRequest);
    refuse("GET", "/bucket/key", "versions", Code::InvalidRequest);
    refuse("DELETE", "/bucket/key", "uploads", Code::MethodNotAllowed);
    refuse("PUT", "/bucket/key", "uploadId=u", Code::MethodNotAllowed);
    refuse("PUT", "/bucket/key", "partNumber=1", Code::InvalidArgument);
    refuse("GET", "/bucket", "list-type=3", Code::InvalidArgument);
    refuse("GET", "/bucket", "acl&policy", Code::InvalidArgument);
    refuse("OPTIONS", "/", "", Code::AccessForbidden);
}

#[test]
fn a_copy_source_is_refused_where_nothing_is_copied() {
    let source = [("x-amz-copy-source", "b/k")];
    for method in ["GET", "HEAD", "DELETE"] {
        for path in ["/bucket", "/bucket/key"] {
            let fault = routed(method, path, "", &source).expect_err("nothing is copied");
            assert_eq!(fault.code, Code::InvalidArgument, "{method} {path}");
            assert!(fault.extra.contains(&("ArgumentValue", "b/k".to_owned())));
        }
    }
    let completed = routed("POST", "/bucket/key", "uploadId=u", &source);
    assert_eq!(completed.expect_err("nothing is copied").code, Code::InvalidArgument);
    assert_eq!(routed("PUT", "/bucket/key", "", &source), Ok(Operation::CopyObject));
}

#[test]
fn anonymous_uploads_and_copies_are_refused_with_the_message_of_s3() {
    let refused = |operation: Operation| operation.anonymous_refusal().is_some();
    for operation in [
        Operation::CreateBucket,
        Operation::CreateMultipartUpload,
        Operation::CopyObject,
        Operation::UploadPartCopy,
        Operation::PutBucketAcl,
        Operation::GetBucketOwnershipControls,
    ] {
        assert!(refused(operation), "{operation:?}");
    }
    for operation in [Operation::GetObject, Operation::PutObject, Operation::DeleteObjects] {
        assert!(!refused(operation), "{operation:?}: its bucket decides");
    }
}

#[test]
fn a_method_that_is_not_allowed_is_refused_with_its_resource_type() {
    for (method, path, query, kind) in [
        ("POST", "/", "", "SERVICE"),
        ("POST", "/bucket/key", "", "SERVICE"),
        ("DELETE", "/bucket", "versions", "BUCKET"),
        ("POST", "/bucket/key", "acl", "OBJECT"),
        ("PUT", "/bucket/key", "uploadId=u", "UPLOAD"),
    ] {
        let fault = routed(method, path, query, &[]).expect_err("not allowed");
        assert_eq!(fault.code, Code::MethodNotAllowed, "{method} {path} {query}");
        let extra = [("Method", method.to_owned()), ("ResourceType", kind.to_owned())];
        assert_eq!(fault.extra, extra);
    }
}

/// A browser sends the preflight to the URL of the actual request.
#[test]
fn s3_b3_options_is_always_a_preflight() {
    for query in ["", "uploads", "uploadId=u&partNumber=1", "newthing", "acl&policy"] {
        check("OPTIONS", "/bucket/key", query, Operation::OptionsObject);
        check("OPTIONS", "/bucket", query, Operation::OptionsObject);
    }
    let presigned = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=0&X-Amz-Acl=private";
    check("OPTIONS", "/bucket/key", presigned, Operation::OptionsObject);
}

#[test]
fn s3_b4_harmless_parameters_are_ignored() {
    check("GET", "/", "x-id=ListBuckets", Operation::ListBuckets);
    check("PUT", "/bucket/key", "x-id=PutObject", Operation::PutObject);
    check("GET", "/bucket", "list-type=2&prefix=&metadata=true", Operation::ListObjectsV2);
    check("GET", "/bucket", "location=", Operation::GetBucketLocation);
    check("GET", "/bucket/", "location", Operation::GetBucketLocation);
    check("GET", "/bucket/key", "v=7", Operation::GetObject);
    check("PUT", "/bucket/key", "uploadId=u&partNumber=1", Operation::UploadPart);
    let signed = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=0&response-content-type=a";
    check("GET", "/bucket/key", signed, Operation::GetObject);
    check("GET", "/bucket/key", "AWSAccessKeyId=a&Signature=b&Expires=1", Operation::GetObject);
}

#[test]
fn s3_b3_an_amz_parameter_without_effect_is_refused() {
    for query in ["x-amz-copy-source=b%2Fk", "X-Amz-Acl=public-read", "x-amz-tagging=a"] {
        refuse("PUT", "/bucket/key", query, Code::NotImplemented);
        refuse("GET", "/bucket/key", query, Code::NotImplemented);
    }
    check("PUT", "/bucket/key", "X-Amz-Content-Sha256=UNSIGNED-PAYLOAD", Operation::PutObject);
}

#[test]
fn s3_b3_a_wrong_method_is_refused_with_the_allowed_ones() {
    let fault = routed("PATCH", "/bucket", "tagging", &[]).expect_err("no such method");
    assert_eq!(fault.code, Code::MethodNotAllowed);
    let allow =
        fault.headers.iter().find(|(name, _)| name == ALLOW).map(|(_, value)| value.as_bytes());
    assert_eq!(allow, Some(b"GET, PUT, DELETE".as_slice()));
    refuse("POST", "/bucket/key", "", Code::MethodNotAllowed);
    refuse("PUT", "/", "", Code::MethodNotAllowed);
}

#[test]
fn content_headers_in_a_sigv2_url_are_not_operation_parameters() {
    let typed = [("content-type", "text/plain"), ("content-md5", "x")];
    let query = "AWSAccessKeyId=a&Signature=b&Expires=1&content-type=text/plain&content-md5=x";
    assert_eq!(routed("PUT", "/bucket/key", query, &typed), Ok(Operation::PutObject));
    // In other URLs, or without a header to replace, they would have no effect.
    for (query, list) in [("content-type=text/plain", &typed[..]), (query, &[])] {
        let fault = routed("PUT", "/bucket/key", query, list).expect_err("must be refused");
        assert_eq!(fault.code, Code::NotImplemented);
    }
}

#[test]
fn s3_b3_a_hoisted_copy_source_is_a_copy() {
    let headers = HeaderMap::new();
    let hoisted = [("x-amz-copy-source".to_owned(), "b/k".to_owned())];
    let operation = route(
        &Method::PUT,
        &resource(Scope::Object),
        &Query::parse("X-Amz-Copy-Source=b%2Fk").unwrap(),
        Fields::new(&headers, &hoisted),
    );
    assert_eq!(operation, Ok(Operation::CopyObject));
}

fn demand(
    operation: Operation,
    query: &str,
    list: &[(&'static str, &'static str)],
) -> Vec<Permission> {
    let headers = headers(list);
    let resource = resource(operation.scope());
    let query = Query::parse(query).unwrap();
    match operation.demand(&resource, &query, Fields::new(&headers, &[])).expect("a demand") {
        Demand::All(all) | Demand::WithBody(all) | Demand::WithUpload(all) => all,
        Demand::FromBody | Demand::Nothing => Vec::new(),
    }
}

fn pairs(permissions: &[Permission]) -> Vec<(&str, Cow<'_, str>)> {
    permissions.iter().map(|one| (one.action, one.resource_name())).collect()
}

/// The expected result of `pairs`.
fn expected<const N: usize>(
    pairs: [(&'static str, &'static str); N],
) -> Vec<(&'static str, Cow<'static, str>)> {
    pairs.map(|(action, resource)| (action, resource.into())).to_vec()
}

#[test]
fn s3_s9_each_operation_needs_a_permission() {
    for &operation in Operation::ALL {
        let sources = [("x-amz-copy-source", "src/from"), ("x-amz-rename-source", "/from")];
        let all = demand(operation, "", &sources);
        let none = operation == Operation::DeleteObjects || operation.needs_no_permission();
        assert_eq!(all.is_empty(), none, "{operation:?}");
        for permission in all {
            assert!(permission.action.contains(':'));
            assert!(!permission.resource_name().is_empty());
        }
    }
}

#[test]
fn s3_s9_only_rows_with_nothing_need_no_permission() {
    let open = |operation: &&Operation| operation.needs_no_permission();
    let open: Vec<Operation> = Operation::ALL.iter().filter(open).copied().collect();
    assert_eq!(open, [Operation::OptionsObject]);
    // No parameter or header adds a permission or a fault.
    let list = [("x-amz-copy-source", "%"), ("x-amz-tagging", "a=b"), ("if-match", "\"1\"")];
    for path in ["/bucket", "/bucket/key"] {
        let resource = S3Resource::parse(None, path, &[]).unwrap();
        let query = Query::parse("versionId=1&prefix=a&prefix=b").unwrap();
        let headers = headers(&list);
        let demand = open[0].demand(&resource, &query, Fields::new(&headers, &[]));
        assert_eq!(demand, Ok(Demand::Nothing));
    }
}

#[test]
fn s3_s9_secondary_resources_need_permissions() {
    let copy = demand(
        Operation::CopyObject,
        "",
        &[("x-amz-copy-source", "/src/fr%20om?versionId=null"), ("x-amz-tagging", "a=b")],
    );
    let all = [
        ("s3:PutObject", "bucket/key"),
        ("s3:GetObjectVersion", "src/fr om"),
        ("s3:PutObjectTagging", "bucket/key"),
    ];
    assert_eq!(pairs(&copy), expected(all));
    let part = demand(Operation::UploadPartCopy, "", &[("x-amz-copy-source", "src/from")]);
    assert_eq!(
        pairs(&part),
        expected([("s3:PutObject", "bucket/key"), ("s3:GetObject", "src/from")])
    );
    let versioned = demand(Operation::HeadObject, "versionId=1", &[]);
    assert_eq!(pairs(&versioned), expected([("s3:GetObjectVersion", "bucket/key")]));
    let tagged = demand(Operation::PutObject, "", &[("x-amz-tagging", "a=b")]);
    assert_eq!(tagged.len(), 2);
    let shared = demand(Operation::PutObject, "", &[("x-amz-acl", "public-read")]);
    assert_eq!(shared[1].action, "s3:PutObjectAcl");
    for harmless in ["private", "bucket-owner-full-control"] {
        assert_eq!(demand(Operation::PutObject, "", &[("x-amz-acl", harmless)]).len(), 1);
    }
    let list = [("x-amz-acl", "public-read"), ("x-amz-object-ownership", "ObjectWriter")];
    let made = demand(Operation::CreateBucket, "", &list);
    let all = ["s3:CreateBucket", "s3:PutBucketAcl", "s3:PutBucketOwnershipControls"];
    assert_eq!(made.iter().map(|one| one.action).collect::<Vec<_>>(), all);
    assert_eq!(
        pairs(&demand(Operation::ListBuckets, "", &[])),
        expected([("s3:ListAllMyBuckets", "*")])
    );
}

/// S3's user guide: `If-Match` on a write needs `s3:GetObject`, unless it is `*`.
#[test]
fn s3_s9_a_precondition_on_an_entity_tag_needs_read_permission() {
    let read = [("s3:GetObject", "bucket/key")];
    for (operation, write) in [
        (Operation::PutObject, "s3:PutObject"),
        (Operation::CompleteMultipartUpload, "s3:PutObject"),
        (Operation::DeleteObject, "s3:DeleteObject"),
    ] {
        let demanded = |name, value| {
            let all = demand(operation, "", &[(name, value)]);
            assert_eq!(all[0].action, write);
            all[1..].iter().map(|one| one.action).collect::<Vec<_>>()
        };
        for tag in ["\"1\"", "1", "\"*\"", "\"1\", \"2\"", "W/\"1\"", ""] {
            assert_eq!(demanded("if-match", tag), [read[0].0], "{operation:?} {tag}");
        }
        for (name, value) in [("if-match", "*"), ("if-match", " * "), ("if-none-match", "*")] {
            assert_eq!(demanded(name, value), Vec::<&str>::new(), "{operation:?} {name}: {value}");
        }
    }
    let list = [("x-amz-copy-source", "src/from"), ("if-match", "\"1\"")];
    let copy = demand(Operation::CopyObject, "", &list);
    assert_eq!(
        pairs(&copy),
        expected([("s3:PutObject", "bucket/key"), ("s3:GetObject", "src/from"), read[0]])
    );
    let get = demand(Operation::GetObject, "", &[("if-match", "\"1\"")]);
    assert_eq!(pairs(&get), expected(read));
}

#[test]
fn s3_s9_copying_tags_needs_two_permissions() {
    let S3Resource::Object(bucket, key) = resource(Scope::Object) else { panic!("an object") };
    for (source, reads) in [
        ("src/from", "s3:GetObjectTagging"),
        ("src/from?versionId=null", "s3:GetObjectVersionTagging"),
    ] {
        let source = CopySource::parse(source).expect("a source");
        let tags = [("class".to_owned(), "secret".to_owned())];
        let carried = Permission::copy_tags(&source, &tags, &bucket, &key);
        assert_eq!(carried[1].facts.tags.as_ref().map(TagSet::as_slice), Some(&tags[..]));
        let all = [(reads, "src/from"), ("s3:PutObjectTagging", "bucket/key")];
        assert_eq!(pairs(&carried), expected(all));
    }
}
