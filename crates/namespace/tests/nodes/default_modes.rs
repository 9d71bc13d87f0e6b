//! The default encryption of a bucket: a new file gets the mode of the commit which creates it.

use namespace::{MakeFile, MakeNode, NewNode, PlanFile, SetBucketConfig};
use record::{BucketConfig, BucketConfigKind, Encryption, Ino};

use crate::world::{B, KEPT, World, at, empty};

/// Sets the default encryption, as another session: the hints of this one do not change.
fn set_default(world: &World, mode: Option<&Encryption>) {
    let config = BucketConfig { bytes: b"mode"[..].into() };
    let set = SetBucketConfig {
        bucket: b"b".into(),
        kind: BucketConfigKind::Encryption,
        value: mode.map(|_| &config),
        default_retention: None,
        default_encryption: mode,
    };
    world.cold(&set).0.unwrap();
}

fn mode_of(world: &World, ino: Ino) -> Option<Encryption> {
    world.node(ino).unwrap().inode.file().unwrap().encryption.clone()
}

/// A mount has read the settings of the bucket, and a gateway has changed them since.
#[test]
fn new_file_gets_the_default_encryption_of_its_commit() {
    let kms = Encryption::Kms("key".to_owned());
    let modes = [None, Some(&Encryption::S3), Some(&kms)];
    for first in modes {
        for later in modes {
            let case = format!("{first:?}, then {later:?}");
            let world = World::new();
            set_default(&world, first);
            assert_eq!(mode_of(&world, world.file(B, "before", 0)).as_ref(), first, "{case}");
            set_default(&world, later);
            let unlinked = world.make_nameless(B, 0).unwrap();
            assert_eq!(mode_of(&world, unlinked).as_ref(), later, "unlinked: {case}");
            assert_eq!(mode_of(&world, world.file(B, "after", 0)).as_ref(), later, "{case}");
            world.audit();
        }
    }
}

/// The mount has seen the bucket's dentry after the change, but has old settings of it.
#[test]
fn new_file_gets_the_default_encryption_although_the_settings_are_old() {
    let world = World::new();
    set_default(&world, Some(&Encryption::S3));
    // The mount reads the settings.
    world.file(B, "encrypted", 0);
    set_default(&world, None);
    // The mount meets the new dentry, which says that the settings are not needed.
    world.file(B, "plain", 0);
    set_default(&world, Some(&Encryption::Kms("key".to_owned())));
    let ino = world.file(B, "again", 0);
    assert_eq!(mode_of(&world, ino), Some(Encryption::Kms("key".to_owned())));
}

/// A mount decides about a creation while the bucket has no default, and commits it later.
#[test]
fn deferred_creation_gets_the_default_encryption_of_its_commit() {
    let world = World::new();
    let (ino, node, name) = (world.ino(), NewNode::File(Box::new(empty())), at(B, "f"));
    let creation = MakeNode {
        directory: B,
        name: Some(b"f"),
        ino,
        node: &node,
        mode: 0o666,
        umask: 0,
        uid: 3,
        gid: 4,
    };
    let inode = &world.run(&PlanFile { creation }).unwrap().unwrap();
    set_default(&world, Some(&Encryption::S3));
    let make = MakeFile { name: &name, ino, inode, content: None, attributes: &KEPT };
    world.run(&make).unwrap();
    assert_eq!(mode_of(&world, ino), Some(Encryption::S3));
    world.audit();
}
