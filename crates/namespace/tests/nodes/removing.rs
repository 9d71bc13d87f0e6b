//! Removing names.

use namespace::{FsError, RemoveName, RemovedName};
use record::{Kind, key::space};
use store::Key;

use crate::memory::Stale;
use crate::world::{B, World, at, drive};

#[test]
fn unlinked_node_of_any_kind_becomes_an_orphan() {
    let world = World::new();
    world.file(B, "f", 1);
    world.symlink(B, "l");
    world.fifo(B, "p");
    for (name, kind) in [("f", Kind::File), ("l", Kind::Symlink), ("p", Kind::Special)] {
        let ino = world.find(&at(B, name)).unwrap();
        let removed = world.unlink(B, name).unwrap();
        assert_eq!(removed, RemovedName { ino, kind, last: true });
        assert_eq!(world.find(&at(B, name)), Err(FsError::NoSuchKey));
        world.audit();
    }
    assert_eq!(world.state().keys(space::ORPHAN).len(), 3);
}

#[test]
fn self_contained_object_is_deleted_with_its_name() {
    let world = World::new();
    let ino = world.put("a", 5);
    world.unlink(B, "a").unwrap();
    assert_eq!(world.node(ino), Err(FsError::Stale));
    assert_eq!(world.state().keys(space::ORPHAN), Vec::<&Key>::new());
    world.audit();
}

#[test]
fn unlink_and_rmdir_refuse_the_other_kind() {
    let world = World::new();
    world.mkdir(B, "d");
    world.file(B, "f", 1);
    world.symlink(B, "l");
    assert_eq!(world.unlink(B, "d"), Err(FsError::IsADirectory));
    assert_eq!(world.rmdir(B, "f"), Err(FsError::NotADirectory));
    assert_eq!(world.rmdir(B, "l"), Err(FsError::NotADirectory));
    assert_eq!(world.unlink(B, "none"), Err(FsError::NoSuchKey));
    assert_eq!(world.rmdir(B, "none"), Err(FsError::NoSuchKey));
    world.audit();
}

#[test]
fn removing_from_a_removed_directory_or_a_file_fails() {
    let world = World::new();
    let (d, f) = (world.mkdir(B, "d"), world.file(B, "f", 1));
    world.rmdir(B, "d").unwrap();
    assert_eq!(world.unlink(d, "x"), Err(FsError::Stale));
    assert_eq!(world.rmdir(d, "x"), Err(FsError::Stale));
    assert_eq!(world.unlink(f, "x"), Err(FsError::NotADirectory));
    assert_eq!(world.rmdir(f, "x"), Err(FsError::NotADirectory));
}

#[test]
fn only_an_empty_directory_is_removed() {
    let world = World::new();
    let d = world.mkdir(B, "d");
    for name in ["f", "e"] {
        world.file(d, name, 1);
        assert_eq!(world.rmdir(B, "d"), Err(FsError::DirectoryNotEmpty));
    }
    world.unlink(d, "f").unwrap();
    assert_eq!(world.rmdir(B, "d"), Err(FsError::DirectoryNotEmpty));
    world.unlink(d, "e").unwrap();
    world.mkdir(d, "below");
    assert_eq!(world.rmdir(B, "d"), Err(FsError::DirectoryNotEmpty));
    world.rmdir(d, "below").unwrap();
    assert_eq!(world.rmdir(B, "d").unwrap().ino, d);
    assert_eq!(world.node(d), Err(FsError::Stale));
    world.audit();
}

#[test]
fn unlisted_names_keep_a_directory_from_removal() {
    for name in ["a/.", "a//x", "a/../y"] {
        let world = World::new();
        world.put(name, 1);
        assert_eq!(world.rmdir(B, "a"), Err(FsError::DirectoryNotEmpty), "{name}");
    }
}

