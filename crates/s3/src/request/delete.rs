//! Deletions, of one object and of many.

use super::{Arguments, unserved};
use crate::Fault;
use crate::conditions::{ETagList, StatPrecondition, WritePrecondition};
use crate::name::{ObjectKey, VersionId};
use crate::xml::{Element, XmlLimits, malformed};

/// `DeleteObject`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteObject {
    /// The version, if not the current one.
    pub version: Option<VersionId>,
    /// `If-Match`, or none.
    pub condition: WritePrecondition,
    /// What else must hold of the object.
    pub stat: StatPrecondition,
}

impl DeleteObject {
    /// Reads the request. Faults: `NotImplemented` for conditions that S3 does not define on
    /// deletions; `InvalidArgument` for those that cannot be read.
    pub fn parse(arguments: &Arguments<'_>) -> Result<DeleteObject, Fault> {
        let fields = arguments.fields;
        if fields.has("if-none-match") {
            return Err(unserved::not_implemented("if-none-match"));
        }
        Ok(DeleteObject {
            version: arguments.version()?,
            condition: WritePrecondition::parse(fields)?,
            stat: StatPrecondition::parse(fields)?,
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
    /// What else must hold of the object.
    pub stat: StatPrecondition,
}

impl DeleteObjects {
    /// Objects of one request, at most.
    pub const DELETIONS_MAX: usize = 1000;

    /// Reads the body.
    ///
    /// Faults: `MalformedXML`, also for none and for more than 1000 objects; what a key answers;
    /// `InvalidArgument` for conditions that cannot be read.
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
    let stat = StatPrecondition::from_texts(
        ("Size", object.value("Size")?),
        ("LastModifiedTime", object.value("LastModifiedTime")?),
    )?;
    Ok(Deletion { key: ObjectKey::parse(key.text())?, version, condition, stat })
}
