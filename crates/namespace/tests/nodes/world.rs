//! A store with two buckets, a clock, and the operations of two kinds of clients: file programs by
//! inode number and name, and S3 clients by key.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::Debug;

use bytes::Bytes;
use futures::executor::block_on;
use namespace::{
    AttributeChange, Branch, Env, FILE_MODE, FindName, FindNode, FoundNode, FsError, Hints,
    LinkNode, ListEntry, ListQuery, ListStart, MakeBucket, MakeNode, NewNode, Next, NoHints,
    NodeName, Path, Planner, Publish, ReadNames, Removal, Remove, RemoveDirectory, RemoveName,
    RemovedName, RenameMode, RenameNode, Renamed, Run, SetAttributes, WalkStep, WriteCondition,
};
use record::{
    Attributes, Bucket, Content, File, Ino, Inode, InodeBody, Kind, Nonce, SpecialKind, Tag,
    Timestamp, key, key::space,
};
use store::{
    CounterKey, Key, Limits, MemoryStore, MetaStore, Plan, Read, ReadResult, Value, Verdict, Write,
};

use crate::audit;
use crate::memory::Memory;

pub(crate) const NONCE: Nonce = Nonce([7; 10]);

/// The directory of bucket `b`.
pub(crate) const B: Ino = Ino(1_024);

/// The directory of bucket `c`.
pub(crate) const C: Ino = Ino(1_025);

/// Round trips.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    pub(crate) reads: usize,
    pub(crate) commits: usize,
}

/// Everything in a store. Counters that are 0 are as good as absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) records: BTreeMap<Key, Value>,
    pub(crate) counters: BTreeMap<CounterKey, i64>,
}

impl State {
    /// The inode of this number.
    pub(crate) fn inode(&self, ino: Ino) -> Inode {
        let at = key::inode(ino);
        Inode::decode(&at, &self.records[&at]).unwrap()
    }

    /// The keys of a space.
    pub(crate) fn keys(&self, space: store::Space) -> Vec<&Key> {
        self.records.keys().filter(|key| key.space() == space).collect()
    }
}

/// A name in a directory.
pub(crate) fn at(directory: Ino, name: impl AsRef<[u8]>) -> NodeName {
    NodeName { directory, name: name.as_ref().to_vec() }
}

/// An empty file.
pub(crate) fn empty() -> File {
    File {
        data_version: 0,
        ..File::new(0, Tag::Md5([0; 16]), Content::Inline(record::InlineBytes::empty()))
    }
}

/// A file with this number of inline bytes.
pub(crate) fn inline(size: usize) -> File {
    let content = Content::Inline(record::InlineBytes::plain(Bytes::from(vec![b'i'; size])));
    File { size: size as u64, content, ..empty() }
}

/// No attribute changes.
pub(crate) const KEPT: AttributeChange = AttributeChange {
    mode: None,
    uid: None,
    gid: None,
    accessed: None,
    modified: None,
    drop_rights: false,
};

/// A store and a clock.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) store: MemoryStore,
    pub(crate) memory: Memory,
    now: Cell<i64>,
    next: Cell<u64>,
}

impl World {
    /// A volume with the buckets `b` and `c`.
    pub(crate) fn new() -> World {
        let world = World::of(&State::default());
        for (name, ino) in [(b"b", B), (b"c", C)] {
            assert_eq!(world.ino(), ino);
            let settings = Bucket::default();
            let make = MakeBucket {
                name,
                ino,
                settings: &settings,
                configs: &[],
                owner: (1, 2),
                mode: 0o755,
                versioning: record::Versioning::Off,
            };
            world.run(&make).unwrap();
        }
        world
    }

    /// A volume in this state, of which nothing is cached.
    pub(crate) fn of(state: &State) -> World {
        let inodes = state.keys(space::INODE).into_iter();
        let next = inodes.map(|key| key.partition() + 1).max().unwrap_or(Ino::FIRST_LEASED.0);
        let world = World {
            store: MemoryStore::new(),
            memory: Memory::default(),
            now: Cell::new(1_000_000_000),
            next: Cell::new(next),
        };
        let puts = state.records.iter().map(|(key, value)| Write::Put(key.clone(), value.clone()));
        let sets = state.counters.iter().map(|(key, value)| Write::Set(key.clone(), *value));
        let writes: Vec<Write> = puts.chain(sets).collect();
        for writes in writes.chunks(1_000) {
            let plan = Plan { guards: Vec::new(), writes: writes.to_vec() };
            assert_eq!(block_on(world.store.commit(&[plan])).unwrap(), [Verdict::Committed]);
        }
        world
    }

