//! A pool of connections.
//!
//! One call at a time uses a connection. The connection returns to the pool only with `keep`, after
//! all of its statements were answered. A connection of a call that failed, or whose caller went
//! away, is closed. So no connection here is in a transaction or has an answer outstanding. Idle
//! connections are not tested; a caller that finds one broken replaces it. For example, the server
//! ends idle connections at night, and the first call of the morning connects again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use store::{StoreError, StoreErrorKind};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use crate::connect::{Connector, Link, Role};
use crate::error;
use crate::script::{Failure, Script, StatementResult};

/// How long a call waits for a connection.
const PERMIT_WAIT: Duration = Duration::from_secs(2);

/// The connections of one role (commits or reads), opened when a call first needs them.
#[derive(Debug)]
pub(crate) struct ConnectionPool {
    connector: Arc<Connector>,
    role: Role,
    size: u32,
    idle: Mutex<Vec<Link>>,
    permits: Semaphore,
}

/// A connection that one caller uses. It is closed unless `keep` returns it to the pool.
#[derive(Debug)]
pub(crate) struct PooledConnection<'a> {
    pool: &'a ConnectionPool,
    link: Link,
    /// True if the connection was idle in the pool before this call, so that the server may have
    /// ended it meanwhile.
    was_idle: bool,
    _permit: SemaphorePermit<'a>,
}

impl ConnectionPool {
    pub(crate) fn new(connector: Arc<Connector>, role: Role, size: u32) -> ConnectionPool {
        let size = size.max(1);
        let places = usize::try_from(size).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
        ConnectionPool {
            connector,
            role,
            size,
            idle: Mutex::new(Vec::new()),
            permits: Semaphore::new(places),
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Link>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) async fn acquire(&self) -> Result<PooledConnection<'_>, StoreError> {
        let permit = match timeout(PERMIT_WAIT, self.permits.acquire()).await {
            Ok(permit) => permit.map_err(|_| error::closed())?,
            Err(_) => {
                let doing = "waiting for a connection: all of them are busy";
                return Err(StoreError::new(StoreErrorKind::Unavailable, doing));
            }
        };
        let refusals = self.connector.standing.refusals();
        let idle = {
            let mut idle = self.idle();
            // Close connections from before a failed check of the server.
            idle.retain(|link| link.refusals == refusals);
            idle.pop()
        };
        let was_idle = idle.is_some();
        let link = match idle {
            Some(link) => link,
            None => self.connector.connect(self.role).await?,
        };
        Ok(PooledConnection { pool: self, link, was_idle, _permit: permit })
    }

    /// Waits for the calls in flight and closes all connections.
    pub(crate) async fn close(&self) {
        let Ok(permits) = self.permits.acquire_many(self.size).await else { return };
        self.permits.close();
        drop(permits);
        let idle = std::mem::take(&mut *self.idle());
        for link in idle {
            link.close().await;
        }
    }
}

impl PooledConnection<'_> {
    /// Runs a script. If the connection breaks, also closes the idle ones: they have most likely
    /// ended for the same reason.
    pub(crate) async fn run(&mut self, script: Script) -> Result<Vec<StatementResult>, Failure> {
        let answers = script.run(&mut self.link.connection).await;
        if answers.as_ref().is_err_and(|failure| error::is_broken(&failure.error)) {
            self.pool.idle().clear();
            self.pool.connector.broke();
        }
        if answers.as_ref().is_err_and(|failure| error::is_read_only(&failure.error)) {
            // The server still answers reads, possibly with old records.
            self.pool.connector.standing.refuse();
        }
        answers
    }

    /// Returns true if a failure means only that the connection had ended while it was idle, so
    /// that the same script may succeed on a new one.
    pub(crate) fn had_ended(&self, failure: &Failure) -> bool {
        self.was_idle && error::is_broken(&failure.error) && !error::is_timeout(&failure.error)
    }

    /// Replaces a broken connection with a new one.
    pub(crate) async fn renew(&mut self) -> Result<(), StoreError> {
        self.link = self.pool.connector.connect(self.pool.role).await?;
        self.was_idle = false;
        Ok(())
    }

    /// Returns the number that the server gave to this connection.
    pub(crate) fn id(&self) -> u64 {
        self.link.id
    }

    /// Returns the connection to the pool. It must not be in a transaction.
    pub(crate) fn keep(self) {
        self.pool.idle().push(self.link);
    }
}
