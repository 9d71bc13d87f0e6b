//! The checksums that a request announces for its body.
//!
//! For example, a PUT with `Content-MD5`, a body hash in `x-amz-content-sha256` and `x-amz-trailer:
//! x-amz-checksum-crc32` announces three checksums, the last of which arrives after the body.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;

use crate::auth::{PayloadMode, Verified};
use crate::request::{ChecksumAlgorithm, ChecksumType};
use crate::{Code, Fault, Operation};

const PREFIX: &str = "x-amz-checksum-";

/// Headers that begin with `x-amz-checksum-` and hold no checksum.
const SETTINGS: [&str; 3] =
    ["x-amz-checksum-algorithm", "x-amz-checksum-mode", "x-amz-checksum-type"];

/// All checksums that a request announces for its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    content_md5: Option<[u8; 16]>,
    content_sha256: Option<[u8; 32]>,
    pub(super) checksum: StatedChecksum,
}

/// The checksum `x-amz-checksum-*` that a request announces, and its place in the request. A
/// request may have only one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StatedChecksum {
    /// The request announces no checksum `x-amz-checksum-*`.
    Nothing,
    /// Only an algorithm, in a presigned URL or in `x-amz-checksum-algorithm` of a `PutObject`.
    /// There is no value to compare with.
    Algorithm(ChecksumAlgorithm),
    /// A checksum in a header: the algorithm and the value.
    Header(ChecksumAlgorithm, Vec<u8>),
    /// A checksum in a presigned URL: the algorithm and the value. Some SDKs put the checksum of an
    /// empty body there, regardless of the body that is sent.
    Hoisted(ChecksumAlgorithm, Vec<u8>),
    /// A checksum in the trailer, that is, in header lines after the body. Its value arrives later.
    Trailer(ChecksumAlgorithm),
}

impl Expectation {
    /// Parses `Content-MD5`, `x-amz-checksum-*`, `x-amz-sdk-checksum-algorithm` and
    /// `x-amz-trailer`, and takes the body hash from the payload mode.
    ///
    /// A `PutObject` without a checksum can request one with `x-amz-checksum-algorithm`, as copies
    /// and multipart uploads do.
    ///
    /// In `CompleteMultipartUpload` a checksum is the checksum of the object and not of the request
    /// body, so it is ignored here.
    ///
    /// Fails with `InvalidDigest` for a malformed `Content-MD5`, or with `InvalidRequest` for a
    /// checksum that is malformed, has an unknown algorithm, or is not the only one.
    pub fn parse(
        operation: Operation,
        verified: &Verified,
        headers: &HeaderMap,
    ) -> Result<Expectation, Fault> {
        let content_sha256 = match verified.payload() {
            PayloadMode::Hashed(hash) => Some(hash),
            PayloadMode::Unsigned
            | PayloadMode::SignedChunks { .. }
            | PayloadMode::UnsignedTrailer => None,
        };
        // The checksum headers of this operation describe the object; `request` parses them.
        let checksum = if operation == Operation::CompleteMultipartUpload {
            StatedChecksum::Nothing
        } else {
            let stated = stated(headers, verified.hoisted())?;
            if operation == Operation::PutObject && matches!(stated, StatedChecksum::Nothing) {
                requested(headers)?
            } else {
                stated
            }
        };
        let content_md5 = content_md5(headers, verified.hoisted())?;
        Ok(Expectation { content_md5, content_sha256, checksum })
    }

    /// Returns the algorithm of the checksum that the request sends or requests.
    pub fn algorithm(&self) -> Option<ChecksumAlgorithm> {
        match &self.checksum {
            StatedChecksum::Nothing => None,
            StatedChecksum::Algorithm(algorithm)
            | StatedChecksum::Header(algorithm, _)
            | StatedChecksum::Hoisted(algorithm, _)
            | StatedChecksum::Trailer(algorithm) => Some(*algorithm),
        }
    }

    /// Returns true if [`verify`](Expectation::verify) needs the MD5 of the body.
    pub fn needs_md5(&self) -> bool {
        self.content_md5.is_some() || self.algorithm() == Some(ChecksumAlgorithm::Md5)
    }

