//! Users and policies: records by name.
//!
//! A user is an access key that names policies, which decide about its requests. The invariant:
//! every policy that a user or a group names exists (for an exception in very large volumes see
//! [`RemovePolicy`]). A plan that gives a policy to a user guards the record of the policy, and a
//! plan that removes a policy guards that no user and no group has it. Built-in policies have no
//! record; the caller knows their names. A caller that has read a policy before it gives it, for
//! example to compare its actions with those of an operator, names the record that it has seen: the
//! plan guards these bytes, so no other document takes its place meanwhile.
//!
//! The reason why a change is refused is a part of its answer, with the names that it concerns, so
//! it comes from one snapshot like any answer. For example, `RemovePolicy` returns the access keys
//! that have the policy.

use record::{AccountId, Group, PolicyRecord, User, key};
use store::{Entry, Guard, Key, Limits, Plan, Space, Value, Write};

use crate::Halt;
use crate::run::{Env, Planner, Step};
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
    /// The policy is not removed, because these groups have it. They are sorted.
    #[error("groups have the policy: {}", .0.join(", "))]
    PolicyOfGroups(Vec<String>),
    /// The access key is a further key or a token of this user, or a token of the operator, and the
    /// change is for users only.
    #[error("it is a further key or a token{}", of(.0.as_deref()))]
    NotUser(Option<String>),
    /// The access key is that of a user, and the change is for further keys and tokens only.
    #[error("it is the access key of a user")]
    IsUser,
    /// There is no group of this name.
    #[error("no such group")]
    NoSuchGroup,
    /// There is no user of this name that the group could have as a member.
    #[error("no such user: {0:?}")]
    NoSuchMember(String),
    /// The group is not removed, because these users are members. They are sorted.
    #[error("users are members of the group: {}", .0.join(", "))]
    GroupHasMembers(Vec<String>),
    /// The change would exceed a limit.
    #[error("the limit of {0} is {1}")]
    TooMany(&'static str, usize),
    /// The record is not the one that the caller has seen.
    #[error("the record has changed")]
    Changed,
    /// The record of this policy, which the change gives or replaces, is not the one that the
    /// caller has seen.
    #[error("the policy {0:?} has changed")]
    PolicyChanged(String),
}

/// Returns ` of NAME` for an error text, or nothing without a name.
fn of(parent: Option<&str>) -> String {
    parent.map_or_else(String::new, |parent| format!(" of {parent:?}"))
}

/// The hash of a record's bytes.
pub type RecordHash = [u8; 16];

/// The version of a record that the caller has seen. A change of another version is refused.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    /// The hash of the record that the caller has seen.
    pub seen: RecordHash,
    /// The hash function, which must be pure.
    pub hash: fn(&[u8]) -> RecordHash,
}

impl Expected {
    /// Fails with `Changed` if the bytes in the store are not those that the caller has seen.
    pub(crate) fn check(expected: Option<Expected>, found: &Value) -> Result<(), AccessError> {
        match expected {
            Some(Expected { seen, hash }) if hash(found) != seen => Err(AccessError::Changed),
            Some(_) | None => Ok(()),
        }
    }
}

/// The reason why a pass ends without a plan: the driver must read records, or the operation is
/// refused.
pub(crate) enum Stop {
    Halt(Halt),
    Refused(AccessError),
}

impl From<Halt> for Stop {
    fn from(halt: Halt) -> Stop {
        Stop::Halt(halt)
    }
}

impl From<AccessError> for Stop {
    fn from(error: AccessError) -> Stop {
        Stop::Refused(error)
    }
}

/// Returns the step of a planner whose plan is committed, or refused with an error.
pub(crate) fn step<T>(
    planned: Result<(Plan, T), Stop>,
) -> Result<Step<Result<T, AccessError>>, Halt> {
    match planned {
        Ok((plan, output)) => Ok(Step::Commit(plan, Ok(output))),
        Err(Stop::Refused(error)) => Ok(Step::Done(Err(error))),
        Err(Stop::Halt(halt)) => Err(halt),
    }
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

/// Finds a user, a further key or a token. Fails with `NoSuchUser`.
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

/// Decodes a user that the caller may change. Fails with `Changed`, and with `NotUser` if it is a
/// further key or a token.
pub(crate) fn user_for(at: &Key, value: &Value, expected: Option<Expected>) -> Result<User, Stop> {
    Expected::check(expected, value)?;
    let user = decode(at, value, User::decode)?;
    if user.is_user() { Ok(user) } else { Err(AccessError::NotUser(user.parent).into()) }
}

/// Sets the owner and umask of files that this access key creates. A field that is `None` does not
/// change. Fails with `NoSuchUser`, `NotUser` and `Changed`.
#[derive(Clone, Copy, Debug)]
pub struct SetUserOwner<'a> {
    /// The name of the user to change.
    pub access_key: &'a str,
    /// The user id that new files of the user get; `None` leaves it as it is.
    pub uid: Option<u32>,
    /// The group id that new files of the user get; `None` leaves it as it is.
    pub gid: Option<u32>,
    /// Permission bits that new files and directories of the user do not get; `None` leaves them as
    /// they are.
    pub umask: Option<u32>,
    /// The version of the record that the caller has seen; `None` for any.
    pub expected: Option<Expected>,
}

