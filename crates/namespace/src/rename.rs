//! Renaming an object: another key for the same file, in one commit.
//!
//! Old and new key are paths at the instant of the commit. The plan creates the directories that
//! the new key implies, and removes the implied directories that the old key leaves empty, as a PUT
//! and a DELETE do. The file keeps its inode number, content and entity tag.
//!
//! For example, a client renames `in/x` to `out/x` and the connection is lost before the response.
//! The client sends the request again with the same token. The new key already has a file that was
//! renamed by this token, so the answer is success, and nothing is done.

use std::collections::BTreeMap;

use record::key::{self, CounterKind};
use record::{Dentry, Ino, Inode, InodeBody, RenameToken};
use store::{CounterKey, Guard, Key, Plan, Write};

use crate::inode_state::{Change, admit};
use crate::lookup::{File, find};
use crate::object::{ObjectCondition, Publish, WriteCondition, make_directories};
use crate::path::{self, Bound, Chain, Path, Unknown};
use crate::remove::{Branch, Tree};
use crate::run::{Env, Planner, Step};
use crate::unbind::Unbinding;
use crate::version::{self, KeyVersions};
use crate::view::View;
use crate::{FsError, Halt};

/// Gives an object another key of its bucket, and replaces the object that has the new key. One
/// round trip if the directories and both names are cached. Fails with `KeepsVersions` in a bucket
/// that shows versions, with `NoSuchKey` if there is no object, with `PreconditionFailed` if a
/// condition does not hold, with `OtherRequest` if the token was used for another request, and with
/// `TooDeep` if the plan would be too large.
#[derive(Clone, Debug)]
pub struct RenameKey<'a> {
    /// The old key of the object.
    pub from: &'a Path,
    /// The new key of the object, in the same bucket.
    pub to: &'a Path,
    /// Unused inode numbers for directories that the new key implies and that do not exist: one for
    /// each directory of its path.
    pub fresh: &'a [Ino],
    /// The condition on the object that is renamed.
    pub source: &'a ObjectCondition,
    /// The condition on the object that has the new key, if there is one.
    pub target: &'a ObjectCondition,
    /// Identifies the request, so that its repetition does nothing. `None` if the client gave no
    /// token.
    pub token: Option<RenameToken>,
}

/// The most guards and writes of the plan of a rename. The rest, up to the limit of a store, is a
/// reserve for guards and writes that the session adds. A rename must be one plan, and it may
/// create all directories of the new key and remove all of the old one, so a rename of two very
/// deep keys can exceed this limit. It then fails with `TooDeep`.
const ITEMS_MAX: usize = store::Limits::LEAST.plan_items - 64;

/// The result of a [`RenameKey`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RenamedKey {
    /// The inode number of the object that had the new key before; `None` if there was none.
    pub replaced: Option<Ino>,
}

impl Planner for RenameKey<'_> {
    type Output = RenamedKey;

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<RenamedKey>, Halt> {
        let chain =
            path::chain(view, self.to.bucket(), &self.to.directories, Unknown::GuessAbsent)?;
        if chain.bucket.dentry.versioning.is_shown() {
            return Err(FsError::KeepsVersions.into());
        }
        let mut plan = Plan { guards: Vec::new(), writes: Vec::new() };
        // The records of both ends are requested before either result is used, so that they take
        // one round trip.
        let done = self.is_done(view, &chain, &mut plan);
        let branch = Branch { directories: self.from.directories.clone(), removals: Vec::new() };
        let mut tree = Tree::find(view, self.from.bucket(), std::slice::from_ref(&branch))?;
        let source = self.source(view, &tree)?;
        if done? {
            return Ok(Step::Done(RenamedKey { replaced: None }));
        }
        let (node, source) = source.ok_or(FsError::NoSuchKey)?;
        if !self.source.accepts(&source.inode) {
            return Err(FsError::PreconditionFailed.into());
        }
        if self.from == self.to {
            return Ok(Step::Done(RenamedKey { replaced: None }));
        }
        for guard in tree.guards().into_iter().chain(chain.guards()) {
            if !plan.guards.contains(&guard) {
                plan.guards.push(guard);
            }
        }
        // The target may be a guess. If there is a condition on it, its record is read.
        let replaced = self.bind(view, &chain, &source, env, &mut plan)?;

        let old = path::bound(&source.slot, source.dentry_value.clone())?;
        plan.guards.push(old.guard());
        plan.writes.push(Write::Delete(old.key.clone()));
        tree.keep(chain.names().map(|bound| bound.dentry.ino));
        tree.leave(node, old);
        tree.prune(view, env, &mut plan)?;
        plan.writes = merge_counter_writes(plan.writes);
        if plan.items() > ITEMS_MAX {
            return Err(FsError::TooDeep.into());
        }
        Ok(Step::Commit(plan, RenamedKey { replaced }))
    }
}

