//! Further keys and tokens of users, and the removal of users.
//!
//! The invariant: a further key has a parent, which is a user, and the user's record lists it. Each
//! plan that adds or removes a further key therefore changes both records, and the plan that
//! removes a user removes the listed keys with it. A user that is created later under the same name
//! gets no key and no group of the removed one.
//!
//! For example, [`RotateKey`] of `anna` adds a random further key to `anna`, and gives her own
//! access key an expiry. Both are in force until then.

use record::{AccountId, Group, LastUse, Timestamp, User, UserKind, key};
use store::{Guard, Key, Limits, Plan, Value, Write};

use crate::Halt;
use crate::access::{AccessError, Expected, Stop, step, user_for};
use crate::group::{GROUPS_PER_USER_MAX, MEMBERS_PER_GROUP_MAX, insert};
use crate::run::{Env, Planner, Step};
use crate::view::{View, decode};

/// The limit of further keys and tokens of one user. Expired ones count until they are removed.
pub const KEYS_PER_USER_MAX: usize = 64;

/// The limit of last uses in one plan.
pub const LAST_USES_MAX: usize = 500;

/// The limit of the name of a user, in bytes.
const NAME_BYTES_MAX: usize = 130;

// The removal of a user guards and writes the groups of the user and deletes its keys.
const _: () = assert!(
    2 * GROUPS_PER_USER_MAX * MEMBERS_PER_GROUP_MAX * NAME_BYTES_MAX < Limits::LEAST.plan_bytes
        && 3 * (KEYS_PER_USER_MAX + GROUPS_PER_USER_MAX + 1) < Limits::LEAST.plan_items
);

// The use of a key has two guards and a write.
const _: () = assert!(3 * LAST_USES_MAX < Limits::LEAST.plan_items);

/// Adds a further key or token to the user `user.parent`, or a token of the operator without a
/// parent. The account and the owner of files are those of the parent.
///
/// Fails with `UserExists` if the access key exists, with `NoSuchUser` if the parent does not
/// exist, with `NotUser` if the parent is a key, and with `TooMany` if the parent has the maximum
/// number of keys.
#[derive(Clone, Copy, Debug)]
pub struct AddKey<'a> {
    /// The name of the new access key or token.
    pub access_key: &'a str,
    /// The new record: parent, secret, kind, description and expiry.
    pub user: &'a User,
}

impl Planner for AddKey<'_> {
    /// The record of the new key.
    type Output = Result<User, AccessError>;

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<Self::Output>, Halt> {
        step(self.planned(view, env))
    }
}

impl AddKey<'_> {
    fn planned(&self, view: &mut View<'_>, env: &Env) -> Result<(Plan, User), Stop> {
        let new = User { made: env.now, ..self.user.clone() };
        let at = key::user(self.access_key);
        let Some(parent) = &new.parent else {
            if view.record(&at)?.is_some() {
                return Err(AccessError::UserExists.into());
            }
            let new = User { account: AccountId::MAIN, ..new };
            let writes = vec![Write::Put(at.clone(), new.encode(&at))];
            return Ok((Plan { guards: vec![Guard::Absent(at)], writes }, new));
        };
        let of = key::user(parent);
        let [taken, owner] = view.records([&at, &of])?;
        let owner = owner.ok_or(AccessError::NoSuchUser)?;
        let user = user_for(&of, &owner, None)?;
        if taken.is_some() {
            return Err(AccessError::UserExists.into());
        }
        Ok(with_key((of, owner, user), (self.access_key, new))?)
    }
}

/// Returns the plan that adds a key to a user, and the record of the key.
fn with_key(
    (of, found, mut owner): (Key, Value, User),
    (access_key, new): (&str, User),
) -> Result<(Plan, User), AccessError> {
    if owner.keys.len() >= KEYS_PER_USER_MAX {
        return Err(AccessError::TooMany("further keys and tokens of a user", KEYS_PER_USER_MAX));
    }
    insert(&mut owner.keys, access_key);
    let (account, uid, gid, umask) = (owner.account, owner.uid, owner.gid, owner.umask);
    let new = User { account, uid, gid, umask, ..new };
    let at = key::user(access_key);
    let writes =
        vec![Write::Put(of.clone(), owner.encode(&of)), Write::Put(at.clone(), new.encode(&at))];
    Ok((Plan { guards: vec![Guard::Equals(of, found), Guard::Absent(at)], writes }, new))
}

