//! Renaming a node, with everything below it, in one commit.
//!
//! A directory must not move below itself, and this must also hold if two directories are moved at
//! the same time. So the plan of a move to another parent guards the inode of every directory above
//! the target. A move writes the inode of the moved directory, which has its parent. For example,
//! one program moves `a` into `b` and another moves `b` into `a` at the same time: each plan guards
//! the inode that the other one writes, so one of them is refused and fails with `BelowItself`.

use record::key::CounterKind;
use record::{
    Attributes, Dentry, Ino, Inode, InodeBody, Kind, RetainUntil, Special, SpecialKind,
    VersionStamp,
};
use store::{Guard, Plan, Write};

use super::counts::Counts;
use super::remove::empty_directory;
use super::{ANCESTORS_MAX, KnownInode, NodeName, keeping};
use crate::inode_state::{Change, admit};
use crate::path::Bound;
use crate::run::{Env, Planner, Step};
use crate::stage::guard_absent;
use crate::unbind::Unbinding;
use crate::view::View;
use crate::{FsError, Halt};

/// The treatment of a node that already has the new name of a rename.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenameMode {
    /// The node that has the new name is replaced.
    Replace,
    /// The rename fails with `NameExists` if the new name is bound (`RENAME_NOREPLACE`).
    NoReplace,
    /// The node that has the new name gets the old name (`RENAME_EXCHANGE`). The rename fails with
    /// `NoSuchKey` if there is none.
    Exchange,
    /// The old name is bound to a whiteout (`RENAME_WHITEOUT`), a device by which an overlay file
    /// system hides a name. Its field `replaces` says whether a node with the new name is replaced.
    Whiteout(Whiteout),
}

/// A whiteout: the character device with number 0 that takes the old name at a rename, and by which
/// an overlay file system (`overlayfs`) hides a name of a lower layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whiteout {
    /// The inode number of the whiteout.
    pub ino: Ino,
    /// The user id of the whiteout's owner.
    pub uid: u32,
    /// The group id of the whiteout.
    pub gid: u32,
    /// False to fail with `NameExists` if the new name is bound (`RENAME_NOREPLACE`).
    pub replaces: bool,
}

impl Whiteout {
    /// Adds the whiteout to a plan that removes this name from its file.
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
    /// The inode number of the node that has the new name.
    pub ino: Ino,
    /// The inode number of the node that had the new name before, and true if it has no other name.
    /// `None` if the new name was free, and after an exchange.
    pub replaced: Option<(Ino, bool)>,
    /// After an exchange, the inode number of the node that has the old name now.
    pub exchanged: Option<Ino>,
    /// The retention of the renamed file before and after, if the default retention of the bucket
    /// changed it. `None` after an exchange.
    pub retention: Option<RetentionChange>,
}

/// The retention of a file before and after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionChange {
    /// The retention of the file before the change; `None` if it had none.
    pub before: Option<RetainUntil>,
    /// The retention of the file after the change; `None` if it has none.
    pub after: Option<RetainUntil>,
}

impl RetentionChange {
    /// Returns the change between two states of a file; `None` if the retention is the same, or if
    /// the node is not a file.
    pub(super) fn between(before: &Inode, after: &Inode) -> Option<RetentionChange> {
        let retention = |inode: &Inode| inode.file().map(|file| file.object.lock.retention);
        let (before, after) = (retention(before)?, retention(after)?);
        (before != after).then_some(RetentionChange { before, after })
    }
}

/// Renames a node. One round trip if both directories and names are cached. If both names are bound
/// to one node, nothing changes, as POSIX demands.
///
/// Fails with `NoSuchKey` if the old name is free, and with `OtherBucket` if the names are in two
/// buckets, or if a directory is moved in a bucket with object lock; a program then copies the
/// files. Fails with `BelowItself` if a directory would move below itself, and with
/// `NotADirectory`, `IsADirectory` or `DirectoryNotEmpty` if the node with the new name cannot be
/// replaced.
#[derive(Clone, Debug)]
pub struct RenameNode<'a> {
    /// The old name of the node.
    pub from: &'a NodeName,
    /// The new name of the node.
    pub to: &'a NodeName,
    /// The treatment of a node that has the new name.
    pub mode: RenameMode,
}

