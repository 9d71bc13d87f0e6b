//! Access keys and policies: records by name.
//!
//! An access key names policies, which decide about its requests. The invariant: every policy that
//! an access key names exists (for an exception in very large volumes see [`RemovePolicy`]). A plan
//! that gives a policy to an access key guards the record of the policy, and a plan that removes a
//! policy guards that no access key has it. Built-in policies have no record; the caller knows
//! their names.
//!
//! The reason why a change is refused is a part of its answer, with the names that it concerns, so
//! it comes from one snapshot like any answer. For example, `RemovePolicy` returns the access keys
//! that have the policy.

use std::collections::BTreeSet;

use record::{AccountId, PolicyRecord, User, key};
use store::{Entry, Guard, Key, Limits, Plan, Space, Value, Write};

use crate::Halt;
use crate::run::{Env, Planner, Step};
use crate::stage::account_is_there;
use crate::view::{View, decode};

/// The most access keys or policies of one range read.
const PAGE_RECORDS: u32 = 10_000;

const _: () = assert!(PAGE_RECORDS <= Limits::LEAST.range_records);

/// The reason why an access key, policy or account is not found or not changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum AccessError {
    /// There is an access key of this name.
    #[error("the access key exists")]
    UserExists,
    /// There is no access key of this name.
    #[error("no such access key")]
    NoSuchUser,
    /// There is no record of a policy of this name, and the name is not that of a built-in policy.
    #[error("no such policy: {0:?}")]
    NoSuchPolicy(String),
    /// There is no account of this number.
    #[error("no such account: {0}")]
    NoSuchAccount(AccountId),
    /// There is an account of this name or number, so the account is not created.
    #[error("the account exists")]
    AccountExists,
    /// The account is not removed, because these access keys belong to it. They are sorted.
    #[error("access keys belong to the account: {}", .0.join(", "))]
    AccountHasUsers(Vec<String>),
    /// The account is not removed, because these buckets belong to it. They are sorted.
    #[error("buckets belong to the account: {}", .0.join(", "))]
    AccountHasBuckets(Vec<String>),
    /// The policy is not removed, because these access keys have it. They are sorted.
    #[error("access keys have the policy: {}", .0.join(", "))]
    PolicyInUse(Vec<String>),
}

/// Returns true if a policy of this name is built in. Such a policy has no record, so plans do not
/// guard it.
pub type IsBuiltIn = fn(&str) -> bool;

/// Lists the access keys of a volume, sorted.
#[derive(Clone, Copy, Debug)]
pub struct ListUsers;

impl Planner for ListUsers {
    type Output = Vec<(String, User)>;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<Self::Output>, Halt> {
        users(view).map(Step::Done)
    }
}

/// Reads all access keys, sorted.
pub(crate) fn users(view: &mut View<'_>) -> Result<Vec<(String, User)>, Halt> {
    list(view, key::space::USER, User::decode)
}

/// Lists the named policies of a volume, sorted.
#[derive(Clone, Copy, Debug)]
pub struct ListPolicies;

impl Planner for ListPolicies {
    type Output = Vec<(String, PolicyRecord)>;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<Self::Output>, Halt> {
        policies(view).map(Step::Done)
    }
}

/// Reads all named policies, sorted.
pub(crate) fn policies(view: &mut View<'_>) -> Result<Vec<(String, PolicyRecord)>, Halt> {
    list(view, key::space::POLICY, PolicyRecord::decode)
}

/// Finds an access key. Fails with `NoSuchUser`.
#[derive(Clone, Copy, Debug)]
pub struct FindUser<'a> {
    /// The name of the access key to find.
    pub access_key: &'a str,
}

impl Planner for FindUser<'_> {
    type Output = Result<User, AccessError>;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<Self::Output>, Halt> {
        let at = key::user(self.access_key);
        let Some(value) = view.record(&at)? else {
            return Ok(Step::Done(Err(AccessError::NoSuchUser)));
        };
        Ok(Step::Done(Ok(decode(&at, &value, User::decode)?)))
    }
}

