//! Objects: looking one up, publishing one, changing its tags.

use record::{
    Attributes, Content, Dentry, Directory, Ino, Inode, InodeBody, Kind, Mark, Origin, RetainUntil,
    RetentionMode, S3Acl, SortKey, Tag, Timestamp, VersionRef, XattrPlace, key,
};
use store::{Guard, Key, Plan, Write};

use crate::content_map::pages_made;
use crate::inode_state::{Change, admit};
use crate::lookup::{File, FoundObject, Lookup, find};
use crate::path::{self, Bound, Chain, Path, Unknown};
use crate::quota;
use crate::run::{Env, Planner, Step};
use crate::stage::{guard_absent, guard_unused};
use crate::unbind::Unbinding;
use crate::version::{self, KeyVersions};
use crate::view::View;
use crate::{Assumption, FsError, Halt};

/// Which entity tags a condition accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TagMatch {
    /// Any: the object must exist.
    Any,
    /// One of these.
    OneOf(Vec<Tag>),
}

impl TagMatch {
    /// Whether the condition accepts this tag.
    pub fn accepts(&self, tag: &Tag) -> bool {
        match self {
            TagMatch::Any => true,
            TagMatch::OneOf(tags) => tags.contains(tag),
        }
    }
}

/// What must hold of an object for it to be renamed or replaced so, as RFC 9110 has it: a condition
/// on tags hides the one on times beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectCondition {
    /// The entity tags that it may have.
    pub tags: Option<TagMatch>,
    /// Otherwise: the last time at which it may have changed, in whole seconds since 1970.
    pub unchanged_since: Option<i64>,
    /// The entity tags that it must not have.
    pub other_tags: Option<TagMatch>,
    /// Otherwise: a time behind which it must have changed, in whole seconds since 1970.
    pub changed_since: Option<i64>,
}

impl ObjectCondition {
    /// Whether it says nothing.
    pub fn is_none(&self) -> bool {
        *self == ObjectCondition::default()
    }

    /// Whether the condition accepts what this inode is.
    pub fn accepts(&self, inode: &Inode) -> bool {
        let Some(file) = inode.file() else { return false };
        let changed = inode.attributes.changed.0.div_euclid(NANOSECONDS);
        let is_one = match &self.tags {
            Some(tags) => tags.accepts(&file.tag),
            None => self.unchanged_since.is_none_or(|since| changed <= since),
        };
        let is_other = match &self.other_tags {
            Some(tags) => !tags.accepts(&file.tag),
            None => self.changed_since.is_none_or(|since| changed > since),
        };
        is_one && is_other
    }
}

/// What must hold of an object for it to be removed: all that is said here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoveCondition {
    /// The entity tags that it may have.
    pub tags: Option<TagMatch>,
    /// Its size in bytes.
    pub size: Option<u64>,
    /// When its content or name last changed, in whole seconds since 1970.
    pub changed_seconds: Option<i64>,
    /// The tags that clients gave it.
    pub object_tags: Option<Vec<(String, String)>>,
}

impl RemoveCondition {
    /// Whether the condition accepts what this inode is.
    pub fn accepts(&self, inode: &Inode) -> bool {
        let Some(file) = inode.file() else { return false };
        let changed = inode.attributes.changed.0.div_euclid(NANOSECONDS);
        self.tags.as_ref().is_none_or(|tags| tags.accepts(&file.tag))
            && self.size.is_none_or(|size| size == file.size)
            && self.changed_seconds.is_none_or(|seconds| seconds == changed)
            && self.object_tags.as_ref().is_none_or(|tags| *tags == file.object.tags)
    }
}

impl From<TagMatch> for RemoveCondition {
    fn from(tags: TagMatch) -> RemoveCondition {
        RemoveCondition { tags: Some(tags), ..RemoveCondition::default() }
    }
}

/// Nanoseconds of a second.
const NANOSECONDS: i64 = 1_000_000_000;