/// The properties that a node gets with its new name.
#[derive(Clone, Copy, Debug, Default)]
struct Binding {
    /// The version id that it gets, if the bucket shows versions.
    version: Option<VersionStamp>,
    /// The default retention of the bucket, if it has one.
    retention: Option<RetainUntil>,
    /// True if the file is locked. Then the old key keeps it as a noncurrent version, and the new
    /// name is a further hard link.
    keeps_old: bool,
}

/// The node that one of the two names of a rename binds, with its dentry and inode.
struct End {
    bound: Bound,
    known: KnownInode,
}

impl End {
    fn find(view: &mut View<'_>, name: &NodeName) -> Result<Option<End>, Halt> {
        let Some((bound, target)) = name.find(view)? else { return Ok(None) };
        let Some(record) = target else { return Ok(None) };
        let known = KnownInode::of(record::key::inode(bound.dentry.ino), record)?;
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

    /// The inode with one name more. Its Last-Modified time stays, because the version under the
    /// old key has it, too.
    fn linked(&self, env: &Env) -> Inode {
        let mut inode = self.known.inode.clone();
        inode.attributes.status_changed = env.now;
        if let InodeBody::File(file) = &mut inode.body {
            file.marked_in_dentry = false;
            file.links = file.links.saturating_add(1);
        }
        inode
    }

    /// The inode under its new name.
    fn moved(&self, to: &NodeName, env: &Env) -> Inode {
        let mut inode = self.known.inode.clone();
        inode.attributes.status_changed = env.now;
        match &mut inode.body {
            InodeBody::Directory(directory) => {
                directory.parent = to.directory;
                directory.name.clone_from(&to.name);
            }
            // A new key is a new object, so Last-Modified changes. The mark "self-contained" in the
            // dentry goes: another session may have found the file under the old name, and would
            // look for the mark there.
            InodeBody::File(file) => {
                inode.attributes.changed = env.now;
                file.marked_in_dentry = false;
            }
            InodeBody::Symlink(_) | InodeBody::Special(_) => inode.attributes.changed = env.now,
        }
        inode
    }

    /// Returns true if a retention or a legal hold keeps the file under its key.
    fn is_locked(&self, env: &Env) -> bool {
        let file = self.known.inode.file();
        file.is_some_and(|file| file.object.lock.holds(env.earliest_now, false))
    }

    /// Adds the new dentry and the changed inode to a plan. The caller adds the removal of the old
    /// name. Returns the retention of a file if it changes.
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
        RetentionChange::between(&self.known.inode, &inode)
    }
}

impl Planner for RenameNode<'_> {
    type Output = Renamed;

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<Renamed>, Halt> {
        let (from, to) = (self.from, self.to);
        let old_parent = KnownInode::parent(view, from.directory);
        let new_parent = KnownInode::parent(view, to.directory);
        let source = End::find(view, from);
        let target = match End::find(view, to) {
            Err(Halt::Need) if to.seems_free(view) => Ok(None),
            target => target,
        };
        let (old_parent, new_parent) = (old_parent?, new_parent?);
        // All records of both ends are requested before the first is used, so that they take one
        // round trip.
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
            // POSIX: if both names are hard links to one file, rename does nothing.
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
        // Only a directory that gets another parent can move below itself.
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

/// The two names of a rename, and the records that a plan needs of both.
struct Ends<'a> {
    from: &'a NodeName,
    to: &'a NodeName,
    bucket: Ino,
    source: &'a End,
    /// The directories of the two names.
    parents: (&'a KnownInode, &'a KnownInode),
    /// The whiteout (the device of an overlay file system) that takes the old name, if there is
    /// one.
    whiteout: Option<Whiteout>,
}

