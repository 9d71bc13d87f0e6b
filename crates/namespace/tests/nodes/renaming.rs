//! Renaming nodes.

use namespace::{FsError, NodeName, RenameMode, RenameNode, Renamed, Whiteout};
use record::{InodeBody, Special, SpecialKind, key::space};

use crate::memory::Stale;
use crate::world::{B, C, World, at, decision, drive};

use RenameMode::{Exchange, NoReplace, Replace};

/// The answer of a rename that neither replaces nor exchanges a node.
fn moved(ino: record::Ino) -> Renamed {
    Renamed { ino, replaced: None, exchanged: None, retention: None }
}

/// The parent and name in the inode of a directory.
fn place(world: &World, name: &NodeName) -> (record::Ino, Vec<u8>) {
    let ino = world.find(name).unwrap();
    match world.node(ino).unwrap().inode.body {
        InodeBody::Directory(directory) => (directory.parent, directory.name),
        body => panic!("{body:?} is no directory"),
    }
}

#[test]
fn rename_moves_a_file_from_the_old_name_to_the_new() {
    let world = World::new();
    let (file, d) = (world.file(B, "a", 5), world.mkdir(B, "d"));
    let renamed = world.rename(&at(B, "a"), &at(d, "b"), Replace).unwrap();
    assert_eq!(renamed, moved(file));
    assert_eq!(world.find(&at(B, "a")), Err(FsError::NoSuchKey));
    assert_eq!(world.find(&at(d, "b")), Ok(file));
    assert_eq!(world.objects(), [(b"d/b".to_vec(), 5)]);
    world.audit();
}

#[test]
fn renamed_object_is_not_marked_as_self_contained() {
    let world = World::new();
    let (file, d) = (world.put("a", 5), world.mkdir(B, "d"));
    world.rename(&at(B, "a"), &at(d, "b"), Replace).unwrap();
    world.audit();
    world.delete(&[b"d/b"]);
    assert!(world.node(file).is_ok(), "it is left to the reaper");
    world.audit();
}

#[test]
fn renaming_a_directory_moves_everything_below_it() {
    let world = World::new();
    world.put("a/b/x", 1);
    world.put("a/y", 1);
    let d = world.mkdir(B, "d");
    let a = world.find(&at(B, "a")).unwrap();
    world.rename(&at(B, "a"), &at(d, "e"), Replace).unwrap();
    assert_eq!(world.keys(), ["d/e/b/x", "d/e/y"]);
    assert_eq!(place(&world, &at(d, "e")), (d, b"e".to_vec()));
    assert_eq!((world.links(B), world.links(d), world.links(a)), (3, 3, 3));
    world.audit();
    world.rename(&at(d, "e"), &at(d, "f"), Replace).unwrap();
    assert_eq!(place(&world, &at(d, "f")), (d, b"f".to_vec()));
    world.audit();
}

#[test]
fn whiteout_is_bound_to_the_old_name_in_the_same_commit() {
    let world = World::new();
    let whiteout = |replaces| Whiteout { ino: world.ino(), uid: 3, gid: 4, replaces };
    let (file, d) = (world.file(B, "a", 5), world.mkdir(B, "d"));
    let directory = world.mkdir(B, "e");
    let over = world.file(d, "b", 7);
    let refused = RenameMode::Whiteout(whiteout(false));
    let renamed = world.rename(&at(B, "a"), &at(d, "b"), refused);
    assert_eq!(renamed, Err(FsError::NameExists));
    let left = whiteout(true);
    let renamed = world.rename(&at(B, "a"), &at(d, "b"), RenameMode::Whiteout(left)).unwrap();
    assert_eq!(renamed, Renamed { replaced: Some((over, true)), ..moved(file) });
    assert_eq!(world.find(&at(d, "b")), Ok(file));
    assert_eq!(world.find(&at(B, "a")), Ok(left.ino));
    let found = world.node(left.ino).unwrap().inode;
    let special = Special { kind: SpecialKind::Character, device: 0, links: 1 };
    assert_eq!(found.body, InodeBody::Special(special));
    assert_eq!((found.attributes.mode, found.attributes.uid, found.attributes.gid), (0, 3, 4));
    let left = whiteout(false);
    world.rename(&at(B, "e"), &at(d, "e"), RenameMode::Whiteout(left)).unwrap();
    assert_eq!(world.find(&at(d, "e")), Ok(directory));
    assert_eq!(world.find(&at(B, "e")), Ok(left.ino), "of a directory, too");
    assert_eq!(world.keys(), ["d/b", "d/e/"], "S3 shows no whiteout");
    world.audit();
    world.unlink(B, "a").unwrap();
    world.unlink(B, "e").unwrap();
    world.audit();
}