    /// A new inode number.
    pub(crate) fn ino(&self) -> Ino {
        self.next.set(self.next.get() + 1);
        Ino(self.next.get() - 1)
    }

    /// The time, one millisecond later each time.
    pub(crate) fn env(&self) -> Env {
        self.now.set(self.now.get() + 1_000_000);
        Env {
            now: Timestamp(self.now.get()),
            earliest_now: Timestamp(self.now.get()),
            session: NONCE,
            random: 7,
        }
    }

    /// Everything in the store.
    pub(crate) fn state(&self) -> State {
        let mut state = State::default();
        for space in space::ALL {
            let mut resume = None;
            loop {
                let page = block_on(self.store.walk(space, resume, 1_000)).unwrap();
                state.records.extend(page.records);
                resume = page.resume;
                if resume.is_none() {
                    break;
                }
            }
        }
        for space in [space::COUNTER, space::LIVE] {
            let page = block_on(self.store.walk_counters(space, None, 10_000)).unwrap();
            assert!(page.resume.is_none(), "one page holds all counters of a test");
            let counters = page.counters.into_iter().filter(|(_, value)| *value != 0);
            state.counters.extend(counters);
        }
        state
    }

    /// Runs an operation without hints. Its records are not cached.
    pub(crate) fn cold<O>(&self, operation: &O) -> (Result<O::Output, FsError>, Cost)
    where
        O: Planner,
        O::Output: Debug,
    {
        drive(&self.store, operation, self.env(), &NoHints, None)
    }

    /// Runs an operation with exact hints of all records that were read and written so far.
    pub(crate) fn warm<O>(&self, operation: &O) -> (Result<O::Output, FsError>, Cost)
    where
        O: Planner,
        O::Output: Debug,
    {
        drive(&self.store, operation, self.env(), &self.memory, Some(&self.memory))
    }

    /// As [`World::warm`], without its cost.
    pub(crate) fn run<O>(&self, operation: &O) -> Result<O::Output, FsError>
    where
        O: Planner,
        O::Output: Debug,
    {
        self.warm(operation).0
    }

    /// Checks the invariants of a volume at rest.
    #[track_caller]
    pub(crate) fn audit(&self) {
        audit::audit(&self.state());
    }
}

/// File programs.
impl World {
    pub(crate) fn make(&self, name: &NodeName, node: &NewNode) -> Result<Ino, FsError> {
        self.make_with(name, node, 0o644).map(|(ino, _)| ino)
    }

    pub(crate) fn make_with(
        &self,
        name: &NodeName,
        node: &NewNode,
        mode: u32,
    ) -> Result<(Ino, Inode), FsError> {
        let (ino, directory) = (self.ino(), name.directory);
        let name = Some(&name.name[..]);
        let make = MakeNode { directory, name, ino, node, mode, umask: 0, uid: 3, gid: 4 };
        self.run(&make).map(|inode| (ino, inode))
    }

    /// Creates an unlinked file.
    pub(crate) fn make_nameless(&self, directory: Ino, size: usize) -> Result<Ino, FsError> {
        let (ino, node) = (self.ino(), NewNode::File(Box::new(inline(size))));
        let (name, mode) = (None, 0o600);
        let make = MakeNode { directory, name, ino, node: &node, mode, umask: 0, uid: 3, gid: 4 };
        self.run(&make).map(|_| ino)
    }

    pub(crate) fn mkdir(&self, directory: Ino, name: impl AsRef<[u8]>) -> Ino {
        self.make(&at(directory, name), &NewNode::Directory).unwrap()
    }

    /// Creates a file of this size.
    pub(crate) fn file(&self, directory: Ino, name: impl AsRef<[u8]>, size: usize) -> Ino {
        let node = NewNode::File(Box::new(inline(size)));
        self.make(&at(directory, name), &node).unwrap()
    }

