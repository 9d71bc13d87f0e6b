//! The states of an inode, each with every planner that changes an inode; and moves of directories
//! in buckets with versions.

use std::fmt::Debug;

use namespace::{
    Acl, AclKind, BucketChange, ContentChange, DetachVersions, Exempt, FsError, Lookup,
    NoncurrentKind, ObjectChange, ObjectItem, Path, Planner, ReadVersions, RemoveVersion,
    RenameKey, RenameMode, RenameNode, SetAccessTime, SetAcl, SetAttributes, SetBucket, SetObject,
    SetObjectItem, SetXattr, VersionsFrom, XattrChange,
};
use record::{
    Header, Ino, Inode, InodeBody, ObjectLock, RetainUntil, RetentionMode, Superseded, Timestamp,
    Version, VersionRef, Versioning, key, key::space,
};

use crate::content::{write, write_as};
use crate::world::{B, KEPT, World, at, inline, object_of, publish};

/// The expected answer of a planner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// It commits.
    Yes,
    /// It changes nothing, without an error.
    Nothing,
    Refused(FsError),
}

use Answer::{Nothing, Refused, Yes};

const LOCKED: Answer = Refused(FsError::Locked);
const NOT_CURRENT: Answer = Refused(FsError::NotCurrent);
const KEPT_AS_IT_IS: Answer = Refused(FsError::VersionKept);

pub(super) fn world_with(versioning: Versioning) -> World {
    let world = World::new();
    world
        .run(&SetBucket { bucket: b"b".into(), change: BucketChange::Versioning(versioning) })
        .unwrap();
    world
}

/// Puts an object with a retention into bucket `b`.
fn put_locked(world: &World, object: &[u8]) -> Ino {
    let until = Timestamp(i64::MAX);
    let retention = Some(RetainUntil { mode: RetentionMode::Compliance, until });
    let mut inode = object_of(inline(3));
    if let InodeBody::File(file) = &mut inode.body {
        file.object.lock = ObjectLock { retention, legal_hold: None };
    }
    let (ino, path) = (world.ino(), Path::new(b"b", object));
    world.run(&publish(&path, ino, &[], &inode)).unwrap();
    ino
}

/// A file in this state, in a new world. If a dentry binds the file, its name is `b`.
pub(super) fn state(name: &str) -> (World, Ino) {
    let in_versions = || world_with(Versioning::Enabled);
    match name {
        "current" => {
            let world = in_versions();
            let ino = world.put(b"b", 3);
            (world, ino)
        }
        "locked" => {
            let world = in_versions();
            let ino = put_locked(&world, b"b");
            (world, ino)
        }
        "superseded" => {
            let world = in_versions();
            let ino = world.put(b"a", 3);
            world.put(b"a", 4);
            (world, ino)
        }
        "superseded and named" => {
            let world = in_versions();
            let ino = world.put(b"a", 3);
            world.link(ino, Some(&at(B, "a")), &at(B, "b")).unwrap();
            world.put(b"a", 4);
            (world, ino)
        }
        "superseded and locked" => {
            let world = in_versions();
            let ino = put_locked(&world, b"a");
            world.put(b"a", 4);
            (world, ino)
        }
        "in the trash" => {
            let world = world_with(Versioning::Trash);
            let ino = world.put(b"a", 3);
            world.unlink(B, "a").unwrap();
            (world, ino)
        }
        "unlinked" => {
            let world = World::new();
            let ino = world.make_nameless(B, 3).unwrap();
            (world, ino)
        }
        other => panic!("no state {other}"),
    }
}

fn answer<P: Planner>(world: &World, operation: &P) -> Answer
where
    P::Output: Debug,
{
    let (answer, cost) = world.warm(operation);
    match answer {
        Ok(_) if cost.commits == 0 => Nothing,
        Ok(_) => Yes,
        Err(error) => Refused(error),
    }
}