/// Finds a named policy. Fails with `NoSuchPolicy`.
#[derive(Clone, Copy, Debug)]
pub struct FindPolicy<'a> {
    /// The name of the policy to find.
    pub name: &'a str,
}

impl Planner for FindPolicy<'_> {
    type Output = Result<PolicyRecord, AccessError>;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<Self::Output>, Halt> {
        let at = key::policy(self.name);
        let Some(value) = view.record(&at)? else {
            return Ok(Step::Done(Err(AccessError::NoSuchPolicy(self.name.to_owned()))));
        };
        Ok(Step::Done(Ok(decode(&at, &value, PolicyRecord::decode)?)))
    }
}

/// Creates an access key. Fails with `UserExists` if there is one of its name, and with
/// `NoSuchAccount` or `NoSuchPolicy` if its account or one of its policies does not exist.
#[derive(Clone, Copy, Debug)]
pub struct AddUser<'a> {
    /// The name of the new access key.
    pub access_key: &'a str,
    /// The record of the new access key: account, secret, policies and the owner of its files.
    pub user: &'a User,
    /// The test for names of built-in policies, which need no record.
    pub built_in: IsBuiltIn,
}

impl Planner for AddUser<'_> {
    type Output = Result<(), AccessError>;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<Self::Output>, Halt> {
        let at = key::user(self.access_key);
        let given = with_policies(view, &at, &self.user.policies, self.built_in)?;
        let account = self.user.account;
        if account != AccountId::MAIN && view.record(&key::account(account))?.is_none() {
            return Ok(Step::Done(Err(AccessError::NoSuchAccount(account))));
        }
        if given.user.is_some() {
            return Ok(Step::Done(Err(AccessError::UserExists)));
        }
        let policies = match given.policies {
            Ok(policies) => policies,
            Err(missing) => return Ok(Step::Done(Err(missing))),
        };
        // A policy or account that is removed at the same time refuses this plan.
        let mut guards: Vec<Guard> =
            [Guard::Absent(at.clone())].into_iter().chain(policies).collect();
        guards.extend(account_is_there(account));
        let writes = vec![Write::Put(at.clone(), self.user.encode(&at))];
        Ok(Step::Commit(Plan { guards, writes }, Ok(())))
    }
}

/// Sets the policies of an access key. Fails with `NoSuchUser`, and with `NoSuchPolicy` if one of
/// the policies does not exist.
#[derive(Clone, Copy, Debug)]
pub struct SetUserPolicies<'a> {
    /// The name of the access key to change.
    pub access_key: &'a str,
    /// The names of the new policies, which replace all earlier ones.
    pub policies: &'a [String],
    /// The test for names of built-in policies, which need no record.
    pub built_in: IsBuiltIn,
}

impl Planner for SetUserPolicies<'_> {
    type Output = Result<(), AccessError>;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<Self::Output>, Halt> {
        let at = key::user(self.access_key);
        let given = with_policies(view, &at, self.policies, self.built_in)?;
        let Some(value) = given.user else { return Ok(Step::Done(Err(AccessError::NoSuchUser))) };
        let policies = match given.policies {
            Ok(policies) => policies,
            Err(missing) => return Ok(Step::Done(Err(missing))),
        };
        let user = User { policies: self.policies.to_vec(), ..decode(&at, &value, User::decode)? };
        let guards = [Guard::Equals(at.clone(), value)].into_iter().chain(policies).collect();
        let writes = vec![Write::Put(at.clone(), user.encode(&at))];
        Ok(Step::Commit(Plan { guards, writes }, Ok(())))
    }
}

/// Sets the owner and umask of files that this access key creates. A field that is `None` does not
/// change. Fails with `NoSuchUser`.
#[derive(Clone, Copy, Debug)]
pub struct SetUserOwner<'a> {
    /// The name of the access key to change.
    pub access_key: &'a str,
    /// The user id that new files of the access key get; `None` leaves it as it is.
    pub uid: Option<u32>,
    /// The group id that new files of the access key get; `None` leaves it as it is.
    pub gid: Option<u32>,
    /// Permission bits that new files and directories of the access key do not get; `None` leaves
    /// them as they are.
    pub umask: Option<u32>,
}

