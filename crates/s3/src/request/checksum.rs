//! Checksum algorithms and checksum types, as requests name them.
//!
//! For example, `x-amz-checksum-crc32c: AAAAAA==-3` is the composite CRC-32C of an object of three
//! parts.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::Fields;
use crate::{Code, Fault};

/// A checksum algorithm that S3 stores with objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChecksumAlgorithm {
    /// CRC-32.
    Crc32,
    /// CRC-32C.
    Crc32c,
    /// CRC-64/NVME.
    Crc64Nvme,
    /// SHA-1.
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
    /// MD5.
    Md5,
    /// XXH64.
    Xxhash64,
    /// XXH3 with 64 bits.
    Xxhash3,
    /// XXH3 with 128 bits.
    Xxhash128,
}

impl ChecksumAlgorithm {
    /// All algorithms.
    pub const ALL: [ChecksumAlgorithm; 10] = [
        ChecksumAlgorithm::Crc32,
        ChecksumAlgorithm::Crc32c,
        ChecksumAlgorithm::Crc64Nvme,
        ChecksumAlgorithm::Sha1,
        ChecksumAlgorithm::Sha256,
        ChecksumAlgorithm::Sha512,
        ChecksumAlgorithm::Md5,
        ChecksumAlgorithm::Xxhash64,
        ChecksumAlgorithm::Xxhash3,
        ChecksumAlgorithm::Xxhash128,
    ];

