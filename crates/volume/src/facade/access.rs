//! Access keys and policies, for whoever checks requests by them. What changes them needs no volume.

use namespace::{ListAccounts, ListPolicies, ListUsers};
use record::{Account, AccountId, PolicyRecord, User};

use crate::{Volume, VolumeError};

impl Volume {
    /// All accounts, by their numbers.
    pub async fn accounts(&self) -> Result<Vec<(AccountId, Account)>, VolumeError> {
        self.session.run(&ListAccounts).await
    }

    /// All access keys, in order.
    pub async fn users(&self) -> Result<Vec<(String, User)>, VolumeError> {
        self.session.run(&ListUsers).await
    }

    /// All named policies, in order.
    pub async fn policies(&self) -> Result<Vec<(String, PolicyRecord)>, VolumeError> {
        self.session.run(&ListPolicies).await
    }
}
