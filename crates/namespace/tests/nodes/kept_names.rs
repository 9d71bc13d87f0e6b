//! Names of files in buckets with versions or a trash: exchanges with a directory or a link, moves
//! of a directory while the bucket enables object lock, restored files, and files with many links.

use namespace::{
    ContentChange, Exempt, FindUnlinked, FsError, Lookup, Path, RemoveVersion, RemovedVersion,
    RenameMode, Restore, SetBucketConfig, VERSIONED_LINKS_MAX,
};
use record::{BucketConfig, BucketConfigKind, Version, VersionRef, Versioning, key, key::space};

use crate::content::write_as;
use crate::versions::{detach, state, versions_of, world_with};
use crate::world::{B, World, at};

/// If a file changes names with a directory or a symbolic link, its old key has no object any more,
/// and a delete marker is added.
#[test]
fn exchange_with_a_node_that_is_no_object_leaves_a_delete_marker() {
    for versioning in [Versioning::Enabled, Versioning::Suspended] {
        for (other, from, to) in
            [("directory", "a", "x"), ("directory", "x", "a"), ("link", "x", "a")]
        {
            let world = world_with(versioning);
            world.put(b"a", 3);
            let file = world.put(b"a", 4);
            if other == "directory" {
                world.mkdir(B, "x");
            } else {
                world.symlink(B, "x");
            }
            world.rename(&at(B, from), &at(B, to), RenameMode::Exchange).unwrap();
            world.audit();
            let look = |key: &[u8]| {
                let path = Path::new(b"b", key);
                world.run(&Lookup { path: &path, version: None })
            };
            assert_eq!(look(b"x").unwrap().ino, file, "{versioning:?} {other}");
            let gone = look(b"a");
            assert!(matches!(gone, Err(FsError::Deleted(_))), "{versioning:?} {other}: {gone:?}");
        }
    }
}

/// A mount that has not seen that a bucket has object lock does not move a directory of it.
#[test]
fn directory_is_not_moved_once_the_bucket_has_object_lock() {
    for mode in [RenameMode::Replace, RenameMode::Exchange] {
        let world = world_with(Versioning::Enabled);
        world.mkdir(B, "d");
        if mode == RenameMode::Exchange {
            world.mkdir(B, "e");
        }
        world.names(B, 9);
        let allow = SetBucketConfig {
            bucket: b"b".into(),
            kind: BucketConfigKind::ObjectLock,
            value: Some(&BucketConfig { bytes: b"locks"[..].into() }),
            default_retention: None,
            default_encryption: None,
        };
        // The hints still have the bucket without object lock.
        world.cold(&allow).0.unwrap();
        let moved = world.rename(&at(B, "d"), &at(B, "e"), mode);
        assert_eq!(moved.err(), Some(FsError::OtherBucket), "{mode:?}");
    }
}

/// A key is restored, and its directory is created again: after the removal of a delete marker or
/// of a newer version, or from the trash. A program that has the file open knows only its name in
/// the old directory, and its writes succeed.
#[test]
fn restored_file_in_a_new_directory_can_be_written_to() {
    for how in ["marker", "newer", "trash"] {
        let kept = if how == "trash" { Versioning::Trash } else { Versioning::Enabled };
        let world = world_with(kept);
        let ino = world.put(b"d/a", 3);
        let name = at(world.find(&at(B, "d")).unwrap(), "a");
        assert_eq!(world.delete(&[b"d/a"]), [Ok(true)]);
        if how == "newer" {
            world.put(b"d/a", 5);
        }
        let (path, fresh) = (Path::new(b"b", b"d/a"), [world.ino()]);
        let look = || world.run(&Lookup { path: &path, version: None });
        let remove = |version| {
            let remove = RemoveVersion {
                path: &path,
                version,
                fresh: &fresh,
                bypasses_governance: false,
                exempt: Exempt::Nothing,
                object_tags: None,
            };
            assert!(world.run(&remove).unwrap().existed);
        };
        if how == "trash" {
            let state = world.state();
            let (_, version) = key::version_parts(state.keys(space::VERSION)[0]).unwrap();
            world.run(&Restore { path: &path, version, fresh: &fresh, replaces: false }).unwrap();
        } else {
            // The marker is the newest record, or is older than the newer version.
            let newest = || match look() {
                Ok(found) => found.version.unwrap(),
                Err(FsError::Deleted(marker)) => marker,
                Err(error) => panic!("{error}"),
            };
            (0..if how == "newer" { 2 } else { 1 }).for_each(|_| remove(newest()));
        }
        world.audit();
        assert_eq!(look().unwrap().ino, ino, "{how}: it is the same file");
        let written = write_as(&world, ino, Some(&name), &ContentChange::Truncate(1));
        assert!(written.is_ok(), "{how}: {written:?}");
        world.audit();
        assert_eq!(world.objects(), [(b"d/a".to_vec(), 1)], "{how}");
    }
}

