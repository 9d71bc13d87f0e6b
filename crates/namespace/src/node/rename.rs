//! Giving a node another name, in one commit, whatever is below it.
//!
//! A directory that comes to another parent must not come to be below itself, also when two are
//! moved at the same time. So its plan guards every directory above the target as it was found.
//! Whoever moves one of these writes its inode, which says where it is: of two such plans one is
//! refused.

use record::key::CounterKind;
use record::{
    Attributes, Dentry, Ino, Inode, InodeBody, Kind, RetainUntil, Special, SpecialKind,
    VersionStamp,
};
use store::{Guard, Plan, Write};

use super::counts::Counts;
use super::remove::empty_directory;
use super::{ANCESTORS_MAX, Known, NodeName, keeping};
use crate::inode_state::{Change, admit};
use crate::path::Bound;
use crate::run::{Env, Planner, Step};
use crate::stage::guard_absent;
use crate::unbind::Unbinding;
use crate::view::View;
use crate::{FsError, Halt};

/// What is to become of a node that has the new name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenameMode {
    /// It is replaced.
    Replace,
    /// There must be none: `RENAME_NOREPLACE`.
    NoReplace,
    /// It gets the old name: `RENAME_EXCHANGE`.
    Exchange,
    /// It is replaced if the whiteout says so, and the old name gets the whiteout: `RENAME_WHITEOUT`.
    Whiteout(Whiteout),
}

/// The mark of a name that an overlay file system hides: a character device with the number 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whiteout {
    /// The number of its inode.
    pub ino: Ino,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// False if nothing may have the new name: `RENAME_NOREPLACE`.
    pub replaces: bool,
}

impl Whiteout {
    /// Adds to a plan that a name is bound to it, which no file has any more by that plan.
    fn bind(
        &self,
        name: &NodeName,
        bucket: Ino,
        view: &mut View<'_>,
        env: &Env,
        plan: &mut Plan,
    ) -> Result<(), Halt> {
        let (slot, at) = (name.file_slot(), record::key::inode(self.ino));
        let dentry = Dentry::of(self.ino, Kind::Special);
        plan.writes.push(Write::Put(slot.clone(), dentry.encode(&slot)));
        let special = Special { kind: SpecialKind::Character, device: 0, links: 1 };
        let inode = Inode {
            attributes: Attributes::new(0, self.uid, self.gid, env.now),
            bucket,
            xattrs: Vec::new(),
            body: InodeBody::Special(special),
        };
        guard_absent(&at, view, plan)?;
        plan.writes.push(Write::Put(at.clone(), inode.encode(&at)));
        Ok(())
    }
}

/// The result of a [`RenameNode`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renamed {
    /// The node that has the new name now.
    pub ino: Ino,
    /// The node that lost it, and true if that was its last name.
    pub replaced: Option<(Ino, bool)>,
    /// The node that has the old name now, after an exchange.
    pub exchanged: Option<Ino>,
    /// The retention of the renamed file before and after, if the default retention of the bucket has
    /// changed it. Files that are exchanged have no retention before.
    pub retention: Option<RetentionChange>,
}

/// The retention of a file before and after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionChange {
    /// The retention before.
    pub before: Option<RetainUntil>,
    /// The retention after.
    pub after: Option<RetainUntil>,
}

/// Gives a node another name: one round trip when both directories and names are remembered.
#[derive(Clone, Debug)]
pub struct RenameNode<'a> {
    /// The name that it has.
    pub from: &'a NodeName,
    /// The name that it is to have.
    pub to: &'a NodeName,
    /// What becomes of what has that name.
    pub mode: RenameMode,
}

/// How a node is bound to its new name.
#[derive(Clone, Copy, Debug, Default)]
struct Binding {
    /// The version that it is there, if the bucket shows versions.
    version: Option<VersionStamp>,
    /// The default retention of its bucket, if it has one.
    retention: Option<RetainUntil>,
    /// Whether the old key keeps the file as a noncurrent version, because it is locked. Then the new
    /// name is a further hard link.
    keeps_old: bool,
}

