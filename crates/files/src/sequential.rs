//! The sums of a file that is written front to back, piece by piece.
//!
//! A program that copies a file writes it from its first byte to its last. What S3 shows of such a
//! file are the sums that an upload would have. So they are carried on from one commit to the next, as
//! long as each begins where the one before has ended.

use std::fmt;

use crc_fast::{CrcAlgorithm, Digest};
use hashing::Md5;
use record::{Sum, SumAlgorithm, SumKind, Tag};

use crate::dirty::FrozenExtents;

/// Bytes that are hashed before others get their turn.
const STEP_BYTES: usize = 256 << 10;

/// The sums of all of a file so far.
#[derive(Clone)]
pub(crate) struct SequentialSums {
    /// How many bytes these are.
    bytes: u64,
    /// The data version of the file that has them.
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
    /// Those of an empty file.
    pub(crate) fn new() -> SequentialSums {
        SequentialSums {
            bytes: 0,
            version: None,
            md5: Md5::new(),
            crc: Digest::new(CrcAlgorithm::Crc64Nvme),
        }
    }

    /// Those of the file with these extents written to it; none unless they follow one another, from
    /// where it has ended to `size`.
    pub(crate) async fn followed_by(
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

    /// The same, of this data version.
    pub(crate) fn of_version(self, version: Option<u64>) -> SequentialSums {
        SequentialSums { version, ..self }
    }

    /// Whether a file of this data version has these.
    pub(crate) fn are_of(&self, version: u64) -> bool {
        self.version == Some(version)
    }

    /// The entity tag.
    pub(crate) fn tag(&self) -> Tag {
        Tag::Md5(self.md5.clone().finish())
    }

    /// The checksum that is kept of every file that is written whole.
    pub(crate) fn sum(&self) -> Sum {
        crc64nvme(&self.crc)
    }
}

/// A checksum as it is kept.
pub(crate) fn crc64nvme(crc: &Digest) -> Sum {
    let bytes = crc.finalize().to_be_bytes().to_vec();
    Sum { algorithm: SumAlgorithm::Crc64Nvme, kind: SumKind::FullObject, bytes }
}
