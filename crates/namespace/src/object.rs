//! Objects: publishing one, and changing its S3 metadata.
//!
//! [`Publish`] is the last step of a PUT, a copy and a completed multipart upload. It binds a key
//! to a new inode in one commit. Readers see the old object or the new one, never a mixture. For
//! example, a PUT to `a/b/c` in an empty bucket creates the directories `a` and `a/b`, the inode
//! and the dentry of `c`, in one plan.

use record::{
    Attributes, Content, Dentry, Directory, Ino, Inode, InodeBody, Kind, Mark, Origin, RetainUntil,
    RetentionMode, S3Acl, SortKey, Tag, Timestamp, VersionRef, XattrPlace, key,
};
use store::{Guard, Key, Plan, Write};

use crate::content_map::pages_made;
use crate::inode_state::{Change, admit};
use crate::lookup::{File, FoundObject, Lookup, find, guard_name};
use crate::path::{self, Bound, Chain, Path, Unknown};
use crate::quota;
use crate::retention::retain_new;
use crate::run::{Env, Planner, Step};
use crate::stage::{guard_absent, guard_unused};
use crate::unbind::Unbinding;
use crate::version::{self, KeyVersions};
use crate::view::View;
use crate::{Assumption, FsError, Halt};

/// The entity tags that a condition accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TagMatch {
    /// Any tag: the object must exist.
    Any,
    /// One of these entity tags.
    OneOf(Vec<Tag>),
}

impl TagMatch {
    /// Returns true if the condition accepts this tag.
    pub fn accepts(&self, tag: &Tag) -> bool {
        match self {
            TagMatch::Any => true,
            TagMatch::OneOf(tags) => tags.contains(tag),
        }
    }
}

/// A condition on the source or target object of a rename, with the precedence of RFC 9110: a
/// condition on tags takes precedence over the corresponding condition on times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectCondition {
    /// The tags that the object may have (`If-Match`).
    pub tags: Option<TagMatch>,
    /// Used if `tags` is `None`: the last time at which the object may have changed, in seconds
    /// since 1970 (`If-Unmodified-Since`).
    pub unchanged_since: Option<i64>,
    /// The tags that the object must not have (`If-None-Match`).
    pub other_tags: Option<TagMatch>,
    /// Used if `other_tags` is `None`: the object must have changed after this time, in seconds
    /// since 1970 (`If-Modified-Since`).
    pub changed_since: Option<i64>,
}

impl ObjectCondition {
    /// Returns true if there is no condition.
    pub fn is_none(&self) -> bool {
        *self == ObjectCondition::default()
    }

    /// Returns true if the object with this inode fulfils the condition.
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

/// A condition on an object that is removed. All fields that are given must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoveCondition {
    /// The entity tags that the object may have; `None` accepts all.
    pub tags: Option<TagMatch>,
    /// The size in bytes that the object must have; `None` accepts all.
    pub size: Option<u64>,
    /// The time at which content or name must have changed last, in seconds since 1970; `None`
    /// accepts all.
    pub changed_seconds: Option<i64>,
    /// The S3 tags that the object must have, exactly and in this order; `None` accepts all.
    pub object_tags: Option<Vec<(String, String)>>,
}

impl RemoveCondition {
    /// Returns true if the object with this inode fulfils the condition.
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

/// Nanoseconds in a second.
const NANOSECONDS: i64 = 1_000_000_000;

/// A condition on the object that a write replaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteCondition {
    /// No condition: any object is replaced.
    None,
    /// No object has the key, else `PreconditionFailed` (`If-None-Match: *`). A node that is not a
    /// file, such as a symbolic link, is not an object: it is replaced.
    IfAbsent,
    /// The object has one of these tags (`If-Match`). Fails with `NoSuchKey` if there is no object,
    /// and with `PreconditionFailed` if it has another tag.
    IfMatch(TagMatch),
    /// The object has none of these tags, or there is no object (`If-None-Match`), else
    /// `PreconditionFailed`.
    IfNoneMatch(Vec<Tag>),
}

