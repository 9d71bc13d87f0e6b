//! Access control lists, and the permission bits that go with them.

use bytes::Bytes;
use namespace::{
    Acl, AclKind, AttributeChange, FindXattr, FoundNode, FsError, MakeNode, NewNode, SetAcl,
};
use record::{Ino, Inode, SpecialKind, XATTR_INLINE_BYTES_MAX};

use crate::costs::{Remembered, costs};
use crate::world::{B, KEPT, World, at, inline};

/// A list in the Linux format with these permissions: the owner, user 1000, the group, the mask and
/// others.
fn list([owner, user, group, mask, others]: [u8; 5]) -> Acl {
    let mut bytes = vec![2, 0, 0, 0];
    let entries = [(1, owner), (2, user), (4, group), (16, mask), (32, others)];
    for (whom, bits) in entries {
        let id = if whom == 2 { [0xe8, 3, 0, 0] } else { [0xff; 4] };
        bytes.extend_from_slice(&[whom, 0, bits, 0]);
        bytes.extend_from_slice(&id);
    }
    Acl::parse(&bytes).unwrap().unwrap()
}

/// A list that permission bits alone can express.
fn minimal([owner, group, others]: [u8; 3]) -> Acl {
    let mut bytes = vec![2, 0, 0, 0];
    for (whom, bits) in [(1, owner), (4, group), (32, others)] {
        bytes.extend_from_slice(&[whom, 0, bits, 0, 0xff, 0xff, 0xff, 0xff]);
    }
    Acl::parse(&bytes).unwrap().unwrap()
}

fn set(world: &World, ino: Ino, kind: AclKind, acl: Option<&Acl>) -> Result<FoundNode, FsError> {
    world.run(&SetAcl { ino, kind, acl, drop_group_id: false })
}

fn get(world: &World, ino: Ino, kind: AclKind) -> Result<Bytes, FsError> {
    world.run(&FindXattr { ino, name: kind.attribute() })
}

fn mode(world: &World, ino: Ino) -> u32 {
    world.node(ino).unwrap().inode.attributes.mode
}

/// Creates a node with the requested bits `mode` and the umask `umask`.
fn make(world: &World, name: (Ino, &str), node: &NewNode, mode: u32, umask: u32) -> (Ino, Inode) {
    let (directory, name) = (name.0, Some(name.1.as_bytes()));
    let ino = world.ino();
    let make = MakeNode { directory, name, ino, node, mode, umask, uid: 3, gid: 4 };
    (ino, world.run(&make).unwrap())
}

#[test]
fn access_list_is_stored_and_its_mask_equals_the_group_bits() {
    let world = World::new();
    let ino = world.file(B, "f", 1);
    assert_eq!(get(&world, ino, AclKind::Access), Err(FsError::NoSuchAttribute));
    let acl = list([6, 7, 4, 5, 1]);
    assert_eq!(set(&world, ino, AclKind::Access, Some(&acl)).unwrap().inode.attributes.mode, 0o651);
    assert_eq!((mode(&world, ino), get(&world, ino, AclKind::Access)), (0o651, Ok(acl.to_bytes())));
    world.audit();
    set(&world, ino, AclKind::Access, None).unwrap();
    assert_eq!(get(&world, ino, AclKind::Access), Err(FsError::NoSuchAttribute));
    assert_eq!(mode(&world, ino), 0o651, "without its list it has the bits that it had");
    set(&world, ino, AclKind::Access, None).unwrap();
}

#[test]
fn list_equal_to_mode_bits_is_not_stored() {
    let world = World::new();
    let ino = world.mkdir(B, "d");
    set(&world, ino, AclKind::Access, Some(&list([7, 7, 7, 7, 7]))).unwrap();
    set(&world, ino, AclKind::Access, Some(&minimal([7, 5, 0]))).unwrap();
    assert_eq!(get(&world, ino, AclKind::Access), Err(FsError::NoSuchAttribute));
    assert_eq!(mode(&world, ino), 0o750);
    // A default list is stored even if permission bits could express it.
    set(&world, ino, AclKind::Default, Some(&minimal([7, 7, 7]))).unwrap();
    assert_eq!(get(&world, ino, AclKind::Default), Ok(minimal([7, 7, 7]).to_bytes()));
    assert_eq!(mode(&world, ino), 0o750, "and says nothing about the directory");
}

