//! Access keys.
//!
//! Access keys and policies are changed without a session. No gateway answers from remembered
//! records of them: it reads all of them again when the change feed reports a change. So unlike a
//! change of a bucket's settings, these need not wait for a gateway.

use std::fmt;

use namespace::{AddUser, FindUser, ListUsers, RemoveUser, SetUserOwner, SetUserPolicies};
use record::{AccountId, User};

use crate::names::check_written_access_key;
use crate::policy::{check_named, is_built_in};
use crate::secret::{NONCE_BYTES, SECRET_CHARS, SecretSealer, random_text};
use crate::{Admin, AdminError, check_access_key, check_secret};

/// An access key without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessKey {
    /// The access key.
    pub access_key: String,
    /// The account that it belongs to.
    pub account: AccountId,
    /// Whether it may be used.
    pub enabled: bool,
    /// The user that its files belong to.
    pub uid: u32,
    /// The group that its files belong to.
    pub gid: u32,
    /// Permissions that they are not made with.
    pub umask: u32,
    /// Names of its policies; with none it may do nothing.
    pub policies: Vec<String>,
}

impl AccessKey {
    fn new(access_key: String, user: User) -> AccessKey {
        let User { account, enabled, uid, gid, umask, policies, .. } = user;
        AccessKey { access_key, account, enabled, uid, gid, umask, policies }
    }
}

/// An access key to be made.
#[derive(Clone, Copy)]
pub struct NewUser<'a> {
    /// The access key; see [`check_access_key`].
    pub access_key: &'a str,
    /// The account that it belongs to.
    pub account: AccountId,
    /// Its secret, as [`check_secret`] accepts it; a random one if `None`.
    pub secret: Option<&'a str>,
    /// The user that its files belong to.
    pub uid: u32,
    /// The group that its files belong to.
    pub gid: u32,
    /// Permissions that they are not made with.
    pub umask: u32,
    /// Names of its policies.
    pub policies: &'a [String],
}

impl fmt::Debug for NewUser<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewUser")
            .field("access_key", &self.access_key)
            .field("uid", &self.uid)
            .field("gid", &self.gid)
            .field("umask", &format_args!("{:03o}", self.umask))
            .field("policies", &self.policies)
            .finish_non_exhaustive()
    }
}

impl NewUser<'_> {
    fn check(&self) -> Result<(), AdminError> {
        check_access_key(self.access_key)?;
        self.secret.map_or(Ok(()), check_secret)?;
        check_named(self.policies)
    }

    fn record(&self, sealed_secret: Vec<u8>) -> User {
        let NewUser { account, uid, gid, umask, policies, .. } = *self;
        let policies = policies.to_vec();
        User { account, sealed_secret, enabled: true, uid, gid, umask, policies }
    }
}

/// An access key that was made, and its secret, which cannot be read again.
#[derive(Clone, PartialEq, Eq)]
pub struct IssuedKey {
    /// The access key.
    pub key: AccessKey,
    /// The secret, given or random. It must not be logged.
    pub secret: String,
}

impl fmt::Debug for IssuedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IssuedKey").field("key", &self.key).finish_non_exhaustive()
    }
}

impl Admin {
    /// All access keys, in order. The operator's own key is not among them, because it has no
    /// record.
    pub async fn users(&self) -> Result<Vec<AccessKey>, AdminError> {
        let users = self.run(&ListUsers, None).await?;
        Ok(users.into_iter().map(|(name, user)| AccessKey::new(name, user)).collect())
    }

    /// An access key.
    ///
    /// # Errors
    /// [`AdminError::NoSuchUser`].
    pub async fn user(&self, access_key: &str) -> Result<AccessKey, AdminError> {
        let access_key = existing(access_key)?;
        let user = self.run(&FindUser { access_key }, None).await??;
        Ok(AccessKey::new(access_key.to_owned(), user))
    }

    /// Whether a new access key would be accepted now. Nothing is changed. This is for a caller
    /// that must do something before it adds the key, and only if the key will be accepted.
    ///
    /// # Errors
    /// Those of [`Admin::add_user`].
    pub async fn check_new_user(&self, new: &NewUser<'_>) -> Result<(), AdminError> {
        new.check()?;
        let user = &new.record(Vec::new());
        let add = AddUser { access_key: new.access_key, user, built_in: is_built_in };
        Ok(self.rehearse(&add).await??)
    }

    /// Makes an access key.
    ///
    /// # Errors
    /// [`AdminError::Name`], [`AdminError::UserExists`], [`AdminError::NoSuchPolicy`], and if the
    /// store does not take it.
    pub async fn add_user(
        &self,
        new: &NewUser<'_>,
        sealer: &dyn SecretSealer,
    ) -> Result<IssuedKey, AdminError> {
        new.check()?;
        let random = &*self.surroundings.random;
        let secret = match new.secret {
            Some(given) => given.to_owned(),
            None => random_text(random, SECRET_CHARS)?,
        };
        let mut nonce = [0; NONCE_BYTES];
        random.fill(&mut nonce).map_err(AdminError::Random)?;
        let user = new.record(sealer.seal(new.access_key, &secret, nonce));
        let add = AddUser { access_key: new.access_key, user: &user, built_in: is_built_in };
        self.run(&add, None).await??;
        Ok(IssuedKey { key: AccessKey::new(new.access_key.to_owned(), user), secret })
    }

    /// Removes an access key.
    ///
    /// # Errors
    /// [`AdminError::NoSuchUser`], and if the store does not take it.
    pub async fn remove_user(&self, access_key: &str) -> Result<(), AdminError> {
        let access_key = existing(access_key)?;
        Ok(self.run(&RemoveUser { access_key }, None).await??)
    }

    /// Changes whom what an access key makes from now on belongs to, and the permissions that it is
    /// not made with. What is `None` stays, and so does all that it has made.
    ///
    /// # Errors
    /// [`AdminError::NoSuchUser`], and if the store does not take it.
    pub async fn set_user_owner(
        &self,
        access_key: &str,
        (uid, gid, umask): (Option<u32>, Option<u32>, Option<u32>),
    ) -> Result<(), AdminError> {
        let access_key = existing(access_key)?;
        Ok(self.run(&SetUserOwner { access_key, uid, gid, umask }, None).await??)
    }

    /// Replaces the policies of an access key.
    ///
    /// # Errors
    /// [`AdminError::NoSuchUser`], [`AdminError::NoSuchPolicy`], and if the store does not take it.
    pub async fn set_user_policies(
        &self,
        access_key: &str,
        policies: &[String],
    ) -> Result<(), AdminError> {
        let access_key = existing(access_key)?;
        let set = SetUserPolicies { access_key, policies, built_in: is_built_in };
        if let Err(missing) = check_named(policies) {
            // If the user does not exist either, that is the better error.
            self.user(access_key).await?;
            return Err(missing);
        }
        Ok(self.run(&set, None).await??)
    }
}

/// Refuses a name that no access key can have without asking the store.
fn existing(access_key: &str) -> Result<&str, AdminError> {
    check_written_access_key(access_key).map_err(|_| AdminError::NoSuchUser)?;
    Ok(access_key)
}
