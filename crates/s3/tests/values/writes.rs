//! Metadata, tags, write conditions, and the requests that carry them.

use s3::conditions::WritePrecondition;
use s3::request::{CopyLabels, CopyObject, DeleteObject, DeleteObjects, Directive, PutObject};
use s3::tagging::{TagSet, Tagged};
use s3::{BucketName, Code, Fault, ObjectKey};
use time::OffsetDateTime;

use crate::{TestRequest, refused};

fn put(headers: &[(&str, &str)]) -> Result<PutObject, Fault> {
    PutObject::parse(&TestRequest::new("", headers).arguments())
}

#[test]
fn s3_u20_content_headers_and_metadata_are_stored() {
    let request = put(&[
        ("content-type", "text/csv"),
        ("cache-control", "no-cache"),
        ("content-disposition", "inline"),
        ("content-language", "en"),
        ("expires", "whenever"),
        ("x-amz-meta-b", "2"),
        ("X-Amz-Meta-A", "1"),
        ("x-amz-meta-a", "é"),
        ("x-minio-internal-thing", "evil"),
        ("x-amz-internal", "evil"),
    ])
    .expect("a request");
    let expected = [
        ("content-type", "text/csv"),
        ("cache-control", "no-cache"),
        ("content-disposition", "inline"),
        ("content-language", "en"),
        ("expires", "whenever"),
        ("x-amz-meta-a", "1,é"),
        ("x-amz-meta-b", "2"),
    ];
    let headers = request.metadata.headers();
    let headers: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    assert_eq!(headers, expected);
}

#[test]
fn s3_u20_metadata_is_limited() {
    let fits = "x".repeat(2047);
    assert!(put(&[("x-amz-meta-a", &fits)]).is_ok());
    refused(put(&[("x-amz-meta-a", &fits), ("x-amz-meta-b", "")]), Code::MetadataTooLarge);
    refused(put(&[("x-amz-meta-", "x")]), Code::InvalidArgument);
}

#[test]
fn empty_headers_count_as_absent() {
    let names = [
        "x-amz-acl",
        "x-amz-server-side-encryption",
        "x-amz-storage-class",
        "x-amz-tagging",
        "x-amz-object-lock-mode",
        "x-amz-website-redirect-location",
    ];
    let request = put(&names.map(|name| (name, ""))).expect("a request");
    assert_eq!(request, put(&[]).expect("a request"));
    let request = put(&[("x-amz-meta-a", "")]).expect("a request");
    assert_eq!(request.metadata.headers().len(), 1, "metadata may be empty");
    refused(put(&[("x-amz-write-offset-bytes", "")]), Code::InvalidArgument);
}

#[test]
fn s3_u11_aws_chunked_is_not_stored_as_content_encoding() {
    let encoding =
        |value: &str| put(&[("content-encoding", value)]).unwrap().metadata.content_encoding;
    assert_eq!(encoding("aws-chunked"), None);
    assert_eq!(encoding("aws-chunked,gzip").as_deref(), Some("gzip"));
    assert_eq!(encoding("br, AWS-Chunked, gzip").as_deref(), Some("br,gzip"));
    assert_eq!(encoding("br, gzip").as_deref(), Some("br, gzip"));
}

#[test]
fn s3_s11_unsupported_features_are_refused() {
    for (name, value) in [
        ("x-amz-server-side-encryption", "aws:kms:dsse"),
        ("x-amz-server-side-encryption-new-thing", "k"),
        ("if-unmodified-since", "x"),
    ] {
        refused(put(&[(name, value)]), Code::NotImplemented);
    }
    for offset in ["", "-1", "+1", "1e3", "99999999999999999999"] {
        refused(put(&[("x-amz-write-offset-bytes", offset)]), Code::InvalidArgument);
    }
    assert_eq!(put(&[("x-amz-write-offset-bytes", "7")]).unwrap().append_at, Some(7));
    refused(put(&[("x-amz-acl", "mine")]), Code::InvalidArgument);
    for (name, value) in [
        ("x-amz-acl", "private"),
        ("x-amz-acl", "bucket-owner-full-control"),
        ("x-amz-storage-class", "STANDARD"),
        ("x-amz-request-payer", "requester"),
    ] {
        assert!(put(&[(name, value)]).is_ok(), "{name}");
    }
}