#[test]
fn setting_a_list_keeps_other_mode_bits_unless_set_group_id_is_dropped() {
    let world = World::new();
    let ino = world.file(B, "f", 1);
    world.set(ino, AttributeChange { mode: Some(0o6755), ..KEPT }).unwrap();
    let acl = list([7, 5, 5, 5, 0]);
    set(&world, ino, AclKind::Access, Some(&acl)).unwrap();
    assert_eq!(mode(&world, ino), 0o6750);
    let (kind, acl) = (AclKind::Access, Some(&acl));
    world.run(&SetAcl { ino, kind, acl, drop_group_id: true }).unwrap();
    assert_eq!(mode(&world, ino), 0o4750);
}

#[test]
fn chmod_changes_the_list_in_the_same_plan() {
    let world = World::new();
    let ino = world.file(B, "f", 1);
    set(&world, ino, AclKind::Access, Some(&list([6, 7, 4, 7, 1]))).unwrap();
    let set = world.set(ino, AttributeChange { mode: Some(0o1740), ..KEPT }).unwrap();
    assert_eq!(set.inode.attributes.mode, 0o1740);
    assert_eq!(get(&world, ino, AclKind::Access), Ok(list([7, 7, 4, 4, 0]).to_bytes()));
    world.set(ino, AttributeChange { uid: Some(9), ..KEPT }).unwrap();
    assert_eq!(get(&world, ino, AclKind::Access), Ok(list([7, 7, 4, 4, 0]).to_bytes()));
    world.audit();
}

#[test]
fn only_directories_have_a_default_list_and_symbolic_links_have_none() {
    let world = World::new();
    let (file, link) = (world.file(B, "f", 1), world.symlink(B, "l"));
    let acl = list([6, 7, 4, 7, 1]);
    let refused = set(&world, file, AclKind::Default, Some(&acl)).unwrap_err();
    assert_eq!(refused, FsError::NoDefaultAcl);
    set(&world, file, AclKind::Default, None).unwrap();
    for kind in [AclKind::Access, AclKind::Default] {
        assert_eq!(set(&world, link, kind, Some(&acl)).unwrap_err(), FsError::NoAcl);
    }
    let fifo = world.fifo(B, "p");
    set(&world, fifo, AclKind::Access, Some(&acl)).unwrap();
    assert_eq!(mode(&world, fifo), 0o671);
}

#[test]
fn new_node_inherits_the_default_list_instead_of_the_umask() {
    let world = World::new();
    let directory = world.mkdir(B, "d");
    let default = list([7, 6, 5, 7, 4]);
    set(&world, directory, AclKind::Default, Some(&default)).unwrap();
    let file = NewNode::File(Box::new(inline(1)));
    let (ino, made) = make(&world, (directory, "f"), &file, 0o640, 0o077);
    assert_eq!(made.attributes.mode, 0o640);
    assert_eq!(get(&world, ino, AclKind::Access), Ok(list([6, 6, 5, 4, 0]).to_bytes()));
    assert_eq!(get(&world, ino, AclKind::Default), Err(FsError::NoSuchAttribute));
    let special = NewNode::Special(SpecialKind::Fifo, 0);
    let (ino, made) = make(&world, (directory, "p"), &special, 0o666, 0o077);
    assert_eq!(made.attributes.mode, 0o664);
    assert_eq!(get(&world, ino, AclKind::Access), Ok(list([6, 6, 5, 6, 4]).to_bytes()));
    let (ino, made) = make(&world, (directory, "l"), &NewNode::Symlink(vec![b'x']), 0o777, 0);
    assert_eq!((made.attributes.mode, made.xattrs), (0o777, Vec::new()));
    assert_eq!(get(&world, ino, AclKind::Access), Err(FsError::NoSuchAttribute));
    world.audit();
}

