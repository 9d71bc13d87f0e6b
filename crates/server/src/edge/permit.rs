//! Permits for connections to be served.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Connections beyond the limit that get a refusal; any more are closed without one.
const REFUSED_CONNECTIONS_MAX: usize = 1024;

/// Whether the requests of a connection are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// They are.
    Granted,
    /// There are too many connections, or too many of its host: its requests are refused, and it is
    /// closed soon. Holds the name of the limit.
    Refused(&'static str),
}

/// How many connections may be open at a time.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionPermits {
    served: Arc<Semaphore>,
    refused: Arc<Semaphore>,
}

impl ConnectionPermits {
    pub(crate) fn new(connections_max: usize) -> ConnectionPermits {
        let refused = Arc::new(Semaphore::new(REFUSED_CONNECTIONS_MAX));
        ConnectionPermits { served: Arc::new(Semaphore::new(connections_max)), refused }
    }

    /// A permit for a connection, to be served if its host may have one more, to be refused if
    /// not. Without any permit, the name of the limit.
    pub(super) fn take(
        &self,
        host_may: bool,
    ) -> Result<(Admission, OwnedSemaphorePermit), &'static str> {
        let served = || Arc::clone(&self.served).try_acquire_owned().ok();
        let refused = || Arc::clone(&self.refused).try_acquire_owned().ok();
        match host_may.then(served).flatten() {
            Some(permit) => Ok((Admission::Granted, permit)),
            None => {
                let limit = if host_may { "connections" } else { "host_connections" };
                refused().map(|permit| (Admission::Refused(limit), permit)).ok_or(limit)
            }
        }
    }
}