/// A node at one end of a rename.
struct End {
    bound: Bound,
    known: Known,
}

impl End {
    fn find(view: &mut View<'_>, name: &NodeName) -> Result<Option<End>, Halt> {
        let Some((bound, target)) = name.find(view)? else { return Ok(None) };
        let Some(record) = target else { return Ok(None) };
        let known = Known::of(record::key::inode(bound.dentry.ino), record)?;
        Ok(Some(End { bound, known }))
    }

    fn kind(&self) -> Kind {
        self.bound.dentry.kind
    }

    fn is_directory(&self) -> bool {
        self.bound.is_directory()
    }

    fn ino(&self) -> Ino {
        self.bound.dentry.ino
    }

    /// The inode with one name more. Its time as an object stays, because the version under the old key
    /// has it too.
    fn linked(&self, env: &Env) -> Inode {
        let mut inode = self.known.inode.clone();
        inode.attributes.status_changed = env.now;
        if let InodeBody::File(file) = &mut inode.body {
            file.told_by_name = false;
            file.links = file.links.saturating_add(1);
        }
        inode
    }

    /// The inode as it is under its new name.
    fn moved(&self, to: &NodeName, env: &Env) -> Inode {
        let mut inode = self.known.inode.clone();
        inode.attributes.status_changed = env.now;
        match &mut inode.body {
            InodeBody::Directory(directory) => {
                directory.parent = to.directory;
                directory.name.clone_from(&to.name);
            }
            // The name is new, so the object is. It says nothing of the file: others may have found
            // that under the old one, and look for it there.
            InodeBody::File(file) => {
                inode.attributes.changed = env.now;
                file.told_by_name = false;
            }
            InodeBody::Symlink(_) | InodeBody::Special(_) => inode.attributes.changed = env.now,
        }
        inode
    }

    /// Whether a retention or a legal hold keeps the file under its key.
    fn is_locked(&self, env: &Env) -> bool {
        let file = self.known.inode.file();
        file.is_some_and(|file| file.object.lock.holds(env.earliest_now, false))
    }

    /// Adds to a plan that the node has this name, as this version of its key if it is to be one. The
    /// caller adds what becomes of its old name. Returns the retention of a file if it changes.
    fn bind(
        &self,
        to: &NodeName,
        bound: Binding,
        env: &Env,
        plan: &mut Plan,
    ) -> Option<RetentionChange> {
        let slot = to.slot(self.kind());
        let Binding { version, retention, keeps_old } = bound;
        let dentry = Dentry { self_contained: None, version, ..self.bound.dentry };
        let dentry = Dentry { linked: dentry.linked || keeps_old, ..dentry };
        plan.writes.push(Write::Put(slot.clone(), dentry.encode(&slot)));
        let mut inode = if keeps_old { self.linked(env) } else { self.moved(to, env) };
        if let (InodeBody::File(file), Some(default)) = (&mut inode.body, retention) {
            file.object.lock.retain(default, env.earliest_now);
        }
        plan.guards.push(self.known.guard());
        plan.writes.push(Write::Put(self.known.key.clone(), inode.encode(&self.known.key)));
        let retention = |inode: &Inode| inode.file().map(|file| file.object.lock.retention);
        let (before, after) = (retention(&self.known.inode)?, retention(&inode)?);
        (before != after).then_some(RetentionChange { before, after })
    }
}