impl Planner for SetUserOwner<'_> {
    type Output = Result<(), AccessError>;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<Self::Output>, Halt> {
        let changed = change_user(view, self.access_key, self.expected, |user| {
            user.uid = self.uid.unwrap_or(user.uid);
            user.gid = self.gid.unwrap_or(user.gid);
            user.umask = self.umask.unwrap_or(user.umask);
        });
        step(changed.map(|plan| (plan, ())))
    }
}

/// Enables or disables a user with its further keys and tokens. Fails with `NoSuchUser`, `NotUser`
/// and `Changed`.
#[derive(Clone, Copy, Debug)]
pub struct SetUserEnabled<'a> {
    /// The name of the user to change.
    pub access_key: &'a str,
    /// True if clients may use the keys of the user.
    pub enabled: bool,
    /// The version of the record that the caller has seen; `None` for any.
    pub expected: Option<Expected>,
}

impl Planner for SetUserEnabled<'_> {
    type Output = Result<(), AccessError>;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<Self::Output>, Halt> {
        let changed = change_user(view, self.access_key, self.expected, |user| {
            user.enabled = self.enabled;
        });
        step(changed.map(|plan| (plan, ())))
    }
}

/// Replaces the sealed secret of a user's own access key. Fails with `NoSuchUser`, `NotUser` and
/// `Changed`.
#[derive(Clone, Copy, Debug)]
pub struct SetUserSecret<'a> {
    /// The name of the user to change.
    pub access_key: &'a str,
    /// The new secret, sealed for this access key.
    pub sealed_secret: &'a [u8],
    /// The version of the record that the caller has seen; `None` for any.
    pub expected: Option<Expected>,
}

impl Planner for SetUserSecret<'_> {
    type Output = Result<(), AccessError>;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<Self::Output>, Halt> {
        let changed = change_user(view, self.access_key, self.expected, |user| {
            user.sealed_secret = self.sealed_secret.to_vec();
        });
        step(changed.map(|plan| (plan, ())))
    }
}

/// Returns the plan that changes fields of a user.
fn change_user(
    view: &mut View<'_>,
    access_key: &str,
    expected: Option<Expected>,
    change: impl FnOnce(&mut User),
) -> Result<Plan, Stop> {
    let at = key::user(access_key);
    let value = view.record(&at)?.ok_or(AccessError::NoSuchUser)?;
    let mut user = user_for(&at, &value, expected)?;
    change(&mut user);
    let writes = vec![Write::Put(at.clone(), user.encode(&at))];
    Ok(Plan { guards: vec![Guard::Equals(at, value)], writes })
}

/// Creates or replaces a named policy. Fails with `Changed` if another version is expected, with
/// `PolicyChanged` if none is expected and there is one, and with `NoSuchPolicy` if a version is
/// expected and there is no policy.
#[derive(Clone, Copy, Debug)]
pub struct SetPolicy<'a> {
    /// The name of the policy to create or replace.
    pub name: &'a str,
    /// The policy document.
    pub policy: &'a PolicyRecord,
    /// The state of the policy that the change expects.
    pub expected: ExpectedPolicy,
}

/// The state of a policy that a [`SetPolicy`] expects.
#[derive(Clone, Copy, Debug)]
pub enum ExpectedPolicy {
    /// Any policy of this name, or none.
    Any,
    /// There is no policy of this name.
    Absent,
    /// The policy with this version of its record.
    Version(Expected),
}

impl Planner for SetPolicy<'_> {
    /// True if there was a policy of this name before.
    type Output = Result<bool, AccessError>;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<Self::Output>, Halt> {
        step(self.planned(view))
    }
}

