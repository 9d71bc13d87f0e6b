//! Files whose creation is decided first and committed later, with their first content.

use bytes::Bytes;
use namespace::{
    Acl, AclKind, AttributeChange, BucketChange, FirstContent, FoundNode, FsError, MakeFile,
    MakeNode, NewNode, NodeName, PlanFile, SetAcl, SetBucket,
};
use record::{Content, Ino, Inode, Quota, Tag, Versioning};

use crate::versions::world_with;
use crate::world::{B, Cost, KEPT, World, at, empty};

/// Decides about the creation of an empty file.
fn decide(world: &World, name: &NodeName) -> Result<Option<(Ino, Inode)>, FsError> {
    let (ino, node) = (world.ino(), NewNode::File(Box::new(empty())));
    let (directory, name) = (name.directory, Some(&name.name[..]));
    let creation =
        MakeNode { directory, name, ino, node: &node, mode: 0o666, umask: 0o022, uid: 3, gid: 4 };
    let (decided, cost) = world.warm(&PlanFile { creation });
    assert_eq!(cost.commits, 0, "a decision commits nothing");
    Ok(decided?.map(|inode| (ino, inode)))
}

fn content(size: usize) -> FirstContent {
    let content = Content::Inline(record::InlineBytes::plain(Bytes::from(vec![b'c'; size])));
    FirstContent { content, size: size as u64, sums: Vec::new(), tag: Tag::Md5([5; 16]) }
}

/// Commits a creation, with this number of bytes.
fn commit(
    world: &World,
    name: &NodeName,
    (ino, inode): &(Ino, Inode),
    size: usize,
    attributes: &AttributeChange,
) -> Result<FoundNode, FsError> {
    let first = content(size);
    let content = (size > 0).then_some(&first);
    world.run(&MakeFile { name, ino: *ino, inode, content, attributes })
}

fn quota(world: &World, bytes: Option<u64>, objects: Option<u64>) {
    let change = BucketChange::Quota(Quota { bytes, objects });
    world.run(&SetBucket { bucket: b"b".into(), change }).unwrap();
}

#[test]
fn committed_file_is_as_it_was_decided_with_content_and_attributes() {
    let world = World::new();
    for size in [0, 7] {
        let name = at(B, format!("f{size}"));
        let decided = decide(&world, &name).unwrap().unwrap();
        assert_eq!(world.find(&name), Err(FsError::NoSuchKey), "a decision creates nothing");
        let change = AttributeChange { mode: Some(0o600), ..KEPT };
        let made = commit(&world, &name, &decided, size, &change).unwrap();
        let file = made.inode.file().unwrap().clone();
        assert_eq!((file.size, file.links), (size as u64, 1));
        assert_eq!(made.inode.attributes.mode, 0o600);
        assert_eq!(made.inode.attributes.created, decided.1.attributes.created);
        assert_eq!(world.node(decided.0).unwrap().inode, made.inode, "as it is stored");
        assert_eq!(world.find(&name), Ok(decided.0));
    }
    assert_eq!(world.objects(), [(b"f0".to_vec(), 0), (b"f7".to_vec(), 7)]);
    world.audit();
}

#[test]
fn creation_with_content_is_one_round_trip() {
    let world = World::new();
    let directory = world.mkdir(B, "d");
    let name = at(directory, "f");
    let (ino, inode) = decide(&world, &name).unwrap().unwrap();
    let first = content(7);
    let content = Some(&first);
    let (result, cost) =
        world.warm(&MakeFile { name: &name, ino, inode: &inode, content, attributes: &KEPT });
    result.unwrap();
    assert_eq!(cost, Cost { reads: 0, commits: 1 });
    world.audit();
}

#[test]
fn decision_has_the_errors_of_a_creation() {
    let world = World::new();
    let (file, gone) = (world.file(B, "file", 1), world.mkdir(B, "gone"));
    world.mkdir(B, "directory");
    world.symlink(B, "symlink");
    world.fifo(B, "fifo");
    world.rmdir(B, "gone").unwrap();
    for name in ["file", "directory", "symlink", "fifo"] {
        assert_eq!(decide(&world, &at(B, name)), Err(FsError::NameExists), "{name}");
    }
    for (directory, error) in
        [(Ino::ROOT, FsError::OnlyBuckets), (gone, FsError::Stale), (file, FsError::NotADirectory)]
    {
        assert_eq!(decide(&world, &at(directory, "x")), Err(error));
        let node = NewNode::File(Box::new(empty()));
        assert_eq!(world.make(&at(directory, "x"), &node), Err(error), "as a creation");
    }
    world.audit();
}

