//! A snapshot of accounts, access keys and policies in memory.
//!
//! A request looks up its access key without a round trip. When the records change, the owner of an
//! [`Access`] reads them and replaces the whole snapshot, so a lookup never sees a half-replaced
//! one. A record that this release cannot decode grants nothing.
//!
//! For example, a user has a policy that a newer release has written in an unknown form. The access
//! key is then unusable, because this policy might deny an action that another policy allows.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use policy::{Policy, PolicyKind, Principal, PrincipalName, RoleSession};
use record::{Account, AccountId, CanonicalId, PolicyRecord, User};
use s3::response::Owner;
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use volume::AccessRecords;

use super::secret::{MasterKey, SealError, Secret};
use super::web::{WebIdentity, WebRole};

/// The umask of files whose access key has no umask of its own.
pub const UMASK_DEFAULT: u32 = 0o022;

/// The canonical id of anonymous clients, as S3 shows it.
const ANONYMOUS_ID: &str = "65a011a29cdf8ec533ec3d1ccaae921c";

/// The sender of a signed request: a user, a user's session, or a web identity.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The access key of the user. For a web identity, which has no user: the session's access key.
    pub access_key: String,
    /// The secret with which requests are signed.
    pub secret: Secret,
    /// The account that the sender belongs to.
    pub account: AccountId,
    /// The user id that owns files created by this sender.
    pub uid: u32,
    /// The group id that owns files created by this sender.
    pub gid: u32,
    /// The umask of files created by this sender: mode bits that they do not get.
    pub umask: u32,
    /// True for the operator's own key, which has all permissions in its account.
    pub root: bool,
    pub(crate) policies: Vec<Arc<Policy>>,
    /// The session, if the credentials are temporary. `access_key` is then the key of the user, if
    /// there is a user.
    pub(crate) session: Option<Session>,
}

impl Identity {
    /// Returns the identity of the operator's own key.
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

    /// Returns the access key of the user; `None` for a web identity.
    fn user(&self) -> Option<&str> {
        let of_web = self.session.as_ref().is_some_and(|session| session.web.is_some());
        Some(self.access_key.as_str()).filter(|_| !of_web)
    }

    /// Returns a hash that changes when the user gets another secret, or when another user gets its
    /// name.
    pub(crate) fn proof(&self) -> String {
        let of = format!("{}/{}", self.account, self.secret.expose());
        hex::encode(Sha256::digest(of))
    }

    /// Returns the user id in STS responses and conditions: the session's role and name, or the
    /// access key.
    pub fn user_id(&self) -> String {
        match &self.session {
            Some(session) => format!("{}:{}", session.role, session.name),
            None => self.access_key.clone(),
        }
    }
}

/// The facts of a session, that is, of temporary credentials, without the user to which they
/// belong.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    /// The role: a user's access key, or the name of a web role.
    pub(crate) role: String,
    /// The session name that the client chose.
    pub(crate) name: String,
    /// The session policy, which limits the permissions.
    pub(crate) policy: Option<Arc<Policy>>,
    /// The time at which the session began.
    pub(crate) began: OffsetDateTime,
    /// The web identity; `None` if a user began the session.
    pub(crate) web: Option<WebIdentity>,
}

/// The reason why the record of an account, an access key or a policy grants nothing, as a sentence
/// for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusable(String);

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The decoded records of accounts, users and policies, as lookup tables.
#[derive(Debug, Default)]
struct Tables {
    accounts: HashMap<AccountId, Account>,
    numbers: HashMap<CanonicalId, AccountId>,
    users: HashMap<String, Arc<Identity>>,
    policies: HashMap<String, Arc<Policy>>,
}

impl Tables {
    /// Returns the policy of this name: one of the volume, or a built-in one.
    fn policy(&self, name: &str) -> Option<Arc<Policy>> {
        self.policies.get(name).cloned().or_else(|| Policy::canned(name).map(Arc::new))
    }
}

/// All accounts, access keys and policies, as of the last [`Access::replace`].
#[derive(Debug)]
pub struct Access {
    root: Arc<Identity>,
    master: MasterKey,
    known: RwLock<Arc<Tables>>,
    /// The records from which `known` was made. If they have not changed, no secret is decrypted
    /// again.
    seen: Mutex<AccessRecords>,
    web_roles: Vec<WebRole>,
}

impl Access {
    /// Creates a snapshot with the operator's key alone. [`Access::replace`] adds the records.
    pub fn new(root: Identity, master: MasterKey) -> Access {
        let (known, seen) = (RwLock::default(), Mutex::default());
        Access { root: Arc::new(root), master, known, seen, web_roles: Vec::new() }
    }

    /// Adds the roles of the configuration for web identities, that is, for users of OpenID
    /// issuers.
    #[must_use]
    pub fn with_web_roles(self, web_roles: Vec<WebRole>) -> Access {
        Access { web_roles, ..self }
    }

    /// Returns the roles for web identities, in the order of the configuration.
    pub(crate) fn web_roles(&self) -> &[WebRole] {
        &self.web_roles
    }

