//! Operations as data, from which the laws and interleavings choose.

use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash, Hasher};

use futures::executor::block_on;
use namespace::{
    AbortUpload, Assumption, Branch, CreateUpload, DeleteBucket, Env, FsError, Halt, Hints, Lookup,
    MakeBucket, Next, ObjectChange, ObjectCondition, Path, Planner, Publish, PutPart, Removal,
    Remove, RenameKey, Run, SetBucketConfig, SetObject, Step, TagMatch, UploadName, View,
    WriteCondition, end_upload,
};
use record::{
    Bucket, BucketConfig, BucketConfigKind, Ino, Inode, ObjectHeaders, Part, PartTag, Timestamp,
    Upload, UploadState, key,
};
use store::{MemoryStore, MetaStore, Plan, ReadResult, Value, Verdict, Write};

use crate::audit;
use crate::world::{NONCE, State, World, existed, file, tag};

/// Names to remove from a directory, with their conditions.
pub(crate) type Names = Vec<(&'static [u8], Option<TagMatch>)>;

/// An operation on bucket `b`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Put {
        object: &'static [u8],
        n: u8,
        condition: WriteCondition,
    },
    Remove {
        directory: &'static [u8],
        names: Names,
    },
    /// From several directories, in the order of their paths.
    RemoveAll(Vec<(&'static [u8], Names)>),
    Look(&'static [u8]),
    Tags(&'static [u8]),
    /// From one key to another, or onto itself.
    Copy(&'static [u8], &'static [u8]),
    Rename {
        from: &'static [u8],
        to: &'static [u8],
        /// The condition on the renamed object.
        tags: Option<TagMatch>,
        /// True if the new key must be free.
        alone: bool,
    },
    MakeBucket,
    DropBucket,
    /// Sets the tags of the bucket, or removes them.
    Configure(bool),
    Begin(&'static [u8]),
    Part(&'static [u8]),
    Complete(&'static [u8]),
    Abort(&'static [u8]),
}

pub(crate) fn put(object: &'static [u8], n: u8) -> Act {
    Act::Put { object, n, condition: WriteCondition::None }
}

pub(crate) fn put_if(object: &'static [u8], n: u8, condition: WriteCondition) -> Act {
    Act::Put { object, n, condition }
}

pub(crate) fn if_match(n: u8) -> WriteCondition {
    WriteCondition::IfMatch(TagMatch::OneOf(vec![tag(n)]))
}

pub(crate) fn rename(from: &'static [u8], to: &'static [u8]) -> Act {
    Act::Rename { from, to, tags: None, alone: false }
}

pub(crate) fn remove(directory: &'static [u8], names: &[&'static [u8]]) -> Act {
    Act::Remove { directory, names: names.iter().map(|name| (*name, None)).collect() }
}

pub(crate) fn remove_if(directory: &'static [u8], names: &[&'static [u8]], n: u8) -> Act {
    let tags = Some(TagMatch::OneOf(vec![tag(n)]));
    Act::Remove { directory, names: names.iter().map(|name| (*name, tags.clone())).collect() }
}

pub(crate) fn remove_all(branches: &[(&'static [u8], &[&'static [u8]])]) -> Act {
    let branch = |(directory, names): &(&'static [u8], &[&'static [u8]])| {
        (*directory, names.iter().map(|name| (*name, None)).collect())
    };
    Act::RemoveAll(branches.iter().map(branch).collect())
}

fn branch(directory: &[u8], names: &Names) -> Branch {
    let removal = |(name, condition): &(&'static [u8], Option<TagMatch>)| Removal {
        name: name.to_vec(),
        condition: condition.clone().map(Into::into),
    };
    let directories = Path::new(b"b", directory).directories;
    Branch { directories, removals: names.iter().map(removal).collect() }
}

/// The id of every upload in these tests.
pub(crate) const ID: [u8; 16] = [9; 16];

/// An operation with all of its inputs, which are fixed before it starts: inode numbers, times, and
/// records that were read.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    act: Act,
    env: Env,
    path: Path,
    /// The key that is renamed.
    from: Path,
    ino: Ino,
    fresh: Vec<Ino>,
    inode: Inode,
    branches: Vec<Branch>,
    tags: Vec<(String, String)>,
    settings: Bucket,
    upload: Upload,
    part: Part,
    assumptions: Vec<Assumption>,
    writes: Vec<Write>,
}

impl Prepared {
    /// Prepares an operation from the records in `state`. Its inode numbers start at `first`, which
    /// also gives its time.
    pub(crate) fn new(act: &Act, state: &State, first: u64) -> Prepared {
        let (object, n) = match act {
            Act::Put { object, n, .. } => (*object, *n),
            Act::Look(object)
            | Act::Tags(object)
            | Act::Begin(object)
            | Act::Copy(_, object)
            | Act::Rename { to: object, .. } => (*object, 1),
            Act::Part(object) | Act::Complete(object) | Act::Abort(object) => (*object, 77),
            Act::Remove { directory, .. } => (*directory, 1),
            Act::RemoveAll(_) | Act::MakeBucket | Act::DropBucket | Act::Configure(_) => {
                (&b""[..], 1)
            }
        };
        let branches = match act {
            Act::Remove { directory, names } => vec![branch(directory, names)],
            Act::RemoveAll(branches) => {
                branches.iter().map(|(directory, names)| branch(directory, names)).collect()
            }
            _ => Vec::new(),
        };
        let time = Timestamp(i64::try_from(first).unwrap() * 1_000_000);
        let path = Path::new(b"b", object);
        let from = if let Act::Rename { from, .. } = act { *from } else { &[] };
        let mut prepared = Prepared {
            act: act.clone(),
            env: Env { now: time, earliest_now: time, session: NONCE, random: 7 },
            ino: Ino(first),
            fresh: (1..=path.directories.len() as u64).map(|n| Ino(first + n)).collect(),
            path,
            from: Path::new(b"b", from),
            inode: file(n),
            branches,
            tags: vec![("time".to_owned(), first.to_string())],
            settings: Bucket::default(),
            upload: upload(Ino(first)),
            part: part(),
            assumptions: Vec::new(),
            writes: Vec::new(),
        };
        match act {
            Act::Complete(object) => prepared.complete(object, state),
            Act::Copy(from, _) => prepared.copy(from, state),
            _ => {}
        }
        prepared
    }

    /// The assumptions of a copy: its source is unchanged.
    fn copy(&mut self, from: &[u8], state: &State) {
        let lookup = Lookup { path: &Path::new(b"b", from), version: None };
        let found = World::of(state).cold(&lookup).0.ok().filter(|f| f.inode.file().is_some());
        let none = || vec![(key::inode(Ino(u64::MAX)), Value::from_static(b"none"))];
        let records = found.map_or_else(none, |found| {
            self.inode = found.inode;
            [found.path_records, vec![(key::inode(found.ino), found.record)]].concat()
        });
        let assume = |(key, value)| Assumption { key, value, otherwise: FsError::SourceChanged };
        self.assumptions = records.into_iter().map(assume).collect();
    }

    /// The assumption of a completed upload: its record is unchanged.
    fn complete(&mut self, object: &[u8], state: &State) {
        let suffix = [object, b"\0", &ID].concat();
        let mut uploads = state.records.iter();
        let found = uploads
            .find(|(key, _)| key.space() == key::space::UPLOAD && key.suffix() == suffix)
            .map(|(key, value)| (key.clone(), value.clone()));
        // Without an upload, the assumption is a record that does not exist.
        let key = key::upload(Ino(1_024), object, ID);
        let (key, value) = found.unwrap_or((key, Value::from_static(b"none")));
        if let Ok(open) = Upload::decode(&key, &value)
            && open.state == UploadState::Open
        {
            let done = UploadState::Done {
                ino: self.ino,
                tag: tag(77),
                sums: Vec::new(),
                used: Vec::new(),
                at: self.env.now,
            };
            self.writes = end_upload(&key, &Upload { state: done, ..open });
            self.assumptions = vec![Assumption { key, value, otherwise: FsError::NoSuchUpload }];
        } else {
            let value = Value::from_static(b"none");
            self.assumptions = vec![Assumption { key, value, otherwise: FsError::NoSuchUpload }];
        }
    }

    fn rename<'a>(
        &'a self,
        source: &'a ObjectCondition,
        target: &'a ObjectCondition,
    ) -> RenameKey<'a> {
        RenameKey {
            from: &self.from,
            to: &self.path,
            fresh: &self.fresh,
            source,
            target,
            token: None,
        }
    }

    /// Starts the operation, and lends it to `body`, which runs it step by step.
    pub(crate) fn begin<R>(&self, hints: &dyn Hints, body: impl FnOnce(&mut dyn Actor) -> R) -> R {
        let env = self.env;
        let name = UploadName { bucket: b"b".into(), object: &self.object(), id: ID };
        match &self.act {
            Act::Put { condition, .. } => {
                let publish = self.publish(condition);
                body(&mut Steps::new(&publish, env, hints))
            }
            Act::Complete(_) | Act::Copy(..) => {
                let publish = self.publish(&WriteCondition::None);
                body(&mut Steps::new(&publish, env, hints))
            }
            Act::Remove { .. } | Act::RemoveAll(_) => {
                let remove = Remove { bucket: b"b".into(), branches: &self.branches };
                body(&mut Steps::new(&Existed(remove), env, hints))
            }
            Act::Rename { tags, alone, .. } => {
                let (source, target) = (conditions(tags.clone()), nothing_if(*alone));
                body(&mut Steps::new(&self.rename(&source, &target), env, hints))
            }
            Act::Look(_) => {
                let look = Lookup { path: &self.path, version: None };
                body(&mut Steps::new(&look, env, hints))
            }
            Act::Tags(_) => {
                let tags = SetObject {
                    path: &self.path,
                    version: None,
                    expected: None,
                    change: ObjectChange::Tags(&self.tags),
                };
                body(&mut Steps::new(&tags, env, hints))
            }
            Act::MakeBucket => {
                let settings = &self.settings;
                let make = MakeBucket {
                    name: b"b",
                    ino: self.ino,
                    settings,
                    configs: &[],
                    owner: (1, 2),
                    mode: 0o755,
                    versioning: record::Versioning::Off,
                };
                body(&mut Steps::new(&make, env, hints))
            }
            Act::DropBucket => {
                body(&mut Steps::new(&DeleteBucket { bucket: b"b".into() }, env, hints))
            }
            Act::Configure(sets) => {
                let config = BucketConfig::of_tags(&self.tags);
                let value = sets.then_some(&config);
                body(&mut Steps::new(&configure_tags(value), env, hints))
            }
            Act::Begin(_) => {
                let create = CreateUpload { name, upload: &self.upload };
                body(&mut Steps::new(&create, env, hints))
            }
            Act::Part(_) => {
                let part = Part { owner: self.ino, ..self.part.clone() };
                let put = PutPart { name, number: 1, part: &part, assumptions: &[], writes: &[] };
                body(&mut Steps::new(&put, env, hints))
            }
            Act::Abort(_) => body(&mut Steps::new(&AbortUpload { name }, env, hints)),
        }
    }

    fn object(&self) -> Vec<u8> {
        let mut object = self.path.directories.join(&b'/');
        if !self.path.directories.is_empty() {
            object.push(b'/');
        }
        [object, self.path.name.clone()].concat()
    }

    fn publish<'a>(&'a self, condition: &'a WriteCondition) -> Publish<'a> {
        Publish {
            path: &self.path,
            ino: self.ino,
            fresh: &self.fresh,
            inode: &self.inode,
            condition,
            assumptions: &self.assumptions,
            writes: &self.writes,
        }
    }

    /// Runs the operation to its answer.
    pub(crate) fn run(&self, store: &MemoryStore, hints: &dyn Hints) -> String {
        self.begin(hints, |actor| {
            while actor.answer().is_none() {
                actor.step(store);
            }
            actor.answer().expect("just seen").to_owned()
        })
    }
}

