//! Changes of access keys, groups and jobs by a session whose cached records are old.

use futures::executor::block_on;
use namespace::{
    AddKey, AddUser, ChangeMembers, FindGroup, FindUser, JobError, Membership, PutGroup,
    RecordLastUses, RemoveGroup, RemoveJob, RemoveKey, RemoveUser, StopJob,
};
use record::{
    AccountId, JobKind, JobRecord, JobState, LastUse, Nonce, Timestamp, User, UserKind, key,
};
use store::{MetaStore, Plan, Value, Write};

use crate::world::World;

fn user() -> User {
    User::new(AccountId::MAIN, vec![1])
}

fn add_user(world: &World, access_key: &str) {
    let add = AddUser { access_key, user: &user(), built_in: |_| false, seen: &[] };
    world.cold(&add).0.unwrap().unwrap();
}

fn add_key(world: &World, access_key: &str, parent: &str) {
    let user = User { parent: Some(parent.to_owned()), kind: UserKind::Key, ..user() };
    world.cold(&AddKey { access_key, user: &user }).0.unwrap().unwrap();
}

fn find(world: &World, access_key: &str) -> Option<User> {
    world.cold(&FindUser { access_key }).0.unwrap().ok()
}

fn put_group(world: &World, name: &str) {
    let (policies, seen) = (None, &[]);
    let put = PutGroup {
        name,
        enabled: None,
        policies,
        exists: false,
        built_in: |_| false,
        seen,
        expected: None,
    };
    world.cold(&put).0.unwrap().unwrap();
}

fn join(world: &World, user: &str) {
    let users = &[user.to_owned()];
    let join = ChangeMembers { name: "lab", users, change: Membership::Join, expected: None };
    world.cold(&join).0.unwrap().unwrap();
}

/// The session has looked for the user before it was created.
#[test]
fn removed_key_leaves_its_user() {
    let world = World::empty();
    let missing = world.warm(&FindUser { access_key: "anna" }).0.unwrap();
    assert!(missing.is_err());
    add_user(&world, "anna");
    add_key(&world, "k", "anna");
    let remove = RemoveKey { access_key: "k", expected: None };
    world.warm(&remove).0.unwrap().unwrap();
    assert_eq!(find(&world, "anna").unwrap().keys, Vec::<String>::new());
    // Another user gets the name, and keeps it when the first user is removed.
    add_user(&world, "k");
    let remove = RemoveUser { access_key: "anna", expected: None };
    world.cold(&remove).0.unwrap().unwrap();
    assert!(find(&world, "k").is_some());
}

/// The session has looked for the group before it was created.
#[test]
fn removed_user_leaves_its_groups() {
    let world = World::empty();
    assert!(world.warm(&FindGroup { name: "lab" }).0.unwrap().is_err());
    add_user(&world, "anna");
    put_group(&world, "lab");
    join(&world, "anna");
    let remove = RemoveUser { access_key: "anna", expected: None };
    world.warm(&remove).0.unwrap().unwrap();
    assert_eq!(world.cold(&RemoveGroup { name: "lab", expected: None }).0, Ok(Ok(())));
}

/// The session has looked for the user before it was created.
#[test]
fn user_that_leaves_a_group_does_not_list_it() {
    let world = World::empty();
    assert!(world.warm(&FindUser { access_key: "anna" }).0.unwrap().is_err());
    add_user(&world, "anna");
    put_group(&world, "lab");
    join(&world, "anna");
    assert!(world.warm(&FindGroup { name: "lab" }).0.unwrap().is_ok());
    let users = &["anna".to_owned()];
    let leave = ChangeMembers { name: "lab", users, change: Membership::Leave, expected: None };
    world.warm(&leave).0.unwrap().unwrap();
    assert_eq!(find(&world, "anna").unwrap().groups, Vec::<String>::new());
}

/// Two gateways write the last uses of the same keys.
#[test]
fn earlier_use_does_not_replace_a_later_one() {
    let world = World::empty();
    let names: Vec<String> = (0..3).map(|at| format!("k{at}")).collect();
    names.iter().for_each(|name| add_user(&world, name));
    let uses = |at| names.iter().map(|name| (name.clone(), Timestamp(at))).collect::<Vec<_>>();
    world.warm(&RecordLastUses { uses: &uses(1_000) }).0.unwrap();
    world.cold(&RecordLastUses { uses: &uses(3_000) }).0.unwrap();
    world.warm(&RecordLastUses { uses: &uses(2_000) }).0.unwrap();
    let state = world.state();
    for name in &names {
        let at = key::last_use(name);
        let last = LastUse::decode(&at, &state.records[&at]).unwrap();
        assert_eq!(last.at, Timestamp(3_000), "{name}");
    }
}

/// The session has listed the job while it ran, and then the job's session ended.
#[test]
fn interrupted_job_is_not_stopped() {
    let world = World::empty();
    let at = key::session(Nonce([9; 10]));
    world.force(vec![Write::Put(at.clone(), Value::from_static(b"session"))]);
    let job = JobRecord {
        kind: JobKind::Gc,
        arguments: Vec::new(),
        user: String::new(),
        session: Nonce([9; 10]),
        place: String::new(),
        began: Timestamp(0),
        changed: Timestamp(0),
        state: JobState::Running,
        progress: Vec::new(),
        message: String::new(),
        lines: Vec::new(),
        has_more_lines: false,
    };
    let (number, of) = (1, key::job(1));
    world.force(vec![Write::Put(of.clone(), job.encode(&of))]);
    assert_eq!(world.warm(&RemoveJob { number }).0, Ok(Err(JobError::IsRunning)));
    let plan = Plan { guards: Vec::new(), writes: vec![Write::Delete(at)] };
    block_on(world.store.commit(&[plan])).unwrap();
    assert_eq!(world.warm(&StopJob { number }).0, Ok(Err(JobError::HasEnded)));
}
