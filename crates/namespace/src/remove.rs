//! Removing names, and the directories that nothing but keys implied.
//!
//! One plan takes names out of many directories. Each directory is found once, for all branches
//! that pass it, and guarded once.

use std::cmp::Reverse;

use record::{Dentry, Ino, Inode, Kind, SortKey, VersionRef, key};
use store::{Guard, Key, Plan, Read, Write};

use crate::object::RemoveCondition;
use crate::path::{self, Bound, Chain, NamedBucket, Unknown, is_implied};
use crate::run::{Env, Planner, Step};
use crate::unbind::Unbinding;
use crate::version::KeyVersions;
use crate::view::after;
use crate::view::{Followed, View, decode};
use crate::{FsError, Halt};

/// Names that are asked for of a directory from which a single name is removed: one is enough that
/// stays.
const SIBLINGS_ASKED: usize = 64;

/// If a directory may be left empty, the names in so many directories above it are asked for
/// together with its own. Most of them stay, so few are asked for at first. The more have gone
/// already, the more are asked for.
const PRUNED_AHEAD: usize = 8;

/// Guards and writes for a directory that goes with its last name: a guard of its own name, two
/// guards that nothing else is in it, and the removal of name, inode and three counters.
pub const DIRECTORY_ITEMS: usize = 8;

/// The most guards and writes for a name: guards of it and of its inode, its own removal and what
/// becomes of the inode, and a guard that there is nothing between it and the next. Where versions are
/// kept its inode stays, and there are the version and the marker that it becomes, a guard that they
/// are the newest, and the null version, which is guarded and goes with the place where it stands.
pub const REMOVAL_ITEMS: usize = 12;

/// A name to remove.
#[derive(Clone, Debug)]
pub struct Removal {
    /// The name in its directory; empty for the object whose key ends with `/`.
    pub name: Vec<u8>,
    /// What must hold of the object.
    pub condition: Option<RemoveCondition>,
}

/// Names to remove from one directory.
#[derive(Clone, Debug, Default)]
pub struct Branch {
    /// The directory, from the bucket down.
    pub directories: Vec<Vec<u8>>,
    /// The names, each once.
    pub removals: Vec<Removal>,
}

/// Removes names from directories of a bucket, and the implied directories that this leaves empty.
#[derive(Clone, Debug)]
pub struct Remove<'a> {
    /// The bucket.
    pub bucket: NamedBucket<'a>,
    /// The directories, each once, in the order of their paths.
    pub branches: &'a [Branch],
}

/// What became of a [`Removal`].
pub type Removed = Result<RemovedKey, FsError>;

/// A key that is bound to nothing now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemovedKey {
    /// Whether there was an object.
    pub existed: bool,
    /// The marker that says that it was deleted, if the bucket keeps versions.
    pub marker: Option<VersionRef>,
}

/// A name, as it was found.
struct Decided<'a> {
    branch: &'a Branch,
    removal: &'a Removal,
    /// Why it is not removed, if it is not.
    refused: Option<FsError>,
    /// The object that goes, and the node that it leaves.
    going: Option<(usize, Bound)>,
    /// Whether something has the name that is no object.
    is_other: bool,
}