/// The condition that an object has one of these tags.
fn conditions(tags: Option<TagMatch>) -> ObjectCondition {
    ObjectCondition { tags, ..ObjectCondition::default() }
}

/// The condition that there is no object, if `alone` is true.
fn nothing_if(alone: bool) -> ObjectCondition {
    let other_tags = alone.then_some(TagMatch::Any);
    ObjectCondition { other_tags, ..ObjectCondition::default() }
}

pub(crate) fn upload(ino: Ino) -> Upload {
    Upload {
        ino,
        begun: Timestamp(0),
        uid: 1,
        gid: 2,
        umask: 0o022,
        initiator: "AKID".to_owned(),
        account: record::AccountId::MAIN,
        writer: None,
        checksum: None,
        object: ObjectHeaders::default(),
        asked: Vec::new(),
        encryption: None,
        state: UploadState::Open,
    }
}

pub(crate) fn part() -> Part {
    Part {
        owner: Ino(0),
        size: 0,
        arrived: Timestamp(0),
        tag: PartTag::Md5([3; 16]),
        sums: Vec::new(),
        shared: false,
        slices: Vec::new(),
    }
}

/// An operation in progress. Each step is one round trip.
pub(crate) trait Actor {
    /// Executes one round trip.
    fn step(&mut self, store: &MemoryStore);
    /// The answer, if the operation has ended.
    fn answer(&self) -> Option<&str>;
    /// The plan that the next step commits, if it commits one.
    fn plan(&self) -> Option<&Plan>;
    /// A hash of each of the store's answers so far.
    fn met(&self) -> Vec<u64>;
}

