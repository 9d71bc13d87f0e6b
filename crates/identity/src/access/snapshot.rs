//! A snapshot of accounts, access keys, groups and policies in memory.
//!
//! A request looks up its access key without a round trip. When the records change, the owner of an
//! [`Access`] reads them and replaces the whole snapshot, so a lookup never sees a half-replaced
//! one. A record that this release cannot decode grants nothing.
//!
//! For example, a user has a policy that a newer release has written in an unknown form. The access
//! key is then unusable, because this policy might deny an action that another policy allows.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use policy::{Policy, PolicyKind, Principal, PrincipalName, RoleSession};
use record::{Account, AccountId, CanonicalId, Group, PolicyRecord, User, UserKind};
use s3::response::Owner;
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use volume::AccessRecords;

use super::key_use::KeyUse;
use super::secret::{MasterKey, SealError, Secret};
use super::web::{WebIdentity, WebRole};

/// The umask of files whose access key has no umask of its own.
pub const UMASK_DEFAULT: u32 = 0o022;

/// The canonical id of anonymous clients, as S3 shows it.
const ANONYMOUS_ID: &str = "65a011a29cdf8ec533ec3d1ccaae921c";

/// The sender of a signed request: a user, a user's session, or a web identity.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The name of the user, which is its own access key. For a web identity, which has no user:
    /// the session's access key.
    pub access_key: String,
    /// The access key whose secret the sender knows: that of the user, or a further key of the
    /// user. For a session: the key with which it began. The same as `access_key` for a web
    /// identity.
    pub signing_key: String,
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
    /// The session, if the credentials are temporary.
    pub(crate) session: Option<Session>,
    /// The time from which the access key is refused.
    pub(crate) expires: Option<OffsetDateTime>,
    /// The last use of the access key; `None` if it has no record.
    pub(crate) last_use: Option<Arc<KeyUse>>,
}

impl Identity {
    /// Returns the identity of the operator's own key.
    pub fn root(access_key: impl Into<String>, secret: Secret) -> Identity {
        let access_key = access_key.into();
        Identity {
            signing_key: access_key.clone(),
            access_key,
            secret,
            account: AccountId::MAIN,
            uid: 0,
            gid: 0,
            umask: UMASK_DEFAULT,
            root: true,
            policies: Vec::new(),
            session: None,
            expires: None,
            last_use: None,
        }
    }

    /// Returns true if the access key is accepted at this time.
    pub(crate) fn is_current(&self, now: OffsetDateTime) -> bool {
        self.expires.is_none_or(|expires| now < expires)
    }

    /// Returns the access key of the user; `None` for a web identity.
    pub fn user(&self) -> Option<&str> {
        let of_web = self.session.as_ref().is_some_and(|session| session.web.is_some());
        Some(self.access_key.as_str()).filter(|_| !of_web)
    }

    /// Returns the policies in force of the sender, without that of a session.
    pub fn policies(&self) -> &[Arc<Policy>] {
        &self.policies
    }

    /// Returns the time from which the access key is refused; `None` if it does not expire.
    pub fn expires(&self) -> Option<OffsetDateTime> {
        self.expires
    }

    /// Returns true if the credentials are temporary.
    pub fn is_temporary(&self) -> bool {
        self.session.is_some()
    }

    /// Returns the name of the session that the client chose; `None` for permanent credentials.
    pub fn session_name(&self) -> Option<&str> {
        self.session.as_ref().map(|session| session.name.as_str())
    }

    /// Returns the issuer and the subject of a web identity; `None` for a user.
    pub fn web_identity(&self) -> Option<(&str, &str)> {
        let web = self.session.as_ref()?.web.as_ref()?;
        Some((web.issuer(), web.subject()))
    }

