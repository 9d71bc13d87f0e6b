//! Access keys and policies.

use namespace::{ListPolicies, ListUsers, SetRecord};
use record::{PolicyRecord, User};

use crate::{Volume, VolumeError};

impl Volume {
    /// All access keys.
    pub async fn users(&self) -> Result<Vec<(String, User)>, VolumeError> {
        self.session.run(&ListUsers).await
    }

    /// Makes or changes an access key. Answers whether it existed.
    pub async fn put_user(&self, access_key: &str, user: &User) -> Result<bool, VolumeError> {
        self.session.run(&SetRecord::user(access_key, Some(user))).await
    }

    /// Removes an access key. Answers whether it existed.
    pub async fn remove_user(&self, access_key: &str) -> Result<bool, VolumeError> {
        self.session.run(&SetRecord::user(access_key, None)).await
    }

    /// All named policies.
    pub async fn policies(&self) -> Result<Vec<(String, PolicyRecord)>, VolumeError> {
        self.session.run(&ListPolicies).await
    }

    /// Makes or changes a named policy. Answers whether it existed.
    pub async fn put_policy(&self, name: &str, policy: &PolicyRecord) -> Result<bool, VolumeError> {
        self.session.run(&SetRecord::policy(name, Some(policy))).await
    }

    /// Removes a named policy. Answers whether it existed.
    pub async fn remove_policy(&self, name: &str) -> Result<bool, VolumeError> {
        self.session.run(&SetRecord::policy(name, None)).await
    }
}
