//! Objects: answers and costs of lookups, publishing and tagging.

use std::cell::Cell;

use namespace::{
    Assumption, Branch, FsError, Hints, Lookup, NamedBucket, NoHints, ObjectChange,
    ObjectCondition, Path, Publish, Published, Removal, Remove, RenameKey, SetObject, TagMatch,
    WriteCondition,
};
use record::{Attributes, Ino, Inode, RenameToken, Tag, key};
use store::{Key, Value, Write};

use crate::acts::{self, Act, Prepared, if_match};
use crate::memory::Memory;
use crate::world::{Cost, State, World, cost, file, path, tag};

fn publish(
    world: &World,
    warm: bool,
    object: &[u8],
    n: u8,
    condition: &WriteCondition,
) -> (Result<Published, FsError>, Cost) {
    let path = path(object);
    let fresh: Vec<Ino> = path.directories.iter().map(|_| world.ino()).collect();
    let publish = Publish {
        path: &path,
        ino: world.ino(),
        fresh: &fresh,
        inode: &file(n),
        condition,
        assumptions: &[],
        writes: &[],
    };
    let answer = if warm { world.warm(&publish) } else { world.cold(&publish) };
    world.audit();
    answer
}

/// Puts an object. Returns whether it replaced one, and the cost.
fn put(world: &World, warm: bool, object: &[u8], n: u8) -> (bool, Cost) {
    let (answer, cost) = publish(world, warm, object, n, &WriteCondition::None);
    (answer.expect("a PUT").replaced.is_some(), cost)
}

fn look(world: &World, warm: bool, object: &[u8]) -> (Result<Option<Tag>, FsError>, Cost) {
    let path = path(object);
    let lookup = Lookup { path: &path, version: None };
    let (answer, cost) = if warm { world.warm(&lookup) } else { world.cold(&lookup) };
    (answer.map(|found| found.inode.file().map(|file| file.tag)), cost)
}

#[test]
fn put_takes_one_commit_if_its_parents_are_cached() {
    let world = World::new();
    assert_eq!(put(&world, true, b"x", 1), (false, cost(0, 1)), "new");
    assert_eq!(put(&world, true, b"x", 2), (true, cost(0, 1)), "over what is remembered");
    assert_eq!(put(&world, true, b"a/b/c/x", 3), (false, cost(0, 1)), "with its parents");
    assert_eq!(put(&world, true, b"a/b/c/y", 4), (false, cost(0, 1)), "beside another");
    assert_eq!(put(&world, true, b"a/b/d/y", 5), (false, cost(0, 1)), "with one parent");
    assert_eq!(put(&world, true, b"a//x", 6), (false, cost(0, 1)));
    assert_eq!(put(&world, true, b"a/", 7), (false, cost(0, 1)), "a marker");
}

#[test]
fn uncached_put_is_refused_once_for_each_wrong_guess() {
    let world = World::new();
    // One read of the bucket, then the plan.
    assert_eq!(put(&world, false, b"a/b/x", 1), (false, cost(1, 1)));
    // Each existing directory refuses one plan.
    assert_eq!(put(&world, false, b"a/b/y", 2), (false, cost(1, 3)));
    // The replaced file refuses one more.
    assert_eq!(put(&world, false, b"a/b/y", 3), (true, cost(1, 4)));
}

/// Four hundred directories. Without hints each of them takes a pass of its own.
static DEEP: [u8; 400] = [b'/'; 400];

#[test]
fn deep_path_is_not_contention() {
    let world = World::new();
    let run =
        |act: &Act, first| Prepared::new(act, &State::default(), first).run(&world.store, &NoHints);
    let replaced = |answer: String, what: &str| assert!(answer.starts_with(what), "{answer}");
    replaced(run(&acts::put(&DEEP, 1), 10_000), "Ok(Published { replaced: None");
    replaced(run(&acts::put(&DEEP, 2), 20_000), "Ok(Published { replaced: Some(Ino(10000))");
    replaced(run(&Act::Look(&DEEP), 30_000), "Ok(FoundObject { bucket: Ino(1024), ino: Ino(20000)");
    replaced(run(&acts::remove(&DEEP, &[b""]), 40_000), "Ok([Ok(true)])");
    world.audit();
}

