//! Further access keys of users, and tokens of the API.
//!
//! Each user manages its own keys, unless a policy denies it. For example, `POST
//! /users/anna/keys/anna/rotate` with `{"old_expires_seconds": 604800}` creates a key; the old one
//! is accepted for a week, so that clients change one by one.

use std::time::Duration;

use admin::{AccessKey, AdminError, IssuedKey, KeyChange, NewKey, NewToken};
use policy::AdminAction;
use record::Timestamp;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use utoipa::ToSchema;

use super::times;
use crate::etag::IfMatch;
use crate::issue::{self, capped, check_end, check_moved_end, check_permanent, check_shorter};
use crate::page::{ListPage, PageQuery};
use crate::sealer::Sealer;
use crate::{Actor, AdminApi, ApiError};

/// The time for which a key that was rotated is accepted, if the request names none: a week.
const OLD_EXPIRES_SECONDS: u64 = 7 * 24 * 60 * 60;

/// An access key of a user, without its secret.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Key)]
pub struct KeyJson {
    /// The access key.
    pub access_key: String,
    /// The user whose rights the key has. `null` for a token of the operator.
    pub user: Option<String>,
    /// False if requests with the key are refused.
    pub enabled: bool,
    /// The note of the user.
    pub description: String,
    /// The time at which the key was created.
    pub created: String,
    /// The time from which the key is refused. `null` if it does not expire.
    pub expires: Option<String>,
    /// The time of the last use, which gateways record once an hour. `null` if it was never used.
    pub last_used: Option<String>,
    /// The permitted actions of a token. `null` for a key of S3.
    pub actions: Option<Vec<String>>,
    /// The version of the record. It becomes the `ETag`.
    #[serde(skip)]
    pub version: Option<admin::Etag>,
}

/// A new access key with its secret, which no other response contains.
#[derive(Clone, Serialize, ToSchema)]
#[schema(as = IssuedKey)]
pub struct IssuedKeyJson {
    /// The access key.
    pub access_key: String,
    /// The secret.
    pub secret: String,
    /// The time from which the key is refused. `null` if it does not expire.
    pub expires: Option<String>,
}

impl std::fmt::Debug for IssuedKeyJson {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IssuedKeyJson")
            .field("access_key", &self.access_key)
            .finish_non_exhaustive()
    }
}

impl From<IssuedKey> for IssuedKeyJson {
    fn from(issued: IssuedKey) -> IssuedKeyJson {
        let IssuedKey { key, secret } = issued;
        let expires = key.expires.map(times::text);
        IssuedKeyJson { access_key: key.access_key, secret, expires }
    }
}

/// A new token, whose text no other response contains.
#[derive(Clone, Serialize, ToSchema)]
#[schema(as = IssuedToken)]
pub struct IssuedTokenJson {
    /// The name of the token.
    pub name: String,
    /// The text that clients send as `Authorization: Bearer TEXT`.
    pub token: String,
}

impl std::fmt::Debug for IssuedTokenJson {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IssuedTokenJson").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The properties of a new key.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewKey)]
pub struct NewKeyJson {
    /// The access key, which a sender with `admin:CreateServiceAccount` may choose. A random one
    /// without it.
    pub access_key: Option<String>,
    /// The secret, 8 to 128 printable characters. A random one without it.
    pub secret: Option<String>,
    /// A note, at most 256 bytes.
    #[serde(default)]
    pub description: String,
    /// The time from which the key is refused, as `2027-01-02T03:04:05Z`. It does not expire
    /// without it.
    pub expires: Option<String>,
}

/// A change of a key. A property that is absent stays.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyPatch {
    /// A note, at most 256 bytes.
    pub description: Option<String>,
    /// The time from which the key is refused. An empty text removes it.
    pub expires: Option<String>,
    /// False to refuse requests with the key. True needs `admin:UpdateServiceAccount`, also for an
    /// own key.
    pub enabled: Option<bool>,
    /// A new secret, 8 to 128 printable characters. Sessions that began with the old one end.
    pub secret: Option<String>,
}

/// The parameters of a rotation.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Rotation {
    /// The seconds for which the old key is accepted. A week without it.
    pub old_expires_seconds: Option<u64>,
}

