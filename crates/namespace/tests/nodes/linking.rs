//! Files with several names, and with none.

use bytes::Bytes;
use namespace::{
    Branch, ContentChange, FsError, Lookup, ObjectChange, Path, Publish, Removal, RemoveName,
    RenameMode, SetObject, TagMatch, WriteCondition, WriteContent,
};
use record::{Content, Dentry, Ino, Tag, key, key::space};

use crate::memory::Stale;
use crate::world::{B, C, KEPT, World, at, drive, inline, object_of, publish};

fn names_of(world: &World, ino: Ino) -> Vec<Dentry> {
    let state = world.state();
    let dentries = state.records.iter().filter(|(at, _)| at.space() == space::DENTRY);
    let dentries = dentries.map(|(at, value)| Dentry::decode(at, value).unwrap());
    dentries.filter(|dentry| dentry.ino == ino).collect()
}

#[test]
fn dentries_are_marked_as_linked_from_the_second_name_on() {
    let world = World::new();
    let ino = world.file(B, "a", 5);
    assert!(!names_of(&world, ino)[0].linked);
    let found = world.link(ino, Some(&at(B, "a")), &at(B, "b")).unwrap();
    assert_eq!((found.ino, found.links()), (ino, 2));
    let names = names_of(&world, ino);
    assert!(names.len() == 2 && names.iter().all(|name| name.linked));
    let c = world.mkdir(B, "d");
    assert_eq!(world.link(ino, None, &at(c, "c")).unwrap().links(), 3);
    assert!(names_of(&world, ino).iter().all(|name| name.linked));
    assert_eq!(world.objects(), [(b"a".to_vec(), 5), (b"b".to_vec(), 5), (b"d/c".to_vec(), 5)]);
    world.audit();
}

#[test]
fn object_with_a_second_name_is_not_self_contained() {
    let world = World::new();
    let ino = world.put("a", 5);
    assert_eq!(names_of(&world, ino)[0].self_contained, Some(5));
    world.link(ino, Some(&at(B, "a")), &at(B, "b")).unwrap();
    assert!(names_of(&world, ino).iter().all(|name| name.self_contained.is_none()));
    world.audit();
    assert_eq!(world.delete(&[b"a"]), [Ok(true)]);
    assert_eq!(world.objects(), [(b"b".to_vec(), 5)]);
    world.audit();
}

#[test]
fn second_link_needs_a_known_first_name() {
    let world = World::new();
    let ino = world.file(B, "a", 1);
    world.file(B, "other", 1);
    for known_name in [None, Some(at(B, "gone")), Some(at(B, "other"))] {
        let linked = world.link(ino, known_name.as_ref(), &at(B, "b"));
        assert_eq!(linked.unwrap_err(), FsError::Stale, "{known_name:?}");
    }
    assert_eq!(world.find(&at(B, "b")), Err(FsError::NoSuchKey));
    world.audit();
}

#[test]
fn link_to_a_bound_name_fails() {
    let world = World::new();
    let ino = world.file(B, "a", 1);
    world.mkdir(B, "d");
    for name in ["a", "d"] {
        let linked = world.link(ino, Some(&at(B, "a")), &at(B, name));
        assert_eq!(linked.unwrap_err(), FsError::NameExists);
    }
    world.audit();
}

#[test]
fn link_of_a_directory_fails() {
    let world = World::new();
    let ino = world.mkdir(B, "d");
    let linked = world.link(ino, Some(&at(B, "d")), &at(B, "e"));
    assert_eq!(linked.unwrap_err(), FsError::LinkedDirectory);
}

#[test]
fn link_into_another_bucket_fails() {
    let world = World::new();
    let ino = world.file(B, "a", 1);
    let linked = world.link(ino, Some(&at(B, "a")), &at(C, "a"));
    assert_eq!(linked.unwrap_err(), FsError::OtherBucket);
    let nameless = world.make_nameless(B, 1).unwrap();
    let linked = world.link(nameless, None, &at(C, "a"));
    assert_eq!(linked.unwrap_err(), FsError::OtherBucket);
    world.audit();
}

#[test]
fn symlinks_and_specials_may_have_several_names() {
    let world = World::new();
    for (ino, name) in [(world.symlink(B, "l"), "l"), (world.fifo(B, "p"), "p")] {
        let second = at(B, name.to_uppercase());
        assert_eq!(world.link(ino, Some(&at(B, name)), &second).unwrap().links(), 2);
        world.audit();
        world.unlink(B, name).unwrap();
        assert_eq!(world.links(ino), 1);
        world.audit();
        world.unlink(B, &second.name).unwrap();
        world.audit();
    }
    assert_eq!(world.state().keys(space::ORPHAN).len(), 2);
}