    pub(crate) fn symlink(&self, directory: Ino, name: impl AsRef<[u8]>) -> Ino {
        self.make(&at(directory, name), &NewNode::Symlink(b"target".to_vec())).unwrap()
    }

    pub(crate) fn fifo(&self, directory: Ino, name: impl AsRef<[u8]>) -> Ino {
        self.make(&at(directory, name), &NewNode::Special(SpecialKind::Fifo, 0)).unwrap()
    }

    pub(crate) fn unlink(
        &self,
        directory: Ino,
        name: impl AsRef<[u8]>,
    ) -> Result<RemovedName, FsError> {
        self.run(&RemoveName { name: &at(directory, name) })
    }

    pub(crate) fn rmdir(
        &self,
        directory: Ino,
        name: impl AsRef<[u8]>,
    ) -> Result<RemovedName, FsError> {
        self.run(&RemoveDirectory { name: &at(directory, name) })
    }

    pub(crate) fn rename(
        &self,
        from: &NodeName,
        to: &NodeName,
        mode: RenameMode,
    ) -> Result<Renamed, FsError> {
        self.run(&RenameNode { from, to, mode })
    }

    pub(crate) fn link(
        &self,
        ino: Ino,
        known_name: Option<&NodeName>,
        to: &NodeName,
    ) -> Result<FoundNode, FsError> {
        self.run(&LinkNode { ino, known_name, to }).map(|linked| linked.node)
    }

    pub(crate) fn set(&self, ino: Ino, change: AttributeChange) -> Result<FoundNode, FsError> {
        self.run(&SetAttributes { ino, change: &change })
    }

    /// The inode number to which a name is bound.
    pub(crate) fn find(&self, name: &NodeName) -> Result<Ino, FsError> {
        self.run(&FindName { name }).map(|found| found.ino)
    }

    pub(crate) fn node(&self, ino: Ino) -> Result<FoundNode, FsError> {
        self.run(&FindNode { ino })
    }

    pub(crate) fn links(&self, ino: Ino) -> u64 {
        self.node(ino).unwrap().links()
    }

    /// The names in a directory, read in pages of `limit`.
    pub(crate) fn names(&self, directory: Ino, limit: u32) -> Vec<(Vec<u8>, Ino, Kind)> {
        let (mut names, mut from) = (Vec::new(), None);
        loop {
            let read = ReadNames { directory, from: from.as_deref(), limit, whole_inodes: true };
            let page = self.run(&read).unwrap();
            names.extend(page.names.into_iter().map(|name| (name.name, name.ino, name.kind)));
            from = page.next;
            if from.is_none() {
                return names;
            }
        }
    }
}

/// S3 clients.
impl World {
    /// Puts an object of this size into bucket `b`.
    pub(crate) fn put(&self, object: impl AsRef<[u8]>, size: usize) -> Ino {
        let (ino, path) = (self.ino(), Path::new(b"b", object.as_ref()));
        let fresh: Vec<Ino> = path.directories.iter().map(|_| self.ino()).collect();
        self.run(&publish(&path, ino, &fresh, &object_of(inline(size)))).unwrap();
        ino
    }

    /// Removes objects from bucket `b`. Returns for each, in the order of the keys, whether it
    /// existed.
    pub(crate) fn delete(&self, objects: &[&[u8]]) -> Vec<Result<bool, FsError>> {
        self.remove(&branches(objects))
    }

    /// Removes objects. Returns for each whether it existed.
    pub(crate) fn remove(&self, branches: &[Branch]) -> Vec<Result<bool, FsError>> {
        let removed = self.run(&Remove { bucket: b"b".into(), branches }).unwrap();
        removed.into_iter().map(|removed| removed.map(|removed| removed.existed)).collect()
    }

    /// The keys of bucket `b`, with their sizes.
    pub(crate) fn objects(&self) -> Vec<(Vec<u8>, u64)> {
        objects(&self.store, b"b")
    }

    /// The keys of bucket `b`.
    pub(crate) fn keys(&self) -> Vec<String> {
        let keys = self.objects().into_iter();
        keys.map(|(key, _)| String::from_utf8(key).unwrap()).collect()
    }
}

