//! Removing object keys, and the implied directories that become empty.
//!
//! One plan removes names from many directories (a request may name 1,000 keys). The directories of
//! all keys form a [`Tree`]: each directory is found once and guarded once. Then the tree is pruned
//! from the deepest directory up. For example, the keys `a/b/1` and `a/b/2` are removed, and
//! nothing else is below `a`: the plan removes both names, then `a/b` and `a`, if keys had implied
//! these directories. A directory that a program has created stays.

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

/// The number of names that are read of a directory from which one name is removed, to see if the
/// directory becomes empty. One name that stays is enough for this plan; the others are cached, so
/// that the removal of a further name need not read.
const SIBLINGS_ASKED: usize = 64;

/// If a directory may become empty, the plan would also remove it. So the names of at least this
/// many directories above it are read in the same round trip, because they may become empty in
/// turn. Most of these directories stay, so few are read at first. The number grows with the
/// directories that are already removed.
const PRUNED_AHEAD: usize = 8;

/// The guards and writes for the removal of a directory: a guard of its dentry, two guards that it
/// is empty, and the removal of dentry, inode and three counters.
pub const DIRECTORY_ITEMS: usize = 8;

/// The most guards and writes for the removal of a name: guards of dentry and inode, the removal of
/// the dentry, the change of the inode, and a guard that the range up to the next removed name is
/// empty. With versions, the plan has instead the version and its delete marker, a guard that these
/// are the newest, and the guards and removals of the null version and its record.
pub const REMOVAL_ITEMS: usize = 12;

/// A name to remove from a directory, with a condition.
#[derive(Clone, Debug)]
pub struct Removal {
    /// The name in its directory; empty for the object whose key ends with `/`.
    pub name: Vec<u8>,
    /// The condition on the object; `None` removes any.
    pub condition: Option<RemoveCondition>,
}

/// The names to remove from one directory.
#[derive(Clone, Debug, Default)]
pub struct Branch {
    /// The path of the directory, from the bucket down.
    pub directories: Vec<Vec<u8>>,
    /// The names to remove from the directory, each once.
    pub removals: Vec<Removal>,
}

/// Removes names from directories of a bucket, and the directories that become empty, if only keys
/// below implied them. A directory that a program has created stays.
#[derive(Clone, Debug)]
pub struct Remove<'a> {
    /// The bucket from which names are removed.
    pub bucket: NamedBucket<'a>,
    /// The directories, each once, sorted by path.
    pub branches: &'a [Branch],
}

/// The result of a [`Removal`].
pub type Removed = Result<RemovedKey, FsError>;

/// A key that is not bound any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemovedKey {
    /// True if there was an object.
    pub existed: bool,
    /// The version id of the delete marker (the record of the deletion) that was added, if the
    /// bucket shows versions.
    pub marker: Option<VersionRef>,
}

/// The decision on one name that a request removes.
struct Decided<'a> {
    branch: &'a Branch,
    removal: &'a Removal,
    /// The error, if the name is not removed.
    refused: Option<FsError>,
    /// The dentry of the object to remove, and the index of its directory's node in the tree.
    /// `None` if no object has the name.
    removed: Option<(usize, Bound)>,
    /// True if the name is bound to a node that is not an object, such as a symbolic link. It
    /// stays.
    is_other: bool,
}