/// Runs a change in a new world of this state, and returns its answer. A refused change must not
/// change the inode.
fn run_in(state_name: &str, change: &dyn Fn(&World, Ino) -> Answer) -> Answer {
    let (world, ino) = state(state_name);
    let before = world.state().inode(ino);
    let said = change(&world, ino);
    if said != Yes {
        assert_eq!(world.state().inode(ino), before, "{state_name}: refused, and changed");
    }
    world.audit();
    said
}

/// Runs every planner that changes an inode, each in a new world of this state, and returns their
/// answers.
fn answers(state_name: &str) -> Vec<(&'static str, Answer)> {
    let named = ["current", "locked", "superseded and named"].contains(&state_name);
    let run = |change: &dyn Fn(&World, Ino) -> Answer| run_in(state_name, change);
    let item = |item: ObjectItem| {
        move |world: &World, ino: Ino| {
            answer(world, &SetObjectItem { ino, item: &item, value: Some("v"), must_exist: None })
        }
    };
    let mut all = vec![
        (
            "content",
            run(&|world, ino| {
                let known_name = named.then(|| at(B, "b"));
                match write_as(world, ino, known_name.as_ref(), &ContentChange::Truncate(1)) {
                    Ok(_) => Yes,
                    Err(error) => Refused(error),
                }
            }),
        ),
        (
            "attributes",
            run(&|world, ino| {
                let change = namespace::AttributeChange { mode: Some(0o600), ..KEPT };
                answer(world, &SetAttributes { ino, change: &change })
            }),
        ),
        (
            "read time",
            run(&|world, ino| answer(world, &SetAccessTime { ino, at: Timestamp(i64::MAX) })),
        ),
        (
            "xattr",
            run(&|world, ino| {
                let change = XattrChange::Set(bytes::Bytes::from_static(b"1"));
                answer(world, &SetXattr { ino, known_name: None, name: b"user.x", change: &change })
            }),
        ),
        (
            "acl",
            run(&|world, ino| {
                let acl: Option<&Acl> = None;
                let kind = AclKind::Access;
                answer(world, &SetAcl { ino, kind, acl, drop_group_id: false })
            }),
        ),
        ("header", run(&item(ObjectItem::Header(Header::ContentType)))),
        ("user metadata", run(&item(ObjectItem::User("k".to_owned())))),
        ("tag", run(&item(ObjectItem::Tag("k".to_owned())))),
        (
            "link",
            run(&|world, ino| {
                let name = at(B, "b");
                let known_name = named.then_some(&name);
                match world.link(ino, known_name, &at(B, "link")) {
                    Ok(_) => Yes,
                    Err(error) => Refused(error),
                }
            }),
        ),
    ];
    if named {
        all.extend(answers_by_name(state_name));
    }
    all
}

