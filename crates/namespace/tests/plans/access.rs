//! Access keys and policies: answers, costs, and two concurrent operators.

use namespace::{
    AccessError, AccessRecords, AddAccount, AddUser, FindPolicy, FindUser, ListAccess,
    ListPolicies, ListUsers, NoHints, Planner, RemovePolicy, RemoveUser, SetPolicy, SetUserOwner,
    SetUserPolicies,
};
use record::{Account, AccountId, CanonicalId, PolicyRecord, User, key, key::space};
use store::{Guard, Key, Value, Write};

use crate::acts::{Actor, Steps};
use crate::world::{State, World, cost};

fn is_built_in(name: &str) -> bool {
    name == "readwrite"
}

fn user(uid: u32, policies: &[&str]) -> User {
    let policies = policies.iter().map(|&name| name.to_owned()).collect();
    User {
        account: AccountId::MAIN,
        sealed_secret: vec![1, 2, 3],
        enabled: true,
        uid,
        gid: 5,
        umask: 0o022,
        policies,
    }
}

fn add<'a>(access_key: &'a str, user: &'a User) -> AddUser<'a> {
    AddUser { access_key, user, built_in: is_built_in }
}

fn set_policy(world: &World, name: &str, document: &str) -> bool {
    let policy = &PolicyRecord(document.to_owned());
    world.cold(&SetPolicy { name, policy }).0.unwrap()
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
    let remove = RemoveUser { access_key: "B" };
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
    let remove = RemovePolicy { name: "p" };
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
    let all = AccessRecords {
        accounts: vec![(AccountId(7), lab)],
        users: vec![("A".to_owned(), anna)],
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
        let built_in = is_built_in;
        world.cold(&SetUserPolicies { access_key: "A", policies: &policies, built_in })
    };
    assert_eq!(change(&["q"]), (Ok(Err(missing())), cost(1, 0)));
    assert_eq!(change(&["readwrite", "p"]), (Ok(Ok(())), cost(1, 1)));
    let changed = user(1, &["readwrite", "p"]);
    assert!(world.cold(&FindUser { access_key: "A" }).0.unwrap() == Ok(changed), "nothing else");
    world.cold(&add("B", &user(1, &["p"]))).0.unwrap().unwrap();
    let in_use = AccessError::PolicyInUse(vec!["A".to_owned(), "B".to_owned()]);
    assert_eq!(world.cold(&RemovePolicy { name: "p" }).0, Ok(Err(in_use)));
    assert_eq!(change(&[]).0, Ok(Ok(())));
    world.cold(&RemoveUser { access_key: "B" }).0.unwrap().unwrap();
    assert_eq!(change(&[]).0, Ok(Ok(())), "to the same");
    assert_eq!(world.cold(&RemovePolicy { name: "p" }).0, Ok(Ok(())));
    let owner =
        |access_key| SetUserOwner { access_key, uid: Some(7), gid: None, umask: Some(0o77) };
    assert_eq!(world.cold(&owner("A")), (Ok(Ok(())), cost(1, 1)));
    let changed = User { uid: 7, umask: 0o77, ..user(1, &[]) };
    assert!(world.cold(&FindUser { access_key: "A" }).0.unwrap() == Ok(changed), "nothing else");
    assert_eq!(world.cold(&owner("C")), (Ok(Err(AccessError::NoSuchUser)), cost(1, 0)));
    let nobody = SetUserPolicies { access_key: "C", policies: &[], built_in: is_built_in };
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
    assert_eq!(world.cold(&RemovePolicy { name: "p" }).0, Ok(Err(in_use)));
    world.cold(&RemoveUser { access_key: "last" }).0.unwrap().unwrap();
    assert_eq!(world.cold(&RemovePolicy { name: "p" }).0, Ok(Ok(())), "the plan is not too large");
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

/// Checks that each policy of each access key has a record or is built in.
#[track_caller]
fn audit(state: &State) {
    for (at, value) in state.records.iter().filter(|(at, _)| at.space() == space::USER) {
        for name in User::decode(at, value).unwrap().policies {
            let there = is_built_in(&name) || state.records.contains_key(&key::policy(&name));
            assert!(there, "{at:?} has the policy {name}, which is gone");
        }
    }
}

#[test]
fn concurrent_operators_equal_one_order() {
    let (with, without) = (user(1, &["p"]), user(2, &["readwrite"]));
    let (policy, policies) = (PolicyRecord("{ }".to_owned()), ["p".to_owned()]);
    let built_in = is_built_in;
    let changes: [&dyn Change; 8] = [
        &AddUser { access_key: "A", user: &with, built_in },
        &AddUser { access_key: "A", user: &without, built_in },
        &AddUser { access_key: "C", user: &with, built_in },
        &SetUserPolicies { access_key: "A", policies: &policies, built_in },
        &SetUserPolicies { access_key: "A", policies: &[], built_in },
        &RemoveUser { access_key: "A" },
        &SetPolicy { name: "p", policy: &policy },
        &RemovePolicy { name: "p" },
    ];
    let grown = |users: &[(&str, &User)]| {
        let world = World::empty();
        set_policy(&world, "p", "{}");
        users.iter().for_each(|(name, user)| world.cold(&add(name, user)).0.unwrap().unwrap());
        world.state()
    };
    let starts = [
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
    let remove = RemovePolicy { name: "p" };
    let mut steps = Steps::new(&remove, world.env(), &NoHints);
    while steps.plan().is_none() {
        steps.step(&world.store);
    }
    let value = |at: &Key| -> Value { world.state().records[at].clone() };
    let (a, p) = (key::user("A"), key::policy("p"));
    let (start, end) = key::partition(space::USER, 0);
    let expected = [
        Guard::Equals(p.clone(), value(&p)),
        Guard::Empty(start, a.clone()),
        Guard::Equals(a.clone(), value(&a)),
        Guard::Empty(key::user("A\0"), end),
    ];
    assert_eq!(steps.plan().unwrap().guards, expected);
}
