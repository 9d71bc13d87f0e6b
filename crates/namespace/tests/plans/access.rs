//! Access keys and policies: answers, costs, and two concurrent operators.

use namespace::{
    AccessError, AccessRecords, AddAccount, AddKey, AddUser, ChangeKey, ChangeMembers,
    ExpectedPolicy, FindPolicy, FindUser, GROUPS_PER_USER_MAX, KEYS_PER_USER_MAX, KeyChange,
    ListAccess, ListPolicies, ListUsers, MEMBERS_AT_ONCE_MAX, Membership, NoHints, Planner,
    PutGroup, RecordLastUses, RemoveGroup, RemoveKey, RemovePolicy, RemoveUser, RotateKey,
    SeenPolicy, SetPolicy, SetSecret, SetUserEnabled, SetUserOwner, SetUserPolicies,
};
use record::{
    Account, AccountId, CanonicalId, Group, PolicyRecord, Timestamp, User, UserKind, key,
    key::space,
};
use std::collections::BTreeMap;
use store::{Guard, Key, Value, Write};

use crate::acts::{Actor, Steps};
use crate::world::{State, World, cost};

fn is_built_in(name: &str) -> bool {
    name == "readwrite"
}

fn user(uid: u32, policies: &[&str]) -> User {
    let policies = policies.iter().map(|&name| name.to_owned()).collect();
    User { uid, gid: 5, umask: 0o022, policies, ..User::new(AccountId::MAIN, vec![1, 2, 3]) }
}

fn put_group<'a>(name: &'a str, policies: &'a [String]) -> PutGroup<'a> {
    let (policies, built_in) = (Some(policies), is_built_in as fn(&str) -> bool);
    PutGroup { name, enabled: None, policies, exists: false, built_in, seen: &[], expected: None }
}

fn set_policies<'a>(access_key: &'a str, policies: &'a [String]) -> SetUserPolicies<'a> {
    SetUserPolicies { access_key, policies, built_in: is_built_in, seen: &[], expected: None }
}

fn add<'a>(access_key: &'a str, user: &'a User) -> AddUser<'a> {
    AddUser { access_key, user, built_in: is_built_in, seen: &[] }
}

fn set_policy(world: &World, name: &str, document: &str) -> bool {
    let policy = &PolicyRecord(document.to_owned());
    world.cold(&SetPolicy { name, policy, expected: ExpectedPolicy::Any }).0.unwrap().unwrap()
}

#[test]
fn access_keys_are_created_once_and_removed() {
    let world = World::empty();
    let (anna, bert) = (user(1, &["readwrite"]), user(2, &[]));
    assert_eq!(world.cold(&add("B", &bert)), (Ok(Ok(())), cost(1, 1)));
    assert_eq!(world.cold(&add("A", &anna)).0, Ok(Ok(())));
    assert_eq!(world.cold(&add("B", &anna)), (Ok(Err(AccessError::UserExists)), cost(1, 0)));
    let (users, spent) = world.cold(&ListUsers);
    assert!(users.unwrap() == [("A".to_owned(), anna), ("B".to_owned(), bert.clone())]);
    assert_eq!(spent, cost(1, 0));
    assert!(world.cold(&FindUser { access_key: "B" }).0.unwrap() == Ok(bert));
    let remove = RemoveUser { access_key: "B", expected: None };
    assert_eq!(world.cold(&remove), (Ok(Ok(())), cost(1, 1)));
    assert_eq!(world.cold(&remove), (Ok(Err(AccessError::NoSuchUser)), cost(1, 0)));
    let found = world.cold(&FindUser { access_key: "B" }).0.unwrap();
    assert!(found == Err(AccessError::NoSuchUser));
    assert_eq!(world.cold(&ListUsers).0.unwrap().len(), 1);
}

