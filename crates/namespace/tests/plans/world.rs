//! A store, a clock, and the loop that drives an operation while counting its round trips.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::Debug;

use bytes::Bytes;
use futures::executor::block_on;
use namespace::{Env, FsError, Hints, Next, NoHints, Path, Planner, Run, Walk, WalkStep};
use namespace::{ListQuery, ListStart, Listing};
use record::{
    Attributes, Bucket, Content, Dentry, Directory, File, InlineBytes, Ino, Inode, InodeBody,
    Nonce, ObjectHeaders, Origin, Orphan, SortKey, Tag, Timestamp, key, key::space,
};
use store::{
    CounterKey, Key, MemoryStore, MetaStore, Plan, Read, ReadResult, Value, Verdict, Write,
};

use crate::audit;
use crate::memory::Memory;

pub(crate) const NONCE: Nonce = Nonce([7; 10]);

/// Round trips.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    pub(crate) reads: usize,
    pub(crate) commits: usize,
}

pub(crate) const fn cost(reads: usize, commits: usize) -> Cost {
    Cost { reads, commits }
}

/// Everything in a store. Counters that are 0 are as good as absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) records: BTreeMap<Key, Value>,
    pub(crate) counters: BTreeMap<CounterKey, i64>,
}

impl State {
    /// The state after the reaper has deleted self-contained files that are orphans. A plan deletes
    /// such a file itself if the hints show that it is self-contained, and this must not make
    /// another difference.
    pub(crate) fn settled(mut self) -> State {
        let (start, end) = key::partition(space::ORPHAN, 0);
        let orphans: Vec<(Key, Value)> = self
            .records
            .range(start..end)
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        for (orphan, value) in orphans {
            let Ok(Orphan::File { bucket }) = Orphan::decode(&orphan, &value) else { continue };
            let ino = Ino(u64::from_be_bytes(orphan.suffix().try_into().expect("a number")));
            let at = key::inode(ino);
            let inode = Inode::decode(&at, &self.records[&at]).expect("an inode");
            let file = inode.file().expect("a file");
            if matches!(file.content, Content::Inline(_)) && file.parts.is_empty() {
                let counter = key::counter(bucket, key::CounterKind::Bytes);
                let bytes = self.counters.entry(counter.clone()).or_default();
                *bytes -= i64::try_from(file.size).expect("a small file");
                if *bytes == 0 {
                    self.counters.remove(&counter);
                }
                self.records.remove(&at);
                self.records.remove(&orphan);
            }
        }
        self
    }
}

/// A store and a clock.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) store: MemoryStore,
    pub(crate) memory: Memory,
    now: Cell<i64>,
    next: Cell<u64>,
}

impl World {
    /// A volume with one bucket, `b`, whose directory is inode 1024.
    pub(crate) fn new() -> World {
        let world = World::empty();
        world.make_bucket(b"b");
        world
    }

    /// A volume without buckets.
    pub(crate) fn empty() -> World {
        World::of(&State::default())
    }

    /// A volume in this state, of which nothing is cached.
    pub(crate) fn of(state: &State) -> World {
        let inodes = state.records.keys().filter(|key| key.space() == key::space::INODE);
        let next = inodes.map(|key| key.partition() + 1).max().unwrap_or(Ino::FIRST_LEASED.0);
        let world = World {
            store: MemoryStore::new(),
            memory: Memory::default(),
            now: Cell::new(1_000_000),
            next: Cell::new(next),
        };
        let puts = state.records.iter().map(|(key, value)| Write::Put(key.clone(), value.clone()));
        let sets = state.counters.iter().map(|(key, value)| Write::Set(key.clone(), *value));
        let writes: Vec<Write> = puts.chain(sets).collect();
        for writes in writes.chunks(1_000) {
            world.force(writes.to_vec());
        }
        world
    }

    /// Writes directly into the store, without a planner.
    pub(crate) fn force(&self, writes: Vec<Write>) {
        let plan = Plan { guards: Vec::new(), writes };
        self.memory.apply(&plan);
        assert_eq!(block_on(self.store.commit(&[plan])).unwrap(), [Verdict::Committed]);
    }

    /// A new inode number.
    pub(crate) fn ino(&self) -> Ino {
        self.next.set(self.next.get() + 1);
        Ino(self.next.get() - 1)
    }