/// Adds a new key in place of an old one, and gives the old one an expiry. An earlier expiry of the
/// old key remains. The new key has the parent, the description, the kind, the state and the expiry
/// of the old one. If the old key is a user, it is the parent of the new one, which is enabled.
///
/// Fails with `NoSuchUser` if the old key or its parent does not exist, with `UserExists` if the
/// new name is taken, and with `TooMany` if the parent has the maximum number of keys.
#[derive(Clone, Copy, Debug)]
pub struct RotateKey<'a> {
    /// The name of the old key.
    pub access_key: &'a str,
    /// The name of the new key.
    pub new: &'a str,
    /// The secret of the new key, encrypted.
    pub sealed_secret: &'a [u8],
    /// The time until which the old key is accepted.
    pub old_expires: Timestamp,
}

impl Planner for RotateKey<'_> {
    /// The record of the new key.
    type Output = Result<User, AccessError>;

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<Self::Output>, Halt> {
        step(self.planned(view, env))
    }
}

impl RotateKey<'_> {
    fn planned(&self, view: &mut View<'_>, env: &Env) -> Result<(Plan, User), Stop> {
        let (at, new_at) = (key::user(self.access_key), key::user(self.new));
        let [found, taken] = view.records([&at, &new_at])?;
        let found = found.ok_or(AccessError::NoSuchUser)?;
        let mut old = decode(&at, &found, User::decode)?;
        if taken.is_some() {
            return Err(AccessError::UserExists.into());
        }
        // The new key ends with the old one, so a rotation cannot lift an end that an operator set.
        let expires = old.expires;
        old.expires = Some(old.expires.map_or(self.old_expires, |at| at.min(self.old_expires)));
        let is_user = old.is_user();
        let new = User {
            parent: if is_user { Some(self.access_key.to_owned()) } else { old.parent.clone() },
            description: old.description.clone(),
            made: env.now,
            expires,
            // The state of a user is that of all its keys, and no state of a further key. But a
            // further key that an operator disabled stays disabled.
            enabled: is_user || old.enabled,
            kind: old.kind.clone(),
            ..User::new(old.account, self.sealed_secret.to_vec())
        };
        if is_user {
            return Ok(with_key((at, found, old), (self.new, new))?);
        }
        let old_write = Write::Put(at.clone(), old.encode(&at));
        let old_guard = Guard::Equals(at, found);
        let (mut plan, new) = match &old.parent {
            Some(parent) => {
                let of = key::user(parent);
                let owner = view.record(&of)?.ok_or(AccessError::NoSuchUser)?;
                let user = user_for(&of, &owner, None)?;
                with_key((of, owner, user), (self.new, new))?
            }
            None => {
                let writes = vec![Write::Put(new_at.clone(), new.encode(&new_at))];
                (Plan { guards: vec![Guard::Absent(new_at)], writes }, new)
            }
        };
        plan.guards.push(old_guard);
        plan.writes.push(old_write);
        Ok((plan, new))
    }
}

/// The new values of fields of a key. A field that is `None` does not change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyChange {
    /// The note of the operator.
    pub description: Option<String>,
    /// The time from which the key is refused; `Some(None)` for a key that does not expire.
    pub expires: Option<Option<Timestamp>>,
    /// True if clients may use the key. Only for further keys and tokens.
    pub enabled: Option<bool>,
}

/// Changes a further key or token, or the description and the expiry of a user's own access key.
///
/// Fails with `NoSuchUser` and `Changed`, and with `IsUser` if `enabled` is given for a user, which
/// [`crate::SetUserEnabled`] changes.
#[derive(Clone, Copy, Debug)]
pub struct ChangeKey<'a> {
    /// The name of the key.
    pub access_key: &'a str,
    /// The new values.
    pub change: &'a KeyChange,
    /// The version of the record that the caller has seen; `None` for any.
    pub expected: Option<Expected>,
}

impl Planner for ChangeKey<'_> {
    type Output = Result<(), AccessError>;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<Self::Output>, Halt> {
        step(self.planned(view).map(|plan| (plan, ())))
    }
}

