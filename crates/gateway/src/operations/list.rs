//! Listings of keys.

use http::StatusCode;
use record::{InodeHead, SumAlgorithm, SumKind};
use s3::request::{ContinuationToken, ListObjectVersions, ListObjects, ListObjectsV2};
use s3::response::{
    ListObjectVersionsOutput, ListObjectsOutput, ListObjectsV2Output, ObjectEntry, VersionEntry,
};
use s3::{Fault, KeyPrefix};
use volume::{ListEntry, ListQuery, Listing};

use crate::call::Call;
use crate::response::S3Response;
use crate::translate::{self, checksum_algorithm, checksum_type, etag, owner, time};

/// What the requests of all listings have in common.
struct PageQuery<'a> {
    prefix: &'a KeyPrefix,
    delimiter: Option<&'a str>,
    after: Option<&'a str>,
    limit: u32,
    with_owner: bool,
}

/// A page: its objects, its common prefixes, and the last entry of both if more entries follow.
struct Page {
    contents: Vec<ObjectEntry>,
    common_prefixes: Vec<String>,
    last: Option<LastEntry>,
}

/// The last entry of a page.
struct LastEntry {
    text: String,
    is_prefix: bool,
}

async fn page(call: &Call<'_>, query: PageQuery<'_>) -> Result<Page, Fault> {
    let with_owner = query.with_owner;
    let query = ListQuery {
        prefix: query.prefix.as_str().as_bytes().to_vec(),
        delimiter: query.delimiter.map(|delimiter| delimiter.as_bytes().to_vec()),
        after: query.after.filter(|after| !after.is_empty()).map(|after| after.as_bytes().to_vec()),
        limit: query.limit as usize,
    };
    let bucket = call.bucket()?;
    let Listing { entries, truncated } =
        call.volume.list(bucket.as_str(), query).await.map_err(translate::fault)?;
    let mut page = Page { contents: Vec::new(), common_prefixes: Vec::new(), last: None };
    for entry in entries {
        let text = |bytes: Vec<u8>| match String::from_utf8(bytes) {
            Ok(text) => text,
            // A name that was not made through S3, which cannot express it.
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        };
        match entry {
            ListEntry::Object { key, inode } => {
                let entry = object_entry(text(key), &inode, with_owner);
                page.last = Some(LastEntry { text: entry.key.clone(), is_prefix: false });
                page.contents.push(entry);
            }
            ListEntry::Prefix(prefix) => {
                let prefix = text(prefix);
                page.last = Some(LastEntry { text: prefix.clone(), is_prefix: true });
                page.common_prefixes.push(prefix);
            }
        }
    }
    page.last = page.last.filter(|_| truncated);
    Ok(page)
}

fn object_entry(key: String, inode: &InodeHead, with_owner: bool) -> ObjectEntry {
    let (size, tag) = volume::size_and_tag(inode);
    let sum = inode.file().and_then(|file| shown_kind(&file.sums));
    ObjectEntry {
        key,
        last_modified: time(inode.attributes.changed),
        etag: etag(&tag),
        size,
        checksum: sum.map(|(algorithm, kind)| (checksum_algorithm(algorithm), checksum_type(kind))),
        owner: with_owner.then(|| owner(inode.attributes.uid)),
    }
}

/// The kind of the checksum that responses show for an object.
fn shown_kind(sums: &[(SumAlgorithm, SumKind)]) -> Option<(SumAlgorithm, SumKind)> {
    let theirs = sums.iter().find(|(algorithm, _)| *algorithm != SumAlgorithm::Crc64Nvme);
    theirs.or(sums.first()).copied()
}

