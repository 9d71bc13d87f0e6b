//! Requests about multipart uploads.

use std::sync::Arc;

use time::OffsetDateTime;

use super::checksum::{ChecksumAlgorithm, ChecksumType, FinalChecksum};
use super::page::{page, url_encoded};
use super::{Arguments, unserved, write};
use crate::acl::RequestedAcl;
use crate::conditions::{ReadPreconditions, StatPrecondition, WritePrecondition};
use crate::encryption::{CustomerKey, RequestedEncryption};
use crate::metadata::Metadata;
use crate::name::CopySource;
use crate::range::Range;
use crate::tagging::TagSet;
use crate::xml::{Element, XmlLimits, malformed};
use crate::{Code, Fault};

/// The number of a part in a multipart upload: 1 to 10,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartNumber(u16);

impl PartNumber {
    /// The largest part number.
    pub const MAX: u16 = 10_000;

    /// Parses a part number. Fails with `InvalidArgument`.
    pub fn parse(text: &str) -> Result<PartNumber, Fault> {
        // `u16::from_str` also accepts a plus sign.
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse() {
            Ok(number @ 1..=PartNumber::MAX) if digits => Ok(PartNumber(number)),
            _ => Err(Fault::because(
                Code::InvalidArgument,
                "Part number must be an integer between 1 and 10000, inclusive.",
            )
            .with("ArgumentName", "partNumber")
            .with("ArgumentValue", text)),
        }
    }

    /// Returns the part number, 1 to 10,000.
    pub const fn get(self) -> u16 {
        self.0
    }
}

/// An upload id in a request: 1 to 256 visible ASCII characters. The upload itself is not looked up
/// here, so it may not exist.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UploadIdText(String);

impl UploadIdText {
    /// Parses an id. Fails with `NoSuchUpload`, because the gateway never issued a malformed id.
    pub fn parse(text: &str) -> Result<UploadIdText, Fault> {
        let visible = text.bytes().all(|byte| byte.is_ascii_graphic());
        if visible && (1..=256).contains(&text.len()) {
            Ok(UploadIdText(text.to_owned()))
        } else {
            Err(Code::NoSuchUpload.into())
        }
    }

    /// Returns the upload id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the id in a request's query. Fails as `parse`.
    pub fn from_query(arguments: &Arguments<'_>) -> Result<UploadIdText, Fault> {
        UploadIdText::parse(arguments.query.get("uploadId")?.unwrap_or_default())
    }
}

/// A `CreateMultipartUpload` request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateMultipartUpload {
    /// The metadata of the object.
    pub metadata: Metadata,
    /// The tags of the object.
    pub tags: TagSet,
    /// The ACL of the object.
    pub acl: Option<RequestedAcl>,
    /// The checksum algorithm of the parts, and the checksum type of the object.
    pub checksum: Option<(ChecksumAlgorithm, ChecksumType)>,
    /// The encryption of the object; `None` for the default of the bucket.
    pub encryption: Option<RequestedEncryption>,
}

impl CreateMultipartUpload {
    /// Parses a `CreateMultipartUpload` request. Fails as `PutObject::parse`; or with
    /// `InvalidRequest` for a checksum type without an algorithm, or for a type that the algorithm
    /// does not support.
    pub fn parse(arguments: &Arguments<'_>) -> Result<CreateMultipartUpload, Fault> {
        let fields = arguments.fields;
        let encryption = RequestedEncryption::parse(fields)?;
        // An append is a `PutObject`; a multipart upload always creates a new object.
        unserved::refuse_append(fields)?;
        // A type without an algorithm has no meaning, and S3 refuses it.
        let checksum_type = ChecksumType::requested(fields)?;
        let checksum = match ChecksumAlgorithm::requested(fields)? {
            Some(algorithm) => Some((algorithm, ChecksumType::resolve(algorithm, checksum_type)?)),
            None if checksum_type.is_some() => {
                return Err(Fault::because(
                    Code::InvalidRequest,
                    "The x-amz-checksum-type header can only be used with the \
                     x-amz-checksum-algorithm header.",
                ));
            }
            None => None,
        };
        Ok(CreateMultipartUpload {
            metadata: Metadata::parse(fields)?,
            tags: write::tags(arguments)?,
            acl: RequestedAcl::parse(fields)?,
            checksum,
            encryption,
        })
    }
}

/// An `UploadPart` request. `checksum` and `body` parse its checksums and its framing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadPart {
    /// The id of the multipart upload.
    pub upload: UploadIdText,
    /// The number of the part in the multipart upload.
    pub part: PartNumber,
    /// The encryption that the request names. It must be the upload's: see
    /// [`RequestedEncryption::check_step`].
    pub encryption: Option<RequestedEncryption>,
}