#[test]
fn whiteout_does_not_replace_an_object_hidden_by_a_directory() {
    let world = World::new();
    world.put("a", 5);
    world.put("a/b", 1);
    let whiteout = Whiteout { ino: world.ino(), uid: 3, gid: 4, replaces: true };
    let renamed = world.rename(&at(B, "a"), &at(B, "c"), RenameMode::Whiteout(whiteout));
    assert_eq!(renamed, Err(FsError::NameExists));
    assert_eq!(world.keys(), ["a", "a/b"]);
    world.audit();
}

#[test]
fn rename_keeps_mtime_and_sets_last_modified() {
    let world = World::new();
    let file = world.put("a", 5);
    let before = world.node(file).unwrap().inode.attributes;
    world.rename(&at(B, "a"), &at(B, "b"), Replace).unwrap();
    let after = world.node(file).unwrap().inode.attributes;
    assert_eq!(after.modified, before.modified);
    assert!(after.changed > before.changed && after.status_changed > before.status_changed);
}

#[test]
fn file_can_replace_any_node_but_a_directory() {
    let world = World::new();
    for (n, name) in (0..).zip(["f", "l", "p"]) {
        world.file(B, "f", 1);
        world.symlink(B, "l");
        world.fifo(B, "p");
        let target = world.find(&at(B, name)).unwrap();
        let source = world.file(B, "source", n);
        let renamed = world.rename(&at(B, "source"), &at(B, name), Replace).unwrap();
        assert_eq!(renamed, Renamed { replaced: Some((target, true)), ..moved(source) });
        world.audit();
        for name in ["f", "l", "p"] {
            world.unlink(B, name).unwrap();
        }
        world.audit();
    }
}

#[test]
fn file_and_directory_do_not_replace_each_other() {
    let world = World::new();
    let d = world.mkdir(B, "d");
    world.file(B, "f", 1);
    world.symlink(B, "l");
    for name in ["f", "l"] {
        let renamed = world.rename(&at(B, name), &at(B, "d"), Replace);
        assert_eq!(renamed, Err(FsError::IsADirectory));
        let renamed = world.rename(&at(B, "d"), &at(B, name), Replace);
        assert_eq!(renamed, Err(FsError::NotADirectory));
    }
    assert_eq!(world.find(&at(B, "d")), Ok(d));
    world.audit();
}

#[test]
fn directory_can_replace_only_an_empty_directory() {
    let world = World::new();
    let (d, e) = (world.mkdir(B, "d"), world.mkdir(B, "e"));
    world.file(d, "inside", 1);
    world.file(e, "f", 1);
    let renamed = world.rename(&at(B, "d"), &at(B, "e"), Replace);
    assert_eq!(renamed, Err(FsError::DirectoryNotEmpty));
    world.unlink(e, "f").unwrap();
    let renamed = world.rename(&at(B, "d"), &at(B, "e"), Replace).unwrap();
    assert_eq!(renamed, Renamed { replaced: Some((e, true)), ..moved(d) });
    assert_eq!(world.node(e), Err(FsError::Stale));
    assert_eq!(world.keys(), ["e/inside"]);
    world.audit();
}

#[test]
fn directory_object_is_removed_with_a_replaced_directory() {
    let world = World::new();
    let d = world.mkdir(B, "d");
    let marker = world.put("e/", 5);
    world.rename(&at(B, "d"), &at(B, "e"), Replace).unwrap();
    assert_eq!(world.node(marker), Err(FsError::Stale));
    assert_eq!(world.find(&at(B, "e")), Ok(d));
    world.audit();
}

#[test]
fn directory_object_moves_with_its_directory() {
    let world = World::new();
    world.put("d/", 5);
    world.rename(&at(B, "d"), &at(B, "e"), Replace).unwrap();
    assert_eq!(world.objects(), [(b"e/".to_vec(), 5)]);
    world.audit();
}