#[test]
fn s3_c1_c2_write_preconditions_are_parsed_and_checked() {
    let condition = |headers: &[(&str, &str)]| put(headers).expect("a request").condition;
    let absent = condition(&[("if-none-match", "*")]);
    assert_eq!(absent, WritePrecondition::IfNoneMatchStar);
    assert_eq!(absent.check(None), Ok(()));
    refused(absent.check(Some("tag")), Code::PreconditionFailed);
    let matching = condition(&[("if-match", "\"tag\"")]);
    assert_eq!(matching.check(Some("tag")), Ok(()));
    refused(matching.check(Some("other")), Code::PreconditionFailed);
    refused(matching.check(None), Code::NoSuchKey);
    let other = condition(&[("if-none-match", "\"a\", W/\"tag\"")]);
    assert_eq!(other.check(None), Ok(()));
    assert_eq!(other.check(Some("b")), Ok(()));
    refused(other.check(Some("a")), Code::PreconditionFailed);
    refused(other.check(Some("tag")), Code::PreconditionFailed);
    assert_eq!(condition(&[]).check(None), Ok(()));
    refused(put(&[("if-match", "\"a\""), ("if-none-match", "*")]), Code::NotImplemented);
    // A star in quotes or among tags matches no object, so the write would never be refused.
    for text in ["\"*\"", "W/\"*\"", "*, \"a\"", "\"a\", *", "\"a\",\"*\"", "**", "\"\"", ","] {
        refused(put(&[("if-none-match", text)]), Code::NotImplemented);
    }
    assert_eq!(condition(&[("if-none-match", "")]), WritePrecondition::None);
    // An empty `If-Match` does not allow the write.
    refused(condition(&[("if-match", "")]).check(Some("tag")), Code::PreconditionFailed);
    refused(put(&[("if-match", ""), ("if-none-match", "*")]), Code::NotImplemented);
    refused(put(&[("if-unmodified-since", "")]), Code::NotImplemented);
}

#[test]
fn s3_b9_tags_have_limits() {
    let many =
        |count: usize| (0..count).map(|n| (format!("k{n}"), String::new())).collect::<Vec<_>>();
    assert!(TagSet::new(many(10), Tagged::Object).is_ok());
    refused(TagSet::new(many(11), Tagged::Object), Code::BadRequest);
    assert!(TagSet::new(many(50), Tagged::Bucket).is_ok());
    refused(TagSet::new(many(51), Tagged::Bucket), Code::BadRequest);
    let one = |key: &str, value: &str| {
        TagSet::new(vec![(key.to_owned(), value.to_owned())], Tagged::Object)
    };
    assert!(one(&"é".repeat(128), &"é".repeat(256)).is_ok());
    assert!(one("a b+-=._:/@1", "").is_ok());
    refused(one(&"x".repeat(129), ""), Code::InvalidTag);
    refused(one("x", &"x".repeat(257)), Code::InvalidTag);
    refused(one("", "x"), Code::InvalidTag);
    refused(one("a<b", ""), Code::InvalidTag);
    refused(one("a", "b\n"), Code::InvalidTag);
    refused(one("aws:x", ""), Code::InvalidTag);
    refused(TagSet::parse_header("a=1&a=2"), Code::InvalidArgument);
    refused(TagSet::parse_header("=1"), Code::InvalidArgument);
    refused(TagSet::parse_header("a=%ff"), Code::InvalidArgument);
}

#[test]
fn s3_b9_tags_from_header_and_document_agree() {
    let header = TagSet::parse_header("k%201=v+1&k2").expect("tags");
    assert_eq!(header.as_slice()[0], ("k 1".to_owned(), "v 1".to_owned()));
    assert_eq!(TagSet::parse_xml(header.to_xml().as_bytes(), Tagged::Object), Ok(header));
    let empty = TagSet::parse_xml(b"<Tagging><TagSet/></Tagging>", Tagged::Bucket);
    assert!(empty.expect("no tags").is_empty());
    for bad in ["<Tagging/>", "<Tagging><TagSet><Tag><Key>a</Key></Tag></TagSet></Tagging>", "<T/>"]
    {
        refused(TagSet::parse_xml(bad.as_bytes(), Tagged::Object), Code::MalformedXML);
    }
}

fn copy(headers: &[(&str, &str)]) -> Result<CopyObject, Fault> {
    let mut all = vec![("x-amz-copy-source", "bucket/key")];
    all.extend_from_slice(headers);
    CopyObject::parse(&TestRequest::new("", &all).arguments())
}