#[test]
fn policies_are_set_found_and_removed() {
    let world = World::empty();
    assert!(!set_policy(&world, "p", "{}"));
    assert!(set_policy(&world, "p", "{ }"));
    let policy = PolicyRecord("{ }".to_owned());
    let listed = vec![("p".to_owned(), policy.clone())];
    assert_eq!(world.cold(&ListPolicies), (Ok(listed), cost(1, 0)));
    assert_eq!(world.cold(&FindPolicy { name: "p" }), (Ok(Ok(policy)), cost(1, 0)));
    let remove = RemovePolicy { name: "p", expected: None };
    assert_eq!(world.cold(&remove), (Ok(Ok(())), cost(2, 1)));
    let absent = AccessError::NoSuchPolicy("p".to_owned());
    assert_eq!(world.cold(&remove), (Ok(Err(absent.clone())), cost(1, 0)));
    assert_eq!(world.cold(&FindPolicy { name: "p" }).0, Ok(Err(absent)));
}

#[test]
fn accounts_access_keys_and_policies_are_listed_in_one_round_trip() {
    let world = World::empty();
    let empty = AccessRecords::default();
    assert_eq!(world.cold(&ListAccess), (Ok(empty), cost(1, 0)));
    let lab = Account { name: "lab".to_owned(), canonical_id: CanonicalId([1; 32]) };
    let add_lab = AddAccount { id: AccountId(7), account: &lab };
    assert_eq!(world.cold(&add_lab).0, Ok(Ok(())));
    set_policy(&world, "p", "{}");
    let anna = user(1, &["p"]);
    assert_eq!(world.cold(&add("A", &anna)).0, Ok(Ok(())));
    let put = put_group("lab", &[]);
    assert_eq!(world.cold(&put), (Ok(Ok(false)), cost(2, 1)));
    let lab_group = Group { enabled: true, members: Vec::new(), policies: Vec::new() };
    let all = AccessRecords {
        accounts: vec![(AccountId(7), lab)],
        users: vec![("A".to_owned(), anna)],
        groups: vec![("lab".to_owned(), lab_group)],
        policies: vec![("p".to_owned(), PolicyRecord("{}".to_owned()))],
    };
    assert_eq!(world.cold(&ListAccess), (Ok(all), cost(1, 0)));
}

#[test]
fn access_key_never_names_a_missing_policy() {
    let world = World::empty();
    set_policy(&world, "p", "{}");
    let missing = || AccessError::NoSuchPolicy("q".to_owned());
    let wants = user(1, &["p", "readwrite", "q", "r"]);
    assert_eq!(world.cold(&add("A", &wants)), (Ok(Err(missing())), cost(1, 0)));
    // A policy that is named twice needs one guard.
    assert_eq!(world.cold(&add("A", &user(1, &["p", "p"]))).0, Ok(Ok(())));
    let change = |policies: &[&str]| {
        let policies: Vec<String> = policies.iter().map(|&name| name.to_owned()).collect();
        world.cold(&set_policies("A", &policies))
    };
    assert_eq!(change(&["q"]), (Ok(Err(missing())), cost(1, 0)));
    assert_eq!(change(&["readwrite", "p"]), (Ok(Ok(())), cost(1, 1)));
    let changed = user(1, &["readwrite", "p"]);
    assert!(world.cold(&FindUser { access_key: "A" }).0.unwrap() == Ok(changed), "nothing else");
    world.cold(&add("B", &user(1, &["p"]))).0.unwrap().unwrap();
    let in_use = AccessError::PolicyInUse(vec!["A".to_owned(), "B".to_owned()]);
    assert_eq!(world.cold(&RemovePolicy { name: "p", expected: None }).0, Ok(Err(in_use)));
    assert_eq!(change(&[]).0, Ok(Ok(())));
    world.cold(&RemoveUser { access_key: "B", expected: None }).0.unwrap().unwrap();
    assert_eq!(change(&[]).0, Ok(Ok(())), "to the same");
    assert_eq!(world.cold(&RemovePolicy { name: "p", expected: None }).0, Ok(Ok(())));
    let owner = |access_key| SetUserOwner {
        access_key,
        uid: Some(7),
        gid: None,
        umask: Some(0o77),
        expected: None,
    };
    assert_eq!(world.cold(&owner("A")), (Ok(Ok(())), cost(1, 1)));
    let changed = User { uid: 7, umask: 0o77, ..user(1, &[]) };
    assert!(world.cold(&FindUser { access_key: "A" }).0.unwrap() == Ok(changed), "nothing else");
    assert_eq!(world.cold(&owner("C")), (Ok(Err(AccessError::NoSuchUser)), cost(1, 0)));
    let nobody = set_policies("C", &[]);
    assert_eq!(world.cold(&nobody).0, Ok(Err(AccessError::NoSuchUser)));
}