impl WriteCondition {
    /// Returns true if an object with this tag may be replaced.
    fn accepts(&self, tag: &Tag) -> bool {
        match self {
            WriteCondition::None => true,
            WriteCondition::IfAbsent => false,
            WriteCondition::IfMatch(tags) => tags.accepts(tag),
            WriteCondition::IfNoneMatch(tags) => !tags.contains(tag),
        }
    }
}

/// Publishes a file under a key, atomically, and replaces the object that had the key. From this
/// commit on the object exists. Its blocks must be durable before.
///
/// One round trip if the directories above the key are cached, and the key is free or cached. Fails
/// with `PreconditionFailed` or `NoSuchKey` if `condition` does not hold at commit, with
/// `QuotaExceeded`, and with the error of an assumption that does not hold.
#[derive(Clone, Debug)]
pub struct Publish<'a> {
    /// The key that the file gets.
    pub path: &'a Path,
    /// The inode number of the new file.
    pub ino: Ino,
    /// Unused inode numbers for directories that the key implies and that do not exist: one for
    /// each directory of the path.
    pub fresh: &'a [Ino],
    /// The inode of the new file. Its times are set to the time of the operation. If it has no
    /// retention, it gets the default retention of its bucket, which begins at that time.
    pub inode: &'a Inode,
    /// The condition on the object that is replaced.
    pub condition: &'a WriteCondition,
    /// Further records that must be unchanged: the source of a copy, or the upload that is
    /// completed.
    pub assumptions: &'a [Assumption],
    /// Further writes of the plan: pages of the content map (the list of the file's runs of
    /// blocks), share records of blocks with several owners, or the end of an upload.
    pub writes: &'a [Write],
}

/// The result of a [`Publish`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The inode number of the node that had the key before; `None` if the key was free.
    pub replaced: Option<Ino>,
    /// The new file, as stored.
    pub inode: Inode,
    /// The version id of the new object, if the bucket shows versions.
    pub version: Option<VersionRef>,
}

impl Planner for Publish<'_> {
    type Output = Published;

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<Published>, Halt> {
        let directories = &self.path.directories;
        let mut plan = Plan::default();
        // The assumptions come first, because the source of a copy may share directories with the
        // target. Their guards are then not added twice.
        Assumption::guard_all(self.assumptions, view, &mut plan)?;
        // An unknown directory is guessed to be absent: then the plan creates it, and its guard
        // checks the guess without a round trip.
        let chain = path::chain(view, self.path.bucket(), directories, Unknown::GuessAbsent)?;
        chain.guards().for_each(|guard| self.guard(&mut plan, guard));

        let file = &self.inode.attributes;
        // The new directories come before the file, because the dentry of the file needs the number
        // of its parent.
        let parent = make_directories(self.path, self.fresh, file, view, &chain, env, &mut plan)?;
        let slot = key::dentry(parent, self.path.sort_key().as_bytes());
        let replaced = self.replaced(view, &chain, &slot, &mut plan)?;

        let bucket = chain.bucket.dentry.ino;
        let mut inode = self.inode.clone();
        inode.attributes = inode.attributes.at(env.now);
        inode.bucket = bucket;
        retain_new(view, env, (&chain.bucket.dentry, &mut inode), &mut plan)?;
        // A small object without further records is marked in its dentry, so that its DELETE need
        // not read the inode.
        let self_contained = self_contained(&inode);
        if let InodeBody::File(file) = &mut inode.body {
            file.marked_in_dentry = self_contained.is_some();
            file.pages_made = pages_made(&file.content);
        }
        let size = inode.file().map_or(0, |file| file.size);
        let inode_key = key::inode(self.ino);
        // A store that was restored to an earlier state may lease a used number again. These guards
        // keep the data that the number already has.
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
            // The number of entries changes only if the name was free. The versions of the key
            // decide what happens to an old file.
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
        // The quota guard needs all counter changes, so it comes last.
        quota::guard(view, &chain.bucket.dentry, &mut plan)?;
        let replaced = replaced.map(|old| old.dentry.ino);
        Ok(Step::Commit(plan, Published { replaced, inode, version }))
    }
}