/// A removal whose answer is whether each name existed.
#[derive(Debug)]
struct Existed<'a>(Remove<'a>);

impl Planner for Existed<'_> {
    type Output = Vec<Result<bool, FsError>>;

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<Self::Output>, Halt> {
        Ok(match self.0.plan(view, env)? {
            Step::Done(removed) => Step::Done(existed(removed)),
            Step::Commit(plan, removed) => Step::Commit(plan, existed(removed)),
        })
    }
}

/// The steps of one operation.
pub(crate) struct Steps<'a, O: Planner> {
    run: Run<'a, O>,
    hints: &'a dyn Hints,
    next: Option<Next<O::Output>>,
    answer: Option<String>,
    met: Vec<u64>,
}

fn hash(found: &[ReadResult]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for found in found {
        let entries = match found {
            ReadResult::Record(entry) => entry.as_slice(),
            ReadResult::Range(entries) => entries,
            ReadResult::Counter(counter) => {
                counter.hash(&mut hasher);
                continue;
            }
        };
        entries.len().hash(&mut hasher);
        let parts = entries.iter().map(|entry| (&entry.key, &entry.value, &entry.target));
        parts.for_each(|parts| parts.hash(&mut hasher));
    }
    hasher.finish()
}

impl<'a, O> Steps<'a, O>
where
    O: Planner,
    O::Output: Debug,
{
    /// Begins an operation.
    pub(crate) fn new(operation: &'a O, env: Env, hints: &'a dyn Hints) -> Steps<'a, O> {
        let run = Run::new(operation, env);
        let mut steps = Steps { run, hints, next: None, answer: None, met: Vec::new() };
        steps.advance();
        steps
    }

    fn advance(&mut self) {
        match self.run.advance(self.hints) {
            Next::Done(answer) => self.answer = Some(format!("{answer:?}")),
            Next::Corrupt(key, error) => panic!("{key:?}: {error}"),
            next => self.next = Some(next),
        }
    }
}

