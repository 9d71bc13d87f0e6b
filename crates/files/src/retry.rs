//! Waiting for stores that do not answer.

use std::time::Duration;

use rustix::io::Errno;
use tokio::time::Instant;
use tracing::warn;
use volume::{CONTENTION_DEADLINE, FsError, VolumeError};

use crate::errno::errno;

/// How long an operation waits between two tries while the stores do not answer: at first, and at
/// most.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Tries an operation again while the stores do not answer, until `io_timeout`. An operation that
/// other writers keep from committing is tried again for [`CONTENTION_DEADLINE`] at most: the volume
/// has waited as long already. In both cases the failed try has changed nothing.
pub(crate) async fn retry_until_deadline<T, F>(
    io_timeout: Duration,
    operation: impl Fn() -> F,
) -> Result<T, Errno>
where
    F: Future<Output = Result<T, VolumeError>>,
{
    let (began, mut pause) = (Instant::now(), PAUSE_MIN);
    loop {
        // One that may have happened is waited for.
        let Ok(done) = tokio::time::timeout_at(began + io_timeout, operation()).await else {
            warn!("an operation on files was not settled in time");
            return Err(Errno::IO);
        };
        let error = match done {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        let retry = match error {
            VolumeError::Unavailable(_) | VolumeError::Overloaded => io_timeout,
            VolumeError::Fs(FsError::Contended) => io_timeout.min(CONTENTION_DEADLINE),
            error => return Err(errno(&error)),
        };
        if began.elapsed() + pause > retry {
            return Err(errno(&error));
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}
