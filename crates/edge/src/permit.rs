//! Permits for connections. For example, with `connections_max` 4096, the next 1,024 connections
//! get refusals, and further ones are closed at once.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The limit of connections that get a refusal. Further ones are closed without a response.
const REFUSED_CONNECTIONS_MAX: usize = 1024;

/// The decision about a new connection: its requests are served or refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Its requests are served.
    Granted,
    /// Its requests are refused, and it is closed soon, because of the limit with this name: there
    /// are too many connections, or too many of its host.
    Refused(&'static str),
}

/// The permits for all connections of a listener.
#[derive(Clone, Debug)]
pub struct ConnectionPermits {
    served: Arc<Semaphore>,
    refused: Arc<Semaphore>,
}

impl ConnectionPermits {
    /// Returns the permits for this number of connections whose requests are served, and for
    /// a fixed number of connections that get a refusal.
    pub fn new(connections_max: usize) -> ConnectionPermits {
        let refused = Arc::new(Semaphore::new(REFUSED_CONNECTIONS_MAX));
        ConnectionPermits { served: Arc::new(Semaphore::new(connections_max)), refused }
    }

    /// Decides about a new connection. Returns the decision and the permit, which the connection
    /// holds until it ends. `host_may` is false if its host has the maximum number of connections
    /// already. If even the connections that only get a refusal are at their limit, fails with the
    /// name of the limit, and the caller closes the connection without a response.
    pub(super) fn take(
        &self,
        host_may: bool,
    ) -> Result<(Admission, OwnedSemaphorePermit), &'static str> {
        // Refusals have permits of their own, so that refused connections do not use those of
        // served ones.
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
