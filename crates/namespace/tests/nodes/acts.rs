//! Operations of both kinds of clients as data, from which the laws and interleavings choose.

use std::fmt::Debug;

use bytes::Bytes;
use namespace::{
    AttributeChange, Branch, ContentChange, DeleteBucket, Env, FindName, FindNode, FsError, Hints,
    LinkNode, MakeNode, NewNode, Next, NodeName, Path, Planner, ReadNames, Remove, RemoveDirectory,
    RemoveName, RenameMode, RenameNode, Run, SetAttributes, SetTime, SetXattr, WriteContent,
    XattrChange,
};
use record::{Content, InlineBytes, Ino, Inode, SpecialKind, Tag, Timestamp};
use store::{MemoryStore, Verdict};

use crate::world::{KEPT, NONCE, answers, branches, decision, inline, object_of, publish};

/// The kind of a new node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Directory,
    File(usize),
    Symlink,
    Fifo,
}

/// An operation of a client.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Make {
        name: NodeName,
        what: What,
    },
    MakeNameless(Ino),
    Unlink(NodeName),
    Rmdir(NodeName),
    Rename {
        from: NodeName,
        to: NodeName,
        mode: RenameMode,
    },
    Link {
        ino: Ino,
        known_name: Option<NodeName>,
        to: NodeName,
    },
    Chmod(Ino),
    Touch(Ino),
    /// Sets an attribute of this length; with `None`, removes it.
    Xattr {
        ino: Ino,
        known_name: Option<NodeName>,
        length: usize,
    },
    /// Replaces the content by this number of bytes.
    Write {
        ino: Ino,
        known_name: Option<NodeName>,
        size: usize,
    },
    Truncate {
        ino: Ino,
        known_name: Option<NodeName>,
        size: u64,
    },
    Find(NodeName),
    Look(Ino),
    Names(Ino),
    /// Puts an object into bucket `b`, which all S3 clients use here.
    Put {
        object: Vec<u8>,
        size: usize,
    },
    Delete(Vec<Vec<u8>>),
    DropBucket,
}

/// An answer, as text.
pub(crate) type Answer = Result<String, FsError>;

/// An operation with all of its inputs, which are fixed before it starts: inode numbers, a time,
/// and the bytes to write.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    pub(crate) act: Act,
    pub(crate) ino: Ino,
    pub(crate) fresh: Vec<Ino>,
    env: Env,
    path: Path,
    node: NewNode,
    inode: Inode,
    branches: Vec<Branch>,
    content: ContentChange,
    xattr: XattrChange,
}

/// The shortest long value of an extended attribute.
pub(crate) const LONG: usize = record::XATTR_INLINE_BYTES_MAX + 1;

impl Prepared {
    /// Prepares an operation. Its inode numbers start at `first`, which also gives its time.
    pub(crate) fn new(act: &Act, first: u64) -> Prepared {
        let (mut object, mut size) = (&b""[..], 0);
        let mut removed: Vec<&[u8]> = Vec::new();
        let mut node = NewNode::Directory;
        let mut content = ContentChange::Truncate(0);
        let mut xattr = XattrChange::Remove;
        match act {
            Act::Put { object: key, size: bytes } => (object, size) = (key, *bytes),
            Act::Delete(keys) => removed = keys.iter().map(Vec::as_slice).collect(),
            Act::MakeNameless(_) => node = NewNode::File(Box::new(inline(7))),
            Act::Make { what, .. } => {
                node = match what {
                    What::Directory => NewNode::Directory,
                    What::File(size) => NewNode::File(Box::new(inline(*size))),
                    What::Symlink => NewNode::Symlink(b"target".to_vec()),
                    What::Fifo => NewNode::Special(SpecialKind::Fifo, 0),
                }
            }
            Act::Truncate { size, .. } => content = ContentChange::Truncate(*size),
            Act::Write { size, .. } => {
                let bytes = Content::Inline(InlineBytes::plain(Bytes::from(vec![b'w'; *size])));
                let (size, sums) = (*size as u64, Vec::new());
                content = ContentChange::Replace { content: bytes, size, sums };
            }
            Act::Xattr { length, .. } if *length > 0 => {
                xattr = XattrChange::Set(Bytes::from(vec![b'x'; *length]));
            }
            _ => {}
        }
        let path = Path::new(b"b", object);
        let time = Timestamp(i64::try_from(first).unwrap() * 1_000_000);
        Prepared {
            act: act.clone(),
            ino: Ino(first),
            fresh: (1..=path.directories.len() as u64).map(|n| Ino(first + n)).collect(),
            env: Env { now: time, earliest_now: time, session: NONCE, random: 7 },
            path,
            node,
            inode: object_of(inline(size)),
            branches: branches(&removed),
            content,
            xattr,
        }
    }

