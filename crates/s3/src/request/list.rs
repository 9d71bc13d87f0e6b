//! Listings: of buckets, objects, versions and uploads.

use super::page::{page, url_encoded};
use super::token::wrong_token;
use super::{Arguments, ContinuationToken, UploadIdText};
use crate::Fault;
use crate::name::{KeyPrefix, VersionId};

/// Buckets on a page, at most.
const BUCKETS_MAX: u32 = 10_000;

/// `ListBuckets`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListBuckets {
    /// Only names that begin so.
    pub prefix: String,
    /// Only after this name.
    pub after: Option<String>,
    /// How many; `None` for all.
    pub max_buckets: Option<u32>,
    /// Only buckets of this region.
    pub region: Option<String>,
}

/// `ListObjects`, the first version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListObjects {
    /// Only keys that begin so; nothing if the request does not say.
    pub prefix: Option<KeyPrefix>,
    /// What groups keys into common prefixes; never empty.
    pub delimiter: Option<String>,
    /// Only after this key, or after this common prefix; nothing if the request does not say.
    pub marker: Option<KeyPrefix>,
    /// Keys and common prefixes on the page, 0 to 1000.
    pub max_keys: u32,
    /// Whether keys are percent-encoded in the response.
    pub url_encoded: bool,
}

/// `ListObjectsV2`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListObjectsV2 {
    /// Only keys that begin so; nothing if the request does not say.
    pub prefix: Option<KeyPrefix>,
    /// What groups keys into common prefixes; never empty.
    pub delimiter: Option<String>,
    /// Where an earlier page ended. It wins over `start_after`.
    pub token: Option<ContinuationToken>,
    /// The token as sent, which the response repeats.
    pub token_text: Option<String>,
    /// Only after this key.
    pub start_after: Option<KeyPrefix>,
    /// Keys and common prefixes on the page, 0 to 1000.
    pub max_keys: u32,
    /// Whether keys are percent-encoded in the response.
    pub url_encoded: bool,
    /// Whether entries name their owner.
    pub fetch_owner: bool,
}

/// `ListObjectVersions`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListObjectVersions {
    /// Only keys that begin so.
    pub prefix: KeyPrefix,
    /// What groups keys into common prefixes; never empty.
    pub delimiter: Option<String>,
    /// Only after this key.
    pub key_marker: KeyPrefix,
    /// Only after this version of the key; never without a key.
    pub version_marker: Option<VersionId>,
    /// Versions and common prefixes on the page, 0 to 1000.
    pub max_keys: u32,
    /// Whether keys are percent-encoded in the response.
    pub url_encoded: bool,
}

/// `ListMultipartUploads`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListMultipartUploads {
    /// Only keys that begin so.
    pub prefix: KeyPrefix,
    /// What groups keys into common prefixes; never empty.
    pub delimiter: Option<String>,
    /// Only after this key.
    pub key_marker: KeyPrefix,
    /// Also uploads of that key after this one; ignored without a key, as S3 does.
    pub upload_marker: Option<UploadIdText>,
    /// Uploads and common prefixes on the page, 0 to 1000.
    pub max_uploads: u32,
    /// Whether keys are percent-encoded in the response.
    pub url_encoded: bool,
}

impl ListBuckets {
    /// Reads the request. Fault: `InvalidArgument`.
    pub fn parse(arguments: &Arguments<'_>) -> Result<ListBuckets, Fault> {
        let query = arguments.query;
        let after = match query.get("continuation-token")? {
            None | Some("") => None,
            Some(text) => match ContinuationToken::decode(text)? {
                ContinuationToken::AfterBucket(bucket) => Some(bucket),
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
    /// Reads the request. Faults: `InvalidArgument`, `KeyTooLongError`.
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
    /// Reads the request. Faults: `InvalidArgument`, `KeyTooLongError`.
    pub fn parse(arguments: &Arguments<'_>) -> Result<ListObjectsV2, Fault> {
        let query = arguments.query;
        let token_text = query.get("continuation-token")?;
        let token = match token_text {
            None | Some("") => None,
            Some(text) => match ContinuationToken::decode(text)? {
                ContinuationToken::AfterBucket(_) => return Err(wrong_token()),
                token => Some(token),
            },
        };
        let fetch_owner = match query.get("fetch-owner")? {
            None | Some("" | "false") => false,
            Some("true") => true,
            Some(_) => return Err(super::invalid("fetch-owner", "fetch-owner is not a flag.")),
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
    /// Reads the request. Faults: `InvalidArgument`, `KeyTooLongError`.
    pub fn parse(arguments: &Arguments<'_>) -> Result<ListObjectVersions, Fault> {
        let version_marker = match arguments.query.get("version-id-marker")? {
            None | Some("") => None,
            Some(text) => Some(VersionId::parse(text)?),
        };
        let key_marker = prefix_or_empty(arguments, "key-marker")?;
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
    /// Reads the request. Faults: `InvalidArgument`, `KeyTooLongError`.
    pub fn parse(arguments: &Arguments<'_>) -> Result<ListMultipartUploads, Fault> {
        let upload_marker = match arguments.query.get("upload-id-marker")? {
            None | Some("") => None,
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
    // A longer one could occur in no key.
    delimiter.map(KeyPrefix::parse).transpose().map(|found| found.map(|text| text.to_string()))
}