impl Planner for Remove<'_> {
    type Output = Vec<Removed>;

    /// Answers branch by branch.
    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<Vec<Removed>>, Halt> {
        let mut tree = Tree::find(view, self.bucket, self.branches)?;
        let mut plan = Plan { guards: tree.guards(), writes: Vec::new() };
        let decided = self.decide(view, &tree, &mut plan)?;
        let bucket = tree.nodes[BUCKET].bound.dentry;
        let mut unbinding = Unbinding::new(bucket.ino);
        let verdicts = remove_all(view, env, &bucket, &decided, &mut plan, &mut unbinding)?;
        if plan.writes.is_empty() {
            return Ok(Step::Done(verdicts));
        }
        let (bucket, gone) = (bucket.ino, decided.into_iter().filter_map(|it| it.going));
        let gone: Vec<(usize, Bound)> = gone.collect();
        let bytes = unbinding.finish(view, env, &mut plan)?.bytes;
        if bytes > 0 {
            plan.writes.push(Write::Add(key::counter(bucket, key::CounterKind::Bytes), -bytes));
        }
        if !gone.is_empty() {
            let count = i64::try_from(gone.len()).unwrap_or(i64::MAX);
            plan.writes.push(Write::Add(key::counter(bucket, key::CounterKind::Objects), -count));
        }
        for (node, bound) in gone {
            tree.leave(node, bound);
        }
        tree.prune(view, env, &mut plan)?;
        Ok(Step::Commit(plan, verdicts))
    }
}

impl Remove<'_> {
    /// Which of the names are bound and may go, and from which nodes.
    fn decide(
        &self,
        view: &mut View<'_>,
        tree: &Tree,
        plan: &mut Plan,
    ) -> Result<Vec<Decided<'_>>, Halt> {
        let (mut decided, mut known) = (Vec::new(), true);
        for (branch, place) in self.branches.iter().zip(&tree.places) {
            match place {
                BranchEnd::Node(node) => {
                    let directory = tree.nodes[*node].bound.dentry.ino;
                    let some = branch.decide(view, *node, directory, plan);
                    decided.extend(some.or_else(|halt| unless_needed(halt, &mut known))?);
                }
                BranchEnd::Missing => {
                    decided.extend(branch.removals.iter().map(|removal| branch.absent(removal)));
                }
            }
        }
        if known { Ok(decided) } else { Err(Halt::Need) }
    }
}

/// Adds to a plan that what may go is gone, and where versions are kept that it was deleted.
fn remove_all(
    view: &mut View<'_>,
    env: &Env,
    bucket: &Dentry,
    decided: &[Decided<'_>],
    plan: &mut Plan,
    unbinding: &mut Unbinding,
) -> Result<Vec<Removed>, Halt> {
    let (mut verdicts, mut known) = (Vec::with_capacity(decided.len()), true);
    for Decided { branch, removal, refused, going, is_other } in decided {
        if let Some(refused) = refused {
            verdicts.push(Err(*refused));
            continue;
        }
        let going = going.as_ref().map(|(_, bound)| bound);
        if let Some(bound) = going {
            plan.guards.push(bound.guard());
            plan.writes.push(Write::Delete(bound.key.clone()));
        }
        let mut marker = None;
        if !is_other {
            let object = || path::object_key(&branch.directories, &removal.name);
            let going = going.map(|bound| &bound.dentry);
            let versions = KeyVersions::new(bucket, object);
            marker = versions
                .delete(view, env, going, plan, unbinding)
                .or_else(|halt| unless_needed(halt, &mut known))?;
        }
        verdicts.push(Ok(RemovedKey { existed: going.is_some(), marker }));
    }
    if known { Ok(verdicts) } else { Err(Halt::Need) }
}

impl Branch {
    /// What is decided of a name if there is none.
    fn absent<'a>(&'a self, removal: &'a Removal) -> Decided<'a> {
        let refused = removal.condition.as_ref().map(|_| FsError::NoSuchKey);
        Decided { branch: self, removal, refused, going: None, is_other: false }
    }

    /// Which of the names are bound and may go.
    fn decide(
        &self,
        view: &mut View<'_>,
        node: usize,
        directory: Ino,
        plan: &mut Plan,
    ) -> Result<Vec<Decided<'_>>, Halt> {
        let slot =
            |removal: &Removal| key::dentry(directory, SortKey::file(&removal.name).as_bytes());
        let slots: Vec<Key> = self.removals.iter().map(slot).collect();
        let conditional = self.removals.iter().any(|removal| removal.condition.is_some());
        let found: Vec<Option<Followed>> = if conditional {
            view.followed(&slots, &key::dentry_to_inode())?
        } else {
            view.many(&slots)?.into_iter().map(|value| value.map(|value| (value, None))).collect()
        };
        let mut decided = Vec::with_capacity(slots.len());
        for ((removal, slot), found) in self.removals.iter().zip(&slots).zip(found) {
            let absent = self.absent(removal);
            // A plan that is committed is the proof of all its answers. So what stays is guarded,
            // too.
            let Some((value, target)) = found else {
                plan.guards.push(Guard::Absent(slot.clone()));
                decided.push(absent);
                continue;
            };
            let bound = path::bound(slot, value)?;
            if bound.dentry.kind != Kind::File {
                // What is no file is none of S3's objects.
                plan.guards.push(bound.guard());
                decided.push(Decided { is_other: true, ..absent });
                continue;
            }
            if let Some(condition) = &removal.condition {
                let inode_key = key::inode(bound.dentry.ino);
                let record = target.ok_or(FsError::NoSuchKey)?;
                let inode = decode(&inode_key, &record, Inode::decode)?;
                plan.guards.push(Guard::Equals(inode_key, record));
                if !condition.accepts(&inode) {
                    plan.guards.push(bound.guard());
                    decided.push(Decided { refused: Some(FsError::PreconditionFailed), ..absent });
                    continue;
                }
            }
            decided.push(Decided { refused: None, going: Some((node, bound)), ..absent });
        }
        Ok(decided)
    }
}

