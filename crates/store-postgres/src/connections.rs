//! A small pool of connections.
//!
//! One call at a time uses a connection. The connection returns to the pool only if the call
//! succeeded. If the call failed or was dropped, the connection is closed. So no call meets the
//! transaction or the answer of another call.
//!
//! For example, a caller drops a read in the middle: its connection is closed, because the answer
//! may still arrive on it.
//!
//! This module knows no statements.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sqlx::Connection;
use sqlx::postgres::PgConnection;
use store::StoreError;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout};

use crate::connect::{Connector, Idle, close_gracefully};
use crate::error::{closed, unavailable};

/// The limit of the time that a call waits for a connection.
const PERMIT_DEADLINE: Duration = Duration::from_secs(2);

/// A connection that was idle for this long is tested before a call uses it, since the server may
/// have been restarted meanwhile.
const QUIET: Duration = Duration::from_secs(1);

/// Limit of the time of that test.
const PING_DEADLINE: Duration = Duration::from_millis(500);

/// The pool of connections for one kind of call: commits or reads.
#[derive(Debug)]
pub(crate) struct Connections {
    connector: Arc<Connector>,
    idle: Mutex<Vec<Resting>>,
    permits: Semaphore,
    size: u32,
}

/// A connection that no call uses.
#[derive(Debug)]
struct Resting {
    connection: PgConnection,
    /// The generation of the connection, as in [`Lent::broke`].
    generation: u64,
    /// The time at which the last call returned the connection.
    since: Instant,
}

/// A connection of the pool that one call uses. If the call does not give it back, it is closed.
#[derive(Debug)]
pub(crate) struct Lent<'a> {
    connections: &'a Connections,
    connection: PgConnection,
    generation: u64,
    /// True if the connection was made for this call.
    pub(crate) is_new: bool,
    _permit: SemaphorePermit<'a>,
}

impl Deref for Lent<'_> {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.connection
    }
}

impl DerefMut for Lent<'_> {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.connection
    }
}

impl Lent<'_> {
    /// Returns a connection to the pool. All of its statements must have been answered.
    pub(crate) fn give_back(self) {
        if self.generation == self.connections.connector.generation() {
            let resting = Resting {
                connection: self.connection,
                generation: self.generation,
                since: Instant::now(),
            };
            self.connections.idle().push(resting);
        }
    }

    /// Drops a broken connection, and with it all connections of the same generation, that is,
    /// those that were made since the last break or change of the server.
    pub(crate) fn broke(self) {
        self.connections.connector.broke(self.generation);
    }
}

impl Connections {
    pub(crate) fn new(connector: Arc<Connector>, size: u32) -> Connections {
        let size = size.max(1);
        let permits = Semaphore::new(usize::try_from(size).unwrap_or(Semaphore::MAX_PERMITS));
        Connections { connector, idle: Mutex::default(), permits, size }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Resting>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until fewer calls than the pool has connections are in progress, then returns a
    /// connection that works. Fails with `Unavailable` if all connections stay busy for
    /// [`PERMIT_DEADLINE`], or if the pool is closed; otherwise with the error of
    /// [`Connector::connect`].
    pub(crate) async fn lend(&self) -> Result<Lent<'_>, StoreError> {
        let late = |_| {
            let size = self.size;
            unavailable(format!("waiting for one of {size} connections to PostgreSQL: all busy"))
        };
        let permit = timeout(PERMIT_DEADLINE, self.permits.acquire()).await.map_err(late)?;
        let permit = permit.map_err(|_| closed())?;
        loop {
            let Some(mut resting) = self.idle().pop() else { break };
            let generation = resting.generation;
            if generation != self.connector.generation() {
                continue;
            }
            if resting.since.elapsed() > QUIET {
                let ping = timeout(PING_DEADLINE, resting.connection.ping()).await;
                if !matches!(ping, Ok(Ok(()))) {
                    self.connector.broke(generation);
                    continue;
                }
            }
            return Ok(self.lent(resting.connection, generation, false, permit));
        }
        // If connecting finds another server, the generation has changed, and this connection is
        // used for one call only.
        let generation = self.connector.generation();
        let connection = self.connector.connect(Idle::Short).await?;
        Ok(self.lent(connection, generation, true, permit))
    }

    fn lent<'a>(
        &'a self,
        connection: PgConnection,
        generation: u64,
        is_new: bool,
        permit: SemaphorePermit<'a>,
    ) -> Lent<'a> {
        Lent { connections: self, connection, generation, is_new, _permit: permit }
    }

    /// Adds a connection that was made elsewhere to the pool. `generation` is the number that the
    /// connector had when the connection was made.
    pub(crate) fn adopt(&self, connection: PgConnection, generation: u64) {
        self.idle().push(Resting { connection, generation, since: Instant::now() });
    }

    /// Waits for the calls in flight and closes all connections.
    pub(crate) async fn close(&self) {
        let Ok(permits) = self.permits.acquire_many(self.size).await else { return };
        self.permits.close();
        drop(permits);
        let idle = std::mem::take(&mut *self.idle());
        for resting in idle {
            close_gracefully(resting.connection).await;
        }
    }
}