impl Planner for RenameNode<'_> {
    type Output = Renamed;

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<Renamed>, Halt> {
        let (from, to) = (self.from, self.to);
        let old_parent = Known::parent(view, from.directory);
        let new_parent = Known::parent(view, to.directory);
        let source = End::find(view, from);
        let target = match End::find(view, to) {
            Err(Halt::Need) if to.seems_free(view) => Ok(None),
            target => target,
        };
        let (old_parent, new_parent) = (old_parent?, new_parent?);
        let (source, target) = (source?.ok_or(FsError::NoSuchKey)?, target?);
        if old_parent.inode.bucket != new_parent.inode.bucket {
            return Err(FsError::OtherBucket.into());
        }
        let done = Renamed { ino: source.ino(), replaced: None, exchanged: None, retention: None };
        match (&target, self.mode) {
            (
                Some(_),
                RenameMode::NoReplace | RenameMode::Whiteout(Whiteout { replaces: false, .. }),
            ) => return Err(FsError::NameExists.into()),
            // Two names of one file stay, as POSIX says; so does one that is renamed to itself.
            (Some(target), _) if target.ino() == source.ino() => return Ok(Step::Done(done)),
            (None, RenameMode::Exchange) => return Err(FsError::NoSuchKey.into()),
            _ => {}
        }
        let mut plan = Plan::default();
        let exchanged = target.as_ref().filter(|_| self.mode == RenameMode::Exchange);
        refuse_locked(view, env, (&source, exchanged), &mut plan)?;
        for end in [Some(&source), exchanged].into_iter().flatten() {
            if end.kind() == Kind::File {
                let node = (end.ino(), &end.known.inode);
                admit(view, env, node, Change::Name, &mut plan)?;
            }
        }
        from.guard_bound(&source.bound, &mut plan);
        let moves = from.directory != to.directory;
        if moves && source.is_directory() {
            guard_above(view, &new_parent, source.ino(), &mut plan)?;
        } else {
            plan.guards.push(new_parent.guard_present());
        }
        let parents = (&old_parent, &new_parent);
        let whiteout = match self.mode {
            RenameMode::Whiteout(whiteout) => Some(whiteout),
            RenameMode::Replace | RenameMode::NoReplace | RenameMode::Exchange => None,
        };
        let bucket = new_parent.inode.bucket;
        let ends = Ends { from, to, bucket, source: &source, parents, whiteout };
        match &target {
            Some(target) if self.mode == RenameMode::Exchange => {
                if moves && target.is_directory() {
                    guard_above(view, &old_parent, target.ino(), &mut plan)?;
                } else {
                    plan.guards.push(old_parent.guard_present());
                }
                ends.exchange(view, target, env, &mut plan)?;
                Ok(Step::Commit(plan, Renamed { exchanged: Some(target.ino()), ..done }))
            }
            target => {
                let (last, retention) = ends.replace(view, target.as_ref(), env, &mut plan)?;
                let replaced = target.as_ref().map(|target| (target.ino(), last));
                Ok(Step::Commit(plan, Renamed { replaced, retention, ..done }))
            }
        }
    }
}

/// What is renamed, and between which names.
struct Ends<'a> {
    from: &'a NodeName,
    to: &'a NodeName,
    bucket: Ino,
    source: &'a End,
    /// The directories that the names are in.
    parents: (&'a Known, &'a Known),
    /// The whiteout that gets the old name, if one does.
    whiteout: Option<Whiteout>,
}

