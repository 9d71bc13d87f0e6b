//! Runs operations of the namespace: reads without a session, and changes in a short session, or in
//! that of the volume if the process has it open.
//!
//! A change has the guarantees of a gateway's change. If the connection breaks after the COMMIT of
//! `user add`, the idempotency slot of its plan, a record that proves if the plan was committed,
//! shows that it was, and the result is success.

use std::sync::Arc;

use namespace::Planner;
use session::{ShortSession, VolumeError};
use store::{Read, ReadResult};

use crate::{Admin, AdminError};

impl Admin {
    /// Returns the result that an operation has now, and commits nothing. Another change can come
    /// before the operation itself.
    pub(crate) async fn look<O>(&self, operation: &O) -> Result<O::Output, AdminError>
    where
        O: Planner + Sync,
        O::Output: Send,
    {
        let clock = &*self.surroundings.clock;
        session::dry_run(&*self.store, clock, operation).await.map_err(unread)
    }

    /// Reads records and counters from the metadata store in one round trip. Returns the results in
    /// the order of `reads`.
    pub(crate) async fn read(&self, reads: &[Read]) -> Result<Vec<ReadResult>, AdminError> {
        let found = self.store.read(reads).await;
        let found = found.map_err(|error| AdminError::Unread(error.into()))?;
        if found.len() == reads.len() {
            return Ok(found);
        }
        Err(AdminError::Corrupt("the store answered with too few results".to_owned()))
    }

    /// Makes a change in the session of the process, or in one of its own. Gateways learn of it
    /// from the change feed.
    pub(crate) async fn change<O>(&self, operation: &O) -> Result<O::Output, AdminError>
    where
        O: Planner + Sync,
        O::Output: Send,
    {
        if let Some(volume) = &self.volume {
            return volume.administer(operation).await.map_err(unchanged);
        }
        let short = self.begin().await?;
        let done = short.run(operation).await;
        // The session ends also if the change failed, so that none stays open until it is fenced.
        short.end().await;
        done.map_err(unchanged)
    }

    /// Makes a change of records from which a gateway that is the only session may answer without a
    /// read: first waits until no session does.
    pub(crate) async fn change_joined<O>(&self, operation: &O) -> Result<O::Output, AdminError>
    where
        O: Planner + Sync,
        O::Output: Send,
    {
        if let Some(volume) = &self.volume {
            // The session is a member of the volume already.
            return volume.administer(operation).await.map_err(unchanged);
        }
        let short = self.begin().await?;
        let done = match short.join().await {
            Ok(()) => short.run(operation).await,
            Err(error) => Err(error),
        };
        short.end().await;
        done.map_err(unchanged)
    }

    async fn begin(&self) -> Result<ShortSession, AdminError> {
        let store = Arc::clone(&self.store);
        let (place, clock) = (&self.surroundings.place, Arc::clone(&self.surroundings.clock));
        ShortSession::begin(store, place, clock).await.map_err(unchanged)
    }
}

/// Returns the error of an operation that commits nothing.
fn unread(error: VolumeError) -> AdminError {
    match error {
        VolumeError::Fs(error) => error.into(),
        VolumeError::Corrupt(why) => AdminError::Corrupt(why),
        VolumeError::Unavailable(_)
        | VolumeError::Full(_)
        | VolumeError::Unknown(_)
        | VolumeError::Overloaded
        | VolumeError::Encryption(_)
        | VolumeError::Refused(_)
        | VolumeError::Fenced => AdminError::Unread(error),
    }
}

/// Returns the error of a change.
fn unchanged(error: VolumeError) -> AdminError {
    match error {
        VolumeError::Fs(error) => error.into(),
        VolumeError::Corrupt(why) => AdminError::Corrupt(why),
        VolumeError::Unknown(why) => AdminError::Unknown(why),
        VolumeError::Fenced => AdminError::Late,
        VolumeError::Unavailable(_)
        | VolumeError::Full(_)
        | VolumeError::Overloaded
        | VolumeError::Encryption(_) => AdminError::Unchanged(error),
        VolumeError::Refused(_) => AdminError::Volume(error),
    }
}

pub(crate) fn corrupt(key: &store::Key, error: &record::DecodeError) -> AdminError {
    AdminError::Corrupt(format!("the record {key:?} cannot be read: {error}"))
}
