//! Users, with their policies and groups.
//!
//! For example, `PUT /users/anna` with `{"policies": ["readonly"]}` creates the user `anna` with a
//! random secret, which only this response contains.

use admin::{AccessKey, NewUser, UserOverview};
use policy::AdminAction;
use record::AccountId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::keys::{IssuedKeyJson, KeyJson};
use super::times;
use crate::etag::IfMatch;
use crate::issue::check_end;
use crate::page::{ListPage, PageQuery};
use crate::rank::own_rights;
use crate::sealer::Sealer;
use crate::{Actor, AdminApi, ApiError};

/// The limit of policies of a user or a group.
pub const POLICIES_MAX: usize = 32;

/// A user.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = User)]
pub struct UserJson {
    /// The name, which is the user's own access key.
    pub name: String,
    /// The number of the account.
    pub account: String,
    /// False if requests of the user and of its keys are refused.
    pub enabled: bool,
    /// The note of the operator.
    pub description: String,
    /// The time at which the user was created.
    pub created: String,
    /// The time from which the user's own access key is refused. `null` if it does not expire.
    pub expires: Option<String>,
    /// The user id of files that the user creates.
    pub uid: u32,
    /// The group id of files that the user creates.
    pub gid: u32,
    /// The umask of files that the user creates, in octal.
    pub umask: String,
    /// The names of the user's own policies.
    pub policies: Vec<String>,
    /// The names of the user's groups.
    pub groups: Vec<String>,
    /// The names of the further keys and tokens.
    pub keys: Vec<String>,
    /// The time of the last use of the user's own access key. `null` if it was never used.
    pub last_used: Option<String>,
    /// The version of the record. It becomes the `ETag`.
    #[serde(skip)]
    pub version: Option<admin::Etag>,
}

/// A user with its keys and its policies in force.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = UserDetails)]
pub struct UserDetails {
    /// The user.
    #[serde(flatten)]
    pub user: UserJson,
    /// The policies in force: those of the user and of its enabled groups.
    pub effective_policies: Vec<String>,
    /// The further keys.
    pub access_keys: Vec<KeyJson>,
}

/// The properties of a new user.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewUser)]
pub struct NewUserJson {
    /// The name or number of the account. The account `main` without it.
    pub account: Option<String>,
    /// The secret, 8 to 128 printable characters. A random one without it.
    pub secret: Option<String>,
    /// The user id of files that the user creates. 0 without it.
    pub uid: Option<u32>,
    /// The group id of files that the user creates. 0 without it.
    pub gid: Option<u32>,
    /// The umask of files that the user creates, in octal. `022` without it.
    pub umask: Option<String>,
    /// The names of the policies. None without it.
    #[serde(default)]
    pub policies: Vec<String>,
}

/// A change of a user. A property that is absent stays.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UserPatch {
    /// False to refuse all requests of the user.
    pub enabled: Option<bool>,
    /// The user id of files that the user creates from now on.
    pub uid: Option<u32>,
    /// The group id of files that the user creates from now on.
    pub gid: Option<u32>,
    /// The umask of files that the user creates from now on, in octal.
    pub umask: Option<String>,
    /// The names of all policies of the user itself.
    pub policies: Option<Vec<String>>,
}

impl AdminApi {
    /// Returns a page of users, in order of name.
    ///
    /// # Errors
    /// `AccessDenied` without `admin:ListUsers`.
    pub async fn users(
        &self,
        actor: &Actor<'_>,
        query: &PageQuery,
    ) -> Result<ListPage<UserJson>, ApiError> {
        actor.require(AdminAction::ListUsers)?;
        let users = self.admin.users().await?;
        Ok(query.range()?.of(users, |user| &user.access_key, shown))
    }

    /// Returns a user with its keys.
    ///
    /// # Errors
    /// `AccessDenied` without `admin:GetUser`, which the sender needs for itself only in a token or
    /// in the policy of a session; `NoSuchUser`.
    pub async fn user(&self, actor: &Actor<'_>, name: &str) -> Result<UserDetails, ApiError> {
        actor.require_of(name, AdminAction::GetUser)?;
        let overview = self.admin.user_overview(name).await?;
        let UserOverview { user, keys, effective_policies, .. } = overview;
        let keys = keys.into_iter().filter(|key| key.actions.is_none());
        Ok(UserDetails {
            user: shown(user),
            effective_policies,
            access_keys: keys.map(super::keys::shown).collect(),
        })
    }

