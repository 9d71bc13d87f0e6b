//! Accounts and access keys in memory.
//!
//! A request looks its key up without a round trip. When the records have changed, the owner of an
//! [`Access`] reads them again and replaces the snapshot as a whole, so that a request sees one
//! state. A record that cannot be understood grants nothing.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use policy::{Policy, PolicyKind, Principal, PrincipalName, RoleSession};
use record::{Account, AccountId, CanonicalId, PolicyRecord, User};
use s3::response::Owner;
use time::OffsetDateTime;

use super::secret::{MasterKey, SealError, Secret};
use super::web::{WebIdentity, WebRole};

/// Permissions that nothing is created with, unless its access key says otherwise.
pub const UMASK_DEFAULT: u32 = 0o022;

/// The canonical id of whoever sends no credentials, as S3 shows it.
const ANONYMOUS_ID: &str = "65a011a29cdf8ec533ec3d1ccaae921c";

/// A user: the holder of an access key and its secret.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The access key. Of a web identity's session, which has no user, its own.
    pub access_key: String,
    /// Its secret.
    pub secret: Secret,
    /// The account that it belongs to.
    pub account: AccountId,
    /// The user id of files that it creates.
    pub uid: u32,
    /// The group id of files that it creates.
    pub gid: u32,
    /// Permissions that it does not create them with.
    pub umask: u32,
    /// Whether it is the operator's own key, which may do everything in its account.
    pub root: bool,
    pub(crate) policies: Vec<Arc<Policy>>,
    /// The session of temporary credentials. The access key is that of the user then, if there is
    /// one.
    pub(crate) session: Option<Session>,
}

impl Identity {
    /// The operator's own key.
    pub fn root(access_key: impl Into<String>, secret: Secret) -> Identity {
        Identity {
            access_key: access_key.into(),
            secret,
            account: AccountId::MAIN,
            uid: 0,
            gid: 0,
            umask: UMASK_DEFAULT,
            root: true,
            policies: Vec::new(),
            session: None,
        }
    }

    /// The user's access key, if there is a user.
    fn user(&self) -> Option<&str> {
        let of_web = self.session.as_ref().is_some_and(|session| session.web.is_some());
        Some(self.access_key.as_str()).filter(|_| !of_web)
    }

    /// What STS and conditions call it: the session's role and name, or the access key.
    pub(crate) fn user_id(&self) -> String {
        match &self.session {
            Some(session) => format!("{}:{}", session.role, session.name),
            None => self.access_key.clone(),
        }
    }
}

/// What is known of a session besides its user.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    /// The role that it has: a user's access key, or a web role's name.
    pub(crate) role: String,
    /// Its name.
    pub(crate) name: String,
    /// What limits it.
    pub(crate) policy: Option<Arc<Policy>>,
    /// When it began.
    pub(crate) began: OffsetDateTime,
    /// Whose it is, if it has no user.
    pub(crate) web: Option<WebIdentity>,
}

/// Why a record grants nothing, in a sentence for the operator: it cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusable(String);

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The records that say who there is and what they may do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessRecords {
    /// Accounts, by number.
    pub accounts: Vec<(AccountId, Account)>,
    /// Users, by access key.
    pub users: Vec<(String, User)>,
    /// Policies, by name.
    pub policies: Vec<(String, PolicyRecord)>,
}

/// What the records say, to be looked up.
#[derive(Debug, Default)]
struct Known {
    accounts: HashMap<AccountId, Account>,
    numbers: HashMap<CanonicalId, AccountId>,
    users: HashMap<String, Arc<Identity>>,
    policies: HashMap<String, Arc<Policy>>,
}

impl Known {
    /// The policy of a name: one of the volume, or one that is built in.
    fn policy(&self, name: &str) -> Option<Arc<Policy>> {
        self.policies.get(name).cloned().or_else(|| Policy::canned(name).map(Arc::new))
    }
}

/// Accounts, access keys, and what they may do.
#[derive(Debug)]
pub struct Access {
    root: Arc<Identity>,
    master: MasterKey,
    known: RwLock<Arc<Known>>,
    /// The records that `known` was made from. Nothing is decrypted again while they stay the same.
    seen: Mutex<AccessRecords>,
    web_roles: Vec<WebRole>,
}

impl Access {
    /// Access for the operator's key alone, until [`Access::replace`] brings users.
    pub fn new(root: Identity, master: MasterKey) -> Access {
        let (known, seen) = (RwLock::default(), Mutex::default());
        Access { root: Arc::new(root), master, known, seen, web_roles: Vec::new() }
    }

    /// The same, with roles for web identities.
    #[must_use]
    pub fn with_web_roles(self, web_roles: Vec<WebRole>) -> Access {
        Access { web_roles, ..self }
    }

    /// The roles for web identities, in the order in which they were given.
    pub(crate) fn web_roles(&self) -> &[WebRole] {
        &self.web_roles
    }

