//! Buckets: the directories below the root.

use record::{Attributes, Body, Bucket, Dentry, Ino, Inode, Origin, Orphan, Skey, Timestamp, key};
use store::{Guard, Key, Plan, Write};

use crate::object::DIRECTORY_MODE;
use crate::path;
use crate::run::{Env, Operation, Step};
use crate::stage::guard_absent;
use crate::view::{View, decode};
use crate::{FsError, Halt};

/// A bucket as found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundBucket {
    /// Its name.
    pub name: Vec<u8>,
    /// Its directory.
    pub ino: Ino,
    /// When it was made.
    pub made: Timestamp,
    /// Its settings.
    pub settings: Bucket,
}

/// Makes a bucket.
#[derive(Clone, Debug)]
pub struct CreateBucket<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// The number of its directory.
    pub ino: Ino,
    /// Its settings.
    pub settings: &'a Bucket,
    /// Whom the directory belongs to: user and group.
    pub owner: (u32, u32),
}

impl Operation for CreateBucket<'_> {
    type Output = ();

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<()>, Halt> {
        let slot = key::dentry(Ino::ROOT, Skey::directory(self.name).as_bytes());
        if view.guess(&slot, None).is_some() {
            return Err(FsError::BucketExists.into());
        }
        let (inode_key, bucket_key) = (key::inode(self.ino), key::bucket(self.ino));
        let inode = Inode {
            attributes: Attributes {
                mode: DIRECTORY_MODE,
                uid: self.owner.0,
                gid: self.owner.1,
                changed: env.now,
                modified: env.now,
            },
            body: Body::Directory { parent: Ino::ROOT },
        };
        let dentry = Dentry::directory(self.ino, Origin::Made);
        let mut plan = Plan {
            guards: vec![Guard::Absent(slot.clone())],
            writes: vec![
                Write::Put(slot.clone(), dentry.encode(&slot)),
                Write::Put(inode_key.clone(), inode.encode(&inode_key)),
                Write::Put(bucket_key.clone(), self.settings.encode(&bucket_key)),
                Write::Add(key::tally(Ino::ROOT, key::Count::Entries), 1),
                Write::Max(key::tally(Ino::ROOT, key::Count::Modified), env.now.0),
            ],
        };
        guard_absent(&inode_key, view, &mut plan)?;
        Ok(Step::Commit(plan, ()))
    }
}

/// Removes an empty bucket. Its open uploads go with it.
#[derive(Clone, Debug)]
pub struct DeleteBucket<'a> {
    /// Its name.
    pub name: &'a [u8],
}

impl Operation for DeleteBucket<'_> {
    type Output = ();

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<()>, Halt> {
        let bucket = path::bucket(view, self.name)?;
        let ino = bucket.dentry.ino;
        let (start, end) = key::dentries(ino);
        if !view.range(start.clone(), end.clone(), 1)?.is_empty() {
            return Err(FsError::BucketNotEmpty.into());
        }
        // Whoever creates in the bucket guards the dentry that this plan deletes: one of us loses.
        let orphan = key::orphan(ino);
        let mut writes = vec![
            Write::Delete(bucket.key.clone()),
            Write::Delete(key::inode(ino)),
            Write::Delete(key::bucket(ino)),
            Write::Add(key::tally(Ino::ROOT, key::Count::Entries), -1),
            Write::Max(key::tally(Ino::ROOT, key::Count::Modified), env.now.0),
            Write::Put(orphan.clone(), Orphan::Bucket.encode(&orphan)),
        ];
        let counts = [key::Count::Entries, key::Count::Modified, key::Count::Objects];
        writes.extend(counts.map(|count| Write::Clear(key::tally(ino, count))));
        let guards = vec![bucket.guard(), Guard::Empty(start, end)];
        Ok(Step::Commit(Plan { guards, writes }, ()))
    }
}

/// Finds a bucket and its settings: one round trip when it is remembered.
#[derive(Clone, Debug)]
pub struct FindBucket<'a> {
    /// Its name.
    pub name: &'a [u8],
}

