//! The default retention of a bucket: it is that of the commit which creates the object.

use namespace::{ContentChange, FsError, LinkNode, Path, RetentionChange, SetBucketConfig};
use record::{
    BucketConfig, BucketConfigKind, Inode, InodeBody, ObjectLock, RetainUntil, RetentionDefault,
    RetentionMode, Timestamp, Versioning,
};

use crate::content::write;
use crate::versions::world_with;
use crate::world::{B, Cost, World, at, inline, object_of, publish};

const DAY: RetentionDefault = RetentionDefault { mode: RetentionMode::Compliance, days: 1 };
const MONTH: RetentionDefault = RetentionDefault { mode: RetentionMode::Governance, days: 30 };

/// Sets the default retention, as another session: the hints of this one do not change.
fn set_default(world: &World, default_retention: Option<RetentionDefault>) {
    let set = SetBucketConfig {
        bucket: b"b".into(),
        kind: BucketConfigKind::ObjectLock,
        value: Some(&BucketConfig { bytes: b"locks"[..].into() }),
        default_retention,
        default_encryption: None,
    };
    world.cold(&set).0.unwrap();
}

fn retention(inode: &Inode) -> Option<RetainUntil> {
    inode.file().unwrap().object.lock.retention
}

/// The gateway has read the settings of the bucket at some time before, or never, and another one
/// has changed them since.
#[test]
fn published_object_gets_the_default_retention_of_its_commit() {
    for first in [None, Some(None), Some(Some(DAY))] {
        for later in [None, Some(DAY), Some(MONTH)] {
            let world = world_with(Versioning::Enabled);
            if let Some(default) = first {
                set_default(&world, default);
            }
            let (path, inode) = (Path::new(b"b", b"k"), object_of(inline(3)));
            world.run(&publish(&path, world.ino(), &[], &inode)).unwrap();
            set_default(&world, later);
            let made = world.run(&publish(&path, world.ino(), &[], &inode)).unwrap().inode;
            // The retention begins with the commit.
            let expected = later.map(|default| default.beginning(made.attributes.changed));
            assert_eq!(retention(&made), expected, "{first:?}, then {later:?}");
            world.audit();
        }
    }
}

/// A program writes to a file after another session has set a default. The hint of the bucket is
/// old.
#[test]
fn written_file_gets_the_default_retention_of_its_commit() {
    let world = world_with(Versioning::Enabled);
    let ino = world.file(B, "k", 3);
    write(&world, ino, &ContentChange::Truncate(2)).unwrap();
    set_default(&world, Some(DAY));
    let found = write(&world, ino, &ContentChange::Truncate(2)).unwrap();
    assert_eq!(retention(&found.inode), Some(DAY.beginning(found.inode.attributes.changed)));
}

#[test]
fn requested_retention_replaces_the_default() {
    let world = world_with(Versioning::Enabled);
    set_default(&world, Some(MONTH));
    let until = Timestamp(i64::MAX / 2);
    let requested = Some(RetainUntil { mode: RetentionMode::Compliance, until });
    for (retention_asked, legal_hold) in [(requested, None), (None, Some(true))] {
        let mut inode = object_of(inline(3));
        if let InodeBody::File(file) = &mut inode.body {
            file.object.lock = ObjectLock { retention: retention_asked, legal_hold };
        }
        let path = Path::new(b"b", b"k");
        let made = world.run(&publish(&path, world.ino(), &[], &inode)).unwrap().inode;
        let default = Some(MONTH.beginning(made.attributes.changed));
        assert_eq!(retention(&made), retention_asked.or(default));
        assert_eq!(made.file().unwrap().object.lock.legal_hold, legal_hold);
    }
}

/// A bucket without object lock costs nothing; its settings are neither read nor guarded.
#[test]
fn default_retention_takes_no_round_trip_if_the_settings_are_cached() {
    let (path, inode) = (Path::new(b"b", b"k"), object_of(inline(3)));
    for locks in [false, true] {
        let world = world_with(Versioning::Enabled);
        if locks {
            set_default(&world, Some(DAY));
        }
        world.run(&publish(&path, world.ino(), &[], &inode)).unwrap();
        let (answer, cost) = world.warm(&publish(&path, world.ino(), &[], &inode));
        answer.unwrap();
        assert_eq!(cost, Cost { reads: 0, commits: 1 }, "object lock: {locks}");
    }
}

#[test]
fn link_reports_the_retention_that_it_sets() {
    let world = world_with(Versioning::Enabled);
    set_default(&world, Some(DAY));
    let ino = world.make_nameless(B, 3).unwrap();
    let link = |known_name: Option<&str>, to: &str| {
        let known_name = known_name.map(|name| at(B, name));
        world.run(&LinkNode { ino, known_name: known_name.as_ref(), to: &at(B, to) })
    };
    let first = link(None, "a").unwrap();
    let after = retention(&first.node.inode);
    assert!(after.is_some() && first.is_first_name);
    assert_eq!(first.retention, Some(RetentionChange { before: None, after }));
    set_default(&world, Some(RetentionDefault { days: 2, ..DAY }));
    let second = link(Some("a"), "b").unwrap();
    let change = RetentionChange { before: after, after: retention(&second.node.inode) };
    assert_eq!((second.retention, second.is_first_name), (Some(change), false));
    assert_ne!(change.before, change.after);
    set_default(&world, None);
    let third = link(Some("a"), "c").unwrap();
    assert_eq!((third.retention, third.is_first_name), (None, false));
    assert_eq!(link(None, "c").err(), Some(FsError::NameExists));
}
