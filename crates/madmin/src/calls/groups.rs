//! Groups.

use adminapi::resources::groups::{GroupJson, GroupPatch, MEMBERS_AT_ONCE_MAX, NewGroup};
use adminapi::{ApiError, IfMatch};

use super::{CallRequest, Reply, all, is_enabled, status};
use crate::documents::{GroupDocument, MembersBody};
use crate::error;
use crate::minio_admin::MinioAdmin;

impl MinioAdmin {
    /// Returns all groups.
    pub(super) async fn groups_of(
        &self,
        request: &CallRequest<'_>,
    ) -> Result<Vec<GroupJson>, ApiError> {
        let (api, actor) = (&*self.parts.api, request.actor);
        all(|query| async move { api.groups(actor, &query).await }).await
    }

    pub(super) async fn list_groups(&self, request: &CallRequest<'_>) -> Result<Reply, ApiError> {
        let groups = self.groups_of(request).await?;
        Reply::json(&groups.into_iter().map(|group| group.name).collect::<Vec<_>>())
    }

    pub(super) async fn group_info(&self, request: &CallRequest<'_>) -> Result<Reply, ApiError> {
        let name = request.query.one("group")?;
        let group = self.parts.api.group(request.actor, name).await?;
        Reply::json(&GroupDocument {
            name: group.name,
            status: status(group.enabled),
            members: group.members,
            policy: group.policies.join(","),
        })
    }

    /// Adds members to a group, which is created if it does not exist, or removes them. Without
    /// members, removes the group.
    pub(super) async fn update_members(
        &self,
        request: &CallRequest<'_>,
    ) -> Result<Reply, ApiError> {
        let (api, actor) = (&self.parts.api, request.actor);
        let MembersBody { group, members, is_remove, .. } = request.json()?;
        let members = members.unwrap_or_default();
        if group.is_empty() {
            return Err(error::invalid("The group has no name."));
        }
        if is_remove && members.is_empty() {
            let removed = api.delete_group(actor, &group, &IfMatch::default()).await;
            return removed.map(|()| Reply::Done).map_err(not_empty);
        }
        let patch = |members: &[String]| {
            let members = members.to_vec();
            let (add, remove) = if is_remove { (vec![], members) } else { (members, vec![]) };
            GroupPatch { add, remove }
        };
        // Before the first change, so that a refused member does not leave an empty group.
        let first = match members.chunks(MEMBERS_AT_ONCE_MAX).next() {
            Some(first) => {
                let changed =
                    api.patch_group(actor, &group, &patch(first), &IfMatch::default()).await;
                match changed {
                    Err(error) if error.code == "NoSuchGroup" && !is_remove => false,
                    changed => changed.map(|_group| true)?,
                }
            }
            None => false,
        };
        if !first {
            // Without members the call creates a group, or changes nothing.
            api.put_group(actor, &group, &NewGroup::default(), &IfMatch::default()).await?;
        }
        for chunk in members.chunks(MEMBERS_AT_ONCE_MAX).skip(usize::from(first)) {
            api.patch_group(actor, &group, &patch(chunk), &IfMatch::default()).await?;
        }
        Ok(Reply::Done)
    }

    pub(super) async fn set_group_status(
        &self,
        request: &CallRequest<'_>,
    ) -> Result<Reply, ApiError> {
        let name = request.query.one("group")?;
        let enabled = is_enabled(request.query.one("status")?)?;
        self.parts.api.set_group_enabled(request.actor, name, enabled).await?;
        Ok(Reply::Done)
    }
}

/// Returns the error of MinIO for a group that has members.
fn not_empty(error: ApiError) -> ApiError {
    if error.code == "InUse" {
        return ApiError::new(
            http::StatusCode::BAD_REQUEST,
            "XMinioAdminGroupNotEmpty",
            "The specified group is not empty - cannot remove it.",
        );
    }
    error
}
