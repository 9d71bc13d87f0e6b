//! Lists objects, versions and common prefixes.
//!
//! All three operations read pages from the volume and return a position for the next page. For
//! example, `ListObjectsV2` returns a continuation token that contains the last key or prefix of
//! the page.

use std::sync::Arc;

use http::StatusCode;
use record::{InodeHead, SumAlgorithm, SumKind};
use s3::request::{
    ChecksumAlgorithm, ChecksumType, ContinuationToken, ListObjectVersions, ListObjects,
    ListObjectsV2,
};
use s3::response::{
    ListObjectVersionsOutput, ListObjectsOutput, ListObjectsV2Output, ObjectEntry, Owner,
    VersionEntry,
};
use s3::{Fault, KeyPrefix};
use volume::{
    ListEntry, ListQuery, ListedAs, Listing, VersionRef, VersionsEntry, VersionsListing,
    VersionsQuery,
};

use crate::call::Call;
use crate::response::S3Response;
use crate::translate::{self, bucket_fault, checksum_algorithm, checksum_type, etag, time};

/// The parameters that all listings of objects have.
struct PageQuery<'a> {
    prefix: &'a str,
    delimiter: Option<&'a str>,
    after: Option<&'a str>,
    limit: u32,
    with_owner: bool,
}

/// A page of objects and common prefixes. `last` is the last entry if more entries follow.
struct Page {
    contents: Vec<ObjectEntry>,
    common_prefixes: Vec<String>,
    last: Option<LastEntry>,
}

/// The last entry of a page of a listing: a key or a common prefix. The next page continues after
/// it.
struct LastEntry {
    text: String,
    is_prefix: bool,
}

async fn page(call: &Call<'_>, query: PageQuery<'_>) -> Result<Page, Fault> {
    let enforced = !call.rules()?.acls_enabled();
    let owner = query.with_owner.then(|| call.owner_of(None)).transpose()?.map(Arc::new);
    let owner_of = |inode: &InodeHead| match inode.file().and_then(|file| file.writer) {
        Some(writer) if owner.is_some() && !enforced => {
            Some(Arc::new(call.sender.access.owner(writer)))
        }
        Some(_) | None => owner.clone(),
    };
    let query = ListQuery {
        prefix: query.prefix.as_bytes().to_vec(),
        delimiter: query.delimiter.map(|delimiter| delimiter.as_bytes().to_vec()),
        after: query.after.filter(|after| !after.is_empty()).map(|after| after.as_bytes().to_vec()),
        limit: query.limit as usize,
    };
    let bucket = call.bucket()?;
    let Listing { entries, truncated } = call
        .volume
        .list(call.named_bucket()?, query)
        .await
        .map_err(|error| bucket_fault(bucket, error))?;
    let contents = Vec::with_capacity(entries.len());
    let mut page = Page { contents, common_prefixes: Vec::new(), last: None };
    let mut is_prefix = false;
    for entry in entries {
        match entry {
            ListEntry::Object { key, inode, .. } => {
                page.contents.push(object_entry(text(key), &inode, owner_of(&inode)));
                is_prefix = false;
            }
            ListEntry::Prefix(prefix) => {
                page.common_prefixes.push(text(prefix));
                is_prefix = true;
            }
        }
    }
    let last = if is_prefix {
        page.common_prefixes.last()
    } else {
        page.contents.last().map(|entry| &entry.key)
    };
    page.last = last.filter(|_| truncated).map(|text| LastEntry { text: text.clone(), is_prefix });
    Ok(page)
}

fn object_entry(key: String, inode: &InodeHead, owner: Option<Arc<Owner>>) -> ObjectEntry {
    let (size, tag) = volume::size_and_tag(inode);
    ObjectEntry {
        key,
        last_modified: time(inode.attributes.changed),
        etag: etag(&tag),
        size,
        checksum: shown_checksum(inode),
        storage_class: inode.file().and_then(|file| file.class),
        owner,
    }
}

/// Returns the algorithm and type of an object's checksum for a listing.
fn shown_checksum(inode: &InodeHead) -> Option<(ChecksumAlgorithm, ChecksumType)> {
    let (algorithm, kind) = inode.file().and_then(|file| shown_kind(&file.sums))?;
    Some((checksum_algorithm(algorithm), checksum_type(kind)))
}

/// Returns the kind of the checksum that responses show for an object.
fn shown_kind(sums: &[(SumAlgorithm, SumKind)]) -> Option<(SumAlgorithm, SumKind)> {
    let theirs = sums.iter().find(|(algorithm, _)| *algorithm != SumAlgorithm::Crc64Nvme);
    theirs.or(sums.first()).copied()
}

/// Returns the text of a prefix or marker; the empty text if there is none.
fn text_of(place: Option<&KeyPrefix>) -> &str {
    place.map_or("", KeyPrefix::as_str)
}

