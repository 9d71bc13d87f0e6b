//! Groups of users, which give their members policies.
//!
//! For example, `PUT /groups/lab` with `{"policies": ["photos"]}` creates a group, and
//! `PATCH /groups/lab` with `{"add": ["anna"]}` gives its policies to `anna`.

use admin::{AdminError, NamedGroup};
use policy::AdminAction;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::etag::IfMatch;
use crate::page::{ListPage, PageQuery};
use crate::rank::own_rights;
use crate::resources::users::{POLICIES_MAX, check_count};
use crate::{Actor, AdminApi, ApiError};

/// The limit of members that one request adds or removes.
pub const MEMBERS_AT_ONCE_MAX: usize = 100;

/// A group.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Group)]
pub struct GroupJson {
    /// The name.
    pub name: String,
    /// False if the policies of the group have no effect.
    pub enabled: bool,
    /// The names of the members.
    pub members: Vec<String>,
    /// The names of the policies.
    pub policies: Vec<String>,
    /// The version of the record. It becomes the `ETag`.
    #[serde(skip)]
    pub version: Option<admin::Etag>,
}

/// The properties of a group. A property that is absent stays; a new group is enabled and has no
/// policies.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewGroup {
    /// False if the policies of the group have no effect.
    pub enabled: Option<bool>,
    /// The names of all policies.
    pub policies: Option<Vec<String>>,
}

/// A change of the members of a group.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupPatch {
    /// The users that join the group.
    #[serde(default)]
    pub add: Vec<String>,
    /// The users that leave the group.
    #[serde(default)]
    pub remove: Vec<String>,
}

impl AdminApi {
    /// Returns a page of groups, in order of name.
    ///
    /// # Errors
    /// `AccessDenied` without `admin:ListGroups`.
    pub async fn groups(
        &self,
        actor: &Actor<'_>,
        query: &PageQuery,
    ) -> Result<ListPage<GroupJson>, ApiError> {
        actor.require(AdminAction::ListGroups)?;
        let groups = self.admin.groups().await?;
        Ok(query.range()?.of(groups, |group| &group.name, shown))
    }

    /// Returns a group.
    ///
    /// # Errors
    /// `AccessDenied` without `admin:GetGroup`, `NoSuchGroup`.
    pub async fn group(&self, actor: &Actor<'_>, name: &str) -> Result<GroupJson, ApiError> {
        actor.require(AdminAction::GetGroup)?;
        Ok(shown(self.admin.group(name).await?))
    }

    /// Fails with `AccessDenied` if the sender is a member of the group.
    fn check_not_member(actor: &Actor<'_>, group: &NamedGroup) -> Result<(), ApiError> {
        let is_member = group.members.iter().any(|member| actor.is_user(member));
        if is_member && !actor.is_root() {
            return Err(own_rights("A group of which you are a member cannot be changed by you."));
        }
        Ok(())
    }

    /// Fails with `AccessDenied` if the sender may not change the policies or the state of a group:
    /// as a member, or if the group or one of its members has an action that the sender may not do.
    async fn check_change(&self, actor: &Actor<'_>, known: &NamedGroup) -> Result<(), ApiError> {
        Self::check_not_member(actor, known)?;
        self.check_rank(actor, &known.policies).await?;
        let name = &known.name;
        self.check_rank_of_users(actor, |user, _| user.groups.iter().any(|it| it == name)).await
    }

    /// Enables or disables an existing group.
    ///
    /// # Errors
    /// `AccessDenied` without `admin:EnableGroup` or `admin:DisableGroup`, also if a policy gives
    /// an action that the sender may not do; `NoSuchGroup`.
    pub async fn set_group_enabled(
        &self,
        actor: &Actor<'_>,
        name: &str,
        enabled: bool,
    ) -> Result<(), ApiError> {
        actor.require(if enabled {
            AdminAction::EnableGroup
        } else {
            AdminAction::DisableGroup
        })?;
        self.check_change(actor, &self.admin.group(name).await?).await?;
        self.admin.change_group(name, Some(enabled), None, None).await?;
        self.follow_access().await;
        Ok(())
    }

