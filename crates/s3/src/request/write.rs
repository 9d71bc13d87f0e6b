//! Writes of one object: `PutObject`, `CopyObject`.

use super::checksum::ChecksumAlgorithm;
use super::{Arguments, unserved};
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
    /// What must hold when the object is bound to its key.
    pub condition: WritePrecondition,
}

impl PutObject {
    /// Reads the request. Faults: those of its parts; `NotImplemented` and `InvalidRequest` for
    /// what is not served.
    pub fn parse(arguments: &Arguments<'_>) -> Result<PutObject, Fault> {
        unserved::refuse_on_write(arguments.fields)?;
        Ok(PutObject {
            metadata: Metadata::parse(arguments.fields)?,
            tags: tags(arguments)?,
            condition: WritePrecondition::parse(arguments.fields)?,
        })
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
    /// The tags of the copy.
    pub tags: Directive<TagSet>,
    /// The checksum that the copy is to have.
    pub checksum: Option<ChecksumAlgorithm>,
    /// What must hold when the copy is bound to its key.
    pub condition: WritePrecondition,
}

impl CopyObject {
    /// Reads the request. Faults as for `PutObject`, and those of the copy source.
    pub fn parse(arguments: &Arguments<'_>) -> Result<CopyObject, Fault> {
        let fields = arguments.fields;
        unserved::refuse_on_write(fields)?;
        let source = CopySource::parse(fields.get("x-amz-copy-source")?.unwrap_or_default())?;
        let metadata = if replaces(arguments, "x-amz-metadata-directive")? {
            Directive::Replace(Metadata::parse(fields)?)
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
            tags,
            checksum: ChecksumAlgorithm::wanted(fields)?,
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
        Some(_) => Err(super::invalid(name, "The directive is neither COPY nor REPLACE.")),
    }
}