    /// Checks that a part with this checksum can belong to a multipart upload with the checksum
    /// `wanted` of type `kind`. A composite checksum needs a checksum of each part; a full-object
    /// checksum can be computed without one.
    ///
    /// Fails with `InvalidRequest`.
    pub fn check_part(&self, wanted: ChecksumAlgorithm, kind: ChecksumType) -> Result<(), Fault> {
        match self.algorithm() {
            Some(sent) if sent == wanted => Ok(()),
            None if kind == ChecksumType::FullObject => Ok(()),
            sent => Err(wanted.mismatch(sent)),
        }
    }

    pub(super) fn content_md5(&self) -> Option<[u8; 16]> {
        self.content_md5
    }

    pub(super) fn content_sha256(&self) -> Option<[u8; 32]> {
        self.content_sha256
    }
}

/// Returns the decoded value of `Content-MD5`; `None` if the request has none.
fn content_md5(
    headers: &HeaderMap,
    hoisted: &[(String, String)],
) -> Result<Option<[u8; 16]>, Fault> {
    let mut values = header_values(headers, "content-md5")?;
    // A SigV2 URL may contain `Content-MD5`, as each header that SigV2 signs.
    values.extend(
        hoisted.iter().filter(|(name, _)| name == "content-md5").map(|(_, text)| text.as_str()),
    );
    let Some(first) = values.first() else { return Ok(None) };
    let decoded = STANDARD.decode(first).ok().and_then(|bytes| <[u8; 16]>::try_from(bytes).ok());
    match decoded {
        Some(md5) if values.iter().all(|value| value == first) => Ok(Some(md5)),
        _ => Err(Fault::new(Code::InvalidDigest).with("Content-MD5", *first)),
    }
}

/// Returns the checksum in the headers, or in the parameters of a presigned URL that replace
/// headers.
fn stated(headers: &HeaderMap, hoisted: &[(String, String)]) -> Result<StatedChecksum, Fault> {
    let mut found = Vec::new();
    for name in headers.keys().map(http::HeaderName::as_str) {
        if let Some(algorithm) = header_algorithm(name)? {
            let texts = header_values(headers, name)?;
            found.extend(texts.into_iter().map(|text| FoundChecksum::Header(algorithm, text)));
        }
    }
    // Parameters of a presigned URL count as headers.
    for (name, text) in hoisted {
        if let Some(algorithm) = header_algorithm(name)? {
            found.push(FoundChecksum::Hoisted(algorithm, text));
        }
    }
    for name in header_values(headers, "x-amz-trailer")?.iter().flat_map(|text| text.split(',')) {
        let name = name.trim().to_ascii_lowercase();
        if !name.is_empty() {
            let algorithm = ChecksumAlgorithm::from_header(&name).ok_or_else(|| {
                refuse("The value specified in the x-amz-trailer header is not supported")
            })?;
            found.push(FoundChecksum::Trailer(algorithm));
        }
    }
    // S3 allows one checksum. With several, one of them would not be verified.
    if found.len() > 1 {
        return Err(ChecksumAlgorithm::multiple_checksums());
    }
    let stated = match found.pop() {
        None => StatedChecksum::Nothing,
        // The value is decoded only now, so that two checksums have their own fault.
        Some(FoundChecksum::Header(algorithm, text)) => {
            StatedChecksum::Header(algorithm, parse(algorithm, text)?)
        }
        Some(FoundChecksum::Hoisted(algorithm, text)) => {
            StatedChecksum::Hoisted(algorithm, parse(algorithm, text)?)
        }
        Some(FoundChecksum::Trailer(algorithm)) => StatedChecksum::Trailer(algorithm),
    };
    check_sdk_algorithm(stated, sdk_algorithm(headers, hoisted)?)
}

/// Returns the checksum that the gateway must compute although the client sends none.
fn requested(headers: &HeaderMap) -> Result<StatedChecksum, Fault> {
    match first_non_empty(headers, "x-amz-checksum-algorithm")? {
        Some(name) => ChecksumAlgorithm::parse(name).map(StatedChecksum::Algorithm),
        None => Ok(StatedChecksum::Nothing),
    }
}