/// Each hard link of a file that is removed becomes a version of the file. The number of links is
/// limited by the record of versions, so each of them can be removed, and the file can be written
/// to.
#[test]
fn every_hard_link_of_a_file_can_be_removed() {
    // The longest object keys.
    let path = ["d".repeat(254), "e".repeat(254), "f".repeat(254)];
    let name = |number: u32| format!("{}{number:03}", "n".repeat(250));
    for kept in [Versioning::Enabled, Versioning::Trash] {
        let world = world_with(kept);
        let mut directory = B;
        for name in &path {
            directory = world.mkdir(directory, name);
        }
        let ino = world.file(directory, name(0), 3);
        for number in 1..VERSIONED_LINKS_MAX {
            world.link(ino, Some(&at(directory, name(0))), &at(directory, name(number))).unwrap();
        }
        let more = world.link(ino, Some(&at(directory, name(0))), &at(directory, name(999)));
        assert_eq!(more.err(), Some(FsError::TooManyLinks));
        for number in 0..VERSIONED_LINKS_MAX {
            world.unlink(directory, name(number)).unwrap();
        }
        let longest = world.state();
        let longest = longest.records.values().map(store::Value::len).max().unwrap();
        let limits = store::Limits::LEAST;
        assert!((700_000..limits.value_bytes).contains(&longest), "{longest} bytes");
        assert_eq!(versions_of(&world, detach(&world, ino)), (768, 768));
        world.audit();
    }
    let world = World::new();
    let ino = world.file(B, "k", 3);
    for number in 0..VERSIONED_LINKS_MAX + 9 {
        world.link(ino, Some(&at(B, "k")), &at(B, name(number))).unwrap();
    }
}

/// `st_nlink` and file handles depend on it. The number of links in the inode includes version
/// records, and an orphan keeps the number that it had.
#[test]
fn file_without_a_dentry_is_found_as_unlinked() {
    for (name, expected) in [
        ("current", false),
        ("locked", false),
        ("superseded and named", false),
        ("superseded", true),
        ("superseded and locked", true),
        ("in the trash", true),
        ("unlinked", true),
    ] {
        let (world, ino) = state(name);
        let is_unlinked = |world: &World| world.run(&FindUnlinked { ino }).unwrap().1;
        assert_eq!(is_unlinked(&world), expected, "{name}");
        if name == "superseded and named" {
            world.unlink(B, "b").unwrap();
            assert!(is_unlinked(&world), "{name}, then removed");
        }
        if name == "in the trash" {
            let records = world.state();
            let (_, version) = key::version_parts(records.keys(space::VERSION)[0]).unwrap();
            let path = Path::new(b"b", b"a");
            world.run(&Restore { path: &path, version, fresh: &[], replaces: false }).unwrap();
            assert!(!is_unlinked(&world), "{name}, then restored");
        }
    }
}

