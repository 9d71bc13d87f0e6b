//! Creating nodes, and how both views show them.

use namespace::{AttributeChange, DIRECTORY_MODE, FsError, NewNode, Path, RenameMode};
use record::{Ino, InodeBody, Kind, SpecialKind};

use crate::world::{B, KEPT, World, at, inline, object_of, publish};

#[test]
fn creating_a_bound_name_fails_for_every_kind() {
    let world = World::new();
    world.mkdir(B, "directory");
    world.file(B, "file", 1);
    world.symlink(B, "symlink");
    world.fifo(B, "fifo");
    let nodes = [
        NewNode::Directory,
        NewNode::File(Box::new(inline(1))),
        NewNode::Symlink(b"x".to_vec()),
        NewNode::Special(SpecialKind::Socket, 0),
    ];
    for name in ["directory", "file", "symlink", "fifo"] {
        for node in &nodes {
            assert_eq!(world.make(&at(B, name), node), Err(FsError::NameExists), "{name} {node:?}");
        }
    }
    world.audit();
}

#[test]
fn creating_a_directory_fails_if_a_key_has_the_name() {
    let world = World::new();
    world.put("a/x", 1);
    world.put("f", 1);
    for name in ["a", "f"] {
        assert_eq!(world.make(&at(B, name), &NewNode::Directory), Err(FsError::NameExists));
    }
    world.audit();
}

#[test]
fn creating_a_node_at_the_root_fails() {
    let world = World::new();
    for node in [NewNode::Directory, NewNode::File(Box::new(inline(1)))] {
        assert_eq!(world.make(&at(Ino::ROOT, "x"), &node), Err(FsError::OnlyBuckets));
    }
    assert_eq!(world.rmdir(Ino::ROOT, "b"), Err(FsError::OnlyBuckets));
    assert_eq!(world.unlink(Ino::ROOT, "b"), Err(FsError::OnlyBuckets));
    for (from, to) in [(at(Ino::ROOT, "b"), at(B, "x")), (at(B, "x"), at(Ino::ROOT, "d"))] {
        let renamed = world.rename(&from, &to, RenameMode::Replace);
        assert_eq!(renamed, Err(FsError::OnlyBuckets));
    }
    let file = world.file(B, "x", 1);
    let linked = world.link(file, Some(&at(B, "x")), &at(Ino::ROOT, "x"));
    assert_eq!(linked.unwrap_err(), FsError::OnlyBuckets);
    world.audit();
}

#[test]
fn creating_in_a_removed_directory_or_a_file_fails() {
    let world = World::new();
    let (gone, file) = (world.mkdir(B, "gone"), world.file(B, "file", 1));
    world.rmdir(B, "gone").unwrap();
    assert_eq!(world.make(&at(gone, "x"), &NewNode::Directory), Err(FsError::Stale));
    assert_eq!(world.make(&at(file, "x"), &NewNode::Directory), Err(FsError::NotADirectory));
    assert_eq!(world.make_nameless(gone, 1), Err(FsError::Stale));
    assert_eq!(world.names(gone, 10), []);
    world.audit();
}

#[test]
fn creating_an_unnamed_directory_fails() {
    let world = World::new();
    let ino = world.ino();
    let node = NewNode::Directory;
    let make = namespace::MakeNode {
        directory: B,
        name: None,
        ino,
        node: &node,
        mode: 0o755,
        umask: 0,
        uid: 1,
        gid: 1,
    };
    assert_eq!(world.run(&make), Err(FsError::Stale));
}

#[test]
fn inode_number_in_use_is_refused() {
    let world = World::new();
    let ino = world.file(B, "a", 1);
    let node = NewNode::Directory;
    let make = namespace::MakeNode {
        directory: B,
        name: Some(b"x"),
        ino,
        node: &node,
        mode: 0o755,
        umask: 0,
        uid: 1,
        gid: 1,
    };
    assert_eq!(world.cold(&make).0, Err(FsError::InodeNumberInUse));
    assert_eq!(world.find(&at(B, "a")), Ok(ino));
    world.audit();
}