/// The properties of a new token.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewToken)]
pub struct NewTokenJson {
    /// The permitted administrative actions, for example `admin:ListUsers` or `admin:*`. The
    /// policies of the user limit the token, too.
    pub actions: Vec<String>,
    /// A note, at most 256 bytes.
    #[serde(default)]
    pub description: String,
    /// The time from which the token is refused.
    pub expires: Option<String>,
}

impl AdminApi {
    /// Fails with `AccessDenied` if the sender may not manage keys of a user. Each user may manage
    /// its own ones. For another user, the sender needs the action, and may not gain actions by the
    /// key.
    async fn check_keys(
        &self,
        actor: &Actor<'_>,
        (user, key): (&str, Option<&str>),
        action: AdminAction,
    ) -> Result<(), ApiError> {
        if actor.is_user(user) {
            // A permanent key would outlive temporary credentials and have more rights than they.
            if actor.is_temporary() {
                let why = "Temporary credentials and tokens cannot manage access keys.";
                return Err(issue::refused(why));
            }
            // A key with an end changes no other key, which could have a later one.
            let is_other = key.is_some_and(|key| key != actor.identity().signing_key);
            if is_other && actor.identity().expires().is_some() {
                return Err(issue::refused("A key that expires can change itself alone."));
            }
            return if actor.may_for_itself(action) {
                Ok(())
            } else {
                Err(ApiError::denied(action.name()))
            };
        }
        actor.require(action)?;
        self.check_rank_of_user(actor, user).await
    }

    /// Returns a key of a user: a further key, or its own one. Fails with `NoSuchUser` for a key of
    /// another user.
    async fn key_of(&self, user: &str, key: &str) -> Result<AccessKey, ApiError> {
        let found = self.admin.key(key).await?;
        let is_of_user = found.parent.as_deref() == Some(user)
            || (found.parent.is_none() && found.access_key == user);
        if is_of_user && found.actions.is_none() {
            Ok(found)
        } else {
            Err(AdminError::NoSuchUser.into())
        }
    }

    /// Returns the further keys of a user.
    ///
    /// # Errors
    /// `AccessDenied` without `admin:ListServiceAccounts`, except for the sender itself;
    /// `NoSuchUser`.
    pub async fn keys(
        &self,
        actor: &Actor<'_>,
        user: &str,
        query: &PageQuery,
    ) -> Result<ListPage<KeyJson>, ApiError> {
        actor.require_of(user, AdminAction::ListServiceAccounts)?;
        let keys = self.admin.keys(user).await?;
        Ok(query.range()?.of(keys, |key| &key.access_key, shown))
    }

    /// Creates a further key of a user. The result has the secret.
    ///
    /// # Errors
    /// `AccessDenied` without `admin:CreateServiceAccount`, except for a key of the sender itself
    /// with a random name; also for temporary credentials and tokens, and for an end after that of
    /// the sender's own key. `Exists`, `NoSuchUser`, `TooMany`, `InvalidName`.
    pub async fn post_key(
        &self,
        actor: &Actor<'_>,
        user: &str,
        new: &NewKeyJson,
    ) -> Result<IssuedKeyJson, ApiError> {
        self.check_keys(actor, (user, None), AdminAction::CreateServiceAccount).await?;
        check_permanent(actor)?;
        let expires = new.expires.as_deref().map(timestamp).transpose()?;
        let expires = capped(actor, expires)?;
        let access_key = new.access_key.as_deref();
        if let Some(name) = access_key {
            if !actor.may_name_keys() {
                return Err(issue::refused(
                    "You cannot choose the name of an access key without the action \
                     admin:CreateServiceAccount. Leave it out for a random one.",
                ));
            }
            self.check_free(name)?;
        }
        let (secret, description) = (new.secret.as_deref(), new.description.as_str());
        let new = NewKey { access_key, secret, description, expires };
        let issued = self.admin.add_key(user, &new, &Sealer(&self.access)).await?;
        actor.notes().note(|served| served.set_resource("issued_key", &issued.key.access_key));
        self.follow_access().await;
        Ok(issued.into())
    }

