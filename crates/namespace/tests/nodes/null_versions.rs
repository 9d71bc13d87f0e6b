//! Null versions, changed by a session whose hints of them are old.

use namespace::{
    BucketChange, Exempt, FsError, Lookup, ObjectChange, Path, RemoveVersion, RenameMode,
    RenameNode, SetBucket, SetObject,
};
use record::{Ino, VersionRef, Versioning};

use crate::world::{B, World, at, inline, object_of, publish};

/// A program has moved a directory with a current null version to the key `d/k`, which has a
/// noncurrent null version. `null` then names the current one, and the hints have only the other
/// one. Returns the current one and the noncurrent one.
fn moved() -> (World, Ino, Ino) {
    let world = World::new();
    let noncurrent = world.put(b"d/k", 3);
    let current = world.put(b"e/k", 4);
    let change = BucketChange::Versioning(Versioning::Enabled);
    world.run(&SetBucket { bucket: b"b".into(), change }).unwrap();
    world.put(b"d/k", 5);
    assert_eq!(null(&world), noncurrent);
    world.delete(&[b"d/k"]);
    assert_eq!(world.find(&at(B, "d")), Err(FsError::NoSuchKey));
    let path = Path::new(b"b", b"d/k");
    assert_eq!(
        world.run(&Lookup { path: &path, version: Some(VersionRef::Null) }).unwrap().ino,
        noncurrent
    );
    let rename = RenameNode { from: &at(B, "e"), to: &at(B, "d"), mode: RenameMode::Replace };
    world.cold(&rename).0.unwrap();
    assert_eq!(null(&world), current);
    (world, current, noncurrent)
}

/// The inode number of the null version of `d/k`.
fn null(world: &World) -> Ino {
    let path = Path::new(b"b", b"d/k");
    world.cold(&Lookup { path: &path, version: Some(VersionRef::Null) }).0.unwrap().ino
}

fn remove(path: &Path) -> RemoveVersion<'_> {
    RemoveVersion {
        path,
        version: VersionRef::Null,
        fresh: &[],
        bypasses_governance: false,
        exempt: Exempt::Nothing,
        object_tags: None,
    }
}

#[test]
fn removal_of_the_null_version_removes_the_current_one() {
    let (world, _, noncurrent) = moved();
    world.run(&remove(&Path::new(b"b", b"d/k"))).unwrap();
    assert_eq!(null(&world), noncurrent);
    world.audit();
}

#[test]
fn legal_hold_of_the_null_version_is_that_of_the_current_one() {
    let (world, current, noncurrent) = moved();
    let path = &Path::new(b"b", b"d/k");
    let (version, change) = (Some(VersionRef::Null), ObjectChange::LegalHold(true));
    world.run(&SetObject { path, version, expected: None, change }).unwrap();
    let hold = |ino| world.node(ino).unwrap().inode.file().unwrap().object.lock.legal_hold;
    assert_eq!([current, noncurrent].map(hold), [Some(true), None]);
}

/// Another session has removed the null version of a key, and has put another one. The hints have
/// the first one.
#[test]
fn replaced_null_version_stays_the_null_version() {
    let world = World::new();
    let path = &Path::new(b"b", b"k");
    let change = |versioning| SetBucket {
        bucket: b"b".into(),
        change: BucketChange::Versioning(versioning),
    };
    world.put(b"k", 1);
    world.run(&change(Versioning::Enabled)).unwrap();
    world.put(b"k", 2);
    world.cold(&remove(path)).0.unwrap();
    world.cold(&change(Versioning::Suspended)).0.unwrap();
    let (ino, inode) = (world.ino(), object_of(inline(3)));
    world.cold(&publish(path, ino, &[], &inode)).0.unwrap();
    world.cold(&change(Versioning::Enabled)).0.unwrap();
    world.put(b"k", 4);
    let found = world.cold(&Lookup { path, version: Some(VersionRef::Null) }).0.unwrap();
    assert_eq!(found.ino, ino);
    world.audit();
}
