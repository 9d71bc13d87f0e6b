//! Removing object keys: effects and costs.

use std::collections::BTreeSet;

use futures::executor::block_on;
use namespace::{
    Branch, FsError, ListQuery, Lookup, NoHints, Removal, Remove, RemoveCondition, Removed,
    TagMatch,
};
use record::{BlockId, Content, Dentry, Ino, Inode, InodeBody, Slice, key};
use store::{Key, MetaStore as _, Plan, Value, Write};

use crate::listing::{put, put_inode};
use crate::memory::Memory;
use crate::world::{Cost, NONCE, World, cost, existed, file, path, tag};

fn remove(
    world: &World,
    warm: bool,
    directory: &[u8],
    names: &[(&[u8], Option<TagMatch>)],
) -> (Result<Vec<Removed>, FsError>, Cost) {
    let directories = path(directory).directories;
    let removal = |(name, condition): &(&[u8], Option<TagMatch>)| Removal {
        name: name.to_vec(),
        condition: condition.clone().map(Into::into),
    };
    let removals: Vec<Removal> = names.iter().map(removal).collect();
    let branches = [Branch { directories, removals }];
    let remove = Remove { bucket: b"b".into(), branches: &branches };
    let answer = if warm { world.warm(&remove) } else { world.cold(&remove) };
    world.audit();
    answer
}

/// Removes one name without a condition.
fn one(world: &World, warm: bool, directory: &[u8], name: &[u8]) -> (bool, Cost) {
    let (answer, cost) = remove(world, warm, directory, &[(name, None)]);
    (existed(answer.unwrap()) == [Ok(true)], cost)
}

/// The number of directories below the bucket.
fn directories(world: &World) -> usize {
    let keys = world.state().records.into_keys();
    let is_directory = |key: &store::Key| key.suffix().ends_with(b"/") && key.partition() != 1;
    let dentry = record::key::space::DENTRY;
    keys.filter(|key| key.space() == dentry && is_directory(key)).count()
}

fn shown(world: &World) -> BTreeSet<Vec<u8>> {
    let query = ListQuery { prefix: Vec::new(), delimiter: None, after: None, limit: 1_000 };
    let page = world.list(b"b", &query, &NoHints).0.unwrap();
    page.entries.iter().map(|entry| entry.key().to_vec()).collect()
}

#[test]
fn removal_takes_one_commit_if_a_sibling_is_cached() {
    let world = World::new();
    for object in [&b"a/b/x"[..], b"a/b/y", b"z"] {
        put(&world, object);
    }
    assert_eq!(one(&world, true, b"a/b/", b"x"), (true, cost(0, 1)));
    assert_eq!(one(&world, true, b"", b"z"), (true, cost(0, 1)), "the bucket stays anyway");
    assert_eq!(one(&world, true, b"a/b/", b"x"), (false, cost(1, 0)), "gone already");
    assert_eq!(one(&world, true, b"c/", b"x"), (false, cost(1, 0)), "never there");
    assert_eq!(one(&world, true, b"a/b/", b"y"), (true, cost(1, 1)), "the last of three");
    assert_eq!(directories(&world), 0);
    assert!(shown(&world).is_empty());
}

#[test]
fn uncached_removal_reads_each_level() {
    let world = World::new();
    put(&world, b"a/b/x");
    put(&world, b"a/b/y");
    // Reads of the bucket, two directories, the name, and the other names in its directories.
    assert_eq!(one(&world, false, b"a/b/", b"x"), (true, cost(5, 1)));
    assert_eq!(one(&world, false, b"a/b/", b"x"), (false, cost(4, 0)));
    assert_eq!(one(&world, false, b"a/b/", b"y"), (true, cost(5, 1)));
}

#[test]
fn removing_the_last_key_removes_only_implied_directories() {
    let world = World::new();
    world.mkdir(Ino(1_024), &[b"a", b"made"]);
    put(&world, b"a/made/b/c/x");
    put(&world, b"a/made/b/y");
    assert_eq!(directories(&world), 4);
    assert!(one(&world, true, b"a/made/b/c/", b"x").0);
    assert_eq!(directories(&world), 3, "b holds y");
    assert!(one(&world, true, b"a/made/b/", b"y").0);
    assert_eq!(directories(&world), 2, "made directories stay");
    assert_eq!(shown(&world), BTreeSet::from([b"a/made/".to_vec()]));
    assert!(!one(&world, true, b"a/made/", b"").0, "an S3 DELETE never removes it");
    assert_eq!(directories(&world), 2);
}

#[test]
fn directory_object_keeps_its_directory() {
    let world = World::new();
    put(&world, b"a/");
    put(&world, b"a/x");
    assert!(one(&world, true, b"a/", b"x").0);
    assert_eq!(shown(&world), BTreeSet::from([b"a/".to_vec()]));
    put(&world, b"a/x");
    assert!(one(&world, true, b"a/", b"").0);
    assert_eq!(shown(&world), BTreeSet::from([b"a/x".to_vec()]), "its children stay");
    assert!(one(&world, true, b"a/", b"x").0);
    assert_eq!(directories(&world), 0);
}

