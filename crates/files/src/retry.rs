//! Retries of operations while the stores do not answer or other writers interfere.
//!
//! For example, with `io_timeout` of 60 s and a database that restarts within 20 s, programs see a
//! pause instead of `EIO`.

use std::time::Duration;

use rustix::io::Errno;
use tokio::time::Instant;
use tracing::warn;
use volume::{CONTENTION_DEADLINE, FsError, ProtectionError, ProtectionErrorKind, VolumeError};

use crate::errno::errno;

/// The pause between two tries: the first one, and the longest. It doubles with each try.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Runs an operation of the volume again while the metadata store or the block store does not
/// answer, up to `io_timeout`. If other writers keep it from committing, it is retried up to
/// [`CONTENTION_DEADLINE`] only, because the volume has already waited that long. In both cases the
/// failed try has changed nothing.
pub(crate) async fn retry_until_deadline<T, F>(
    io_timeout: Duration,
    operation: impl Fn() -> F,
) -> Result<T, Errno>
where
    F: Future<Output = Result<T, VolumeError>>,
{
    let (began, mut pause) = (Instant::now(), PAUSE_MIN);
    loop {
        // The timeout also covers a commit whose outcome is unknown: its future waits until it is
        // settled.
        let Ok(done) = tokio::time::timeout_at(began + io_timeout, operation()).await else {
            warn!("a file operation did not complete within the I/O timeout; it fails with EIO");
            return Err(Errno::IO);
        };
        let error = match done {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        let retry = match error {
            VolumeError::Unavailable(_)
            | VolumeError::Overloaded
            | VolumeError::Encryption(ProtectionError {
                kind: ProtectionErrorKind::Unavailable,
                ..
            }) => io_timeout,
            VolumeError::Fs(FsError::Contended) => io_timeout.min(CONTENTION_DEADLINE),
            VolumeError::Fs(_)
            | VolumeError::Full(_)
            | VolumeError::Unknown(_)
            | VolumeError::Encryption(_)
            | VolumeError::Corrupt(_)
            | VolumeError::Refused(_)
            | VolumeError::Fenced => return Err(errno(&error)),
        };
        if began.elapsed() + pause > retry {
            return Err(errno(&error));
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}