#[test]
fn file_inherits_from_its_directory_as_a_creation_does() {
    let world = World::new();
    let (plain, grouped, listed) = (world.mkdir(B, "p"), world.mkdir(B, "g"), world.mkdir(B, "l"));
    world.set(grouped, AttributeChange { mode: Some(0o2775), gid: Some(77), ..KEPT }).unwrap();
    let mut list = vec![2, 0, 0, 0];
    for (whom, bits, id) in [(1, 7, 0xff), (2, 7, 9), (4, 5, 0xff), (16, 7, 0xff), (32, 0, 0xff)] {
        list.extend_from_slice(&[whom, 0, bits, 0, id, id, id, id]);
    }
    let acl = Acl::parse(&list).unwrap().unwrap();
    let kind = AclKind::Default;
    world.run(&SetAcl { ino: listed, kind, acl: Some(&acl), drop_group_id: false }).unwrap();
    for (directory, mode, gid, lists) in
        [(plain, 0o644, 4, 0), (grouped, 0o644, 77, 0), (listed, 0o660, 4, 1)]
    {
        let (name, same) = (at(directory, "f"), at(directory, "same"));
        let decided = decide(&world, &name).unwrap().unwrap();
        let made = commit(&world, &name, &decided, 3, &KEPT).unwrap().inode;
        let node = NewNode::File(Box::new(empty()));
        let (ino, directory) = (world.ino(), same.directory);
        let name = Some(&same.name[..]);
        let (requested, umask) = (0o666, 0o022);
        let creation =
            MakeNode { directory, name, ino, node: &node, mode: requested, umask, uid: 3, gid: 4 };
        let at_once = world.run(&creation).unwrap();
        for inode in [&made, &at_once] {
            let at = &inode.attributes;
            assert_eq!((at.mode, at.uid, at.gid, inode.bucket), (mode, 3, gid, B));
            assert_eq!(inode.xattrs.len(), lists);
        }
        assert_eq!(made.xattrs, at_once.xattrs);
    }
    world.audit();
}

#[test]
fn bucket_with_a_quota_or_kept_versions_creates_at_once() {
    let world = World::new();
    quota(&world, None, Some(9));
    assert_eq!(decide(&world, &at(B, "f")), Ok(None));
    world.run(&SetBucket { bucket: b"b".into(), change: BucketChange::NoQuota }).unwrap();
    assert!(decide(&world, &at(B, "f")).unwrap().is_some());
    for versioning in [Versioning::Enabled, Versioning::Suspended, Versioning::Trash] {
        let world = world_with(versioning);
        assert_eq!(decide(&world, &at(B, "f")), Ok(None), "{versioning:?}");
        world.file(B, "f", 1);
        assert_eq!(decide(&world, &at(B, "f")), Err(FsError::NameExists), "{versioning:?}");
    }
}

#[test]
fn bucket_that_has_changed_since_the_decision_takes_the_empty_file_only() {
    let changes = [
        BucketChange::Quota(Quota { bytes: Some(100), objects: None }),
        BucketChange::Versioning(Versioning::Enabled),
        BucketChange::Versioning(Versioning::Suspended),
        BucketChange::Versioning(Versioning::Trash),
    ];
    for change in changes {
        let (world, name) = (World::new(), at(B, "f"));
        let decided = decide(&world, &name).unwrap().unwrap();
        let shown = format!("{change:?}");
        world.run(&SetBucket { bucket: b"b".into(), change }).unwrap();
        let refused = commit(&world, &name, &decided, 7, &KEPT);
        assert_eq!(refused.unwrap_err(), FsError::ContentReplaced, "{shown}");
        commit(&world, &name, &decided, 0, &KEPT).unwrap();
        assert_eq!(world.find(&name), Ok(decided.0), "{shown}");
        world.audit();
    }
    let (world, name) = (World::new(), at(B, "f"));
    let decided = decide(&world, &name).unwrap().unwrap();
    world.file(B, "other", 1);
    quota(&world, None, Some(1));
    assert_eq!(commit(&world, &name, &decided, 0, &KEPT), Err(FsError::QuotaExceeded));
    world.audit();
}

#[test]
fn creation_that_has_become_impossible_is_refused() {
    let world = World::new();
    // Another node has the name, of each kind of dentry.
    for other in ["file", "directory"] {
        let name = at(B, format!("taken by a {other}"));
        let decided = decide(&world, &name).unwrap().unwrap();
        match other {
            "file" => world.file(B, &name.name, 1),
            _ => world.mkdir(B, &name.name),
        };
        let before = world.find(&name).unwrap();
        for size in [0, 7] {
            assert_eq!(commit(&world, &name, &decided, size, &KEPT), Err(FsError::NameExists));
        }
        assert_eq!(world.find(&name), Ok(before), "a {other} is not replaced");
    }
    // Its directory is removed.
    let directory = world.mkdir(B, "gone");
    let name = at(directory, "f");
    let decided = decide(&world, &name).unwrap().unwrap();
    world.rmdir(B, "gone").unwrap();
    assert_eq!(commit(&world, &name, &decided, 7, &KEPT), Err(FsError::Stale));
    // Another file has its number.
    let name = at(B, "f");
    let (_, inode) = decide(&world, &name).unwrap().unwrap();
    let other = world.file(B, "other", 1);
    let first = content(7);
    let make = MakeFile {
        name: &name,
        ino: other,
        inode: &inode,
        content: Some(&first),
        attributes: &KEPT,
    };
    assert_eq!(world.cold(&make).0, Err(FsError::InodeNumberInUse));
    assert_eq!(world.node(other).unwrap().inode.file().unwrap().size, 1);
    world.audit();
}

#[test]
fn creation_is_not_repeated_under_another_name() {
    let world = World::new();
    let (name, moved) = (at(B, "f"), at(B, "moved"));
    let decided = decide(&world, &name).unwrap().unwrap();
    commit(&world, &name, &decided, 7, &KEPT).unwrap();
    assert_eq!(commit(&world, &name, &decided, 7, &KEPT), Err(FsError::NameExists));
    world.rename(&name, &moved, namespace::RenameMode::Replace).unwrap();
    let again = commit(&world, &name, &decided, 7, &KEPT);
    assert_eq!(again, Err(FsError::InodeNumberInUse));
    world.audit();
}
