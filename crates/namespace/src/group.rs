//! Groups: named lists of users that have further policies together.
//!
//! The invariant: a user is a member of a group if the group lists the user and the user lists the
//! group. A plan that changes a membership changes and guards both records. The policies of a group
//! follow the rules of the policies of a user: see [`crate::SetUserPolicies`].
//!
//! For example, the removal of the user `anna`, who is in the group `lab`, writes `lab` without her
//! in the same plan.

use record::{Group, User, key};
use store::{Guard, Plan, Write};

use crate::Halt;
use crate::access::{AccessError, Expected, IsBuiltIn, Stop, group_entries, named, step};
use crate::given_policies::{SeenPolicy, with_policies};
use crate::run::{Env, Planner, Step};
use crate::view::{View, decode};

/// The limit of groups of a volume. Groups that are created at the same moment can exceed it.
pub const GROUPS_MAX: usize = 1_000;

/// The limit of members of a group.
pub const MEMBERS_PER_GROUP_MAX: usize = 1_000;

/// The limit of groups that one user is in.
pub const GROUPS_PER_USER_MAX: usize = 10;

/// The limit of members that one change adds or removes.
pub const MEMBERS_AT_ONCE_MAX: usize = 100;

/// Lists the groups of a volume, sorted.
#[derive(Clone, Copy, Debug)]
pub struct ListGroups;

impl Planner for ListGroups {
    type Output = Vec<(String, Group)>;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<Self::Output>, Halt> {
        groups(view).map(Step::Done)
    }
}

/// Reads all groups, sorted.
pub(crate) fn groups(view: &mut View<'_>) -> Result<Vec<(String, Group)>, Halt> {
    named(group_entries(view)?, Group::decode)
}

/// Finds a group. Fails with `NoSuchGroup`.
#[derive(Clone, Copy, Debug)]
pub struct FindGroup<'a> {
    /// The name of the group.
    pub name: &'a str,
}

impl Planner for FindGroup<'_> {
    type Output = Result<Group, AccessError>;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<Self::Output>, Halt> {
        let at = key::group(self.name);
        let Some(found) = view.record(&at)? else {
            return Ok(Step::Done(Err(AccessError::NoSuchGroup)));
        };
        Ok(Step::Done(Ok(decode(&at, &found, Group::decode)?)))
    }
}

/// Creates a group without members, or replaces the policies of a group and enables or disables it.
///
/// Fails with `NoSuchPolicy`, `Changed` and `PolicyChanged`, with `NoSuchGroup` if a version is
/// expected and there is no group, and with `TooMany`.
#[derive(Clone, Copy, Debug)]
pub struct PutGroup<'a> {
    /// The name of the group.
    pub name: &'a str,
    /// True if the members have the policies of the group; `None` leaves it as it is, and enables a
    /// new group.
    pub enabled: Option<bool>,
    /// The names of the new policies; `None` leaves them as they are.
    pub policies: Option<&'a [String]>,
    /// True if the group must exist.
    pub exists: bool,
    /// The test for names of built-in policies, which need no record.
    pub built_in: IsBuiltIn,
    /// The versions of the policies that the caller has seen. Any version of the others is given.
    pub seen: &'a [SeenPolicy],
    /// The version of the record that the caller has seen; `None` for any or none.
    pub expected: Option<Expected>,
}

impl Planner for PutGroup<'_> {
    /// True if there was a group of this name before.
    type Output = Result<bool, AccessError>;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<Self::Output>, Halt> {
        step(self.planned(view))
    }
}

impl PutGroup<'_> {
    fn planned(&self, view: &mut View<'_>) -> Result<(Plan, bool), Stop> {
        let at = key::group(self.name);
        let named = (self.policies.unwrap_or_default(), self.built_in, self.seen);
        let given = with_policies(view, &at, named)?;
        let existed = given.record.is_some();
        let (mut group, guard) = match given.record {
            Some(found) => {
                Expected::check(self.expected, &found)?;
                (decode(&at, &found, Group::decode)?, Guard::Equals(at.clone(), found))
            }
            None if self.exists || self.expected.is_some() => {
                return Err(AccessError::NoSuchGroup.into());
            }
            None => {
                if group_entries(view)?.len() >= GROUPS_MAX {
                    return Err(AccessError::TooMany("groups of a volume", GROUPS_MAX).into());
                }
                let group = Group { enabled: true, members: Vec::new(), policies: Vec::new() };
                (group, Guard::Absent(at.clone()))
            }
        };
        let policies = given.policies?;
        if let Some(new) = self.policies {
            group.policies = new.to_vec();
        }
        group.enabled = self.enabled.unwrap_or(group.enabled);
        let guards = [guard].into_iter().chain(policies).collect();
        Ok((Plan { guards, writes: vec![Write::Put(at.clone(), group.encode(&at))] }, existed))
    }
}