/// What must hold of the object that a write replaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteCondition {
    /// Nothing.
    None,
    /// There is none: `If-None-Match: *`, `O_EXCL`.
    IfAbsent,
    /// There is one, with such a tag: `If-Match`.
    IfMatch(TagMatch),
    /// There is none with such a tag: `If-None-Match`.
    IfNoneMatch(Vec<Tag>),
}

impl WriteCondition {
    /// Whether an object of this tag may be replaced.
    fn accepts(&self, tag: &Tag) -> bool {
        match self {
            WriteCondition::None => true,
            WriteCondition::IfAbsent => false,
            WriteCondition::IfMatch(tags) => tags.accepts(tag),
            WriteCondition::IfNoneMatch(tags) => !tags.contains(tag),
        }
    }
}

/// Whether a file may be bound beside a directory of the same name, and below a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overlap {
    /// Keys `a` and `a/b` may both exist, as in S3.
    #[default]
    Allow,
    /// Only one of them, as on a disk.
    Refuse,
}

/// Binds a name to a finished file, replacing the file that was there.
///
/// This is the instant at which an object exists. Its blocks are durable already. One round trip
/// when the directories above it are remembered and it is new or remembered.
#[derive(Clone, Debug)]
pub struct Publish<'a> {
    /// Where.
    pub path: &'a Path,
    /// The new file's number.
    pub ino: Ino,
    /// Numbers for directories that the key implies and that do not exist; one for each of the
    /// path's directories.
    pub fresh: &'a [Ino],
    /// The new file. Its times are set to the operation's.
    pub inode: &'a Inode,
    /// What must hold of the file that is replaced.
    pub condition: &'a WriteCondition,
    /// Whether keys may overlap.
    pub overlap: Overlap,
    /// What else must hold: the source of a copy, the upload that is completed.
    pub assumptions: &'a [Assumption],
    /// What else happens: pages of the content map, owners of shared blocks, the upload's end.
    pub writes: &'a [Write],
}

/// What a [`Publish`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The file that was replaced.
    pub replaced: Option<Ino>,
    /// The new file, as it stands now.
    pub inode: Inode,
    /// Which version of its key it is, if the bucket keeps any.
    pub version: Option<VersionRef>,
}

impl Planner for Publish<'_> {
    type Output = Published;

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<Published>, Halt> {
        let directories = &self.path.directories;
        let mut plan = Plan::default();
        // First of all, because what is copied may lie on the way to the target.
        Assumption::guard_all(self.assumptions, view, &mut plan)?;
        let chain = path::chain(view, self.path.bucket(), directories, Unknown::GuessAbsent)?;
        chain.guards().for_each(|guard| self.guard(&mut plan, guard));
        if self.overlap == Overlap::Refuse {
            self.refuse_overlap(view, &chain, &mut plan)?;
        }

        let file = &self.inode.attributes;
        let parent = make_directories(self.path, self.fresh, file, view, &chain, env, &mut plan)?;
        let slot = key::dentry(parent, self.path.sort_key().as_bytes());
        let replaced = self.replaced(view, &chain, &slot, &mut plan)?;

        let bucket = chain.bucket.dentry.ino;
        let mut inode = self.inode.clone();
        inode.attributes = inode.attributes.at(env.now);
        inode.bucket = bucket;
        let self_contained = self_contained(&inode);
        if let InodeBody::File(file) = &mut inode.body {
            file.told_by_name = self_contained.is_some();
            file.pages_made = pages_made(&file.content);
        }
        let size = inode.file().map_or(0, |file| file.size);
        let inode_key = key::inode(self.ino);
        guard_absent(&inode_key, view, &mut plan)?;
        guard_unused(self.ino, self.writes, view, &mut plan)?;
        plan.writes.push(Write::Put(inode_key.clone(), inode.encode(&inode_key)));
        let mut unbinding = Unbinding::new(bucket);
        let versions = KeyVersions::new(&chain.bucket.dentry, || self.path.object());
        let old = replaced.as_ref().and_then(version::file_of);
        let version = versions.supersede(view, env, old, &mut plan, &mut unbinding)?;
        let dentry = Dentry { self_contained, version, ..Dentry::file(self.ino) };
        let version = dentry.version_in(chain.bucket.dentry.versioning);
        plan.writes.push(Write::Put(slot.clone(), dentry.encode(&slot)));
        let modified = key::counter(parent, key::CounterKind::Modified);
        plan.writes.push(Write::Max(modified, env.now.micros()));
        let mut grown = i64::try_from(size).unwrap_or_default();
        match &replaced {
            Some(old) if old.is_file() => {}
            Some(old) => unbinding.take(&old.dentry),
            None => {
                // A directory made by this plan has its one entry counted there.
                if chain.missing.is_none() {
                    plan.writes
                        .push(Write::Add(key::counter(parent, key::CounterKind::Entries), 1));
                }
            }
        }
        grown -= unbinding.finish(view, env, &mut plan)?.bytes;
        if replaced.as_ref().is_none_or(|old| old.dentry.kind != Kind::File) {
            plan.writes.push(Write::Add(key::counter(bucket, key::CounterKind::Objects), 1));
        }
        if grown != 0 {
            plan.writes.push(Write::Add(key::counter(bucket, key::CounterKind::Bytes), grown));
        }
        plan.writes.extend_from_slice(self.writes);
        quota::guard(view, &chain.bucket.dentry, &mut plan)?;
        let replaced = replaced.map(|old| old.dentry.ino);
        Ok(Step::Commit(plan, Published { replaced, inode, version }))
    }
}

