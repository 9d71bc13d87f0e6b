//! Reads of one object: `GetObject`, `HeadObject`, `GetObjectAttributes`.

use time::OffsetDateTime;

use super::{Arguments, PartNumber, unserved};
use crate::conditions::{ReadPreconditions, parse_http_date};
use crate::name::VersionId;
use crate::range::Range;
use crate::{Code, Fault};

/// `GetObject`, and `HeadObject`, which asks for the same without the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GetObject {
    /// The version, if not the current one.
    pub version: Option<VersionId>,
    /// The bytes wanted; `None` for all of them. Never together with a part.
    pub range: Option<Range>,
    /// The part wanted.
    pub part: Option<PartNumber>,
    /// What must hold for a response with content.
    pub conditions: ReadPreconditions,
    /// Whether the object's checksum is wanted, where the response is the whole object or a part.
    pub checksum: bool,
    /// Headers that replace the stored ones: names in lower case.
    pub overrides: Vec<(&'static str, String)>,
    /// `If-Range`: see `range_for`.
    if_range: Option<String>,
}

const OVERRIDES: [(&str, &str); 6] = [
    ("response-cache-control", "cache-control"),
    ("response-content-disposition", "content-disposition"),
    ("response-content-encoding", "content-encoding"),
    ("response-content-language", "content-language"),
    ("response-content-type", "content-type"),
    ("response-expires", "expires"),
];

impl GetObject {
    /// Reads the request.
    ///
    /// Faults: `InvalidRequest` for overrides without a signature and for a range together with
    /// a part; `InvalidArgument` for control characters in an override; `NotImplemented` for
    /// keys of the client's.
    pub fn parse(arguments: &Arguments<'_>) -> Result<GetObject, Fault> {
        let fields = arguments.fields;
        unserved::refuse_encryption(fields)?;
        let part = match arguments.query.get("partNumber")? {
            None => None,
            Some(text) => Some(PartNumber::parse(text)?),
        };
        // Several `Range` headers ask for several ranges, which are not served.
        let range = fields.joined("range")?;
        if part.is_some() && range.is_some() {
            return Err(Fault::because(
                Code::InvalidRequest,
                "Cannot specify both Range header and partNumber query parameter",
            ));
        }
        Ok(GetObject {
            version: arguments.version()?,
            range: range.as_deref().and_then(Range::parse),
            part,
            conditions: ReadPreconditions::parse(fields)?,
            checksum: fields
                .get("x-amz-checksum-mode")?
                .is_some_and(|mode| mode.eq_ignore_ascii_case("ENABLED")),
            overrides: overrides(arguments)?,
            if_range: fields.get("if-range")?.map(str::to_owned),
        })
    }

    /// The range that applies to the object: none if `If-Range` names another version of it, so
    /// that a resumed download never joins two versions. `etag` is without quotes.
    pub fn range_for(&self, etag: &str, last_modified: OffsetDateTime) -> Option<Range> {
        let range = self.range?;
        let Some(wanted) = &self.if_range else { return Some(range) };
        let same = match wanted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
            Some(tag) => tag == etag,
            None => parse_http_date(wanted)
                .is_some_and(|date| date.unix_timestamp() == last_modified.unix_timestamp()),
        };
        same.then_some(range)
    }
}

fn overrides(arguments: &Arguments<'_>) -> Result<Vec<(&'static str, String)>, Fault> {
    let mut overrides = Vec::new();
    for (parameter, header) in OVERRIDES {
        let Some(value) = arguments.query.get(parameter)? else { continue };
        if arguments.anonymous {
            return Err(Fault::because(
                Code::InvalidRequest,
                "Request specific response headers cannot be used for anonymous GET requests.",
            ));
        }
        if value.chars().any(char::is_control) {
            return Err(super::invalid(parameter, "The value holds control characters."));
        }
        overrides.push((header, value.to_owned()));
    }
    Ok(overrides)
}

/// An attribute that `GetObjectAttributes` can return.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ObjectAttribute {
    /// The ETag.
    ETag,
    /// The checksum.
    Checksum,
    /// The parts of a multipart object.
    ObjectParts,
    /// The storage class.
    StorageClass,
    /// The size in bytes.
    ObjectSize,
}

/// `GetObjectAttributes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GetObjectAttributes {
    /// The version, if not the current one.
    pub version: Option<VersionId>,
    /// What is asked for; never empty.
    pub attributes: Vec<ObjectAttribute>,
    /// Parts on the page, 0 to 1000.
    pub max_parts: u32,
    /// Only parts after this one.
    pub part_marker: u32,
}

impl GetObjectAttributes {
    /// Reads the request. Faults: `InvalidArgument`, and `InvalidRequest` when nothing is asked for.
    pub fn parse(arguments: &Arguments<'_>) -> Result<GetObjectAttributes, Fault> {
        let fields = arguments.fields;
        unserved::refuse_encryption(fields)?;
        let list = fields.joined("x-amz-object-attributes")?.unwrap_or_default();
        let attributes = list
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty())
            .map(|name| match name {
                "ETag" => Ok(ObjectAttribute::ETag),
                "Checksum" => Ok(ObjectAttribute::Checksum),
                "ObjectParts" => Ok(ObjectAttribute::ObjectParts),
                "StorageClass" => Ok(ObjectAttribute::StorageClass),
                "ObjectSize" => Ok(ObjectAttribute::ObjectSize),
                _ => Err(super::invalid(
                    "x-amz-object-attributes",
                    "Invalid attribute name specified.",
                )
                .with("ArgumentValue", name)),
            })
            .collect::<Result<Vec<_>, _>>()?;
        if attributes.is_empty() {
            return Err(Fault::because(
                Code::InvalidRequest,
                "The x-amz-object-attributes header specifying the attributes to be retrieved is either missing or empty",
            ));
        }
        let count = |name: &str| -> Result<_, Fault> {
            fields.get(name)?.map(|text| super::parse_count(name, text)).transpose()
        };
        Ok(GetObjectAttributes {
            version: arguments.version()?,
            attributes,
            max_parts: count("x-amz-max-parts")?.unwrap_or(1000).min(1000),
            part_marker: count("x-amz-part-number-marker")?.unwrap_or(0),
        })
    }
}