#[test]
fn new_node_in_a_set_group_id_directory_gets_its_group() {
    let world = World::new();
    let (above, made) = world.make_with(&at(B, "a"), &NewNode::Directory, 0o2775).unwrap();
    assert_eq!((made.attributes.mode, made.attributes.gid), (0o2775, 4));
    let group = AttributeChange { gid: Some(77), ..KEPT };
    world.set(above, group).unwrap();
    let (below, made) = world.make_with(&at(above, "d"), &NewNode::Directory, 0o755).unwrap();
    assert_eq!(
        (made.attributes.mode, made.attributes.gid),
        (0o2755, 77),
        "a directory hands it on"
    );
    let file = NewNode::File(Box::new(inline(1)));
    let (_, made) = world.make_with(&at(below, "f"), &file, 0o644).unwrap();
    assert_eq!((made.attributes.mode, made.attributes.gid), (0o644, 77), "a file does not");
    let (_, made) = world.make_with(&at(B, "f"), &file, 0o644).unwrap();
    assert_eq!(made.attributes.gid, 4, "elsewhere it is its maker's");
    world.audit();
}

#[test]
fn link_count_of_a_directory_includes_its_subdirectories() {
    let world = World::new();
    let a = world.mkdir(B, "a");
    world.file(a, "f", 1);
    assert_eq!(world.links(a), 2);
    world.mkdir(a, "d");
    world.put("a/e/x", 1);
    assert_eq!(world.links(a), 4);
    world.delete(&[b"a/e/x"]);
    world.rmdir(a, "d").unwrap();
    assert_eq!(world.links(a), 2);
    world.audit();
}

#[test]
fn name_changes_set_the_directory_times() {
    let world = World::new();
    let a = world.mkdir(B, "a");
    let modified = || world.node(a).unwrap().inode.attributes.modified;
    let mut before = modified();
    let mut later = |what: &str| {
        let now = modified();
        assert!(now > before, "{what}");
        before = now;
    };
    let file = world.file(a, "f", 1);
    later("make");
    world.link(file, Some(&at(a, "f")), &at(a, "g")).unwrap();
    later("link");
    world.rename(&at(a, "g"), &at(a, "h"), RenameMode::Replace).unwrap();
    later("rename");
    world.unlink(a, "h").unwrap();
    later("unlink");
    world.put("a/x", 1);
    later("put");
    world.delete(&[b"a/x"]);
    later("delete");
}

#[test]
fn directory_times_that_are_set_stay_until_a_name_changes() {
    let world = World::new();
    let a = world.mkdir(B, "a");
    world.file(a, "f", 1);
    let then = record::Timestamp(-5_000_000_001);
    let time = namespace::SetTime::At(then);
    let (modified, accessed) = (Some(time), Some(time));
    world.set(a, AttributeChange { modified, accessed, ..KEPT }).unwrap();
    let found = world.node(a).unwrap().inode.attributes;
    assert_eq!((found.modified, found.accessed), (then, then));
    assert!(found.status_changed > then);
    world.file(a, "g", 1);
    assert!(world.node(a).unwrap().inode.attributes.modified > then);
    world.audit();
}

#[test]
fn every_kind_of_node_is_listed_with_its_kind() {
    let world = World::new();
    let socket = NewNode::Special(SpecialKind::Block, 0x0102);
    let (ino, made) = world.make_with(&at(B, "s"), &socket, 0o600).unwrap();
    assert_eq!(world.node(ino).unwrap().inode, made);
    let InodeBody::Special(special) = made.body else { panic!("{made:?}") };
    assert_eq!((special.kind, special.device, special.links), (SpecialKind::Block, 0x0102, 1));
    let link = world.symlink(B, "l");
    let InodeBody::Symlink(symlink) = world.node(link).unwrap().inode.body else { panic!("link") };
    assert_eq!((&symlink.target[..], symlink.links), (&b"target"[..], 1));
    let kinds: Vec<Kind> = world.names(B, 10).into_iter().map(|(_, _, kind)| kind).collect();
    assert_eq!(kinds, [Kind::Symlink, Kind::Special]);
    world.audit();
}

#[test]
fn made_directory_is_an_object_while_it_is_empty() {
    let world = World::new();
    let a = world.mkdir(B, "a");
    assert_eq!(world.keys(), ["a/"]);
    world.file(a, "f", 1);
    assert_eq!(world.keys(), ["a/f"]);
    world.unlink(a, "f").unwrap();
    assert_eq!(world.keys(), ["a/"]);
    world.audit();
}

#[test]
fn names_that_are_not_utf8_are_not_listed_as_objects() {
    let world = World::new();
    let odd = world.mkdir(B, b"d\xff");
    world.file(odd, "f", 1);
    world.file(B, b"\xfe", 1);
    world.file(B, "g", 1);
    assert_eq!(world.keys(), ["g"]);
    let names: Vec<Vec<u8>> = world.names(B, 1).into_iter().map(|(name, ..)| name).collect();
    assert_eq!(names, [&b"d\xff"[..], b"g", b"\xfe"]);
    world.audit();
}