#[test]
fn renaming_a_free_name_fails() {
    let world = World::new();
    let d = world.mkdir(B, "d");
    world.file(B, "f", 1);
    for mode in [Replace, NoReplace, Exchange] {
        let renamed = world.rename(&at(B, "none"), &at(B, "f"), mode);
        assert_eq!(renamed, Err(FsError::NoSuchKey));
    }
    assert_eq!(world.rename(&at(B, "f"), &at(B, "none"), Exchange), Err(FsError::NoSuchKey));
    world.rmdir(B, "d").unwrap();
    assert_eq!(world.rename(&at(B, "f"), &at(d, "x"), Replace), Err(FsError::Stale));
    assert_eq!(world.rename(&at(d, "x"), &at(B, "f"), Replace), Err(FsError::Stale));
    world.audit();
}

#[test]
fn rename_noreplace_fails_for_a_bound_name() {
    let world = World::new();
    let file = world.file(B, "f", 1);
    world.file(B, "g", 1);
    world.mkdir(B, "d");
    for name in ["g", "d", "f"] {
        let renamed = world.rename(&at(B, "f"), &at(B, name), NoReplace);
        assert_eq!(renamed, Err(FsError::NameExists), "{name}");
    }
    world.rename(&at(B, "f"), &at(B, "h"), NoReplace).unwrap();
    assert_eq!(world.find(&at(B, "h")), Ok(file));
    world.audit();
}

#[test]
fn rename_between_hard_links_of_one_file_changes_nothing() {
    let world = World::new();
    let file = world.file(B, "a", 1);
    world.link(file, Some(&at(B, "a")), &at(B, "b")).unwrap();
    let before = world.state();
    for mode in [Replace, Exchange] {
        for to in ["a", "b"] {
            let renamed = world.rename(&at(B, "a"), &at(B, to), mode).unwrap();
            assert_eq!(renamed, moved(file));
        }
    }
    assert_eq!(world.rename(&at(B, "a"), &at(B, "b"), NoReplace), Err(FsError::NameExists));
    assert_eq!(world.state(), before);
}

#[test]
fn rename_into_another_bucket_fails() {
    let world = World::new();
    world.file(B, "f", 1);
    world.mkdir(B, "d");
    world.file(C, "g", 1);
    for name in ["f", "d"] {
        assert_eq!(world.rename(&at(B, name), &at(C, "x"), Replace), Err(FsError::OtherBucket));
        assert_eq!(world.rename(&at(B, name), &at(C, "g"), Exchange), Err(FsError::OtherBucket));
    }
    world.audit();
}

#[test]
fn nodes_of_all_kinds_and_places_can_be_exchanged() {
    let kinds = ["file", "directory", "symlink", "fifo"];
    for first in kinds {
        for second in kinds {
            for apart in [false, true] {
                let world = World::new();
                let elsewhere = if apart { world.mkdir(B, "elsewhere") } else { B };
                let make = |directory, name, kind| match kind {
                    "file" => world.file(directory, name, 5),
                    "directory" => {
                        let ino = world.mkdir(directory, name);
                        world.file(ino, "inside", 1);
                        ino
                    }
                    "symlink" => world.symlink(directory, name),
                    _ => world.fifo(directory, name),
                };
                let (one, two) = (make(B, "one", first), make(elsewhere, "two", second));
                let (from, to) = (at(B, "one"), at(elsewhere, "two"));
                let renamed = world.rename(&from, &to, Exchange).unwrap();
                assert_eq!(renamed, Renamed { exchanged: Some(two), ..moved(one) });
                assert_eq!((world.find(&from), world.find(&to)), (Ok(two), Ok(one)));
                world.audit();
            }
        }
    }
}

#[test]
fn exchange_does_not_overwrite_a_hidden_file() {
    let world = World::new();
    let hidden = world.put("a", 1);
    world.put("a/x", 1);
    world.file(B, "f", 2);
    for (from, to) in [("f", "a"), ("a", "f")] {
        let renamed = world.rename(&at(B, from), &at(B, to), Exchange);
        assert_eq!(renamed, Err(FsError::NameExists));
    }
    assert_eq!(world.node(hidden).unwrap().links(), 1);
    assert_eq!(world.keys(), ["a", "a/x", "f"]);
    world.audit();
}

#[test]
fn hidden_file_stays_when_its_directory_moves() {
    let world = World::new();
    let hidden = world.put("a", 1);
    world.put("a/x", 1);
    world.rename(&at(B, "a"), &at(B, "b"), Replace).unwrap();
    assert_eq!(world.find(&at(B, "a")), Ok(hidden));
    assert_eq!(world.keys(), ["a", "b/x"]);
    world.audit();
}

