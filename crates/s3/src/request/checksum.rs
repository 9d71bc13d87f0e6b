//! The checksums that requests name.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::Fields;
use crate::{Code, Fault};

/// A checksum that S3 keeps with an object.
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
    /// All of them.
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

    /// The value of headers and elements that name the algorithm: `CRC32C`.
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

    /// The element that holds a checksum: `ChecksumCRC32C`.
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

    /// The header that holds a checksum: `x-amz-checksum-crc32c`.
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

    /// How many bytes a checksum has.
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

    /// Decodes a checksum from base64; `None` if it has not as many bytes as the algorithm's have.
    pub fn decode(self, text: &str) -> Option<Vec<u8>> {
        let bytes = STANDARD.decode(text).ok()?;
        (bytes.len() == self.sum_bytes()).then_some(bytes)
    }

    /// The algorithm whose checksum the header of this name holds: in lower case.
    pub(crate) fn from_header(name: &str) -> Option<ChecksumAlgorithm> {
        ChecksumAlgorithm::ALL.into_iter().find(|algorithm| algorithm.header() == name)
    }

    /// Reads an algorithm's name. Fault: `InvalidRequest`.
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

    /// The name as some sentences have it: `crc32c`.
    pub fn lower_case(self) -> String {
        self.as_str().to_ascii_lowercase()
    }

    /// The fault of a request that sends another checksum than an upload was begun with, or none.
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

    /// The fault of a header that should hold this checksum and does not.
    pub(crate) fn invalid_header(self) -> Fault {
        invalid_header(self.header())
    }

    /// The fault of a request with two checksums.
    pub(crate) fn multiple_checksums() -> Fault {
        Fault::because(
            Code::InvalidRequest,
            "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.",
        )
    }

    /// The algorithm that `x-amz-checksum-algorithm` names.
    pub(super) fn requested(fields: Fields<'_>) -> Result<Option<ChecksumAlgorithm>, Fault> {
        fields.get("x-amz-checksum-algorithm")?.map(ChecksumAlgorithm::parse).transpose()
    }
}

fn invalid_header(name: &str) -> Fault {
    Fault::because(Code::InvalidRequest, format!("Value for {name} header is invalid."))
}

/// The checksum that a client expects a completed object to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinalChecksum {
    /// Its algorithm.
    pub algorithm: ChecksumAlgorithm,
    /// The bytes, as many as the algorithm's have.
    pub sum: Vec<u8>,
    /// The number of parts behind it. A client may leave it out.
    pub parts: Option<u32>,
}

impl FinalChecksum {
    /// The one checksum that the headers carry: base64, and `-N` behind it if it is made of those of
    /// N parts. Faults: `InvalidRequest` for two, and for what is none.
    pub(super) fn from_headers(fields: Fields<'_>) -> Result<Option<FinalChecksum>, Fault> {
        let mut sent = None;
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
            None => (text, None),
            // This one is never made of those of parts.
            Some(_) if algorithm == ChecksumAlgorithm::Crc64Nvme => return None,
            Some((sum, count)) if count.bytes().all(|byte| byte.is_ascii_digit()) => {
                (sum, Some(count.parse().ok()?))
            }
            Some(_) => return None,
        };
        Some(FinalChecksum { algorithm, sum: algorithm.decode(sum)?, parts })
    }
}

/// How a multipart object's checksum comes from its parts'.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChecksumType {
    /// It is that of the whole object's bytes.
    FullObject,
    /// It is the checksum of the parts' checksums.
    Composite,
}

impl ChecksumType {
    /// The value of headers and elements.
    pub const fn as_str(self) -> &'static str {
        match self {
            ChecksumType::FullObject => "FULL_OBJECT",
            ChecksumType::Composite => "COMPOSITE",
        }
    }

    /// The type that `x-amz-checksum-type` names. Fault: `InvalidRequest`.
    pub(super) fn requested(fields: Fields<'_>) -> Result<Option<ChecksumType>, Fault> {
        let Some(text) = fields.get("x-amz-checksum-type")? else { return Ok(None) };
        [ChecksumType::FullObject, ChecksumType::Composite]
            .into_iter()
            .find(|kind| kind.as_str().eq_ignore_ascii_case(text))
            .map(Some)
            .ok_or_else(|| invalid_header("x-amz-checksum-type"))
    }

    /// Whether an object of parts can have a checksum of this algorithm and type. Only CRCs of parts
    /// combine to that of the whole, and CRC-64 is never made of checksums.
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

    /// The type that an upload gets: one made of the parts' checksums, where that can be, unless it
    /// asks for the other. Fault: `InvalidRequest`.
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