impl Ends<'_> {
    /// Gives the source the new name, in place of the target. Returns true if the target has lost its
    /// last name, and the retention of the source if it changes.
    fn replace(
        &self,
        view: &mut View<'_>,
        target: Option<&End>,
        env: &Env,
        plan: &mut Plan,
    ) -> Result<(bool, Option<RetentionChange>), Halt> {
        let Ends { from, to, bucket, source, parents, whiteout: _ } = *self;
        let (mut counts, mut last) = (Counts::default(), target.is_some());
        let (mut binding, mut unbinding) = (Binding::default(), Unbinding::new(bucket));
        if source.kind() == Kind::File || target.is_some_and(|target| target.kind() == Kind::File) {
            let new = keeping::versions(view, parents.1, &to.name, plan)?;
            let old = keeping::versions(view, parents.0, &from.name, plan)?;
            let replaced = target.filter(|target| target.kind() == Kind::File);
            let replaced = replaced.map(|target| &target.bound.dentry);
            match (new, replaced) {
                (Some(new), replaced) if source.kind() == Kind::File => {
                    binding.version = new.supersede(view, env, replaced, plan, &mut unbinding)?;
                }
                // What is no object takes its place.
                (Some(new), Some(replaced)) => {
                    new.delete(view, env, Some(replaced), plan, &mut unbinding)?;
                }
                (_, replaced) => replaced.into_iter().for_each(|it| unbinding.take(it)),
            }
            if let (Some(old), Kind::File) = (old, source.kind()) {
                if source.is_locked(env) {
                    // The locked version stays under its key, below a delete marker.
                    binding.keeps_old = true;
                    let stays =
                        Dentry { linked: true, self_contained: None, ..source.bound.dentry };
                    old.delete(view, env, Some(&stays), plan, &mut unbinding)?;
                } else {
                    let env = &other_version(env);
                    old.leave(view, env, &source.bound.dentry, plan, &mut unbinding)?;
                }
            }
            if source.kind() == Kind::File {
                binding.retention = keeping::default_retention(view, env, bucket, plan)?;
            }
        }
        counts.name(from.directory, bucket, source.kind(), -1);
        counts.name(to.directory, bucket, source.kind(), 1);
        self.leave_old_name(view, env, &mut counts, plan)?;
        match target {
            None => {
                for slot in [to.directory_slot(), to.file_slot()] {
                    plan.guards.push(Guard::Absent(slot));
                }
            }
            Some(target) => {
                match (source.is_directory(), target.is_directory()) {
                    (true, false) => return Err(FsError::NotADirectory.into()),
                    (false, true) => return Err(FsError::IsADirectory.into()),
                    _ => {}
                }
                to.guard_bound(&target.bound, plan);
                counts.name(to.directory, bucket, target.kind(), -1);
                if target.is_directory() {
                    empty_directory(view, env, &target.bound, &mut counts, plan)?;
                } else {
                    if target.kind() != Kind::File {
                        unbinding.take(&target.bound.dentry);
                    }
                    last = !target.bound.dentry.linked;
                }
            }
        }
        let unbound = unbinding.finish(view, env, plan)?;
        counts.add(bucket, CounterKind::Bytes, -unbound.bytes);
        last |= target.is_some_and(|target| unbound.ended.contains(&target.ino()));
        let retention = source.bind(to, binding, env, plan);
        counts.finish(env, plan);
        Ok((last, retention))
    }

    /// Takes the old name from the source, and gives it to the whiteout if there is one.
    fn leave_old_name(
        &self,
        view: &mut View<'_>,
        env: &Env,
        counts: &mut Counts,
        plan: &mut Plan,
    ) -> Result<(), Halt> {
        let Ends { from, bucket, source, .. } = *self;
        let Some(whiteout) = self.whiteout else {
            plan.writes.push(Write::Delete(source.bound.key.clone()));
            return Ok(());
        };
        if source.is_directory() {
            plan.writes.push(Write::Delete(source.bound.key.clone()));
            // A file behind the directory must not be written over.
            let slot = from.file_slot();
            if view.guess(&slot, None).is_some() {
                return Err(FsError::NameExists.into());
            }
            plan.guards.push(Guard::Absent(slot));
        }
        plan.guards.push(self.parents.0.guard_present());
        counts.name(from.directory, bucket, Kind::Special, 1);
        whiteout.bind(from, bucket, view, env, plan)
    }

    /// Gives each of two nodes the other's name.
    fn exchange(
        &self,
        view: &mut View<'_>,
        target: &End,
        env: &Env,
        plan: &mut Plan,
    ) -> Result<(), Halt> {
        let Ends { from, to, bucket, source, parents, whiteout: _ } = *self;
        to.guard_bound(&target.bound, plan);
        let (mut counts, mut unbinding) = (Counts::default(), Unbinding::new(bucket));
        let (old, new) = ((from, parents.0), (to, parents.1));
        for (end, other, (leaves, left), (comes, parent)) in
            [(source, target, old, new), (target, source, new, old)]
        {
            counts.name(leaves.directory, bucket, end.kind(), -1);
            counts.name(comes.directory, bucket, end.kind(), 1);
            let mut version = None;
            let other_env = other_version(env);
            let (env, other_env) = if comes == to { (env, &other_env) } else { (&other_env, env) };
            if end.kind() == Kind::File
                && let Some(versions) = keeping::versions(view, parent, &comes.name, plan)?
            {
                let leaving = (other.kind() == Kind::File).then_some(&other.bound.dentry);
                version = versions.arrive(view, env, leaving, plan, &mut unbinding)?;
            }
            if end.kind() == Kind::File
                && other.kind() != Kind::File
                && let Some(versions) = keeping::versions(view, left, &leaves.name, plan)?
            {
                // No object has the old key any more.
                versions.leave(view, other_env, &end.bound.dentry, plan, &mut unbinding)?;
            }
            let retention = match end.kind() {
                Kind::File => keeping::default_retention(view, env, bucket, plan)?,
                Kind::Directory | Kind::Symlink | Kind::Special => None,
            };
            let binding = Binding { version, retention, keeps_old: false };
            end.bind(comes, binding, env, plan);
        }
        let unbound = unbinding.finish(view, env, plan)?;
        counts.add(bucket, CounterKind::Bytes, -unbound.bytes);
        // A name of another kind has another slot. What was in the old one goes. What is in the new
        // one is a file behind the directory, and must not be written over.
        if source.is_directory() != target.is_directory() {
            let hidden = if source.is_directory() { from } else { to }.file_slot();
            if view.guess(&hidden, None).is_some() {
                return Err(FsError::NameExists.into());
            }
            plan.guards.push(Guard::Absent(hidden));
            for end in [source, target] {
                plan.writes.push(Write::Delete(end.bound.key.clone()));
            }
        }
        counts.finish(env, plan);
        Ok(())
    }
}

