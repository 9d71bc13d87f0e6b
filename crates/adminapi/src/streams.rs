//! The limit of the streams of live events, and their end.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// The limit of streams of this gateway.
pub(crate) const STREAMS_MAX: usize = 32;

/// The streams of this gateway.
#[derive(Debug)]
pub(crate) struct Streams {
    permits: Arc<Semaphore>,
    stopping: CancellationToken,
}

impl Streams {
    pub(crate) fn new() -> Streams {
        let permits = Arc::new(Semaphore::new(STREAMS_MAX));
        Streams { permits, stopping: CancellationToken::new() }
    }

    /// Returns the permit of a new stream; `None` if there are [`STREAMS_MAX`].
    pub(crate) fn permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.permits).try_acquire_owned().ok()
    }

    /// Returns a token that is cancelled when the gateway stops.
    pub(crate) fn stopping(&self) -> CancellationToken {
        self.stopping.clone()
    }

    /// Ends all streams.
    pub(crate) fn end(&self) {
        self.stopping.cancel();
    }
}
