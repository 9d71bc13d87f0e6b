//! The zeros of a sparse file, where no slice covers the range.
//!
//! All frames are views of one static buffer, so a hole takes no memory and no reads. For example,
//! a hole of 10 GiB is 163,840 frames of the same 64 KiB.

use block::SUB_BLOCK_BYTES;
use bytes::Bytes;

/// The buffer. One frame has at most its length.
static ZEROS: [u8; SUB_BLOCK_BYTES as usize] = [0; SUB_BLOCK_BYTES as usize];

/// The rest of a hole, as an iterator over frames.
#[derive(Debug, Default)]
pub(super) struct Zeros {
    remaining: u64,
}

impl Zeros {
    /// Creates a hole of `length` bytes.
    pub(super) fn new(length: u64) -> Zeros {
        Zeros { remaining: length }
    }
}

impl Iterator for Zeros {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let length = usize::try_from(self.remaining).unwrap_or(usize::MAX).min(ZEROS.len());
        self.remaining -= length as u64;
        (length > 0).then(|| Bytes::from_static(&ZEROS[..length]))
    }
}