    /// Replaces all accounts, users and policies. Returns what cannot be used, but only if something
    /// has changed, so that it is reported once.
    pub fn replace(&self, records: AccessRecords) -> Vec<Unusable> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if *seen == records {
            return Vec::new();
        }
        let mut unusable = Vec::new();
        let mut fresh = Known::default();
        for (name, PolicyRecord(document)) in &records.policies {
            match Policy::parse(document, PolicyKind::User) {
                Ok(policy) => {
                    fresh.policies.insert(name.clone(), Arc::new(policy));
                }
                Err(error) => unusable.push(Unusable(format!("policy {name:?}: {error}"))),
            }
        }
        for (id, account) in &records.accounts {
            fresh.numbers.insert(account.canonical_id, *id);
            fresh.accounts.insert(*id, account.clone());
        }
        for (access_key, user) in records.users.iter().filter(|(_, user)| user.enabled) {
            match self.identity(access_key, user, &fresh) {
                Ok(identity) => {
                    fresh.users.insert(access_key.clone(), Arc::new(identity));
                }
                Err(problem) => unusable.push(problem),
            }
        }
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(fresh);
        *seen = records;
        unusable
    }

    /// The identity of a user. If one of its policies cannot be understood, the access key is not
    /// usable at all: that policy may deny what others allow.
    fn identity(&self, access_key: &str, user: &User, known: &Known) -> Result<Identity, Unusable> {
        let problem = |what: String| Unusable(format!("access key {access_key:?}: {what}"));
        let secret = self.master.open(access_key, &user.sealed_secret);
        let secret = secret.map_err(|error| problem(error.to_string()))?;
        let mut policies = Vec::with_capacity(user.policies.len());
        for name in &user.policies {
            let policy = known.policy(name);
            policies.push(policy.ok_or_else(|| problem(format!("no usable policy {name:?}")))?);
        }
        let access_key = access_key.to_owned();
        let User { account, uid, gid, umask, .. } = *user;
        Ok(Identity {
            access_key,
            secret,
            account,
            uid,
            gid,
            umask,
            root: false,
            policies,
            session: None,
        })
    }

    fn known(&self) -> Arc<Known> {
        Arc::clone(&self.known.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The identity with an access key. A disabled key has none.
    pub fn lookup(&self, access_key: &str) -> Option<Arc<Identity>> {
        if access_key == self.root.access_key {
            return Some(Arc::clone(&self.root));
        }
        self.known().users.get(access_key).cloned()
    }

    /// The policies of these names, as they are now. Error: the name of one that is not there or
    /// cannot be understood, because that one may deny what others allow.
    pub(crate) fn policies<'a>(
        &self,
        names: impl Iterator<Item = &'a String>,
    ) -> Result<Vec<Arc<Policy>>, &'a str> {
        let known = self.known();
        names.map(|name| known.policy(name).ok_or(name.as_str())).collect()
    }

    /// Whether there is an account.
    pub(crate) fn has_account(&self, account: AccountId) -> bool {
        account == AccountId::MAIN || self.known().accounts.contains_key(&account)
    }

    /// The principal that policies are asked about.
    pub(crate) fn principal(&self, identity: Option<&Identity>) -> Principal {
        let Some(identity) = identity else { return Principal::Anonymous };
        Principal::User {
            account: identity.account.to_string(),
            canonical_id: self.owner(identity.account).id,
            name: identity.user().map(str::to_owned),
            is_root: identity.root,
            session: identity.session.as_ref().map(|session| RoleSession {
                role: session.role.clone(),
                name: session.name.clone(),
            }),
        }
    }

    /// Whether a policy may name this principal.
    pub(crate) fn exists(&self, principal: &PrincipalName) -> bool {
        let known = self.known();
        let account = |number: &str| {
            number.parse().is_ok_and(|id: AccountId| known.accounts.contains_key(&id))
        };
        let user = |access_key: &str, account: Option<&str>| {
            let identity = self.lookup(access_key);
            identity.is_some_and(|identity| {
                account.is_none_or(|number| identity.account.to_string() == number)
            })
        };
        match principal {
            PrincipalName::Account(number)
            | PrincipalName::Role { account: number, .. }
            | PrincipalName::Session { account: number, .. } => account(number),
            PrincipalName::User { account, name } => user(name, Some(account)),
            PrincipalName::AccessKey(access_key) => user(access_key, None),
            PrincipalName::CanonicalUser(id) => self.account_of(id).is_some(),
        }
    }

    /// The account with a canonical id.
    pub(crate) fn account_of(&self, canonical_id: &str) -> Option<(AccountId, CanonicalId)> {
        let id = canonical_id.parse().ok()?;
        self.known().numbers.get(&id).map(|number| (*number, id))
    }

    /// An account as S3 shows it. Of one that was removed nothing but its number is known.
    pub(crate) fn owner(&self, account: AccountId) -> Owner {
        match self.known().accounts.get(&account) {
            Some(Account { name, canonical_id }) => {
                Owner { id: canonical_id.to_string(), display_name: name.clone() }
            }
            None if account == AccountId::ANONYMOUS => {
                Owner { id: ANONYMOUS_ID.to_owned(), display_name: "anonymous".to_owned() }
            }
            None => Owner { id: format!("{:064}", account.0), display_name: account.to_string() },
        }
    }

    /// The canonical id of an account.
    pub(crate) fn canonical_id(&self, account: AccountId) -> Option<CanonicalId> {
        self.known().accounts.get(&account).map(|known| known.canonical_id)
    }

    /// Opens what was sealed for an access key.
    pub(super) fn open(&self, access_key: &str, sealed: &[u8]) -> Result<Secret, SealError> {
        self.master.open(access_key, sealed)
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
