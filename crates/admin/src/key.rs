//! Further keys of users, and tokens for the API of administrators.
//!
//! A user can have several keys, each with a description and an expiry. They share the policies of
//! the user. For example, `rotate_key("anna", seven_days)` creates a key with a random name;
//! clients change to it one by one within seven days, and no request is refused meanwhile.

use std::fmt;
use std::time::Duration;

use namespace::{AddKey, ChangeKey, RemoveKey, RotateKey, SetSecret};
use record::{AccountId, Timestamp, User, UserKind};

use crate::access::existing;
use crate::secret::{SecretSealer, random_text};
use crate::{
    AccessKey, Admin, AdminError, Etag, IssuedKey, KeyChange, NameError, check_access_key,
    check_secret,
};

/// The first characters of a random access key.
const KEY_PREFIX: &str = "AK";

/// The number of random characters of an access key.
const KEY_RANDOM_CHARS: usize = 18;

/// The limit of a description in bytes.
pub const DESCRIPTION_BYTES_MAX: usize = 256;

/// The limit of the patterns of actions of a token.
pub const TOKEN_ACTIONS_MAX: usize = 64;

/// The limit of one pattern of actions in bytes.
const ACTION_BYTES_MAX: usize = 128;

/// The first characters of a bearer token.
const TOKEN_PREFIX: &str = "ashlar_";

/// The properties of a new further key.
#[derive(Clone, Copy, Default)]
pub struct NewKey<'a> {
    /// The access key; `None` for a random one.
    pub access_key: Option<&'a str>,
    /// The secret, which [`check_secret`] accepts; `None` for a random secret.
    pub secret: Option<&'a str>,
    /// The note of the operator, at most [`DESCRIPTION_BYTES_MAX`] bytes.
    pub description: &'a str,
    /// The time from which the key is refused; `None` if it does not expire.
    pub expires: Option<Timestamp>,
}

impl fmt::Debug for NewKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewKey")
            .field("access_key", &self.access_key)
            .field("description", &self.description)
            .field("expires", &self.expires)
            .finish_non_exhaustive()
    }
}

/// The properties of a new token.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewToken<'a> {
    /// The user whose policies limit the token. `None` for a token of the operator, which its
    /// actions alone limit.
    pub parent: Option<&'a str>,
    /// The patterns of the permitted actions, at least one. For example, `admin:ListUsers` or
    /// `admin:*`.
    pub actions: &'a [String],
    /// The note of the operator, at most [`DESCRIPTION_BYTES_MAX`] bytes.
    pub description: &'a str,
    /// The time from which the token is refused; `None` if it does not expire.
    pub expires: Option<Timestamp>,
}

/// A new token, which cannot be read again.
#[derive(Clone, PartialEq, Eq)]
pub struct IssuedToken {
    /// The record of the token. `access_key` is its name.
    pub token: AccessKey,
    /// The text that clients send as `Authorization: Bearer TEXT`. The caller must not log it.
    pub text: String,
}

impl fmt::Debug for IssuedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IssuedToken").field("token", &self.token).finish_non_exhaustive()
    }
}

impl Admin {
    /// Returns the further keys of a user, in order of name, without its tokens and its own access
    /// key.
    ///
    /// # Errors
    /// Those of [`Admin::user`].
    pub async fn keys(&self, user: &str) -> Result<Vec<AccessKey>, AdminError> {
        self.user(user).await?;
        let own = |key: &AccessKey| key.parent.as_deref() == Some(user) && key.actions.is_none();
        self.all_keys(own).await
    }

    /// Returns the access keys of S3 of a user, or of all users: their own ones and the further
    /// ones, in order of name.
    ///
    /// # Errors
    /// Those of [`Admin::user`].
    pub async fn access_keys(&self, user: Option<&str>) -> Result<Vec<AccessKey>, AdminError> {
        if let Some(user) = user {
            self.user(user).await?;
        }
        self.all_keys(|key| {
            let of = key.parent.as_deref().unwrap_or(&key.access_key);
            key.actions.is_none() && user.is_none_or(|user| user == of)
        })
        .await
    }

