//! Names: keys, buckets, copy sources and versions are decoded exactly once, and to no other name.

use percent_encoding::percent_decode_str;
use s3::{BucketName, Code, CopySource, KeyPrefix, ObjectKey, S3Resource, VersionId};
use sigv4::uri::escape_path;

use crate::faults;

/// The input: a text, which is a path, a name and a header value at once.
pub(crate) fn check(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    key(text);
    bucket(text);
    copy_source(text);
    resource(text);
    if let Ok(version) = VersionId::parse(text) {
        assert_eq!(version.as_str(), text);
    }
}

/// The rules for a decoded key.
fn naive_key(decoded: &str) -> bool {
    (1..=ObjectKey::BYTES_MAX).contains(&decoded.len())
        && !decoded.contains('\0')
        && decoded.matches('/').count() <= ObjectKey::SLASHES_MAX
}

/// Returns true if each percent sign begins an escape.
fn has_whole_escapes(raw: &str) -> bool {
    raw.split('%')
        .skip(1)
        .all(|rest| rest.len() >= 2 && rest.as_bytes()[..2].iter().all(u8::is_ascii_hexdigit))
}

fn key(text: &str) {
    assert_eq!(ObjectKey::parse(text).is_ok(), naive_key(text));
    let decoded = percent_decode_str(text).decode_utf8().ok();
    let decoded = decoded.filter(|_| has_whole_escapes(text));
    let naive = decoded.as_deref().filter(|decoded| naive_key(decoded));
    let ours = ObjectKey::from_path(text);
    assert_eq!(ours.as_ref().ok().map(ObjectKey::as_str), naive, "decoded exactly once");
    match ours {
        Ok(key) => assert_eq!(ObjectKey::from_path(&escape_path(key.as_str())).ok(), Some(key)),
        Err(fault) => faults::are_told(&fault, text.len()),
    }
    if let Ok(prefix) = KeyPrefix::parse(text) {
        assert_eq!(prefix.as_str(), text);
        assert!(text.len() <= ObjectKey::BYTES_MAX);
    }
}

fn bucket(text: &str) {
    let Ok(bucket) = BucketName::parse(text) else { return };
    assert_eq!(bucket.as_str(), text);
    let legal = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-');
    assert!((3..=63).contains(&text.len()) && text.bytes().all(legal));
    assert!(!text.contains("..") && !text.starts_with(['.', '-']) && !text.ends_with(['.', '-']));
    assert!(text.parse::<std::net::Ipv4Addr>().is_err(), "an address is no bucket");
    assert_eq!(BucketName::from_path(text).ok(), Some(bucket));
}

fn copy_source(text: &str) {
    let source = match CopySource::parse(text) {
        Ok(source) => source,
        Err(fault) => return faults::are_told(&fault, text.len()),
    };
    let path = format!("/{}/{}", source.bucket, source.key);
    let mut spelt = escape_path(&path);
    if let Some(version) = &source.version {
        spelt.push_str("?versionId=");
        spelt.push_str(&escape_path(version.as_str()).replace('/', "%2F"));
    }
    assert_eq!(CopySource::parse(&spelt), Ok(source.clone()));
    assert_eq!(CopySource::parse(&spelt[1..]), Ok(source));
}

/// The input: a host, a line feed and a path.
fn resource(text: &str) {
    let (host, path) = text.split_once('\n').unwrap_or(("localhost", text));
    let domains = ["s3.example.com".to_owned(), "example.com".to_owned()];
    let parsed = match S3Resource::parse(Some(host), path, &domains) {
        Ok(parsed) => parsed,
        Err(fault) => return faults::are_told(&fault, text.len()),
    };
    let (Some(bucket), key) = (parsed.bucket(), parsed.key()) else {
        assert_eq!(parsed, S3Resource::Service);
        return;
    };
    let key = key.map(|key| escape_path(key.as_str())).unwrap_or_default();
    let by_path = S3Resource::parse(None, &format!("/{bucket}/{key}"), &domains);
    let by_host = format!("{bucket}.s3.example.com:9000");
    let by_host = S3Resource::parse(Some(&by_host), &format!("/{key}"), &domains);
    // If the key is a slash, only the host shows that the path does not name the bucket.
    assert_eq!(by_path.map_err(|fault| fault.code), Ok(parsed.clone()));
    assert_eq!(by_host.map_err(|fault| fault.code), Ok(parsed));
    assert!(
        S3Resource::parse(None, "no-slash", &domains).is_err_and(|it| it.code == Code::InvalidURI)
    );
}