impl UploadPart {
    /// Parses an `UploadPart` request. Fails with `NoSuchUpload`, `InvalidArgument` or
    /// `NotImplemented`, or with the faults of encryption.
    pub fn parse(arguments: &Arguments<'_>) -> Result<UploadPart, Fault> {
        UploadPart::with(arguments, RequestedEncryption::parse(arguments.fields)?)
    }

    /// Parses the upload and the number of the part.
    fn with(
        arguments: &Arguments<'_>,
        encryption: Option<RequestedEncryption>,
    ) -> Result<UploadPart, Fault> {
        unserved::refuse_append(arguments.fields)?;
        Ok(UploadPart {
            encryption,
            // The part number comes first: a malformed number is `InvalidArgument`, even if the
            // upload id is malformed, too.
            part: PartNumber::parse(arguments.query.get("partNumber")?.unwrap_or_default())?,
            upload: UploadIdText::from_query(arguments)?,
        })
    }
}

/// An `UploadPartCopy` request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadPartCopy {
    /// The id of the multipart upload.
    pub upload: UploadIdText,
    /// The number of the part in the multipart upload.
    pub part: PartNumber,
    /// The object to copy from.
    pub source: CopySource,
    /// The bytes to copy; `None` for all bytes.
    pub range: Option<Range>,
    /// The preconditions on the source.
    pub source_conditions: ReadPreconditions,
    /// The encryption that the request names: see [`UploadPart::encryption`].
    pub encryption: Option<RequestedEncryption>,
    /// The key of the client, with which the source is encrypted.
    pub source_key: Option<Arc<CustomerKey>>,
}

impl UploadPartCopy {
    /// Parses an `UploadPartCopy` request. Fails as `UploadPart::parse`, or with the faults of the
    /// copy source and of the range.
    pub fn parse(arguments: &Arguments<'_>) -> Result<UploadPartCopy, Fault> {
        let fields = arguments.fields;
        let encryption = RequestedEncryption::parse_for_copy(fields)?;
        let source_key = CustomerKey::of_copy_source(fields)?;
        let UploadPart { upload, part, encryption } = UploadPart::with(arguments, encryption)?;
        Ok(UploadPartCopy {
            encryption,
            source_key,
            upload,
            part,
            source: CopySource::parse(fields.get("x-amz-copy-source")?.unwrap_or_default())?,
            range: fields.get("x-amz-copy-source-range")?.map(Range::parse_strict).transpose()?,
            source_conditions: ReadPreconditions::parse_for_source(fields)?,
        })
    }
}

/// A `CompleteMultipartUpload` request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompleteMultipartUpload {
    /// The id of the multipart upload.
    pub upload: UploadIdText,
    /// The parts of the object, in ascending order: 1 to 10,000.
    pub parts: Vec<CompletedPart>,
    /// The object size in bytes that the client expects.
    pub object_size: Option<u64>,
    /// The object checksum that the client expects.
    pub checksum: Option<FinalChecksum>,
    /// The type of this checksum, as the client expects it.
    pub checksum_type: Option<ChecksumType>,
    /// The precondition, which the commit checks.
    pub condition: WritePrecondition,
    /// The encryption that the request names: see [`UploadPart::encryption`]. A key of the client
    /// may be left out.
    pub encryption: Option<RequestedEncryption>,
}

/// A part in the document of `CompleteMultipartUpload`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletedPart {
    /// The number of the part in the multipart upload.
    pub number: PartNumber,
    /// The part's ETag, without quotes.
    pub etag: String,
    /// The part's checksum; its length fits the algorithm.
    pub checksum: Option<(ChecksumAlgorithm, Vec<u8>)>,
}

impl CompleteMultipartUpload {
    /// Parses a `CompleteMultipartUpload` request.
    ///
    /// Fails with `InvalidPartOrder`; `MalformedXML`, also if there are no parts; `InvalidArgument`
    /// for a part number out of range, and for a malformed or a second checksum of a part;
    /// `InvalidRequest` for a malformed or a second checksum of the object, and for a malformed
    /// object size.
    pub fn parse(arguments: &Arguments<'_>, body: &[u8]) -> Result<CompleteMultipartUpload, Fault> {
        let fields = arguments.fields;
        let encryption = RequestedEncryption::parse(fields)?;
        Ok(CompleteMultipartUpload {
            encryption,
            upload: UploadIdText::from_query(arguments)?,
            parts: parts(body)?,
            object_size: fields.get("x-amz-mp-object-size")?.map(object_size).transpose()?,
            checksum: FinalChecksum::from_headers(fields)?,
            checksum_type: ChecksumType::requested(fields)?,
            condition: WritePrecondition::parse(fields)?,
        })
    }
}

