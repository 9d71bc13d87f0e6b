//! Pages of keys, and versions of a key, from listings of S3.

use adminapi::{ApiError, S3Call};
use bytes::Bytes;
use http::Method;
use percent_encoding::percent_decode_str;
use s3::xml::{Element, XmlLimits};

use crate::visit::Visit;

/// The number of entries of a page.
const PAGE_KEYS: u32 = 200;

/// A page of the keys of a bucket below a prefix.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// The common prefixes, which a person sees as folders. Each ends with a slash.
    pub(crate) folders: Vec<String>,
    pub(crate) objects: Vec<ListedObject>,
    /// The token of the next page.
    pub(crate) next: Option<String>,
}

/// An object of a listing.
#[derive(Debug)]
pub(crate) struct ListedObject {
    pub(crate) key: String,
    pub(crate) size: u64,
    pub(crate) modified: String,
}

/// A version of an object, or a delete marker.
#[derive(Debug)]
pub(crate) struct ListedVersion {
    pub(crate) id: String,
    pub(crate) modified: String,
    /// `None` for a delete marker.
    pub(crate) size: Option<u64>,
    pub(crate) is_latest: bool,
}

/// Returns a page of the keys of a bucket.
pub(crate) async fn keys(
    visit: &Visit<'_>,
    bucket: &str,
    prefix: &str,
    token: Option<&str>,
) -> Result<Listing, ApiError> {
    let mut call = S3Call::on_bucket(Method::GET, bucket, None);
    call.query = vec![
        ("list-type", Some("2".to_owned())),
        ("delimiter", Some("/".to_owned())),
        // XML cannot hold all characters of keys, so they are escaped.
        ("encoding-type", Some("url".to_owned())),
        ("max-keys", Some(PAGE_KEYS.to_string())),
        ("prefix", Some(prefix.to_owned())),
    ];
    if let Some(token) = token {
        call.query.push(("continuation-token", Some(token.to_owned())));
    }
    let root = get(visit, &call, "ListBucketResult").await?;
    let mut listing = Listing::default();
    for child in root.children() {
        match child.name() {
            "CommonPrefixes" => listing.folders.push(decoded(&text(child, "Prefix"))),
            "Contents" => listing.objects.push(ListedObject {
                key: decoded(&text(child, "Key")),
                size: text(child, "Size").parse().unwrap_or(0),
                modified: text(child, "LastModified"),
            }),
            "NextContinuationToken" => listing.next = Some(child.text().to_owned()),
            _ => {}
        }
    }
    // The marker of the folder itself is not an entry of the folder.
    listing.objects.retain(|object| object.key != prefix);
    Ok(listing)
}

/// Returns the versions of a key, the newest first, at most one page.
pub(crate) async fn versions(
    visit: &Visit<'_>,
    bucket: &str,
    key: &str,
) -> Result<Vec<ListedVersion>, ApiError> {
    let mut call = S3Call::on_bucket(Method::GET, bucket, Some("versions"));
    call.query.extend([
        ("encoding-type", Some("url".to_owned())),
        ("max-keys", Some(PAGE_KEYS.to_string())),
        ("prefix", Some(key.to_owned())),
    ]);
    let root = get(visit, &call, "ListVersionsResult").await?;
    let mut versions = Vec::new();
    for child in root.children() {
        let is_marker = match child.name() {
            "Version" => false,
            "DeleteMarker" => true,
            _ => continue,
        };
        // The prefix also matches longer keys.
        if decoded(&text(child, "Key")) == key {
            versions.push(ListedVersion {
                id: text(child, "VersionId"),
                modified: text(child, "LastModified"),
                size: (!is_marker).then(|| text(child, "Size").parse().unwrap_or(0)),
                is_latest: text(child, "IsLatest") == "true",
            });
        }
    }
    Ok(versions)
}

async fn get(visit: &Visit<'_>, call: &S3Call<'_>, root: &str) -> Result<Element, ApiError> {
    let reply = visit.api().s3(&visit.actor, call, Bytes::new()).await?;
    Ok(Element::parse(&reply.body, root, XmlLimits::LARGE)?)
}

/// Returns the text of the child with this name; empty if there is none.
fn text(element: &Element, name: &str) -> String {
    element.value(name).ok().flatten().unwrap_or_default().to_owned()
}

/// Returns a key that a listing has escaped. A plus is a space in this form.
fn decoded(text: &str) -> String {
    percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned()
}