impl Publish<'_> {
    /// Adds a guard to a plan, unless it is one of the assumptions, whose guards are already there:
    /// the source of a copy may be its target.
    fn guard(&self, plan: &mut Plan, guard: Guard) {
        let assumed = plan.guards.iter().take(self.assumptions.len());
        if !assumed.into_iter().any(|assumed| *assumed == guard) {
            plan.guards.push(guard);
        }
    }

    /// Finds the dentry that the new one replaces, and guards it. `slot` is the key of both.
    /// Returns `None` if the name is free, and then guards that. Fails with `PreconditionFailed` or
    /// `NoSuchKey` if the condition does not hold.
    pub(crate) fn replaced(
        &self,
        view: &mut View<'_>,
        chain: &Chain,
        slot: &Key,
        plan: &mut Plan,
    ) -> Result<Option<Bound>, Halt> {
        if chain.missing.is_some() {
            // Nothing can be bound in a directory that does not exist, and the plan guards that it
            // does not.
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
        // Without a condition on tags a guess is enough: the guard checks it.
        let Some(value) = view.guess(slot, None) else {
            plan.guards.push(Guard::Absent(slot.clone()));
            return Ok(None);
        };
        let old = path::bound(slot, value)?;
        // Only a file is an object. A condition of S3 does not see other nodes.
        if *self.condition == WriteCondition::IfAbsent && old.dentry.kind == Kind::File {
            return Err(FsError::PreconditionFailed.into());
        }
        self.guard(plan, old.guard());
        Ok(Some(old))
    }
}

/// Adds the missing directories of a path to a plan, with the owner of the file, for which `file`
/// has the attributes. `fresh` has an unused inode number for each directory of the path, and
/// `chain` the directories that exist. Returns the inode number of the directory for the file.
///
/// For example, the path `a/b/c` with an existing `a`: the plan creates `a/b/` and counts one more
/// entry in `a`.
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
    // Only the first new directory has a parent that existed before: its name and time change
    // there.
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
        // A directory that this plan creates has its one entry counted below, and needs no
        // modification time.
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

/// The permission bits of a directory before the umask.
pub const DIRECTORY_MODE: u32 = 0o777;

/// The permission bits of a file made through S3, before the umask.
pub const FILE_MODE: u32 = 0o666;

/// The permission bits to read.
const READERS: u32 = 0o444;

/// The permission bits of a directory that a file's key implies: a user who may read the file may
/// also search the directory.
const fn directory_mode(file: u32) -> u32 {
    (file & FILE_MODE) | (file & READERS) >> 2
}

/// The write of the mark of a file whose content is staged inline, that is, kept in the inode's
/// record only until the relocator moves it into a block. The relocator finds such files by their
/// marks. Returns `None` for other contents.
pub fn staged_inline_mark(content: &Content, ino: Ino) -> Option<Write> {
    let mark = key::staged_inline(ino);
    content.is_staged_inline().then(|| Write::Put(mark.clone(), Mark.encode(&mark)))
}

/// Returns the size in bytes of a file that consists of its inode alone: its content is in the
/// inode's record for good, it has one name, and no other record belongs to it. Returns `None` for
/// other files.
///
/// A PUT of such a file marks its dentry as self-contained, with the size, and notes in the inode
/// that the dentry has the mark. A plan that removes the dentry may then delete the inode without
/// reading it. A plan that changes the file clears the mark.
pub fn self_contained(inode: &Inode) -> Option<u64> {
    let file = inode.file()?;
    let self_contained = matches!(file.content, Content::Inline(_))
        && !file.content.is_staged_inline()
        && file.parts.is_empty()
        && file.links == 1
        && inode.xattrs.iter().all(|xattr| matches!(xattr.value, XattrPlace::Inline(_)));
    self_contained.then_some(file.size)
}