/// Writes many access keys without policies directly into the store.
fn crowd(world: &World, count: u32) {
    let write = |number: u32| {
        let at = key::user(&format!("crowd-{number:06}"));
        Write::Put(at.clone(), user(number, &[]).encode(&at))
    };
    let writes: Vec<Write> = (0..count).map(write).collect();
    writes.chunks(1_000).for_each(|writes| world.force(writes.to_vec()));
}

#[test]
fn policy_removal_checks_all_pages_of_access_keys() {
    let world = World::empty();
    set_policy(&world, "p", "{}");
    crowd(&world, 10_000);
    // The last access key, behind the first page.
    world.cold(&add("last", &user(1, &["p"]))).0.unwrap().unwrap();
    let (users, spent) = world.cold(&ListUsers);
    assert_eq!((users.unwrap().len(), spent), (10_001, cost(2, 0)));
    let in_use = AccessError::PolicyInUse(vec!["last".to_owned()]);
    assert_eq!(world.cold(&RemovePolicy { name: "p", expected: None }).0, Ok(Err(in_use)));
    world.cold(&RemoveUser { access_key: "last", expected: None }).0.unwrap().unwrap();
    assert_eq!(
        world.cold(&RemovePolicy { name: "p", expected: None }).0,
        Ok(Ok(())),
        "the plan is not too large"
    );
}

/// A change of an operator.
trait Change {
    /// Starts the change, and lends it to `body`, which runs it step by step.
    fn begin(&self, world: &World, body: &mut dyn FnMut(&mut dyn Actor));
}

impl<O> Change for O
where
    O: Planner,
    O::Output: std::fmt::Debug,
{
    fn begin(&self, world: &World, body: &mut dyn FnMut(&mut dyn Actor)) {
        body(&mut Steps::new(self, world.env(), &NoHints));
    }
}

/// The answers of two changes, and the state after them.
type Ending = ([String; 2], State);

/// Runs two changes concurrently. Each bit of `turns` selects the change that takes the next step.
fn run(start: &State, [first, second]: [&dyn Change; 2], turns: u32) -> Ending {
    let world = World::of(start);
    let mut answers = Default::default();
    first.begin(&world, &mut |first| {
        second.begin(&world, &mut |second| {
            for turn in 0.. {
                match (first.answer(), second.answer()) {
                    (Some(one), Some(other)) => {
                        answers = [one.to_owned(), other.to_owned()];
                        return;
                    }
                    (None, Some(_)) => first.step(&world.store),
                    (None, None) if turns.checked_shr(turn).unwrap_or(0) & 1 == 0 => {
                        first.step(&world.store);
                    }
                    (Some(_) | None, None) => second.step(&world.store),
                }
            }
        });
    });
    (answers, world.state())
}

/// Checks that each policy of each user and group has a record or is built in, that each further
/// key and its parent name each other, and each member and its group.
#[track_caller]
fn audit(state: &State) {
    let (mut users, mut groups) = (BTreeMap::new(), BTreeMap::new());
    for (at, value) in state.records.iter().filter(|(at, _)| at.space() == space::USER) {
        let name = String::from_utf8(at.suffix().to_vec()).unwrap();
        let policies = if at.partition() == key::GROUPS {
            let group = Group::decode(at, value).unwrap();
            groups.entry(name).or_insert(group).policies.clone()
        } else {
            let user = User::decode(at, value).unwrap();
            users.entry(name).or_insert(user).policies.clone()
        };
        for name in policies {
            let there = is_built_in(&name) || state.records.contains_key(&key::policy(&name));
            assert!(there, "{at:?} has the policy {name}, which is gone");
        }
    }
    for (name, user) in &users {
        if let Some(parent) = &user.parent {
            assert!(users[parent].keys.contains(name), "{parent} does not list {name}");
        }
        for key in &user.keys {
            assert_eq!(users[key].parent.as_ref(), Some(name), "{key} is not of {name}");
        }
        for group in &user.groups {
            assert!(groups[group].members.contains(name), "{group} does not list {name}");
        }
    }
    for (name, group) in &groups {
        for member in &group.members {
            assert!(users[member].groups.contains(name), "{member} does not list {name}");
        }
    }
}

