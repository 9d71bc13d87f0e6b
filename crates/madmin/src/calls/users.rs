//! Users.

use std::collections::BTreeMap;

use adminapi::resources::keys::KeyPatch;
use adminapi::resources::users::{NewUserJson, UserJson, UserPatch};
use adminapi::{ApiError, IfMatch};
use policy::AdminAction;

use super::{CallRequest, Reply, all, is_enabled, names, status};
use crate::documents::{AddUserBody, UserDocument};
use crate::error;
use crate::minio_admin::MinioAdmin;

fn shown(user: UserJson) -> UserDocument {
    UserDocument {
        policy_name: user.policies.join(","),
        status: status(user.enabled),
        member_of: user.groups,
        updated_at: user.created,
    }
}

impl MinioAdmin {
    /// Returns all users.
    pub(super) async fn users_of(
        &self,
        request: &CallRequest<'_>,
    ) -> Result<Vec<UserJson>, ApiError> {
        let (api, actor) = (&*self.parts.api, request.actor);
        all(|query| async move { api.users(actor, &query).await }).await
    }

    pub(super) async fn list_users(&self, request: &CallRequest<'_>) -> Result<Reply, ApiError> {
        let users = self.users_of(request).await?;
        let users: BTreeMap<_, _> =
            users.into_iter().map(|user| (user.name.clone(), shown(user))).collect();
        Reply::sealed(&users)
    }

    pub(super) async fn user_info(&self, request: &CallRequest<'_>) -> Result<Reply, ApiError> {
        let name = request.query.one("accessKey")?;
        Reply::json(&shown(self.parts.api.user(request.actor, name).await?.user))
    }

    /// Creates a user, or gives an existing one another secret, as MinIO does.
    pub(super) async fn add_user(&self, request: &CallRequest<'_>) -> Result<Reply, ApiError> {
        let (api, actor) = (&self.parts.api, request.actor);
        let name = request.query.one("accessKey")?;
        request.require(AdminAction::CreateUser)?;
        let AddUserBody { secret_key, policy, status } = self.opened(request).await?;
        let enabled = if status.is_empty() { true } else { is_enabled(&status)? };
        if secret_key.is_empty() {
            return Err(error::invalid("The user needs a secret."));
        }
        let policies = names(&policy);
        let new = NewUserJson {
            secret: Some(secret_key.clone()),
            policies: policies.clone(),
            ..NewUserJson::default()
        };
        // One commit: a user that is created enabled could sign before it is disabled, and it would
        // stay enabled if the second change failed.
        match api.put_user_in_state(actor, (name, enabled), &new).await {
            Ok(_issued) => {}
            Err(error) if error.code == "Exists" => {
                if !policies.is_empty() {
                    let why = "The user exists. Attach policies to it instead.";
                    return Err(error::invalid(why));
                }
                // The permission to enable a user is another one, so an equal state needs none. All
                // permissions are checked before the first change.
                let is_known = !status.is_empty() && !actor.is_user(name);
                let is_other = is_known && api.user(actor, name).await?.user.enabled != enabled;
                if is_other {
                    request.require(if enabled {
                        AdminAction::EnableUser
                    } else {
                        AdminAction::DisableUser
                    })?;
                }
                let patch = KeyPatch { secret: Some(secret_key), ..KeyPatch::default() };
                api.patch_key(actor, (name, name), &patch, &IfMatch::default()).await?;
                if is_other {
                    let patch = UserPatch { enabled: Some(enabled), ..UserPatch::default() };
                    api.patch_user(actor, name, &patch, &IfMatch::default()).await?;
                }
            }
            Err(error) => return Err(error),
        }
        Ok(Reply::Done)
    }

    pub(super) async fn set_user_status(
        &self,
        request: &CallRequest<'_>,
    ) -> Result<Reply, ApiError> {
        let name = request.query.one("accessKey")?;
        let enabled = Some(is_enabled(request.query.one("status")?)?);
        let patch = UserPatch { enabled, ..UserPatch::default() };
        self.parts.api.patch_user(request.actor, name, &patch, &IfMatch::default()).await?;
        Ok(Reply::Done)
    }

    pub(super) async fn remove_user(&self, request: &CallRequest<'_>) -> Result<Reply, ApiError> {
        let name = request.query.one("accessKey")?;
        self.parts.api.delete_user(request.actor, name, &IfMatch::default()).await?;
        Ok(Reply::Done)
    }
}
