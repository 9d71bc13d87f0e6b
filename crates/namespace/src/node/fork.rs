//! Forking a bucket: creating names in a new bucket for the nodes of an existing one, by reference.
//!
//! An implied directory (created by a key, not by a program) is created together with the first
//! name below it, as keys do it. So a fork that ends early leaves no empty implied directory, which
//! no client could remove. Each plan therefore has the list of directories above its name that may
//! not exist yet. The first plan creates them, and the others find them. For example, two plans for
//! `a/b/x` and `a/b/y` run at the same time: one of them creates `a/` and `a/b/`.
//!
//! If another client has created a name in the new bucket meanwhile, that name stays as it is.

use record::key::{self, CounterKind};
use record::{
    Attributes, Bucket, BucketConfig, BucketConfigKind, Content, Dentry, Directory, Ino, Inode,
    InodeBody, Kind, ObjectHeaders, ObjectLock, Origin, SortKey, Versioning,
};
use store::{Guard, Key, Plan, Write};

use super::KnownInode;
use super::counts::Counts;
use crate::bucket::MakeBucket;
use crate::content_map::pages_made;
use crate::object::{self_contained, staged_inline_mark};
use crate::path;
use crate::run::{Env, Planner, Step};
use crate::stage::{guard_absent, guard_unused};
use crate::view::View;
use crate::{Assumption, FsError, Halt};

/// Creates a bucket whose directory has the attributes of another bucket's directory.
#[derive(Clone, Debug)]
pub struct ForkBucket<'a> {
    /// The name of the new bucket.
    pub name: &'a [u8],
    /// The inode number for the new bucket's directory.
    pub ino: Ino,
    /// The settings of the new bucket.
    pub settings: &'a Bucket,
    /// The configurations of the new bucket, each kind at most once.
    pub configs: &'a [(BucketConfigKind, BucketConfig)],
    /// The inode of the source bucket's directory. Mode, owner, times and extended attributes are
    /// copied, but not the creation time.
    pub like: &'a Inode,
    /// Records of those extended attributes that are not inline in the inode.
    pub writes: &'a [Write],
}

impl Planner for ForkBucket<'_> {
    /// The assumption that the new bucket's dentry is unchanged, with the error `KeepsVersions`.
    /// All plans of the fork that add something to the new bucket guard it, so the fork ends if the
    /// bucket is removed or gets versions.
    type Output = Assumption;

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<Assumption>, Halt> {
        let Attributes { mode, uid, gid, modified, accessed, .. } = self.like.attributes;
        let make = MakeBucket {
            name: self.name,
            ino: self.ino,
            settings: self.settings,
            configs: self.configs,
            owner: (uid, gid),
            mode,
            versioning: Versioning::Off,
        };
        let Step::Commit(mut plan, ()) = make.plan(view, env)? else {
            unreachable!("the creation of a bucket always commits a plan")
        };
        // The plan of a new bucket has default attributes. Its inode is replaced by one with the
        // attributes of the source.
        let attributes = Attributes::new(mode, uid, gid, env.now);
        let inode = Inode {
            attributes: Attributes { modified, accessed, ..attributes },
            bucket: self.ino,
            xattrs: self.like.xattrs.clone(),
            body: InodeBody::Directory(Directory { parent: Ino::ROOT, name: self.name.to_vec() }),
        };
        let inode_key = key::inode(self.ino);
        let slot = key::dentry(Ino::ROOT, SortKey::directory(self.name).as_bytes());
        let mut name = None;
        for write in &mut plan.writes {
            let Write::Put(key, value) = write else { continue };
            if *key == inode_key {
                *value = inode.encode(&inode_key);
            } else if *key == slot {
                name = Some(value.clone());
            }
        }
        plan.writes.extend_from_slice(self.writes);
        let value = name.ok_or(FsError::NoSuchBucket)?;
        let otherwise = FsError::KeepsVersions;
        Ok(Step::Commit(plan, Assumption { key: slot, value, otherwise }))
    }
}

/// A directory of the new bucket that may not exist yet.
#[derive(Clone, Debug)]
pub struct ForkedDirectory {
    /// The name of the directory in its parent.
    pub name: Vec<u8>,
    /// The inode number that it gets if this fork creates it.
    pub ino: Ino,
    /// The origin of the directory: created by a program, or implied by a key below it.
    pub origin: Origin,
    /// The inode for the directory. Its parent is filled in when it is created.
    pub inode: Inode,
    /// Records of those extended attributes that are not inline in the inode.
    pub writes: Vec<Write>,
}

/// The directory of the new bucket in which a plan of a fork creates something.
#[derive(Clone, Copy, Debug)]
pub struct ForkPlace<'a> {
    /// The assumption that the bucket is unchanged: it keeps no versions.
    pub bucket: &'a Assumption,
    /// The inode number of a directory of the new bucket that is known to exist.
    pub root: Ino,
    /// The path from `root` to the directory, from the top. Those that do not exist are created.
    pub directories: &'a [&'a ForkedDirectory],
}