impl ChangeKey<'_> {
    fn planned(&self, view: &mut View<'_>) -> Result<Plan, Stop> {
        let at = key::user(self.access_key);
        let found = view.record(&at)?.ok_or(AccessError::NoSuchUser)?;
        Expected::check(self.expected, &found)?;
        let mut user = decode(&at, &found, User::decode)?;
        let KeyChange { description, expires, enabled } = self.change;
        if let Some(enabled) = enabled {
            if user.is_user() {
                return Err(AccessError::IsUser.into());
            }
            user.enabled = *enabled;
        }
        if let Some(description) = description {
            user.description.clone_from(description);
        }
        user.expires = expires.unwrap_or(user.expires);
        let writes = vec![Write::Put(at.clone(), user.encode(&at))];
        Ok(Plan { guards: vec![Guard::Equals(at, found)], writes })
    }
}

/// Replaces the secret of an access key of S3: a further key, or the own one of a user. Sessions
/// that began with the old secret end. Fails with `NoSuchUser`, also for a token, and with
/// `Changed`.
#[derive(Clone, Copy)]
pub struct SetSecret<'a> {
    /// The name of the key.
    pub access_key: &'a str,
    /// The new secret, sealed for this name.
    pub sealed_secret: &'a [u8],
    /// The version of the record that the caller has seen; `None` for any.
    pub expected: Option<Expected>,
}

impl std::fmt::Debug for SetSecret<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SetSecret").field("access_key", &self.access_key).finish_non_exhaustive()
    }
}

impl Planner for SetSecret<'_> {
    type Output = Result<(), AccessError>;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<Self::Output>, Halt> {
        step(self.planned(view).map(|plan| (plan, ())))
    }
}

impl SetSecret<'_> {
    fn planned(&self, view: &mut View<'_>) -> Result<Plan, Stop> {
        let at = key::user(self.access_key);
        let found = view.record(&at)?.ok_or(AccessError::NoSuchUser)?;
        Expected::check(self.expected, &found)?;
        let mut user = decode(&at, &found, User::decode)?;
        // A token has a text of another form, which its holder has got once.
        if let UserKind::Token { .. } = user.kind {
            return Err(AccessError::NoSuchUser.into());
        }
        user.sealed_secret = self.sealed_secret.to_vec();
        let writes = vec![Write::Put(at.clone(), user.encode(&at))];
        Ok(Plan { guards: vec![Guard::Equals(at, found)], writes })
    }
}

/// Removes a further key or token. Fails with `NoSuchUser` and `Changed`, and with `IsUser` if it
/// is the access key of a user.
#[derive(Clone, Copy, Debug)]
pub struct RemoveKey<'a> {
    /// The name of the key.
    pub access_key: &'a str,
    /// The version of the record that the caller has seen; `None` for any.
    pub expected: Option<Expected>,
}

impl Planner for RemoveKey<'_> {
    type Output = Result<(), AccessError>;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<Self::Output>, Halt> {
        step(self.planned(view).map(|plan| (plan, ())))
    }
}

impl RemoveKey<'_> {
    fn planned(&self, view: &mut View<'_>) -> Result<Plan, Stop> {
        let at = key::user(self.access_key);
        let found = view.record(&at)?.ok_or(AccessError::NoSuchUser)?;
        Expected::check(self.expected, &found)?;
        let removed = decode(&at, &found, User::decode)?;
        if removed.is_user() {
            return Err(AccessError::IsUser.into());
        }
        let mut plan =
            Plan { guards: vec![Guard::Equals(at, found)], writes: gone(self.access_key).into() };
        let Some(parent) = removed.parent else { return Ok(plan) };
        let of = key::user(&parent);
        // Without this guard, an old hint could hide the user, which would then still list the key.
        let Some(owner) = view.record(&of)? else {
            plan.guards.push(Guard::Absent(of));
            return Ok(plan);
        };
        let mut user = decode(&of, &owner, User::decode)?;
        user.keys.retain(|name| name != self.access_key);
        plan.writes.push(Write::Put(of.clone(), user.encode(&of)));
        plan.guards.push(Guard::Equals(of, owner));
        Ok(plan)
    }
}

/// The writes that remove an access key and its last use.
fn gone(access_key: &str) -> [Write; 2] {
    [Write::Delete(key::user(access_key)), Write::Delete(key::last_use(access_key))]
}