/// A further key of `A`.
fn further() -> User {
    User { parent: Some("A".to_owned()), ..User::new(AccountId::MAIN, vec![7]) }
}

#[test]
fn concurrent_operators_equal_one_order() {
    let (with, without) = (user(1, &["p"]), user(2, &["readwrite"]));
    let (policy, policies) = (PolicyRecord("{ }".to_owned()), ["p".to_owned()]);
    let (further, members_of) = (further(), ["A".to_owned(), "B".to_owned()]);
    let disabled = KeyChange { enabled: Some(false), ..KeyChange::default() };
    let members = |users, change| ChangeMembers { name: "lab", users, change, expected: None };
    let (a, ab) = (&members_of[..1], &members_of[..]);
    let seen_first = seen("{}");
    let changes: [&dyn Change; 19] = [
        &AddKey { access_key: "K", user: &further },
        &RemoveKey { access_key: "K", expected: None },
        &ChangeKey { access_key: "K", change: &disabled, expected: None },
        &RotateKey { access_key: "A", new: "R", sealed_secret: &[8], old_expires: Timestamp(9) },
        &RotateKey { access_key: "K", new: "S", sealed_secret: &[9], old_expires: Timestamp(9) },
        &put_group("lab", &policies),
        &put_group("lab", &[]),
        &RemoveGroup { name: "lab", expected: None },
        &members(a, Membership::Join),
        &members(ab, Membership::Leave),
        &add("A", &with),
        &add("A", &without),
        &add("C", &with),
        &set_policies("A", &policies),
        &set_policies("A", &[]),
        &SetUserPolicies { seen: &seen_first, ..set_policies("A", &policies) },
        &RemoveUser { access_key: "A", expected: None },
        &SetPolicy { name: "p", policy: &policy, expected: ExpectedPolicy::Any },
        &RemovePolicy { name: "p", expected: None },
    ];
    let grown = |users: &[(&str, &User)]| {
        let world = World::empty();
        set_policy(&world, "p", "{}");
        users.iter().for_each(|(name, user)| world.cold(&add(name, user)).0.unwrap().unwrap());
        world.state()
    };
    let together = |policies: &[String], joined: bool| {
        let world = World::of(&grown(&[("A", &without), ("B", &without)]));
        world.cold(&AddKey { access_key: "K", user: &further }).0.unwrap().unwrap();
        world.cold(&put_group("lab", policies)).0.unwrap().unwrap();
        if joined {
            world.cold(&members(ab, Membership::Join)).0.unwrap().unwrap();
        }
        world.state()
    };
    let starts = [
        together(&[], false),
        together(&policies, true),
        World::empty().state(),
        grown(&[]),
        grown(&[("A", &without)]),
        grown(&[("A", &with)]),
        grown(&[("B", &without), ("D", &without)]),
    ];
    for (number, start) in starts.iter().enumerate() {
        for (n, first) in changes.iter().enumerate() {
            for (m, second) in changes.iter().enumerate() {
                let pair = [*first, *second];
                // The two sequential orders.
                let orders = [run(start, pair, 0), run(start, pair, u32::MAX)];
                for turns in 0..64 {
                    let ending = run(start, pair, turns);
                    audit(&ending.1);
                    assert!(
                        orders.contains(&ending),
                        "{n} and {m} from {number} by {turns:b}: {ending:#?} is none of {orders:#?}"
                    );
                }
            }
        }
    }
}

