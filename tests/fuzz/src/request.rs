//! The head of a request, up to the parameters of its operation. An accepted request is a served
//! operation on the requested resource, within its limits.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Version};
use s3::auth::Credentials;
use s3::body::BodyHead;
use s3::checksum::{BodyHasher, Expectation};
use s3::operation::{Demand, Support, route};
use s3::request::{
    AbortMultipartUpload, Arguments, CompleteMultipartUpload, CopyObject, CreateBucket,
    CreateMultipartUpload, DeleteObject, DeleteObjects, Fields, GetObject, GetObjectAttributes,
    ListBuckets, ListMultipartUploads, ListObjectVersions, ListObjects, ListObjectsV2, ListParts,
    PartNumber, PutAcl, PutObject, Query, UploadPart, UploadPartCopy,
};
use s3::{Fault, Metadata, Operation, S3Resource, TagSet};
use sigv4::uri::escape_query;

use crate::faults;
use crate::framing::terms;
use crate::message::Message;
use crate::pieces;

/// The limit of entries on one page.
const PAGE_MAX: u32 = 1000;

/// The input: a request as text.
pub(crate) fn check(input: &[u8]) {
    let Some(message) = Message::read(input) else { return };
    if let Err(fault) = understood(&message) {
        faults::are_told(&fault, input.len());
    }
}

fn understood(message: &Message<'_>) -> Result<(), Fault> {
    let host = message.headers.get("host").and_then(|host| host.to_str().ok());
    let domains = ["s3.example.com".to_owned()];
    let resource = S3Resource::parse(host, message.target.path(), &domains)?;
    let query = Query::parse(message.query())?;
    respelt(message.query(), &query);
    let fields = Fields::new(&message.headers, &[]);
    let operation = route(&message.method, &resource, &query, fields)?;
    fits(operation, &resource);
    if let Demand::All(permissions) = operation.demand(&resource, &query, fields)? {
        assert!(!permissions.is_empty());
        assert!(permissions.iter().all(|one| one.action.starts_with("s3:")));
    }
    let arguments = Arguments { query: &query, fields, anonymous: false };
    parsed(operation, &arguments, message.body)?;
    body(operation, message)
}

/// The query means the same if all its parameters are escaped.
fn respelt(raw: &str, query: &Query) {
    let pairs = raw.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let decode = |part: &str| {
            let spaced = part.replace('+', " ");
            let bytes = percent_encoding::percent_decode_str(&spaced).decode_utf8();
            escape_query(&bytes.expect("decoded before"))
        };
        format!("{}={}", decode(name), decode(value))
    });
    let spelt = pairs.collect::<Vec<_>>().join("&");
    assert_eq!(Query::parse(&spelt).as_ref(), Ok(query));
}

fn fits(operation: Operation, resource: &S3Resource) {
    assert_ne!(operation.support(), Support::Refused, "{operation:?}");
    let line = operation.request_line();
    let of_key = line.contains("/bucket/key");
    // A preflight request may also be for a bucket.
    if operation != Operation::OptionsObject {
        assert_eq!(of_key, resource.key().is_some(), "{operation:?}");
        assert_eq!(line.contains("/bucket"), resource.bucket().is_some(), "{operation:?}");
    }
}