/// The directories of a `ForkPlace`, as a plan has found or created them.
struct Reached {
    /// The inode numbers of the directories of its path, from the top.
    inos: Vec<Ino>,
    /// The inode number of the last of them; that of the root if the path is empty.
    deepest: Ino,
    /// The bucket that they are in.
    bucket: Ino,
    /// True if this plan creates the last one.
    is_new: bool,
}

impl Reached {
    /// Guards that a name in the deepest directory is free, and returns the key of its dentry.
    /// Fails with `NameExists`.
    fn guard_free(&self, view: &mut View<'_>, name: &[u8], plan: &mut Plan) -> Result<Key, Halt> {
        let slot = key::dentry(self.deepest, name);
        // A directory that the same plan creates has no names yet.
        if !self.is_new {
            if view.guess(&slot, None).is_some() {
                return Err(FsError::NameExists.into());
            }
            plan.guards.push(Guard::Absent(slot.clone()));
        }
        Ok(slot)
    }
}

impl ForkPlace<'_> {
    /// Finds those directories of the place that exist, and adds the creation of the others to a
    /// plan. Guards that the new bucket is unchanged.
    fn reach(
        &self,
        view: &mut View<'_>,
        env: &Env,
        counts: &mut Counts,
        plan: &mut Plan,
    ) -> Result<Reached, Halt> {
        let bucket = std::slice::from_ref(self.bucket);
        Assumption::guard_all(bucket, view, plan)?;
        let root = KnownInode::parent(view, self.root)?;
        plan.guards.push(root.guard_present());
        let bucket = root.inode.bucket;
        let mut reached = Reached { inos: Vec::new(), deepest: self.root, bucket, is_new: false };
        for directory in self.directories {
            let parent = reached.deepest;
            let slot = key::dentry(parent, SortKey::directory(&directory.name).as_bytes());
            if !reached.is_new {
                if let Some(value) = view.guess(&slot, None) {
                    let bound = path::bound(&slot, value)?;
                    plan.guards.push(bound.guard());
                    reached.deepest = bound.dentry.ino;
                    reached.inos.push(reached.deepest);
                    continue;
                }
                // Only the first missing directory needs this guard: those below it cannot exist
                // without it.
                plan.guards.push(Guard::Absent(slot.clone()));
            }
            let body = Directory { parent, name: directory.name.clone() };
            let body = InodeBody::Directory(body);
            let mut inode = Inode { bucket, body, ..directory.inode.clone() };
            (inode.attributes.status_changed, inode.attributes.created) = (env.now, env.now);
            let inode_key = key::inode(directory.ino);
            guard_absent(&inode_key, view, plan)?;
            let dentry = Dentry::directory(directory.ino, directory.origin);
            plan.writes.push(Write::Put(slot.clone(), dentry.encode(&slot)));
            plan.writes.push(Write::Put(inode_key.clone(), inode.encode(&inode_key)));
            plan.writes.extend_from_slice(&directory.writes);
            counts.count_name_only(parent, bucket, Kind::Directory);
            reached.deepest = directory.ino;
            reached.inos.push(directory.ino);
            reached.is_new = true;
        }
        Ok(reached)
    }
}

/// Creates the missing directories of a place in the new bucket of a fork. Returns the inode
/// numbers of all directories on the place's path, from the top.
#[derive(Clone, Debug)]
pub struct ForkDirectory<'a> {
    /// The directories to create, as the path to the deepest of them.
    pub place: ForkPlace<'a>,
}

impl Planner for ForkDirectory<'_> {
    type Output = Vec<Ino>;

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<Vec<Ino>>, Halt> {
        let (mut plan, mut counts) = (Plan::default(), Counts::default());
        let reached = self.place.reach(view, env, &mut counts, &mut plan)?;
        counts.finish(env, &mut plan);
        Ok(Step::Commit(plan, reached.inos))
    }
}

/// Creates any node but a directory from a node of the source bucket. One commit if the directories
/// are cached. Returns the inode numbers of the directories of `place`, from the top.
///
/// It does not change the times of directories: they keep the times of the source's directories.
#[derive(Clone, Debug)]
pub struct ForkNode<'a> {
    /// The directory of the new bucket that gets the node.
    pub place: ForkPlace<'a>,
    /// The name there, in its sorted form (see [`SortKey`]).
    pub name: &'a [u8],
    /// The inode number of the new node.
    pub ino: Ino,
    /// The inode of the new node, made by [`fork_inode`].
    pub inode: &'a Inode,
    /// True if the new node gets further names later, because the source has several.
    pub linked: bool,
    /// The assumptions that the source is unchanged.
    pub assumptions: &'a [Assumption],
    /// Further writes for the new node: pages of its content map (the list of its runs of blocks),
    /// share records of blocks that it shares with the source, and long extended attributes.
    pub writes: &'a [Write],
}