#[test]
fn removing_one_of_several_names_decrements_the_link_count() {
    let world = World::new();
    let ino = world.file(B, "a", 5);
    for (name, known) in [("b", "a"), ("c", "a")] {
        world.link(ino, Some(&at(B, known)), &at(B, name)).unwrap();
    }
    assert!(!world.unlink(B, "a").unwrap().last);
    assert_eq!(world.links(ino), 2);
    world.delete(&[b"b"]);
    assert_eq!(world.links(ino), 1);
    assert_eq!(world.state().keys(space::ORPHAN), Vec::<&store::Key>::new());
    world.audit();
    assert!(world.unlink(B, "c").unwrap().last);
    assert_eq!(world.state().keys(space::ORPHAN), [&key::orphan(ino)]);
    world.audit();
}

#[test]
fn put_over_one_of_several_names_decrements_the_link_count() {
    let world = World::new();
    let ino = world.file(B, "a", 5);
    world.link(ino, Some(&at(B, "a")), &at(B, "b")).unwrap();
    let new = world.put("a", 7);
    assert_eq!(world.objects(), [(b"a".to_vec(), 7), (b"b".to_vec(), 5)]);
    assert_eq!((world.links(ino), world.links(new)), (1, 1));
    world.audit();
    world.put("b", 9);
    assert_eq!(world.state().keys(space::ORPHAN), [&key::orphan(ino)]);
    world.audit();
}

#[test]
fn rename_over_one_of_several_names_decrements_the_link_count() {
    let world = World::new();
    let (ino, other) = (world.file(B, "a", 5), world.file(B, "x", 6));
    world.link(ino, Some(&at(B, "a")), &at(B, "b")).unwrap();
    let renamed = world.rename(&at(B, "x"), &at(B, "a"), RenameMode::Replace).unwrap();
    assert_eq!(renamed.replaced, Some((ino, false)));
    assert_eq!((world.links(ino), world.links(other)), (1, 1));
    world.audit();
}

#[test]
fn one_plan_removes_two_names_of_one_file() {
    let world = World::new();
    let (ino, third) = (world.file(B, "a", 5), world.file(B, "k", 1));
    world.link(ino, Some(&at(B, "a")), &at(B, "b")).unwrap();
    let d = world.mkdir(B, "d");
    world.link(third, Some(&at(B, "k")), &at(d, "l")).unwrap();
    world.link(third, None, &at(d, "m")).unwrap();
    let removed = world.delete(&[b"a", b"b", b"d/l", b"k"]);
    assert_eq!(removed, [Ok(true); 4]);
    assert_eq!(world.state().keys(space::ORPHAN), [&key::orphan(ino)]);
    assert_eq!(world.links(third), 1);
    world.audit();
}

#[test]
fn unlinked_file_cannot_be_linked_again() {
    let world = World::new();
    let (one, two) = (world.file(B, "a", 5), world.file(B, "x", 5));
    world.link(two, Some(&at(B, "x")), &at(B, "y")).unwrap();
    world.unlink(B, "a").unwrap();
    assert_eq!(world.delete(&[b"x", b"y"]), [Ok(true); 2]);
    for ino in [one, two] {
        for known_name in [None, Some(at(B, "a")), Some(at(B, "x"))] {
            let linked = world.link(ino, known_name.as_ref(), &at(B, "z"));
            let error = linked.expect_err("the reaper would take it from under its name");
            assert!([FsError::Stale, FsError::NoSuchKey].contains(&error), "{error}");
            world.audit();
        }
    }
}

#[test]
fn file_created_unlinked_is_linked_or_reaped() {
    let world = World::new();
    let (kept, left) = (world.make_nameless(B, 5).unwrap(), world.make_nameless(B, 6).unwrap());
    assert_eq!(world.keys(), Vec::<String>::new());
    assert_eq!(world.links(kept), 0);
    world.audit();
    assert_eq!(world.link(kept, None, &at(B, "a")).unwrap().links(), 1);
    assert_eq!(world.state().keys(space::ORPHAN), [&key::orphan(left)]);
    assert!(!names_of(&world, kept)[0].linked);
    assert_eq!(world.objects(), [(b"a".to_vec(), 5)]);
    world.audit();
    world.link(kept, Some(&at(B, "a")), &at(B, "b")).unwrap();
    world.audit();
}

#[test]
fn file_that_the_reaper_has_detached_cannot_be_linked() {
    let world = World::new();
    let ino = world.make_nameless(B, 5).unwrap();
    let mut state = world.state();
    state.records.remove(&key::orphan(ino));
    let world = World::of(&state);
    assert_eq!(world.link(ino, None, &at(B, "a")).unwrap_err(), FsError::NoSuchKey);
}