#[test]
fn s3_n13_a_copy_to_itself_must_change_something() {
    let bucket = BucketName::parse("bucket").unwrap();
    let key = ObjectKey::parse("key").unwrap();
    let check =
        |headers: &[(&str, &str)]| copy(headers).unwrap().check_not_to_itself(&bucket, &key, false);
    refused(check(&[]), Code::InvalidRequest);
    refused(check(&[("x-amz-metadata-directive", "COPY")]), Code::InvalidRequest);
    assert_eq!(check(&[("x-amz-metadata-directive", "REPLACE")]), Ok(()));
    let other = ObjectKey::parse("other").unwrap();
    assert_eq!(copy(&[]).unwrap().check_not_to_itself(&bucket, &other, false), Ok(()));
}

#[test]
fn s3_n13_replace_without_metadata_clears_it() {
    // Without the directive, the metadata in the request is ignored.
    assert_eq!(copy(&[("x-amz-meta-a", "1")]).unwrap().metadata, Directive::Copy);
    let replaced = copy(&[("x-amz-metadata-directive", "REPLACE")]).unwrap();
    assert_eq!(replaced.metadata, Directive::Replace(s3::Metadata::default()));
    assert_eq!(replaced.tags, Directive::Copy);
    let tagged = copy(&[("x-amz-tagging-directive", "REPLACE"), ("x-amz-tagging", "a=b")]).unwrap();
    assert!(matches!(tagged.tags, Directive::Replace(tags) if tags.len() == 1));
    refused(copy(&[("x-amz-metadata-directive", "MERGE")]), Code::InvalidArgument);
    refused(copy(&[("x-amz-copy-source", "again/key")]), Code::InvalidArgument);
}

#[test]
fn labels_of_a_copy_come_from_its_request() {
    let copy = |headers: &[(&str, &str)]| {
        let headers = [&[("x-amz-copy-source", "bkt/key")], headers].concat();
        let request = TestRequest::new("", &headers);
        CopyObject::parse(&request.arguments())
    };
    let (bucket, key) = (BucketName::parse("bkt").unwrap(), ObjectKey::parse("key").unwrap());
    let to_itself =
        |headers: &[(&str, &str)]| copy(headers).unwrap().check_not_to_itself(&bucket, &key, false);
    refused(to_itself(&[]), Code::InvalidRequest);
    for (name, value) in [
        ("x-amz-storage-class", "STANDARD"),
        ("x-amz-storage-class", "GLACIER"),
        ("x-amz-website-redirect-location", "/x"),
    ] {
        assert_eq!(to_itself(&[(name, value)]), Ok(()), "{value}");
    }
    let labels = copy(&[("x-amz-storage-class", "GLACIER")]).unwrap().labels;
    assert_eq!(labels.storage_class.as_deref(), Some("GLACIER"));
    assert_eq!(copy(&[("x-amz-storage-class", "STANDARD")]).unwrap().labels, CopyLabels::default());
    // Ignored metadata is still validated.
    refused(copy(&[("x-amz-storage-class", "COLD")]), Code::InvalidStorageClass);
    refused(copy(&[("x-amz-meta-a", &"x".repeat(2_048))]), Code::MetadataTooLarge);
}

#[test]
fn preconditions_of_deletions_are_parsed_or_refused() {
    let parse =
        |headers: &[(&str, &str)]| DeleteObject::parse(&TestRequest::new("", headers).arguments());
    let (size, time) = ("x-amz-if-match-size", "x-amz-if-match-last-modified-time");
    let stat = parse(&[(size, "5"), (time, "Fri, 02 Jan 2026 03:04:05 GMT")]).unwrap().stat;
    assert_eq!(stat.size, Some(5));
    let modified = stat.modified.map(OffsetDateTime::unix_timestamp);
    assert_eq!(modified, Some(1_767_323_045));
    assert_eq!(stat.name(), Some("If-Match-Last-Mod-Time"));
    assert!(!parse(&[]).unwrap().stat.is_some());
    for (name, value) in [(size, "+5"), (size, ""), (size, "x"), (time, "yesterday")] {
        refused(parse(&[(name, value)]), Code::InvalidArgument);
    }
    let body = |inside: &str| {
        let body = format!("<Delete><Object><Key>k</Key>{inside}</Object></Delete>");
        DeleteObjects::parse(body.as_bytes()).map(|request| request.deletions[0].stat)
    };
    let time = "<LastModifiedTime>2026-01-02T03:04:05.678Z</LastModifiedTime>";
    let stat = body(&format!("<Size>5</Size>{time}")).unwrap();
    assert_eq!(stat.size, Some(5));
    assert_eq!(stat.modified.map(OffsetDateTime::unix_timestamp), modified);
    refused(body("<Size>x</Size>"), Code::InvalidArgument);
}
