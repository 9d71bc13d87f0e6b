//! Zeros for holes, without memory of their own.

use std::ops::Range;

use bytes::Bytes;

/// The buffer of which all zeros are slices: 64 KiB, so that a hole of 1 MiB is a few pieces.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// Iterates over zeros for `range`: pieces of at most 64 KiB, each with its position, in ascending
/// order.
pub(crate) fn zeros(range: Range<u64>) -> impl Iterator<Item = (u64, Bytes)> {
    let end = range.end;
    range.step_by(ZEROS.len()).map(move |at| {
        let length = usize::try_from(end - at).unwrap_or(usize::MAX).min(ZEROS.len());
        (at, Bytes::from_static(&ZEROS[..length]))
    })
}