/// A checksum that was found and is not decoded yet. Two checksums are refused before either is
/// decoded.
enum FoundChecksum<'a> {
    Header(ChecksumAlgorithm, &'a str),
    Hoisted(ChecksumAlgorithm, &'a str),
    Trailer(ChecksumAlgorithm),
}

/// Compares the announced checksum with the algorithm that the SDK names.
fn check_sdk_algorithm(
    stated: StatedChecksum,
    named: Option<(ChecksumAlgorithm, bool)>,
) -> Result<StatedChecksum, Fault> {
    match (stated, named) {
        (StatedChecksum::Nothing, Some((algorithm, true))) => {
            Ok(StatedChecksum::Algorithm(algorithm))
        }
        (StatedChecksum::Nothing, Some((_, false))) => Err(refuse(
            "x-amz-sdk-checksum-algorithm specified, but no corresponding x-amz-checksum-* or \
             x-amz-trailer headers were found.",
        )),
        (
            StatedChecksum::Header(algorithm, _)
            | StatedChecksum::Hoisted(algorithm, _)
            | StatedChecksum::Trailer(algorithm)
            | StatedChecksum::Algorithm(algorithm),
            Some((named, _)),
        ) if algorithm != named => {
            Err(refuse("Value for x-amz-sdk-checksum-algorithm header is invalid."))
        }
        (stated, None)
        | (
            stated @ (StatedChecksum::Header(..)
            | StatedChecksum::Hoisted(..)
            | StatedChecksum::Trailer(_)
            | StatedChecksum::Algorithm(_)),
            Some(_),
        ) => Ok(stated),
    }
}

/// Returns the algorithm in `x-amz-sdk-checksum-algorithm`, and true if it is in a presigned URL.
fn sdk_algorithm(
    headers: &HeaderMap,
    hoisted: &[(String, String)],
) -> Result<Option<(ChecksumAlgorithm, bool)>, Fault> {
    const NAME: &str = "x-amz-sdk-checksum-algorithm";
    let in_header = first_non_empty(headers, NAME)?.map(|text| (text, false));
    // An empty parameter counts as absent, as an empty header does.
    let in_query = hoisted.iter().find(|(name, text)| name == NAME && !text.is_empty());
    let in_query = in_query.map(|(_, text)| (text.as_str(), true));
    let Some((text, hoisted)) = in_header.or(in_query) else { return Ok(None) };
    Ok(Some((ChecksumAlgorithm::parse(text)?, hoisted)))
}

/// Returns the algorithm of a checksum header; `None` if the header holds no checksum.
fn header_algorithm(name: &str) -> Result<Option<ChecksumAlgorithm>, Fault> {
    if !name.starts_with(PREFIX) || SETTINGS.contains(&name) {
        return Ok(None);
    }
    let unknown = || {
        refuse("The algorithm type you specified in x-amz-checksum- header is invalid.")
            .detail(format!("The algorithm of {name} is unknown."))
    };
    ChecksumAlgorithm::from_header(name).map(Some).ok_or_else(unknown)
}

/// Decodes a checksum from base64. Fails if its length does not fit the algorithm.
fn parse(algorithm: ChecksumAlgorithm, text: &str) -> Result<Vec<u8>, Fault> {
    algorithm.decode(text).ok_or_else(|| algorithm.invalid_header())
}

/// Returns the first value of a header that is not empty. [`crate::fields::Fields`] explains why
/// empty values are skipped.
fn first_non_empty<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Fault> {
    Ok(header_values(headers, name)?.into_iter().find(|text| !text.is_empty()))
}

/// Returns all values of a header as text.
fn header_values<'a>(headers: &'a HeaderMap, name: &str) -> Result<Vec<&'a str>, Fault> {
    let values = headers.get_all(name).into_iter();
    let values = values.map(|value| std::str::from_utf8(value.as_bytes()).map(str::trim));
    values
        .collect::<Result<_, _>>()
        .map_err(|_| refuse(format!("Value for {name} header is invalid.")))
}

pub(super) fn refuse(why: impl Into<String>) -> Fault {
    Fault::because(Code::InvalidRequest, why.into())
}