    /// Changes a key of a user.
    ///
    /// # Errors
    /// `AccessDenied` without `admin:UpdateServiceAccount`, or without `admin:CreateUser` for the
    /// secret of a user's own access key, except for the sender itself, who may not enable a key or
    /// delay its end; also for a new secret or a later end from temporary credentials, from tokens,
    /// and beyond the end of the sender's own key. `NoSuchUser`, `IsUser`, `InvalidName`,
    /// `Changed`.
    pub async fn patch_key(
        &self,
        actor: &Actor<'_>,
        (user, key): (&str, &str),
        patch: &KeyPatch,
        if_match: &IfMatch,
    ) -> Result<KeyJson, ApiError> {
        let KeyPatch { description, expires: _, enabled, secret } = patch;
        let is_rest = description.is_some() || patch.expires.is_some() || enabled.is_some();
        if key == user && secret.is_some() {
            self.check_keys(actor, (user, Some(key)), AdminAction::CreateUser).await?;
        }
        if key != user || is_rest || secret.is_none() {
            self.check_keys(actor, (user, Some(key)), AdminAction::UpdateServiceAccount).await?;
        }
        let found = self.key_of(user, key).await?;
        let is_own = actor.is_user(user);
        let enables = *enabled == Some(true) && !found.enabled;
        if enables && is_own && !actor.may(AdminAction::UpdateServiceAccount, None) {
            // An operator may have disabled it against its user.
            let why = "You can disable your own access keys. An operator enables them.";
            return Err(issue::refused(why));
        }
        let expires = patch.expires.as_deref().map(|text| match text {
            "" => Ok(None),
            text => timestamp(text).map(Some),
        });
        let expires = expires.transpose()?;
        match expires {
            // A wrong time would lock the user out, and only an operator could undo it.
            Some(_) if is_own && key == user => return Err(issue::longer()),
            Some(wanted) if is_own => check_shorter(found.expires, wanted)?,
            Some(wanted) => check_moved_end(actor, found.expires, wanted)?,
            None => {}
        }
        if secret.is_some() {
            check_end(actor, expires.unwrap_or(found.expires))?;
        }
        let expected = if_match.of_record()?;
        let mut expected = expected.as_ref();
        if is_rest || secret.is_none() {
            let change = KeyChange { description: description.clone(), expires, enabled: *enabled };
            self.admin.change_key(key, &change, expected.take()).await?;
        }
        if let Some(secret) = secret {
            self.admin.set_secret(key, secret, &Sealer(&self.access), expected.take()).await?;
        }
        self.follow_access().await;
        Ok(shown(self.admin.key(key).await?))
    }

    /// Returns a further key by its name alone, for clients that do not know its user.
    ///
    /// # Errors
    /// `NoSuchUser`, also for a key of another user without `admin:ListServiceAccounts`, so that a
    /// sender cannot probe for names.
    pub async fn key(&self, actor: &Actor<'_>, key: &str) -> Result<KeyJson, ApiError> {
        let found = self.admin.key(key).await?;
        let action = AdminAction::ListServiceAccounts;
        let parent = found.parent.as_deref().unwrap_or_default();
        let may = actor.require_of(parent, action).is_ok();
        let is_further = found.parent.is_some() && found.actions.is_none();
        if may && is_further { Ok(shown(found)) } else { Err(AdminError::NoSuchUser.into()) }
    }

    /// Removes a further key of a user.
    ///
    /// # Errors
    /// `AccessDenied` without `admin:RemoveServiceAccount`, except for the sender itself;
    /// `NoSuchUser`, `IsUser`, `Changed`.
    pub async fn delete_key(
        &self,
        actor: &Actor<'_>,
        (user, key): (&str, &str),
        if_match: &IfMatch,
    ) -> Result<(), ApiError> {
        self.check_keys(actor, (user, Some(key)), AdminAction::RemoveServiceAccount).await?;
        self.key_of(user, key).await?;
        self.admin.remove_key(key, if_match.of_record()?.as_ref()).await?;
        self.follow_access().await;
        Ok(())
    }