#[test]
fn policy_removal_is_refused_if_access_keys_changed() {
    let world = World::empty();
    set_policy(&world, "p", "{}");
    world.cold(&add("A", &user(1, &[]))).0.unwrap().unwrap();
    let remove = RemovePolicy { name: "p", expected: None };
    let mut steps = Steps::new(&remove, world.env(), &NoHints);
    while steps.plan().is_none() {
        steps.step(&world.store);
    }
    let value = |at: &Key| -> Value { world.state().records[at].clone() };
    let (a, p) = (key::user("A"), key::policy("p"));
    let (start, end) = key::partition(space::USER, 0);
    let (groups, groups_end) = key::partition(space::USER, key::GROUPS);
    let expected = [
        Guard::Equals(p.clone(), value(&p)),
        Guard::Empty(start, a.clone()),
        Guard::Equals(a.clone(), value(&a)),
        Guard::Empty(key::user("A\0"), end),
        Guard::Empty(groups, groups_end),
    ];
    assert_eq!(steps.plan().unwrap().guards, expected);
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

fn find(world: &World, access_key: &str) -> User {
    world.cold(&FindUser { access_key }).0.unwrap().unwrap()
}

#[test]
fn removal_of_a_user_removes_its_keys_and_memberships() {
    let world = World::empty();
    world.cold(&add("A", &user(1, &[]))).0.unwrap().unwrap();
    let (added, spent) = world.cold(&AddKey { access_key: "K", user: &further() });
    let added = added.unwrap().unwrap();
    assert_eq!((added.uid, added.gid, added.umask, spent), (1, 5, 0o022, cost(1, 1)));
    let rotate =
        RotateKey { access_key: "A", new: "R", sealed_secret: &[8], old_expires: Timestamp(9) };
    let (rotated, spent) = world.cold(&rotate);
    assert_eq!((rotated.unwrap().unwrap().parent.as_deref(), spent), (Some("A"), cost(1, 1)));
    let old = find(&world, "A");
    assert_eq!((old.expires, &*old.keys), (Some(Timestamp(9)), &*names(&["K", "R"])));
    let lapsed = RotateKey { new: "S", access_key: "K", ..rotate };
    assert_eq!(world.cold(&lapsed).0.unwrap().unwrap().parent.as_deref(), Some("A"));
    let later = RotateKey { new: "T", old_expires: Timestamp(99), ..lapsed };
    world.cold(&later).0.unwrap().unwrap();
    assert_eq!(find(&world, "K").expires, Some(Timestamp(9)), "an earlier expiry remains");
    let disabled = KeyChange { enabled: Some(false), ..KeyChange::default() };
    let change = ChangeKey { access_key: "K", change: &disabled, expected: None };
    world.cold(&change).0.unwrap().unwrap();
    world.cold(&RotateKey { new: "U", ..lapsed }).0.unwrap().unwrap();
    assert!(!find(&world, "U").enabled && find(&world, "S").enabled, "it stays disabled");
    for name in ["T", "U"] {
        world.cold(&RemoveKey { access_key: name, expected: None }).0.unwrap().unwrap();
    }
    world.cold(&put_group("lab", &[])).0.unwrap().unwrap();
    let a = names(&["A", "A"]);
    let join = ChangeMembers { name: "lab", users: &a, change: Membership::Join, expected: None };
    assert_eq!(world.cold(&join), (Ok(Ok(())), cost(1, 1)));
    let remove = RemoveGroup { name: "lab", expected: None };
    let members = AccessError::GroupHasMembers(names(&["A"]));
    assert_eq!(world.cold(&remove).0, Ok(Err(members)));
    let uses: Vec<_> = ["A", "K", "gone"].map(|name| (name.to_owned(), Timestamp(5))).into();
    assert_eq!(world.cold(&RecordLastUses { uses: &uses }), (Ok(()), cost(1, 1)));
    assert_eq!(world.cold(&RecordLastUses { uses: &uses }), (Ok(()), cost(1, 0)), "not older");
    world.cold(&RemoveUser { access_key: "A", expected: None }).0.unwrap().unwrap();
    let left = world.state().records;
    let left: Vec<_> = left.keys().filter(|at| at.space() != space::INODE).collect();
    let access = |at: &&&Key| [space::USER, space::LAST_USE].contains(&at.space());
    let left: Vec<_> = left.iter().filter(access).map(|at| (**at).clone()).collect();
    assert_eq!(left, [key::group("lab")], "and its member is gone");
    assert_eq!(world.cold(&remove).0, Ok(Ok(())));
}

#[test]
fn changes_of_keys_and_users_do_not_mix() {
    let world = World::empty();
    world.cold(&add("A", &user(1, &[]))).0.unwrap().unwrap();
    world.cold(&AddKey { access_key: "K", user: &further() }).0.unwrap().unwrap();
    let of_a = AccessError::NotUser(Some("A".to_owned()));
    assert_eq!(
        world.cold(&RemoveUser { access_key: "K", expected: None }).0,
        Ok(Err(of_a.clone()))
    );
    let set = SetUserEnabled { access_key: "K", enabled: false, expected: None };
    assert_eq!(world.cold(&set).0, Ok(Err(of_a.clone())));
    let own = User { parent: Some("K".to_owned()), ..further() };
    assert_eq!(world.cold(&AddKey { access_key: "L", user: &own }).0.unwrap().err(), Some(of_a));
    let is_user = || Ok(Err(AccessError::IsUser));
    assert_eq!(world.cold(&RemoveKey { access_key: "A", expected: None }).0, is_user());
    let off = KeyChange { enabled: Some(false), ..KeyChange::default() };
    let change = |access_key, change| ChangeKey { access_key, change, expected: None };
    assert_eq!(world.cold(&change("A", &off)).0, is_user());
    assert_eq!(world.cold(&change("K", &off)), (Ok(Ok(())), cost(1, 1)));
    assert!(!find(&world, "K").enabled && find(&world, "A").enabled);
    let k = names(&["K"]);
    world.cold(&put_group("lab", &[])).0.unwrap().unwrap();
    let join = ChangeMembers { name: "lab", users: &k, change: Membership::Join, expected: None };
    assert_eq!(world.cold(&join).0, Ok(Err(AccessError::NoSuchMember("K".to_owned()))));
}

#[test]
fn secret_of_a_key_is_replaced_and_that_of_a_token_is_not() {
    let world = World::empty();
    world.cold(&add("A", &user(1, &[]))).0.unwrap().unwrap();
    world.cold(&AddKey { access_key: "K", user: &further() }).0.unwrap().unwrap();
    let kind = UserKind::Token { actions: names(&["admin:*"]) };
    let token = User { kind, ..further() };
    world.cold(&AddKey { access_key: "T", user: &token }).0.unwrap().unwrap();
    let set = |access_key| SetSecret { access_key, sealed_secret: &[42, 43], expected: None };
    for name in ["A", "K"] {
        let before = find(&world, name);
        assert_eq!(world.cold(&set(name)), (Ok(Ok(())), cost(1, 1)));
        assert_eq!(find(&world, name), User { sealed_secret: vec![42, 43], ..before });
    }
    assert_eq!(world.cold(&set("T")).0, Ok(Err(AccessError::NoSuchUser)));
    assert_eq!(world.cold(&set("X")).0, Ok(Err(AccessError::NoSuchUser)));
}

#[test]
fn limits_of_keys_and_groups_hold() {
    let world = World::empty();
    world.cold(&add("A", &user(1, &[]))).0.unwrap().unwrap();
    for number in 0..KEYS_PER_USER_MAX {
        let access_key = &format!("K{number}");
        world.cold(&AddKey { access_key, user: &further() }).0.unwrap().unwrap();
    }
    let rotate =
        RotateKey { access_key: "K1", new: "R", sealed_secret: &[8], old_expires: Timestamp(9) };
    for refused in [
        world.cold(&AddKey { access_key: "K", user: &further() }).0.unwrap(),
        world.cold(&rotate).0.unwrap(),
    ] {
        assert!(matches!(refused, Err(AccessError::TooMany(_, KEYS_PER_USER_MAX))), "{refused:?}");
    }
    let a = names(&["A"]);
    for number in 0..=GROUPS_PER_USER_MAX {
        let name = &*format!("lab{number}");
        world.cold(&put_group(name, &[])).0.unwrap().unwrap();
        let join = ChangeMembers { name, users: &a, change: Membership::Join, expected: None };
        let joined = world.cold(&join).0.unwrap();
        assert_eq!(joined.is_ok(), number < GROUPS_PER_USER_MAX, "{joined:?}");
    }
    let many: Vec<String> = (0..=MEMBERS_AT_ONCE_MAX).map(|number| number.to_string()).collect();
    let join =
        ChangeMembers { name: "lab0", users: &many, change: Membership::Join, expected: None };
    let refused = world.cold(&join).0.unwrap();
    assert!(matches!(refused, Err(AccessError::TooMany(_, MEMBERS_AT_ONCE_MAX))), "{refused:?}");
}

/// The length is hash enough for records of different lengths.
fn hash(bytes: &[u8]) -> namespace::RecordHash {
    u128::try_from(bytes.len()).unwrap().to_be_bytes()
}

/// The version of the policy `p` with this document.
fn seen(document: &str) -> [SeenPolicy; 1] {
    let value = PolicyRecord(document.to_owned()).encode(&key::policy("p"));
    [SeenPolicy { name: "p".to_owned(), version: namespace::Expected { seen: hash(&value), hash } }]
}

#[test]
fn a_policy_is_given_in_the_version_that_the_caller_has_seen() {
    let world = World::empty();
    set_policy(&world, "p", "{}");
    set_policy(&world, "q", "{}");
    let (same, other) = (seen("{}"), seen("{ }"));
    let wants = user(1, &["p", "q", "readwrite", "p"]);
    let changed = || Ok(Err(AccessError::PolicyChanged("p".to_owned())));
    assert_eq!(world.cold(&AddUser { seen: &other, ..add("A", &wants) }), (changed(), cost(1, 0)));
    assert_eq!(world.cold(&AddUser { seen: &same, ..add("A", &wants) }), (Ok(Ok(())), cost(1, 1)));
    let policies = names(&["p"]);
    let put = put_group("lab", &policies);
    assert_eq!(
        world.cold(&PutGroup { seen: &other, ..put }).0,
        Ok(Err(AccessError::PolicyChanged("p".to_owned())))
    );
    assert_eq!(world.cold(&PutGroup { seen: &same, ..put }).0, Ok(Ok(false)));
    let set = |seen| SetUserPolicies { seen, ..set_policies("A", &policies) };
    assert_eq!(world.cold(&set(&other)).0, changed());
    assert_eq!(world.cold(&set(&same)).0, Ok(Ok(())));
}

#[test]
fn change_of_another_version_is_refused() {
    let world = World::empty();
    world.cold(&add("A", &user(1, &[]))).0.unwrap().unwrap();
    let value = world.state().records[&key::user("A")].clone();
    let expected = Some(namespace::Expected { seen: hash(&value), hash });
    let policies = names(&["readwrite"]);
    let set = SetUserPolicies { expected, ..set_policies("A", &policies) };
    assert_eq!(world.cold(&set).0, Ok(Ok(())));
    let changed = || Ok(Err(AccessError::Changed));
    assert_eq!(world.cold(&set).0, changed());
    assert_eq!(world.cold(&RemoveUser { access_key: "A", expected }).0, changed());
    let enable = SetUserEnabled { access_key: "A", enabled: false, expected };
    assert_eq!(world.cold(&enable).0, changed());
    set_policy(&world, "p", "{}");
    assert_eq!(world.cold(&RemovePolicy { name: "p", expected }).0, changed());
    world.cold(&put_group("lab", &[])).0.unwrap().unwrap();
    assert_eq!(world.cold(&RemoveGroup { name: "lab", expected }).0, changed());
    let put = PutGroup { expected, ..put_group("new", &[]) };
    assert_eq!(world.cold(&put).0, Ok(Err(AccessError::NoSuchGroup)));
}