#[test]
fn new_directory_inherits_the_default_list_as_its_own() {
    let world = World::new();
    let above = world.mkdir(B, "d");
    let default = list([7, 6, 5, 7, 4]);
    set(&world, above, AclKind::Default, Some(&default)).unwrap();
    let (below, made) = make(&world, (above, "d"), &NewNode::Directory, 0o755, 0o022);
    assert_eq!(made.attributes.mode, 0o754);
    assert_eq!(get(&world, below, AclKind::Access), Ok(list([7, 6, 5, 5, 4]).to_bytes()));
    assert_eq!(get(&world, below, AclKind::Default), Ok(default.to_bytes()));
    let (_, made) = make(&world, (below, "d"), &NewNode::Directory, 0o755, 0o022);
    assert_eq!(made.attributes.mode, 0o754);
    set(&world, below, AclKind::Default, None).unwrap();
    let (_, made) = make(&world, (below, "e"), &NewNode::Directory, 0o777, 0o022);
    assert_eq!((made.attributes.mode, made.xattrs), (0o755, Vec::new()), "the umask counts again");
    world.audit();
}

#[test]
fn minimal_default_list_gives_mode_bits_only() {
    let world = World::new();
    let directory = world.mkdir(B, "d");
    set(&world, directory, AclKind::Default, Some(&minimal([7, 5, 0]))).unwrap();
    let file = NewNode::File(Box::new(inline(1)));
    let (ino, made) = make(&world, (directory, "f"), &file, 0o666, 0o077);
    assert_eq!((made.attributes.mode, made.xattrs), (0o640, Vec::new()));
    assert_eq!(get(&world, ino, AclKind::Access), Err(FsError::NoSuchAttribute));
}

#[test]
fn new_node_inherits_the_list_at_commit_time() {
    let world = World::new();
    let directory = world.mkdir(B, "d");
    let remembered = Remembered::of(&world, &[at(directory, "f")]);
    // Another client sets the list, and the hints of this client still have the directory without
    // it.
    set(&world, directory, AclKind::Default, Some(&minimal([7, 0, 0]))).unwrap();
    let (node, ino) = (NewNode::Directory, world.ino());
    let (mode, umask, uid, gid) = (0o777, 0, 3, 4);
    let make = MakeNode { directory, name: Some(b"f"), ino, node: &node, mode, umask, uid, gid };
    let (answer, cost) = remembered.run_in(&world, &make);
    assert_eq!(answer.unwrap().attributes.mode, 0o700);
    assert_eq!((cost.reads, cost.commits), (0, 2), "the refusal says what the directory has");
}

#[test]
fn list_is_inline_even_if_the_inode_is_full_of_attributes() {
    let world = World::new();
    let ino = world.file(B, "f", 1);
    for n in 0..9 {
        let change = &namespace::XattrChange::Set(vec![b'v'; XATTR_INLINE_BYTES_MAX].into());
        let name = format!("user.{n}");
        world
            .run(&namespace::SetXattr { ino, known_name: None, name: name.as_bytes(), change })
            .unwrap();
    }
    let acl = list([6, 7, 4, 5, 1]);
    set(&world, ino, AclKind::Access, Some(&acl)).unwrap();
    world.set(ino, AttributeChange { mode: Some(0o600), ..KEPT }).unwrap();
    assert_eq!(get(&world, ino, AclKind::Access), Ok(list([6, 7, 4, 0, 0]).to_bytes()));
    world.audit();
}

#[test]
fn setting_and_inheriting_a_list_each_take_one_round_trip() {
    let world = World::new();
    let directory = world.mkdir(B, "d");
    let acl = list([7, 6, 5, 7, 4]);
    set(&world, directory, AclKind::Default, Some(&acl)).unwrap();
    set(&world, directory, AclKind::Access, Some(&acl)).unwrap();
    let volume = Remembered::of(&world, &[at(directory, "f")]);
    let (kind, ino, acl) = (AclKind::Access, directory, Some(&acl));
    let set = SetAcl { ino, kind, acl, drop_group_id: false };
    assert_eq!(volume.costs(&set), costs((0, 1), (1, 1)));
    let change = &AttributeChange { mode: Some(0), ..KEPT };
    let chmod = namespace::SetAttributes { ino, change };
    assert_eq!(volume.costs(&chmod), costs((0, 1), (1, 1)));
    let (node, ino) = (NewNode::Directory, world.ino());
    let (name, mode, umask, uid, gid) = (Some(&b"f"[..]), 0o777, 0, 3, 4);
    let make = MakeNode { directory, name, ino, node: &node, mode, umask, uid, gid };
    assert_eq!(volume.costs(&make), costs((0, 1), (1, 1)));
}