#[test]
fn write_shows_under_every_name() {
    let world = World::new();
    let ino = world.file(B, "a", 5);
    world.link(ino, Some(&at(B, "a")), &at(B, "b")).unwrap();
    let (content, sums) =
        (Content::Inline(record::InlineBytes::plain(Bytes::from_static(b"eight by"))), Vec::new());
    let change = ContentChange::Replace { content, size: 8, sums };
    let (tag, hidden_ino) = (Tag::Md5([1; 16]), world.ino());
    let known_name = None;
    let change = &change;
    let write = WriteContent {
        ino,
        known_name,
        expected_data_version: None,
        assumptions: &[],
        change,
        tag,
        hidden_ino,
        attributes: &KEPT,
        own_retention: None,
    };
    world.run(&write).unwrap();
    assert_eq!(world.objects(), [(b"a".to_vec(), 8), (b"b".to_vec(), 8)]);
    world.audit();
}

#[test]
fn link_count_is_decremented_despite_a_wrong_hint_of_absence() {
    let world = World::new();
    let ino = world.file(B, "a", 5);
    world.link(ino, Some(&at(B, "a")), &at(B, "b")).unwrap();
    let mut states = [world.state().records];
    states[0].remove(&key::inode(ino));
    let stale = Stale { states: &states, choice: 0, absences: true, sure: true, fickle: None };
    let remove = RemoveName { name: &at(B, "a") };
    drive(&world.store, &remove, world.env(), &stale, None).0.unwrap();
    assert_eq!(world.links(ino), 1);
    world.audit();
}

#[test]
fn conditions_on_one_of_several_names_apply_to_the_file() {
    let world = World::new();
    let ino = world.put("a", 5);
    world.link(ino, Some(&at(B, "a")), &at(B, "b")).unwrap();
    world.link(ino, None, &at(B, "c")).unwrap();
    let tag = world.node(ino).unwrap().inode.file().unwrap().tag;
    let (right, wrong) = (TagMatch::OneOf(vec![tag]), TagMatch::OneOf(vec![Tag::Md5([9; 16])]));
    let remove = |condition: &TagMatch| {
        let condition = Some(condition.clone().into());
        let removals = vec![Removal { name: b"a".to_vec(), condition }];
        let branches = [Branch { directories: Vec::new(), removals }];
        world.remove(&branches)
    };
    assert_eq!(remove(&wrong), [Err(FsError::PreconditionFailed)]);
    assert_eq!(remove(&right), [Ok(true)]);
    assert_eq!(world.links(ino), 2);
    world.audit();
    let put = |condition: TagMatch| {
        let (path, new) = (Path::new(b"b", b"b"), world.ino());
        let (inode, condition) = (object_of(inline(8)), WriteCondition::IfMatch(condition));
        world.run(&Publish { condition: &condition, ..publish(&path, new, &[], &inode) })
    };
    assert_eq!(put(wrong).unwrap_err(), FsError::PreconditionFailed);
    assert_eq!(put(right).unwrap().replaced, Some(ino));
    assert_eq!(world.links(ino), 1);
    assert_eq!(world.objects(), [(b"b".to_vec(), 8), (b"c".to_vec(), 5)]);
    world.audit();
}

#[test]
fn tags_show_under_every_name() {
    let world = World::new();
    let ino = world.file(B, "a", 5);
    world.link(ino, Some(&at(B, "a")), &at(B, "b")).unwrap();
    let tags = [("k".to_owned(), "v".to_owned())];
    world
        .run(&SetObject {
            path: &Path::new(b"b", b"a"),
            version: None,
            expected: None,
            change: ObjectChange::Tags(&tags),
        })
        .unwrap();
    let found = world.run(&Lookup { path: &Path::new(b"b", b"b"), version: None }).unwrap();
    assert_eq!((found.ino, &found.inode.file().unwrap().object.tags[..]), (ino, &tags[..]));
    world.audit();
}

#[test]
fn symlinks_and_special_nodes_are_not_objects() {
    let world = World::new();
    world.symlink(B, "l");
    world.fifo(B, "p");
    for name in ["l", "p"] {
        let path = Path::new(b"b", name.as_bytes());
        assert_eq!(world.run(&Lookup { path: &path, version: None }), Err(FsError::NoSuchKey));
        let tags = SetObject {
            path: &path,
            version: None,
            expected: None,
            change: ObjectChange::Tags(&[]),
        };
        assert_eq!(world.run(&tags), Err(FsError::NoSuchKey));
    }
}
