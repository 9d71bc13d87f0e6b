//! Requests that list buckets, objects, versions or multipart uploads.

use super::page::{page, url_encoded};
use super::token::wrong_token;
use super::{Arguments, ContinuationToken, UploadIdText};
use crate::Fault;
use crate::name::{KeyPrefix, VersionId};

/// The maximum number of buckets on a page.
const BUCKETS_MAX: u32 = 10_000;

/// A `ListBuckets` request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListBuckets {
    /// The response lists only buckets whose names begin with this prefix.
    pub prefix: String,
    /// The response lists only buckets whose names come after this one.
    pub after: Option<String>,
    /// The maximum number of buckets on the page; `None` for no limit.
    pub max_buckets: Option<u32>,
    /// Lists only buckets of this region.
    pub region: Option<String>,
}

/// A `ListObjects` request (version 1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListObjects {
    /// Lists only keys with this prefix. `None` if the request does not have it.
    pub prefix: Option<KeyPrefix>,
    /// The delimiter: keys that have it after the prefix are grouped, up to the delimiter, into
    /// common prefixes. `None` for no groups; never empty.
    pub delimiter: Option<String>,
    /// Lists only keys and common prefixes after this one. `None` if the request does not have it.
    pub marker: Option<KeyPrefix>,
    /// The maximum number of keys and common prefixes on the page: 0 to 1000.
    pub max_keys: u32,
    /// True if the response percent-encodes keys.
    pub url_encoded: bool,
}

/// A `ListObjectsV2` request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListObjectsV2 {
    /// Lists only keys with this prefix. `None` if the request does not have it.
    pub prefix: Option<KeyPrefix>,
    /// The delimiter: keys that have it after the prefix are grouped, up to the delimiter, into
    /// common prefixes. `None` for no groups; never empty.
    pub delimiter: Option<String>,
    /// The position where an earlier page ended. It takes precedence over `start_after`.
    pub token: Option<ContinuationToken>,
    /// The continuation token as the client sent it; the response repeats it.
    pub token_text: Option<String>,
    /// Lists only keys after this one.
    pub start_after: Option<KeyPrefix>,
    /// The maximum number of keys and common prefixes on the page: 0 to 1000.
    pub max_keys: u32,
    /// True if the response percent-encodes keys.
    pub url_encoded: bool,
    /// True if each entry in the response has its owner.
    pub fetch_owner: bool,
}

/// A `ListObjectVersions` request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListObjectVersions {
    /// Lists only keys with this prefix.
    pub prefix: KeyPrefix,
    /// The delimiter: keys that have it after the prefix are grouped, up to the delimiter, into
    /// common prefixes. `None` for no groups; never empty.
    pub delimiter: Option<String>,
    /// Lists only keys after this one.
    pub key_marker: KeyPrefix,
    /// Also lists the versions of `key_marker` after this one; `None` if `key_marker` is empty.
    pub version_marker: Option<VersionId>,
    /// The maximum number of versions and common prefixes on the page: 0 to 1000.
    pub max_keys: u32,
    /// True if the response percent-encodes keys.
    pub url_encoded: bool,
}

/// A `ListMultipartUploads` request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListMultipartUploads {
    /// Lists only keys with this prefix.
    pub prefix: KeyPrefix,
    /// The delimiter: keys that have it after the prefix are grouped, up to the delimiter, into
    /// common prefixes. `None` for no groups; never empty.
    pub delimiter: Option<String>,
    /// Lists only keys after this one.
    pub key_marker: KeyPrefix,
    /// Also lists the uploads of `key_marker` after this one. Ignored if `key_marker` is empty, as
    /// in S3.
    pub upload_marker: Option<UploadIdText>,
    /// The maximum number of uploads and common prefixes on the page: 0 to 1000.
    pub max_uploads: u32,
    /// True if the response percent-encodes keys.
    pub url_encoded: bool,
}

impl ListBuckets {
    /// Parses a `ListBuckets` request. Fails with `InvalidArgument`.
    pub fn parse(arguments: &Arguments<'_>) -> Result<ListBuckets, Fault> {
        let query = arguments.query;
        let after = match query.get("continuation-token")? {
            None | Some("") => None,
            Some(text) => match ContinuationToken::decode(text)? {
                ContinuationToken::AfterBucket(bucket) => Some(bucket),
                // A token of an object listing does not continue a bucket listing.
                ContinuationToken::AfterKey(_) | ContinuationToken::AfterPrefix(_) => {
                    return Err(wrong_token());
                }
            },
        };
        let max_buckets = match query.get("max-buckets")? {
            None | Some("") => None,
            Some(text) => match text.parse() {
                Ok(count @ 1..=BUCKETS_MAX) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
                    Some(count)
                }
                _ => {
                    return Err(super::invalid_argument(
                        "max-buckets",
                        text,
                        "Argument max-buckets must be an integer between 1 and 10000.",
                    ));
                }
            },
        };
        Ok(ListBuckets {
            prefix: query.get("prefix")?.unwrap_or_default().to_owned(),
            after,
            max_buckets,
            region: query.get("bucket-region")?.map(str::to_owned),
        })
    }
}