#[test]
fn paths_longer_than_a_key_are_not_listed_as_objects() {
    let world = World::new();
    let name = "n".repeat(250);
    let mut directory = B;
    for _ in 0..4 {
        directory = world.mkdir(directory, &name);
    }
    world.file(directory, "n".repeat(20), 1);
    assert_eq!(world.keys().iter().map(String::len).collect::<Vec<_>>(), [1_024]);
    world.file(directory, "n".repeat(21), 1);
    assert_eq!(world.keys().len(), 1);
    world.audit();
}

#[test]
fn symlinks_and_special_nodes_are_not_listed_as_objects() {
    let world = World::new();
    world.symlink(B, "l");
    world.fifo(B, "p");
    world.file(B, "f", 3);
    assert_eq!(world.objects(), [(b"f".to_vec(), 3)]);
    world.audit();
}

#[test]
fn file_hidden_by_a_directory_is_not_listed_for_any_page_size() {
    let world = World::new();
    let hidden = world.put("a", 1);
    for key in ["a/x", "a!", "a!!", "a.txt", "b", "b/x/y", "c"] {
        world.put(key, 1);
    }
    let expected: Vec<&[u8]> = vec![b"a!", b"a!!", b"a.txt", b"a", b"b", b"c"];
    for limit in 1..10 {
        let names = world.names(B, limit);
        let found: Vec<&[u8]> = names.iter().map(|(name, ..)| &name[..]).collect();
        assert_eq!(found, expected, "in pages of {limit}");
        assert!(names.iter().all(|(_, ino, _)| *ino != hidden));
    }
    assert_ne!(world.find(&at(B, "a")), Ok(hidden));
    world.delete(&[b"a/x"]);
    assert_eq!(world.find(&at(B, "a")), Ok(hidden));
}

#[test]
fn dot_and_empty_names_are_not_listed() {
    let world = World::new();
    for key in ["a/", "a//x", "a/./x", "a/../x", "a/.", "a/..", "a/y"] {
        world.put(key, 1);
    }
    let a = world.find(&at(B, "a")).unwrap();
    for limit in 1..9 {
        let names: Vec<Vec<u8>> = world.names(a, limit).into_iter().map(|(n, ..)| n).collect();
        assert_eq!(names, [b"y"], "in pages of {limit}");
    }
}

#[test]
fn listed_name_has_the_head_of_its_inode() {
    let world = World::new();
    let ino = world.file(B, "f", 9);
    let read = namespace::ReadNames { directory: B, from: None, limit: 10, whole_inodes: true };
    let page = world.run(&read).unwrap();
    let [name] = &page.names[..] else { panic!("{page:?}") };
    assert_eq!(name.inode.as_ref(), Some(&world.node(ino).unwrap().inode.head()));
    assert_eq!(name.inode.as_ref().unwrap().file().unwrap().size, 9);
    assert_eq!(page.next, None);
}

#[test]
fn file_in_an_implied_directory_keeps_it_until_the_last_key_is_removed() {
    let world = World::new();
    world.put("a/x", 1);
    let a = world.find(&at(B, "a")).unwrap();
    let inode = world.node(a).unwrap().inode;
    assert_eq!(inode.attributes.mode, DIRECTORY_MODE);
    world.file(a, "y", 1);
    world.delete(&[b"a/x"]);
    assert_eq!(world.find(&at(B, "a")), Ok(a), "a file is left in it");
    world.delete(&[b"a/y"]);
    assert_eq!(world.find(&at(B, "a")), Err(FsError::NoSuchKey), "and goes with the last key");
    world.audit();
}

#[test]
fn readers_of_a_file_may_search_its_implied_directories() {
    for (file, directory) in [(0o644, 0o755), (0o640, 0o750), (0o600, 0o700), (0o660, 0o770)] {
        let world = World::new();
        let (path, ino, fresh) = (Path::new(b"b", b"d/x"), world.ino(), [world.ino()]);
        let mut inode = object_of(inline(1));
        inode.attributes.mode = file;
        world.run(&publish(&path, ino, &fresh, &inode)).unwrap();
        assert_eq!(world.node(ino).unwrap().inode.attributes.mode, file);
        assert_eq!(world.node(fresh[0]).unwrap().inode.attributes.mode, directory);
    }
}