#[test]
fn removing_a_directory_removes_its_directory_object() {
    for size in [0, 5] {
        let world = World::new();
        let marker = world.put("a/", size);
        let a = world.find(&at(B, "a")).unwrap();
        assert_eq!(world.names(a, 10), []);
        world.file(a, "f", 1);
        assert_eq!(world.rmdir(B, "a"), Err(FsError::DirectoryNotEmpty));
        world.unlink(a, "f").unwrap();
        assert_eq!(world.keys(), ["a/"]);
        world.rmdir(B, "a").unwrap();
        assert_eq!(world.keys(), Vec::<String>::new());
        assert_eq!(world.node(marker), Err(FsError::Stale));
        world.audit();
    }
}

#[test]
fn hidden_file_shows_after_its_directory_is_removed() {
    let world = World::new();
    let (file, d) = (world.put("a", 1), world.mkdir(B, "x"));
    world.put("a/x", 1);
    let a = world.find(&at(B, "a")).unwrap();
    assert_eq!(world.unlink(B, "a"), Err(FsError::IsADirectory));
    world.unlink(a, "x").unwrap();
    world.rmdir(B, "a").unwrap();
    assert_eq!(world.find(&at(B, "a")), Ok(file));
    assert_ne!(d, a);
    world.unlink(B, "a").unwrap();
    world.audit();
}

#[test]
fn unlink_does_not_remove_a_file_hidden_by_an_uncached_directory() {
    let world = World::new();
    let file = world.put("a", 1);
    assert_eq!(world.find(&at(B, "a")), Ok(file));
    // Another process puts a key below the same name, and the hints of this one do not have it.
    let states = [world.state().records];
    world.put("a/x", 1);
    let stale = Stale { states: &states, choice: 0, absences: true, sure: true, fickle: None };
    let remove = RemoveName { name: &at(B, "a") };
    let (removed, _) = drive(&world.store, &remove, world.env(), &stale, None);
    assert_eq!(removed, Err(FsError::IsADirectory));
    world.audit();
}

#[test]
fn s3_delete_keeps_symlinks_and_special_nodes() {
    let world = World::new();
    let (link, fifo) = (world.symlink(B, "l"), world.fifo(B, "p"));
    assert_eq!(world.delete(&[b"l", b"p"]), [Ok(false), Ok(false)]);
    assert_eq!((world.find(&at(B, "l")), world.find(&at(B, "p"))), (Ok(link), Ok(fifo)));
    world.put("a/x", 1);
    let a = world.find(&at(B, "a")).unwrap();
    world.symlink(a, "l");
    assert_eq!(world.delete(&[b"a/x", b"a/l"]), [Ok(true), Ok(false)]);
    assert_eq!(world.find(&at(B, "a")), Ok(a), "something that S3 does not show is left in it");
    world.audit();
}

#[test]
fn s3_put_replaces_a_symlink() {
    let world = World::new();
    world.symlink(B, "l");
    let file = world.put("l", 4);
    assert_eq!(world.find(&at(B, "l")), Ok(file));
    assert_eq!(world.objects(), [(b"l".to_vec(), 4)]);
    world.audit();
}

#[test]
fn s3_delete_keeps_made_directories() {
    let world = World::new();
    let a = world.mkdir(B, "a");
    world.put("a/b/x", 1);
    world.delete(&[b"a/b/x"]);
    assert_eq!(world.find(&at(B, "a")), Ok(a));
    assert_eq!(world.names(a, 10), []);
    world.audit();
}

#[test]
fn unlink_keeps_a_directory_that_becomes_empty() {
    let world = World::new();
    world.put("a/b/x", 1);
    let a = world.find(&at(B, "a")).unwrap();
    let b = world.find(&at(a, "b")).unwrap();
    world.unlink(b, "x").unwrap();
    assert_eq!(world.find(&at(a, "b")), Ok(b));
    world.rmdir(a, "b").unwrap();
    world.rmdir(B, "a").unwrap();
    assert_eq!(world.keys(), Vec::<String>::new());
    world.audit();
}
