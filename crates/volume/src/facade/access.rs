//! Accounts, access keys and policies, for the component that authorizes requests, and changes of the
//! administration that run in this process's session.

use namespace::{AccessRecords, ListAccess, ListUsers, Planner};
use record::User;

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

    /// Runs an operation of the administration in the session of this volume. Like all operations, it
    /// continues if the caller is dropped. For example, an HTTP interface in a gateway adds an access
    /// key without a session of its own.
    pub async fn administer<O>(&self, operation: &O) -> Result<O::Output, VolumeError>
    where
        O: Planner + Sync,
        O::Output: Send,
    {
        self.session.run(operation).await
    }
}
