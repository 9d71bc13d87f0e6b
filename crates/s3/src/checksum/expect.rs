//! What a request states about the bytes of its body.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;

use super::decode_sum;
use crate::auth::{PayloadMode, Verified};
use crate::request::ChecksumAlgorithm;
use crate::{Code, Fault, Operation};

const PREFIX: &str = "x-amz-checksum-";

/// Headers with the prefix that are no checksums.
const SETTINGS: [&str; 3] =
    ["x-amz-checksum-algorithm", "x-amz-checksum-mode", "x-amz-checksum-type"];

/// Checksum algorithms of S3 that are not served.
const UNSERVED: [&str; 5] = ["sha512", "md5", "xxhash64", "xxhash3", "xxhash128"];

/// Everything that a request states about the bytes of its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    content_md5: Option<[u8; 16]>,
    content_sha256: Option<[u8; 32]>,
    pub(super) checksum: StatedChecksum,
}

/// The one checksum that a request may state of its body, and where it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StatedChecksum {
    Nothing,
    /// Only its algorithm, in a presigned URL: there is nothing to compare with.
    Algorithm(ChecksumAlgorithm),
    Header(ChecksumAlgorithm, Vec<u8>),
    /// In a presigned URL. Some SDKs put the checksum of an empty body there, whatever body
    /// follows.
    Hoisted(ChecksumAlgorithm, Vec<u8>),
    /// After the body.
    Trailer(ChecksumAlgorithm),
}

impl Expectation {
    /// Reads `Content-MD5`, `x-amz-checksum-*`, `x-amz-sdk-checksum-algorithm` and
    /// `x-amz-trailer`, and the body's hash from the payload mode.
    ///
    /// In `CompleteMultipartUpload` a checksum is that of the object, not of the request's body: it
    /// is left alone.
    ///
    /// Faults: `InvalidDigest` for a Content-MD5 that is none; `InvalidRequest` for a checksum
    /// that is none, of an unknown algorithm, or not alone; `NotImplemented` for an algorithm
    /// that S3 knows and we do not.
    pub fn parse(
        operation: Operation,
        verified: &Verified,
        headers: &HeaderMap,
    ) -> Result<Expectation, Fault> {
        let content_sha256 = match verified.payload() {
            PayloadMode::Hashed(hash) => Some(hash),
            _ => None,
        };
        let checksum = if operation == Operation::CompleteMultipartUpload {
            StatedChecksum::Nothing
        } else {
            stated(headers, verified.hoisted())?
        };
        let content_md5 = content_md5(headers, verified.hoisted())?;
        Ok(Expectation { content_md5, content_sha256, checksum })
    }

    /// The algorithm of the checksum that the request sends, or wants.
    pub fn algorithm(&self) -> Option<ChecksumAlgorithm> {
        match &self.checksum {
            StatedChecksum::Nothing => None,
            StatedChecksum::Algorithm(algorithm)
            | StatedChecksum::Header(algorithm, _)
            | StatedChecksum::Hoisted(algorithm, _)
            | StatedChecksum::Trailer(algorithm) => Some(*algorithm),
        }
    }

    /// Whether the MD5 has to be known to [verify](Expectation::verify) the body.
    pub fn wants_md5(&self) -> bool {
        self.content_md5.is_some()
    }

    pub(super) fn content_md5(&self) -> Option<[u8; 16]> {
        self.content_md5
    }

    pub(super) fn content_sha256(&self) -> Option<[u8; 32]> {
        self.content_sha256
    }
}

fn content_md5(
    headers: &HeaderMap,
    hoisted: &[(String, String)],
) -> Result<Option<[u8; 16]>, Fault> {
    let mut values = texts(headers, "content-md5")?;
    // A SigV2 URL may contain it, like any header that it signs.
    values.extend(
        hoisted.iter().filter(|(name, _)| name == "content-md5").map(|(_, text)| text.as_str()),
    );
    let Some(first) = values.first() else { return Ok(None) };
    let decoded = STANDARD.decode(first).ok().and_then(|bytes| <[u8; 16]>::try_from(bytes).ok());
    match decoded {
        Some(md5) if values.iter().all(|value| value == first) => Ok(Some(md5)),
        _ => Err(Code::InvalidDigest.into()),
    }
}