    /// Creates a further key of the user `parent`.
    ///
    /// # Errors
    /// [`AdminError::Name`] for a wrong name, secret or description, [`AdminError::UserExists`] if
    /// the name is taken, [`AdminError::NoSuchUser`] and [`AdminError::NotUser`] for the parent,
    /// [`AdminError::TooMany`], [`AdminError::Random`], and if the store refuses the change.
    pub async fn add_key(
        &self,
        parent: &str,
        new: &NewKey<'_>,
        sealer: &dyn SecretSealer,
    ) -> Result<IssuedKey, AdminError> {
        let parent = existing(parent)?;
        new.access_key.map_or(Ok(()), check_access_key)?;
        new.secret.map_or(Ok(()), check_secret)?;
        check_description(new.description)?;
        let access_key = match new.access_key {
            Some(given) => given.to_owned(),
            None => self.random_key()?,
        };
        let (secret, sealed_secret) = self.secret(&access_key, new.secret, sealer)?;
        let user = User {
            parent: Some(parent.to_owned()),
            description: new.description.to_owned(),
            expires: new.expires,
            ..User::new(AccountId::MAIN, sealed_secret)
        };
        let made = self.change(&AddKey { access_key: &access_key, user: &user }).await??;
        Ok(IssuedKey { key: AccessKey::new(access_key, made), secret })
    }

    /// Changes a further key or a token, or the description and the expiry of a user's own access
    /// key. The expiry of a user's own access key does not affect its further keys.
    ///
    /// # Errors
    /// [`AdminError::NoSuchUser`], [`AdminError::IsUser`] if `enabled` is given for a user,
    /// [`AdminError::Name`] for a wrong description, [`AdminError::Changed`], and if the store
    /// refuses the change.
    pub async fn change_key(
        &self,
        access_key: &str,
        change: &KeyChange,
        expected: Option<&Etag>,
    ) -> Result<(), AdminError> {
        let (access_key, expected) = (existing(access_key)?, Etag::expected(expected));
        change.description.as_deref().map_or(Ok(()), check_description)?;
        Ok(self.change(&ChangeKey { access_key, change, expected }).await??)
    }

    /// Replaces the secret of a further key, or of a user's own access key. Sessions that began
    /// with the old secret end.
    ///
    /// # Errors
    /// [`AdminError::NoSuchUser`], also for a token, [`AdminError::Name`] for a secret that
    /// [`check_secret`] refuses, [`AdminError::Changed`], [`AdminError::Random`], and if the store
    /// refuses the change.
    pub async fn set_secret(
        &self,
        access_key: &str,
        secret: &str,
        sealer: &dyn SecretSealer,
        expected: Option<&Etag>,
    ) -> Result<(), AdminError> {
        let (access_key, expected) = (existing(access_key)?, Etag::expected(expected));
        check_secret(secret)?;
        let (_, sealed_secret) = self.secret(access_key, Some(secret), sealer)?;
        let set = SetSecret { access_key, sealed_secret: &sealed_secret, expected };
        Ok(self.change(&set).await??)
    }

    /// Removes a further key or a token.
    ///
    /// # Errors
    /// [`AdminError::NoSuchUser`], [`AdminError::IsUser`], [`AdminError::Changed`], and if the
    /// store refuses the change.
    pub async fn remove_key(
        &self,
        access_key: &str,
        expected: Option<&Etag>,
    ) -> Result<(), AdminError> {
        let (access_key, expected) = (existing(access_key)?, Etag::expected(expected));
        Ok(self.change(&RemoveKey { access_key, expected }).await??)
    }

    /// Creates a key with a random name and a random secret in place of a user's own access key or
    /// of a further key. The new key has the expiry of the old one. The old key is accepted for
    /// `old_expires_in` from now, or until its earlier expiry.
    ///
    /// # Errors
    /// [`AdminError::NoSuchUser`], also for a token, [`AdminError::TooMany`],
    /// [`AdminError::Random`], and if the store refuses the change.
    pub async fn rotate_key(
        &self,
        access_key: &str,
        old_expires_in: Duration,
        sealer: &dyn SecretSealer,
    ) -> Result<IssuedKey, AdminError> {
        let access_key = existing(access_key)?;
        if self.key(access_key).await?.actions.is_some() {
            // Its text has another form than a key and a secret.
            return Err(AdminError::NoSuchUser);
        }
        let new = self.random_key()?;
        let (secret, sealed_secret) = self.secret(&new, None, sealer)?;
        let added = i64::try_from(old_expires_in.as_nanos()).unwrap_or(i64::MAX);
        let old_expires = Timestamp(self.now().0.saturating_add(added));
        let rotate =
            RotateKey { access_key, new: &new, sealed_secret: &sealed_secret, old_expires };
        let made = self.change(&rotate).await??;
        Ok(IssuedKey { key: AccessKey::new(new, made), secret })
    }

