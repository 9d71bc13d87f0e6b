//! Checks a bucket's quota before the body of a write is read.
//!
//! The check costs one read of the bucket's counters, and only buckets with a quota need it. The
//! commit checks again, exactly. This early check refuses no write that the commit would accept.
//! For example, an overwrite frees the bytes of the old object, so a small object may replace
//! another in a full bucket.

use record::{INLINE_PERMANENT_MAX, Quota};
use s3::{Code, Fault};
use volume::{FsError, VolumeError};

use crate::call::Call;
use crate::translate;

/// The largest number of bytes that a write frees at once when it replaces an object: the content
/// of an object that is stored in its record. The reaper, a background task that deletes
/// unreferenced blocks, frees all other content later.
const REPLACED_BYTES_MAX: u64 = INLINE_PERMANENT_MAX as u64;

/// The kind of content that a request is about to send, for the check of the bucket's quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Incoming {
    /// An object, which may replace another.
    Object,
    /// A part of an upload, or bytes that are appended to an object.
    Bytes,
}

/// Fails with `QuotaExceeded` if the bucket has no capacity for the content. `bytes` is the
/// announced length, if the client sent one.
pub(crate) async fn refuse_early(
    call: &Call<'_>,
    incoming: Incoming,
    bytes: Option<u64>,
) -> Result<(), Fault> {
    let (bucket, key) = call.object()?;
    let seen = call.volume.bucket_from_hints(bucket.as_str()).await.map_err(translate::fault)?;
    if seen.quota == Quota::NONE {
        return Ok(());
    }
    // Boxed, so that requests to buckets without a quota do not reserve memory for this future.
    let held = Box::pin(call.volume.holdings(seen.ino)).await.map_err(translate::fault)?;
    // A replaced object may free this many bytes at once. Only the commit knows the exact number.
    let grown = bytes.unwrap_or(0).saturating_sub(REPLACED_BYTES_MAX);
    let exceeds = |most: u64| grown > 0 && held.bytes.saturating_add(grown) > most;
    if seen.quota.bytes.is_some_and(exceeds) {
        return Err(Code::QuotaExceeded.into());
    }
    // `names` also counts the bucket itself.
    let full = seen.quota.objects.is_some_and(|most| held.names.saturating_sub(1) >= most);
    if incoming == Incoming::Object && full {
        // An object that replaces another does not add to the number of objects.
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
