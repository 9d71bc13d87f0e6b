//! Changes of access keys and groups by a session whose cached records are old.

use namespace::{AddKey, AddUser, FindUser, RemoveKey, RemoveUser};
use record::{AccountId, User, UserKind};

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
