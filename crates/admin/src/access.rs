//! Access keys.
//!
//! Access keys and policies are changed without a session. A gateway reads all of their records
//! again when the change feed reports a change, and uses the old ones until then. A change of a
//! bucket's settings, in contrast, needs a session, because a gateway that is the only session of
//! the volume answers from memory.
//!
//! For example, `set_user_owner("anna", (Some(1000), None, None))` changes the owner of the files
//! that `anna` creates later, and leaves her existing files.

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
    /// The account of the access key.
    pub account: AccountId,
    /// False if requests with the access key are refused.
    pub enabled: bool,
    /// The user id of files that the access key creates.
    pub uid: u32,
    /// The group id of files that the access key creates.
    pub gid: u32,
    /// The umask of files that the access key creates.
    pub umask: u32,
    /// The names of its policies. An access key without policies has no permissions.
    pub policies: Vec<String>,
}

impl AccessKey {
    fn new(access_key: String, user: User) -> AccessKey {
        let User { account, enabled, uid, gid, umask, policies, .. } = user;
        AccessKey { access_key, account, enabled, uid, gid, umask, policies }
    }
}

/// The properties of a new access key, which `Admin::add_user` creates.
#[derive(Clone, Copy)]
pub struct NewUser<'a> {
    /// The access key; see [`check_access_key`].
    pub access_key: &'a str,
    /// The account of the access key.
    pub account: AccountId,
    /// The secret, which [`check_secret`] accepts. `None` for a random secret.
    pub secret: Option<&'a str>,
    /// The user id of files that the access key creates.
    pub uid: u32,
    /// The group id of files that the access key creates.
    pub gid: u32,
    /// The umask of files that the access key creates.
    pub umask: u32,
    /// The names of its policies.
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

/// A new access key with its secret, which cannot be read again.
#[derive(Clone, PartialEq, Eq)]
pub struct IssuedKey {
    /// The access key.
    pub key: AccessKey,
    /// The secret, given or random. The caller must not log it.
    pub secret: String,
}

impl fmt::Debug for IssuedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IssuedKey").field("key", &self.key).finish_non_exhaustive()
    }
}

impl Admin {
    /// Returns all access keys in order of name. The root key of the operator is not among them,
    /// because it has no record.
    pub async fn users(&self) -> Result<Vec<AccessKey>, AdminError> {
        let users = self.look(&ListUsers).await?;
        Ok(users.into_iter().map(|(name, user)| AccessKey::new(name, user)).collect())
    }

    /// Returns an access key.
    ///
    /// # Errors
    /// [`AdminError::NoSuchUser`].
    pub async fn user(&self, access_key: &str) -> Result<AccessKey, AdminError> {
        let access_key = existing(access_key)?;
        let user = self.look(&FindUser { access_key }).await??;
        Ok(AccessKey::new(access_key.to_owned(), user))
    }

    /// Checks that `new` could be added now, and changes nothing. A caller uses it before a step
    /// that is necessary only if the access key will be accepted.
    ///
    /// # Errors
    /// Those of [`Admin::add_user`].
    pub async fn check_new_user(&self, new: &NewUser<'_>) -> Result<(), AdminError> {
        new.check()?;
        let user = &new.record(Vec::new());
        let add = AddUser { access_key: new.access_key, user, built_in: is_built_in };
        Ok(self.look(&add).await??)
    }

    /// Creates an access key.
    ///
    /// # Errors
    /// [`AdminError::Name`], [`AdminError::UserExists`], [`AdminError::NoSuchPolicy`], and if the
    /// store refuses the change.
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
        // A nonce must never be used twice with one master key, so each secret gets a random one.
        let mut nonce = [0; NONCE_BYTES];
        random.fill(&mut nonce).map_err(AdminError::Random)?;
        let user = new.record(sealer.seal(new.access_key, &secret, nonce));
        let add = AddUser { access_key: new.access_key, user: &user, built_in: is_built_in };
        // The secret is returned only after the commit, so that an operator hands out no secret
        // whose key does not exist.
        self.change(&add).await??;
        Ok(IssuedKey { key: AccessKey::new(new.access_key.to_owned(), user), secret })
    }

    /// Removes an access key.
    ///
    /// # Errors
    /// [`AdminError::NoSuchUser`], and if the store refuses the change.
    pub async fn remove_user(&self, access_key: &str) -> Result<(), AdminError> {
        let access_key = existing(access_key)?;
        Ok(self.change(&RemoveUser { access_key }).await??)
    }

    /// Sets the owner and the umask of files that the access key creates from now on. A value that
    /// is `None` does not change. Existing files do not change either.
    ///
    /// # Errors
    /// [`AdminError::NoSuchUser`], and if the store refuses the change.
    pub async fn set_user_owner(
        &self,
        access_key: &str,
        (uid, gid, umask): (Option<u32>, Option<u32>, Option<u32>),
    ) -> Result<(), AdminError> {
        let access_key = existing(access_key)?;
        Ok(self.change(&SetUserOwner { access_key, uid, gid, umask }).await??)
    }

    /// Replaces the policies of an access key.
    ///
    /// # Errors
    /// [`AdminError::NoSuchUser`], [`AdminError::NoSuchPolicy`], and if the store refuses the
    /// change.
    pub async fn set_user_policies(
        &self,
        access_key: &str,
        policies: &[String],
    ) -> Result<(), AdminError> {
        let access_key = existing(access_key)?;
        let set = SetUserPolicies { access_key, policies, built_in: is_built_in };
        if let Err(missing) = check_named(policies) {
            // If neither the policy nor the user exists, the error about the user is more useful.
            self.user(access_key).await?;
            return Err(missing);
        }
        Ok(self.change(&set).await??)
    }
}

/// Returns the name if an access key can have it. Fails with `NoSuchUser` without a read otherwise.
fn existing(access_key: &str) -> Result<&str, AdminError> {
    check_written_access_key(access_key).map_err(|_| AdminError::NoSuchUser)?;
    Ok(access_key)
}