impl Operation for FindBucket<'_> {
    type Output = FoundBucket;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<FoundBucket>, Halt> {
        let bound = path::bucket(view, self.name)?;
        let ino = bound.dentry.ino;
        let (inode_key, bucket_key) = (key::inode(ino), key::bucket(ino));
        let [inode, settings] = view.records([&inode_key, &bucket_key])?;
        let (Some(inode), Some(settings)) = (inode, settings) else {
            return Err(FsError::NoSuchBucket.into());
        };
        let inode = decode(&inode_key, &inode, Inode::decode)?;
        let settings = decode(&bucket_key, &settings, Bucket::decode)?;
        let (name, made) = (self.name.to_vec(), inode.attributes.changed);
        Ok(Step::Done(FoundBucket { name, ino, made, settings }))
    }
}

/// Lists buckets in the order of their names.
#[derive(Clone, Debug)]
pub struct ListBuckets<'a> {
    /// What their names begin with.
    pub prefix: &'a [u8],
    /// The last name of the page before.
    pub after: Option<&'a [u8]>,
    /// The most to answer.
    pub limit: u32,
}

impl Operation for ListBuckets<'_> {
    type Output = Vec<FoundBucket>;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<Vec<FoundBucket>>, Halt> {
        // Bucket names hold no byte below `-`, so `name/` sorts as `name` among them but for names
        // that another one continues with `-` or `.`; the range is by dentry, the cut by name.
        let (first, end) = key::dentries(Ino::ROOT);
        let entries = view.range(first, end, BUCKETS_MAX)?;
        let mut names: Vec<(Vec<u8>, Key, Dentry)> = Vec::new();
        for entry in &entries {
            let Some(name) = entry.key.suffix().strip_suffix(b"/") else { continue };
            let dentry = decode(&entry.key, &entry.value, Dentry::decode)?;
            let wanted =
                name.starts_with(self.prefix) && self.after.is_none_or(|after| name > after);
            if wanted {
                names.push((name.to_vec(), entry.key.clone(), dentry));
            }
        }
        names.sort_by(|a, b| a.0.cmp(&b.0));
        names.truncate(self.limit as usize);
        let keys = names.iter().flat_map(|(_, _, d)| [key::inode(d.ino), key::bucket(d.ino)]);
        let keys: Vec<Key> = keys.collect();
        let records = view.many(&keys)?;
        let mut found = Vec::with_capacity(names.len());
        for ((name, _, dentry), (keys, pair)) in
            names.into_iter().zip(keys.chunks_exact(2).zip(records.chunks_exact(2)))
        {
            let [Some(inode), Some(settings)] = pair else { continue };
            let made = decode(&keys[0], inode, Inode::decode)?.attributes.changed;
            let settings = decode(&keys[1], settings, Bucket::decode)?;
            found.push(FoundBucket { name, ino: dentry.ino, made, settings });
        }
        Ok(Step::Done(found))
    }
}

/// The most buckets of a volume that a listing looks at.
pub const BUCKETS_MAX: u32 = 10_000;

/// Changes a bucket's settings.
#[derive(Clone, Debug)]
pub struct SetBucket<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// What is to change.
    pub change: BucketChange<'a>,
}

/// A change of a bucket's settings; the others stay as they are.
#[derive(Clone, Copy, Debug)]
pub enum BucketChange<'a> {
    /// Its tags from now on.
    Tags(&'a [(String, String)]),
    /// Whether what is uploaded from now on gets opaque entity tags.
    OpaqueTags(bool),
}

impl Operation for SetBucket<'_> {
    type Output = ();

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<()>, Halt> {
        let bucket = path::bucket(view, self.name)?;
        let bucket_key = key::bucket(bucket.dentry.ino);
        let value = view.record(&bucket_key)?.ok_or(FsError::NoSuchBucket)?;
        let mut settings = decode(&bucket_key, &value, Bucket::decode)?;
        match self.change {
            BucketChange::Tags(tags) => settings.tags = tags.to_vec(),
            BucketChange::OpaqueTags(opaque) => settings.opaque_tags = opaque,
        }
        let plan = Plan {
            guards: vec![bucket.guard(), Guard::Equals(bucket_key.clone(), value)],
            writes: vec![Write::Put(bucket_key.clone(), settings.encode(&bucket_key))],
        };
        Ok(Step::Commit(plan, ()))
    }
}
