//! Requests that read one object: `GetObject`, `HeadObject`, `GetObjectAttributes`.

use std::sync::Arc;

use time::OffsetDateTime;

use super::{Arguments, PartNumber};
use crate::conditions::{ReadPreconditions, parse_http_date};
use crate::encryption::CustomerKey;
use crate::name::VersionId;
use crate::range::Range;
use crate::{Code, Fault};

/// A `GetObject` or `HeadObject` request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GetObject {
    /// The version of the object; `None` for the current version.
    pub version: Option<VersionId>,
    /// The bytes to read; `None` for all bytes. Never set together with `part`.
    pub range: Option<Range>,
    /// The number of the part of a multipart object to read; `None` if the request names no part.
    pub part: Option<PartNumber>,
    /// The preconditions of the read.
    pub conditions: ReadPreconditions,
    /// True if the response must include the object's checksum, if it contains the whole object or
    /// a part.
    pub checksum: bool,
    /// Response headers that replace the stored ones: lower-case names with their values.
    pub overrides: Vec<(&'static str, String)>,
    /// The key of the client, with which the object is encrypted.
    pub customer_key: Option<Arc<CustomerKey>>,
    /// The header `If-Range`: the ETag or time of the object to which the range applies. See
    /// `range_for`.
    if_range: Option<String>,
}

/// The query parameters that replace response headers, with the names of these headers.
const OVERRIDES: [(&str, &str); 6] = [
    ("response-cache-control", "cache-control"),
    ("response-content-disposition", "content-disposition"),
    ("response-content-encoding", "content-encoding"),
    ("response-content-language", "content-language"),
    ("response-content-type", "content-type"),
    ("response-expires", "expires"),
];

impl GetObject {
    /// Parses a `GetObject` or `HeadObject` request.
    ///
    /// Fails with `InvalidRequest` for overrides in an anonymous request, and for a range together
    /// with a part; with `InvalidArgument` for control characters in an override; with the faults
    /// of [`CustomerKey::for_read`].
    pub fn parse(arguments: &Arguments<'_>) -> Result<GetObject, Fault> {
        let fields = arguments.fields;
        let customer_key = CustomerKey::for_read(fields)?;
        let part = match arguments.query.get("partNumber")? {
            None => None,
            Some(text) => Some(PartNumber::parse(text)?),
        };
        // Several `Range` headers ask for several ranges, which are not supported.
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
            customer_key,
            if_range: fields.get("if-range")?.map(str::to_owned),
        })
    }

    /// Returns the byte range that applies to the object that was found, with this ETag and time.
    /// `None` for the whole object: if there is no `Range`, or if `If-Range` names another version
    /// of the object, so that a resumed download never joins bytes of two versions. `etag` has no
    /// quotes.
    pub fn range_for(&self, etag: &str, last_modified: OffsetDateTime) -> Option<Range> {
        let range = self.range?;
        let Some(wanted) = &self.if_range else { return Some(range) };
        // A quoted value is an entity tag, otherwise it is a date. A weak tag or a malformed value
        // never matches, so the response is the whole object.
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
        // S3 allows these parameters only in signed requests.
        if arguments.anonymous {
            return Err(Fault::because(
                Code::InvalidRequest,
                "Request specific response headers cannot be used for anonymous GET requests.",
            ));
        }
        // A control character in a header value could begin another header.
        if value.chars().any(char::is_control) {
            return Err(super::invalid(parameter, "The value contains control characters."));
        }
        overrides.push((header, value.to_owned()));
    }
    Ok(overrides)
}

/// An attribute that `GetObjectAttributes` can return.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ObjectAttribute {
    /// The attribute is the ETag of the object.
    ETag,
    /// The attribute is the checksum of the object.
    Checksum,
    /// The attribute is the list of the parts of a multipart object.
    ObjectParts,
    /// The attribute is the storage class of the object.
    StorageClass,
    /// The attribute is the size of the object in bytes.
    ObjectSize,
}

/// A `GetObjectAttributes` request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GetObjectAttributes {
    /// The version of the object; `None` for the current version.
    pub version: Option<VersionId>,
    /// The requested attributes; never empty.
    pub attributes: Vec<ObjectAttribute>,
    /// The maximum number of parts on the page: 0 to 1000.
    pub max_parts: u32,
    /// Lists only parts with a number above this one; 0 lists all.
    pub part_marker: u32,
    /// The key of the client, with which the object is encrypted.
    pub customer_key: Option<Arc<CustomerKey>>,
}

impl GetObjectAttributes {
    /// Parses a `GetObjectAttributes` request. Fails with `InvalidArgument`, with `InvalidRequest`
    /// if no attribute is requested, or with the faults of [`CustomerKey::for_read`].
    pub fn parse(arguments: &Arguments<'_>) -> Result<GetObjectAttributes, Fault> {
        let fields = arguments.fields;
        let customer_key = CustomerKey::for_read(fields)?;
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
            customer_key,
        })
    }
}
