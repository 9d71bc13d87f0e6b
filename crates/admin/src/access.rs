//! Users: access keys with policies, groups and further keys.
//!
//! Access keys and policies are changed without a session. A gateway reads all of their records
//! again when the change feed reports a change, and uses the old ones until then. A change of a
//! bucket's settings, in contrast, needs a session, because a gateway that is the only session of
//! the volume answers from memory.
//!
//! For example, `set_user_owner("anna", (Some(1000), None, None))` changes the owner of the files
//! that `anna` creates later, and leaves her existing files.

use std::fmt;

use namespace::{
    AddUser, FindUser, ListUsers, RemoveUser, SeenPolicy, SetUserEnabled, SetUserOwner,
    SetUserPolicies, SetUserSecret,
};
use record::{AccountId, LastUse, Timestamp, User, UserKind, key};
use store::Read;

use crate::change::corrupt;
use crate::names::check_written_access_key;
use crate::policy::{check_named, is_built_in};
use crate::secret::{NONCE_BYTES, SECRET_CHARS, SecretSealer, random_text};
use crate::{Admin, AdminError, Etag, check_access_key, check_secret};

/// The number of last uses that one read returns.
const LAST_USES_AT_ONCE: usize = 1_000;

/// An access key without its secret: a user, a further key of a user, or a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessKey {
    /// The access key.
    pub access_key: String,
    /// The account of the access key.
    pub account: AccountId,
    /// False if requests with the access key are refused. A key whose parent is disabled is
    /// refused, too.
    pub enabled: bool,
    /// The user id of files that the access key creates.
    pub uid: u32,
    /// The group id of files that the access key creates.
    pub gid: u32,
    /// The umask of files that the access key creates.
    pub umask: u32,
    /// The names of the policies of a user itself. A user without policies, also in its groups, has
    /// no permissions. Empty for further keys and tokens, which have those of their parent.
    pub policies: Vec<String>,
    /// The user of a further key or token; `None` for a user, and for a token of the operator.
    pub parent: Option<String>,
    /// The note of the operator.
    pub description: String,
    /// The time at which it was created.
    pub made: Timestamp,
    /// The time from which it is refused; `None` if it does not expire.
    pub expires: Option<Timestamp>,
    /// The patterns of the permitted actions of a token; `None` for an access key of S3.
    pub actions: Option<Vec<String>>,
    /// The names of the further keys and tokens of a user, in order.
    pub keys: Vec<String>,
    /// The names of the groups of a user, in order.
    pub groups: Vec<String>,
    /// The time of the last use that a gateway has recorded, which it does once an hour and when it
    /// stops.
    pub last_used: Option<Timestamp>,
    /// The version of the record.
    pub etag: Etag,
}

impl AccessKey {
    pub(crate) fn new(access_key: String, user: User) -> AccessKey {
        let etag = Etag::of(&user.encode(&key::user(&access_key)));
        let User { account, enabled, uid, gid, umask, .. } = user;
        let User { policies, parent, description, made, expires, kind, keys, groups, .. } = user;
        let actions = match kind {
            UserKind::Key => None,
            UserKind::Token { actions } => Some(actions),
        };
        AccessKey {
            access_key,
            account,
            enabled,
            uid,
            gid,
            umask,
            policies,
            parent,
            description,
            made,
            expires,
            actions,
            keys,
            groups,
            last_used: None,
            etag,
        }
    }