impl Ends<'_> {
    /// Gives the source the new name, in place of the target. Returns true if the target has no
    /// other name, and the retention of the source if it changes.
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
        // Only files are objects, and only objects have versions.
        if source.kind() == Kind::File || target.is_some_and(|target| target.kind() == Kind::File) {
            let new = keeping::versions(view, parents.1, &to.name, plan)?;
            let old = keeping::versions(view, parents.0, &from.name, plan)?;
            let replaced = target.filter(|target| target.kind() == Kind::File);
            let replaced = replaced.map(|target| &target.bound.dentry);
            match (new, replaced) {
                (Some(new), replaced) if source.kind() == Kind::File => {
                    binding.version = new.supersede(view, env, replaced, plan, &mut unbinding)?;
                }
                // The new name is bound to a node that is not an object, so for S3 the old object
                // is deleted.
                (Some(new), Some(replaced)) => {
                    new.delete(view, env, Some(replaced), plan, &mut unbinding)?;
                }
                (_, replaced) => replaced.into_iter().for_each(|dentry| unbinding.take(dentry)),
            }
            if let (Some(old), Kind::File) = (old, source.kind()) {
                if source.is_locked(env) {
                    // A locked version must stay under its key. It becomes noncurrent, below a
                    // delete marker.
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
            // The target was guessed or found to be absent. The plan guards both dentries that the
            // name may have.
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

    /// Removes the old name from the renamed node, or binds it to the whiteout (the device of an
    /// overlay file system).
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
            // The whiteout uses the file's dentry. A file that the directory has hidden must not be
            // overwritten.
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

    /// Gives each of two nodes the name of the other.
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
        for (end, other, (old_name, old_parent), (new_name, new_parent)) in
            [(source, target, old, new), (target, source, new, old)]
        {
            counts.name(old_name.directory, bucket, end.kind(), -1);
            counts.name(new_name.directory, bucket, end.kind(), 1);
            let mut version = None;
            let other_env = other_version(env);
            let (env, other_env) =
                if new_name == to { (env, &other_env) } else { (&other_env, env) };
            if end.kind() == Kind::File
                && let Some(versions) = keeping::versions(view, new_parent, &new_name.name, plan)?
            {
                let replaced = (other.kind() == Kind::File).then_some(&other.bound.dentry);
                version = versions.arrive(view, env, replaced, plan, &mut unbinding)?;
            }
            if end.kind() == Kind::File
                && other.kind() != Kind::File
                && let Some(versions) = keeping::versions(view, old_parent, &old_name.name, plan)?
            {
                // No object has the old key any more, so a delete marker is added there.
                versions.leave(view, other_env, &end.bound.dentry, plan, &mut unbinding)?;
            }
            let retention = match end.kind() {
                Kind::File => keeping::default_retention(view, env, bucket, plan)?,
                Kind::Directory | Kind::Symlink | Kind::Special => None,
            };
            let binding = Binding { version, retention, keeps_old: false };
            end.bind(new_name, binding, env, plan);
        }
        let unbound = unbinding.finish(view, env, plan)?;
        counts.add(bucket, CounterKind::Bytes, -unbound.bytes);
        // A directory and a file of one name have different dentries. So both old dentries are
        // removed. The new dentry of the file must be free: a file that the directory has hidden
        // must not be overwritten.
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

/// An environment for the second of two version ids of one plan, with other random bits, so that
/// the two ids differ. A directory that is moved takes versions with their ids to other keys, and a
/// key must not have two versions of one id.
fn other_version(env: &Env) -> Env {
    Env { random: !env.random, ..*env }
}

/// Refuses a rename that could take a locked object away from its key.
///
/// A directory may contain locked objects, and a plan does not read everything below it. So in a
/// bucket with object lock a directory is not moved: the operation fails with `OtherBucket`, and
/// programs move file by file. An exchange of a locked file fails with `Locked`.
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
            // Objects below may be locked as soon as the bucket enables object lock.
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

/// Guards a directory and all directories above it, up to the bucket. Fails with `BelowItself` if
/// one of them is `moved`, and with `TooDeep` beyond the limit of levels.
fn guard_above(
    view: &mut View<'_>,
    directory: &KnownInode,
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
        at = KnownInode::directory(view, above)?;
    }
    Err(FsError::TooDeep.into())
}
