//! The policies that a plan gives to a user or a group: new users, and new policies of users.
//!
//! The invariant: a plan that gives a policy guards its record. If the caller has read the policy
//! before, the guard has the bytes that it read; else only their presence. For example, an operator
//! without all rights may give a policy after a check of its document, and a document that replaces
//! it meanwhile, with more rights, refuses the plan.

use std::collections::BTreeSet;

use record::{AccountId, User, key};
use store::{Guard, Key, Plan, Value, Write};

use crate::Halt;
use crate::access::{AccessError, Expected, IsBuiltIn, Stop, step, user_for};
use crate::run::{Env, Planner, Step};
use crate::stage::account_is_there;
use crate::view::View;

/// A policy with the version of its record that the caller has seen.
#[derive(Clone, Debug)]
pub struct SeenPolicy {
    /// The name of the policy.
    pub name: String,
    /// The version of its record.
    pub version: Expected,
}

/// Creates an access key. Fails with `UserExists` if there is one of its name, with `NoSuchAccount`
/// or `NoSuchPolicy` if its account or one of its policies does not exist; and with
/// `PolicyChanged`.
#[derive(Clone, Copy, Debug)]
pub struct AddUser<'a> {
    /// The name of the new access key.
    pub access_key: &'a str,
    /// The record of the new access key: account, secret, policies and the owner of its files.
    pub user: &'a User,
    /// The test for names of built-in policies, which need no record.
    pub built_in: IsBuiltIn,
    /// The versions of its policies that the caller has seen. Any version of the others is given.
    pub seen: &'a [SeenPolicy],
}

impl Planner for AddUser<'_> {
    type Output = Result<(), AccessError>;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<Self::Output>, Halt> {
        let at = key::user(self.access_key);
        let named = (&*self.user.policies, self.built_in, self.seen);
        let given = with_policies(view, &at, named)?;
        let account = self.user.account;
        if account != AccountId::MAIN && view.record(&key::account(account))?.is_none() {
            return Ok(Step::Done(Err(AccessError::NoSuchAccount(account))));
        }
        if given.record.is_some() {
            return Ok(Step::Done(Err(AccessError::UserExists)));
        }
        let policies = match given.policies {
            Ok(policies) => policies,
            Err(refused) => return Ok(Step::Done(Err(refused))),
        };
        // A policy or account that is removed at the same time refuses this plan.
        let mut guards: Vec<Guard> =
            [Guard::Absent(at.clone())].into_iter().chain(policies).collect();
        guards.extend(account_is_there(account));
        let writes = vec![Write::Put(at.clone(), self.user.encode(&at))];
        Ok(Step::Commit(Plan { guards, writes }, Ok(())))
    }
}

/// Sets the policies of a user. Fails with `NoSuchUser`, `NotUser`, `Changed` and `PolicyChanged`,
/// and with `NoSuchPolicy` if one of the policies does not exist.
#[derive(Clone, Copy, Debug)]
pub struct SetUserPolicies<'a> {
    /// The name of the access key to change.
    pub access_key: &'a str,
    /// The names of the new policies, which replace all earlier ones.
    pub policies: &'a [String],
    /// The test for names of built-in policies, which need no record.
    pub built_in: IsBuiltIn,
    /// The versions of the policies that the caller has seen. Any version of the others is given.
    pub seen: &'a [SeenPolicy],
    /// The version of the record that the caller has seen; `None` for any.
    pub expected: Option<Expected>,
}

impl Planner for SetUserPolicies<'_> {
    type Output = Result<(), AccessError>;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<Self::Output>, Halt> {
        step(self.planned(view).map(|plan| (plan, ())))
    }
}

impl SetUserPolicies<'_> {
    fn planned(&self, view: &mut View<'_>) -> Result<Plan, Stop> {
        let at = key::user(self.access_key);
        let given = with_policies(view, &at, (self.policies, self.built_in, self.seen))?;
        let value = given.record.ok_or(AccessError::NoSuchUser)?;
        let user = user_for(&at, &value, self.expected)?;
        let policies = given.policies?;
        let user = User { policies: self.policies.to_vec(), ..user };
        let guards = [Guard::Equals(at.clone(), value)].into_iter().chain(policies).collect();
        let writes = vec![Write::Put(at.clone(), user.encode(&at))];
        Ok(Plan { guards, writes })
    }
}

/// A user or group, and the policies that it gets.
pub(crate) struct Given {
    /// The record of the user or group, if it exists.
    pub(crate) record: Option<Value>,
    /// The guards of the policies that have records, or the error for the first one that is missing
    /// or that the caller has seen with another document.
    pub(crate) policies: Result<Vec<Guard>, AccessError>,
}

/// Reads a user or group and its new policies, in one round trip. `seen` has the versions of
/// policies that the caller has read.
pub(crate) fn with_policies(
    view: &mut View<'_>,
    record: &Key,
    (policies, built_in, seen): (&[String], IsBuiltIn, &[SeenPolicy]),
) -> Result<Given, Halt> {
    let mut guarded = BTreeSet::new();
    // A policy that is named twice must have one guard only.
    let named: Vec<&String> = policies
        .iter()
        .filter(|name| !built_in(name.as_str()) && guarded.insert(name.as_str()))
        .collect();
    let own = [record.clone()].into_iter();
    let keys: Vec<Key> = own.chain(named.iter().map(|name| key::policy(name))).collect();
    let mut found = view.many(&keys)?.into_iter();
    let record = found.next().flatten();
    let with_keys = named.into_iter().zip(found).zip(keys.into_iter().skip(1));
    let policies = with_keys.map(|((name, found), at)| policy_guard(name, found, at, seen));
    Ok(Given { record, policies: policies.collect() })
}

/// Returns the guard of a policy that a user or a group gets. Fails with `NoSuchPolicy`, and with
/// `PolicyChanged` if the caller has seen another version.
fn policy_guard(
    name: &str,
    found: Option<Value>,
    at: Key,
    seen: &[SeenPolicy],
) -> Result<Guard, AccessError> {
    let found = found.ok_or_else(|| AccessError::NoSuchPolicy(name.to_owned()))?;
    match seen.iter().find(|seen| seen.name == name) {
        Some(SeenPolicy { version, .. }) => match Expected::check(Some(*version), &found) {
            // Not only the presence: the policy could be replaced before the commit.
            Ok(()) => Ok(Guard::Equals(at, found)),
            Err(_changed) => Err(AccessError::PolicyChanged(name.to_owned())),
        },
        None => Ok(Guard::Present(at)),
    }
}