#[test]
fn write_condition_is_decided_at_commit() {
    let world = World::new();
    let run = |warm, object: &[u8], n, condition: WriteCondition| {
        let (answer, cost) = publish(&world, warm, object, n, &condition);
        (answer.map(|published| published.replaced.is_some()), cost)
    };
    let any = WriteCondition::IfMatch(TagMatch::Any);
    let absent = WriteCondition::IfAbsent;
    assert_eq!(run(true, b"x", 1, absent.clone()), (Ok(false), cost(0, 1)));
    // The refusal is known from a hint, so it is read before the answer.
    assert_eq!(run(true, b"x", 2, absent.clone()), (Err(FsError::PreconditionFailed), cost(1, 0)));
    assert_eq!(run(false, b"x", 2, absent.clone()), (Err(FsError::PreconditionFailed), cost(2, 1)));
    assert_eq!(run(true, b"x", 3, if_match(1)), (Ok(true), cost(0, 1)));
    assert_eq!(run(true, b"x", 4, if_match(1)), (Err(FsError::PreconditionFailed), cost(1, 0)));
    assert_eq!(run(false, b"x", 5, if_match(3)), (Ok(true), cost(2, 1)));
    assert_eq!(run(true, b"x", 6, any.clone()).0, Ok(true));
    assert_eq!(run(false, b"y", 7, any.clone()).0, Err(FsError::NoSuchKey));
    assert_eq!(run(true, b"a/b", 7, any.clone()).0, Err(FsError::NoSuchKey), "no parent either");
    assert_eq!(run(true, b"a/b", 7, absent).0, Ok(false));
    assert_eq!(look(&world, true, b"x"), (Ok(Some(tag(6))), cost(1, 0)));
}

/// Hints that return another value of one record when it is requested again, as a cache does that
/// other operations update.
#[derive(Debug)]
struct Moved<'a> {
    memory: &'a Memory,
    key: Key,
    /// The value for the first request, and for all others.
    says: [Value; 2],
    asked: Cell<bool>,
}

impl Hints for Moved<'_> {
    fn record(&self, key: &Key) -> Option<Option<Value>> {
        if *key != self.key {
            return self.memory.record(key);
        }
        let turn = usize::from(self.asked.replace(true));
        Some(Some(self.says[turn].clone()))
    }

    fn sibling(&self, directory: Ino, not: &[u8]) -> Option<Key> {
        self.memory.sibling(directory, not)
    }
}

/// The key gets another file between the check of its tag and the guard of it. The old inode still
/// exists until the reaper deletes it.
#[test]
fn condition_and_guard_apply_to_the_same_object() {
    let world = World::new();
    let slot = |world: &World| {
        let mut bound = world.state().records.into_iter();
        bound.find(|(key, _)| key.suffix() == b"x").expect("an object")
    };
    let (_, _) = publish(&world, true, b"x", 1, &WriteCondition::None);
    let (key, first) = slot(&world);
    let (_, _) = publish(&world, true, b"x", 2, &WriteCondition::None);
    let (_, second) = slot(&world);
    assert_ne!(first, second);
    let moved = Moved { memory: &world.memory, key, says: [first, second], asked: Cell::default() };
    let before = world.state();
    let act = acts::put_if(b"x", 3, if_match(1));
    let answer = Prepared::new(&act, &before, 9_000).run(&world.store, &moved);
    assert_eq!(answer, "Err(PreconditionFailed)");
    assert_eq!(world.state(), before, "an object with another tag was replaced");
}

#[test]
fn refused_put_writes_nothing() {
    let world = World::new();
    put(&world, true, b"a/x", 1);
    let before = world.state();
    for (object, condition) in
        [(&b"a/x"[..], WriteCondition::IfAbsent), (b"a/x", if_match(2)), (b"b/c/d", if_match(2))]
    {
        for warm in [false, true] {
            let (answer, _) = publish(&world, warm, object, 9, &condition);
            assert!(answer.is_err(), "{object:?}");
            assert_eq!(world.state(), before, "{object:?}");
        }
    }
}

#[test]
fn lookup_takes_one_read_if_its_parents_are_cached() {
    let world = World::new();
    put(&world, true, b"a/b/x", 1);
    assert_eq!(look(&world, true, b"a/b/x"), (Ok(Some(tag(1))), cost(1, 0)));
    assert_eq!(look(&world, true, b"a/b/y"), (Err(FsError::NoSuchKey), cost(1, 0)));
    // The bucket, two directories, and the file with its inode.
    assert_eq!(look(&world, false, b"a/b/x"), (Ok(Some(tag(1))), cost(4, 0)));
    assert_eq!(look(&world, false, b"c/d/e"), (Err(FsError::NoSuchKey), cost(2, 0)));
    for absent in [&b"a"[..], b"a/b", b"a/", b"a/b/", b"a/b/x/", b"", b"a//b/x"] {
        assert_eq!(look(&world, true, absent).0, Err(FsError::NoSuchKey), "{absent:?}");
    }
    let elsewhere = namespace::Path::new(b"c", b"x");
    let found = world.cold(&Lookup { path: &elsewhere, version: None });
    assert_eq!((found.0.err(), found.1), (Some(FsError::NoSuchBucket), cost(1, 0)));
}

