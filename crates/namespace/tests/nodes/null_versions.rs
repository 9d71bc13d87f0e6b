//! A moved directory brings a current null version to a key that has a noncurrent null version.
//! `null` then names the current one, also for a session that has not seen the move.

use namespace::{
    BucketChange, Exempt, FsError, Lookup, ObjectChange, Path, RemoveVersion, RenameMode,
    RenameNode, SetBucket, SetObject,
};
use record::{Ino, VersionRef, Versioning};

use crate::world::{B, World, at};

/// The key `d/k` has two null versions, and the hints have only the noncurrent one. Returns the
/// current one and the noncurrent one.
fn moved() -> (World, Ino, Ino) {
    let world = World::new();
    let noncurrent = world.put(b"d/k", 3);
    let current = world.put(b"e/k", 4);
    let change = BucketChange::Versioning(Versioning::Enabled);
    world.run(&SetBucket { name: b"b", change }).unwrap();
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

#[test]
fn removal_of_the_null_version_removes_the_current_one() {
    let (world, _, noncurrent) = moved();
    let remove = RemoveVersion {
        path: &Path::new(b"b", b"d/k"),
        version: VersionRef::Null,
        fresh: &[],
        bypasses_governance: false,
        exempt: Exempt::Nothing,
        object_tags: None,
    };
    world.run(&remove).unwrap();
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