/// Removes a user with its further keys, its tokens and its memberships of groups. Fails with
/// `NoSuchUser` and `Changed`, and with `NotUser` for a further key or token.
#[derive(Clone, Copy, Debug)]
pub struct RemoveUser<'a> {
    /// The name of the user to remove.
    pub access_key: &'a str,
    /// The version of the record that the caller has seen; `None` for any.
    pub expected: Option<Expected>,
}

impl Planner for RemoveUser<'_> {
    type Output = Result<(), AccessError>;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<Self::Output>, Halt> {
        step(self.planned(view).map(|plan| (plan, ())))
    }
}

impl RemoveUser<'_> {
    fn planned(&self, view: &mut View<'_>) -> Result<Plan, Stop> {
        let at = key::user(self.access_key);
        let found = view.record(&at)?.ok_or(AccessError::NoSuchUser)?;
        let user = user_for(&at, &found, self.expected)?;
        let groups: Vec<Key> = user.groups.iter().map(|name| key::group(name)).collect();
        let mut writes: Vec<Write> = gone(self.access_key).into();
        // The guard of the user covers its further keys: each plan that adds or removes one changes
        // the record of the user.
        writes.extend(user.keys.iter().flat_map(|name| gone(name)));
        let mut guards = vec![Guard::Equals(at, found)];
        for (at, found) in groups.iter().zip(view.many(&groups)?) {
            // Without this guard, an old hint could hide the group, which would keep the member.
            let Some(found) = found else {
                guards.push(Guard::Absent(at.clone()));
                continue;
            };
            let mut group = decode(at, &found, Group::decode)?;
            group.members.retain(|name| name != self.access_key);
            writes.push(Write::Put(at.clone(), group.encode(at)));
            guards.push(Guard::Equals(at.clone(), found));
        }
        Ok(Plan { guards, writes })
    }
}

/// Lists the tokens of a volume, sorted.
#[derive(Clone, Copy, Debug)]
pub struct ListTokens;

impl Planner for ListTokens {
    type Output = Vec<(String, User)>;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<Self::Output>, Halt> {
        let mut users = crate::access::users(view)?;
        users.retain(|(_, user)| matches!(user.kind, UserKind::Token { .. }));
        Ok(Step::Done(users))
    }
}

/// Writes the last uses of access keys, at most [`LAST_USES_MAX`]. A use that is older than the one
/// in the store, and the use of a key that does not exist any more, change nothing.
#[derive(Clone, Copy, Debug)]
pub struct RecordLastUses<'a> {
    /// The access keys, and the time of the last use of each.
    pub uses: &'a [(String, Timestamp)],
}

impl Planner for RecordLastUses<'_> {
    type Output = ();

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<()>, Halt> {
        let uses = self.uses.get(..LAST_USES_MAX).unwrap_or(self.uses);
        let owners = uses.iter().map(|(name, _)| key::user(name));
        let keys: Vec<Key> =
            owners.chain(uses.iter().map(|(name, _)| key::last_use(name))).collect();
        let found = view.many(&keys)?;
        let (existing, recorded) = found.split_at(uses.len());
        let mut plan = Plan { guards: Vec::new(), writes: Vec::new() };
        for ((access_key, at), (exists, earlier)) in uses.iter().zip(existing.iter().zip(recorded))
        {
            let slot = key::last_use(access_key);
            let (earlier, unchanged) = match earlier {
                Some(value) => {
                    let earlier = decode(&slot, value, LastUse::decode)?.at;
                    (Some(earlier), Guard::Equals(slot.clone(), value.clone()))
                }
                None => (None, Guard::Absent(slot.clone())),
            };
            if exists.is_none() {
                plan.guards.push(Guard::Absent(key::user(access_key)));
                continue;
            }
            if earlier.is_some_and(|earlier| earlier >= *at) {
                continue;
            }
            // Without these guards, the use of a removed key could leave a record for ever, and an
            // old hint could hide a later use.
            plan.guards.extend([Guard::Present(key::user(access_key)), unchanged]);
            plan.writes.push(Write::Put(slot.clone(), LastUse { at: *at }.encode(&slot)));
        }
        Ok(if plan.writes.is_empty() { Step::Done(()) } else { Step::Commit(plan, ()) })
    }
}
