//! What a hole reads as, without memory of its own.

use std::ops::Range;

use bytes::Bytes;

/// The piece that all zeros are cut from: long enough that a hole of a megabyte is a few pieces.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// Zeros for every position of a range of bytes, in order, each piece with the position it starts
/// at and no longer than 64 KiB.
pub(crate) fn zeros(range: Range<u64>) -> impl Iterator<Item = (u64, Bytes)> {
    let end = range.end;
    range.step_by(ZEROS.len()).map(move |at| {
        let length = usize::try_from(end - at).unwrap_or(usize::MAX).min(ZEROS.len());
        (at, Bytes::from_static(&ZEROS[..length]))
    })
}
