//! Accounts, access keys and policies, for the component that authorizes requests. Changing them
//! needs no volume.

use namespace::{AccessRecords, ListAccess, ListAccounts, ListPolicies, ListUsers};
use record::{Account, AccountId, PolicyRecord, User};

use crate::{Volume, VolumeError};

impl Volume {
    /// Returns all accounts, access keys and policies, as one snapshot has them.
    pub async fn access_records(&self) -> Result<AccessRecords, VolumeError> {
        self.session.run(&ListAccess).await
    }

    /// Returns all accounts, by number.
    pub async fn accounts(&self) -> Result<Vec<(AccountId, Account)>, VolumeError> {
        self.session.run(&ListAccounts).await
    }

    /// Returns all access keys, in order.
    pub async fn users(&self) -> Result<Vec<(String, User)>, VolumeError> {
        self.session.run(&ListUsers).await
    }

    /// Returns all named policies, in order.
    pub async fn policies(&self) -> Result<Vec<(String, PolicyRecord)>, VolumeError> {
        self.session.run(&ListPolicies).await
    }
}