/// Goes on although something is not known, so that everything unknown is asked for at once.
fn unless_needed<T: Default>(halt: Halt, known: &mut bool) -> Result<T, Halt> {
    if halt == Halt::Need {
        *known = false;
        return Ok(T::default());
    }
    Err(halt)
}

/// The first node of every tree.
const BUCKET: usize = 0;

/// A bucket, or a directory that some branch passes.
#[derive(Debug)]
struct Node {
    bound: Bound,
    /// The node above; the bucket's is itself.
    above: usize,
    depth: usize,
    /// The names that leave it.
    leaving: Vec<Bound>,
    /// The most names that may leave it: files that do, and directories that may be left empty.
    may_leave: usize,
    /// Whether all below is decided.
    decided: bool,
    /// Whether it stays in any case.
    kept: bool,
}

/// Where a branch ends.
#[derive(Debug)]
enum BranchEnd {
    Node(usize),
    /// Its directory does not exist.
    Missing,
}

/// What exists of the directories of all branches, each once.
#[derive(Debug)]
pub(crate) struct Tree {
    nodes: Vec<Node>,
    /// Where each branch ends.
    places: Vec<BranchEnd>,
    /// The names that directories would have which do not exist.
    missing: Vec<Key>,
}

impl Tree {
    /// Finds the directories of all branches.
    pub(crate) fn find(
        view: &mut View<'_>,
        bucket: NamedBucket<'_>,
        branches: &[Branch],
    ) -> Result<Tree, Halt> {
        debug_assert!(branches.is_sorted_by(|a, b| a.directories < b.directories));
        let bucket = path::bucket(view, bucket)?;
        let mut chain = Chain { bucket: bucket.clone(), directories: Vec::new(), missing: None };
        let mut tree = Tree { nodes: Vec::new(), places: Vec::new(), missing: Vec::new() };
        tree.nodes.push(Node::new(bucket, BUCKET, 0));
        // The nodes of the chain, and how many of its names the branch before shares.
        let (mut trail, mut known) = (Vec::new(), true);
        let mut before: &[Vec<u8>] = &[];
        for branch in branches {
            let names = &branch.directories;
            let shared = before.iter().zip(names).take_while(|(a, b)| a == b).count();
            before = names;
            let lacks = chain.missing.is_some() && shared > chain.directories.len();
            if !lacks {
                chain.missing = None;
                chain.directories.truncate(shared);
                trail.truncate(shared);
                path::descend(view, &mut chain, names, Unknown::Ask)
                    .or_else(|halt| unless_needed(halt, &mut known))?;
                tree.missing.extend(chain.missing.clone());
            }
            for directory in &chain.directories[trail.len()..] {
                let above = trail.last().copied().unwrap_or(BUCKET);
                trail.push(tree.nodes.len());
                tree.nodes.push(Node::new(directory.clone(), above, trail.len()));
            }
            tree.places.push(match chain.missing {
                Some(_) => BranchEnd::Missing,
                None => BranchEnd::Node(trail.last().copied().unwrap_or(BUCKET)),
            });
        }
        if known { Ok(tree) } else { Err(Halt::Need) }
    }