#[test]
fn names_of_one_directory_are_removed_by_one_plan() {
    let world = World::new();
    let names: Vec<Vec<u8>> = (0..250).map(|n| format!("{n:03}").into_bytes()).collect();
    for name in &names {
        put(&world, &[b"a/b/", &name[..]].concat());
    }
    put(&world, b"a/b/stays");
    let batch = |from: usize, to: usize| -> Vec<(&[u8], Option<TagMatch>)> {
        names[from..to].iter().map(|name| (&name[..], None)).collect()
    };
    let (answer, spent) = remove(&world, true, b"a/b/", &batch(0, 249));
    assert_eq!((existed(answer.unwrap()), spent), (vec![Ok(true); 249], cost(1, 1)));
    assert_eq!(directories(&world), 2);
    let mut rest = batch(0, 250);
    rest.push((b"stays", None));
    let (answer, spent) = remove(&world, false, b"a/b/", &rest);
    let mut expected = vec![Ok(false); 249];
    expected.extend([Ok(true), Ok(true)]);
    assert_eq!((existed(answer.unwrap()), spent), (expected, cost(5, 1)));
    assert_eq!(directories(&world), 0);

    names.iter().for_each(|name| put(&world, &[b"a/b/", &name[..]].concat()));
    let (answer, spent) = remove(&world, true, b"a/b/", &batch(0, 250));
    assert_eq!((existed(answer.unwrap()), spent), (vec![Ok(true); 250], cost(1, 1)));
    assert_eq!(directories(&world), 0, "and their directories with them");
}

#[test]
fn failed_condition_keeps_only_its_own_name() {
    let world = World::new();
    for object in [&b"a/x"[..], b"a/y", b"a/z"] {
        put(&world, object);
    }
    // The helper gives a key of three bytes a file of four.
    let (fits, other) = (TagMatch::OneOf(vec![tag(4)]), TagMatch::OneOf(vec![tag(9)]));
    let names = [
        (&b"x"[..], Some(fits.clone())),
        (b"y", Some(other)),
        (b"none", Some(TagMatch::Any)),
        (b"z", None),
        (b"neither", None),
    ];
    for warm in [false, true] {
        let (answer, _) = remove(&world, warm, b"a/", &names);
        let (failed, absent) = (Err(FsError::PreconditionFailed), Err(FsError::NoSuchKey));
        let expected = if warm {
            vec![absent, failed, absent, Ok(false), Ok(false)]
        } else {
            vec![Ok(true), failed, absent, Ok(true), Ok(false)]
        };
        assert_eq!(existed(answer.unwrap()), expected);
    }
    assert_eq!(shown(&world), BTreeSet::from([b"a/y".to_vec()]));
    let (answer, spent) = remove(&world, true, b"a/", &[(b"y", Some(fits.clone()))]);
    assert_eq!((existed(answer.unwrap()), spent.commits), (vec![Ok(true)], 1));
    let (answer, _) = remove(&world, true, b"a/", &[(b"y", Some(fits))]);
    assert_eq!(existed(answer.unwrap()), [Err(FsError::NoSuchKey)], "its directory is gone too");
}

#[test]
fn size_and_time_conditions_are_decided_at_commit() {
    let world = World::new();
    for object in [&b"a"[..], b"bb", b"ccc"] {
        put(&world, object);
    }
    let changed = |object: &[u8]| {
        let (found, _) = world.cold(&Lookup { path: &path(object), version: None });
        found.unwrap().inode.attributes.changed.0.div_euclid(1_000_000_000)
    };
    let remove = |warm, name: &[u8], size, changed_seconds| {
        let condition =
            Some(RemoveCondition { size, changed_seconds, ..RemoveCondition::default() });
        let removals = vec![Removal { name: name.to_vec(), condition }];
        let branches = [Branch { directories: Vec::new(), removals }];
        let remove = Remove { bucket: b"b".into(), branches: &branches };
        let answer = if warm { world.warm(&remove) } else { world.cold(&remove) }.0;
        existed(answer.unwrap())[0]
    };
    let failed = Err(FsError::PreconditionFailed);
    let second = changed(b"a");
    for warm in [false, true] {
        // A key of one byte has a file of two.
        assert_eq!(remove(warm, b"a", Some(3), None), failed);
        assert_eq!(remove(warm, b"a", None, Some(second + 1)), failed);
        assert_eq!(remove(warm, b"a", Some(2), Some(second - 1)), failed, "all must hold");
        assert_eq!(remove(warm, b"a", Some(3), Some(second)), failed, "all must hold");
    }
    assert_eq!(remove(false, b"a", Some(2), Some(second)), Ok(true));
    assert_eq!(remove(true, b"bb", Some(3), None), Ok(true));
    assert_eq!(remove(true, b"ccc", None, Some(changed(b"ccc"))), Ok(true));
    assert_eq!(remove(false, b"a", Some(2), None), Err(FsError::NoSuchKey));
    world.audit();
}