impl Planner for SetUserOwner<'_> {
    type Output = Result<(), AccessError>;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<Self::Output>, Halt> {
        let at = key::user(self.access_key);
        let Some(value) = view.record(&at)? else {
            return Ok(Step::Done(Err(AccessError::NoSuchUser)));
        };
        let mut user = decode(&at, &value, User::decode)?;
        user.uid = self.uid.unwrap_or(user.uid);
        user.gid = self.gid.unwrap_or(user.gid);
        user.umask = self.umask.unwrap_or(user.umask);
        let guards = vec![Guard::Equals(at.clone(), value)];
        let writes = vec![Write::Put(at.clone(), user.encode(&at))];
        Ok(Step::Commit(Plan { guards, writes }, Ok(())))
    }
}

/// Removes an access key. Fails with `NoSuchUser`.
#[derive(Clone, Copy, Debug)]
pub struct RemoveUser<'a> {
    /// The name of the access key to remove.
    pub access_key: &'a str,
}

impl Planner for RemoveUser<'_> {
    type Output = Result<(), AccessError>;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<Self::Output>, Halt> {
        let at = key::user(self.access_key);
        let Some(value) = view.record(&at)? else {
            return Ok(Step::Done(Err(AccessError::NoSuchUser)));
        };
        let (guards, writes) = (vec![Guard::Equals(at.clone(), value)], vec![Write::Delete(at)]);
        Ok(Step::Commit(Plan { guards, writes }, Ok(())))
    }
}

/// Creates or replaces a named policy.
#[derive(Clone, Copy, Debug)]
pub struct SetPolicy<'a> {
    /// The name of the policy to create or replace.
    pub name: &'a str,
    /// The policy document.
    pub policy: &'a PolicyRecord,
}

impl Planner for SetPolicy<'_> {
    /// True if there was a policy of this name before.
    type Output = bool;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<bool>, Halt> {
        let at = key::policy(self.name);
        let found = view.record(&at)?;
        let existed = found.is_some();
        let guard = match found {
            Some(value) => Guard::Equals(at.clone(), value),
            None => Guard::Absent(at.clone()),
        };
        let writes = vec![Write::Put(at.clone(), self.policy.encode(&at))];
        Ok(Step::Commit(Plan { guards: vec![guard], writes }, existed))
    }
}

/// Removes a named policy. Fails with `NoSuchPolicy` if it does not exist, and with `PolicyInUse`
/// if access keys have it. In a volume with very many access keys, one that gets the policy at the
/// same moment may keep the name of the removed policy, which then allows nothing.
#[derive(Clone, Copy, Debug)]
pub struct RemovePolicy<'a> {
    /// The name of the policy to remove.
    pub name: &'a str,
}

impl Planner for RemovePolicy<'_> {
    type Output = Result<(), AccessError>;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<Self::Output>, Halt> {
        let at = key::policy(self.name);
        let Some(value) = view.record(&at)? else {
            return Ok(Step::Done(Err(AccessError::NoSuchPolicy(self.name.to_owned()))));
        };
        let users = entries(view, key::space::USER)?;
        let mut users_of_policy = Vec::new();
        for entry in &users {
            let user = decode(&entry.key, &entry.value, User::decode)?;
            if user.policies.iter().any(|policy| policy == self.name) {
                users_of_policy.push(name(&entry.key));
            }
        }
        if !users_of_policy.is_empty() {
            return Ok(Step::Done(Err(AccessError::PolicyInUse(users_of_policy))));
        }
        let own = vec![Guard::Equals(at.clone(), value)];
        let mut plan = Plan { guards: own.clone(), writes: vec![Write::Delete(at)] };
        plan.guards.extend(as_seen(key::partition(key::space::USER, 0), &users));
        // A store limits the size of a plan. If there are too many guards, only the policy itself
        // is guarded. Then an access key that gets the policy at the same moment names a policy
        // that does not exist, which allows nothing.
        let limits = Limits::LEAST;
        if plan.items() > limits.plan_items / 2 || plan.bytes() > limits.plan_bytes / 2 {
            plan.guards = own;
        }
        Ok(Step::Commit(plan, Ok(())))
    }
}

