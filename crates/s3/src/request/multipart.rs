//! Multipart uploads.

use time::OffsetDateTime;

use super::checksum::{ChecksumAlgorithm, ChecksumType, FinalChecksum};
use super::page::{page, url_encoded};
use super::{Arguments, unserved, write};
use crate::acl::RequestedAcl;
use crate::conditions::{ReadPreconditions, StatPrecondition, WritePrecondition};
use crate::metadata::Metadata;
use crate::name::CopySource;
use crate::range::Range;
use crate::tagging::TagSet;
use crate::xml::{Element, XmlLimits, malformed};
use crate::{Code, Fault};

/// A part's number: 1 to 10,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartNumber(u16);

impl PartNumber {
    /// The greatest.
    pub const MAX: u16 = 10_000;

    /// Reads a number. Fault: `InvalidArgument`.
    pub fn parse(text: &str) -> Result<PartNumber, Fault> {
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

    /// The number.
    pub const fn get(self) -> u16 {
        self.0
    }
}

/// An upload's id as a request states it: 1 to 256 visible ASCII characters. Whether there is such
/// an upload is not known yet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UploadIdText(String);

impl UploadIdText {
    /// Takes an id. Fault: `NoSuchUpload`, since no such id was ever given out.
    pub fn parse(text: &str) -> Result<UploadIdText, Fault> {
        let visible = text.bytes().all(|byte| byte.is_ascii_graphic());
        if visible && (1..=256).contains(&text.len()) {
            Ok(UploadIdText(text.to_owned()))
        } else {
            Err(Code::NoSuchUpload.into())
        }
    }

    /// The id.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id in a request's query. Fault: as `parse`.
    pub fn from_query(arguments: &Arguments<'_>) -> Result<UploadIdText, Fault> {
        UploadIdText::parse(arguments.query.get("uploadId")?.unwrap_or_default())
    }
}

/// `CreateMultipartUpload`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateMultipartUpload {
    /// What will be stored beside the bytes.
    pub metadata: Metadata,
    /// The object's tags.
    pub tags: TagSet,
    /// Whom the object is to be granted to.
    pub acl: Option<RequestedAcl>,
    /// The checksum that parts carry, and how the object's comes from them.
    pub checksum: Option<(ChecksumAlgorithm, ChecksumType)>,
}

impl CreateMultipartUpload {
    /// Reads the request. Faults as for `PutObject`; `InvalidRequest` for a checksum type that
    /// stands alone or does not go with its algorithm.
    pub fn parse(arguments: &Arguments<'_>) -> Result<CreateMultipartUpload, Fault> {
        let fields = arguments.fields;
        unserved::refuse_encryption(fields)?;
        unserved::refuse_append(fields)?;
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
        })
    }
}

/// `UploadPart`. Its checksums and the shape of its body are read by `checksum` and `body`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadPart {
    /// The upload.
    pub upload: UploadIdText,
    /// The part's number.
    pub part: PartNumber,
}

impl UploadPart {
    /// Reads the request. Faults: `NoSuchUpload`, `InvalidArgument`, `NotImplemented`.
    pub fn parse(arguments: &Arguments<'_>) -> Result<UploadPart, Fault> {
        unserved::refuse_encryption(arguments.fields)?;
        unserved::refuse_append(arguments.fields)?;
        Ok(UploadPart {
            part: PartNumber::parse(arguments.query.get("partNumber")?.unwrap_or_default())?,
            upload: UploadIdText::from_query(arguments)?,
        })
    }
}

/// `UploadPartCopy`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadPartCopy {
    /// The upload.
    pub upload: UploadIdText,
    /// The part's number.
    pub part: PartNumber,
    /// Where to copy from.
    pub source: CopySource,
    /// The bytes to copy; `None` for all of them.
    pub range: Option<Range>,
    /// What must hold for the source.
    pub source_conditions: ReadPreconditions,
}

impl UploadPartCopy {
    /// Reads the request. Faults: as for `UploadPart`, and those of the copy source and range.
    pub fn parse(arguments: &Arguments<'_>) -> Result<UploadPartCopy, Fault> {
        let fields = arguments.fields;
        let UploadPart { upload, part } = UploadPart::parse(arguments)?;
        Ok(UploadPartCopy {
            upload,
            part,
            source: CopySource::parse(fields.get("x-amz-copy-source")?.unwrap_or_default())?,
            range: fields.get("x-amz-copy-source-range")?.map(Range::parse_strict).transpose()?,
            source_conditions: ReadPreconditions::parse_for_source(fields)?,
        })
    }
}