/// The object that is renamed, and its old dentry.
struct Source {
    slot: Key,
    dentry_value: store::Value,
    ino: Ino,
    inode: Inode,
    record: store::Value,
}

impl RenameKey<'_> {
    /// Finds the object that is renamed, and the index of its directory's node in the tree. `None`
    /// if there is no object.
    fn source(&self, view: &mut View<'_>, tree: &Tree) -> Result<Option<(usize, Source)>, Halt> {
        let Some((node, directory)) = tree.end(0) else { return Ok(None) };
        let slot = key::dentry(directory, self.from.sort_key().as_bytes());
        let found = find(view, &slot)?;
        Ok(found.map(|File { dentry_value, dentry: Dentry { ino, .. }, inode, record }| {
            (node, Source { slot, dentry_value, ino, inode, record })
        }))
    }

    /// Returns true if the file at the new key was renamed by this request before. Then the state
    /// of the old key does not matter. Fails with `OtherRequest` if the client used the same token
    /// for another request.
    fn is_done(&self, view: &mut View<'_>, chain: &Chain, plan: &mut Plan) -> Result<bool, Halt> {
        let Some(token) = self.token else { return Ok(false) };
        if chain.missing.is_some() {
            return Ok(false);
        }
        let slot = key::dentry(chain.deepest(), self.to.sort_key().as_bytes());
        if view.guess(&slot, None).is_none() {
            return Ok(false);
        }
        let Some(found) = find(view, &slot)? else { return Ok(false) };
        let renamed_by = found.inode.file().and_then(|file| file.renamed_by);
        let is_done = renamed_by == Some(token);
        if !is_done && renamed_by.is_some_and(|other| other.has_same_client_token(&token)) {
            return Err(FsError::OtherRequest.into());
        }
        plan.guards.push(Guard::Equals(key::inode(found.dentry.ino), found.record));
        Ok(is_done)
    }

    /// Adds the new dentry to a plan. Returns the inode number of the replaced object.
    fn bind(
        &self,
        view: &mut View<'_>,
        chain: &Chain,
        source: &Source,
        env: &Env,
        plan: &mut Plan,
    ) -> Result<Option<Ino>, Halt> {
        let bucket = chain.bucket.dentry.ino;
        let mut inode = source.inode.clone();
        // A new key is a new object, so Last-Modified changes.
        (inode.attributes.changed, inode.attributes.status_changed) = (env.now, env.now);
        if let InodeBody::File(file) = &mut inode.body {
            // Another session may have found the file under its old name, and would look for the
            // mark "self-contained" there.
            file.marked_in_dentry = false;
            file.renamed_by = self.token;
        }
        let publish = Publish {
            path: self.to,
            ino: source.ino,
            fresh: self.fresh,
            inode: &inode,
            condition: &WriteCondition::None,
            assumptions: &[],
            writes: &[],
        };
        self.check_target(view, chain, plan)?;
        let parent =
            make_directories(self.to, self.fresh, &inode.attributes, view, chain, env, plan)?;
        let slot = key::dentry(parent, self.to.sort_key().as_bytes());
        let replaced = publish.replaced(view, chain, &slot, plan)?;
        let mut unbinding = Unbinding::new(bucket);
        let is_link = replaced.as_ref().is_some_and(|old| old.dentry.ino == source.ino);
        // If both keys are names of one file, the old name is removed and the file keeps the new
        // one.
        let dentry = path::bound(&source.slot, source.dentry_value.clone())?.dentry;
        match &replaced {
            Some(_) if is_link => unbinding.take(&dentry),
            Some(old) => match version::file_of(old) {
                Some(file) => {
                    let versions = KeyVersions::new(&chain.bucket.dentry, || self.to.object());
                    versions.supersede(view, env, Some(file), plan, &mut unbinding)?;
                }
                None => unbinding.take(&old.dentry),
            },
            None if chain.missing.is_none() => {
                plan.writes.push(Write::Add(key::counter(parent, CounterKind::Entries), 1));
            }
            // A directory that this plan creates has its one entry counted there.
            None => {}
        }
        let bytes = unbinding.finish(view, env, plan)?.bytes;
        plan.writes.push(Write::Add(key::counter(bucket, CounterKind::Bytes), -bytes));
        if replaced.as_ref().is_some_and(Bound::is_file) {
            plan.writes.push(Write::Add(key::counter(bucket, CounterKind::Objects), -1));
        }
        if is_link {
            return Ok(None);
        }
        let inode_key = key::inode(source.ino);
        admit(view, env, (source.ino, &source.inode), Change::Name, plan)?;
        plan.guards.push(Guard::Equals(inode_key.clone(), source.record.clone()));
        plan.writes.push(Write::Put(inode_key.clone(), inode.encode(&inode_key)));
        let dentry = Dentry { self_contained: None, ..dentry };
        plan.writes.push(Write::Put(slot.clone(), dentry.encode(&slot)));
        let modified = key::counter(parent, CounterKind::Modified);
        plan.writes.push(Write::Max(modified, env.now.micros()));
        Ok(replaced.map(|old| old.dentry.ino))
    }

    /// Fails with `PreconditionFailed` if the object at the new key does not fulfil the condition,
    /// and guards it.
    fn check_target(
        &self,
        view: &mut View<'_>,
        chain: &Chain,
        plan: &mut Plan,
    ) -> Result<(), Halt> {
        if self.target.is_none() {
            return Ok(());
        }
        let slot = key::dentry(chain.deepest(), self.to.sort_key().as_bytes());
        let found = if chain.missing.is_none() { find(view, &slot)? } else { None };
        match found {
            None if self.target.tags.is_some() => Err(FsError::PreconditionFailed.into()),
            None => Ok(()),
            Some(found) if self.target.accepts(&found.inode) => {
                let guard = Guard::Equals(key::inode(found.dentry.ino), found.record);
                if !plan.guards.contains(&guard) {
                    plan.guards.push(guard);
                }
                Ok(())
            }
            Some(_) => Err(FsError::PreconditionFailed.into()),
        }
    }
}

/// Combines the writes to each counter. A plan must not write a counter twice, and a rename may add
/// a name and remove a name in one directory.
fn merge_counter_writes(writes: Vec<Write>) -> Vec<Write> {
    let mut all = Vec::with_capacity(writes.len());
    let mut sums: BTreeMap<CounterKey, i64> = BTreeMap::new();
    let mut maxima: BTreeMap<CounterKey, i64> = BTreeMap::new();
    for write in writes {
        match write {
            Write::Add(counter, by) => *sums.entry(counter).or_default() += by,
            Write::Max(counter, value) => {
                let raised = maxima.entry(counter).or_insert(value);
                *raised = value.max(*raised);
            }
            other => all.push(other),
        }
    }
    sums.retain(|_, by| *by != 0);
    all.extend(sums.into_iter().map(|(counter, by)| Write::Add(counter, by)));
    all.extend(maxima.into_iter().map(|(counter, value)| Write::Max(counter, value)));
    all
}