impl Publish<'_> {
    /// Adds a guard, unless an assumption is the same one: the source of a copy may be its target.
    fn guard(&self, plan: &mut Plan, guard: Guard) {
        let assumed = plan.guards.iter().take(self.assumptions.len());
        if !assumed.into_iter().any(|assumed| *assumed == guard) {
            plan.guards.push(guard);
        }
    }

    /// The file that the name is bound to now, guarded, if the condition lets it be replaced.
    pub(crate) fn replaced(
        &self,
        view: &mut View<'_>,
        chain: &Chain,
        slot: &Key,
        plan: &mut Plan,
    ) -> Result<Option<Bound>, Halt> {
        if chain.missing.is_some() {
            // Nothing can stand in a directory that does not exist, and the plan guards that.
            return match self.condition {
                WriteCondition::IfMatch(_) => Err(FsError::NoSuchKey.into()),
                WriteCondition::None
                | WriteCondition::IfAbsent
                | WriteCondition::IfNoneMatch(_) => Ok(None),
            };
        }
        let found = match self.condition {
            WriteCondition::None | WriteCondition::IfAbsent => None,
            WriteCondition::IfMatch(_) => Some(find(view, slot)?.ok_or(FsError::NoSuchKey)?),
            WriteCondition::IfNoneMatch(_) => find(view, slot)?,
        };
        if let Some(File { dentry: Dentry { ino, .. }, inode, record, .. }) = found {
            let tag = inode.file().map(|file| file.tag);
            if !tag.is_some_and(|tag| self.condition.accepts(&tag)) {
                return Err(FsError::PreconditionFailed.into());
            }
            self.guard(plan, Guard::Equals(key::inode(ino), record));
        }
        let Some(value) = view.guess(slot, None) else {
            plan.guards.push(Guard::Absent(slot.clone()));
            return Ok(None);
        };
        let old = path::bound(slot, value)?;
        // What is no file is no object.
        if *self.condition == WriteCondition::IfAbsent && old.dentry.kind == Kind::File {
            return Err(FsError::PreconditionFailed.into());
        }
        self.guard(plan, old.guard());
        Ok(Some(old))
    }

    /// Refuses a key above or below an existing one.
    pub(crate) fn refuse_overlap(
        &self,
        view: &mut View<'_>,
        chain: &Chain,
        plan: &mut Plan,
    ) -> Result<(), Halt> {
        let parents = std::iter::once(&chain.bucket).chain(&chain.directories);
        for (parent, name) in parents.zip(&self.path.directories) {
            let file = key::dentry(parent.dentry.ino, SortKey::file(name).as_bytes());
            if view.guess(&file, None).is_some() {
                return Err(FsError::OverlapsFile.into());
            }
            plan.guards.push(Guard::Absent(file));
        }
        if chain.missing.is_none() && !self.path.name.is_empty() {
            let twin = key::dentry(chain.deepest(), SortKey::directory(&self.path.name).as_bytes());
            if view.guess(&twin, None).is_some() {
                return Err(FsError::OverlapsDirectory.into());
            }
            plan.guards.push(Guard::Absent(twin));
        }
        Ok(())
    }
}

