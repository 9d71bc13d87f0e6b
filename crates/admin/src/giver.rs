//! Changes that give policies to users and groups after the caller has read the policies.
//!
//! A caller that compares a policy with the rights of an operator must give the same document that
//! it has read. The invariant: a change of a [`PolicyGiver`] gives no other version of a policy
//! that it has seen. For example, if `photos` is replaced by a policy with all actions after the
//! caller has read it, the change fails with [`AdminError::PolicyChanged`].

use namespace::SeenPolicy;

use crate::access::IssuedKey;
use crate::{Admin, AdminError, Etag, NewUser, SecretSealer};

/// Gives policies in the versions that a caller has seen. A policy that the caller has not read,
/// for example a built-in one, is given as it is.
#[derive(Clone, Debug)]
pub struct PolicyGiver<'a> {
    admin: &'a Admin,
    seen: Vec<SeenPolicy>,
}

impl Admin {
    /// Returns the giver of policies whose etags, each with the name of its policy, the caller has
    /// read.
    pub fn giver(&self, seen: impl IntoIterator<Item = (String, Etag)>) -> PolicyGiver<'_> {
        let seen =
            seen.into_iter().map(|(name, etag)| SeenPolicy { name, version: etag.version() });
        PolicyGiver { admin: self, seen: seen.collect() }
    }
}

impl PolicyGiver<'_> {
    /// Creates a user. If `enabled` is false, requests of the user are refused from the beginning.
    ///
    /// # Errors
    /// Those of [`Admin::add_user`], and [`AdminError::PolicyChanged`].
    pub async fn add_user(
        &self,
        new: &NewUser<'_>,
        enabled: bool,
        sealer: &dyn SecretSealer,
    ) -> Result<IssuedKey, AdminError> {
        self.admin.create_user(new, enabled, &self.seen, sealer).await
    }

    /// Replaces the policies of a user.
    ///
    /// # Errors
    /// Those of [`Admin::set_user_policies`], and [`AdminError::PolicyChanged`].
    pub async fn set_user_policies(
        &self,
        access_key: &str,
        policies: &[String],
        expected: Option<&Etag>,
    ) -> Result<(), AdminError> {
        self.admin.replace_user_policies(access_key, (policies, &self.seen), expected).await
    }

    /// Creates a group without members, or replaces the policies of the group of this name. Returns
    /// true if the group existed.
    ///
    /// # Errors
    /// Those of [`Admin::put_group`], and [`AdminError::PolicyChanged`].
    pub async fn put_group(
        &self,
        name: &str,
        enabled: Option<bool>,
        policies: Option<&[String]>,
        expected: Option<&Etag>,
    ) -> Result<bool, AdminError> {
        self.admin.write_group(name, enabled, (policies, &self.seen), expected).await
    }
}