impl<O> Actor for Steps<'_, O>
where
    O: Planner,
    O::Output: Debug,
{
    fn step(&mut self, store: &MemoryStore) {
        match self.next.take() {
            Some(Next::Read(reads)) => {
                let found = block_on(store.read(&reads)).unwrap();
                self.met.push(hash(&found));
                self.run.learn(reads, found);
                self.advance();
            }
            Some(Next::Commit(plan, output)) => {
                audit::contract(&plan);
                match block_on(store.commit(std::slice::from_ref(&plan))).unwrap().remove(0) {
                    Verdict::Committed => {
                        self.answer = Some(format!("{:?}", Ok::<_, FsError>(output)));
                    }
                    Verdict::Failed(kind) => panic!("a store in memory fails no plan: {kind:?}"),
                    Verdict::Refused { guard, found } => {
                        let mut hasher = DefaultHasher::new();
                        (guard, &found).hash(&mut hasher);
                        self.met.push(hasher.finish());
                        self.run.refused(&plan.guards[guard], found);
                        self.advance();
                    }
                }
            }
            _ => panic!("an operation that has answered takes no step"),
        }
    }

    fn answer(&self) -> Option<&str> {
        self.answer.as_deref()
    }

    fn plan(&self) -> Option<&Plan> {
        match &self.next {
            Some(Next::Commit(plan, _)) => Some(plan),
            _ => None,
        }
    }

    fn met(&self) -> Vec<u64> {
        self.met.clone()
    }
}

fn configure_tags(value: Option<&BucketConfig>) -> SetBucketConfig<'_> {
    let (name, kind) = (&b"b"[..], BucketConfigKind::Tags);
    SetBucketConfig {
        bucket: name.into(),
        kind,
        value,
        default_retention: None,
        default_encryption: None,
    }
}
