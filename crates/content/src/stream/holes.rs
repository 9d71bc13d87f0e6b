//! The zeros of a sparse file, where no slice holds anything.
//!
//! All of them are one piece of memory, and nothing is read for them.

use block::SUB_BLOCK_BYTES;
use bytes::Bytes;

/// The most zeros of one frame.
static ZEROS: [u8; SUB_BLOCK_BYTES as usize] = [0; SUB_BLOCK_BYTES as usize];

/// What is left of a hole, frame by frame.
#[derive(Debug, Default)]
pub(super) struct Zeros {
    left: u64,
}

impl Zeros {
    /// A hole of so many bytes.
    pub(super) fn new(length: u64) -> Zeros {
        Zeros { left: length }
    }
}

impl Iterator for Zeros {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let length = usize::try_from(self.left).unwrap_or(usize::MAX).min(ZEROS.len());
        self.left -= length as u64;
        (length > 0).then(|| Bytes::from_static(&ZEROS[..length]))
    }
}