fn parsed(operation: Operation, arguments: &Arguments<'_>, body: &[u8]) -> Result<(), Fault> {
    let all = arguments;
    match operation {
        Operation::ListBuckets => {
            let request = ListBuckets::parse(all)?;
            assert!(request.max_buckets.is_none_or(|most| (1..=10_000).contains(&most)));
        }
        Operation::ListObjects => assert!(ListObjects::parse(all)?.max_keys <= PAGE_MAX),
        Operation::ListObjectsV2 => assert!(ListObjectsV2::parse(all)?.max_keys <= PAGE_MAX),
        Operation::ListObjectVersions => {
            assert!(ListObjectVersions::parse(all)?.max_keys <= PAGE_MAX);
        }
        Operation::ListMultipartUploads => {
            assert!(ListMultipartUploads::parse(all)?.max_uploads <= PAGE_MAX);
        }
        Operation::ListParts => assert!(ListParts::parse(all)?.max_parts <= PAGE_MAX),
        Operation::CreateBucket => {
            CreateBucket::parse(all, body, "us-east-1")?;
        }
        Operation::DeleteObjects => {
            DeleteObjects::parse(body)?;
        }
        Operation::PutBucketAcl | Operation::PutObjectAcl => {
            PutAcl::parse(all, body)?;
        }
        Operation::GetObject | Operation::HeadObject => {
            let request = GetObject::parse(all)?;
            assert!(request.part.is_none() || request.range.is_none());
            for (_, value) in &request.overrides {
                assert!(HeaderValue::from_bytes(value.as_bytes()).is_ok(), "{value:?}");
            }
        }
        Operation::GetObjectAttributes => {
            let request = GetObjectAttributes::parse(all)?;
            assert!(!request.attributes.is_empty() && request.max_parts <= PAGE_MAX);
        }
        Operation::PutObject => {
            let request = PutObject::parse(all)?;
            kept(&request.metadata);
            assert!(request.tags.len() <= TagSet::OBJECT_TAGS_MAX);
        }
        Operation::CopyObject => {
            CopyObject::parse(all)?;
        }
        Operation::DeleteObject => {
            DeleteObject::parse(all)?;
        }
        Operation::CreateMultipartUpload => kept(&CreateMultipartUpload::parse(all)?.metadata),
        Operation::UploadPart => {
            let part = UploadPart::parse(all)?.part.get();
            assert!((1..=PartNumber::MAX).contains(&part));
        }
        Operation::UploadPartCopy => {
            UploadPartCopy::parse(all)?;
        }
        Operation::CompleteMultipartUpload => {
            CompleteMultipartUpload::parse(all, body)?;
        }
        Operation::AbortMultipartUpload => {
            AbortMultipartUpload::parse(all)?;
        }
        _ => {}
    }
    Ok(())
}

/// Stored metadata is sent as headers, and parses to the same metadata.
fn kept(metadata: &Metadata) {
    let user = metadata.user.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
    assert!(user <= Metadata::USER_BYTES_MAX);
    let mut headers = HeaderMap::new();
    for (name, value) in metadata.headers() {
        let name = HeaderName::from_bytes(name.as_bytes()).expect("a name that was a header's");
        let value = HeaderValue::from_bytes(value.as_bytes()).expect("a value that was one");
        headers.append(name, value);
    }
    let again = Metadata::parse(Fields::new(&headers, &[]));
    assert_eq!(again.as_ref(), Ok(metadata));
}

/// Checks the headers about the body, and that the checksums do not depend on the pieces.
fn body(operation: Operation, message: &Message<'_>) -> Result<(), Fault> {
    let head = BodyHead::parse(Version::HTTP_11, &message.headers)?;
    assert!(head.trailers().len() <= 1);
    let request = message.head();
    let Credentials::Anonymous = Credentials::parse(&request)? else { return Ok(()) };
    let verified = Credentials::Anonymous.verify(None, &request, &terms(true))?;
    let expectation = Expectation::parse(operation, &verified, &message.headers)?;
    let sums = |pieces: Vec<Bytes>| {
        let mut hasher = BodyHasher::new(&expectation, None);
        pieces.iter().for_each(|piece| hasher.update(piece));
        let digests = hasher.finish();
        let sums: Vec<_> = digests.sums().map(|(one, sum)| (one, sum.to_vec())).collect();
        assert!(sums.iter().all(|(one, sum)| sum.len() == one.sum_bytes()));
        (digests.bytes(), sums)
    };
    let whole = sums(pieces::cut(message.body, 1));
    assert_eq!(sums(pieces::cut(message.body, 77)), whole);
    assert_eq!(whole.0, message.body.len() as u64);
    Ok(())
}