/// An access key, and the policies that it gets.
struct Given {
    /// The record of the access key, if it exists.
    user: Option<Value>,
    /// The guards of the policies that have records, or the error for the first missing one.
    policies: Result<Vec<Guard>, AccessError>,
}

/// Reads an access key and its policies, in one round trip.
fn with_policies(
    view: &mut View<'_>,
    user: &Key,
    policies: &[String],
    built_in: IsBuiltIn,
) -> Result<Given, Halt> {
    let mut guarded = BTreeSet::new();
    // A policy that is named twice must have one guard only.
    let named: Vec<&String> = policies
        .iter()
        .filter(|name| !built_in(name.as_str()) && guarded.insert(name.as_str()))
        .collect();
    let own = [user.clone()].into_iter();
    let keys: Vec<Key> = own.chain(named.iter().map(|name| key::policy(name))).collect();
    let mut found = view.many(&keys)?.into_iter();
    let user = found.next().flatten();
    let missing = named.iter().zip(found).find(|(_, found)| found.is_none());
    let policies = match missing {
        Some((name, _)) => Err(AccessError::NoSuchPolicy((*name).clone())),
        None => Ok(keys.into_iter().skip(1).map(Guard::Present).collect()),
    };
    Ok(Given { user, policies })
}

/// The guards that the records of a range are unchanged and that there are no others.
///
/// Engines do not protect an empty range against a concurrent insertion by themselves. Here they
/// need not: a plan that gives a policy to an access key guards the record of the policy, and the
/// plan with these guards deletes that record, so one of the two is refused. The same holds for
/// accounts, access keys and buckets.
pub(crate) fn as_seen((mut start, end): (Key, Key), seen: &[Entry]) -> Vec<Guard> {
    let mut guards = Vec::with_capacity(2 * seen.len() + 1);
    for entry in seen {
        guards.push(Guard::Empty(start, entry.key.clone()));
        guards.push(Guard::Equals(entry.key.clone(), entry.value.clone()));
        start = key_after(&entry.key);
    }
    guards.push(Guard::Empty(start, end));
    guards
}

fn list<T>(
    view: &mut View<'_>,
    space: Space,
    read: impl Fn(&Key, &Value) -> Result<T, record::DecodeError>,
) -> Result<Vec<(String, T)>, Halt> {
    let named = |entry: Entry| Ok((name(&entry.key), decode(&entry.key, &entry.value, &read)?));
    entries(view, space)?.into_iter().map(named).collect()
}

/// Reads all records of a space (one kind of records, such as all access keys), sorted by key.
pub(crate) fn entries(view: &mut View<'_>, space: Space) -> Result<Vec<Entry>, Halt> {
    all(view, key::partition(space, 0))
}

/// Reads all records of a range, sorted. One round trip for each page of `PAGE_RECORDS`.
pub(crate) fn all(view: &mut View<'_>, (mut start, end): (Key, Key)) -> Result<Vec<Entry>, Halt> {
    let mut all = Vec::new();
    loop {
        let page = view.range(start, end.clone(), PAGE_RECORDS)?;
        let full = page.len() == PAGE_RECORDS as usize;
        all.extend(page);
        match all.last() {
            Some(last) if full => start = key_after(&last.key),
            _ => return Ok(all),
        }
    }
}

/// The first key that sorts after this one.
fn key_after(key: &Key) -> Key {
    Key::new(key.space(), key.partition(), &[key.suffix(), b"\0"].concat())
}

pub(crate) fn name(key: &Key) -> String {
    String::from_utf8_lossy(key.suffix()).into_owned()
}