    /// Creates a group, or changes its policies.
    ///
    /// # Errors
    /// `AccessDenied` without `admin:AddUserToGroup`; with policies without
    /// `admin:AttachUserOrGroupPolicy`; with `enabled` without `admin:EnableGroup` or
    /// `admin:DisableGroup`; also if a policy gives an action that the sender may not do.
    /// `InvalidName`, `NoSuchPolicy`, `TooMany`, `Changed`; `Contended` if another request replaces
    /// a policy meanwhile.
    pub async fn put_group(
        &self,
        actor: &Actor<'_>,
        name: &str,
        new: &NewGroup,
        if_match: &IfMatch,
    ) -> Result<GroupJson, ApiError> {
        actor.require(AdminAction::AddUserToGroup)?;
        check_count("policies", new.policies.as_deref().unwrap_or_default(), POLICIES_MAX)?;
        if let Some(enabled) = new.enabled {
            let action = if enabled { AdminAction::EnableGroup } else { AdminAction::DisableGroup };
            actor.require(action)?;
        }
        if new.policies.is_some() {
            actor.require(AdminAction::AttachUserOrGroupPolicy)?;
        }
        let giver = self.giver(actor, new.policies.as_deref().unwrap_or_default()).await?;
        let known = match self.admin.group(name).await {
            Ok(known) => Some(known),
            Err(AdminError::NoSuchGroup) => None,
            Err(error) => return Err(error.into()),
        };
        if let Some(known) = known {
            self.check_change(actor, &known).await?;
        }
        let (policies, expected) = (new.policies.as_deref(), if_match.of_record()?);
        giver.put_group(name, new.enabled, policies, expected.as_ref()).await?;
        self.follow_access().await;
        Ok(shown(self.admin.group(name).await?))
    }

    /// Adds members to a group, and removes others.
    ///
    /// # Errors
    /// `AccessDenied` without `admin:AddUserToGroup` or `admin:RemoveUserFromGroup`, also if a
    /// policy of the group gives an action that the sender may not do; `NoSuchGroup`,
    /// `NoSuchMember`, `TooMany`, `Changed`.
    pub async fn patch_group(
        &self,
        actor: &Actor<'_>,
        name: &str,
        patch: &GroupPatch,
        if_match: &IfMatch,
    ) -> Result<GroupJson, ApiError> {
        if patch.add.is_empty() && patch.remove.is_empty() {
            return Err(ApiError::bad_request("The change has no members."));
        }
        check_count("members", &patch.add, MEMBERS_AT_ONCE_MAX)?;
        check_count("members", &patch.remove, MEMBERS_AT_ONCE_MAX)?;
        if !patch.add.is_empty() {
            actor.require(AdminAction::AddUserToGroup)?;
        }
        if !patch.remove.is_empty() {
            actor.require(AdminAction::RemoveUserFromGroup)?;
        }
        let known = self.admin.group(name).await?;
        Self::check_not_member(actor, &known)?;
        self.check_rank(actor, &known.policies).await?;
        let own = patch.add.iter().chain(&patch.remove).any(|member| actor.is_user(member));
        if own && !actor.is_root() {
            return Err(own_rights("You cannot change your own groups."));
        }
        // Joining a group can add a Deny, and leaving one can remove a Deny.
        let changed = patch.add.iter().chain(&patch.remove);
        self.check_rank_of_users(actor, |user, _| changed.clone().any(|it| *it == user.access_key))
            .await?;
        let expected = if_match.of_record()?;
        let mut expected = expected.as_ref();
        if !patch.add.is_empty() {
            self.admin.add_group_members(name, &patch.add, expected.take()).await?;
        }
        if !patch.remove.is_empty() {
            self.admin.remove_group_members(name, &patch.remove, expected.take()).await?;
        }
        self.follow_access().await;
        Ok(shown(self.admin.group(name).await?))
    }

    /// Removes a group without members.
    ///
    /// # Errors
    /// `AccessDenied` without `admin:RemoveUserFromGroup`; `NoSuchGroup`, `InUse`, `Changed`.
    pub async fn delete_group(
        &self,
        actor: &Actor<'_>,
        name: &str,
        if_match: &IfMatch,
    ) -> Result<(), ApiError> {
        actor.require(AdminAction::RemoveUserFromGroup)?;
        self.admin.remove_group(name, if_match.of_record()?.as_ref()).await?;
        self.follow_access().await;
        Ok(())
    }
}

fn shown(group: NamedGroup) -> GroupJson {
    let NamedGroup { name, enabled, members, policies, etag } = group;
    GroupJson { name, enabled, members, policies, version: Some(etag) }
}