    /// The guards that all of it still stands, the absence of what is missing included.
    pub(crate) fn guards(&self) -> Vec<Guard> {
        let bound = self.nodes.iter().map(|node| node.bound.guard());
        bound.chain(self.missing.iter().cloned().map(Guard::Absent)).collect()
    }

    /// Where a branch ends, and which directory that is; none if it does not exist.
    pub(crate) fn end(&self, branch: usize) -> Option<(usize, Ino)> {
        match self.places.get(branch) {
            Some(BranchEnd::Node(node)) => Some((*node, self.nodes[*node].bound.dentry.ino)),
            Some(BranchEnd::Missing) | None => None,
        }
    }

    /// A name leaves a node.
    pub(crate) fn leave(&mut self, node: usize, name: Bound) {
        self.nodes[node].leaving.push(name);
    }

    /// Directories stay, whatever leaves them, because something comes to them.
    pub(crate) fn keep(&mut self, directories: impl Iterator<Item = Ino>) {
        for ino in directories {
            let same = |node: &&mut Node| node.bound.dentry.ino == ino;
            self.nodes.iter_mut().filter(same).for_each(|node| node.kept = true);
        }
    }

    /// Removes the implied directories that the removals leave empty, from the deepest up. In those
    /// that stay, counts what is gone.
    pub(crate) fn prune(
        &mut self,
        view: &mut View<'_>,
        env: &Env,
        plan: &mut Plan,
    ) -> Result<(), Halt> {
        let mut order: Vec<usize> = (0..self.nodes.len()).collect();
        order.sort_by_key(|node| Reverse(self.nodes[*node].depth));
        for node in &order {
            let (above, leaving) = (self.nodes[*node].above, self.nodes[*node].leaving.len());
            self.nodes[*node].may_leave += leaving;
            if self.nodes[*node].may_leave > 0 && self.may_go(*node) {
                self.nodes[above].may_leave += 1;
            }
        }
        let mut pruned = 0;
        for node in &order {
            let above = self.nodes[*node].above;
            if !self.nodes[*node].decided {
                self.nodes[above].decided = false;
                continue;
            }
            if self.nodes[*node].leaving.is_empty() {
                continue;
            }
            let stays = match self.stays(view, *node, plan) {
                Err(Halt::Need) => {
                    self.ask_above(view, *node, PRUNED_AHEAD.max(4 * pruned));
                    self.nodes[*node].decided = false;
                    self.nodes[above].decided = false;
                    continue;
                }
                stays => stays?,
            };
            if stays {
                self.nodes[*node].count_leaving(env, plan);
            } else {
                let gone = self.nodes[*node].remove(plan);
                self.nodes[above].leaving.push(gone);
                pruned += 1;
            }
        }
        if self.nodes[BUCKET].decided { Ok(()) } else { Err(Halt::Need) }
    }

    /// Whether a node goes with its last name.
    fn may_go(&self, node: usize) -> bool {
        let at = &self.nodes[node];
        node != BUCKET && !at.kept && is_implied(&at.bound)
    }