    /// Returns true for a user: neither a further key nor a token.
    pub fn is_user(&self) -> bool {
        self.parent.is_none() && self.actions.is_none()
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

    fn record(&self, sealed_secret: Vec<u8>, made: Timestamp) -> User {
        let NewUser { account, uid, gid, umask, policies, .. } = *self;
        let policies = policies.to_vec();
        User { uid, gid, umask, policies, made, ..User::new(account, sealed_secret) }
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
    /// Returns all users in order of name, without their further keys and tokens. The root key of
    /// the operator is not among them, because it has no record.
    pub async fn users(&self) -> Result<Vec<AccessKey>, AdminError> {
        self.all_keys(AccessKey::is_user).await
    }

    /// Returns the access keys and tokens for which `wanted` is true, in order of name.
    pub(crate) async fn all_keys(
        &self,
        wanted: impl Fn(&AccessKey) -> bool,
    ) -> Result<Vec<AccessKey>, AdminError> {
        let users = self.look(&ListUsers).await?;
        let keys = users.into_iter().map(|(name, user)| AccessKey::new(name, user));
        self.with_last_use(keys.filter(wanted).collect()).await
    }

    /// Adds the time of the last use to each of these keys.
    async fn with_last_use(&self, mut keys: Vec<AccessKey>) -> Result<Vec<AccessKey>, AdminError> {
        for chunk in keys.chunks_mut(LAST_USES_AT_ONCE) {
            let at = |key: &AccessKey| key::last_use(&key.access_key);
            let read = |key: &AccessKey| Read::Record { key: at(key), follow: None };
            let reads: Vec<Read> = chunk.iter().map(read).collect();
            for (key, found) in chunk.iter_mut().zip(self.read(&reads).await?) {
                let Some(value) = session::value(Some(&found)) else { continue };
                let slot = at(key);
                let last = LastUse::decode(&slot, &value);
                key.last_used = Some(last.map_err(|error| corrupt(&slot, &error))?.at);
            }
        }
        Ok(keys)
    }

    /// Returns a user, a further key or a token.
    ///
    /// # Errors
    /// [`AdminError::NoSuchUser`].
    pub async fn key(&self, access_key: &str) -> Result<AccessKey, AdminError> {
        let access_key = existing(access_key)?;
        let user = self.look(&FindUser { access_key }).await??;
        let found = vec![AccessKey::new(access_key.to_owned(), user)];
        self.with_last_use(found).await?.pop().ok_or(AdminError::NoSuchUser)
    }

    /// Returns a user.
    ///
    /// # Errors
    /// [`AdminError::NoSuchUser`], [`AdminError::NotUser`] for a further key or token.
    pub async fn user(&self, access_key: &str) -> Result<AccessKey, AdminError> {
        let found = self.key(access_key).await?;
        if found.is_user() { Ok(found) } else { Err(AdminError::NotUser(found.parent)) }
    }

    /// Checks that `new` could be added now, and changes nothing. A caller uses it before a step
    /// that is necessary only if the access key will be accepted.
    ///
    /// # Errors
    /// Those of [`Admin::add_user`].
    pub async fn check_new_user(&self, new: &NewUser<'_>) -> Result<(), AdminError> {
        new.check()?;
        let user = &new.record(Vec::new(), self.now());
        let (access_key, built_in) = (new.access_key, is_built_in);
        let add = AddUser { access_key, user, built_in, seen: &[] };
        Ok(self.look(&add).await??)
    }

    /// Creates a user.
    ///
    /// # Errors
    /// [`AdminError::Name`], [`AdminError::UserExists`], [`AdminError::NoSuchPolicy`], and if the
    /// store refuses the change.
    pub async fn add_user(
        &self,
        new: &NewUser<'_>,
        sealer: &dyn SecretSealer,
    ) -> Result<IssuedKey, AdminError> {
        self.create_user(new, true, &[], sealer).await
    }

    /// As [`Admin::add_user`], with the state of the new user and the versions of policies that the
    /// caller has seen.
    pub(crate) async fn create_user(
        &self,
        new: &NewUser<'_>,
        enabled: bool,
        seen: &[SeenPolicy],
        sealer: &dyn SecretSealer,
    ) -> Result<IssuedKey, AdminError> {
        new.check()?;
        let (secret, sealed_secret) = self.secret(new.access_key, new.secret, sealer)?;
        let user = User { enabled, ..new.record(sealed_secret, self.now()) };
        let (access_key, built_in) = (new.access_key, is_built_in);
        let add = AddUser { access_key, user: &user, built_in, seen };
        // The secret is returned only after the commit, so that an operator hands out no secret
        // whose key does not exist.
        self.change(&add).await??;
        Ok(IssuedKey { key: AccessKey::new(new.access_key.to_owned(), user), secret })
    }

    /// Returns the given or a random secret for an access key, and its sealed form.
    pub(crate) fn secret(
        &self,
        access_key: &str,
        given: Option<&str>,
        sealer: &dyn SecretSealer,
    ) -> Result<(String, Vec<u8>), AdminError> {
        let random = &*self.surroundings.random;
        let secret = match given {
            Some(given) => given.to_owned(),
            None => random_text(random, SECRET_CHARS)?,
        };
        // A nonce must never be used twice with one master key, so each secret gets a random one.
        let mut nonce = [0; NONCE_BYTES];
        random.fill(&mut nonce).map_err(AdminError::Random)?;
        let sealed_secret = sealer.seal(access_key, &secret, nonce);
        Ok((secret, sealed_secret))
    }

    /// Returns the current time.
    pub fn now(&self) -> Timestamp {
        self.surroundings.clock.now()
    }

    /// Removes a user with its further keys, its tokens and its memberships of groups.
    ///
    /// # Errors
    /// [`AdminError::NoSuchUser`], [`AdminError::NotUser`], [`AdminError::Changed`] if the etag is
    /// not `expected`, and if the store refuses the change.
    pub async fn remove_user(
        &self,
        access_key: &str,
        expected: Option<&Etag>,
    ) -> Result<(), AdminError> {
        let (access_key, expected) = (existing(access_key)?, Etag::expected(expected));
        Ok(self.change(&RemoveUser { access_key, expected }).await??)
    }

    /// Enables or disables a user. While it is disabled, requests with its access key, its further
    /// keys, its tokens and its temporary credentials are refused.
    ///
    /// # Errors
    /// Those of [`Admin::remove_user`].
    pub async fn set_user_enabled(
        &self,
        access_key: &str,
        enabled: bool,
        expected: Option<&Etag>,
    ) -> Result<(), AdminError> {
        let (access_key, expected) = (existing(access_key)?, Etag::expected(expected));
        Ok(self.change(&SetUserEnabled { access_key, enabled, expected }).await??)
    }

    /// Gives a user's own access key this secret. Returns false if it has the secret already; the
    /// record is not written then.
    ///
    /// # Errors
    /// [`AdminError::Name`] for the secret, [`AdminError::NoSuchUser`], [`AdminError::NotUser`],
    /// [`AdminError::Changed`] if another change was made meanwhile, and if the store refuses the
    /// change.
    pub async fn set_user_secret(
        &self,
        access_key: &str,
        secret: &str,
        sealer: &dyn SecretSealer,
    ) -> Result<bool, AdminError> {
        check_secret(secret)?;
        let access_key = existing(access_key)?;
        let user = self.look(&FindUser { access_key }).await??;
        if sealer.is_sealed(access_key, secret, &user.sealed_secret) {
            return Ok(false);
        }
        let etag = Etag::of(&user.encode(&key::user(access_key)));
        let (_, sealed_secret) = self.secret(access_key, Some(secret), sealer)?;
        let expected = Etag::expected(Some(&etag));
        let set = SetUserSecret { access_key, sealed_secret: &sealed_secret, expected };
        self.change(&set).await??;
        Ok(true)
    }

    /// Sets the owner and the umask of files that the user creates from now on. A value that is
    /// `None` does not change. Existing files do not change either.
    ///
    /// # Errors
    /// Those of [`Admin::remove_user`].
    pub async fn set_user_owner(
        &self,
        access_key: &str,
        (uid, gid, umask): (Option<u32>, Option<u32>, Option<u32>),
        expected: Option<&Etag>,
    ) -> Result<(), AdminError> {
        let (access_key, expected) = (existing(access_key)?, Etag::expected(expected));
        Ok(self.change(&SetUserOwner { access_key, uid, gid, umask, expected }).await??)
    }

    /// Replaces the policies of a user.
    ///
    /// # Errors
    /// Those of [`Admin::remove_user`], and [`AdminError::NoSuchPolicy`].
    pub async fn set_user_policies(
        &self,
        access_key: &str,
        policies: &[String],
        expected: Option<&Etag>,
    ) -> Result<(), AdminError> {
        self.replace_user_policies(access_key, (policies, &[]), expected).await
    }

    /// As [`Admin::set_user_policies`], with the versions of policies that the caller has seen.
    pub(crate) async fn replace_user_policies(
        &self,
        access_key: &str,
        (policies, seen): (&[String], &[SeenPolicy]),
        expected: Option<&Etag>,
    ) -> Result<(), AdminError> {
        let access_key = existing(access_key)?;
        let (built_in, expected) = (is_built_in, Etag::expected(expected));
        let set = SetUserPolicies { access_key, policies, built_in, seen, expected };
        if let Err(missing) = check_named(policies) {
            // If neither the policy nor the user exists, the error about the user is more useful.
            self.user(access_key).await?;
            return Err(missing);
        }
        Ok(self.change(&set).await??)
    }
}

/// Returns the name if an access key can have it. Fails with `NoSuchUser` without a read otherwise.
pub(crate) fn existing(access_key: &str) -> Result<&str, AdminError> {
    check_written_access_key(access_key).map_err(|_| AdminError::NoSuchUser)?;
    Ok(access_key)
}
