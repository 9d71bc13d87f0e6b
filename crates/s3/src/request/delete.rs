//! Requests that delete one object or many objects.

use super::Arguments;
use crate::Fault;
use crate::conditions::{ETagList, StatPrecondition, WritePrecondition};
use crate::name::{ObjectKey, VersionId};
use crate::xml::{Element, XmlLimits, malformed};

/// A `DeleteObject` request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteObject {
    /// The version of the object; `None` for the current version.
    pub version: Option<VersionId>,
    /// The precondition `If-Match`: the entity tags that the object may have. It is
    /// `WritePrecondition::None` without this header.
    pub condition: WritePrecondition,
    /// The preconditions on the size and the last-modified time of the object.
    pub stat: StatPrecondition,
}

impl DeleteObject {
    /// Parses a `DeleteObject` request. Fails with `NotImplemented` for a precondition that S3 does
    /// not define for deletions, and with `InvalidArgument` for a malformed one.
    pub fn parse(arguments: &Arguments<'_>) -> Result<DeleteObject, Fault> {
        let fields = arguments.fields;
        // S3 has no such precondition for deletions. Ignoring it could delete an object that the
        // client wanted to keep.
        if fields.has("if-none-match") {
            return Err(Fault::unserved_header("if-none-match"));
        }
        Ok(DeleteObject {
            version: arguments.version()?,
            condition: WritePrecondition::parse(fields)?,
            stat: StatPrecondition::parse(fields)?,
        })
    }
}

/// A `DeleteObjects` request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteObjects {
    /// The objects to delete, in request order, duplicates included: 1 to 1000.
    pub deletions: Vec<Deletion>,
    /// True if the response lists only the failures.
    pub quiet: bool,
}

/// One entry in the body of a `DeleteObjects` request: an object to delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deletion {
    /// The key of the object to delete.
    pub key: ObjectKey,
    /// The version of the object; `None` for the current version.
    pub version: Option<VersionId>,
    /// The entity tag that the object must have, if any.
    pub condition: WritePrecondition,
    /// The preconditions on the size and the last-modified time of the object.
    pub stat: StatPrecondition,
}

impl DeleteObjects {
    /// The maximum number of objects in one request.
    pub const DELETIONS_MAX: usize = 1000;

    /// Parses the body of a `DeleteObjects` request.
    ///
    /// Fails with `MalformedXML`, also for no objects or more than 1000; with the faults of
    /// `ObjectKey::parse`; or with `InvalidArgument` for a malformed precondition.
    pub fn parse(body: &[u8]) -> Result<DeleteObjects, Fault> {
        let root = Element::parse(body, "Delete", XmlLimits::LARGE)?;
        let mut deletions = Vec::new();
        for object in root.children().iter().filter(|child| child.name() == "Object") {
            // The limit is checked before the entry is parsed, so that a long list costs no more
            // than its limit.
            if deletions.len() == DeleteObjects::DELETIONS_MAX {
                return Err(malformed("the document has more than 1000 objects"));
            }
            deletions.push(deletion(object)?);
        }
        if deletions.is_empty() {
            return Err(malformed("the document has no Object"));
        }
        let quiet = match root.value("Quiet")? {
            None | Some("false") => false,
            Some("true") => true,
            Some(_) => return Err(malformed("Quiet is neither true nor false")),
        };
        Ok(DeleteObjects { deletions, quiet })
    }
}

fn deletion(object: &Element) -> Result<Deletion, Fault> {
    // White space can be part of a key, so the text is not trimmed.
    let key = object.child("Key")?.ok_or_else(|| malformed("an Object has no Key"))?;
    let version = match object.value("VersionId")? {
        None | Some("") => None,
        Some(text) => Some(VersionId::parse(text)?),
    };
    let condition = match object.value("ETag")? {
        None | Some("") => WritePrecondition::None,
        Some(text) => WritePrecondition::IfMatch(ETagList::parse(text)),
    };
    let stat = StatPrecondition::from_texts(
        ("Size", object.value("Size")?),
        ("LastModifiedTime", object.value("LastModifiedTime")?),
    )?;
    Ok(Deletion { key: ObjectKey::parse(key.text())?, version, condition, stat })
}