    /// Returns the algorithm's name in headers and elements: `CRC32C`.
    pub const fn as_str(self) -> &'static str {
        match self {
            ChecksumAlgorithm::Crc32 => "CRC32",
            ChecksumAlgorithm::Crc32c => "CRC32C",
            ChecksumAlgorithm::Crc64Nvme => "CRC64NVME",
            ChecksumAlgorithm::Sha1 => "SHA1",
            ChecksumAlgorithm::Sha256 => "SHA256",
            ChecksumAlgorithm::Sha512 => "SHA512",
            ChecksumAlgorithm::Md5 => "MD5",
            ChecksumAlgorithm::Xxhash64 => "XXHASH64",
            ChecksumAlgorithm::Xxhash3 => "XXHASH3",
            ChecksumAlgorithm::Xxhash128 => "XXHASH128",
        }
    }

    /// Returns the XML element that holds such a checksum: `ChecksumCRC32C`.
    pub const fn element(self) -> &'static str {
        match self {
            ChecksumAlgorithm::Crc32 => "ChecksumCRC32",
            ChecksumAlgorithm::Crc32c => "ChecksumCRC32C",
            ChecksumAlgorithm::Crc64Nvme => "ChecksumCRC64NVME",
            ChecksumAlgorithm::Sha1 => "ChecksumSHA1",
            ChecksumAlgorithm::Sha256 => "ChecksumSHA256",
            ChecksumAlgorithm::Sha512 => "ChecksumSHA512",
            ChecksumAlgorithm::Md5 => "ChecksumMD5",
            ChecksumAlgorithm::Xxhash64 => "ChecksumXXHASH64",
            ChecksumAlgorithm::Xxhash3 => "ChecksumXXHASH3",
            ChecksumAlgorithm::Xxhash128 => "ChecksumXXHASH128",
        }
    }

    /// Returns the header that holds such a checksum: `x-amz-checksum-crc32c`.
    pub const fn header(self) -> &'static str {
        match self {
            ChecksumAlgorithm::Crc32 => "x-amz-checksum-crc32",
            ChecksumAlgorithm::Crc32c => "x-amz-checksum-crc32c",
            ChecksumAlgorithm::Crc64Nvme => "x-amz-checksum-crc64nvme",
            ChecksumAlgorithm::Sha1 => "x-amz-checksum-sha1",
            ChecksumAlgorithm::Sha256 => "x-amz-checksum-sha256",
            ChecksumAlgorithm::Sha512 => "x-amz-checksum-sha512",
            ChecksumAlgorithm::Md5 => "x-amz-checksum-md5",
            ChecksumAlgorithm::Xxhash64 => "x-amz-checksum-xxhash64",
            ChecksumAlgorithm::Xxhash3 => "x-amz-checksum-xxhash3",
            ChecksumAlgorithm::Xxhash128 => "x-amz-checksum-xxhash128",
        }
    }

    /// Returns the length of such a checksum in bytes.
    pub const fn sum_bytes(self) -> usize {
        match self {
            ChecksumAlgorithm::Crc32 | ChecksumAlgorithm::Crc32c => 4,
            ChecksumAlgorithm::Crc64Nvme
            | ChecksumAlgorithm::Xxhash64
            | ChecksumAlgorithm::Xxhash3 => 8,
            ChecksumAlgorithm::Md5 | ChecksumAlgorithm::Xxhash128 => 16,
            ChecksumAlgorithm::Sha1 => 20,
            ChecksumAlgorithm::Sha256 => 32,
            ChecksumAlgorithm::Sha512 => 64,
        }
    }

    /// Decodes a checksum from base64. `None` if it is not base64 or has the wrong length for the
    /// algorithm.
    pub fn decode(self, text: &str) -> Option<Vec<u8>> {
        let bytes = STANDARD.decode(text).ok()?;
        (bytes.len() == self.sum_bytes()).then_some(bytes)
    }

    /// Returns the algorithm of a checksum header. `name` is in lower case.
    pub(crate) fn from_header(name: &str) -> Option<ChecksumAlgorithm> {
        ChecksumAlgorithm::ALL.into_iter().find(|algorithm| algorithm.header() == name)
    }

    /// Parses an algorithm's name, in upper or lower case. Fails with `InvalidRequest`.
    pub fn parse(text: &str) -> Result<ChecksumAlgorithm, Fault> {
        ChecksumAlgorithm::ALL
            .into_iter()
            .find(|algorithm| algorithm.as_str().eq_ignore_ascii_case(text))
            .ok_or_else(|| {
                Fault::because(
                    Code::InvalidRequest,
                    "Checksum algorithm provided is unsupported. Please try again with any of \
                     the valid types: [CRC32, CRC32C, CRC64NVME, MD5, SHA1, SHA256, SHA512, \
                     XXHASH128, XXHASH3, XXHASH64]",
                )
            })
    }

    /// Returns the name as some error messages have it: `crc32c`.
    pub fn lower_case(self) -> String {
        self.as_str().to_ascii_lowercase()
    }

    /// Returns the fault of a request whose checksum algorithm differs from that of its multipart
    /// upload. `sent` is `None` if the request has no checksum.
    pub fn mismatch(self, sent: Option<ChecksumAlgorithm>) -> Fault {
        let (wanted, sent) = (self.as_str(), sent.map_or("null", ChecksumAlgorithm::as_str));
        Fault::because(
            Code::InvalidRequest,
            format!(
                "Checksum Type mismatch occurred, expected checksum Type: {wanted}, actual \
                 checksum Type: {sent}"
            ),
        )
    }

    /// Returns the fault of a header that does not hold a valid checksum of this algorithm.
    pub(crate) fn invalid_header(self) -> Fault {
        invalid_header(self.header())
    }

    /// Returns the fault of a request with two checksums.
    pub(crate) fn multiple_checksums() -> Fault {
        Fault::because(
            Code::InvalidRequest,
            "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.",
        )
    }

    /// Parses `x-amz-checksum-algorithm`.
    pub(super) fn requested(fields: Fields<'_>) -> Result<Option<ChecksumAlgorithm>, Fault> {
        fields.get("x-amz-checksum-algorithm")?.map(ChecksumAlgorithm::parse).transpose()
    }
}

fn invalid_header(name: &str) -> Fault {
    Fault::because(Code::InvalidRequest, format!("Value for {name} header is invalid."))
}

/// The checksum of a complete multipart object, as the client expects it when it completes the
/// upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinalChecksum {
    /// The algorithm.
    pub algorithm: ChecksumAlgorithm,
    /// The checksum; its length fits the algorithm.
    pub sum: Vec<u8>,
    /// The number of parts if the checksum is composite, that is, computed from the checksums of
    /// the parts. `None` for a checksum of all bytes, or if the client omitted it.
    pub parts: Option<u32>,
}