#[test]
fn empty_made_directory_is_an_object() {
    let world = World::new();
    let directory = world.mkdir(Ino(1_024), &[b"a", b"b"]);
    let at = path(b"a/b/");
    let found = world.warm(&Lookup { path: &at, version: None }).0.unwrap();
    assert_eq!((found.ino, found.inode.file()), (directory, None));
    assert_eq!(look(&world, false, b"a/").0, Err(FsError::NoSuchKey), "something is in it");
    put(&world, true, b"a/b/x", 1);
    assert_eq!(look(&world, true, b"a/b/").0, Err(FsError::NoSuchKey));
    put(&world, true, b"a/b/", 2);
    assert_eq!(look(&world, true, b"a/b/").0, Ok(Some(tag(2))), "its marker");
}

#[test]
fn setting_tags_changes_nothing_else() {
    let world = World::new();
    put(&world, true, b"a/x", 1);
    let (at, tags) = (path(b"a/x"), [("k".to_owned(), "v".to_owned())]);
    let before = world.warm(&Lookup { path: &at, version: None }).0.unwrap();
    let set =
        SetObject { path: &at, version: None, expected: None, change: ObjectChange::Tags(&tags) };
    assert_eq!(world.warm(&set), (Ok(None), cost(0, 1)));
    let after = world.warm(&Lookup { path: &at, version: None }).0.unwrap();
    let (old, new) = (before.inode.file().unwrap(), after.inode.file().unwrap());
    assert_eq!(new.object.tags, tags);
    assert_eq!((old.tag, old.size), (new.tag, new.size));
    let status_changed = after.inode.attributes.status_changed;
    assert!(status_changed > before.inode.attributes.status_changed);
    let mut expected = Attributes { status_changed, ..before.inode.attributes };
    assert_eq!(after.inode.attributes, expected);
    assert_eq!(
        world.cold(&SetObject {
            path: &at,
            version: None,
            expected: None,
            change: ObjectChange::Tags(&[])
        }),
        (Ok(None), cost(3, 1))
    );
    let without = world.warm(&Lookup { path: &at, version: None }).0.unwrap().inode;
    expected.status_changed = without.attributes.status_changed;
    assert!(expected.status_changed > status_changed);
    assert_eq!(without, Inode { attributes: expected, ..before.inode });
    let absent = path(b"a/y");
    assert_eq!(
        world
            .warm(&SetObject {
                path: &absent,
                version: None,
                expected: None,
                change: ObjectChange::Tags(&tags)
            })
            .0,
        Err(FsError::NoSuchKey)
    );
}

#[test]
fn copy_is_refused_if_its_source_changes() {
    for (from, to) in [(&b"a/x"[..], &b"a/x"[..]), (b"a/x", b"a/y"), (b"a/x", b"c/z")] {
        let changes = [
            acts::put(b"a/x", 2),
            acts::remove(b"a/", &[b"x"]),
            Act::Tags(b"a/x"),
            // The object is removed and put again, with the same bytes.
            acts::put(b"a/x", 1),
        ];
        for change in changes {
            let world = World::new();
            put(&world, true, b"a/x", 1);
            put(&world, true, b"a/w", 3);
            let copy = Prepared::new(&Act::Copy(from, to), &world.state(), 10_000);
            let copied = World::of(&world.state());
            assert!(copy.run(&copied.store, &NoHints).starts_with("Ok(Published"));
            copied.audit();
            Prepared::new(&change, &world.state(), 20_000).run(&world.store, &NoHints);
            let before = world.state();
            let answer = copy.run(&world.store, &NoHints);
            assert_eq!(answer, "Err(SourceChanged)", "{change:?}, then {from:?} to {to:?}");
            assert_eq!(world.state(), before);
        }
    }
}