pub(super) async fn objects(call: &Call<'_>) -> Result<S3Response, Fault> {
    let request = ListObjects::parse(&call.arguments())?;
    let query = PageQuery {
        prefix: &request.prefix,
        delimiter: request.delimiter.as_deref(),
        after: Some(request.marker.as_str()),
        limit: request.max_keys,
        with_owner: true,
    };
    let page = page(call, query).await?;
    let truncated = page.last.is_some();
    let next_marker = page.last.filter(|_| request.delimiter.is_some()).map(|last| last.text);
    let output = ListObjectsOutput {
        name: call.bucket()?.to_string(),
        prefix: request.prefix.to_string(),
        marker: request.marker.to_string(),
        delimiter: request.delimiter,
        max_keys: request.max_keys,
        url_encoded: request.url_encoded,
        truncated,
        next_marker,
        contents: page.contents,
        common_prefixes: page.common_prefixes,
    };
    Ok(S3Response::xml(StatusCode::OK, output.to_xml()))
}

pub(super) async fn objects_v2(call: &Call<'_>) -> Result<S3Response, Fault> {
    let request = ListObjectsV2::parse(&call.arguments())?;
    let after = match &request.token {
        Some(ContinuationToken::AfterKey(key) | ContinuationToken::AfterPrefix(key)) => {
            Some(key.as_str())
        }
        Some(ContinuationToken::AfterBucket(_)) | None => {
            request.start_after.as_ref().map(KeyPrefix::as_str)
        }
    };
    let query = PageQuery {
        prefix: &request.prefix,
        delimiter: request.delimiter.as_deref(),
        after,
        limit: request.max_keys,
        with_owner: request.fetch_owner,
    };
    let page = page(call, query).await?;
    let next_token = match page.last {
        Some(LastEntry { text, is_prefix: true }) => {
            Some(ContinuationToken::AfterPrefix(KeyPrefix::parse(&text)?).encode())
        }
        Some(LastEntry { text, is_prefix: false }) => {
            Some(ContinuationToken::AfterKey(KeyPrefix::parse(&text)?).encode())
        }
        None => None,
    };
    let output = ListObjectsV2Output {
        name: call.bucket()?.to_string(),
        prefix: request.prefix.to_string(),
        delimiter: request.delimiter,
        max_keys: request.max_keys,
        url_encoded: request.url_encoded,
        token: request.token_text,
        next_token,
        start_after: request.start_after.map(|key| key.to_string()),
        contents: page.contents,
        common_prefixes: page.common_prefixes,
    };
    Ok(S3Response::xml(StatusCode::OK, output.to_xml()))
}

/// The one version that an object has in a bucket without versions.
const NULL_VERSION: &str = "null";

pub(super) async fn versions(call: &Call<'_>) -> Result<S3Response, Fault> {
    let request = ListObjectVersions::parse(&call.arguments())?;
    let query = PageQuery {
        prefix: &request.prefix,
        delimiter: request.delimiter.as_deref(),
        after: Some(request.key_marker.as_str()),
        limit: request.max_keys,
        with_owner: true,
    };
    let page = page(call, query).await?;
    let version = |object: ObjectEntry| VersionEntry {
        key: object.key,
        version: NULL_VERSION.to_owned(),
        is_latest: true,
        last_modified: object.last_modified,
        content: Some((object.etag, object.size)),
        owner: object.owner.unwrap_or_default(),
    };
    let is_version = page.last.as_ref().is_some_and(|last| !last.is_prefix);
    let output = ListObjectVersionsOutput {
        name: call.bucket()?.to_string(),
        prefix: request.prefix.to_string(),
        key_marker: request.key_marker.to_string(),
        version_marker: request
            .version_marker
            .as_ref()
            .map_or_else(String::new, |version| version.as_str().to_owned()),
        delimiter: request.delimiter,
        max_keys: request.max_keys,
        url_encoded: request.url_encoded,
        truncated: page.last.is_some(),
        next_key_marker: page.last.map(|last| last.text),
        next_version_marker: is_version.then(|| NULL_VERSION.to_owned()),
        versions: page.contents.into_iter().map(version).collect(),
        common_prefixes: page.common_prefixes,
    };
    Ok(S3Response::xml(StatusCode::OK, output.to_xml()))
}
