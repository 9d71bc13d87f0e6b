//! A body that is kept whole in memory, because it may be stored inline or share a block. For
//! example, a body of 3 KiB that arrives in three frames is joined when it is stored in its record.

use bytes::{Bytes, BytesMut};

use crate::Permit;
use crate::packer::Packer;
use crate::staging::Staging;

/// Shorter pieces of a body, in bytes, are copied together, so that no small piece keeps a much
/// larger buffer alive.
const FRAME_BYTES_MIN: usize = 16 << 10;

/// A body that has not been cut into blocks.
#[derive(Debug, Default)]
pub(super) struct WholeBody {
    /// The pieces of the body, each as it came or copied together, except those in `tail`.
    pub(super) pieces: Vec<Bytes>,
    /// The last short frames, copied together.
    tail: BytesMut,
    /// The bytes for which the body's permit has memory.
    pub(super) granted: u32,
    pub(super) permit: Option<Permit>,
}

impl WholeBody {
    pub(super) fn push(&mut self, bytes: Bytes) {
        // The first frame is kept as it is: a body of a single frame is not copied.
        if bytes.len() < FRAME_BYTES_MIN && !(self.pieces.is_empty() && self.tail.is_empty()) {
            self.tail.extend_from_slice(&bytes);
            return;
        }
        self.seal_tail();
        self.pieces.push(bytes);
    }

    pub(super) fn seal_tail(&mut self) {
        if !self.tail.is_empty() {
            self.pieces.push(self.tail.split().freeze());
        }
    }

    pub(super) fn into_bytes(mut self) -> Bytes {
        self.seal_tail();
        match self.pieces.as_slice() {
            [] => Bytes::new(),
            [only] => only.clone(),
            pieces => pieces.concat().into(),
        }
    }
}

/// Returns the length of the longest body that is kept whole, in bytes.
pub(super) fn whole_bytes_max(staging: &Staging, packer: &Packer) -> u32 {
    let shared = packer.body_bytes_max().min(staging.block_bytes());
    shared.max(staging.inline_bytes_max)
}