    /// Whether a node stays once the names that leave it are gone, with a guard that says so.
    fn stays(&mut self, view: &mut View<'_>, node: usize, plan: &mut Plan) -> Result<bool, Halt> {
        if !self.may_go(node) {
            return Ok(true);
        }
        let node = &mut self.nodes[node];
        node.leaving.sort_by(|a, b| a.key.cmp(&b.key));
        if let [one] = &node.leaving[..]
            && node.may_leave == 1
            && !one.is_directory()
            && let Some(sibling) = view.sibling(node.bound.dentry.ino, one.key.suffix())
        {
            plan.guards.push(Guard::Present(sibling));
            return Ok(true);
        }
        let children = view.ranges(&[node.range()])?.into_iter().flatten();
        let leaves = |key: &Key| node.leaving.binary_search_by(|gone| gone.key.cmp(key)).is_ok();
        let stays = children.map(|child| child.key).find(|child| !leaves(child));
        plan.guards.extend(stays.iter().cloned().map(Guard::Present));
        Ok(stays.is_some())
    }

    /// Asks for the names in those directories above a node that may go with it.
    fn ask_above(&self, view: &mut View<'_>, node: usize, levels: usize) {
        let mut node = self.nodes[node].above;
        for _ in 0..levels {
            if !self.may_go(node) {
                break;
            }
            let _not_needed_yet = view.ranges(&[self.nodes[node].range()]);
            node = self.nodes[node].above;
        }
    }
}

impl Node {
    fn new(bound: Bound, above: usize, depth: usize) -> Node {
        Node { bound, above, depth, leaving: Vec::new(), may_leave: 0, decided: true, kept: false }
    }

    /// Asks for so many names of the directory that one of them stays, unless all leave.
    fn range(&self) -> Read {
        let (start, end) = key::dentries(self.bound.dentry.ino);
        let others = match &self.leaving[..] {
            // A client that empties a directory name by name finds the next names remembered.
            [one] if self.may_leave == 1 && !one.is_directory() => SIBLINGS_ASKED,
            _ => self.may_leave,
        };
        let limit = u32::try_from(others + 1).unwrap_or(u32::MAX);
        Read::Range { start, end, limit, follow: None }
    }

    /// Counts what leaves a directory that stays.
    fn count_leaving(&self, env: &Env, plan: &mut Plan) {
        let ino = self.bound.dentry.ino;
        let count = i64::try_from(self.leaving.len()).unwrap_or(i64::MAX);
        plan.writes.push(Write::Add(key::counter(ino, key::CounterKind::Entries), -count));
        let directories = self.leaving.iter().filter(|bound| bound.is_directory()).count();
        if directories > 0 {
            let count = i64::try_from(directories).unwrap_or(i64::MAX);
            plan.writes.push(Write::Add(key::counter(ino, key::CounterKind::Directories), -count));
        }
        plan.writes
            .push(Write::Max(key::counter(ino, key::CounterKind::Modified), env.now.micros()));
    }

    /// Removes the directory, which holds nothing but what leaves it.
    fn remove(&self, plan: &mut Plan) -> Bound {
        let ino = self.bound.dentry.ino;
        plan.guards.extend(empty_but(ino, &self.leaving));
        plan.writes.push(Write::Delete(self.bound.key.clone()));
        plan.writes.push(Write::Delete(key::inode(ino)));
        plan.writes.push(Write::Clear(key::counter(ino, key::CounterKind::Entries)));
        plan.writes.push(Write::Clear(key::counter(ino, key::CounterKind::Modified)));
        plan.writes.push(Write::Clear(key::counter(ino, key::CounterKind::Directories)));
        self.bound.clone()
    }
}

/// Guards that a directory holds nothing but the names that leave it, which are in order.
pub(crate) fn empty_but(directory: Ino, leaving: &[Bound]) -> Vec<Guard> {
    let (mut start, end) = key::dentries(directory);
    let mut guards = Vec::with_capacity(leaving.len() + 1);
    for bound in leaving {
        guards.push(Guard::Empty(start, bound.key.clone()));
        start = after(&bound.key);
    }
    guards.push(Guard::Empty(start, end));
    guards
}
