//! Running checksums of a file that is written from front to back.
//!
//! A program that copies a file writes it from the first byte to the last. S3 then shows the same
//! entity tag and checksum as after an upload. The running MD5 and CRC are therefore carried from
//! one flush to the next, while each begins where the previous one ended. For example, `cp` of 100
//! MiB takes four flushes, and the object has the MD5 of the whole file.

use std::fmt;

use crc_fast::{CrcAlgorithm, Digest};
use hashing::Md5;
use record::{Sum, SumAlgorithm, SumKind, Tag};

use crate::dirty::FrozenExtents;

/// The number of bytes that are hashed before the task yields.
const STEP_BYTES: usize = 256 << 10;

/// The running MD5 and CRC of all bytes of a file that is written from front to back. They can be
/// continued with the next bytes.
#[derive(Clone)]
pub(crate) struct SequentialSums {
    /// The number of bytes that were hashed.
    bytes: u64,
    /// The data version of the file that has exactly the hashed content: a number that grows with
    /// each commit of the content. `None` before the commit.
    version: Option<u64>,
    md5: Md5,
    crc: Digest,
}

impl fmt::Debug for SequentialSums {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SequentialSums").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl SequentialSums {
    /// Returns the running checksums of an empty file.
    pub(crate) fn new() -> SequentialSums {
        SequentialSums {
            bytes: 0,
            version: None,
            md5: Md5::new(),
            crc: Digest::new(CrcAlgorithm::Crc64Nvme),
        }
    }

    /// Adds extents to the checksums. Returns `None` unless the extents follow each other without a
    /// gap, from the present end to `size`.
    pub(crate) async fn extended_with(
        mut self,
        extents: &FrozenExtents,
        size: u64,
    ) -> Option<SequentialSums> {
        for (position, bytes) in extents.iter() {
            if *position != self.bytes {
                return None;
            }
            for piece in bytes.chunks(STEP_BYTES) {
                self.md5.update(piece);
                self.crc.update(piece);
                tokio::task::yield_now().await;
            }
            self.bytes += bytes.len() as u64;
        }
        (self.bytes == size).then_some(self)
    }

    /// Returns these checksums, noted as those of the data version `version` of the file: a number
    /// that grows with each commit of its content.
    pub(crate) fn with_version(self, version: Option<u64>) -> SequentialSums {
        SequentialSums { version, ..self }
    }

    /// Returns true if these are the checksums of data version `version` of the file. The data
    /// version grows with each commit of the content.
    pub(crate) fn match_version(&self, version: u64) -> bool {
        self.version == Some(version)
    }

    /// Returns the MD5 of the content, as an entity tag.
    pub(crate) fn tag(&self) -> Tag {
        Tag::Md5(self.md5.clone().finish())
    }

    /// Returns the CRC-64/NVME of the content, which is kept for each file that is written
    /// completely.
    pub(crate) fn sum(&self) -> Sum {
        crc64nvme(&self.crc)
    }
}

/// Returns a CRC-64/NVME in the form of the file's record.
pub(crate) fn crc64nvme(crc: &Digest) -> Sum {
    let bytes = crc.finalize().to_be_bytes().to_vec();
    Sum { algorithm: SumAlgorithm::Crc64Nvme, kind: SumKind::FullObject, bytes }
}
