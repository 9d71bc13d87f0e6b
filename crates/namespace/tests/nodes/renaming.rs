//! Giving nodes other names.

use namespace::{FsError, NodeName, RenameMode, RenameNode, Renamed, Whiteout};
use record::{InodeBody, Special, SpecialKind, key::space};

use crate::memory::Stale;
use crate::world::{B, C, World, at, decision, drive};

use RenameMode::{Exchange, NoReplace, Replace};

/// What a rename answers that neither replaces nor exchanges anything.
fn moved(ino: record::Ino) -> Renamed {
    Renamed { ino, replaced: None, exchanged: None, retention: None }
}

/// Where a directory says that it is.
fn place(world: &World, name: &NodeName) -> (record::Ino, Vec<u8>) {
    let ino = world.find(name).unwrap();
    match world.node(ino).unwrap().inode.body {
        InodeBody::Directory(directory) => (directory.parent, directory.name),
        body => panic!("{body:?} is no directory"),
    }
}

#[test]
fn a_file_takes_a_new_name_and_leaves_the_old_one() {
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
fn an_object_that_is_told_by_its_name_is_not_told_by_a_new_one() {
    let world = World::new();
    let (file, d) = (world.put("a", 5), world.mkdir(B, "d"));
    world.rename(&at(B, "a"), &at(d, "b"), Replace).unwrap();
    world.audit();
    world.delete(&[b"d/b"]);
    assert!(world.node(file).is_ok(), "it is left to the reaper");
    world.audit();
}

#[test]
fn everything_below_a_directory_moves_with_it() {
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
fn a_whiteout_takes_the_old_name_in_the_same_commit() {
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
fn a_whiteout_does_not_take_the_place_of_an_object_behind_a_directory() {
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
fn a_renamed_object_is_modified_no_later_and_changed_now() {
    let world = World::new();
    let file = world.put("a", 5);
    let before = world.node(file).unwrap().inode.attributes;
    world.rename(&at(B, "a"), &at(B, "b"), Replace).unwrap();
    let after = world.node(file).unwrap().inode.attributes;
    assert_eq!(after.modified, before.modified);
    assert!(after.changed > before.changed && after.status_changed > before.status_changed);
}

#[test]
fn a_file_replaces_anything_but_a_directory() {
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
fn a_file_does_not_replace_a_directory_nor_a_directory_a_file() {
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
fn a_directory_replaces_an_empty_directory_alone() {
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
fn the_object_that_stands_for_a_replaced_directory_goes_with_it() {
    let world = World::new();
    let d = world.mkdir(B, "d");
    let marker = world.put("e/", 5);
    world.rename(&at(B, "d"), &at(B, "e"), Replace).unwrap();
    assert_eq!(world.node(marker), Err(FsError::Stale));
    assert_eq!(world.find(&at(B, "e")), Ok(d));
    world.audit();
}

#[test]
fn the_object_that_stands_for_a_directory_moves_with_it() {
    let world = World::new();
    world.put("d/", 5);
    world.rename(&at(B, "d"), &at(B, "e"), Replace).unwrap();
    assert_eq!(world.objects(), [(b"e/".to_vec(), 5)]);
    world.audit();
}

#[test]
fn what_is_not_there_is_not_renamed() {
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
fn a_name_that_is_taken_is_not_replaced_if_it_must_not_be() {
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
fn two_names_of_one_file_stay() {
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
fn nothing_moves_from_one_bucket_to_another() {
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
fn two_nodes_exchange_their_names_whatever_they_are_and_wherever() {
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
fn an_exchange_does_not_write_over_a_file_that_a_directory_hides() {
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
fn a_directory_leaves_the_file_that_it_hid() {
    let world = World::new();
    let hidden = world.put("a", 1);
    world.put("a/x", 1);
    world.rename(&at(B, "a"), &at(B, "b"), Replace).unwrap();
    assert_eq!(world.find(&at(B, "a")), Ok(hidden));
    assert_eq!(world.keys(), ["a", "b/x"]);
    world.audit();
}

#[test]
fn a_file_does_not_come_to_be_behind_a_directory_that_nobody_has_heard_of() {
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
            // It is the directory that has the name.
            _ => world.find(&at(B, "new")).map(moved),
        };
        assert_eq!(answer, expected);
        assert!(world.keys().contains(&"a".to_owned()));
        world.audit();
    }
}

#[test]
fn a_directory_does_not_come_to_be_below_itself() {
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
fn of_two_crossing_moves_of_directories_one_is_refused() {
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
fn a_program_does_not_notice_that_the_directory_it_is_in_was_moved() {
    let world = World::new();
    let (a, d) = (world.mkdir(B, "a"), world.mkdir(B, "d"));
    world.rename(&at(B, "a"), &at(d, "e"), Replace).unwrap();
    let file = world.file(a, "f", 1);
    assert_eq!(world.find(&at(a, "f")), Ok(file));
    assert_eq!(world.keys(), ["d/e/f"]);
    world.audit();
}

#[test]
fn a_put_makes_the_directory_anew_that_was_moved_away() {
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