    /// Returns the name by which limits count the sender: its user, or for a web identity, whose
    /// sessions have random access keys, its issuer and subject. It names a person, so logs must
    /// not have it.
    pub fn person(&self) -> Cow<'_, str> {
        match self.web_identity() {
            // No user has a name with a space.
            Some((issuer, subject)) => Cow::Owned(format!("{issuer} {subject}")),
            None => Cow::Borrowed(&self.access_key),
        }
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
    /// The time at which the session ends; `None` for a token, whose record has its end.
    pub(crate) ends: Option<OffsetDateTime>,
    /// The [`Identity::proof`] of the key with which the session began; `None` for a web identity
    /// and a token.
    pub(crate) proof: Option<String>,
    /// The web identity; `None` if a user began the session.
    pub(crate) web: Option<WebIdentity>,
    /// True for a bearer token, which bucket policies cannot name.
    pub(crate) of_token: bool,
}

/// An enabled token.
#[derive(Debug)]
pub struct Bearer {
    /// The identity of its user; that of the operator for a token without a user. `signing_key` is
    /// the name of the token.
    pub identity: Arc<Identity>,
    /// The patterns of the permitted actions. For example, `admin:ListUsers` or `admin:*`.
    pub actions: Vec<String>,
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

/// The decoded records of accounts, users, groups and policies, as lookup tables.
#[derive(Debug, Default)]
pub(super) struct Tables {
    accounts: HashMap<AccountId, Account>,
    numbers: HashMap<CanonicalId, AccountId>,
    /// The enabled access keys of S3: those of users, and further keys.
    users: HashMap<String, Arc<Identity>>,
    /// The enabled tokens, by name. S3 never looks a key up here.
    pub(super) tokens: HashMap<String, Arc<Bearer>>,
    policies: HashMap<String, Arc<Policy>>,
}

impl Tables {
    /// Returns the policy of this name: one of the volume, or a built-in one.
    fn policy(&self, name: &str) -> Option<Arc<Policy>> {
        self.policies.get(name).cloned().or_else(|| Policy::canned(name).map(Arc::new))
    }
}

/// Users and groups by name, during the replacement of a snapshot.
struct Named<'a> {
    users: HashMap<&'a str, &'a User>,
    groups: HashMap<&'a str, &'a Group>,
}

/// All accounts, access keys, groups and policies, as of the last [`Access::replace`].
#[derive(Debug)]
pub struct Access {
    root: Arc<Identity>,
    master: MasterKey,
    known: RwLock<Arc<Tables>>,
    /// The records from which `known` was made. If they have not changed, no secret is decrypted
    /// again.
    seen: Mutex<AccessRecords>,
    web_roles: RwLock<Arc<[WebRole]>>,
    /// Held while the records are read from the volume and replaced here.
    pub(crate) reading: tokio::sync::Mutex<()>,
}

impl Access {
    /// Creates a snapshot with the operator's key alone. [`Access::replace`] adds the records.
    pub fn new(root: Identity, master: MasterKey) -> Access {
        let (known, seen) = (RwLock::default(), Mutex::default());
        Access {
            root: Arc::new(root),
            master,
            known,
            seen,
            web_roles: RwLock::default(),
            reading: tokio::sync::Mutex::new(()),
        }
    }

    /// Adds the roles of the configuration for web identities, that is, for users of OpenID
    /// issuers.
    #[must_use]
    pub fn with_web_roles(self, web_roles: Vec<WebRole>) -> Access {
        Access { web_roles: RwLock::new(web_roles.into()), ..self }
    }

    /// Replaces the roles for web identities. Sessions of a role that is missing or that no longer
    /// admits their user end with the next request.
    pub fn replace_web_roles(&self, web_roles: Vec<WebRole>) {
        *self.web_roles.write().unwrap_or_else(PoisonError::into_inner) = web_roles.into();
    }