/// Changes S3 metadata of an object or of one of its versions. The entity tag and Last-Modified
/// stay. Fails as [`Lookup`] does, with `OtherObject` if the object is not the expected one, and
/// with `Locked` if the retention cannot be replaced.
#[derive(Clone, Debug)]
pub struct SetObject<'a> {
    /// The key of the object to change.
    pub path: &'a Path,
    /// The version to change; `None` for the current one.
    pub version: Option<VersionRef>,
    /// The object on which the caller has based its permission check. With another object the
    /// operation fails with [`FsError::OtherObject`]. `None` accepts every object.
    pub expected: Option<CheckedObject<'a>>,
    /// The part of the S3 metadata to change, with its new value.
    pub change: ObjectChange<'a>,
}

/// An object on which a caller has based its permission check.
#[derive(Clone, Copy, Debug)]
pub struct CheckedObject<'a> {
    /// The inode number of the object.
    pub ino: Ino,
    /// The file of the object's inode, as the caller read it.
    pub file: &'a record::File,
}

impl CheckedObject<'_> {
    /// Returns true if this is the same object, and everything on which permissions depend is
    /// unchanged: the owner, the tags, the access control list and the lock.
    fn is(&self, ino: Ino, file: &record::File) -> bool {
        let (seen, now) = (&self.file.object, &file.object);
        self.ino == ino
            && self.file.writer == file.writer
            && seen.tags == now.tags
            && seen.acl == now.acl
            && seen.lock == now.lock
    }
}

/// A change of one part of the S3 metadata of an object.
#[derive(Clone, Debug)]
pub enum ObjectChange<'a> {
    /// Set the tags; an empty slice removes them.
    Tags(&'a [(String, String)]),
    /// Set the access control list.
    Acl(S3Acl),
    /// Set the legal hold (true) or remove it (false).
    LegalHold(bool),
    /// Set or remove the retention.
    Retention {
        /// The new retention; `None` removes it.
        retention: Option<RetainUntil>,
        /// True if the caller may shorten or remove a retention in governance mode.
        bypasses_governance: bool,
    },
}

impl Planner for SetObject<'_> {
    /// The version that was changed, if the bucket shows versions.
    type Output = Option<VersionRef>;

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<Self::Output>, Halt> {
        let found = Lookup { path: self.path, version: self.version }.find(view)?;
        let FoundObject { ino, mut inode, record, path_records, version, .. } = found;
        let Some(file) = inode.file() else { return Err(FsError::NoSuchKey.into()) };
        if self.expected.is_some_and(|expected| !expected.is(ino, file)) {
            return Err(FsError::OtherObject.into());
        }
        let guards =
            path_records.into_iter().map(|(key, value)| Guard::Equals(key, value)).collect();
        let mut plan = Plan { guards, writes: Vec::new() };
        if self.version == Some(VersionRef::Null) {
            guard_name(view, self.path, &mut plan)?;
        }
        // S3 changes these items on any version, unless a dentry binds the inode, too.
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
        // Last-Modified stays, because neither content nor name changes.
        inode.attributes.status_changed = env.now;
        let inode_key = key::inode(ino);
        plan.guards.push(Guard::Equals(inode_key.clone(), record));
        plan.writes.push(Write::Put(inode_key.clone(), inode.encode(&inode_key)));
        Ok(Step::Commit(plan, version))
    }
}

/// Returns true if the retention `new` may replace `old`: the old one has ended by `now`, or the
/// new one is not shorter and has the same mode, or the caller bypasses governance mode. Compliance
/// mode is never bypassed. A change from governance to compliance mode also needs the bypass.
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
