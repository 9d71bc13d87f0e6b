//! Deletions, of one object and of many.

use super::{Arguments, unserved};
use crate::conditions::{ETagList, WritePrecondition};
use crate::name::{ObjectKey, VersionId};
use crate::xml::{Element, XmlLimits, malformed};
use crate::{Code, Fault};

/// `DeleteObject`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteObject {
    /// The version, if not the current one.
    pub version: Option<VersionId>,
    /// `If-Match`, or none.
    pub condition: WritePrecondition,
}

impl DeleteObject {
    /// Reads the request. Fault: `NotImplemented` for conditions that S3 defines only for
    /// directory buckets.
    pub fn parse(arguments: &Arguments<'_>) -> Result<DeleteObject, Fault> {
        let fields = arguments.fields;
        for name in ["x-amz-if-match-last-modified-time", "x-amz-if-match-size", "if-none-match"] {
            if fields.has(name) {
                return Err(unserved::not_implemented(name));
            }
        }
        Ok(DeleteObject {
            version: arguments.version()?,
            condition: WritePrecondition::parse(fields)?,
        })
    }
}

/// `DeleteObjects`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteObjects {
    /// What to delete, in order, duplicates included: 1 to 1000.
    pub deletions: Vec<Deletion>,
    /// Whether the response leaves out what succeeded.
    pub quiet: bool,
}

/// One object of `DeleteObjects`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deletion {
    /// The key.
    pub key: ObjectKey,
    /// The version, if not the current one.
    pub version: Option<VersionId>,
    /// The ETag that the object must have, or none.
    pub condition: WritePrecondition,
}

impl DeleteObjects {
    /// Objects of one request, at most.
    pub const DELETIONS_MAX: usize = 1000;

    /// Reads the body.
    ///
    /// Faults: `MalformedXML`, also for none and for more than 1000 objects; what a key answers;
    /// `NotImplemented` for conditions that S3 defines only for directory buckets.
    pub fn parse(body: &[u8]) -> Result<DeleteObjects, Fault> {
        let root = Element::parse(body, "Delete", XmlLimits::LARGE)?;
        let mut deletions = Vec::new();
        for object in root.children().iter().filter(|child| child.name() == "Object") {
            if deletions.len() == DeleteObjects::DELETIONS_MAX {
                return Err(malformed("it names more than 1000 objects"));
            }
            deletions.push(deletion(object)?);
        }
        if deletions.is_empty() {
            return Err(malformed("it names no object"));
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
    for name in ["LastModifiedTime", "Size"] {
        if object.child(name)?.is_some() {
            return Err(Fault::new(Code::NotImplemented).with("Element", name));
        }
    }
    // White space may be part of a key, so the text is not trimmed.
    let key = object.child("Key")?.ok_or_else(|| malformed("an Object has no Key"))?;
    let version = match object.value("VersionId")? {
        None | Some("") => None,
        Some(text) => Some(VersionId::parse(text)?),
    };
    let condition = match object.value("ETag")? {
        None | Some("") => WritePrecondition::None,
        Some(text) => WritePrecondition::IfMatch(ETagList::parse(text)),
    };
    Ok(Deletion { key: ObjectKey::parse(key.text())?, version, condition })
}