#[test]
fn copy_onto_itself_takes_one_commit() {
    let world = World::new();
    put(&world, true, b"a/x", 1);
    let at = path(b"a/x");
    let found = world.warm(&Lookup { path: &at, version: None }).0.unwrap();
    let records = [found.path_records, vec![(key::inode(found.ino), found.record)]].concat();
    let assume = |(key, value)| Assumption { key, value, otherwise: FsError::SourceChanged };
    let assumptions: Vec<Assumption> = records.into_iter().map(assume).collect();
    let publish = Publish {
        path: &at,
        ino: world.ino(),
        fresh: &[world.ino()],
        inode: &found.inode,
        condition: &WriteCondition::None,
        assumptions: &assumptions,
        writes: &[],
    };
    let (answer, spent) = world.warm(&publish);
    assert_eq!((answer.unwrap().replaced, spent), (Some(found.ino), cost(0, 1)));
    world.audit();
}

#[test]
fn records_of_a_number_leased_twice_are_not_overwritten() {
    let world = World::new();
    put(&world, true, b"a/x", 1);
    let taken = world.warm(&Lookup { path: &path(b"a/x"), version: None }).0.unwrap();
    let page = key::map_page(Ino(77_000), 0);
    let page = Write::Put(page.clone(), record::MapPage(vec![]).encode(&page));
    let share = key::share(record::BlockId([5; 16]), Ino(78_000));
    let share = Write::Put(share.clone(), record::Mark.encode(&share));
    world.force(vec![page.clone(), share.clone()]);
    let before = world.state();
    let publish = |ino, fresh: &[Ino], writes: &[Write]| {
        let at = path(b"b/c/z");
        let publish = Publish {
            path: &at,
            ino,
            fresh,
            inode: &file(9),
            condition: &WriteCondition::None,
            assumptions: &[],
            writes,
        };
        world.cold(&publish).0.map(|_| ())
    };
    let free = [Ino(90_001), Ino(90_002)];
    let refused = Err(FsError::InodeNumberInUse);
    assert_eq!(publish(taken.ino, &free, &[]), refused, "an inode");
    assert_eq!(publish(Ino(90_000), &[free[0], taken.ino], &[]), refused, "a directory");
    assert_eq!(publish(Ino(77_000), &free, std::slice::from_ref(&page)), refused, "a page");
    assert_eq!(publish(Ino(78_000), &free, std::slice::from_ref(&share)), refused, "a share");
    let stage = namespace::Stage { ino: Ino(77_000), assumptions: &[], writes: &[page] };
    assert_eq!(world.cold(&stage).0, refused, "a page that is staged");
    let settings = record::Bucket::default();
    let bucket = namespace::MakeBucket {
        name: b"another",
        ino: taken.ino,
        settings: &settings,
        configs: &[],
        owner: (0, 0),
        mode: 0o755,
        versioning: record::Versioning::Off,
    };
    assert_eq!(world.cold(&bucket).0, refused, "a bucket");
    assert_eq!(world.state(), before);
    assert_eq!(publish(Ino(90_000), &free, &[]), Ok(()));
}

#[test]
fn rename_takes_one_commit_if_both_names_are_cached() {
    let world = World::new();
    let run = |warm, from: &[u8], to: &[u8], token| {
        let (from, to) = (path(from), path(to));
        let fresh: Vec<Ino> = to.directories.iter().map(|_| world.ino()).collect();
        let none = ObjectCondition::default();
        let rename =
            RenameKey { from: &from, to: &to, fresh: &fresh, source: &none, target: &none, token };
        let (answer, cost) = if warm { world.warm(&rename) } else { world.cold(&rename) };
        world.audit();
        (answer.map(|renamed| renamed.replaced.is_some()), cost)
    };
    put(&world, true, b"a/b/x", 1);
    put(&world, true, b"a/b/y", 2);
    assert_eq!(run(true, b"a/b/x", b"a/b/z", None), (Ok(false), cost(0, 1)), "beside");
    assert_eq!(run(true, b"a/b/z", b"a/b/y", None), (Ok(true), cost(0, 1)), "over another");
    let request = Some(RenameToken([1; 16]));
    let (first, spent) = run(true, b"a/b/y", b"c/d/e", request);
    assert_eq!(first, Ok(false), "into directories that it makes, out of those that go with it");
    assert!(spent.reads <= 1 && spent.commits == 1, "{spent:?}");
    assert_eq!(look(&world, false, b"c/d/e").0, Ok(Some(tag(1))));
    assert_eq!(look(&world, false, b"a/b/y").0, Err(FsError::NoSuchKey));
    assert_eq!(run(false, b"a/b/y", b"c/d/e", request).0, Ok(false), "the same request once more");
    for warm in [true, false] {
        put(&world, true, b"a/b/y", 3);
        assert_eq!(run(warm, b"a/b/y", b"c/d/e", request).0, Ok(false), "what came since stays");
        assert_eq!(look(&world, false, b"c/d/e").0, Ok(Some(tag(1))));
        assert_eq!(look(&world, false, b"a/b/y").0, Ok(Some(tag(3))));
    }
    let other = Some(RenameToken([2; 16]));
    assert_eq!(run(true, b"a/b/y", b"c/d/e", other).0, Ok(true), "another request");
    assert_eq!(look(&world, false, b"c/d/e").0, Ok(Some(tag(3))));
    let reused = Some(RenameToken([[2; 8], [9; 8]].concat().try_into().unwrap()));
    assert_eq!(run(true, b"c/x", b"c/d/e", reused).0, Err(FsError::OtherRequest));
    let third = Some(RenameToken([4; 16]));
    assert_eq!(run(false, b"a/b/y", b"c/d/e", third).0, Err(FsError::NoSuchKey), "another one");
    assert_eq!(run(false, b"c/d/e", b"c/d/e", None).0, Ok(false), "to itself");
    assert_eq!(run(false, b"a/b/y", b"x", None).0, Err(FsError::NoSuchKey));
}

