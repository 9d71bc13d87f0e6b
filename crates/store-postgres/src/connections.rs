//! A pool of a few connections.
//!
//! A connection is lent to one call at a time. It comes back only if the call has succeeded; if the
//! call failed or was dropped on the way, it is closed. So no call meets the transaction or the answer
//! of another one. This module knows no statements.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sqlx::Connection;
use sqlx::postgres::PgConnection;
use store::StoreError;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout};

use crate::connect::{Connector, Idle};
use crate::error::{closed, unavailable};

/// How long a call waits for a connection.
const PERMIT_DEADLINE: Duration = Duration::from_secs(2);

/// A connection that was idle for this long is tested before a call uses it: the server may have been
/// restarted meanwhile.
const QUIET: Duration = Duration::from_secs(1);

/// How long that test may take.
const PING_DEADLINE: Duration = Duration::from_millis(500);

/// How long closing a connection in good order may take.
const GOODBYE_DEADLINE: Duration = Duration::from_millis(500);

/// Connections for one kind of call.
#[derive(Debug)]
pub(crate) struct Connections {
    connector: Arc<Connector>,
    idle: Mutex<Vec<Resting>>,
    permits: Semaphore,
    size: u32,
}

#[derive(Debug)]
struct Resting {
    connection: PgConnection,
    age: u64,
    since: Instant,
}

/// A connection, lent to one call.
#[derive(Debug)]
pub(crate) struct Lent<'a> {
    connections: &'a Connections,
    connection: PgConnection,
    age: u64,
    /// Whether it was made for this call.
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
    /// Gives back a connection that has done all that it was asked to do.
    pub(crate) fn give_back(self) {
        if self.age == self.connections.connector.age() {
            let resting =
                Resting { connection: self.connection, age: self.age, since: Instant::now() };
            self.connections.idle().push(resting);
        }
    }

    /// Drops a connection that broke, and all that are as old.
    pub(crate) fn broke(self) {
        self.connections.connector.broke(self.age);
    }
}

/// Closes a connection in good order, if the server listens.
pub(crate) async fn say_goodbye(connection: PgConnection) {
    // If the server is gone, this fails, and there is nothing to close.
    let _ = timeout(GOODBYE_DEADLINE, connection.close()).await;
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

    /// Waits for a permit, and then for a connection that works.
    pub(crate) async fn lend(&self) -> Result<Lent<'_>, StoreError> {
        let late = |_| {
            let size = self.size;
            unavailable(format!("waiting for one of {size} connections to PostgreSQL: all busy"))
        };
        let permit = timeout(PERMIT_DEADLINE, self.permits.acquire()).await.map_err(late)?;
        let permit = permit.map_err(|_| closed())?;
        loop {
            let Some(mut resting) = self.idle().pop() else { break };
            let age = resting.age;
            if age != self.connector.age() {
                continue;
            }
            if resting.since.elapsed() > QUIET {
                let ping = timeout(PING_DEADLINE, resting.connection.ping()).await;
                if !matches!(ping, Ok(Ok(()))) {
                    self.connector.broke(age);
                    continue;
                }
            }
            return Ok(self.lent(resting.connection, age, false, permit));
        }
        // If connecting found that the server has changed, this connection is used for one call only.
        let age = self.connector.age();
        let connection = self.connector.connect(Idle::Short).await?;
        Ok(self.lent(connection, age, true, permit))
    }

    fn lent<'a>(
        &'a self,
        connection: PgConnection,
        age: u64,
        is_new: bool,
        permit: SemaphorePermit<'a>,
    ) -> Lent<'a> {
        Lent { connections: self, connection, age, is_new, _permit: permit }
    }

    /// Puts a connection here that was made elsewhere.
    pub(crate) fn adopt(&self, connection: PgConnection, age: u64) {
        self.idle().push(Resting { connection, age, since: Instant::now() });
    }

    /// Waits for the calls under way and closes every connection.
    pub(crate) async fn close(&self) {
        let Ok(permits) = self.permits.acquire_many(self.size).await else { return };
        self.permits.close();
        drop(permits);
        let idle = std::mem::take(&mut *self.idle());
        for resting in idle {
            say_goodbye(resting.connection).await;
        }
    }
}