/// Makes the directories of a path that do not exist, for a file with these attributes; answers the one
/// that it goes into.
pub(crate) fn make_directories(
    path: &Path,
    fresh: &[Ino],
    file: &Attributes,
    view: &mut View<'_>,
    chain: &Chain,
    env: &Env,
    plan: &mut Plan,
) -> Result<Ino, Halt> {
    let mut parent = chain.deepest();
    let mut existed = true;
    let depth = chain.directories.len();
    for (name, ino) in path.directories.iter().zip(fresh).skip(depth) {
        let slot = key::dentry(parent, SortKey::directory(name).as_bytes());
        let dentry = Dentry::directory(*ino, Origin::Implied);
        let Attributes { uid, gid, mode, .. } = *file;
        let inode = Inode {
            attributes: Attributes::new(directory_mode(mode), uid, gid, env.now),
            bucket: chain.bucket.dentry.ino,
            xattrs: Vec::new(),
            body: InodeBody::Directory(Directory { parent, name: name.clone() }),
        };
        let inode_key = key::inode(*ino);
        guard_absent(&inode_key, view, plan)?;
        plan.writes.push(Write::Put(slot.clone(), dentry.encode(&slot)));
        plan.writes.push(Write::Put(inode_key.clone(), inode.encode(&inode_key)));
        if existed {
            plan.writes.push(Write::Add(key::counter(parent, key::CounterKind::Entries), 1));
            let modified = key::counter(parent, key::CounterKind::Modified);
            plan.writes.push(Write::Max(modified, env.now.micros()));
        }
        plan.writes.push(Write::Add(key::counter(parent, key::CounterKind::Directories), 1));
        plan.writes.push(Write::Add(key::counter(*ino, key::CounterKind::Entries), 1));
        (parent, existed) = (*ino, false);
    }
    Ok(parent)
}

/// Permission bits that a directory has where nobody takes any of them.
pub const DIRECTORY_MODE: u32 = 0o777;

/// Permission bits that a file made through S3 has where nobody takes any of them.
pub const FILE_MODE: u32 = 0o666;

/// Permission bits that may look into a directory, if they may read it.
const READERS: u32 = 0o444;

/// Permission bits of the directories that a file's key implies: who may read the file may pass.
const fn directory_mode(file: u32) -> u32 {
    (file & FILE_MODE) | (file & READERS) >> 2
}

/// The mark that a plan writes beside a file whose content is staged inline; nothing for another.
pub fn staged_inline_mark(content: &Content, ino: Ino) -> Option<Write> {
    let mark = key::staged_inline(ino);
    content.is_staged_inline().then(|| Write::Put(mark.clone(), Mark.encode(&mark)))
}

/// The size of a file that is self-contained, nothing but its inode: its content is inline for
/// good, it has one name, and no other record belongs to it.
///
/// The name that a PUT gives such a file says so, and the file that its name does. Whoever changes
/// such a file, so that it may not be self-contained any more, changes that name in the same plan.
pub fn self_contained(inode: &Inode) -> Option<u64> {
    let file = inode.file()?;
    let self_contained = matches!(file.content, Content::Inline(_))
        && !file.content.is_staged_inline()
        && file.parts.is_empty()
        && file.links == 1
        && inode.xattrs.iter().all(|xattr| matches!(xattr.value, XattrPlace::Inline(_)));
    self_contained.then_some(file.size)
}

/// Changes what S3 keeps with an object. Neither its entity tag nor its time changes.
#[derive(Clone, Debug)]
pub struct SetObject<'a> {
    /// Where.
    pub path: &'a Path,
    /// Which version; none for the current one.
    pub version: Option<VersionRef>,
    /// The object that it must be, if the caller has decided by one. With another one the operation
    /// fails with [`FsError::OtherObject`].
    pub expected: Option<ExpectedObject<'a>>,
    /// What is to change.
    pub change: ObjectChange<'a>,
}