    /// Creates a user. The result has the secret.
    ///
    /// # Errors
    /// `AccessDenied` without `admin:CreateUser`, and with policies without
    /// `admin:AttachUserOrGroupPolicy`; also if a policy gives an action that the sender may not
    /// do, and for a sender whose credentials end. `Exists`, `InvalidName`, `NoSuchPolicy`,
    /// `NoSuchAccount`; `Contended` if another request replaces a policy meanwhile.
    pub async fn put_user(
        &self,
        actor: &Actor<'_>,
        name: &str,
        new: &NewUserJson,
    ) -> Result<IssuedKeyJson, ApiError> {
        self.put_user_in_state(actor, (name, true), new).await
    }

    /// As [`AdminApi::put_user`], for a user that is enabled or disabled from the beginning. Both
    /// need the same actions: a sender that may create an enabled user may create a disabled one.
    ///
    /// # Errors
    /// Those of [`AdminApi::put_user`].
    pub async fn put_user_in_state(
        &self,
        actor: &Actor<'_>,
        (name, enabled): (&str, bool),
        new: &NewUserJson,
    ) -> Result<IssuedKeyJson, ApiError> {
        actor.require(AdminAction::CreateUser)?;
        check_count("policies", &new.policies, POLICIES_MAX)?;
        if !new.policies.is_empty() {
            actor.require(AdminAction::AttachUserOrGroupPolicy)?;
        }
        let giver = self.giver(actor, &new.policies).await?;
        // A user does not expire, so it would outlive a sender that does.
        check_end(actor, None)?;
        self.check_free(name)?;
        let account = match &new.account {
            Some(named) => self.admin.account(named).await?,
            None => AccountId::MAIN,
        };
        let umask = new.umask.as_deref().map(umask).transpose()?;
        let new = NewUser {
            access_key: name,
            account,
            secret: new.secret.as_deref(),
            uid: new.uid.unwrap_or(0),
            gid: new.gid.unwrap_or(0),
            umask: umask.unwrap_or(identity::UMASK_DEFAULT),
            policies: &new.policies,
        };
        let issued = giver.add_user(&new, enabled, &Sealer(&self.access)).await?;
        self.follow_access().await;
        Ok(issued.into())
    }

    /// Changes a user.
    ///
    /// # Errors
    /// `AccessDenied` without the action of each change: `admin:EnableUser`, `admin:DisableUser`,
    /// `admin:AttachUserOrGroupPolicy`, `admin:CreateUser`; also for the sender itself, and if a
    /// policy gives an action that the sender may not do. `NoSuchUser`, `NoSuchPolicy`, `Changed`;
    /// `Contended` if another request replaces a policy meanwhile.
    pub async fn patch_user(
        &self,
        actor: &Actor<'_>,
        name: &str,
        patch: &UserPatch,
        if_match: &IfMatch,
    ) -> Result<UserJson, ApiError> {
        if actor.is_user(name) && !actor.is_root() {
            return Err(own_rights("You cannot change your own user."));
        }
        check_count("policies", patch.policies.as_deref().unwrap_or_default(), POLICIES_MAX)?;
        let expected = if_match.of_record()?;
        let mut expected = expected.as_ref();
        // All permissions are checked before the first change.
        if let Some(enabled) = patch.enabled {
            let action = if enabled { AdminAction::EnableUser } else { AdminAction::DisableUser };
            actor.require(action)?;
        }
        if patch.policies.is_some() {
            actor.require(AdminAction::AttachUserOrGroupPolicy)?;
        }
        let owner = (patch.uid, patch.gid, patch.umask.as_deref().map(umask).transpose()?);
        if owner != (None, None, None) {
            actor.require(AdminAction::CreateUser)?;
        }
        if patch.enabled.is_none() && patch.policies.is_none() && owner == (None, None, None) {
            return Err(ApiError::bad_request("The change has no property."));
        }
        self.check_rank_of_user(actor, name).await?;
        if let Some(policies) = &patch.policies {
            let giver = self.giver(actor, policies).await?;
            giver.set_user_policies(name, policies, expected.take()).await?;
        }
        if owner != (None, None, None) {
            self.admin.set_user_owner(name, owner, expected.take()).await?;
        }
        if let Some(enabled) = patch.enabled {
            self.admin.set_user_enabled(name, enabled, expected.take()).await?;
        }
        self.follow_access().await;
        Ok(shown(self.admin.user(name).await?))
    }