fn object_size(text: &str) -> Result<u64, Fault> {
    // `parse` also accepts a plus sign, which S3 does not.
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits).ok_or_else(|| {
        let why = match text.parse::<i64>() {
            // S3 has different messages for negative numbers and for text.
            Ok(..0) => "less than zero",
            Ok(0..) | Err(_) => "invalid",
        };
        Fault::because(
            Code::InvalidRequest,
            format!("Value for x-amz-mp-object-size header is {why}: '{text}'"),
        )
    })
}

fn parts(body: &[u8]) -> Result<Vec<CompletedPart>, Fault> {
    let root = Element::parse(body, "CompleteMultipartUpload", XmlLimits::LARGE)?;
    let mut parts: Vec<CompletedPart> = Vec::new();
    for element in root.children().iter().filter(|child| child.name() == "Part") {
        let part = completed_part(element)?;
        // Equal numbers are also out of order, because a part can be used only once.
        if parts.last().is_some_and(|last| last.number >= part.number) {
            return Err(Code::InvalidPartOrder.into());
        }
        parts.push(part);
    }
    // The part numbers are ascending and at most 10,000, so there are at most 10,000 parts.
    if parts.is_empty() {
        return Err(malformed("the document has no Part"));
    }
    Ok(parts)
}

fn completed_part(element: &Element) -> Result<CompletedPart, Fault> {
    let number = element.required("PartNumber")?;
    // S3 has a specific message for numbers below 1.
    if number.parse::<i64>().is_ok_and(|number| number < 1) {
        return Err(Fault::because(Code::InvalidArgument, "PartNumber must be >= 1")
            .with("ArgumentName", "PartNumber")
            .with("ArgumentValue", number));
    }
    let number = PartNumber::parse(number)?;
    let etag = element.required("ETag")?;
    // Clients send ETags with or without quotes.
    let etag = etag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"')).unwrap_or(etag);
    let mut checksums = Vec::new();
    for algorithm in ChecksumAlgorithm::ALL {
        if let Some(text) = element.value(algorithm.element())? {
            checksums.push((algorithm, text));
        }
    }
    let checksum = match checksums[..] {
        [] => None,
        [(algorithm, text)] => {
            let sum = algorithm.decode(text).ok_or_else(|| invalid_part_checksum(text))?;
            Some((algorithm, sum))
        }
        _ => {
            let all =
                checksums.iter().flat_map(|(algorithm, text)| [algorithm.as_str(), ":", text, ";"]);
            return Err(invalid_part_checksum(&all.collect::<String>()));
        }
    };
    Ok(CompletedPart { number, etag: etag.to_owned(), checksum })
}

fn invalid_part_checksum(text: &str) -> Fault {
    let why = "Invalid Base64 or multiple checksums present in request";
    Fault::because(Code::InvalidArgument, why)
        .with("ArgumentName", "Checksum")
        .with("ArgumentValue", text)
}

/// An `AbortMultipartUpload` request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbortMultipartUpload {
    /// The id of the multipart upload.
    pub upload: UploadIdText,
    /// The time at which the upload must have begun, compared in whole seconds.
    pub initiated: Option<OffsetDateTime>,
}

impl AbortMultipartUpload {
    /// Parses an `AbortMultipartUpload` request. Fails with `NoSuchUpload`, or with
    /// `InvalidArgument` for a malformed time.
    pub fn parse(arguments: &Arguments<'_>) -> Result<AbortMultipartUpload, Fault> {
        let name = "x-amz-if-match-initiated-time";
        // The header has the same date formats as the precondition of deletions, and a malformed
        // date is refused, too.
        let initiated =
            StatPrecondition::from_texts(("", None), (name, arguments.fields.get(name)?))?;
        let upload = UploadIdText::from_query(arguments)?;
        Ok(AbortMultipartUpload { upload, initiated: initiated.modified })
    }
}

/// A `ListParts` request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListParts {
    /// The id of the multipart upload.
    pub upload: UploadIdText,
    /// The maximum number of parts on the page: 0 to 1000.
    pub max_parts: u32,
    /// Lists only parts with a number above this one; 0 lists all.
    pub part_marker: u32,
    /// True if the response percent-encodes the key.
    pub url_encoded: bool,
    /// The key of the client with which the upload began (SSE-C). The answer has the checksums of
    /// parts only if the request has this key.
    pub customer_key: Option<Arc<CustomerKey>>,
}

impl ListParts {
    /// Parses a `ListParts` request. Fails with `NoSuchUpload` or `InvalidArgument`.
    pub fn parse(arguments: &Arguments<'_>) -> Result<ListParts, Fault> {
        Ok(ListParts {
            upload: UploadIdText::from_query(arguments)?,
            max_parts: page(arguments, "max-parts")?,
            part_marker: arguments.count("part-number-marker")?.unwrap_or(0),
            url_encoded: url_encoded(arguments)?,
            customer_key: CustomerKey::for_read(arguments.fields)?,
        })
    }
}