    /// Replaces all accounts, users and policies. Returns the unusable records, but only if the
    /// records have changed, so that each problem is logged once.
    pub fn replace(&self, records: AccessRecords) -> Vec<Unusable> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if *seen == records {
            return Vec::new();
        }
        let mut unusable = Vec::new();
        let mut tables = Tables::default();
        // Policies come first, because users refer to them.
        for (name, PolicyRecord(document)) in &records.policies {
            match Policy::parse(document, PolicyKind::User) {
                Ok(policy) => {
                    tables.policies.insert(name.clone(), Arc::new(policy));
                }
                Err(error) => unusable.push(Unusable(format!("policy {name:?}: {error}"))),
            }
        }
        for (id, account) in &records.accounts {
            tables.numbers.insert(account.canonical_id, *id);
            tables.accounts.insert(*id, account.clone());
        }
        for (access_key, user) in records.users.iter().filter(|(_, user)| user.enabled) {
            match self.identity(access_key, user, &tables) {
                Ok(identity) => {
                    tables.users.insert(access_key.clone(), Arc::new(identity));
                }
                Err(problem) => unusable.push(problem),
            }
        }
        // All tables are replaced in one step. A lookup that is running keeps the old tables, so it
        // sees either all old records or all new ones.
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(tables);
        *seen = records;
        unusable
    }

    /// Returns the identity of a user. If one of its policies is unusable, the access key is
    /// unusable too, because this policy may deny actions that others allow.
    fn identity(
        &self,
        access_key: &str,
        user: &User,
        known: &Tables,
    ) -> Result<Identity, Unusable> {
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

    fn known(&self) -> Arc<Tables> {
        Arc::clone(&self.known.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the identity with an access key; `None` if the key is unknown or disabled.
    pub fn lookup(&self, access_key: &str) -> Option<Arc<Identity>> {
        // The operator's key comes first, so a user record cannot take its place.
        if access_key == self.root.access_key {
            return Some(Arc::clone(&self.root));
        }
        self.known().users.get(access_key).cloned()
    }

    /// Returns the current policies of these names. Fails with the name of a policy that is missing
    /// or unusable, because this policy may deny actions that others allow.
    pub(crate) fn policies<'a>(
        &self,
        names: impl Iterator<Item = &'a String>,
    ) -> Result<Vec<Arc<Policy>>, &'a str> {
        let known = self.known();
        names.map(|name| known.policy(name).ok_or(name.as_str())).collect()
    }

    /// Returns true if the account exists.
    pub(crate) fn has_account(&self, account: AccountId) -> bool {
        account == AccountId::MAIN || self.known().accounts.contains_key(&account)
    }

    /// Returns the principal of a sender, that is, the user, role session or anonymous client that
    /// the `Principal` elements of policies match.
    pub fn principal(&self, identity: Option<&Identity>) -> Principal {
        let Some(identity) = identity else { return Principal::Anonymous };
        Principal::User {
            account: identity.account.to_string(),
            canonical_id: canonical_text(&self.known(), identity.account),
            name: identity.user().map(str::to_owned),
            is_root: identity.root,
            session: identity.session.as_ref().map(|session| RoleSession {
                role: session.role.clone(),
                name: session.name.clone(),
            }),
        }
    }

    /// Returns true if the principal exists, so that a new policy may name it. For a role or a
    /// session, the existence of its account is enough.
    pub fn exists(&self, principal: &PrincipalName) -> bool {
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

    /// Returns the number of the account with a canonical id, by which ACLs name it; `None` if
    /// there is no such account.
    pub fn account_of(&self, canonical_id: &str) -> Option<(AccountId, CanonicalId)> {
        let id = canonical_id.parse().ok()?;
        self.known().numbers.get(&id).map(|number| (*number, id))
    }

    /// Returns an account as S3 shows it as an owner. A removed account is shown by its number.
    pub fn owner(&self, account: AccountId) -> Owner {
        let known = self.known();
        let display_name = match known.accounts.get(&account) {
            Some(known) => known.name.clone(),
            None if account == AccountId::ANONYMOUS => "anonymous".to_owned(),
            None => account.to_string(),
        };
        Owner { id: canonical_text(&known, account), display_name }
    }

    /// Returns the canonical id of an account, by which ACLs name it; `None` if the account does
    /// not exist.
    pub fn canonical_id(&self, account: AccountId) -> Option<CanonicalId> {
        self.known().accounts.get(&account).map(|known| known.canonical_id)
    }

    /// Decrypts a secret or session token that was sealed, that is, encrypted under the master key
    /// and bound to this access key. Fails if it was sealed for another key or is damaged.
    pub(super) fn open(&self, access_key: &str, sealed: &[u8]) -> Result<Secret, SealError> {
        self.master.open(access_key, sealed)
    }

    /// Returns a key that is derived from the master key for a single purpose.
    pub(crate) fn derived_key(&self, purpose: &str) -> [u8; MasterKey::BYTES] {
        self.master.derive(purpose)
    }

    /// Seals a secret for a user's record: encrypts it under the master key and binds it to the
    /// access key. The nonce must be random.
    pub fn seal(
        &self,
        access_key: &str,
        secret: &Secret,
        nonce: [u8; MasterKey::NONCE_BYTES],
    ) -> Vec<u8> {
        self.master.seal(access_key, secret, nonce)
    }
}

/// Returns the canonical id of an account as text. A removed account has its number instead.
fn canonical_text(known: &Tables, account: AccountId) -> String {
    match known.accounts.get(&account) {
        Some(known) => known.canonical_id.to_string(),
        None if account == AccountId::ANONYMOUS => ANONYMOUS_ID.to_owned(),
        None => format!("{:064}", account.0),
    }
}