/// An object as a caller has looked at it to decide who may change it.
#[derive(Clone, Copy, Debug)]
pub struct ExpectedObject<'a> {
    /// Its inode's number.
    pub ino: Ino,
    /// Its file.
    pub file: &'a record::File,
}

impl ExpectedObject<'_> {
    /// Returns true if this inode is the same object, and all that permissions depend on is as the
    /// caller has seen it: the owner, the tags, the access control list and the lock.
    fn is(&self, ino: Ino, file: &record::File) -> bool {
        let (seen, now) = (&self.file.object, &file.object);
        self.ino == ino
            && self.file.writer == file.writer
            && seen.tags == now.tags
            && seen.acl == now.acl
            && seen.lock == now.lock
    }
}

/// A change of what S3 keeps with an object; the rest stays as it is.
#[derive(Clone, Debug)]
pub enum ObjectChange<'a> {
    /// The tags; none removes them.
    Tags(&'a [(String, String)]),
    /// Whom it is granted to.
    Acl(S3Acl),
    /// Whether it stays as it is until somebody says that it need not.
    LegalHold(bool),
    /// Until when it stays as it is.
    Retention {
        /// Until when, and who may change that; none if it need not stay.
        retention: Option<RetainUntil>,
        /// Whether a retention in governance mode does not hold.
        bypasses_governance: bool,
    },
}

impl Planner for SetObject<'_> {
    /// Which version it is, if the bucket keeps any.
    type Output = Option<VersionRef>;

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<Self::Output>, Halt> {
        let lookup = Lookup { path: self.path, version: self.version };
        let Step::Done(found) = lookup.plan(view, env)? else {
            unreachable!("who looks an object up commits nothing")
        };
        let FoundObject { ino, mut inode, record, path_records, version, .. } = found;
        let Some(file) = inode.file() else { return Err(FsError::NoSuchKey.into()) };
        if self.expected.is_some_and(|expected| !expected.is(ino, file)) {
            return Err(FsError::OtherObject.into());
        }
        let guards =
            path_records.into_iter().map(|(key, value)| Guard::Equals(key, value)).collect();
        let mut plan = Plan { guards, writes: Vec::new() };
        admit(view, env, (ino, &inode), Change::VersionItem, &mut plan)?;
        if let InodeBody::File(file) = &mut inode.body {
            match &self.change {
                ObjectChange::Tags(tags) => file.object.tags = tags.to_vec(),
                ObjectChange::Acl(acl) => file.object.acl = Some(acl.clone()),
                ObjectChange::LegalHold(hold) => file.object.lock.legal_hold = Some(*hold),
                ObjectChange::Retention { retention, bypasses_governance } => {
                    if !may_retain(
                        file.object.lock.retention,
                        *retention,
                        env.earliest_now,
                        *bypasses_governance,
                    ) {
                        return Err(FsError::Locked.into());
                    }
                    file.object.lock.retention = *retention;
                }
            }
        }
        inode.attributes.status_changed = env.now;
        let inode_key = key::inode(ino);
        plan.guards.push(Guard::Equals(inode_key.clone(), record));
        plan.writes.push(Write::Put(inode_key.clone(), inode.encode(&inode_key)));
        Ok(Step::Commit(plan, version))
    }
}

/// Whether a retention may take the place of another one: what still holds is made longer at most, or
/// bypassed. Nobody bypasses compliance; so who makes that of governance must be allowed to bypass it.
fn may_retain(
    old: Option<RetainUntil>,
    new: Option<RetainUntil>,
    now: Timestamp,
    bypasses: bool,
) -> bool {
    let Some(old) = old.filter(|old| now < old.until) else { return true };
    let is_longer = new.is_some_and(|new| new.mode == old.mode && new.until >= old.until);
    is_longer || (bypasses && old.mode == RetentionMode::Governance)
}
