//! Objects: looking one up, publishing one, changing its tags.

use bytes::Bytes;
use record::{
    Attributes, Content, Dentry, Directory, Ino, Inode, InodeBody, Kind, Mark, ObjectHeaders,
    Origin, SortKey, Tag, XattrPlace, key,
};
use store::{Guard, Key, Plan, Value, Write};

use crate::path::{self, Bound, Chain, Path, Unknown};
use crate::run::{Env, Planner, Step};
use crate::stage::{guard_absent, guard_unused};
use crate::unbind::Unbinding;
use crate::view::{View, decode};
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

/// What must hold of the object that a write replaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteCondition {
    /// Nothing.
    None,
    /// There is none: `If-None-Match: *`, `O_EXCL`.
    IfAbsent,
    /// There is one, with such a tag: `If-Match`.
    IfMatch(TagMatch),
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

/// An object as found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundObject {
    /// The bucket it is in.
    pub bucket: Ino,
    /// Its inode's number.
    pub ino: Ino,
    /// Its inode. A directory's for the object that stands for an empty directory.
    pub inode: Inode,
    /// The inode's record, for guards.
    pub record: Value,
    /// The dentries that led to it, from the bucket's down, for guards: where each of them stands
    /// as it is, the key leads to this inode.
    pub way: Vec<(Key, Value)>,
}

/// Looks an object up: one round trip when the directories above it are remembered.
#[derive(Clone, Debug)]
pub struct Lookup<'a> {
    /// Where.
    pub path: &'a Path,
}

impl Planner for Lookup<'_> {
    type Output = FoundObject;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<FoundObject>, Halt> {
        let chain = path::chain(view, &self.path.bucket, &self.path.directories, Unknown::Ask)?;
        if chain.missing.is_some() {
            return Err(FsError::NoSuchKey.into());
        }
        let bucket = chain.bucket.dentry.ino;
        let slot = key::dentry(chain.deepest(), self.path.sort_key().as_bytes());
        let mut way: Vec<(Key, Value)> =
            chain.names().map(|bound| (bound.key.clone(), bound.value.clone())).collect();
        let (ino, inode, record) = match find(view, &slot)? {
            Some(File { name, ino, inode, record }) => {
                way.push((slot, name));
                (ino, inode, record)
            }
            None if self.path.name.is_empty() => empty_directory(view, &chain)?,
            None => return Err(FsError::NoSuchKey.into()),
        };
        Ok(Step::Done(FoundObject { bucket, ino, inode, record, way }))
    }
}

/// A file as found by name.
struct File {
    /// Its dentry's bytes.
    name: Value,
    ino: Ino,
    inode: Inode,
    /// Its inode's bytes.
    record: Value,
}

/// A file by its dentry's key, with its inode.
fn find(view: &mut View<'_>, slot: &Key) -> Result<Option<File>, Halt> {
    let found = view.followed(std::slice::from_ref(slot), &key::dentry_to_inode())?;
    let Some(Some((name, target))) = found.into_iter().next() else { return Ok(None) };
    let dentry = decode(slot, &name, Dentry::decode)?;
    if dentry.kind != Kind::File {
        return Ok(None);
    }
    // A name is bound and unbound together with its inode, so one snapshot has both or neither.
    // What was pieced together from hints may have one alone. Then it must be read anew.
    let Some(record) = target else { return Ok(None) };
    let inode = decode(&key::inode(dentry.ino), &record, Inode::decode)?;
    Ok(Some(File { name, ino: dentry.ino, inode, record }))
}

/// The object `a/` that stands for directory `a` when nothing is in it.
fn empty_directory(view: &mut View<'_>, chain: &Chain) -> Result<(Ino, Inode, Value), Halt> {
    let Some(directory) = chain.directories.last() else { return Err(FsError::NoSuchKey.into()) };
    let ino = directory.dentry.ino;
    let (start, end) = key::dentries(ino);
    let children = view.range(start, end, 1)?;
    let inode_key = key::inode(ino);
    match view.record(&inode_key)? {
        Some(record) if children.is_empty() => {
            let inode = decode(&inode_key, &record, Inode::decode)?;
            Ok((ino, inode, record))
        }
        _ => Err(FsError::NoSuchKey.into()),
    }
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
}

