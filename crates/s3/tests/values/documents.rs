//! Compares each response document with its golden file. Set `GOLDEN_BLESS=1` to update them.

use std::path::Path;
use std::sync::Arc;

use s3::acl::{AclGrant, AclGrantee, AclPermission};
use s3::conditions::failed;
use s3::request::{ChecksumAlgorithm, ChecksumType};
use s3::response::{
    AccessControlPolicy, BucketEntry, Checksum, CompleteMultipartUploadOutput, CopyObjectOutput,
    CopyPartOutput, CreateMultipartUploadOutput, DeleteError, DeleteObjectsOutput, DeletedObject,
    GetObjectAttributesOutput, ListBucketsOutput, ListMultipartUploadsOutput,
    ListObjectVersionsOutput, ListObjectsOutput, ListObjectsV2Output, ListPartsOutput,
    LocationConstraint, ObjectEntry, ObjectParts, Owner, PartEntry, UploadEntry, VersionEntry,
};
use s3::{Code, Fault};
use time::OffsetDateTime;
use time::macros::datetime;

const TIME: OffsetDateTime = datetime!(2026-01-02 03:04:05.678 UTC);
const ETAG: &str = "d41d8cd98f00b204e9800998ecf8427e";

/// A key with all characters that XML or a URL must escape.
const ODD: &str = "a/<b>&\"c\" +%2F\u{1}é\r";

/// Writes each element on a line, so that a change is visible in review.
fn lines(document: &str) -> String {
    let mut out = String::new();
    let mut opened = String::new();
    for line in document.replace("><", ">\n<").lines() {
        let closes = line.strip_prefix("</").and_then(|rest| rest.strip_suffix('>'));
        if closes.is_none_or(|name| name != opened) && !out.is_empty() {
            out.push('\n');
        }
        out.push_str(line);
        opened = match line.strip_prefix('<') {
            Some(tag) if closes.is_none() && !line.contains("</") => {
                tag.split([' ', '>']).next().unwrap_or_default().to_owned()
            }
            _ => String::new(),
        };
    }
    out + "\n"
}

#[track_caller]
fn golden(name: &str, document: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    let shown = lines(document);
    if std::env::var_os("GOLDEN_BLESS").is_some() {
        std::fs::write(&path, &shown).expect("the golden folder is writable");
    }
    let expected = std::fs::read_to_string(&path).expect("a golden file");
    assert_eq!(shown, expected, "{name} differs from its golden file");
}

fn owner() -> Owner {
    Owner { id: "owner-id".to_owned(), display_name: "owner".to_owned() }
}

fn checksum() -> Checksum {
    Checksum {
        algorithm: ChecksumAlgorithm::Crc64Nvme,
        value: "AAAAAAAAAAA=".to_owned(),
        kind: Some(ChecksumType::FullObject),
    }
}

fn object(key: &str) -> ObjectEntry {
    ObjectEntry {
        key: key.to_owned(),
        last_modified: TIME,
        etag: ETAG.to_owned(),
        size: 12,
        checksum: Some((ChecksumAlgorithm::Crc64Nvme, ChecksumType::FullObject)),
        storage_class: None,
        owner: None,
    }
}

fn part(number: u32) -> PartEntry {
    PartEntry {
        number,
        last_modified: TIME,
        etag: ETAG.to_owned(),
        size: 5 << 20,
        checksum: Some(checksum()),
    }
}

#[test]
fn error_documents_match_their_golden_files() {
    let fault = failed("If-None-Match").with("Odd", ODD);
    golden("error.xml", &fault.to_xml("/bucket/a<b", "request-1", "host-1"));
}

#[test]
fn bucket_documents_match_their_golden_files() {
    let buckets = ListBucketsOutput {
        owner: owner(),
        buckets: vec![
            BucketEntry { name: "one".to_owned(), created: TIME, region: None },
            BucketEntry {
                name: "two".to_owned(),
                created: TIME,
                region: Some("us-east-1".to_owned()),
            },
        ],
        prefix: Some("o".to_owned()),
        next_token: Some("token".to_owned()),
    };
    golden("list-buckets.xml", &buckets.to_xml());
    let location = |region: &str| LocationConstraint { region: region.to_owned() }.to_xml();
    golden("location-us-east-1.xml", &location("us-east-1"));
    golden("location-elsewhere.xml", &location("eu-north-1"));
    let id = AclGrantee::Account(owner().id);
    let full = AclGrant { grantee: id, permission: AclPermission::FullControl };
    let acl = AccessControlPolicy { owner: owner(), grants: vec![(full, owner().display_name)] };
    golden("acl.xml", &acl.to_xml());
}

