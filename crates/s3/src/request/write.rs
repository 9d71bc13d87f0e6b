//! Requests that write one object: `PutObject`, `CopyObject`.

use std::sync::Arc;

use super::checksum::ChecksumAlgorithm;
use super::{Arguments, Fields, WRITE_OFFSET, unserved};
use crate::acl::RequestedAcl;
use crate::conditions::{ReadPreconditions, WritePrecondition};
use crate::encryption::{CustomerKey, RequestedEncryption};
use crate::metadata::Metadata;
use crate::name::{BucketName, CopySource, ObjectKey};
use crate::tagging::TagSet;
use crate::{Code, Fault};

/// A `PutObject` request. `checksum` and `body` parse its checksums and its framing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutObject {
    /// The metadata of the object.
    pub metadata: Metadata,
    /// The tags of the object.
    pub tags: TagSet,
    /// The ACL of the object.
    pub acl: Option<RequestedAcl>,
    /// The precondition on the existing object, which the commit checks.
    pub condition: WritePrecondition,
    /// The size in bytes that the existing object must have, to which the body is appended; 0 also
    /// creates the object if it does not exist. `None` replaces the object.
    pub append_at: Option<u64>,
    /// The encryption of the object; `None` for the default of the bucket.
    pub encryption: Option<RequestedEncryption>,
}

impl PutObject {
    /// Parses a `PutObject` request. Fails with the faults of encryption, metadata, tags, ACL and
    /// precondition, or with `NotImplemented` or `InvalidRequest` for a feature that is not
    /// implemented.
    pub fn parse(arguments: &Arguments<'_>) -> Result<PutObject, Fault> {
        Ok(PutObject {
            encryption: RequestedEncryption::parse(arguments.fields)?,
            metadata: Metadata::parse(arguments.fields)?,
            tags: tags(arguments)?,
            acl: RequestedAcl::parse(arguments.fields)?,
            condition: WritePrecondition::parse(arguments.fields)?,
            append_at: append_at(arguments.fields)?,
        })
    }
}

/// Parses `x-amz-write-offset-bytes`, the header that makes a `PutObject` append to an object of
/// this size. Fails with `InvalidArgument`.
pub(crate) fn append_at(fields: Fields<'_>) -> Result<Option<u64>, Fault> {
    let name = WRITE_OFFSET;
    let Some(text) = fields.get(name)? else { return Ok(None) };
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    // `u64::from_str` also accepts a plus sign.
    match text.parse() {
        Ok(offset) if digits => Ok(Some(offset)),
        _ => Err(super::invalid_argument(name, text, "Invalid Argument")
            .detail("The write offset must be a number of bytes.")),
    }
}

/// The source of a property, such as the metadata, of the new object that a copy creates:
/// `x-amz-metadata-directive` and `x-amz-tagging-directive`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Directive<T> {
    /// The property is copied from the copy source.
    Copy,
    /// The property comes from the request, and nothing from the copy source.
    Replace(T),
}

/// A `CopyObject` request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyObject {
    /// The object to copy from.
    pub source: CopySource,
    /// The preconditions on the source.
    pub source_conditions: ReadPreconditions,
    /// The metadata of the copy.
    pub metadata: Directive<Metadata>,
    /// The website redirect and the storage class of the copy.
    pub labels: CopyLabels,
    /// The tags of the copy.
    pub tags: Directive<TagSet>,
    /// The checksum algorithm that the copy must have; `None` if the request does not name one.
    pub checksum: Option<ChecksumAlgorithm>,
    /// The ACL of the copy.
    pub acl: Option<RequestedAcl>,
    /// The precondition on the destination, which the commit checks.
    pub condition: WritePrecondition,
    /// The encryption of the copy; `None` for the default of the bucket. It never comes from the
    /// source.
    pub encryption: Option<RequestedEncryption>,
    /// The key of the client, with which the source is encrypted.
    pub source_key: Option<Arc<CustomerKey>>,
    /// True if the request names a storage class, even the default one.
    has_storage_class: bool,
}