impl Planner for Remove<'_> {
    type Output = Vec<Removed>;

    /// Returns the results in the order of branches and their removals.
    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<Vec<Removed>>, Halt> {
        let mut tree = Tree::find(view, self.bucket, self.branches)?;
        let mut plan = Plan { guards: tree.guards(), writes: Vec::new() };
        let decided = self.decide(view, &tree, &mut plan)?;
        let bucket = tree.nodes[BUCKET].bound.dentry;
        let mut unbinding = Unbinding::new(bucket.ino);
        // The versions of a key decide whether its inode keeps a reference, so they come before the
        // inodes.
        let verdicts = remove_all(view, env, &bucket, &decided, &mut plan, &mut unbinding)?;
        if plan.writes.is_empty() {
            return Ok(Step::Done(verdicts));
        }
        let (bucket, gone) = (bucket.ino, decided.into_iter().filter_map(|name| name.removed));
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
    /// Decides on all names. Requests all unknown records before it stops, so that they take one
    /// round trip.
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

/// Adds the removal of all decided names to a plan, and their versions or delete markers.
fn remove_all(
    view: &mut View<'_>,
    env: &Env,
    bucket: &Dentry,
    decided: &[Decided<'_>],
    plan: &mut Plan,
    unbinding: &mut Unbinding,
) -> Result<Vec<Removed>, Halt> {
    let (mut verdicts, mut known) = (Vec::with_capacity(decided.len()), true);
    for Decided { branch, removal, refused, removed, is_other } in decided {
        if let Some(refused) = refused {
            verdicts.push(Err(*refused));
            continue;
        }
        let removed = removed.as_ref().map(|(_, bound)| bound);
        if let Some(bound) = removed {
            plan.guards.push(bound.guard());
            plan.writes.push(Write::Delete(bound.key.clone()));
        }
        let mut marker = None;
        if !is_other {
            let object = || path::object_key(&branch.directories, &removal.name);
            let removed = removed.map(|bound| &bound.dentry);
            let versions = KeyVersions::new(bucket, object);
            // In a bucket with versions, the DELETE of a free key adds a delete marker, too.
            marker = versions
                .delete(view, env, removed, plan, unbinding)
                .or_else(|halt| unless_needed(halt, &mut known))?;
        }
        verdicts.push(Ok(RemovedKey { existed: removed.is_some(), marker }));
    }
    if known { Ok(verdicts) } else { Err(Halt::Need) }
}

impl Branch {
    /// The decision on a name that is free.
    fn absent<'a>(&'a self, removal: &'a Removal) -> Decided<'a> {
        let refused = removal.condition.as_ref().map(|_| FsError::NoSuchKey);
        Decided { branch: self, removal, refused, removed: None, is_other: false }
    }

    /// Decides on the names of one directory.
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
            // A committed plan proves all of its answers. So names that stay are guarded, too.
            let Some((value, target)) = found else {
                plan.guards.push(Guard::Absent(slot.clone()));
                decided.push(absent);
                continue;
            };
            let bound = path::bound(slot, value)?;
            if bound.dentry.kind != Kind::File {
                // A node that is not a file is not an S3 object.
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
            decided.push(Decided { refused: None, removed: Some((node, bound)), ..absent });
        }
        Ok(decided)
    }
}

/// Turns a missing record into a default, and sets `known` to false. The caller continues, so that
/// all unknown records are requested in one pass, and stops at its end.
fn unless_needed<T: Default>(halt: Halt, known: &mut bool) -> Result<T, Halt> {
    if halt == Halt::Need {
        *known = false;
        return Ok(T::default());
    }
    Err(halt)
}

/// The index of the bucket's node in the tree.
const BUCKET: usize = 0;

/// A node of the tree of directories: the bucket, or a directory from which a request removes
/// names.
#[derive(Debug)]
struct Node {
    bound: Bound,
    /// The index of the parent directory's node; the bucket's is itself.
    above: usize,
    depth: usize,
    /// The dentries that the plan removes from the directory.
    leaving: Vec<Bound>,
    /// The most names that the plan may remove from the directory: files, and subdirectories that
    /// may become empty.
    may_leave: usize,
    /// False if records are still unknown that show which directories below become empty. Then the
    /// plan is made again after they are read.
    decided: bool,
    /// True if the directory must stay even if it becomes empty, because the plan adds a name to
    /// it.
    kept: bool,
}

/// The place in the tree to which the path of a branch leads.
#[derive(Debug)]
enum BranchEnd {
    /// The index of the directory's node.
    Node(usize),
    /// The directory does not exist.
    Missing,
}

/// The existing directories of all branches (the directories from which a request removes names),
/// each once, with the directories above them.
#[derive(Debug)]
pub(crate) struct Tree {
    nodes: Vec<Node>,
    /// The place to which each branch leads, in the order of the branches.
    places: Vec<BranchEnd>,
    /// The keys of dentries of directories that do not exist.
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
        // The branches are sorted, so each shares its first directories with the branch before.
        // `trail` has the nodes of the current chain.
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

    /// The guards that all of the tree is unchanged, including the absence of missing directories.
    pub(crate) fn guards(&self) -> Vec<Guard> {
        let bound = self.nodes.iter().map(|node| node.bound.guard());
        bound.chain(self.missing.iter().cloned().map(Guard::Absent)).collect()
    }

    /// The index of the node and the inode number of the directory of a branch, which is given by
    /// its index; `None` if the directory does not exist.
    pub(crate) fn end(&self, branch: usize) -> Option<(usize, Ino)> {
        match self.places.get(branch) {
            Some(BranchEnd::Node(node)) => Some((*node, self.nodes[*node].bound.dentry.ino)),
            Some(BranchEnd::Missing) | None => None,
        }
    }

    /// Notes that the plan removes this dentry from the directory of a node. The caller adds the
    /// removal to the plan.
    pub(crate) fn leave(&mut self, node: usize, name: Bound) {
        self.nodes[node].leaving.push(name);
    }

    /// Notes that these directories must stay, because the same plan adds a name to them.
    pub(crate) fn keep(&mut self, directories: impl Iterator<Item = Ino>) {
        for ino in directories {
            let same = |node: &&mut Node| node.bound.dentry.ino == ino;
            self.nodes.iter_mut().filter(same).for_each(|node| node.kept = true);
        }
    }

    /// Adds the removal of implied directories that become empty to a plan, from the deepest up.
    /// For directories that stay, changes the counters.
    pub(crate) fn prune(
        &mut self,
        view: &mut View<'_>,
        env: &Env,
        plan: &mut Plan,
    ) -> Result<(), Halt> {
        // Deepest first: a directory can only be decided when all directories below it are.
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
                // The names of this directory are unknown. Those of the directories above are
                // requested in the same round trip, because they may become empty, too.
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

    /// Returns true if the plan removes the directory of a node when it becomes empty: a key
    /// implies it, and nothing keeps it.
    fn may_go(&self, node: usize) -> bool {
        let at = &self.nodes[node];
        node != BUCKET && !at.kept && is_implied(&at.bound)
    }

    /// Returns true if the directory of a node must stay, or if a name stays in it. Adds a guard
    /// that such a name exists.
    fn stays(&mut self, view: &mut View<'_>, node: usize, plan: &mut Plan) -> Result<bool, Halt> {
        if !self.may_go(node) {
            return Ok(true);
        }
        let node = &mut self.nodes[node];
        node.leaving.sort_by(|a, b| a.key.cmp(&b.key));
        // One cached sibling is enough to prove that the directory stays, and saves the read of the
        // range. If the sibling is gone, the guard refuses the plan.
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

    /// Requests the names of the directories above a node that may become empty with it, at most
    /// `levels` of them, so that the next round trip reads them, too.
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

    /// The read of the directory's names. Its limit is so large that it returns a name that stays,
    /// if there is one.
    fn range(&self) -> Read {
        let (start, end) = key::dentries(self.bound.dentry.ino);
        let others = match &self.leaving[..] {
            // A client that empties a directory name by name finds the next names in the cache.
            [one] if self.may_leave == 1 && !one.is_directory() => SIBLINGS_ASKED,
            _ => self.may_leave,
        };
        let limit = u32::try_from(others + 1).unwrap_or(u32::MAX);
        Read::Range { start, end, limit, follow: None }
    }

    /// Adds the counter changes of a directory that stays.
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

    /// Adds the removal of the directory, and returns its dentry.
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

/// The guards that a directory has no other names than `leaving`, which are sorted.
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
