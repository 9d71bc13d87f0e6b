use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use proptest::prelude::*;

use super::{BucketName, CopySource, KeyPrefix, ObjectKey, VersionId};
use crate::request::DeleteObjects;
use crate::{Code, S3Resource};

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, crate::Fault>, code: Code) {
    assert_eq!(result.expect_err("must be refused").code, code);
}

#[test]
fn s3_n9_keys_are_never_normalised() {
    let long = "x".repeat(300);
    for raw in ["a//b", "/a", ".", "..", "a/../b", "a/./b", "a/", "\\", "a b+c", long.as_str()] {
        assert_eq!(ObjectKey::from_path(raw).expect("a legal key").as_str(), raw);
    }
}

#[test]
fn s3_n10_keys_decode_exactly_once() {
    let key = |raw| ObjectKey::from_path(raw).expect("a legal key").as_str().to_owned();
    assert_eq!(key("%252e"), "%2e");
    assert_eq!(key("%2e%2E%2f%2F"), "..//");
    assert_eq!(key("a%2Bb+c%20d"), "a+b+c d");
    assert_eq!(key("%C3%A9"), "é");
}

#[test]
fn s3_n10_illegal_keys_are_refused() {
    assert!(ObjectKey::parse(&"x".repeat(1024)).is_ok());
    assert!(ObjectKey::from_path(&"%C3%A9".repeat(512)).is_ok());
    refused(ObjectKey::parse(&"x".repeat(1025)), Code::KeyTooLongError);
    refused(ObjectKey::from_path(&"%C3%A9".repeat(513)), Code::KeyTooLongError);
    refused(ObjectKey::parse(""), Code::InvalidArgument);
    refused(ObjectKey::from_path("a%00b"), Code::InvalidArgument);
    refused(ObjectKey::from_path("%ff"), Code::InvalidArgument);
    // Overlong forms of a slash and of NUL are not UTF-8.
    refused(ObjectKey::from_path("%c0%af"), Code::InvalidArgument);
    refused(ObjectKey::from_path("%c0%80"), Code::InvalidArgument);
    refused(ObjectKey::from_path("%"), Code::InvalidURI);
    refused(ObjectKey::from_path("a%2"), Code::InvalidURI);
    refused(ObjectKey::from_path("%zz"), Code::InvalidURI);
    refused(KeyPrefix::parse("\0"), Code::InvalidArgument);
    assert!(KeyPrefix::parse("").expect("the empty prefix").is_empty());
}

#[test]
fn a_key_with_too_many_slashes_is_refused() {
    let deep = |slashes: usize| format!("{}x", "/".repeat(slashes));
    assert!(ObjectKey::parse(&deep(512)).is_ok());
    refused(ObjectKey::parse(&deep(513)), Code::KeyTooLongError);
    refused(ObjectKey::from_path(&"%2F".repeat(1024)), Code::KeyTooLongError);
    assert!(KeyPrefix::parse(&"/".repeat(1024)).is_ok(), "a prefix is not a key");
}

#[test]
fn s3_s8_a_key_is_equal_from_url_header_xml_and_form() {
    let nul = "a\0b";
    let long = "é".repeat(513);
    for text in ["plain", "a//b", "..", "/lead", "a?b=c", "a%2eb", " é+&<>\"' ", "\\", nul, &long]
    {
        let escaped = utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let direct = ObjectKey::parse(text);
        let path = ObjectKey::from_path(&escaped);
        let resource = S3Resource::parse(None, &format!("/bucket/{escaped}"), &[])
            .map(|resource| resource.key().expect("an object").clone());
        let source = CopySource::parse(&format!("bucket/{escaped}")).map(|source| source.key);
        assert_eq!(path, direct);
        assert_eq!(resource, direct);
        match (&source, &direct) {
            // The copy source has its own message for a bad key, with the same code or this one.
            (Err(fault), Err(_)) => assert_eq!(fault.code, direct.as_ref().unwrap_err().code),
            _ => assert_eq!(source, direct),
        }
        if text != nul {
            let mut out = crate::xml::Writer::document();
            out.root("Delete", |out| out.element("Object", |out| out.text("Key", text)));
            let xml = DeleteObjects::parse(out.finish().as_bytes());
            assert_eq!(xml.map(|request| request.deletions[0].key.clone()), direct);
        }
    }
}

