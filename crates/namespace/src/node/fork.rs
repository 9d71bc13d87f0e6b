//! What a fork of a bucket makes: names in a bucket that is new, of what another bucket holds.
//!
//! A directory that a key implied comes to be with the first name below it, as keys make it, so that
//! a fork that ends early leaves none that nobody can remove. So each plan knows the directories
//! above its name that may not be there yet. Whichever of several plans is first makes them, and the
//! others find them. A name that somebody else has made meanwhile stays as it is.

use record::key::{self, CounterKind};
use record::{
    Attributes, Bucket, Content, Dentry, Directory, Ino, Inode, InodeBody, Kind, ObjectHeaders,
    ObjectLock, Origin, SortKey, Versioning,
};
use store::{Guard, Key, Plan, Write};

use super::Known;
use super::counts::Counts;
use crate::bucket::MakeBucket;
use crate::content_map::pages_made;
use crate::object::{self_contained, staged_inline_mark};
use crate::path;
use crate::run::{Env, Planner, Step};
use crate::stage::{guard_absent, guard_unused};
use crate::view::View;
use crate::{Assumption, FsError, Halt};

/// Makes a bucket whose directory is as another one's.
#[derive(Clone, Debug)]
pub struct ForkBucket<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// The number of its directory.
    pub ino: Ino,
    /// Its settings.
    pub settings: &'a Bucket,
    /// The directory that its own is as, apart from when it was made.
    pub like: &'a Inode,
    /// The records of extended attributes that do not stand in the inode.
    pub writes: &'a [Write],
}

impl Planner for ForkBucket<'_> {
    /// That the bucket is as it was made, for all plans that put something into it.
    type Output = Assumption;

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<Assumption>, Halt> {
        let Attributes { mode, uid, gid, modified, accessed, .. } = self.like.attributes;
        let make = MakeBucket {
            name: self.name,
            ino: self.ino,
            settings: self.settings,
            configs: &[],
            owner: (uid, gid),
            mode,
            versioning: Versioning::Off,
        };
        let Step::Commit(mut plan, ()) = make.plan(view, env)? else {
            unreachable!("who makes a bucket commits it")
        };
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
            match write {
                Write::Put(key, value) if *key == inode_key => *value = inode.encode(&inode_key),
                Write::Put(key, value) if *key == slot => name = Some(value.clone()),
                _ => {}
            }
        }
        plan.writes.extend_from_slice(self.writes);
        let value = name.ok_or(FsError::NoSuchBucket)?;
        let otherwise = FsError::KeepsVersions;
        Ok(Step::Commit(plan, Assumption { key: slot, value, otherwise }))
    }
}

/// A directory of the new bucket that may not be there yet.
#[derive(Clone, Debug)]
pub struct ForkedDirectory {
    /// Its name.
    pub name: Vec<u8>,
    /// The number that it gets, unless somebody else makes it first.
    pub ino: Ino,
    /// Why it exists.
    pub origin: Origin,
    /// Its inode. Where `..` leads is filled in when it is made.
    pub inode: Inode,
    /// The records of extended attributes that do not stand in the inode.
    pub writes: Vec<Write>,
}

/// Where in the new bucket something is made.
#[derive(Clone, Copy, Debug)]
pub struct ForkPlace<'a> {
    /// That the bucket is as it was made: it keeps no versions.
    pub bucket: &'a Assumption,
    /// A directory of it that was seen to be there.
    pub root: Ino,
    /// Directories below each other, the first one below that.
    pub directories: &'a [&'a ForkedDirectory],
}

/// The directories of a place, as a plan finds or makes them.
struct Reached {
    /// Their numbers.
    inos: Vec<Ino>,
    /// The last one.
    deepest: Ino,
    /// The bucket that they are in.
    bucket: Ino,
    /// Whether this plan makes it.
    is_new: bool,
}