    /// Starts the operation, and lends it to `body`, which runs it step by step.
    pub(crate) fn begin<R>(&self, hints: &dyn Hints, body: impl FnOnce(&mut dyn Actor) -> R) -> R {
        let env = self.env;
        match &self.act {
            Act::Make { name, .. } => {
                let make = self.make(name.directory, Some(&name.name));
                body(&mut Steps::new(&make, env, hints))
            }
            Act::MakeNameless(directory) => {
                body(&mut Steps::new(&self.make(*directory, None), env, hints))
            }
            Act::Unlink(name) => body(&mut Steps::new(&RemoveName { name }, env, hints)),
            Act::Rmdir(name) => body(&mut Steps::new(&RemoveDirectory { name }, env, hints)),
            Act::Rename { from, to, mode } => {
                body(&mut Steps::new(&RenameNode { from, to, mode: *mode }, env, hints))
            }
            Act::Link { ino, known_name, to } => {
                let link = LinkNode { ino: *ino, known_name: known_name.as_ref(), to };
                body(&mut Steps::new(&link, env, hints))
            }
            Act::Chmod(ino) => {
                let change = &AttributeChange { mode: Some(0o700), ..KEPT };
                let set = SetAttributes { ino: *ino, change };
                body(&mut Steps::new(&set, env, hints))
            }
            Act::Touch(ino) => {
                let modified = Some(SetTime::At(Timestamp(77)));
                let change = &AttributeChange { modified, ..KEPT };
                let set = SetAttributes { ino: *ino, change };
                body(&mut Steps::new(&set, env, hints))
            }
            Act::Xattr { ino, known_name, .. } => {
                let (name, change) = (b"user.x", &self.xattr);
                let known_name = known_name.as_ref();
                let set = SetXattr { ino: *ino, known_name, name, change };
                body(&mut Steps::new(&set, env, hints))
            }
            Act::Write { ino, known_name, .. } | Act::Truncate { ino, known_name, .. } => {
                let write = self.write(*ino, known_name.as_ref());
                body(&mut Steps::new(&write, env, hints))
            }
            Act::Find(name) => body(&mut Steps::new(&FindName { name }, env, hints)),
            Act::Look(ino) => body(&mut Steps::new(&FindNode { ino: *ino }, env, hints)),
            Act::Names(directory) => {
                let read =
                    ReadNames { directory: *directory, from: None, limit: 2, whole_inodes: true };
                body(&mut Steps::new(&read, env, hints))
            }
            Act::Put { .. } => {
                let put = publish(&self.path, self.ino, &self.fresh, &self.inode);
                body(&mut Steps::new(&put, env, hints))
            }
            Act::Delete(_) => {
                let remove = Remove { bucket: b"b".into(), branches: &self.branches };
                body(&mut Steps::new(&remove, env, hints))
            }
            Act::DropBucket => {
                body(&mut Steps::new(&DeleteBucket { bucket: b"b".into() }, env, hints))
            }
        }
    }

    fn make<'a>(&'a self, directory: Ino, name: Option<&'a [u8]>) -> MakeNode<'a> {
        let (ino, node) = (self.ino, &self.node);
        MakeNode { directory, name, ino, node, mode: 0o755, umask: 0, uid: 3, gid: 4 }
    }

    fn write<'a>(&'a self, ino: Ino, known_name: Option<&'a NodeName>) -> WriteContent<'a> {
        let (change, hidden_ino) = (&self.content, self.ino);
        let tag = Tag::Md5([8; 16]);
        WriteContent {
            ino,
            known_name,
            expected_data_version: None,
            assumptions: &[],
            change,
            tag,
            hidden_ino,
            attributes: &KEPT,
            own_retention: None,
        }
    }

    /// Runs the operation to its answer.
    pub(crate) fn run(&self, store: &MemoryStore, hints: &dyn Hints) -> Answer {
        self.begin(hints, |actor| {
            while actor.answer().is_none() {
                actor.step(store);
            }
            actor.answer().expect("just seen").clone()
        })
    }
}

/// An operation in progress. Each step is one round trip.
pub(crate) trait Actor {
    /// Executes one round trip.
    fn step(&mut self, store: &MemoryStore);
    /// The answer, if the operation has ended.
    fn answer(&self) -> Option<&Answer>;
}

/// The steps of one operation.
struct Steps<'a, O: Planner> {
    run: Run<'a, O>,
    hints: &'a dyn Hints,
    next: Option<Next<O::Output>>,
    answer: Option<Answer>,
}

impl<'a, O> Steps<'a, O>
where
    O: Planner,
    O::Output: Debug,
{
    fn new(operation: &'a O, env: Env, hints: &'a dyn Hints) -> Steps<'a, O> {
        let run = Run::new(operation, env);
        let mut steps = Steps { run, hints, next: None, answer: None };
        steps.advance();
        steps
    }

    fn advance(&mut self) {
        match self.run.advance(self.hints) {
            Next::Done(answer) => self.answer = Some(answer.map(|answer| format!("{answer:?}"))),
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
                let found = answers(store, &reads);
                self.run.learn(reads, found);
                self.advance();
            }
            Some(Next::Commit(plan, output)) => match decision(store, &plan) {
                Verdict::Refused { guard, found } => {
                    self.run.refused(&plan.guards[guard], found);
                    self.advance();
                }
                _ => self.answer = Some(Ok(format!("{output:?}"))),
            },
            _ => panic!("an operation that has answered takes no step"),
        }
    }

    fn answer(&self) -> Option<&Answer> {
        self.answer.as_ref()
    }
}
