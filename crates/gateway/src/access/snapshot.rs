//! Access keys in memory.
//!
//! A request looks its key up without a round trip. When the records have changed, the owner of an
//! [`Access`] reads them again and replaces the snapshot as a whole, so that a request sees one
//! state. A record that cannot be understood grants nothing.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use record::{PolicyRecord, User};
use s3::operation::Permission;
use s3::policy::{self, Policy};

use super::{MasterKey, Secret};

/// Permissions that nothing is created with, unless its access key says otherwise.
pub const UMASK_DEFAULT: u32 = 0o022;

/// A user: the holder of an access key and its secret.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The access key.
    pub access_key: String,
    /// Its secret.
    pub secret: Secret,
    /// The user id of files that it creates.
    pub uid: u32,
    /// The group id of files that it creates.
    pub gid: u32,
    /// Permissions that it does not create them with.
    pub umask: u32,
    /// Whether it is the operator's own key, which may do everything.
    pub root: bool,
    policies: Vec<Arc<Policy>>,
}

impl Identity {
    /// The operator's own key.
    pub fn root(access_key: impl Into<String>, secret: Secret) -> Identity {
        let access_key = access_key.into();
        let (policies, umask) = (Vec::new(), UMASK_DEFAULT);
        Identity { access_key, secret, uid: 0, gid: 0, umask, root: true, policies }
    }
}

/// Why a record grants nothing, in a sentence for the operator: it cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusable(String);

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

type Records = (Vec<(String, User)>, Vec<(String, PolicyRecord)>);

/// Access keys and what they may do.
#[derive(Debug)]
pub struct Access {
    root: Arc<Identity>,
    master: MasterKey,
    users: RwLock<Arc<HashMap<String, Arc<Identity>>>>,
    /// The records that `users` was made from. Nothing is decrypted again while they stay the same.
    seen: Mutex<Records>,
}

impl Access {
    /// Access for the operator's key alone, until [`Access::replace`] brings users.
    pub fn new(root: Identity, master: MasterKey) -> Access {
        let users = RwLock::default();
        Access { root: Arc::new(root), master, users, seen: Mutex::default() }
    }

    /// Replaces all users and policies. Returns what cannot be used, but only if something has
    /// changed, so that it is reported once.
    pub fn replace(
        &self,
        users: Vec<(String, User)>,
        policies: Vec<(String, PolicyRecord)>,
    ) -> Vec<Unusable> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.0 == users && seen.1 == policies {
            return Vec::new();
        }
        let mut unusable = Vec::new();
        let mut known = HashMap::with_capacity(policies.len());
        for (name, PolicyRecord(document)) in &policies {
            match Policy::parse(document) {
                Ok(policy) => {
                    known.insert(name.as_str(), Arc::new(policy));
                }
                Err(fault) => unusable.push(Unusable(format!("policy {name:?}: {fault}"))),
            }
        }
        let mut fresh = HashMap::with_capacity(users.len());
        for (access_key, user) in users.iter().filter(|(_, user)| user.enabled) {
            match self.identity(access_key, user, &known) {
                Ok(identity) => {
                    fresh.insert(access_key.clone(), Arc::new(identity));
                }
                Err(problem) => unusable.push(problem),
            }
        }
        *self.users.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(fresh);
        *seen = (users, policies);
        unusable
    }

    /// The identity of a user. If one of its policies cannot be understood, the access key is not
    /// usable at all: that policy may deny what others allow.
    fn identity(
        &self,
        access_key: &str,
        user: &User,
        known: &HashMap<&str, Arc<Policy>>,
    ) -> Result<Identity, Unusable> {
        let problem = |what: String| Unusable(format!("access key {access_key:?}: {what}"));
        let secret = self.master.open(access_key, &user.sealed_secret);
        let secret = secret.map_err(|error| problem(error.to_string()))?;
        let mut policies = Vec::with_capacity(user.policies.len());
        for name in &user.policies {
            let canned = || Policy::canned(name).map(Arc::new);
            let policy = known.get(name.as_str()).cloned().or_else(canned);
            policies.push(policy.ok_or_else(|| problem(format!("no usable policy {name:?}")))?);
        }
        let access_key = access_key.to_owned();
        let User { uid, gid, umask, .. } = *user;
        Ok(Identity { access_key, secret, uid, gid, umask, root: false, policies })
    }

    /// The identity with an access key. A disabled key has none.
    pub fn lookup(&self, access_key: &str) -> Option<Arc<Identity>> {
        if access_key == self.root.access_key {
            return Some(Arc::clone(&self.root));
        }
        self.users.read().unwrap_or_else(PoisonError::into_inner).get(access_key).cloned()
    }

    /// Whether an identity has a permission; `None` is an anonymous client. What no statement
    /// allows is denied, and a statement that denies wins. The operator's key has every permission.
    pub fn authorise(&self, identity: Option<&Identity>, permission: &Permission) -> bool {
        identity.is_some_and(|identity| {
            let policies = identity.policies.iter().map(Arc::as_ref);
            identity.root || policy::evaluate(policies, permission).is_allowed()
        })
    }

    /// Seals a secret for a user's record. The nonce must be random.
    pub fn seal(
        &self,
        access_key: &str,
        secret: &Secret,
        nonce: [u8; MasterKey::NONCE_BYTES],
    ) -> Vec<u8> {
        self.master.seal(access_key, secret, nonce)
    }
}