/// Removes a group without members. Fails with `NoSuchGroup`, `Changed` and `GroupHasMembers`.
#[derive(Clone, Copy, Debug)]
pub struct RemoveGroup<'a> {
    /// The name of the group.
    pub name: &'a str,
    /// The version of the record that the caller has seen; `None` for any.
    pub expected: Option<Expected>,
}

impl Planner for RemoveGroup<'_> {
    type Output = Result<(), AccessError>;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<Self::Output>, Halt> {
        step(self.planned(view).map(|plan| (plan, ())))
    }
}

impl RemoveGroup<'_> {
    fn planned(&self, view: &mut View<'_>) -> Result<Plan, Stop> {
        let at = key::group(self.name);
        let found = view.record(&at)?.ok_or(AccessError::NoSuchGroup)?;
        Expected::check(self.expected, &found)?;
        let group = decode(&at, &found, Group::decode)?;
        if !group.members.is_empty() {
            return Err(AccessError::GroupHasMembers(group.members).into());
        }
        let writes = vec![Write::Delete(at.clone())];
        Ok(Plan { guards: vec![Guard::Equals(at, found)], writes })
    }
}

/// A change of the members of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Membership {
    /// The users become members.
    Join,
    /// The users are members no more.
    Leave,
}

/// Adds users to a group, or removes them from it. A user that is a member already, or is none,
/// does not change.
///
/// Fails with `NoSuchGroup` and `Changed`, with `NoSuchMember` if a user that joins does not exist
/// or is a further key or a token, and with `TooMany`.
#[derive(Clone, Copy, Debug)]
pub struct ChangeMembers<'a> {
    /// The name of the group.
    pub name: &'a str,
    /// The names of the users, at most [`MEMBERS_AT_ONCE_MAX`].
    pub users: &'a [String],
    /// The change.
    pub change: Membership,
    /// The version of the group's record that the caller has seen; `None` for any.
    pub expected: Option<Expected>,
}

impl Planner for ChangeMembers<'_> {
    type Output = Result<(), AccessError>;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<Self::Output>, Halt> {
        if self.users.len() > MEMBERS_AT_ONCE_MAX {
            let limit = AccessError::TooMany("members of one change", MEMBERS_AT_ONCE_MAX);
            return Ok(Step::Done(Err(limit)));
        }
        step(self.planned(view).map(|plan| (plan, ())))
    }
}

impl ChangeMembers<'_> {
    fn planned(&self, view: &mut View<'_>) -> Result<Plan, Stop> {
        let mut names: Vec<&String> = self.users.iter().collect();
        // A user that is named twice must have one guard only.
        names.sort_unstable();
        names.dedup();
        let at = key::group(self.name);
        let own = [at.clone()].into_iter();
        let keys: Vec<_> = own.chain(names.iter().map(|name| key::user(name))).collect();
        let mut records = view.many(&keys)?.into_iter();
        let found = records.next().flatten().ok_or(AccessError::NoSuchGroup)?;
        Expected::check(self.expected, &found)?;
        let mut group = decode(&at, &found, Group::decode)?;
        let mut plan = Plan { guards: vec![Guard::Equals(at.clone(), found)], writes: Vec::new() };
        for (name, found) in names.into_iter().zip(records) {
            let of = key::user(name);
            let user = match &found {
                Some(found) => Some(decode(&of, found, User::decode)?),
                None => None,
            };
            match self.change {
                Membership::Join => {
                    let missing = || AccessError::NoSuchMember(name.clone());
                    let mut user = user.filter(User::is_user).ok_or_else(missing)?;
                    insert(&mut group.members, name);
                    insert(&mut user.groups, self.name);
                    if user.groups.len() > GROUPS_PER_USER_MAX {
                        let limit = AccessError::TooMany("groups of a user", GROUPS_PER_USER_MAX);
                        return Err(limit.into());
                    }
                    plan.writes.push(Write::Put(of.clone(), user.encode(&of)));
                }
                Membership::Leave => {
                    group.members.retain(|member| member != name);
                    // A user that was removed has left its groups before. The guard refuses an old
                    // hint that hides a user.
                    let Some(mut user) = user else {
                        plan.guards.push(Guard::Absent(of));
                        continue;
                    };
                    user.groups.retain(|group| group != self.name);
                    plan.writes.push(Write::Put(of.clone(), user.encode(&of)));
                }
            }
            plan.guards.extend(found.map(|found| Guard::Equals(of, found)));
        }
        if group.members.len() > MEMBERS_PER_GROUP_MAX {
            return Err(AccessError::TooMany("members of a group", MEMBERS_PER_GROUP_MAX).into());
        }
        plan.writes.push(Write::Put(at.clone(), group.encode(&at)));
        Ok(plan)
    }
}

/// Adds a name to a sorted list, if the list does not have it.
pub(crate) fn insert(names: &mut Vec<String>, name: &str) {
    if let Err(at) = names.binary_search_by(|known| known.as_str().cmp(name)) {
        names.insert(at, name.to_owned());
    }
}