    /// Gives a user's own access key this secret, 8 to 128 printable characters. Returns false if
    /// it has the secret already; nothing is written then.
    ///
    /// # Errors
    /// `AccessDenied` without `admin:CreateUser`, for a user with actions that the sender may not
    /// do, and for a sender whose credentials end before those of the user; `InvalidName` for the
    /// secret, `NoSuchUser`, `Changed`.
    pub async fn put_user_secret(
        &self,
        actor: &Actor<'_>,
        name: &str,
        secret: &str,
    ) -> Result<bool, ApiError> {
        actor.require(AdminAction::CreateUser)?;
        self.check_rank_of_user(actor, name).await?;
        check_end(actor, self.admin.user(name).await?.expires)?;
        let changed = self.admin.set_user_secret(name, secret, &Sealer(&self.access)).await?;
        if changed {
            self.follow_access().await;
        }
        Ok(changed)
    }

    /// Removes a user with its keys, tokens and memberships.
    ///
    /// # Errors
    /// `AccessDenied` without `admin:DeleteUser`, and for a user with actions that the sender may
    /// not do; `NoSuchUser`, `Changed`.
    pub async fn delete_user(
        &self,
        actor: &Actor<'_>,
        name: &str,
        if_match: &IfMatch,
    ) -> Result<(), ApiError> {
        actor.require(AdminAction::DeleteUser)?;
        self.check_rank_of_user(actor, name).await?;
        self.admin.remove_user(name, if_match.of_record()?.as_ref()).await?;
        self.follow_access().await;
        Ok(())
    }

    /// Fails with `Exists` if the operator's own key or a role for web identities has this name.
    pub(crate) fn check_free(&self, name: &str) -> Result<(), ApiError> {
        let taken = |message| ApiError::new(http::StatusCode::CONFLICT, "Exists", message);
        if self.access.is_root_key(name) {
            return Err(taken("The operator's own key has this name."));
        }
        // Its sessions would be refused, because policies could not distinguish them from the user.
        if self.access.is_web_role(name) {
            return Err(taken("A role for web identities has this name."));
        }
        Ok(())
    }

    /// Reads the access keys again, so that the next request to this gateway finds the change.
    /// Other gateways learn of it from the change feed. A failure is logged by the task that
    /// follows.
    pub(crate) async fn follow_access(&self) {
        if let Err(error) = self.access.read(&self.volume).await {
            tracing::warn!(%error, "cannot read access keys after a change; it has effect later");
        }
    }
}

/// Fails with `BadRequest` if a list of a request has more items than the limit, before any work.
pub(crate) fn check_count(what: &str, items: &[String], max: usize) -> Result<(), ApiError> {
    if items.len() <= max {
        return Ok(());
    }
    Err(ApiError::bad_request(format!("A request has at most {max} {what}.")))
}

/// Parses a umask in octal.
fn umask(text: &str) -> Result<u32, ApiError> {
    let parsed = u32::from_str_radix(text, 8).ok().filter(|umask| *umask <= 0o777);
    parsed.ok_or_else(|| ApiError::bad_request("A umask is an octal number up to 777."))
}

fn shown(user: AccessKey) -> UserJson {
    UserJson {
        name: user.access_key,
        account: user.account.to_string(),
        enabled: user.enabled,
        description: user.description,
        created: times::text(user.made),
        expires: user.expires.map(times::text),
        uid: user.uid,
        gid: user.gid,
        umask: format!("{:03o}", user.umask),
        policies: user.policies,
        groups: user.groups,
        keys: user.keys,
        last_used: user.last_used.map(times::text),
        version: Some(user.etag),
    }
}

#[cfg(test)]
mod tests;