impl SetPolicy<'_> {
    fn planned(&self, view: &mut View<'_>) -> Result<(Plan, bool), Stop> {
        let at = key::policy(self.name);
        let found = view.record(&at)?;
        let existed = found.is_some();
        let guard = match (found, self.expected) {
            (Some(value), ExpectedPolicy::Any) => Guard::Equals(at.clone(), value),
            (Some(_), ExpectedPolicy::Absent) => {
                return Err(AccessError::PolicyChanged(self.name.to_owned()).into());
            }
            (Some(value), ExpectedPolicy::Version(expected)) => {
                Expected::check(Some(expected), &value)?;
                Guard::Equals(at.clone(), value)
            }
            (None, ExpectedPolicy::Any | ExpectedPolicy::Absent) => Guard::Absent(at.clone()),
            (None, ExpectedPolicy::Version(_)) => {
                return Err(AccessError::NoSuchPolicy(self.name.to_owned()).into());
            }
        };
        let writes = vec![Write::Put(at.clone(), self.policy.encode(&at))];
        Ok((Plan { guards: vec![guard], writes }, existed))
    }
}

/// Removes a named policy. Fails with `NoSuchPolicy` if it does not exist, with `Changed`, and with
/// `PolicyInUse` or `PolicyOfGroups` if users or groups have it. In a volume with very many users
/// and groups, one that gets the policy at the same moment may keep the name of the removed policy.
/// Then it allows nothing.
#[derive(Clone, Copy, Debug)]
pub struct RemovePolicy<'a> {
    /// The name of the policy to remove.
    pub name: &'a str,
    /// The version of the record that the caller has seen; `None` for any.
    pub expected: Option<Expected>,
}

impl Planner for RemovePolicy<'_> {
    type Output = Result<(), AccessError>;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<Self::Output>, Halt> {
        step(self.planned(view).map(|plan| (plan, ())))
    }
}

impl RemovePolicy<'_> {
    fn planned(&self, view: &mut View<'_>) -> Result<Plan, Stop> {
        let at = key::policy(self.name);
        let missing = || AccessError::NoSuchPolicy(self.name.to_owned());
        let value = view.record(&at)?.ok_or_else(missing)?;
        Expected::check(self.expected, &value)?;
        let has = |policies: &[String]| policies.iter().any(|policy| policy == self.name);
        // Both lists ask before the first one stops the pass, so that they share the round trip.
        let (users, groups) = (entries(view, key::space::USER), group_entries(view));
        let (users, groups) = (users?, groups?);
        let mut users_of_policy = Vec::new();
        for entry in &users {
            if has(&decode(&entry.key, &entry.value, User::decode)?.policies) {
                users_of_policy.push(name(&entry.key));
            }
        }
        if !users_of_policy.is_empty() {
            return Err(AccessError::PolicyInUse(users_of_policy).into());
        }
        let mut groups_of_policy = Vec::new();
        for entry in &groups {
            if has(&decode(&entry.key, &entry.value, Group::decode)?.policies) {
                groups_of_policy.push(name(&entry.key));
            }
        }
        if !groups_of_policy.is_empty() {
            return Err(AccessError::PolicyOfGroups(groups_of_policy).into());
        }
        let own = vec![Guard::Equals(at.clone(), value)];
        let mut plan = Plan { guards: own.clone(), writes: vec![Write::Delete(at)] };
        plan.guards.extend(as_seen(key::partition(key::space::USER, 0), &users));
        plan.guards.extend(as_seen(key::partition(key::space::USER, key::GROUPS), &groups));
        // A store limits the size of a plan. If there are too many guards, only the policy itself
        // is guarded. Then a user that gets the policy at the same moment names a policy that does
        // not exist, which allows nothing.
        let limits = Limits::LEAST;
        if plan.items() > limits.plan_items / 2 || plan.bytes() > limits.plan_bytes / 2 {
            plan.guards = own;
        }
        Ok(plan)
    }
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
    named(entries(view, space)?, read)
}

/// Decodes records, and returns each with its name.
pub(crate) fn named<T>(
    entries: Vec<Entry>,
    read: impl Fn(&Key, &Value) -> Result<T, record::DecodeError>,
) -> Result<Vec<(String, T)>, Halt> {
    let named = |entry: Entry| Ok((name(&entry.key), decode(&entry.key, &entry.value, &read)?));
    entries.into_iter().map(named).collect()
}

/// Reads the records of all groups, sorted.
pub(crate) fn group_entries(view: &mut View<'_>) -> Result<Vec<Entry>, Halt> {
    all(view, key::partition(key::space::USER, key::GROUPS))
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