/// For the second of two versions of one plan: their ids differ. A directory that is moved brings versions
/// with their ids to other keys, and a key has no two versions of one id.
fn other_version(env: &Env) -> Env {
    Env { random: !env.random, ..*env }
}

/// Refuses to move a directory where objects may be locked, because a plan does not know what is below
/// it: programs move it file by file then. Refuses to exchange locked files, which stay under their keys.
fn refuse_locked(
    view: &mut View<'_>,
    env: &Env,
    (source, other): (&End, Option<&End>),
    plan: &mut Plan,
) -> Result<(), Halt> {
    let bucket = keeping::bucket_of(view, source.known.inode.bucket)?;
    let ends = || [Some(source), other].into_iter().flatten();
    if !bucket.dentry.locks {
        if ends().any(End::is_directory) {
            // Objects below may be locked as soon as the bucket allows locks.
            plan.guards.push(bucket.guard());
        }
        return Ok(());
    }
    for end in ends() {
        if end.is_directory() {
            return Err(FsError::OtherBucket.into());
        }
        if other.is_some() && end.is_locked(env) {
            return Err(FsError::Locked.into());
        }
    }
    Ok(())
}

/// Guards that a directory, and all above it up to the bucket, are where they were found, and that
/// none of them is `moved`.
fn guard_above(
    view: &mut View<'_>,
    directory: &Known,
    moved: Ino,
    plan: &mut Plan,
) -> Result<(), Halt> {
    let mut at = directory.clone();
    for _ in 0..ANCESTORS_MAX {
        if at.key == record::key::inode(moved) {
            return Err(FsError::BelowItself.into());
        }
        let guard = at.guard();
        if !plan.guards.contains(&guard) {
            plan.guards.push(guard);
        }
        let above = at.as_directory()?.parent;
        if above == Ino::ROOT {
            return Ok(());
        }
        at = Known::directory(view, above)?;
    }
    Err(FsError::TooDeep.into())
}