    /// The time, one millisecond later each time.
    pub(crate) fn env(&self) -> Env {
        self.now.set(self.now.get() + 1_000);
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
        for space in key::space::ALL {
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
        let page = block_on(self.store.walk_counters(key::space::COUNTER, None, 10_000)).unwrap();
        assert!(page.resume.is_none(), "one page holds all counters of a test");
        state.counters.extend(page.counters.into_iter().filter(|(_, value)| *value != 0));
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

    /// A page of a listing, and the reads that it took.
    pub(crate) fn list(
        &self,
        bucket: &[u8],
        query: &ListQuery,
        hints: &dyn Hints,
    ) -> (Result<Listing, FsError>, usize) {
        let start = ListStart { bucket: bucket.into(), query };
        let (walk, mut cost) = drive(&self.store, &start, self.env(), hints, None);
        let page = walk.map(|walk| finish(&self.store, walk, &mut cost.reads));
        (page, cost.reads)
    }

    /// Creates a bucket and caches it.
    pub(crate) fn make_bucket(&self, name: &[u8]) -> Ino {
        let (ino, settings) = (self.ino(), Bucket::default());
        let make = namespace::MakeBucket {
            name,
            ino,
            settings: &settings,
            configs: &[],
            owner: (1, 2),
            mode: 0o755,
            versioning: record::Versioning::Off,
        };
        self.warm(&make).0.unwrap();
        ino
    }

    /// Creates directories as a mount does, below `bucket`.
    pub(crate) fn mkdir(&self, bucket: Ino, path: &[&[u8]]) -> Ino {
        let mut parent = bucket;
        for name in path {
            let slot = key::dentry(parent, SortKey::directory(name).as_bytes());
            let read = [Read::Record { key: slot.clone(), follow: None }];
            let found = block_on(self.store.read(&read)).unwrap();
            if let [ReadResult::Record(Some(entry))] = &found[..] {
                parent = Dentry::decode(&slot, &entry.value).unwrap().ino;
                continue;
            }
            let ino = self.ino();
            let inode_key = key::inode(ino);
            let directory = Directory { parent, name: name.to_vec() };
            let inode = Inode {
                attributes: attributes(),
                bucket,
                xattrs: Vec::new(),
                body: InodeBody::Directory(directory),
            };
            self.force(vec![
                Write::Put(slot.clone(), Dentry::directory(ino, Origin::Made).encode(&slot)),
                Write::Put(inode_key.clone(), inode.encode(&inode_key)),
                Write::Add(key::counter(parent, key::CounterKind::Entries), 1),
                Write::Add(key::counter(parent, key::CounterKind::Directories), 1),
            ]);
            parent = ino;
        }
        parent
    }

    /// Checks the invariants of a volume at rest.
    #[track_caller]
    pub(crate) fn audit(&self) {
        audit::audit(&self.state());
    }
}

fn finish(store: &MemoryStore, mut walk: Walk, reads: &mut usize) -> Listing {
    loop {
        match walk.advance().expect("names decode") {
            WalkStep::Page(page) => return page,
            WalkStep::Read(questions) => {
                *reads += 1;
                walk.learn(block_on(store.read(&questions)).unwrap());
            }
        }
    }
}

/// Runs an operation to its answer. A second run receives the same results, and must return the
/// same steps.
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
    let mut twin = Run::new(operation, env);
    let mut cost = Cost::default();
    loop {
        let next = run.advance(hints);
        assert_eq!(format!("{next:?}"), format!("{:?}", twin.advance(hints)), "planned twice");
        match next {
            Next::Done(answer) => return (answer, cost),
            Next::Corrupt(key, error) => panic!("{key:?}: {error}"),
            Next::Read(reads) => {
                cost.reads += 1;
                let found = block_on(store.read(&reads)).unwrap();
                memory.inspect(|memory| memory.learn(&reads, &found));
                run.learn(reads.clone(), found.clone());
                twin.learn(reads, found);
            }
            Next::Commit(plan, output) => {
                cost.commits += 1;
                audit::contract(&plan);
                match block_on(store.commit(std::slice::from_ref(&plan))).unwrap().remove(0) {
                    Verdict::Committed => {
                        memory.inspect(|memory| memory.apply(&plan));
                        return (Ok(output), cost);
                    }
                    Verdict::Failed(kind) => panic!("a store in memory fails no plan: {kind:?}"),
                    Verdict::Refused { guard, found } => {
                        run.refused(&plan.guards[guard], found.clone());
                        twin.refused(&plan.guards[guard], found);
                    }
                }
            }
        }
    }
}

pub(crate) fn attributes() -> Attributes {
    Attributes::new(0o644, 1, 2, Timestamp(0))
}

/// The entity tag of the file [`file`] of `n`.
pub(crate) fn tag(n: u8) -> Tag {
    Tag::Md5([n; 16])
}

/// A file of `n` bytes, whose bytes and tag depend on `n`.
pub(crate) fn file(n: u8) -> Inode {
    let file = File {
        size: u64::from(n),
        data_version: 1,
        links: 1,
        sparse: false,
        marked_in_dentry: false,
        writer: None,
        tag: tag(n),
        sums: Vec::new(),
        object: ObjectHeaders::default(),
        parts: Vec::new(),
        renamed_by: None,
        pages_made: 0,
        encryption: None,
        content: Content::Inline(InlineBytes::plain(Bytes::from(vec![n; usize::from(n)]))),
    };
    let body = InodeBody::File(Box::new(file));
    Inode { attributes: attributes(), bucket: Ino::ROOT, xattrs: Vec::new(), body }
}

/// The path of a key in bucket `b`.
pub(crate) fn path(object: &[u8]) -> Path {
    Path::new(b"b", object)
}

/// Returns for each removed name whether it existed.
pub(crate) fn existed(removed: Vec<namespace::Removed>) -> Vec<Result<bool, FsError>> {
    removed.into_iter().map(|removed| removed.map(|removed| removed.existed)).collect()
}