/// The inode of an object.
pub(crate) fn object_of(file: File) -> Inode {
    Inode {
        attributes: Attributes::new(FILE_MODE, 1, 2, Timestamp(0)),
        bucket: Ino::ROOT,
        xattrs: Vec::new(),
        body: InodeBody::File(Box::new(File { links: 1, ..file })),
    }
}

/// A PUT without conditions.
pub(crate) fn publish<'a>(
    path: &'a Path,
    ino: Ino,
    fresh: &'a [Ino],
    inode: &'a Inode,
) -> Publish<'a> {
    let condition = &WriteCondition::None;
    Publish { path, ino, fresh, inode, condition, assumptions: &[], writes: &[] }
}

/// Keys to remove, by directory.
pub(crate) fn branches(objects: &[&[u8]]) -> Vec<Branch> {
    let mut branches: BTreeMap<Vec<Vec<u8>>, Vec<Removal>> = BTreeMap::new();
    for object in objects {
        let Path { directories, name, .. } = Path::new(b"b", object);
        branches.entry(directories).or_default().push(Removal { name, condition: None });
    }
    let branch = |(directories, removals)| Branch { directories, removals };
    branches.into_iter().map(branch).collect()
}

/// The keys of a bucket, with their sizes.
pub(crate) fn objects(store: &MemoryStore, bucket: &[u8]) -> Vec<(Vec<u8>, u64)> {
    let query = ListQuery { prefix: Vec::new(), delimiter: None, after: None, limit: 1_000 };
    let start = ListStart { bucket: bucket.into(), query: &query };
    let env = Env { now: Timestamp(0), earliest_now: Timestamp(0), session: NONCE, random: 7 };
    let mut walk = drive(store, &start, env, &NoHints, None).0.unwrap();
    let page = loop {
        match walk.advance().unwrap() {
            WalkStep::Page(page) => break page,
            WalkStep::Read(reads) => walk.learn(block_on(store.read(&reads)).unwrap()),
        }
    };
    assert!(!page.truncated, "one page holds all keys of a test");
    let sized = |entry| match entry {
        ListEntry::Object { key, inode, .. } => {
            let size = inode.file().map_or(0, |file| file.size);
            (key, size)
        }
        ListEntry::Prefix(prefix) => panic!("{prefix:?} without a delimiter"),
    };
    page.entries.into_iter().map(sized).collect()
}

/// Runs an operation to its answer.
pub(crate) fn drive<O>(
    store: &MemoryStore,
    operation: &O,
    env: Env,
    hints: &dyn Hints,
    memory: Option<&Memory>,
) -> (Result<O::Output, FsError>, Cost)
where
    O: Planner,
    O::Output: Debug,
{
    let mut run = Run::new(operation, env);
    let mut cost = Cost::default();
    loop {
        match run.advance(hints) {
            Next::Done(answer) => return (answer, cost),
            Next::Corrupt(key, error) => panic!("{key:?}: {error}"),
            Next::Read(reads) => {
                cost.reads += 1;
                let found = answers(store, &reads);
                memory.inspect(|memory| memory.learn(&reads, &found));
                run.learn(reads, found);
            }
            Next::Commit(plan, output) => {
                cost.commits += 1;
                match decision(store, &plan) {
                    Verdict::Refused { guard, found } => run.refused(&plan.guards[guard], found),
                    _ => {
                        memory.inspect(|memory| memory.apply(&plan));
                        return (Ok(output), cost);
                    }
                }
            }
        }
    }
}

pub(crate) fn answers(store: &MemoryStore, reads: &[Read]) -> Vec<ReadResult> {
    block_on(store.read(reads)).unwrap()
}

/// Lets a store decide on a plan, after a check that the plan keeps to the contract.
pub(crate) fn decision(store: &MemoryStore, plan: &Plan) -> Verdict {
    audit::contract(plan);
    plan.check(&Limits::LEAST).unwrap();
    let verdict = block_on(store.commit(std::slice::from_ref(plan))).unwrap().remove(0);
    assert!(!matches!(verdict, Verdict::Failed(_)), "a store in memory fails no plan");
    verdict
}