#[test]
fn removal_with_wrong_hints_has_the_right_answer() {
    for directory in [&b""[..], b"a/"] {
        let world = World::new();
        put(&world, &[directory, b"x"].concat());
        // The hints have `y` as absent, and it exists.
        assert!(!one(&world, true, directory, b"y").0);
        let mut elsewhere = World::of(&world.state());
        put(&elsewhere, &[directory, b"y"].concat());
        elsewhere.memory = world.memory;
        let names = [(&b"x"[..], None), (b"y", None)];
        let (answer, _) = remove(&elsewhere, true, directory, &names);
        assert_eq!(existed(answer.unwrap()), [Ok(true), Ok(true)]);
        assert!(shown(&elsewhere).is_empty());
        assert_eq!(directories(&elsewhere), 0);
    }
}

/// The bytes that the bucket counts, and the number of orphans.
fn left(world: &World) -> (i64, usize) {
    let state = world.state();
    let bytes = key::counter(Ino(1_024), key::CounterKind::Bytes);
    let orphans = state.records.keys().filter(|key| key.space() == key::space::ORPHAN).count();
    (state.counters.get(&bytes).copied().unwrap_or(0), orphans)
}

/// A file of three bytes in a block.
fn in_a_block() -> Inode {
    let mut inode = file(3);
    if let InodeBody::File(file) = &mut inode.body {
        let block = BlockId::new(NONCE, 1);
        let slice =
            Slice { position: 0, block, block_length: 3, block_crc32c: 0, offset: 0, length: 3 };
        file.content = Content::Slices(vec![slice]);
    }
    inode
}

#[test]
fn self_contained_files_are_deleted_at_once_and_others_become_orphans() {
    let world = World::new();
    for object in [&b"a/x"[..], b"a/y", b"a/z"] {
        put_inode(&world, object, &file(2));
    }
    assert_eq!(left(&world), (6, 0));
    put_inode(&world, b"a/x", &file(5));
    assert_eq!(left(&world), (9, 0), "what is replaced goes too");
    put_inode(&world, b"a/x", &in_a_block());
    assert_eq!(left(&world), (7, 0));
    put_inode(&world, b"a/x", &file(4));
    assert_eq!(left(&world), (11, 1), "the block's owner awaits the reaper, and is counted");
    assert_eq!(one(&world, true, b"a/", b"y"), (true, cost(0, 1)));
    assert_eq!(left(&world), (9, 1));
    let both = [(&b"x"[..], None), (b"z", None), (b"none", None)];
    let (answer, spent) = remove(&world, false, b"a/", &both);
    assert_eq!((existed(answer.unwrap()), spent.commits), (vec![Ok(true), Ok(true), Ok(false)], 1));
    assert_eq!(left(&world), (3, 1), "what was read is known as well");
}

#[test]
fn dentry_mark_decides_if_a_file_is_deleted_at_once() {
    for (overwritten, tells) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut world = World::new();
        put(&world, b"x");
        put(&world, b"y");
        let names = Memory::default();
        let state = world.state();
        let marked = state.records.iter().filter(|(key, _)| key.space() == key::space::DENTRY);
        let name = |(key, value): (&Key, &Value)| {
            let dentry = Dentry::decode(key, value).unwrap();
            let silent = Dentry { self_contained: None, ..dentry };
            Write::Put(key.clone(), if tells { dentry } else { silent }.encode(key))
        };
        let plan = Plan { guards: Vec::new(), writes: marked.map(name).collect() };
        block_on(world.store.commit(std::slice::from_ref(&plan))).unwrap();
        // The model does not have the marks of the inodes.
        let files = state.records.iter().filter(|(key, _)| key.space() == key::space::INODE);
        let retold = |(key, value): (&Key, &Value)| {
            let mut inode = Inode::decode(key, value).unwrap();
            if let InodeBody::File(file) = &mut inode.body {
                file.marked_in_dentry = tells;
            }
            Write::Put(key.clone(), inode.encode(key))
        };
        let inodes = Plan { guards: Vec::new(), writes: files.map(retold).collect() };
        block_on(world.store.commit(std::slice::from_ref(&inodes))).unwrap();
        names.apply(&plan);
        world.memory = names;
        let before = left(&world).0;
        if overwritten {
            put_inode(&world, b"x", &file(7));
            assert_eq!(left(&world), if tells { (before + 5, 0) } else { (before + 7, 1) });
        } else {
            assert_eq!(one(&world, true, b"", b"x"), (true, cost(0, 1)), "that is enough to know");
            assert_eq!(left(&world), if tells { (before - 2, 0) } else { (before, 1) });
        }
    }
}
