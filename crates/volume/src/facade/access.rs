//! Accounts, access keys and policies, for the component that authorizes requests. Changing them
//! needs no volume.

use namespace::{AccessRecords, ListAccess, ListUsers};
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
}