#[test]
fn rename_beyond_the_plan_limit_fails_with_too_deep() {
    let world = World::new();
    let rename = |from: &Path, to: &Path| {
        let fresh: Vec<Ino> = to.directories.iter().map(|_| world.ino()).collect();
        let none = ObjectCondition::default();
        let rename = RenameKey {
            from,
            to,
            fresh: &fresh,
            source: &none,
            target: &none,
            token: Some(RenameToken([3; 16])),
        };
        world.cold(&rename).0.map(|renamed| renamed.replaced)
    };
    put(&world, true, b"x", 1);
    let before = world.state();
    assert_eq!(rename(&path(b"none"), &path(b"y")), Err(FsError::NoSuchKey));
    assert_eq!(world.state(), before);
    // With 400 directories no plan can create and remove all of them.
    let deep = |name: &[u8], levels| [&name.repeat(levels)[..], b"k"].concat();
    for (levels, verdict) in [(100, Ok(None)), (400, Err(FsError::TooDeep))] {
        let (from, to) = (deep(b"a/", levels), deep(b"b/", levels));
        put(&world, true, &from, 1);
        assert_eq!(rename(&path(&from), &path(&to)), verdict, "{levels}");
    }
    world.audit();
}

#[test]
fn bucket_recreated_under_the_name_is_not_found() {
    let world = World::new();
    put(&world, true, b"x", 1);
    let before = world.state();
    let named = |ino| NamedBucket { name: b"b", ino };
    let other = named(Some(Ino(9_999)));
    let none = ObjectCondition::default();
    let (from, to) = (Path::new(other, b"x"), Path::new(other, b"y"));
    let rename =
        RenameKey { from: &from, to: &to, fresh: &[], source: &none, target: &none, token: None };
    let absent = FsError::NoSuchBucket;
    assert_eq!(world.warm(&Lookup { path: &from, version: None }).0.map(drop), Err(absent));
    assert_eq!(world.warm(&rename).0.map(drop), Err(absent));
    let tags =
        SetObject { path: &from, version: None, expected: None, change: ObjectChange::Tags(&[]) };
    assert_eq!(world.warm(&tags).0, Err(absent));
    let removals = vec![Removal { name: b"x".to_vec(), condition: None }];
    let branches = [Branch { directories: Vec::new(), removals }];
    assert_eq!(world.warm(&Remove { bucket: other, branches: &branches }).0.map(drop), Err(absent));
    let condition = WriteCondition::None;
    let inode = file(1);
    let publish = Publish {
        path: &to,
        ino: world.ino(),
        fresh: &[],
        inode: &inode,
        condition: &condition,
        assumptions: &[],
        writes: &[],
    };
    assert_eq!(world.warm(&publish).0.map(drop), Err(absent));
    assert_eq!(world.state(), before);
    let own = world.warm(&Lookup { path: &Path::new(b"b", b"x"), version: None }).0.unwrap().bucket;
    assert!(
        world.warm(&Lookup { path: &Path::new(named(Some(own)), b"x"), version: None }).0.is_ok()
    );
}