    /// Returns all tokens, in order of name.
    ///
    /// # Errors
    /// If the store cannot be read, or a record is damaged.
    pub async fn tokens(&self) -> Result<Vec<AccessKey>, AdminError> {
        self.all_keys(|key| key.actions.is_some()).await
    }

    /// Creates a token for the API of administrators.
    ///
    /// # Errors
    /// [`AdminError::Name`] for the actions and the description, [`AdminError::NoSuchUser`] and
    /// [`AdminError::NotUser`] for the parent, [`AdminError::TooMany`], [`AdminError::Random`], and
    /// if the store refuses the change.
    pub async fn add_token(
        &self,
        new: &NewToken<'_>,
        sealer: &dyn SecretSealer,
    ) -> Result<IssuedToken, AdminError> {
        let parent = new.parent.map(existing).transpose()?;
        check_actions(new.actions)?;
        check_description(new.description)?;
        let name = self.random_key()?;
        let (secret, sealed_secret) = self.secret(&name, None, sealer)?;
        let user = User {
            parent: parent.map(str::to_owned),
            description: new.description.to_owned(),
            expires: new.expires,
            kind: UserKind::Token { actions: new.actions.to_vec() },
            ..User::new(AccountId::MAIN, sealed_secret)
        };
        let made = self.change(&AddKey { access_key: &name, user: &user }).await??;
        let text = format!("{TOKEN_PREFIX}{name}_{secret}");
        Ok(IssuedToken { token: AccessKey::new(name, made), text })
    }

    /// Removes a token.
    ///
    /// # Errors
    /// [`AdminError::NoSuchUser`], also if it is an access key of S3, and those of
    /// [`Admin::remove_key`].
    pub async fn remove_token(
        &self,
        name: &str,
        expected: Option<&Etag>,
    ) -> Result<(), AdminError> {
        if self.key(name).await?.actions.is_none() {
            return Err(AdminError::NoSuchUser);
        }
        self.remove_key(name, expected).await
    }

    /// Returns a random name for a key.
    fn random_key(&self) -> Result<String, AdminError> {
        let random = random_text(&*self.surroundings.random, KEY_RANDOM_CHARS)?;
        Ok(format!("{KEY_PREFIX}{}", random.to_ascii_uppercase()))
    }
}

/// Checks a description: at most [`DESCRIPTION_BYTES_MAX`] bytes without control characters.
fn check_description(text: &str) -> Result<(), NameError> {
    if text.len() > DESCRIPTION_BYTES_MAX || text.chars().any(char::is_control) {
        let limit = DESCRIPTION_BYTES_MAX;
        return Err(NameError::new(format!("a description is one line of at most {limit} bytes")));
    }
    Ok(())
}

/// Checks the patterns of actions of a token: `admin:` and a name in which `*` stands for any text.
fn check_actions(actions: &[String]) -> Result<(), NameError> {
    if actions.is_empty() || actions.len() > TOKEN_ACTIONS_MAX {
        return Err(NameError::new(format!("a token has 1 to {TOKEN_ACTIONS_MAX} actions")));
    }
    let valid = |action: &String| {
        let name = action.strip_prefix("admin:").filter(|_| action.len() <= ACTION_BYTES_MAX);
        name.is_some_and(|name| {
            !name.is_empty() && name.chars().all(|char| char.is_ascii_alphanumeric() || char == '*')
        })
    };
    match actions.iter().find(|action| !valid(action)) {
        None => Ok(()),
        Some(wrong) => Err(NameError::new(format!(
            "the action of a token is `admin:` and a name such as ListUsers or *, not {wrong:?}"
        ))),
    }
}