#[test]
fn s3_l5_listings_match_their_golden_files() {
    let first = ListObjectsOutput {
        name: "bucket".to_owned(),
        prefix: Some("a".to_owned()),
        marker: Some(String::new()),
        delimiter: Some("/".to_owned()),
        max_keys: 2,
        url_encoded: false,
        truncated: true,
        next_marker: Some("a/".to_owned()),
        contents: vec![object(ODD)],
        common_prefixes: vec!["a/".to_owned()],
    };
    golden("list-objects.xml", &first.to_xml());
    let second = ListObjectsV2Output {
        name: "bucket".to_owned(),
        prefix: Some("a ".to_owned()),
        delimiter: Some("/".to_owned()),
        max_keys: 1000,
        url_encoded: true,
        token: Some("this".to_owned()),
        next_token: Some("next".to_owned()),
        start_after: Some("a b".to_owned()),
        contents: vec![ObjectEntry { owner: Some(Arc::new(owner())), ..object(ODD) }],
        common_prefixes: vec!["a b/".to_owned()],
    };
    golden("list-objects-v2.xml", &second.to_xml());
    let entry = ObjectEntry { storage_class: Some("GLACIER"), ..object("k") };
    let labelled = ListObjectsV2Output { contents: vec![entry], prefix: None, ..second };
    let labelled = labelled.to_xml();
    assert!(labelled.contains("<StorageClass>GLACIER</StorageClass>"), "{labelled}");
    assert!(!labelled.contains("<Name>bucket</Name><Prefix"), "nothing was asked for: {labelled}");
    let version = |content| VersionEntry {
        key: "k".to_owned(),
        version: "null".to_owned(),
        is_latest: true,
        last_modified: TIME,
        content,
        checksum: None,
        storage_class: None,
        owner: owner(),
    };
    let versions = ListObjectVersionsOutput {
        name: "bucket".to_owned(),
        prefix: String::new(),
        key_marker: String::new(),
        version_marker: String::new(),
        delimiter: None,
        max_keys: 1000,
        url_encoded: false,
        truncated: true,
        next_key_marker: Some("k".to_owned()),
        next_version_marker: Some("null".to_owned()),
        versions: vec![version(Some((ETAG.to_owned(), 3))), version(None)],
        common_prefixes: Vec::new(),
    };
    golden("list-object-versions.xml", &versions.to_xml());
}

#[test]
fn multipart_documents_match_their_golden_files() {
    let (bucket, key, upload_id) = ("bucket".to_owned(), ODD.to_owned(), "upload".to_owned());
    let create = CreateMultipartUploadOutput {
        bucket: bucket.clone(),
        key: key.clone(),
        upload_id: upload_id.clone(),
    };
    golden("create-multipart-upload.xml", &create.to_xml());
    let complete = CompleteMultipartUploadOutput {
        location: "http://host/bucket/k".to_owned(),
        bucket: bucket.clone(),
        key: "k".to_owned(),
        etag: format!("{ETAG}-2"),
        checksum: Some(checksum()),
    };
    golden("complete-multipart-upload.xml", &complete.to_xml());
    let parts = ListPartsOutput {
        bucket: bucket.clone(),
        key,
        upload_id: upload_id.clone(),
        owner: owner(),
        part_marker: 0,
        next_part_marker: Some(3),
        max_parts: 2,
        parts: vec![part(1), part(3)],
        checksum: Some((ChecksumAlgorithm::Crc32, ChecksumType::Composite)),
        url_encoded: true,
    };
    golden("list-parts.xml", &parts.to_xml());
    let uploads = ListMultipartUploadsOutput {
        bucket,
        prefix: String::new(),
        delimiter: Some("/".to_owned()),
        key_marker: String::new(),
        upload_marker: String::new(),
        next: Some(("k".to_owned(), upload_id.clone())),
        max_uploads: 1,
        url_encoded: false,
        uploads: vec![UploadEntry {
            key: "k".to_owned(),
            upload_id,
            initiated: TIME,
            owner: owner(),
            checksum: None,
        }],
        common_prefixes: vec!["a/".to_owned()],
    };
    golden("list-multipart-uploads.xml", &uploads.to_xml());
}

#[test]
fn s3_e2_delete_objects_output_names_each_key() {
    let output = DeleteObjectsOutput {
        deleted: vec![DeletedObject { key: ODD.to_owned(), version: None, delete_marker: None }],
        errors: vec![DeleteError {
            key: "k".to_owned(),
            version: Some("null".to_owned()),
            fault: Fault::new(Code::AccessDenied),
        }],
    };
    golden("delete-objects.xml", &output.to_xml());
}

#[test]
fn object_documents_match_their_golden_files() {
    let (etag, last_modified, checksum) = (ETAG.to_owned(), TIME, Some(checksum()));
    let copy = CopyObjectOutput { etag: etag.clone(), last_modified, checksum: checksum.clone() };
    golden("copy-object.xml", &copy.to_xml());
    let part_copy = CopyPartOutput { etag: etag.clone(), last_modified, checksum: None };
    golden("copy-part.xml", &part_copy.to_xml());
    let attributes = GetObjectAttributesOutput {
        etag: Some(etag),
        checksum,
        parts: Some(ObjectParts {
            total: 1,
            part_marker: 0,
            next_part_marker: None,
            max_parts: 1000,
            parts: vec![part(1)],
        }),
        storage_class: Some("STANDARD".to_owned()),
        size: Some(12),
    };
    golden("get-object-attributes.xml", &attributes.to_xml());
    golden("get-object-attributes-none.xml", &GetObjectAttributesOutput::default().to_xml());
}
