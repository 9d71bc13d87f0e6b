//! All XML documents of S3 requests. A parsed document is within its limits, and a written one
//! parses to the same value.

use http::HeaderMap;
use s3::acl::AclDocument;
use s3::cors::CorsConfiguration;
use s3::encryption::BucketEncryption;
use s3::request::{
    Arguments, CompleteMultipartUpload, CreateBucket, DeleteObjects, Fields, OwnershipRule,
    PartNumber, PublicAccessBlockConfiguration, PutAcl, Query, parse_ownership_controls,
};
use s3::response::{AccessControlPolicy, Owner};
use s3::{ObjectKey, TagSet, Tagged};

pub(crate) fn check(body: &[u8]) {
    deletions(body);
    parts(body);
    bucket(body);
    tags(body);
    list(body);
    if let Ok(configuration) = CorsConfiguration::parse(body) {
        let again = CorsConfiguration::parse(configuration.to_xml().as_bytes());
        // The written document is longer if the original had less white space, so it may exceed the
        // limit.
        if let Ok(again) = again {
            assert_eq!(again, configuration);
        } else {
            assert!(configuration.to_xml().len() > CorsConfiguration::BYTES_MAX);
        }
    }
    if let Ok(encryption) = BucketEncryption::parse(body) {
        assert!(encryption.default.is_some() || encryption.blocks_customer_keys.is_some());
        let again = BucketEncryption::parse(encryption.to_xml().as_bytes());
        assert_eq!(again.as_ref(), Ok(&encryption));
    }
    if let Ok(rule) = parse_ownership_controls(body) {
        assert!(OwnershipRule::ALL.contains(&rule));
    }
    let _ = PublicAccessBlockConfiguration::parse(body);
}

fn deletions(body: &[u8]) {
    let Ok(request) = DeleteObjects::parse(body) else { return };
    assert!((1..=DeleteObjects::DELETIONS_MAX).contains(&request.deletions.len()));
    for deletion in &request.deletions {
        assert_eq!(ObjectKey::parse(deletion.key.as_str()).as_ref().ok(), Some(&deletion.key));
    }
}

fn parts(body: &[u8]) {
    with_arguments("uploadId=u", |arguments| {
        let Ok(request) = CompleteMultipartUpload::parse(arguments, body) else { return };
        assert!((1..=usize::from(PartNumber::MAX)).contains(&request.parts.len()));
        assert!(request.parts.windows(2).all(|two| two[0].number < two[1].number));
        for part in &request.parts {
            if let Some((algorithm, sum)) = &part.checksum {
                assert_eq!(sum.len(), algorithm.sum_bytes());
            }
        }
    });
}

fn bucket(body: &[u8]) {
    with_arguments("", |arguments| {
        if let Ok(request) = CreateBucket::parse(arguments, body, "us-east-1") {
            assert!(request.tags.len() <= 50);
        }
        if let Ok(PutAcl::Document(list)) = PutAcl::parse(arguments, body) {
            assert_eq!(AclDocument::parse(body).ok(), Some(list));
        }
    });
}

fn with_arguments(query: &str, look: impl FnOnce(&Arguments<'_>)) {
    let query = Query::parse(query).expect("a query of our own");
    let headers = HeaderMap::new();
    look(&Arguments { query: &query, fields: Fields::new(&headers, &[]), anonymous: false });
}

fn tags(body: &[u8]) {
    for (tagged, most) in [(Tagged::Object, TagSet::OBJECT_TAGS_MAX), (Tagged::Bucket, 50)] {
        let Ok(tags) = TagSet::parse_xml(body, tagged) else { continue };
        assert!(tags.len() <= most);
        let again = TagSet::parse_xml(tags.to_xml().as_bytes(), tagged);
        assert_eq!(again.ok().as_ref(), Some(&tags));
        // The white space of a document may contain a line end, which a header cannot express.
        assert_eq!(TagSet::new(tags.as_slice().to_vec(), tagged).ok(), Some(tags));
    }
}

fn list(body: &[u8]) {
    let Ok(list) = AclDocument::parse(body) else { return };
    assert!(list.grants.len() <= 100);
    let owner = Owner { id: list.owner.clone(), display_name: String::new() };
    let grants = list.grants.iter().map(|grant| (grant.clone(), String::new())).collect();
    let written = AccessControlPolicy { owner, grants }.to_xml();
    match AclDocument::parse(written.as_bytes()) {
        Ok(again) => assert_eq!(again, list),
        Err(fault) => panic!("our own list is refused: {fault:?}"),
    }
}