impl Reached {
    /// Guards that nothing has a name in the deepest directory. Answers with the key of its dentry.
    fn guard_free(&self, view: &mut View<'_>, name: &[u8], plan: &mut Plan) -> Result<Key, Halt> {
        let slot = key::dentry(self.deepest, name);
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
    /// Finds the directories that are there, and makes the others.
    fn reach(
        &self,
        view: &mut View<'_>,
        env: &Env,
        counts: &mut Counts,
        plan: &mut Plan,
    ) -> Result<Reached, Halt> {
        let bucket = std::slice::from_ref(self.bucket);
        Assumption::guard_all(bucket, view, plan)?;
        let root = Known::parent(view, self.root)?;
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
            counts.arrives(parent, bucket, Kind::Directory);
            reached.deepest = directory.ino;
            reached.inos.push(directory.ino);
            reached.is_new = true;
        }
        Ok(reached)
    }
}

/// Makes the directories of a place that are not there. Answers with the numbers that they have.
#[derive(Clone, Debug)]
pub struct ForkDirectory<'a> {
    /// Which.
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

/// Makes anything but a directory, of what another bucket holds: one commit when the directories are
/// remembered. Answers with the numbers of the directories.
///
/// The times of directories are not touched by it. They are those of the other bucket's.
#[derive(Clone, Debug)]
pub struct ForkNode<'a> {
    /// Where.
    pub place: ForkPlace<'a>,
    /// Its name there as it sorts.
    pub name: &'a [u8],
    /// The number that it gets.
    pub ino: Ino,
    /// What it is: see [`forked`]. It is of the other bucket until it is made.
    pub inode: &'a Inode,
    /// Whether it is going to have other names, too.
    pub linked: bool,
    /// That what it is made of is what it was.
    pub assumptions: &'a [Assumption],
    /// What else is written: pages of the content map, owners of shared blocks, long attributes.
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
        let told = if self.linked { None } else { self_contained(&inode) };
        if let InodeBody::File(file) = &mut inode.body {
            file.told_by_name = told.is_some();
            counts.add(bucket, CounterKind::Bytes, i64::try_from(file.size).unwrap_or(i64::MAX));
            plan.writes.extend(staged_inline_mark(&file.content, self.ino));
        }
        let inode_key = key::inode(self.ino);
        guard_absent(&inode_key, view, &mut plan)?;
        guard_unused(self.ino, self.writes, view, &mut plan)?;
        let kind = inode.kind();
        let (self_contained, linked) = (told, self.linked);
        let dentry = Dentry { self_contained, linked, ..Dentry::of(self.ino, kind) };
        plan.writes.push(Write::Put(slot.clone(), dentry.encode(&slot)));
        plan.writes.push(Write::Put(inode_key.clone(), inode.encode(&inode_key)));
        counts.arrives(reached.deepest, bucket, kind);
        counts.finish(env, &mut plan);
        plan.writes.extend_from_slice(self.writes);
        Ok(Step::Commit(plan, reached.inos))
    }
}

/// Gives what a [`ForkNode`] has made as linked one more name. Answers with the numbers of the
/// directories.
///
/// # Errors
/// `NoSuchKey` if it is gone by now.
#[derive(Clone, Debug)]
pub struct ForkLink<'a> {
    /// Where.
    pub place: ForkPlace<'a>,
    /// The name there as it sorts.
    pub name: &'a [u8],
    /// What gets it.
    pub ino: Ino,
    /// That the other bucket has the name, too.
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
        let mut known = Known::of(inode_key, record)?;
        plan.guards.push(known.guard());
        // What lost its last name stands there still, until the reaper takes it.
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
        counts.arrives(reached.deepest, inode.bucket, kind);
        counts.finish(env, &mut plan);
        Ok(Step::Commit(plan, reached.inos))
    }
}

/// What is made of an inode of another bucket, with this content if it is a file, and one name: all
/// that both views show of it. Not what keeps it as it is, nor whom it is granted to.
pub fn forked(source: &Inode, content: Option<Content>) -> Inode {
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
