//! Accounts, access keys and policies, for the component that authorizes requests, and changes of
//! the administration that run in this process's session.

use namespace::{AccessRecords, ListAccess, ListUsers, Planner, RecordLastUses};
use record::{Timestamp, User};

use crate::{Volume, VolumeError};

impl Volume {
    /// Returns all accounts, access keys and policies, as one snapshot has them.
    pub async fn access_records(&self) -> Result<AccessRecords, VolumeError> {
        self.session.run(&ListAccess).await
    }

    /// Returns all access keys, in order.
    pub async fn users(&self) -> Result<Vec<(String, User)>, VolumeError> {
        self.session.run(&ListUsers).await
    }

    /// Runs an operation of the administration in the session of this volume. Like all operations,
    /// it continues if the caller is dropped. For example, an HTTP interface in a gateway adds an
    /// access key without a session of its own.
    pub async fn administer<O>(&self, operation: &O) -> Result<O::Output, VolumeError>
    where
        O: Planner + Sync,
        O::Output: Send,
    {
        self.session.run(operation).await
    }

    /// Writes the last uses of access keys, at most [`namespace::LAST_USES_MAX`], unless the store
    /// has later ones. No gateway reads its access keys again because of it.
    pub async fn record_last_uses(&self, uses: &[(String, Timestamp)]) -> Result<(), VolumeError> {
        self.session.run(&RecordLastUses { uses }).await
    }
}