impl FinalChecksum {
    /// Parses the one checksum in the headers: base64, then `-N` if it is composed of the checksums
    /// of N parts. Fails with `InvalidRequest` if there are two checksums, or if the checksum is
    /// malformed.
    pub(super) fn from_headers(fields: Fields<'_>) -> Result<Option<FinalChecksum>, Fault> {
        let mut sent = None;
        // All headers are read before a value is decoded, because two checksums are refused even if
        // one of them is malformed.
        for algorithm in ChecksumAlgorithm::ALL {
            if let Some(text) = fields.get(algorithm.header())?
                && sent.replace((algorithm, text)).is_some()
            {
                return Err(ChecksumAlgorithm::multiple_checksums());
            }
        }
        let Some((algorithm, text)) = sent else { return Ok(None) };
        let parsed = FinalChecksum::parse(algorithm, text);
        parsed.map(Some).ok_or_else(|| algorithm.invalid_header())
    }

    fn parse(algorithm: ChecksumAlgorithm, text: &str) -> Option<FinalChecksum> {
        let (sum, parts) = match text.split_once('-') {
            // mc completes streamed uploads without the number of parts, so this can also be a
            // composite checksum.
            None => (text, None),
            // A CRC-64/NVME is never composite.
            Some(_) if algorithm == ChecksumAlgorithm::Crc64Nvme => return None,
            Some((sum, count)) if count.bytes().all(|byte| byte.is_ascii_digit()) => {
                (sum, Some(count.parse().ok()?))
            }
            Some(_) => return None,
        };
        Some(FinalChecksum { algorithm, sum: algorithm.decode(sum)?, parts })
    }
}

/// The relation between the checksum of a multipart object and its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChecksumType {
    /// The checksum of all bytes of the object.
    FullObject,
    /// The checksum of the concatenated checksums of the parts.
    Composite,
}

impl ChecksumType {
    /// Returns the type's name in headers and elements.
    pub const fn as_str(self) -> &'static str {
        match self {
            ChecksumType::FullObject => "FULL_OBJECT",
            ChecksumType::Composite => "COMPOSITE",
        }
    }

    /// Parses `x-amz-checksum-type`. Fails with `InvalidRequest`.
    pub(super) fn requested(fields: Fields<'_>) -> Result<Option<ChecksumType>, Fault> {
        let Some(text) = fields.get("x-amz-checksum-type")? else { return Ok(None) };
        [ChecksumType::FullObject, ChecksumType::Composite]
            .into_iter()
            .find(|kind| kind.as_str().eq_ignore_ascii_case(text))
            .map(Some)
            .ok_or_else(|| invalid_header("x-amz-checksum-type"))
    }

    /// Returns true if a multipart object can have a checksum of this type and algorithm. Only CRCs
    /// of parts can be combined to the CRC of the whole object, and S3 has no composite
    /// CRC-64/NVME.
    pub const fn supports(self, algorithm: ChecksumAlgorithm) -> bool {
        match algorithm {
            ChecksumAlgorithm::Crc32 | ChecksumAlgorithm::Crc32c => true,
            ChecksumAlgorithm::Crc64Nvme => matches!(self, ChecksumType::FullObject),
            ChecksumAlgorithm::Sha1
            | ChecksumAlgorithm::Sha256
            | ChecksumAlgorithm::Sha512
            | ChecksumAlgorithm::Md5
            | ChecksumAlgorithm::Xxhash64
            | ChecksumAlgorithm::Xxhash3
            | ChecksumAlgorithm::Xxhash128 => matches!(self, ChecksumType::Composite),
        }
    }

    /// Returns the checksum type of a new multipart upload: the requested type; or `Composite` by
    /// default, if the algorithm supports it. Fails with `InvalidRequest` if the algorithm does not
    /// support the requested type.
    pub(super) fn resolve(
        algorithm: ChecksumAlgorithm,
        wanted: Option<ChecksumType>,
    ) -> Result<ChecksumType, Fault> {
        match wanted {
            None if ChecksumType::Composite.supports(algorithm) => Ok(ChecksumType::Composite),
            None => Ok(ChecksumType::FullObject),
            Some(wanted) if wanted.supports(algorithm) => Ok(wanted),
            Some(wanted) => Err(Fault::because(
                Code::InvalidRequest,
                format!(
                    "The {} checksum type cannot be used with the {} checksum algorithm.",
                    wanted.as_str(),
                    algorithm.lower_case()
                ),
            )),
        }
    }
}
