//! The checksums that requests name.

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
}

impl ChecksumAlgorithm {
    /// All of them.
    pub const ALL: [ChecksumAlgorithm; 5] = [
        ChecksumAlgorithm::Crc32,
        ChecksumAlgorithm::Crc32c,
        ChecksumAlgorithm::Crc64Nvme,
        ChecksumAlgorithm::Sha1,
        ChecksumAlgorithm::Sha256,
    ];

    /// The value of headers and elements that name the algorithm: `CRC32C`.
    pub const fn as_str(self) -> &'static str {
        match self {
            ChecksumAlgorithm::Crc32 => "CRC32",
            ChecksumAlgorithm::Crc32c => "CRC32C",
            ChecksumAlgorithm::Crc64Nvme => "CRC64NVME",
            ChecksumAlgorithm::Sha1 => "SHA1",
            ChecksumAlgorithm::Sha256 => "SHA256",
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
        }
    }

    /// Reads an algorithm's name. Fault: `InvalidRequest`.
    pub fn parse(text: &str) -> Result<ChecksumAlgorithm, Fault> {
        ChecksumAlgorithm::ALL
            .into_iter()
            .find(|algorithm| algorithm.as_str().eq_ignore_ascii_case(text))
            .ok_or_else(|| {
                Fault::because(Code::InvalidRequest, "The checksum algorithm is not known.")
            })
    }

    /// The algorithm that `x-amz-checksum-algorithm` names.
    pub(super) fn wanted(fields: Fields<'_>) -> Result<Option<ChecksumAlgorithm>, Fault> {
        fields.get("x-amz-checksum-algorithm")?.map(ChecksumAlgorithm::parse).transpose()
    }

    /// The one checksum that the headers carry, in base64.
    pub(super) fn sent(fields: Fields<'_>) -> Result<Option<(ChecksumAlgorithm, String)>, Fault> {
        let mut sent = None;
        for algorithm in ChecksumAlgorithm::ALL {
            if let Some(value) = fields.get(algorithm.header())?
                && sent.replace((algorithm, value.to_owned())).is_some()
            {
                return Err(Fault::because(Code::InvalidRequest, "Two checksums were sent."));
            }
        }
        Ok(sent)
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
    pub(super) fn wanted(fields: Fields<'_>) -> Result<Option<ChecksumType>, Fault> {
        match fields.get("x-amz-checksum-type")? {
            None => Ok(None),
            Some("FULL_OBJECT") => Ok(Some(ChecksumType::FullObject)),
            Some("COMPOSITE") => Ok(Some(ChecksumType::Composite)),
            Some(_) => Err(Fault::because(Code::InvalidRequest, "The checksum type is not known.")),
        }
    }

    /// The type that an upload gets. CRC-64 is never composite; SHA-1 and SHA-256 always are.
    pub(super) fn settle(
        algorithm: ChecksumAlgorithm,
        wanted: Option<ChecksumType>,
    ) -> Result<ChecksumType, Fault> {
        let refused = match algorithm {
            ChecksumAlgorithm::Crc64Nvme => Some(ChecksumType::Composite),
            ChecksumAlgorithm::Sha1 | ChecksumAlgorithm::Sha256 => Some(ChecksumType::FullObject),
            ChecksumAlgorithm::Crc32 | ChecksumAlgorithm::Crc32c => None,
        };
        match wanted {
            None if algorithm == ChecksumAlgorithm::Crc64Nvme => Ok(ChecksumType::FullObject),
            None => Ok(ChecksumType::Composite),
            Some(wanted) if Some(wanted) == refused => Err(Fault::because(
                Code::InvalidRequest,
                "The checksum type cannot be used with the algorithm.",
            )),
            Some(wanted) => Ok(wanted),
        }
    }
}