/// What the headers state, or the parameters of a presigned URL that stand for headers.
fn stated(headers: &HeaderMap, hoisted: &[(String, String)]) -> Result<StatedChecksum, Fault> {
    let mut found = Vec::new();
    for name in headers.keys().map(http::HeaderName::as_str) {
        if let Some(algorithm) = algorithm_of(name)? {
            for text in texts(headers, name)? {
                found.push(StatedChecksum::Header(algorithm, parse(algorithm, text)?));
            }
        }
    }
    for (name, text) in hoisted {
        if let Some(algorithm) = algorithm_of(name)? {
            found.push(StatedChecksum::Hoisted(algorithm, parse(algorithm, text)?));
        }
    }
    for name in texts(headers, "x-amz-trailer")?.iter().flat_map(|text| text.split(',')) {
        let name = name.trim().to_ascii_lowercase();
        if !name.is_empty() {
            let algorithm = algorithm_of(&name)?.ok_or_else(|| {
                refuse("The value specified in the x-amz-trailer header is not supported")
            })?;
            found.push(StatedChecksum::Trailer(algorithm));
        }
    }
    if found.len() > 1 {
        return Err(refuse(
            "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.",
        ));
    }
    let stated = found.pop().unwrap_or(StatedChecksum::Nothing);
    settle(stated, named(headers, hoisted)?)
}

/// Compares the stated checksum with the algorithm that the SDK says it used.
fn settle(
    stated: StatedChecksum,
    named: Option<(ChecksumAlgorithm, bool)>,
) -> Result<StatedChecksum, Fault> {
    match (stated, named) {
        (stated, None) => Ok(stated),
        (StatedChecksum::Nothing, Some((algorithm, true))) => {
            Ok(StatedChecksum::Algorithm(algorithm))
        }
        (StatedChecksum::Nothing, Some((_, false))) => Err(refuse(
            "x-amz-sdk-checksum-algorithm specified, but no corresponding x-amz-checksum-* or \
             x-amz-trailer headers were found.",
        )),
        (stated, Some((named, _))) => match &stated {
            StatedChecksum::Header(algorithm, _)
            | StatedChecksum::Hoisted(algorithm, _)
            | StatedChecksum::Trailer(algorithm)
            | StatedChecksum::Algorithm(algorithm)
                if *algorithm != named =>
            {
                Err(refuse("Value for x-amz-sdk-checksum-algorithm header is invalid."))
            }
            _ => Ok(stated),
        },
    }
}

/// What `x-amz-sdk-checksum-algorithm` names, and whether it is part of a presigned URL.
fn named(
    headers: &HeaderMap,
    hoisted: &[(String, String)],
) -> Result<Option<(ChecksumAlgorithm, bool)>, Fault> {
    const NAME: &str = "x-amz-sdk-checksum-algorithm";
    let in_header = texts(headers, NAME)?.into_iter().next().map(|text| (text, false));
    let in_query =
        hoisted.iter().find(|(name, _)| name == NAME).map(|(_, text)| (text.as_str(), true));
    let Some((text, hoisted)) = in_header.or(in_query) else { return Ok(None) };
    if UNSERVED.iter().any(|name| name.eq_ignore_ascii_case(text)) {
        return Err(unserved());
    }
    Ok(Some((ChecksumAlgorithm::parse(text)?, hoisted)))
}

/// The algorithm whose checksum a header of this name holds; `None` if it holds none.
fn algorithm_of(name: &str) -> Result<Option<ChecksumAlgorithm>, Fault> {
    let Some(suffix) = name.strip_prefix(PREFIX) else { return Ok(None) };
    if SETTINGS.contains(&name) {
        return Ok(None);
    }
    if UNSERVED.contains(&suffix) {
        return Err(unserved());
    }
    let known = ChecksumAlgorithm::ALL.into_iter().find(|algorithm| algorithm.header() == name);
    known.map(Some).ok_or_else(|| refuse(format!("The checksum header {name} is not known.")))
}

fn parse(algorithm: ChecksumAlgorithm, text: &str) -> Result<Vec<u8>, Fault> {
    decode_sum(algorithm, text)
        .ok_or_else(|| refuse(format!("Value for {} header is invalid.", algorithm.header())))
}

/// All values of a header, as text.
fn texts<'a>(headers: &'a HeaderMap, name: &str) -> Result<Vec<&'a str>, Fault> {
    let values = headers.get_all(name).into_iter();
    let values = values.map(|value| std::str::from_utf8(value.as_bytes()).map(str::trim));
    values
        .collect::<Result<_, _>>()
        .map_err(|_| refuse(format!("Value for {name} header is invalid.")))
}

fn unserved() -> Fault {
    Fault::because(Code::NotImplemented, "The checksum algorithm is not implemented.")
}

pub(super) fn refuse(why: impl Into<String>) -> Fault {
    Fault::because(Code::InvalidRequest, why.into())
}