/// The labels of a copy: metadata that always comes from the request, even if the other metadata
/// comes from the source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopyLabels {
    /// The redirect of the object on a website: see `Metadata::website_redirect`.
    pub website_redirect: Option<String>,
    /// The storage class, which is only a label: see `Metadata::storage_class`.
    pub storage_class: Option<String>,
}

impl CopyObject {
    /// Parses a `CopyObject` request. Fails as `PutObject::parse`, or with the faults of the copy
    /// source.
    pub fn parse(arguments: &Arguments<'_>) -> Result<CopyObject, Fault> {
        let fields = arguments.fields;
        let encryption = RequestedEncryption::parse_for_copy(fields)?;
        let source_key = CustomerKey::of_copy_source(fields)?;
        unserved::refuse_append(fields)?;
        let source = CopySource::parse(fields.get("x-amz-copy-source")?.unwrap_or_default())?;
        // The metadata is parsed even if the source's metadata is used, so that a malformed header
        // is always refused.
        let sent = Metadata::parse(fields)?;
        // Labels always come from the request, also if the other metadata comes from the source, as
        // in S3.
        let labels = CopyLabels {
            website_redirect: sent.website_redirect.clone(),
            storage_class: sent.storage_class.clone(),
        };
        let metadata = if replaces(arguments, "x-amz-metadata-directive")? {
            Directive::Replace(sent)
        } else {
            Directive::Copy
        };
        let tags = if replaces(arguments, "x-amz-tagging-directive")? {
            Directive::Replace(tags(arguments)?)
        } else {
            Directive::Copy
        };
        Ok(CopyObject {
            source,
            source_conditions: ReadPreconditions::parse_for_source(fields)?,
            metadata,
            labels,
            has_storage_class: fields.has("x-amz-storage-class"),
            tags,
            checksum: ChecksumAlgorithm::requested(fields)?,
            acl: RequestedAcl::parse(fields)?,
            condition: WritePrecondition::parse(fields)?,
            encryption,
            source_key,
        })
    }

    /// Refuses a copy of an object to itself that would change nothing. As in S3, a request that
    /// names an encryption changes the object, and so does each request if the bucket encrypts new
    /// objects by default: `bucket_encrypts`.
    ///
    /// Fails with `InvalidRequest`.
    pub fn check_not_to_itself(
        &self,
        bucket: &BucketName,
        key: &ObjectKey,
        bucket_encrypts: bool,
    ) -> Result<(), Fault> {
        // A copy of an older version to its own key restores this version, so it changes the
        // object.
        let same = self.source.bucket == *bucket
            && self.source.key == *key
            && self.source.version.is_none();
        let changes = matches!(self.metadata, Directive::Replace(_))
            || matches!(self.tags, Directive::Replace(_))
            || self.labels.website_redirect.is_some()
            || self.has_storage_class
            || self.encryption.is_some()
            || bucket_encrypts
            || self.checksum.is_some();
        if same && !changes {
            return Err(Fault::because(
                Code::InvalidRequest,
                "This copy request is illegal because it is trying to copy an object to itself \
                 without changing the object's metadata, storage class, website redirect \
                 location or encryption attributes.",
            ));
        }
        Ok(())
    }
}

pub(super) fn tags(arguments: &Arguments<'_>) -> Result<TagSet, Fault> {
    match arguments.fields.get("x-amz-tagging")? {
        None => Ok(TagSet::default()),
        Some(header) => TagSet::parse_header(header),
    }
}

fn replaces(arguments: &Arguments<'_>, name: &str) -> Result<bool, Fault> {
    match arguments.fields.get(name)? {
        None | Some("COPY") => Ok(false),
        Some("REPLACE") => Ok(true),
        Some(other) => {
            let kind = if name == "x-amz-tagging-directive" { "tagging" } else { "metadata" };
            let why = format!("Unknown {kind} directive.");
            Err(super::invalid_argument(name, other, why))
        }
    }
}