impl ListObjects {
    /// Parses a `ListObjects` request. Fails with `InvalidArgument` or `KeyTooLongError`.
    pub fn parse(arguments: &Arguments<'_>) -> Result<ListObjects, Fault> {
        Ok(ListObjects {
            prefix: optional_prefix(arguments, "prefix")?,
            delimiter: delimiter(arguments)?,
            marker: optional_prefix(arguments, "marker")?,
            max_keys: page(arguments, "max-keys")?,
            url_encoded: url_encoded(arguments)?,
        })
    }
}

impl ListObjectsV2 {
    /// Parses a `ListObjectsV2` request. Fails with `InvalidArgument` or `KeyTooLongError`.
    pub fn parse(arguments: &Arguments<'_>) -> Result<ListObjectsV2, Fault> {
        let query = arguments.query;
        // An empty token counts as absent, but the response repeats it.
        let token_text = query.get("continuation-token")?;
        let token = match token_text {
            None | Some("") => None,
            Some(text) => match ContinuationToken::decode(text)? {
                ContinuationToken::AfterBucket(_) => return Err(wrong_token()),
                token @ (ContinuationToken::AfterKey(_) | ContinuationToken::AfterPrefix(_)) => {
                    Some(token)
                }
            },
        };
        let fetch_owner = match query.get("fetch-owner")? {
            None | Some("" | "false") => false,
            Some("true") => true,
            Some(_) => {
                return Err(super::invalid("fetch-owner", "fetch-owner must be true or false."));
            }
        };
        Ok(ListObjectsV2 {
            prefix: optional_prefix(arguments, "prefix")?,
            delimiter: delimiter(arguments)?,
            token,
            token_text: token_text.map(str::to_owned),
            start_after: query.get("start-after")?.map(KeyPrefix::parse).transpose()?,
            max_keys: page(arguments, "max-keys")?,
            url_encoded: url_encoded(arguments)?,
            fetch_owner,
        })
    }
}

impl ListObjectVersions {
    /// Parses a `ListObjectVersions` request. Fails with `InvalidArgument` or `KeyTooLongError`.
    pub fn parse(arguments: &Arguments<'_>) -> Result<ListObjectVersions, Fault> {
        let version_marker = match arguments.query.get("version-id-marker")? {
            None | Some("") => None,
            Some(text) => Some(VersionId::parse(text)?),
        };
        let key_marker = prefix_or_empty(arguments, "key-marker")?;
        // S3 refuses an empty version marker only together with a key marker.
        if version_marker.is_none()
            && !key_marker.is_empty()
            && arguments.query.has("version-id-marker")
        {
            let why = "A version-id marker cannot be empty.";
            return Err(super::invalid_argument("version-id-marker", "", why));
        }
        if let Some(version) = &version_marker
            && key_marker.is_empty()
        {
            return Err(super::invalid_argument(
                "version-id-marker",
                version.as_str(),
                "A version-id marker cannot be specified without a key marker.",
            ));
        }
        Ok(ListObjectVersions {
            prefix: prefix_or_empty(arguments, "prefix")?,
            delimiter: delimiter(arguments)?,
            key_marker,
            version_marker,
            max_keys: page(arguments, "max-keys")?,
            url_encoded: url_encoded(arguments)?,
        })
    }
}

impl ListMultipartUploads {
    /// Parses a `ListMultipartUploads` request. Fails with `InvalidArgument` or `KeyTooLongError`.
    pub fn parse(arguments: &Arguments<'_>) -> Result<ListMultipartUploads, Fault> {
        let upload_marker = match arguments.query.get("upload-id-marker")? {
            None | Some("") => None,
            // A malformed marker is an argument of the listing, so its fault is not `NoSuchUpload`.
            Some(text) => Some(UploadIdText::parse(text).map_err(|_| {
                super::invalid_argument("upload-id-marker", text, "Invalid uploadId marker")
            })?),
        };
        Ok(ListMultipartUploads {
            prefix: prefix_or_empty(arguments, "prefix")?,
            delimiter: delimiter(arguments)?,
            key_marker: prefix_or_empty(arguments, "key-marker")?,
            upload_marker,
            max_uploads: page(arguments, "max-uploads")?,
            url_encoded: url_encoded(arguments)?,
        })
    }
}

fn prefix_or_empty(arguments: &Arguments<'_>, name: &str) -> Result<KeyPrefix, Fault> {
    optional_prefix(arguments, name).map(Option::unwrap_or_default)
}

fn optional_prefix(arguments: &Arguments<'_>, name: &str) -> Result<Option<KeyPrefix>, Fault> {
    arguments.query.get(name)?.map(KeyPrefix::parse).transpose()
}

fn delimiter(arguments: &Arguments<'_>) -> Result<Option<String>, Fault> {
    let delimiter = arguments.query.get("delimiter")?.filter(|text| !text.is_empty());
    // A delimiter that is longer than a key occurs in no key, so the limits of a prefix apply.
    delimiter.map(KeyPrefix::parse).transpose().map(|found| found.map(|text| text.to_string()))
}