    /// Replaces a key of a user by a new one. The old one is accepted for a while. The new key of a
    /// disabled key is disabled, too.
    ///
    /// # Errors
    /// `AccessDenied` without `admin:UpdateServiceAccount`, except for the sender itself; also if a
    /// policy denies `admin:CreateServiceAccount`, for temporary credentials and tokens, and for a
    /// key that ends after that of the sender. `NoSuchUser`, `TooMany`.
    pub async fn rotate_key(
        &self,
        actor: &Actor<'_>,
        (user, key): (&str, &str),
        rotation: Rotation,
    ) -> Result<IssuedKeyJson, ApiError> {
        self.check_keys(actor, (user, Some(key)), AdminAction::UpdateServiceAccount).await?;
        // A rotation makes a key, and the old one can be accepted for years. So a Deny of new keys
        // prevents it, also for keys of other users.
        if !actor.may_for_itself(AdminAction::CreateServiceAccount) {
            return Err(ApiError::denied(AdminAction::CreateServiceAccount.name()));
        }
        // The new key has the end of the old one.
        check_end(actor, self.key_of(user, key).await?.expires)?;
        let old = rotation.old_expires_seconds.unwrap_or(OLD_EXPIRES_SECONDS);
        let (old, sealer) = (Duration::from_secs(old), Sealer(&self.access));
        let issued = self.admin.rotate_key(key, old, &sealer).await?;
        actor.notes().note(|served| served.set_resource("issued_key", &issued.key.access_key));
        self.follow_access().await;
        Ok(issued.into())
    }

    /// Returns the tokens of the sender; for the operator, all tokens.
    ///
    /// # Errors
    /// `AccessDenied` without `admin:ManageTokens`.
    pub async fn tokens(
        &self,
        actor: &Actor<'_>,
        query: &PageQuery,
    ) -> Result<ListPage<KeyJson>, ApiError> {
        actor.require(AdminAction::ManageTokens)?;
        let tokens = self.admin.tokens().await?.into_iter();
        let own = tokens.filter(|token| owns(actor, token));
        Ok(query.range()?.of(own, |token| &token.access_key, shown))
    }

    /// Creates a token with the rights of the sender, limited to some actions. The result has its
    /// text.
    ///
    /// # Errors
    /// `AccessDenied` without `admin:ManageTokens`; `InvalidName`, `TooMany`.
    pub async fn post_token(
        &self,
        actor: &Actor<'_>,
        new: &NewTokenJson,
    ) -> Result<IssuedTokenJson, ApiError> {
        actor.require(AdminAction::ManageTokens)?;
        // A token with few actions could otherwise make one with all actions of its user.
        check_permanent(actor)?;
        let parent = (!actor.is_root()).then(|| actor.user());
        let expires = new.expires.as_deref().map(timestamp).transpose()?;
        let expires = capped(actor, expires)?;
        let description = new.description.as_str();
        let new = NewToken { parent, actions: &new.actions, description, expires };
        let issued = self.admin.add_token(&new, &Sealer(&self.access)).await?;
        let name = &issued.token.access_key;
        actor.notes().note(|served| served.set_resource("issued_token", name));
        self.follow_access().await;
        Ok(IssuedTokenJson { name: issued.token.access_key, token: issued.text })
    }

    /// Revokes a token of the sender; the operator revokes any.
    ///
    /// # Errors
    /// `AccessDenied` without `admin:ManageTokens`; `NoSuchUser`.
    pub async fn delete_token(&self, actor: &Actor<'_>, name: &str) -> Result<(), ApiError> {
        actor.require(AdminAction::ManageTokens)?;
        if !owns(actor, &self.admin.key(name).await?) {
            return Err(AdminError::NoSuchUser.into());
        }
        self.admin.remove_token(name, None).await?;
        self.follow_access().await;
        Ok(())
    }
}

/// Returns true if a token belongs to the sender. All belong to the operator.
fn owns(actor: &Actor<'_>, token: &AccessKey) -> bool {
    actor.is_root() || token.parent.as_deref().is_some_and(|parent| actor.is_user(parent))
}

/// Parses a time in the form `2027-01-02T03:04:05Z`.
fn timestamp(text: &str) -> Result<Timestamp, ApiError> {
    let parsed = OffsetDateTime::parse(text, &Rfc3339).ok();
    let nanoseconds = parsed.and_then(|time| i64::try_from(time.unix_timestamp_nanos()).ok());
    nanoseconds
        .map(Timestamp)
        .ok_or_else(|| ApiError::bad_request("A time has the form 2027-01-02T03:04:05Z."))
}

pub(crate) fn shown(key: AccessKey) -> KeyJson {
    KeyJson {
        access_key: key.access_key,
        user: key.parent,
        enabled: key.enabled,
        description: key.description,
        created: times::text(key.made),
        expires: key.expires.map(times::text),
        last_used: key.last_used.map(times::text),
        actions: key.actions,
        version: Some(key.etag),
    }
}

#[cfg(test)]
mod tests;