/// `CompleteMultipartUpload`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompleteMultipartUpload {
    /// The upload.
    pub upload: UploadIdText,
    /// The parts that form the object, ascending: 1 to 10,000.
    pub parts: Vec<CompletedPart>,
    /// The size in bytes that the client expects.
    pub object_size: Option<u64>,
    /// The checksum that the client expects.
    pub checksum: Option<FinalChecksum>,
    /// How the client believes that checksum to come about.
    pub checksum_type: Option<ChecksumType>,
    /// What must hold when the object is bound to its key.
    pub condition: WritePrecondition,
}

/// A part as `CompleteMultipartUpload` names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletedPart {
    /// The part's number.
    pub number: PartNumber,
    /// Its ETag, without quotes.
    pub etag: String,
    /// Its checksum: as many bytes as the algorithm's have.
    pub checksum: Option<(ChecksumAlgorithm, Vec<u8>)>,
}

impl CompleteMultipartUpload {
    /// Reads the request.
    ///
    /// Faults: `InvalidPartOrder`; `MalformedXML`, also without parts; `InvalidArgument` for a
    /// number out of range and for a part's checksum that is none or not alone; `InvalidRequest` for
    /// a checksum that is none, two of them, and an object size that is no number.
    pub fn parse(arguments: &Arguments<'_>, body: &[u8]) -> Result<CompleteMultipartUpload, Fault> {
        let fields = arguments.fields;
        unserved::refuse_encryption(fields)?;
        Ok(CompleteMultipartUpload {
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
    text.parse().map_err(|_| {
        let why = match text.parse::<i64>() {
            Ok(_negative) => "less than zero",
            Err(_) => "invalid",
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
        if parts.last().is_some_and(|last| last.number >= part.number) {
            return Err(Code::InvalidPartOrder.into());
        }
        parts.push(part);
    }
    // Ascending numbers up to 10,000 cannot be more than 10,000.
    if parts.is_empty() {
        return Err(malformed("it names no part"));
    }
    Ok(parts)
}

fn completed_part(element: &Element) -> Result<CompletedPart, Fault> {
    let number = element.required("PartNumber")?;
    if number.parse::<i64>().is_ok_and(|number| number < 1) {
        return Err(Fault::because(Code::InvalidArgument, "PartNumber must be >= 1")
            .with("ArgumentName", "PartNumber")
            .with("ArgumentValue", number));
    }
    let number = PartNumber::parse(number)?;
    let etag = element.required("ETag")?;
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

/// `AbortMultipartUpload`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbortMultipartUpload {
    /// The upload.
    pub upload: UploadIdText,
    /// When it must have begun. Whole seconds count.
    pub initiated: Option<OffsetDateTime>,
}

impl AbortMultipartUpload {
    /// Reads the request. Faults: `NoSuchUpload`; `InvalidArgument` for a time that cannot be read.
    pub fn parse(arguments: &Arguments<'_>) -> Result<AbortMultipartUpload, Fault> {
        let name = "x-amz-if-match-initiated-time";
        let initiated =
            StatPrecondition::from_texts(("", None), (name, arguments.fields.get(name)?))?;
        let upload = UploadIdText::from_query(arguments)?;
        Ok(AbortMultipartUpload { upload, initiated: initiated.modified })
    }
}

/// `ListParts`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListParts {
    /// The upload.
    pub upload: UploadIdText,
    /// Parts on the page, 0 to 1000.
    pub max_parts: u32,
    /// Only parts after this number.
    pub part_marker: u32,
    /// Whether the key is percent-encoded in the response.
    pub url_encoded: bool,
}

impl ListParts {
    /// Reads the request. Faults: `NoSuchUpload`, `InvalidArgument`.
    pub fn parse(arguments: &Arguments<'_>) -> Result<ListParts, Fault> {
        Ok(ListParts {
            upload: UploadIdText::from_query(arguments)?,
            max_parts: page(arguments, "max-parts")?,
            part_marker: arguments.count("part-number-marker")?.unwrap_or(0),
            url_encoded: url_encoded(arguments)?,
        })
    }
}