#[test]
fn file_is_not_moved_behind_an_uncached_directory() {
    for (from, to) in [("f", "a"), ("a", "f"), ("a", "new")] {
        let world = World::new();
        world.put("a", 1);
        world.put("f", 1);
        let states = [world.state().records];
        world.put("a/x", 1);
        let stale = Stale { states: &states, choice: 0, absences: true, sure: true, fickle: None };
        let rename = RenameNode { from: &at(B, from), to: &at(B, to), mode: Replace };
        let answer = drive(&world.store, &rename, world.env(), &stale, None).0;
        let expected = match (from, to) {
            ("f", _) => Err(FsError::IsADirectory),
            (_, "f") => Err(FsError::NotADirectory),
            // The directory has the name.
            _ => world.find(&at(B, "new")).map(moved),
        };
        assert_eq!(answer, expected);
        assert!(world.keys().contains(&"a".to_owned()));
        world.audit();
    }
}

#[test]
fn moving_a_directory_below_itself_fails() {
    let world = World::new();
    let a = world.mkdir(B, "a");
    let b = world.mkdir(a, "b");
    let c = world.mkdir(b, "c");
    for to in [at(a, "x"), at(b, "x"), at(c, "x")] {
        assert_eq!(world.rename(&at(B, "a"), &to, Replace), Err(FsError::BelowItself));
    }
    for (one, other) in [(at(B, "a"), at(a, "b")), (at(B, "a"), at(b, "c"))] {
        assert_eq!(world.rename(&one, &other, Exchange), Err(FsError::BelowItself));
        assert_eq!(world.rename(&other, &one, Exchange), Err(FsError::BelowItself));
        let replaced = world.rename(&other, &one, Replace);
        assert_eq!(replaced, Err(FsError::DirectoryNotEmpty));
    }
    world.file(c, "f", 1);
    assert_eq!(world.rename(&at(c, "f"), &at(B, "a"), Exchange), Err(FsError::BelowItself));
    world.audit();
}

#[test]
fn one_of_two_crossing_directory_moves_is_refused() {
    let crossings: [[(&str, &str); 2]; 2] =
        [[("a", "b"), ("b", "a")], [("a", "b/c"), ("b", "a/c")]];
    for moves in crossings {
        let world = World::new();
        for name in ["a", "b"] {
            let ino = world.mkdir(B, name);
            world.mkdir(ino, "c");
        }
        let directory = |path: &str| {
            path.split('/').fold(B, |directory, name| world.find(&at(directory, name)).unwrap())
        };
        let names = moves.map(|(from, into)| (at(B, from), at(directory(into), "moved")));
        for (_, to) in &names {
            assert_eq!(world.find(to), Err(FsError::NoSuchKey));
        }
        let plans: Vec<store::Plan> = names
            .iter()
            .map(|(from, to)| {
                let rename = RenameNode { from, to, mode: Replace };
                let mut run = namespace::Run::new(&rename, world.env());
                match run.advance(&world.memory) {
                    namespace::Next::Commit(plan, _) => plan,
                    next => panic!("{next:?}, though all of it is remembered"),
                }
            })
            .collect();
        assert_eq!(decision(&world.store, &plans[0]), store::Verdict::Committed);
        let second = decision(&world.store, &plans[1]);
        assert!(matches!(second, store::Verdict::Refused { .. }), "{second:?}");
        world.audit();
        let (from, to) = &names[1];
        let rename = RenameNode { from, to, mode: Replace };
        assert_eq!(world.cold(&rename).0, Err(FsError::BelowItself));
    }
}

#[test]
fn program_keeps_using_its_directory_after_a_move() {
    let world = World::new();
    let (a, d) = (world.mkdir(B, "a"), world.mkdir(B, "d"));
    world.rename(&at(B, "a"), &at(d, "e"), Replace).unwrap();
    let file = world.file(a, "f", 1);
    assert_eq!(world.find(&at(a, "f")), Ok(file));
    assert_eq!(world.keys(), ["d/e/f"]);
    world.audit();
}

#[test]
fn put_creates_a_directory_that_was_moved_away() {
    let world = World::new();
    world.put("a/x", 1);
    world.rename(&at(B, "a"), &at(B, "b"), Replace).unwrap();
    world.put("a/y", 1);
    assert_eq!(world.keys(), ["a/y", "b/x"]);
    world.delete(&[b"b/x", b"a/y"]);
    assert_eq!(world.keys(), Vec::<String>::new());
    assert_eq!(world.state().keys(space::INODE).len(), 2);
    world.audit();
}