impl Planner for ForkNode<'_> {
    type Output = Vec<Ino>;

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<Vec<Ino>>, Halt> {
        let (mut plan, mut counts) = (Plan::default(), Counts::default());
        Assumption::guard_all(self.assumptions, view, &mut plan)?;
        let reached = self.place.reach(view, env, &mut counts, &mut plan)?;
        let slot = reached.guard_free(view, self.name, &mut plan)?;
        let bucket = reached.bucket;
        let mut inode = Inode { bucket, ..self.inode.clone() };
        (inode.attributes.status_changed, inode.attributes.created) = (env.now, env.now);
        // A node that gets further names later must not be marked as self-contained.
        let mark = if self.linked { None } else { self_contained(&inode) };
        if let InodeBody::File(file) = &mut inode.body {
            file.marked_in_dentry = mark.is_some();
            counts.add(bucket, CounterKind::Bytes, i64::try_from(file.size).unwrap_or(i64::MAX));
            plan.writes.extend(staged_inline_mark(&file.content, self.ino));
        }
        let inode_key = key::inode(self.ino);
        guard_absent(&inode_key, view, &mut plan)?;
        guard_unused(self.ino, self.writes, view, &mut plan)?;
        let kind = inode.kind();
        let (self_contained, linked) = (mark, self.linked);
        let dentry = Dentry { self_contained, linked, ..Dentry::of(self.ino, kind) };
        plan.writes.push(Write::Put(slot.clone(), dentry.encode(&slot)));
        plan.writes.push(Write::Put(inode_key.clone(), inode.encode(&inode_key)));
        counts.count_name_only(reached.deepest, bucket, kind);
        counts.finish(env, &mut plan);
        plan.writes.extend_from_slice(self.writes);
        Ok(Step::Commit(plan, reached.inos))
    }
}

/// Adds a name in the new bucket to a node that a [`ForkNode`] has created with `linked`. Returns
/// the inode numbers of the directories of `place`, from the top.
///
/// # Errors
/// `NoSuchKey` if another client has removed the node from the new bucket.
#[derive(Clone, Debug)]
pub struct ForkLink<'a> {
    /// The directory of the new bucket that gets the name.
    pub place: ForkPlace<'a>,
    /// The name there, in its sorted form (see [`SortKey`]).
    pub name: &'a [u8],
    /// The inode number of the node that gets the name.
    pub ino: Ino,
    /// The assumptions that the source bucket has the name, too.
    pub assumptions: &'a [Assumption],
}

impl Planner for ForkLink<'_> {
    type Output = Vec<Ino>;

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<Vec<Ino>>, Halt> {
        let (mut plan, mut counts) = (Plan::default(), Counts::default());
        Assumption::guard_all(self.assumptions, view, &mut plan)?;
        let reached = self.place.reach(view, env, &mut counts, &mut plan)?;
        let inode_key = key::inode(self.ino);
        let record = view.record(&inode_key)?.ok_or(FsError::NoSuchKey)?;
        // Each further name writes the inode, so concurrent plans for one node refuse each other.
        let mut known = KnownInode::of(inode_key, record)?;
        plan.guards.push(known.guard());
        // The record of an orphan remains until the reaper deletes it, so its presence does not
        // show that the node has a name.
        if view.guess(&key::orphan(self.ino), None).is_some() {
            return Err(FsError::NoSuchKey.into());
        }
        plan.guards.push(Guard::Absent(key::orphan(self.ino)));
        let slot = reached.guard_free(view, self.name, &mut plan)?;
        let inode = &mut known.inode;
        let kind = inode.kind();
        let links = inode.links_mut().ok_or(FsError::NoSuchKey)?;
        *links = links.saturating_add(1);
        inode.attributes.status_changed = env.now;
        let dentry = Dentry { linked: true, ..Dentry::of(self.ino, kind) };
        plan.writes.push(Write::Put(slot.clone(), dentry.encode(&slot)));
        plan.writes.push(Write::Put(known.key.clone(), inode.encode(&known.key)));
        counts.count_name_only(reached.deepest, inode.bucket, kind);
        counts.finish(env, &mut plan);
        Ok(Step::Commit(plan, reached.inos))
    }
}

/// The inode that a fork (a copy of a bucket by reference) gives to the copy of a node, with one
/// name. If the node is a file, it gets this content, or keeps the source's if `content` is `None`.
/// It keeps all metadata except the retention, the legal hold and the S3 access control list.
pub fn fork_inode(source: &Inode, content: Option<Content>) -> Inode {
    let mut inode = source.clone();
    if let Some(links) = inode.links_mut() {
        *links = 1;
    }
    if let InodeBody::File(file) = &mut inode.body {
        file.content = content.unwrap_or_else(|| file.content.clone());
        file.pages_made = pages_made(&file.content);
        file.data_version = 1;
        file.renamed_by = None;
        let lock = ObjectLock { retention: None, legal_hold: None };
        file.object = ObjectHeaders { acl: None, lock, ..std::mem::take(&mut file.object) };
    }
    inode
}