    /// Returns the roles for web identities, in the order of the configuration.
    pub(crate) fn web_roles(&self) -> Arc<[WebRole]> {
        Arc::clone(&self.web_roles.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces all accounts, users, groups and policies. Returns the unusable records, but only if
    /// the records have changed, so that each problem is logged once.
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
        let named = Named {
            users: records.users.iter().map(|(name, user)| (name.as_str(), user)).collect(),
            groups: records.groups.iter().map(|(name, group)| (name.as_str(), group)).collect(),
        };
        let earlier = self.known();
        for (access_key, user) in records.users.iter().filter(|(_, user)| user.enabled) {
            // Policies and logs could not distinguish such a user, or its keys, from the operator.
            let name = user.parent.as_ref().unwrap_or(access_key);
            if self.is_root_key(name) || self.is_root_key(access_key) {
                let why = format!("access key {access_key:?}: its user has the operator's name");
                unusable.push(Unusable(why));
                continue;
            }
            let identity = match self.identity(access_key, user, &named, &tables) {
                Ok(Some(identity)) => identity,
                // Its user is disabled.
                Ok(None) => continue,
                Err(problem) => {
                    unusable.push(problem);
                    continue;
                }
            };
            match &user.kind {
                UserKind::Key => {
                    let earlier = earlier.users.get(access_key).map(|known| &**known);
                    let identity = identity.with_use_of(earlier);
                    tables.users.insert(access_key.clone(), Arc::new(identity));
                }
                UserKind::Token { actions } => {
                    let earlier = earlier.tokens.get(access_key).map(|known| &*known.identity);
                    match Bearer::new(identity.with_use_of(earlier), actions) {
                        Ok(bearer) => {
                            tables.tokens.insert(access_key.clone(), Arc::new(bearer));
                        }
                        Err(why) => {
                            unusable.push(Unusable(format!("token {access_key:?}: {why}")));
                        }
                    }
                }
            }
        }
        // All tables are replaced in one step. A lookup that is running keeps the old tables, so it
        // sees either all old records or all new ones.
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(tables);
        *seen = records;
        unusable
    }

    /// Returns the identity of an access key or token; `None` if its user is disabled. If one of
    /// the policies of the user or its groups is unusable, the access key is unusable too, because
    /// this policy may deny actions that others allow.
    fn identity(
        &self,
        access_key: &str,
        record: &User,
        named: &Named<'_>,
        known: &Tables,
    ) -> Result<Option<Identity>, Unusable> {
        let problem = |what: String| Unusable(format!("access key {access_key:?}: {what}"));
        let secret = self.master.open(access_key, &record.sealed_secret);
        let secret = secret.map_err(|error| problem(error.to_string()))?;
        let expires = record.expires.map(rules::time);
        let last_use = Some(Arc::new(KeyUse::default()));
        let signing_key = access_key.to_owned();
        let of_operator = record.parent.is_none() && record.kind != UserKind::Key;
        if of_operator {
            // It acts for the operator, within its actions.
            let root = Identity::root(self.root.access_key.clone(), secret);
            return Ok(Some(Identity { signing_key, expires, last_use, ..root }));
        }
        let (name, user) = match &record.parent {
            None => (access_key, record),
            Some(parent) => match named.users.get(parent.as_str()) {
                Some(user) if user.is_user() => (parent.as_str(), *user),
                Some(_) | None => return Err(problem(format!("no user {parent:?}"))),
            },
        };
        if !user.enabled {
            return Ok(None);
        }
        let policies = policies_of(user, named, known).map_err(problem)?;
        let User { account, uid, gid, umask, .. } = *user;
        Ok(Some(Identity {
            access_key: name.to_owned(),
            signing_key,
            secret,
            account,
            uid,
            gid,
            umask,
            root: false,
            policies,
            session: None,
            expires,
            last_use,
        }))
    }

    pub(super) fn known(&self) -> Arc<Tables> {
        Arc::clone(&self.known.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the identity with an access key of S3; `None` if the key is unknown, disabled, or
    /// expired at this time.
    pub fn lookup(&self, access_key: &str, now: OffsetDateTime) -> Option<Arc<Identity>> {
        // The time is checked here and not in `replace`: a key ends at its time, also if no record
        // changes then.
        self.usable(access_key).filter(|identity| identity.is_current(now))
    }

    /// Returns the identity with an access key of S3, which may have expired; `None` if the key is
    /// unknown or disabled.
    pub(super) fn usable(&self, access_key: &str) -> Option<Arc<Identity>> {
        // The operator's key comes first, so a user record cannot take its place.
        if access_key == self.root.access_key {
            return Some(Arc::clone(&self.root));
        }
        self.known().users.get(access_key).cloned()
    }

    /// Returns the access keys and tokens with a use that is not written yet, and its time.
    pub(super) fn unwritten_uses(&self) -> Vec<(Arc<Identity>, i64)> {
        let known = self.known();
        let tokens = known.tokens.values().map(|bearer| &bearer.identity);
        let all = known.users.values().chain(tokens);
        let unwritten = all.filter_map(|identity| {
            let at = identity.last_use.as_ref()?.unwritten()?;
            Some((Arc::clone(identity), at))
        });
        unwritten.collect()
    }

    /// Returns true if a web role has this name, which no user may have: policies could not
    /// distinguish the sessions of the role from those of the user.
    pub fn is_web_role(&self, name: &str) -> bool {
        self.web_roles().iter().any(|role| role.name == name)
    }

    /// Returns the policies of each web role that gives this policy to all its sessions, by the
    /// name of the role. Policies that tokens of an issuer name are not known.
    pub fn web_holders(&self, policy: &str) -> Vec<(String, Vec<String>)> {
        let roles = self.web_roles();
        let has = |role: &&WebRole| role.policies.iter().any(|name| name == policy);
        roles.iter().filter(has).map(|role| (role.name.clone(), role.policies.clone())).collect()
    }

    /// Returns true if the tokens of an issuer can name policies, so that any policy can be in
    /// force for a web identity.
    pub fn has_claimed_policies(&self) -> bool {
        self.web_roles().iter().any(|role| role.policy_claim.is_some())
    }

    /// Returns true if this is the name of the operator's own key, which no user may have.
    pub fn is_root_key(&self, name: &str) -> bool {
        self.root.access_key == name
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
            // A bucket policy that names a session gives it rights beyond its session policy. A
            // token must never get such rights, and anyone can give it the name of a session.
            session: identity.session.as_ref().filter(|session| !session.of_token).map(|session| {
                RoleSession { role: session.role.clone(), name: session.name.clone() }
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
            // The principal of a further key is its user.
            let identity = self.usable(access_key).filter(|known| known.access_key == access_key);
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
            PrincipalName::Service(_) => true,
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

    /// Returns true if these bytes are this secret, sealed for this access key.
    pub fn is_sealed(&self, access_key: &str, secret: &str, sealed: &[u8]) -> bool {
        self.master.is_sealed(access_key, secret, sealed)
    }
}

/// Returns the policies of a user and of its enabled groups, each once. Fails with a sentence about
/// the first one that is missing or unusable.
fn policies_of(
    user: &User,
    records: &Named<'_>,
    known: &Tables,
) -> Result<Vec<Arc<Policy>>, String> {
    let mut names: Vec<&String> = user.policies.iter().collect();
    for group in &user.groups {
        let found = records.groups.get(group.as_str());
        let found = found.ok_or_else(|| format!("no usable group {group:?}"))?;
        if found.enabled {
            names.extend(&found.policies);
        }
    }
    names.sort_unstable();
    names.dedup();
    let policy =
        |name: &String| known.policy(name).ok_or_else(|| format!("no usable policy {name:?}"));
    names.into_iter().map(policy).collect()
}

/// Returns the canonical id of an account as text. A removed account has its number instead.
fn canonical_text(known: &Tables, account: AccountId) -> String {
    match known.accounts.get(&account) {
        Some(known) => known.canonical_id.to_string(),
        None if account == AccountId::ANONYMOUS => ANONYMOUS_ID.to_owned(),
        None => format!("{:064}", account.0),
    }
}
