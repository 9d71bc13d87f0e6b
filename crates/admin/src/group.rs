//! Groups of users, which have further policies together.
//!
//! For example, after `put_group("lab", …)` with the policy `photos`, each member of `lab` has the
//! policy `photos` in addition to its own. Gateways follow a change of the members within a second.

use namespace::{
    ChangeMembers, FindGroup, ListGroups, MEMBERS_AT_ONCE_MAX, Membership, PutGroup, RemoveGroup,
    SeenPolicy,
};
use record::{Group, key};

use crate::access::existing;
use crate::names::check_group_name;
use crate::policy::{check_named, is_built_in};
use crate::{Admin, AdminError, Etag};

/// A group with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedGroup {
    /// The name of the group.
    pub name: String,
    /// False if the policies of the group have no effect.
    pub enabled: bool,
    /// The names of the members, in order.
    pub members: Vec<String>,
    /// The names of the policies.
    pub policies: Vec<String>,
    /// The version of the record.
    pub etag: Etag,
}

impl NamedGroup {
    fn new(name: String, group: Group) -> NamedGroup {
        let etag = Etag::of(&group.encode(&key::group(&name)));
        let Group { enabled, members, policies } = group;
        NamedGroup { name, enabled, members, policies, etag }
    }
}

impl Admin {
    /// Returns all groups in order of name.
    pub async fn groups(&self) -> Result<Vec<NamedGroup>, AdminError> {
        let groups = self.look(&ListGroups).await?;
        Ok(groups.into_iter().map(|(name, group)| NamedGroup::new(name, group)).collect())
    }

    /// Returns a group.
    ///
    /// # Errors
    /// [`AdminError::NoSuchGroup`].
    pub async fn group(&self, name: &str) -> Result<NamedGroup, AdminError> {
        let name = existing_group(name)?;
        let group = self.look(&FindGroup { name }).await??;
        Ok(NamedGroup::new(name.to_owned(), group))
    }

    /// Creates a group without members, or replaces the policies of the group of this name. A value
    /// that is `None` does not change; a new group is enabled and has no policies then. Returns
    /// true if the group existed.
    ///
    /// # Errors
    /// [`AdminError::Name`], [`AdminError::NoSuchPolicy`], [`AdminError::TooMany`],
    /// [`AdminError::Changed`], [`AdminError::NoSuchGroup`] if an etag is expected and there is no
    /// group, and if the store refuses the change.
    pub async fn put_group(
        &self,
        name: &str,
        enabled: Option<bool>,
        policies: Option<&[String]>,
        expected: Option<&Etag>,
    ) -> Result<bool, AdminError> {
        self.write_group(name, enabled, (policies, &[]), expected).await
    }

    /// As [`Admin::put_group`], with the versions of policies that the caller has seen.
    pub(crate) async fn write_group(
        &self,
        name: &str,
        enabled: Option<bool>,
        (policies, seen): (Option<&[String]>, &[SeenPolicy]),
        expected: Option<&Etag>,
    ) -> Result<bool, AdminError> {
        check_group_name(name)?;
        check_named(policies.unwrap_or_default())?;
        let (built_in, expected) = (is_built_in, Etag::expected(expected));
        let put = PutGroup { name, enabled, policies, exists: false, built_in, seen, expected };
        Ok(self.change(&put).await??)
    }

    /// As [`Admin::put_group`] for an existing group.
    ///
    /// # Errors
    /// Those of [`Admin::put_group`], and [`AdminError::NoSuchGroup`].
    pub async fn change_group(
        &self,
        name: &str,
        enabled: Option<bool>,
        policies: Option<&[String]>,
        expected: Option<&Etag>,
    ) -> Result<(), AdminError> {
        let name = existing_group(name)?;
        check_named(policies.unwrap_or_default())?;
        let (built_in, expected) = (is_built_in, Etag::expected(expected));
        let put = PutGroup { name, enabled, policies, exists: true, built_in, seen: &[], expected };
        self.change(&put).await??;
        Ok(())
    }

    /// Replaces the policies of a group.
    ///
    /// # Errors
    /// Those of [`Admin::change_group`].
    pub async fn set_group_policies(
        &self,
        name: &str,
        policies: &[String],
        expected: Option<&Etag>,
    ) -> Result<(), AdminError> {
        self.change_group(name, None, Some(policies), expected).await
    }

    /// Removes a group without members.
    ///
    /// # Errors
    /// [`AdminError::NoSuchGroup`], [`AdminError::GroupHasMembers`], [`AdminError::Changed`], and
    /// if the store refuses the change.
    pub async fn remove_group(
        &self,
        name: &str,
        expected: Option<&Etag>,
    ) -> Result<(), AdminError> {
        let (name, expected) = (existing_group(name)?, Etag::expected(expected));
        Ok(self.change(&RemoveGroup { name, expected }).await??)
    }

    /// Adds users to a group. Users that are members already do not change.
    ///
    /// More than [`MEMBERS_AT_ONCE_MAX`] users are added by several changes, of which the first
    /// alone checks the etag. Those before an error remain.
    ///
    /// # Errors
    /// [`AdminError::NoSuchGroup`], [`AdminError::NoSuchMember`], [`AdminError::TooMany`],
    /// [`AdminError::Changed`], and if the store refuses the change.
    pub async fn add_group_members(
        &self,
        name: &str,
        users: &[String],
        expected: Option<&Etag>,
    ) -> Result<(), AdminError> {
        if let Some(wrong) = users.iter().find(|user| existing(user).is_err()) {
            return Err(AdminError::NoSuchMember(wrong.clone()));
        }
        self.change_members(name, users, Membership::Join, expected).await
    }

    /// Removes users from a group. Users that are no members do not change.
    ///
    /// # Errors
    /// Those of [`Admin::add_group_members`].
    pub async fn remove_group_members(
        &self,
        name: &str,
        users: &[String],
        expected: Option<&Etag>,
    ) -> Result<(), AdminError> {
        // A text that cannot be an access key is no member, and might not fit into a key.
        let users: Vec<String> =
            users.iter().filter(|user| existing(user).is_ok()).cloned().collect();
        self.change_members(name, &users, Membership::Leave, expected).await
    }

    async fn change_members(
        &self,
        name: &str,
        users: &[String],
        change: Membership,
        expected: Option<&Etag>,
    ) -> Result<(), AdminError> {
        let name = existing_group(name)?;
        let mut expected = Etag::expected(expected);
        for users in users.chunks(MEMBERS_AT_ONCE_MAX) {
            self.change(&ChangeMembers { name, users, change, expected }).await??;
            expected = None;
        }
        Ok(())
    }
}

/// Returns the name if a group can have it. Fails with `NoSuchGroup` without a read otherwise.
fn existing_group(name: &str) -> Result<&str, AdminError> {
    check_group_name(name).map_err(|_| AdminError::NoSuchGroup)?;
    Ok(name)
}
