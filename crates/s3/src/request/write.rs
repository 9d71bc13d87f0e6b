//! Writes of one object: `PutObject`, `CopyObject`.

use super::checksum::ChecksumAlgorithm;
use super::{Arguments, Fields, WRITE_OFFSET, unserved};
use crate::acl::RequestedAcl;
use crate::conditions::{ReadPreconditions, WritePrecondition};
use crate::metadata::Metadata;
use crate::name::{BucketName, CopySource, ObjectKey};
use crate::tagging::TagSet;
use crate::{Code, Fault};

/// `PutObject`. Its checksums and the shape of its body are read by `checksum` and `body`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutObject {
    /// What is stored beside the bytes.
    pub metadata: Metadata,
    /// The object's tags.
    pub tags: TagSet,
    /// Whom it is to be granted to.
    pub acl: Option<RequestedAcl>,
    /// What must hold when the object is bound to its key.
    pub condition: WritePrecondition,
    /// How long the object must be that the bytes are appended to; 0 also if there is none. Without
    /// it they replace what is there.
    pub append_at: Option<u64>,
}

impl PutObject {
    /// Reads the request. Faults: those of its parts; `NotImplemented` and `InvalidRequest` for
    /// what is not served.
    pub fn parse(arguments: &Arguments<'_>) -> Result<PutObject, Fault> {
        unserved::refuse_encryption(arguments.fields)?;
        Ok(PutObject {
            metadata: Metadata::parse(arguments.fields)?,
            tags: tags(arguments)?,
            acl: RequestedAcl::parse(arguments.fields)?,
            condition: WritePrecondition::parse(arguments.fields)?,
            append_at: append_at(arguments.fields)?,
        })
    }
}

/// `x-amz-write-offset-bytes`. Fault: `InvalidArgument`.
fn append_at(fields: Fields<'_>) -> Result<Option<u64>, Fault> {
    let name = WRITE_OFFSET;
    let Some(text) = fields.get(name)? else { return Ok(None) };
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(offset) if digits => Ok(Some(offset)),
        _ => Err(super::invalid_argument(name, text, "Invalid Argument")
            .detail("The write offset must be a number of bytes.")),
    }
}

/// Whether a copy takes something from its source or from the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Directive<T> {
    /// From the source.
    Copy,
    /// From the request, and nothing of the source.
    Replace(T),
}

/// `CopyObject`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyObject {
    /// Where to copy from.
    pub source: CopySource,
    /// What must hold for the source.
    pub source_conditions: ReadPreconditions,
    /// The metadata of the copy.
    pub metadata: Directive<Metadata>,
    /// The labels of the copy.
    pub labels: CopyLabels,
    /// The tags of the copy.
    pub tags: Directive<TagSet>,
    /// The checksum that the copy is to have.
    pub checksum: Option<ChecksumAlgorithm>,
    /// Whom it is to be granted to.
    pub acl: Option<RequestedAcl>,
    /// What must hold when the copy is bound to its key.
    pub condition: WritePrecondition,
    /// Whether the request names a storage class, be it the usual one.
    has_storage_class: bool,
}

/// What a copy is labelled with, whatever else of its metadata comes from the source: labels never
/// do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopyLabels {
    /// As in `Metadata`.
    pub website_redirect: Option<String>,
    /// As in `Metadata`.
    pub storage_class: Option<String>,
}

impl CopyObject {
    /// Reads the request. Faults as for `PutObject`, and those of the copy source.
    pub fn parse(arguments: &Arguments<'_>) -> Result<CopyObject, Fault> {
        let fields = arguments.fields;
        unserved::refuse_encryption(fields)?;
        unserved::refuse_append(fields)?;
        let source = CopySource::parse(fields.get("x-amz-copy-source")?.unwrap_or_default())?;
        // What does not count must make sense, too.
        let sent = Metadata::parse(fields)?;
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
        })
    }

    /// Refuses a copy of an object to itself that would change nothing.
    ///
    /// Fault: `InvalidRequest`.
    pub fn check_not_to_itself(&self, bucket: &BucketName, key: &ObjectKey) -> Result<(), Fault> {
        let same = self.source.bucket == *bucket
            && self.source.key == *key
            && self.source.version.is_none();
        let changes = matches!(self.metadata, Directive::Replace(_))
            || matches!(self.tags, Directive::Replace(_))
            || self.labels.website_redirect.is_some()
            || self.has_storage_class
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