#[test]
fn s3_m6_copy_source_splits_then_decodes() {
    let parse = |text| CopySource::parse(text).expect("a legal source");
    let plain = parse("bucket/a%20b%2Bc");
    assert_eq!((plain.bucket.as_str(), plain.key.as_str()), ("bucket", "a b+c"));
    assert_eq!(plain.version, None);
    assert_eq!(parse("/bucket/a%20b%2Bc"), plain);
    assert_eq!(parse("%2Fbucket%2Fa%20b%2Bc"), plain);
    assert_eq!(parse("bucket%2Fa+b%2Bc"), plain, "encoded as a query is");
    let version = parse("bucket/k?versionId=null");
    assert_eq!(version.version, Some(VersionId::Null));
    // An escaped question mark belongs to the key.
    let escaped = parse("bucket/k%3FversionId=null");
    assert_eq!((escaped.key.as_str(), escaped.version), ("k?versionId=null", None));
    assert_eq!(parse("bucket//a").key.as_str(), "/a");
}

#[test]
fn s3_s16_empty_copy_source_is_refused() {
    for text in
        ["", "/", "//", "bucket", "bucket/", "/bucket/", "?versionId=", "?versionId=1", "/k"]
    {
        refused(CopySource::parse(text), Code::InvalidArgument);
    }
    refused(CopySource::parse("bucket/k?versionId="), Code::InvalidArgument);
    refused(CopySource::parse("Bucket/k"), Code::InvalidArgument);
    refused(CopySource::parse("bucket/%zz"), Code::InvalidArgument);
}

#[test]
fn s3_b1_bucket_names_follow_the_rules() {
    let longest = "x".repeat(63);
    for name in ["abc", "a-b", "a.b", "a.b.c", "1ab", "192.168.5", "probe-bsign-x1", &longest] {
        assert_eq!(BucketName::parse(name).expect("a legal name").as_str(), name);
    }
    let too_long = "x".repeat(64);
    for name in [
        "",
        "ab",
        "-",
        "A-B",
        "a_b",
        "-ab",
        "ab-",
        ".ab",
        "ab.",
        "a..b",
        "a.-b",
        "a-.b",
        "192.168.5.4",
        "xn--abc",
        "sthree-abc",
        "abc-s3alias",
        "abc--ol-s3",
        "a b",
        "aé",
        "a/b",
        "a\0b",
        &too_long,
    ] {
        refused(BucketName::parse(name), Code::InvalidBucketName);
    }
}

#[test]
fn s3_b12_minio_is_reserved() {
    refused(BucketName::parse("minio"), Code::InvalidBucketName);
    refused(S3Resource::parse(None, "/minio/health/live", &[]), Code::InvalidBucketName);
    refused(S3Resource::parse(None, "/-/healthy", &[]), Code::InvalidBucketName);
    assert!(BucketName::parse("minio2").is_ok());
}

proptest! {
    #[test]
    fn s3_n9_any_legal_key_round_trips_through_the_path(key in "[^\0]{1,200}") {
        let escaped = utf8_percent_encode(&key, NON_ALPHANUMERIC).to_string();
        let parsed = ObjectKey::from_path(&escaped).expect("a legal key");
        prop_assert_eq!(parsed.as_str(), key.as_str());
        let resource = S3Resource::parse(Some("h"), &format!("/bucket/{escaped}"), &[]).expect("a resource");
        prop_assert_eq!(resource.key(), Some(&parsed));
    }

    #[test]
    fn s3_s16_names_never_panic(text in any::<String>(), bytes in any::<Vec<u8>>()) {
        let raw = String::from_utf8_lossy(&bytes);
        for text in [text.as_str(), &raw] {
            let _ = BucketName::parse(text);
            let _ = BucketName::from_path(text);
            let _ = ObjectKey::from_path(text);
            let _ = CopySource::parse(text);
            let _ = VersionId::parse(text);
            let _ = S3Resource::parse(Some(text), text, &[text.to_owned(), "h.example".to_owned()]);
        }
    }
}