impl Planner for Publish<'_> {
    type Output = Published;

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<Published>, Halt> {
        let (bucket_name, directories) = (&self.path.bucket, &self.path.directories);
        let mut plan = Plan::default();
        // First of all, because what is copied may lie on the way to the target.
        Assumption::guard_all(self.assumptions, view, &mut plan)?;
        let chain = path::chain(view, bucket_name, directories, Unknown::GuessAbsent)?;
        chain.guards().for_each(|guard| self.guard(&mut plan, guard));
        if self.overlap == Overlap::Refuse {
            self.refuse_overlap(view, &chain, &mut plan)?;
        }

        let parent = self.make_directories(view, &chain, env, &mut plan)?;
        let slot = key::dentry(parent, self.path.sort_key().as_bytes());
        let replaced = self.replaced(view, &chain, &slot, &mut plan)?;

        let bucket = chain.bucket.dentry.ino;
        let mut inode = self.inode.clone();
        inode.attributes = inode.attributes.at(env.now);
        inode.bucket = bucket;
        let self_contained = self_contained(&inode);
        if let InodeBody::File(file) = &mut inode.body {
            file.told_by_name = self_contained.is_some();
            if let Content::Pages(pages) = &file.content {
                file.pages_made = u32::try_from(pages.len()).unwrap_or(u32::MAX);
            }
        }
        let size = inode.file().map_or(0, |file| file.size);
        let inode_key = key::inode(self.ino);
        guard_absent(&inode_key, view, &mut plan)?;
        guard_unused(self.ino, self.writes, view, &mut plan)?;
        plan.writes.push(Write::Put(inode_key.clone(), inode.encode(&inode_key)));
        let dentry = Dentry { self_contained, ..Dentry::file(self.ino) };
        plan.writes.push(Write::Put(slot.clone(), dentry.encode(&slot)));
        let modified = key::counter(parent, key::CounterKind::Modified);
        plan.writes.push(Write::Max(modified, env.now.micros()));
        let mut grown = i64::try_from(size).unwrap_or_default();
        match &replaced {
            Some(old) => {
                let mut unbinding = Unbinding::new(bucket);
                unbinding.take(&old.dentry);
                grown -= unbinding.finish(view, env, &mut plan)?.bytes;
            }
            None => {
                // A directory made by this plan has its one entry counted there.
                if chain.missing.is_none() {
                    plan.writes
                        .push(Write::Add(key::counter(parent, key::CounterKind::Entries), 1));
                }
            }
        }
        if replaced.as_ref().is_none_or(|old| old.dentry.kind != Kind::File) {
            plan.writes.push(Write::Add(key::counter(bucket, key::CounterKind::Objects), 1));
        }
        if grown != 0 {
            plan.writes.push(Write::Add(key::counter(bucket, key::CounterKind::Bytes), grown));
        }
        plan.writes.extend_from_slice(self.writes);
        let replaced = replaced.map(|old| old.dentry.ino);
        Ok(Step::Commit(plan, Published { replaced, inode }))
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

    /// Makes the directories that do not exist; answers the one the file goes into.
    fn make_directories(
        &self,
        view: &mut View<'_>,
        chain: &Chain,
        env: &Env,
        plan: &mut Plan,
    ) -> Result<Ino, Halt> {
        let mut parent = chain.deepest();
        let mut existed = true;
        let depth = chain.directories.len();
        for (name, ino) in self.path.directories.iter().zip(self.fresh).skip(depth) {
            let slot = key::dentry(parent, SortKey::directory(name).as_bytes());
            let dentry = Dentry::directory(*ino, Origin::Implied);
            let Attributes { uid, gid, mode, .. } = self.inode.attributes;
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

    /// The file that the name is bound to now, guarded, if the condition lets it be replaced.
    fn replaced(
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
                WriteCondition::None | WriteCondition::IfAbsent => Ok(None),
            };
        }
        if let WriteCondition::IfMatch(tags) = self.condition {
            let File { ino, inode, record, .. } = find(view, slot)?.ok_or(FsError::NoSuchKey)?;
            if !inode.file().is_some_and(|file| tags.accepts(&file.tag)) {
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
    fn refuse_overlap(
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

/// The first key behind this one.
pub(crate) fn after(key: &Key) -> Key {
    Key::from_bytes(Bytes::from([key.as_bytes(), &[0]].concat()))
}

/// Replaces the tags that S3 keeps with an object. Neither its entity tag nor its time changes.
#[derive(Clone, Debug)]
pub struct SetTags<'a> {
    /// Where.
    pub path: &'a Path,
    /// The tags; none removes them.
    pub tags: &'a [(String, String)],
}

impl Planner for SetTags<'_> {
    type Output = ();

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<()>, Halt> {
        let chain = path::chain(view, &self.path.bucket, &self.path.directories, Unknown::Ask)?;
        if chain.missing.is_some() {
            return Err(FsError::NoSuchKey.into());
        }
        let slot = key::dentry(chain.deepest(), self.path.sort_key().as_bytes());
        let File { name, ino, mut inode, record } = find(view, &slot)?.ok_or(FsError::NoSuchKey)?;
        if let InodeBody::File(file) = &mut inode.body {
            file.object = ObjectHeaders { tags: self.tags.to_vec(), ..file.object.clone() };
        }
        inode.attributes.status_changed = env.now;
        let inode_key = key::inode(ino);
        let mut plan = Plan { guards: chain.guards().collect(), writes: Vec::new() };
        plan.guards.push(Guard::Equals(slot, name));
        plan.guards.push(Guard::Equals(inode_key.clone(), record));
        plan.writes.push(Write::Put(inode_key.clone(), inode.encode(&inode_key)));
        Ok(Step::Commit(plan, ()))
    }
}