/// Runs the planners that find an inode by its name.
fn answers_by_name(state_name: &str) -> [(&'static str, Answer); 2] {
    let rename = run_in(state_name, &|world, _| {
        let (from, to) = (&at(B, "b"), &at(B, "renamed"));
        answer(world, &RenameNode { from, to, mode: RenameMode::Replace })
    });
    let tags = run_in(state_name, &|world, _| {
        let tags = [("k".to_owned(), "v".to_owned())];
        let path = Path::new(b"b", b"b");
        let change = ObjectChange::Tags(&tags);
        answer(world, &SetObject { path: &path, version: None, expected: None, change })
    });
    [("rename", rename), ("tags by S3", tags)]
}

/// Each state with its answers: to changes of an inode, and to changes by a name.
const STATES: [(&str, [Answer; 9], &[Answer]); 7] = [
    //            content      attributes   read time xattr        acl
    //            header         user           tag  link
    ("current", [Yes, Yes, Yes, Yes, Yes, Yes, Yes, Yes, Yes], &[Yes, Yes]),
    ("locked", [LOCKED, Yes, Yes, Yes, Yes, LOCKED, LOCKED, Yes, Yes], &[Yes, Yes]),
    (
        "superseded",
        [
            NOT_CURRENT,
            NOT_CURRENT,
            Nothing,
            NOT_CURRENT,
            NOT_CURRENT,
            KEPT_AS_IT_IS,
            KEPT_AS_IT_IS,
            Yes,
            NOT_CURRENT,
        ],
        &[],
    ),
    (
        "superseded and named",
        [
            NOT_CURRENT,
            NOT_CURRENT,
            Nothing,
            NOT_CURRENT,
            NOT_CURRENT,
            NOT_CURRENT,
            NOT_CURRENT,
            NOT_CURRENT,
            NOT_CURRENT,
        ],
        &[NOT_CURRENT, NOT_CURRENT],
    ),
    (
        "superseded and locked",
        [LOCKED, NOT_CURRENT, Nothing, NOT_CURRENT, NOT_CURRENT, LOCKED, LOCKED, Yes, NOT_CURRENT],
        &[],
    ),
    (
        "in the trash",
        [
            NOT_CURRENT,
            NOT_CURRENT,
            Nothing,
            NOT_CURRENT,
            NOT_CURRENT,
            KEPT_AS_IT_IS,
            KEPT_AS_IT_IS,
            Yes,
            NOT_CURRENT,
        ],
        &[],
    ),
    ("unlinked", [Yes, Yes, Yes, Yes, Yes, Yes, Yes, Yes, Yes], &[]),
];

#[test]
fn each_state_admits_its_changes_and_no_others() {
    for (name, all, of_names) in STATES {
        let expected: Vec<Answer> = all.iter().chain(of_names).copied().collect();
        let found = answers(name);
        for ((change, said), expected) in found.iter().zip(&expected) {
            assert_eq!(said, expected, "{name}: {change}");
        }
        assert_eq!(found.len(), expected.len(), "{name}");
    }
}

/// Moves the versions that bind a file to a copy of it, as the volume does.
pub(super) fn detach(world: &World, ino: Ino) -> Ino {
    let found = world.node(ino).unwrap();
    let copy_ino = world.ino();
    let (record, copy) = (&found.record, &found.inode);
    assert!(world.run(&DetachVersions { ino, record, copy_ino, copy, writes: &[] }).unwrap());
    copy_ino
}

/// The number of versions in the record of an inode, and the number of version records that bind
/// it.
pub(super) fn versions_of(world: &World, ino: Ino) -> (usize, usize) {
    let state = world.state();
    let at = key::superseded(ino);
    let listed = state
        .records
        .get(&at)
        .map_or(0, |value| Superseded::decode(&at, value).unwrap().versions.len());
    let bound = state
        .keys(space::VERSION)
        .into_iter()
        .filter(|at| Version::decode(at, &state.records[*at]).unwrap().ino() == Some(ino));
    (listed, bound.count())
}

#[test]
fn detached_version_does_not_change_with_its_file() {
    for name in ["superseded", "superseded and named", "in the trash"] {
        let (world, ino) = state(name);
        let before = world.state().inode(ino);
        let copy = detach(&world, ino);
        world.audit();
        assert_eq!(versions_of(&world, ino), (0, 0), "{name}");
        assert_eq!(versions_of(&world, copy), (1, 1), "{name}");
        write(&world, ino, &ContentChange::Truncate(1)).unwrap();
        world.audit();
        let copied = world.state().inode(copy);
        let same =
            |inode: &Inode| (inode.attributes, inode.file().map(|file| file.content.clone()));
        assert_eq!(same(&copied), same(&before), "{name}");
        let named = name == "superseded and named";
        assert_eq!(world.find(&at(B, "b")).is_ok(), named);
        let orphans = world.state().keys(space::ORPHAN).len();
        assert_eq!(orphans, usize::from(!named), "{name}: it goes when it is closed");
    }
}

#[test]
fn detaching_a_file_without_versions_does_nothing() {
    let (world, ino) = state("current");
    let before = world.state();
    let found = world.node(ino).unwrap();
    let (record, copy) = (&found.record, &found.inode);
    let copy_ino = world.ino();
    let detach = DetachVersions { ino, record, copy_ino, copy, writes: &[] };
    assert_eq!(world.run(&detach), Ok(false));
    assert_eq!(world.state(), before);
}

#[test]
fn two_versions_of_one_file_are_listed_and_released_one_by_one() {
    let world = world_with(Versioning::Enabled);
    let ino = world.put(b"a", 3);
    world.link(ino, Some(&at(B, "a")), &at(B, "b")).unwrap();
    for object in [b"a", b"b"] {
        world.put(object, 4);
        world.audit();
    }
    assert_eq!(versions_of(&world, ino), (2, 2));
    let copy = detach(&world, ino);
    world.audit();
    assert_eq!((versions_of(&world, ino), versions_of(&world, copy)), ((0, 0), (2, 2)));
    for (left, object) in [(1, b"a"), (0, b"b")] {
        let path = Path::new(b"b", object);
        let state = world.state();
        let mut records = state.keys(space::VERSION).into_iter();
        let id = records.find_map(|at| key::version_parts(at).filter(|(key, _)| *key == object));
        let version = VersionRef::Id(id.unwrap().1);
        let exempt = Exempt::Nothing;
        let remove = RemoveVersion {
            path: &path,
            version,
            fresh: &[],
            bypasses_governance: false,
            exempt,
            object_tags: None,
        };
        assert!(world.run(&remove).unwrap().existed);
        world.audit();
        assert_eq!(versions_of(&world, copy), (left, left));
    }
}

/// A directory that was moved can bring a current version that is older than a noncurrent version
/// or a marker. Such keys can be written, deleted, removed by id and renamed, in every versioning
/// state.
#[test]
fn keys_below_a_moved_directory_can_be_changed_and_removed() {
    for versioning in [Versioning::Enabled, Versioning::Suspended] {
        for act in ["put", "delete", "unlink", "rename over", "rename away", "remove by id"] {
            let world = world_with(versioning);
            let (old, new) = (world.mkdir(B, "site"), world.mkdir(B, "site.new"));
            world.file(new, "i", 5);
            world.file(old, "i", 3);
            world.unlink(old, "i").unwrap();
            world.rmdir(B, "site").unwrap();
            let (from, to) = (at(B, "site.new"), at(B, "site"));
            world.rename(&from, &to, RenameMode::Replace).unwrap();
            let path = Path::new(b"b", b"site/i");
            let ok = match act {
                "put" => world.put(b"site/i", 7) > Ino(0),
                "delete" => world.delete(&[b"site/i"]) == [Ok(true)],
                "unlink" => world.unlink(new, "i").is_ok(),
                "rename over" => {
                    world.file(new, "t", 9);
                    let (from, to) = (at(new, "t"), at(new, "i"));
                    world.rename(&from, &to, RenameMode::Replace).is_ok()
                }
                "rename away" => {
                    let (from, to) = (at(new, "i"), at(new, "t"));
                    world.rename(&from, &to, RenameMode::Replace).is_ok()
                }
                _ => {
                    let found = world.run(&Lookup { path: &path, version: None }).unwrap();
                    let remove = RemoveVersion {
                        path: &path,
                        version: found.version.unwrap(),
                        fresh: &[],
                        bypasses_governance: false,
                        exempt: Exempt::Nothing,
                        object_tags: None,
                    };
                    world.run(&remove).unwrap().existed
                }
            };
            assert!(ok, "{versioning:?}: {act}");
            world.audit();
            // The operations can be repeated.
            for _ in 0..3 {
                world.put(b"site/i", 7);
                assert_eq!(world.delete(&[b"site/i"]), [Ok(true)], "{versioning:?}: {act}");
                world.audit();
            }
        }
    }
}

#[test]
fn an_object_with_a_superseded_hard_link_is_renamed_once_its_versions_are_detached() {
    let world = world_with(Versioning::Trash);
    let ino = world.put(b"a", 3);
    world.link(ino, Some(&at(B, "a")), &at(B, "b")).unwrap();
    world.unlink(B, "a").unwrap();
    let (from, to) = (Path::new(b"b", b"b"), Path::new(b"b", b"c"));
    let rename = RenameKey {
        from: &from,
        to: &to,
        fresh: &[],
        source: &namespace::ObjectCondition::default(),
        target: &namespace::ObjectCondition::default(),
        token: None,
    };
    assert_eq!(world.run(&rename), Err(FsError::NotCurrent));
    detach(&world, ino);
    world.run(&rename).unwrap();
    world.audit();
    assert_eq!(world.find(&at(B, "c")), Ok(ino));
}

/// With suspended versioning, a new file of a key replaces the null version of the key. The bucket
/// counts only the bytes that remain.
#[test]
fn replacing_a_null_version_subtracts_its_bytes() {
    for act in ["make", "link"] {
        let world = world_with(Versioning::Suspended);
        world.put(b"a", 3);
        let versioning = BucketChange::Versioning(Versioning::Enabled);
        world.run(&SetBucket { bucket: b"b".into(), change: versioning }).unwrap();
        world.unlink(B, "a").unwrap();
        let ino = world.put(b"b", 5);
        let versioning = BucketChange::Versioning(Versioning::Suspended);
        world.run(&SetBucket { bucket: b"b".into(), change: versioning }).unwrap();
        if act == "make" {
            world.file(B, "a", 0);
        } else {
            world.link(ino, Some(&at(B, "b")), &at(B, "a")).unwrap();
        }
        world.audit();
    }
}

/// A directory that was moved brings a current version that is older than a delete marker of its
/// new key. A page behind the current version shows the marker.
#[test]
fn page_after_the_current_version_shows_newer_noncurrent_ones() {
    let world = world_with(Versioning::Enabled);
    let (old, new) = (world.mkdir(B, "site"), world.mkdir(B, "site.new"));
    world.file(new, "i", 5);
    world.file(old, "i", 3);
    world.unlink(old, "i").unwrap();
    world.rmdir(B, "site").unwrap();
    world.rename(&at(B, "site.new"), &at(B, "site"), RenameMode::Replace).unwrap();
    let path = Path::new(b"b", b"site/i");
    let current = world.run(&Lookup { path: &path, version: None }).unwrap().version.unwrap();
    let list = |from: &VersionsFrom| {
        let (bucket, prefix, kind) = (b"b".into(), &b"site/i"[..], NoncurrentKind::Versions);
        let page = world.run(&ReadVersions { bucket, prefix, from, limit: 10, kind });
        page.unwrap().versions
    };
    let all = list(&VersionsFrom::Key(b"site/i".to_vec()));
    assert!(all.len() == 2 && VersionRef::Id(all[0].id) > current, "{all:?}, {current:?}");
    let behind = |version| list(&VersionsFrom::Version(b"site/i".to_vec(), version));
    assert_eq!(behind(current), all);
    assert_eq!(behind(all[0].version), all[1..]);
    assert_eq!(behind(all[1].version), []);
}

/// A rename makes two versions in one commit: the file under its new key, and the marker of the old
/// key. An exchange makes two files. Their ids differ, so a directory that is moved afterwards
/// never brings a version to a key that has another one of the same id.
#[test]
fn file_moved_back_with_its_directory_can_be_replaced() {
    for mode in [RenameMode::Replace, RenameMode::Exchange] {
        let world = world_with(Versioning::Enabled);
        let (old, new) = (world.mkdir(B, "site"), world.mkdir(B, "site.new"));
        world.file(old, "i", 3);
        if mode == RenameMode::Exchange {
            world.file(new, "i", 4);
        }
        world.rename(&at(old, "i"), &at(new, "i"), mode).unwrap();
        if mode == RenameMode::Exchange {
            world.unlink(old, "i").unwrap();
        }
        world.rename(&at(B, "site.new"), &at(B, "site"), RenameMode::Replace).unwrap();
        world.audit();
        world.put(b"site/i", 7);
        assert_eq!(world.delete(&[b"site/i"]), [Ok(true)], "{mode:?}");
        world.audit();
    }
}