/// A key has no current version, because its directory was moved away. Its noncurrent versions are
/// an object, a delete marker and an older object. A removal that spares the latest version never
/// makes the older object current; the removal of the marker by a client does.
#[test]
fn removal_that_spares_the_latest_version_does_not_restore_an_object() {
    let world = world_with(Versioning::Enabled);
    world.put(b"d/a", 1);
    assert_eq!(world.delete(&[b"d/a"]), [Ok(true)]);
    world.put(b"d/a", 2);
    world.put(b"d/a", 3);
    world.rename(&at(B, "d"), &at(B, "e"), RenameMode::Replace).unwrap();
    let state = world.state();
    let versions: Vec<VersionRef> = state
        .keys(space::VERSION)
        .into_iter()
        .map(|at| VersionRef::Id(key::version_parts(at).unwrap().1))
        .collect();
    let [object, marker, older] = versions[..] else { panic!("{versions:?}") };
    let path = Path::new(b"b", b"d/a");
    let remove = |version, exempt| {
        let remove = RemoveVersion {
            path: &path,
            version,
            fresh: &[world.ino()],
            bypasses_governance: false,
            exempt,
            object_tags: None,
        };
        let removed = world.run(&remove).unwrap();
        world.audit();
        removed
    };
    let removed = |was_marker| RemovedVersion { existed: true, was_marker };
    assert_eq!(remove(marker, Exempt::Objects), removed(true), "the marker is not the latest");
    world.delete(&[b"d/a"]);
    let state = world.state();
    let newest = key::version_parts(state.keys(space::VERSION)[0]).unwrap().1;
    let newest = VersionRef::Id(newest);
    for exempt in [Exempt::Current, Exempt::Objects] {
        assert_eq!(remove(newest, exempt), RemovedVersion::default(), "{exempt:?}");
    }
    assert_eq!(remove(object, Exempt::Current), removed(false));
    assert_eq!(remove(newest, Exempt::Nothing), removed(true));
    let current = world.run(&Lookup { path: &path, version: None }).unwrap();
    assert_eq!(current.version, Some(older));
}

/// A program has removed an object and created a node that is no object under its name. The
/// versions of the key can be removed, and the node stays.
#[test]
fn versions_are_removed_below_a_node_that_is_no_object() {
    for kept in [Versioning::Enabled, Versioning::Suspended, Versioning::Trash] {
        for kind in ["symbolic link", "FIFO"] {
            let world = world_with(kept);
            world.put(b"k", 1);
            world.put(b"k", 2);
            world.unlink(B, "k").unwrap();
            let node = if kind == "FIFO" { world.fifo(B, "k") } else { world.symlink(B, "k") };
            let path = Path::new(b"b", b"k");
            let exempt = if kept == Versioning::Trash { Exempt::Current } else { Exempt::Nothing };
            let state = world.state();
            // The newest first, that is, the delete marker of a bucket that shows versions.
            for record in state.keys(space::VERSION) {
                let id = key::version_parts(record).unwrap().1;
                let stored = Version::decode(record, &state.records[record]).unwrap();
                let is_null = kept == Versioning::Suspended && stored.is_null;
                let version = if is_null { VersionRef::Null } else { VersionRef::Id(id) };
                let remove = RemoveVersion {
                    path: &path,
                    version,
                    fresh: &[],
                    bypasses_governance: false,
                    exempt,
                    object_tags: None,
                };
                let removed = world.run(&remove);
                assert!(removed.as_ref().is_ok_and(|it| it.existed), "{kept:?} {kind} {removed:?}");
                world.audit();
                assert_eq!(world.find(&at(B, "k")), Ok(node), "{kept:?}");
                assert!(world.run(&Lookup { path: &path, version: None }).is_err());
            }
            assert!(world.state().keys(space::VERSION).is_empty(), "{kept:?}: all are removed");
        }
    }
}
