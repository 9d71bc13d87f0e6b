//! Whether a bucket has room for what a request brings, asked before its body is read.
//!
//! It is asked of buckets with a quota alone, and costs one read of their counters. The commit decides
//! again, exactly; here nothing is refused that the commit would surely take.

use record::{INLINE_PERMANENT_MAX, Quota};
use s3::{Code, Fault};
use volume::{FsError, VolumeError};

use crate::call::Call;
use crate::translate;

/// What a write gives back at once, at most, of the object that it replaces: the bytes of one that is
/// nothing but its record. All others the reaper gives back.
const REPLACED_BYTES_MAX: u64 = INLINE_PERMANENT_MAX as u64;

/// What is about to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coming {
    /// An object, which may be in place of another.
    Object,
    /// What becomes part of an object later, or of one that is there.
    Bytes,
}

/// Refuses what has no room in its bucket, as far as that is known: `bytes` if they are announced.
///
/// Fault: `QuotaExceeded`.
pub(crate) async fn refuse_early(
    call: &Call<'_>,
    coming: Coming,
    bytes: Option<u64>,
) -> Result<(), Fault> {
    let (bucket, key) = call.object()?;
    let seen = call.volume.bucket_from_hints(bucket.as_str()).await.map_err(translate::fault)?;
    if seen.quota == Quota::NONE {
        return Ok(());
    }
    // Boxed, so that requests to other buckets hold no memory for it.
    let held = Box::pin(call.volume.holdings(seen.ino)).await.map_err(translate::fault)?;
    let grown = bytes.unwrap_or(0).saturating_sub(REPLACED_BYTES_MAX);
    let exceeds = |most: u64| grown > 0 && held.bytes.saturating_add(grown) > most;
    if seen.quota.bytes.is_some_and(exceeds) {
        return Err(Code::QuotaExceeded.into());
    }
    let full = seen.quota.objects.is_some_and(|most| held.names.saturating_sub(1) >= most);
    if coming == Coming::Object && full {
        // What takes the place of another object is not one more.
        match Box::pin(call.volume.stat(call.named_bucket()?, key.as_str().as_bytes())).await {
            Err(VolumeError::Fs(FsError::NoSuchKey | FsError::Deleted(_))) => {
                return Err(Code::QuotaExceeded.into());
            }
            Ok(_) => {}
            Err(error) => return Err(translate::fault(error)),
        }
    }
    Ok(())
}