pub(super) async fn objects(call: &Call<'_>) -> Result<S3Response, Fault> {
    let request = ListObjects::parse(&call.arguments())?;
    let query = PageQuery {
        prefix: text_of(request.prefix.as_ref()),
        delimiter: request.delimiter.as_deref(),
        after: Some(text_of(request.marker.as_ref())),
        limit: request.max_keys,
        with_owner: true,
    };
    let page = page(call, query).await?;
    let truncated = page.last.is_some();
    let next_marker = page.last.map(|last| last.text);
    let output = ListObjectsOutput {
        name: call.bucket()?.to_string(),
        prefix: request.prefix.map(|prefix| prefix.to_string()),
        marker: request.marker.map(|marker| marker.to_string()),
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
        prefix: text_of(request.prefix.as_ref()),
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
        prefix: request.prefix.map(|prefix| prefix.to_string()),
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

pub(super) async fn versions(call: &Call<'_>) -> Result<S3Response, Fault> {
    let request = ListObjectVersions::parse(&call.arguments())?;
    let version = translate::version(request.version_marker.as_ref()).map_err(|mut fault| {
        let named = fault.extra.iter_mut().find(|(element, _)| *element == "ArgumentName");
        named.into_iter().for_each(|(_, name)| "version-id-marker".clone_into(name));
        fault
    })?;
    let after = (!request.key_marker.as_str().is_empty())
        .then(|| (request.key_marker.as_str().as_bytes().to_vec(), version));
    let query = VersionsQuery {
        prefix: request.prefix.as_str().as_bytes().to_vec(),
        delimiter: request.delimiter.as_ref().map(|delimiter| delimiter.as_bytes().to_vec()),
        after,
        limit: request.max_keys as usize,
    };
    let listed = match query.limit {
        // A page of no entries is complete and not truncated, as in S3.
        0 => Ok(VersionsListing::default()),
        _ => call.volume.list_versions(call.named_bucket()?, &query).await,
    };
    let bucket = call.bucket()?;
    let VersionsListing { entries, truncated } =
        listed.map_err(|error| bucket_fault(bucket, error))?;
    let (mut versions, mut common_prefixes) = (Vec::new(), Vec::new());
    let (mut next_key_marker, mut next_version_marker) = (None, None);
    for entry in entries {
        match entry {
            VersionsEntry::Prefix(prefix) => {
                let prefix = text(prefix);
                (next_key_marker, next_version_marker) = (Some(prefix.clone()), None);
                common_prefixes.push(prefix);
            }
            VersionsEntry::Version { key, version, is_latest, listed_as, .. } => {
                let entry = version_entry(call, text(key), version, is_latest, &listed_as)?;
                (next_key_marker, next_version_marker) =
                    (Some(entry.key.clone()), Some(entry.version.clone()));
                versions.push(entry);
            }
        }
    }
    let output = ListObjectVersionsOutput {
        name: bucket.to_string(),
        prefix: request.prefix.to_string(),
        key_marker: request.key_marker.to_string(),
        version_marker: request
            .version_marker
            .as_ref()
            .map_or_else(String::new, |version| version.as_str().to_owned()),
        delimiter: request.delimiter,
        max_keys: request.max_keys,
        url_encoded: request.url_encoded,
        truncated,
        next_key_marker: next_key_marker.filter(|_| truncated),
        next_version_marker: next_version_marker.filter(|_| truncated),
        versions,
        common_prefixes,
    };
    Ok(S3Response::xml(StatusCode::OK, output.to_xml()))
}

fn version_entry(
    call: &Call<'_>,
    key: String,
    version: VersionRef,
    is_latest: bool,
    listed_as: &ListedAs,
) -> Result<VersionEntry, Fault> {
    let version = translate::version_text(version);
    let (last_modified, content, class, writer) = match listed_as {
        ListedAs::Marker(made) => (time(*made), None, None, None),
        ListedAs::Object(inode) => {
            let (size, tag) = volume::size_and_tag(inode);
            let file = inode.file();
            let class = file.and_then(|file| file.class);
            let writer = file.and_then(|file| file.writer);
            (time(inode.attributes.changed), Some((etag(&tag), size)), class, writer)
        }
    };
    let checksum = match listed_as {
        ListedAs::Marker(_) => None,
        ListedAs::Object(inode) => shown_checksum(inode),
    };
    let acls_enabled = call.rules()?.acls_enabled();
    let owner = call.owner_of(writer.filter(|_| acls_enabled))?;
    Ok(VersionEntry {
        key,
        version,
        is_latest,
        last_modified,
        content,
        checksum,
        storage_class: class,
        owner,
    })
}

/// Returns a key as text. Bytes that are not UTF-8, which only a program on a mount can put into a
/// name, become U+FFFD.
fn text(bytes: Vec<u8>) -> String {
    match String::from_utf8(bytes) {
        Ok(text) => text,
        // A program made a name that is not UTF-8. S3 cannot represent it exactly.
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    }
}
