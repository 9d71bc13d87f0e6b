//! Buckets: the directories below the root.

use record::{
    Attributes, Bucket, BucketConfig, BucketConfigKind, Dentry, Directory, Ino, Inode, InodeBody,
    ObjectOwnership, Origin, Orphan, PublicAccessBlock, Quota, RetentionDefault, SortKey,
    Timestamp, Versioning, Xattr, XattrPlace, key,
};
use store::{Guard, Key, Plan, Read, Write};

use crate::path::{self, Bound, NamedBucket};
use crate::run::{Env, Planner, Step};
use crate::stage::{account_is_there, guard_absent};
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
    /// Whether it keeps versions.
    pub versioning: Versioning,
    /// How much it may hold.
    pub quota: Quota,
}

/// Makes a bucket.
#[derive(Clone, Debug)]
pub struct MakeBucket<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// The number of its directory.
    pub ino: Ino,
    /// Its settings.
    pub settings: &'a Bucket,
    /// What it is set to do from the beginning, each kind at most once.
    pub configs: &'a [(BucketConfigKind, BucketConfig)],
    /// Whom the directory belongs to: user and group.
    pub owner: (u32, u32),
    /// Its permission bits.
    pub mode: u32,
    /// Whether it keeps versions.
    pub versioning: Versioning,
}

impl Planner for MakeBucket<'_> {
    type Output = ();

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<()>, Halt> {
        let slot = key::dentry(Ino::ROOT, SortKey::directory(self.name).as_bytes());
        if view.guess(&slot, None).is_some() {
            return Err(FsError::BucketExists.into());
        }
        let (inode_key, bucket_key) = (key::inode(self.ino), key::bucket(self.ino));
        let inode = Inode {
            attributes: Attributes::new(self.mode, self.owner.0, self.owner.1, env.now),
            bucket: self.ino,
            xattrs: Vec::new(),
            body: InodeBody::Directory(Directory { parent: Ino::ROOT, name: self.name.to_vec() }),
        };
        let (versioning, made) = (self.versioning, Dentry::directory(self.ino, Origin::Made));
        let locks = self.configs.iter().any(|(kind, _)| *kind == BucketConfigKind::ObjectLock);
        if locks && versioning != Versioning::Enabled {
            return Err(FsError::KeepsNoVersions.into());
        }
        let dentry = Dentry { versioning, locks, ..made };
        let mut plan = Plan {
            guards: vec![Guard::Absent(slot.clone())],
            writes: vec![
                Write::Put(slot.clone(), dentry.encode(&slot)),
                Write::Put(inode_key.clone(), inode.encode(&inode_key)),
                Write::Put(bucket_key.clone(), self.settings.encode(&bucket_key)),
                Write::Add(key::counter(Ino::ROOT, key::CounterKind::Entries), 1),
                Write::Add(key::counter(Ino::ROOT, key::CounterKind::Directories), 1),
                Write::Max(key::counter(Ino::ROOT, key::CounterKind::Modified), env.now.micros()),
            ],
        };
        plan.guards.extend(account_is_there(self.settings.owner));
        for (kind, config) in self.configs {
            let at = key::bucket_config(self.ino, *kind);
            plan.writes.push(Write::Put(at.clone(), config.encode(&at)));
        }
        guard_absent(&inode_key, view, &mut plan)?;
        Ok(Step::Commit(plan, ()))
    }
}

/// Removes an empty bucket. Its open uploads and its configurations go with it.
#[derive(Clone, Debug)]
pub struct DeleteBucket<'a> {
    /// Its name.
    pub name: &'a [u8],
}

impl Planner for DeleteBucket<'_> {
    type Output = ();

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<()>, Halt> {
        let bucket = path::bucket(view, self.name)?;
        let ino = bucket.dentry.ino;
        let inode_key = key::inode(ino);
        let inode = view.record(&inode_key);
        let (names, configs) = (key::dentries(ino), key::bucket_configs(ino));
        let range =
            |(start, end): (Key, Key), limit| Read::Range { start, end, limit, follow: None };
        let versions = key::versions(ino);
        let found = view.ranges(&[
            range(names.clone(), 1),
            range(versions.clone(), 1),
            range(configs.clone(), CONFIGS_MAX),
        ])?;
        let [found, olds, set] = &found[..] else { return Err(Halt::Need) };
        let is_shown = bucket.dentry.versioning.is_shown();
        match (found.is_empty(), olds.is_empty()) {
            (true, true) => {}
            _ if is_shown => return Err(FsError::VersionsLeft.into()),
            (false, _) => return Err(FsError::BucketNotEmpty.into()),
            (true, false) => return Err(FsError::TrashLeft.into()),
        }
        let inode = inode?.ok_or(FsError::NoSuchBucket)?;
        let xattrs = decode(&inode_key, &inode, Inode::decode)?.xattrs;
        // Whoever creates something in the bucket guards the dentry that this plan deletes. So of
        // the two plans one is refused.
        let orphan = key::orphan(ino);
        let mut writes = vec![
            Write::Delete(bucket.key.clone()),
            Write::Delete(key::inode(ino)),
            Write::Delete(key::bucket(ino)),
            Write::Add(key::counter(Ino::ROOT, key::CounterKind::Entries), -1),
            Write::Add(key::counter(Ino::ROOT, key::CounterKind::Directories), -1),
            Write::Max(key::counter(Ino::ROOT, key::CounterKind::Modified), env.now.micros()),
            Write::Put(orphan.clone(), Orphan::Bucket.encode(&orphan)),
        ];
        let counts = [
            key::CounterKind::Entries,
            key::CounterKind::Modified,
            key::CounterKind::Directories,
            key::CounterKind::Objects,
        ];
        writes.extend(counts.map(|count| Write::Clear(key::counter(ino, count))));
        let long = |xattr: &&Xattr| matches!(xattr.value, XattrPlace::Apart(_));
        let long = xattrs.iter().filter(long);
        writes.extend(long.map(|xattr| Write::Delete(key::xattr(ino, &xattr.name))));
        let inode = Guard::Equals(inode_key, inode);
        let mut guards = vec![bucket.guard(), inode, Guard::Empty(names.0, names.1)];
        guards.push(Guard::Empty(versions.0, versions.1));
        // All that were seen, including those of kinds that this release does not know.
        let (mut start, end) = configs;
        for config in set {
            guards.push(Guard::Empty(start, config.key.clone()));
            start = Key::from_bytes([config.key.as_bytes(), b"\0"].concat());
            writes.push(Write::Delete(config.key.clone()));
        }
        guards.push(Guard::Empty(start, end));
        Ok(Step::Commit(Plan { guards, writes }, ()))
    }
}

/// The most configurations of a bucket: one of each kind, and a kind is a byte. So the removal of a
/// bucket adds no more than so many records, and a guard for each, to its plan.
const CONFIGS_MAX: u32 = 256;

/// Finds a bucket and its settings: one round trip when it is remembered.
#[derive(Clone, Debug)]
pub struct FindBucket<'a> {
    /// Its name.
    pub name: &'a [u8],
}

impl Planner for FindBucket<'_> {
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
        let (name, made) = (self.name.to_vec(), inode.attributes.created);
        let Dentry { versioning, quota, .. } = bound.dentry;
        Ok(Step::Done(FoundBucket { name, ino, made, settings, versioning, quota }))
    }
}

/// Lists buckets in the order of their names.
#[derive(Clone, Debug)]
pub struct ReadBuckets<'a> {
    /// What their names begin with.
    pub prefix: &'a [u8],
    /// The last name of the page before.
    pub after: Option<&'a [u8]>,
    /// The most to answer.
    pub limit: u32,
}

impl Planner for ReadBuckets<'_> {
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
            let made = decode(&keys[0], inode, Inode::decode)?.attributes.created;
            let settings = decode(&keys[1], settings, Bucket::decode)?;
            let Dentry { ino, versioning, quota, .. } = dentry;
            found.push(FoundBucket { name, ino, made, settings, versioning, quota });
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
    pub change: BucketChange,
}

/// A change of a bucket's settings; the others stay as they are.
#[derive(Clone, Copy, Debug)]
pub enum BucketChange {
    /// Whether what is uploaded from now on gets opaque entity tags.
    OpaqueTags(bool),
    /// Whom objects belong to that others write.
    Ownership(Option<ObjectOwnership>),
    /// What keeps it from being public.
    PublicAccess(Option<PublicAccessBlock>),
    /// Whether it keeps versions.
    Versioning(Versioning),
    /// How much it may hold: bounds that are named here are set, and others stay. What it holds
    /// already stays, however much that is.
    Quota(Quota),
    /// That it may hold any amount.
    NoQuota,
}

impl Planner for SetBucket<'_> {
    type Output = ();

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<()>, Halt> {
        let bucket = path::bucket(view, self.name)?;
        let bucket_key = key::bucket(bucket.dentry.ino);
        let value = view.record(&bucket_key)?.ok_or(FsError::NoSuchBucket)?;
        let mut settings = decode(&bucket_key, &value, Bucket::decode)?;
        let mut plan = Plan { guards: vec![bucket.guard()], writes: Vec::new() };
        match self.change {
            BucketChange::Versioning(versioning) => {
                if versioning != Versioning::Enabled && bucket.dentry.locks {
                    return Err(FsError::Locked.into());
                }
                if bucket.dentry.versioning == Versioning::Trash {
                    return Err(FsError::HasTrash.into());
                }
                // Whoever changes a key guards this record.
                let dentry = Dentry { versioning, ..bucket.dentry };
                plan.writes.push(Write::Put(bucket.key.clone(), dentry.encode(&bucket.key)));
            }
            BucketChange::Quota(_) | BucketChange::NoQuota => {
                let was = bucket.dentry.quota;
                let quota = match self.change {
                    BucketChange::Quota(Quota { bytes, objects }) => {
                        Quota { bytes: bytes.or(was.bytes), objects: objects.or(was.objects) }
                    }
                    _ => Quota::NONE,
                };
                // Whoever grows a bucket guards this record.
                let dentry = Dentry { quota, ..bucket.dentry };
                plan.writes.push(Write::Put(bucket.key.clone(), dentry.encode(&bucket.key)));
            }
            BucketChange::OpaqueTags(opaque) => settings.opaque_tags = opaque,
            BucketChange::Ownership(ownership) => settings.ownership = ownership,
            BucketChange::PublicAccess(block) => settings.public_access = block,
        }
        plan.guards.push(Guard::Equals(bucket_key.clone(), value));
        plan.writes.push(Write::Put(bucket_key.clone(), settings.encode(&bucket_key)));
        Ok(Step::Commit(plan, ()))
    }
}

/// Finds what a bucket is set to do, of one kind; nothing where that was never set. One round trip
/// when the bucket is remembered.
#[derive(Clone, Debug)]
pub struct FindBucketConfig<'a> {
    /// The bucket's name.
    pub name: &'a [u8],
    /// Which.
    pub kind: BucketConfigKind,
}

impl Planner for FindBucketConfig<'_> {
    type Output = Option<BucketConfig>;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<Self::Output>, Halt> {
        let bucket = path::bucket(view, self.name)?;
        let key = key::bucket_config(bucket.dentry.ino, self.kind);
        let found = view.record(&key)?;
        let config = found.map(|value| decode(&key, &value, BucketConfig::decode)).transpose()?;
        Ok(Step::Done(config))
    }
}

/// Finds a bucket with all that it is set to do, in one snapshot.
#[derive(Clone, Debug)]
pub struct FindBucketConfigs<'a> {
    /// The bucket's name.
    pub name: &'a [u8],
}

/// A bucket with all that it is set to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketConfigs {
    /// Its directory.
    pub ino: Ino,
    /// Its settings.
    pub settings: Bucket,
    /// Whether it keeps versions.
    pub versioning: Versioning,
    /// How much it may hold.
    pub quota: Quota,
    /// What it is set to do, each kind at most once.
    pub configs: Vec<(BucketConfigKind, BucketConfig)>,
}

impl Planner for FindBucketConfigs<'_> {
    type Output = BucketConfigs;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<BucketConfigs>, Halt> {
        let Dentry { ino, versioning, quota, .. } = path::bucket(view, self.name)?.dentry;
        let bucket_key = key::bucket(ino);
        let settings = view.record(&bucket_key);
        let (start, end) = key::bucket_configs(ino);
        let found = view.range(start, end, CONFIGS_MAX)?;
        let settings = settings?.ok_or(FsError::NoSuchBucket)?;
        let settings = decode(&bucket_key, &settings, Bucket::decode)?;
        let mut configs = Vec::with_capacity(found.len());
        for entry in &found {
            let kind = decode(&entry.key, &entry.value, |key, _| BucketConfigKind::of(key))?;
            configs.push((kind, decode(&entry.key, &entry.value, BucketConfig::decode)?));
        }
        Ok(Step::Done(BucketConfigs { ino, settings, versioning, quota, configs }))
    }
}

/// Notes how far the pass over a bucket's lifecycle has come, if nobody else has noted anything since.
/// Answers whether it did.
#[derive(Clone, Debug)]
pub struct SetLifecyclePass<'a> {
    /// The bucket.
    pub bucket: NamedBucket<'a>,
    /// What was noted before.
    pub was: Option<&'a BucketConfig>,
    /// What is from now on.
    pub now: &'a BucketConfig,
}

impl Planner for SetLifecyclePass<'_> {
    type Output = bool;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<bool>, Halt> {
        let bucket = path::bucket(view, self.bucket)?;
        let key = key::bucket_config(bucket.dentry.ino, BucketConfigKind::LifecyclePass);
        let noted = view.record(&key)?;
        let was = noted.as_ref().map(|value| decode(&key, value, BucketConfig::decode));
        if was.transpose()?.as_ref() != self.was {
            return Ok(Step::Done(false));
        }
        let noted = match noted {
            Some(value) => Guard::Equals(key.clone(), value),
            None => Guard::Absent(key.clone()),
        };
        let writes = vec![Write::Put(key.clone(), self.now.encode(&key))];
        Ok(Step::Commit(Plan { guards: vec![bucket.guard(), noted], writes }, true))
    }
}

/// Sets what a bucket is to do, of one kind, or removes it. A trash is only for a bucket that never
/// kept versions, and goes when it is empty.
#[derive(Clone, Debug)]
pub struct SetBucketConfig<'a> {
    /// The bucket's name.
    pub name: &'a [u8],
    /// Which.
    pub kind: BucketConfigKind,
    /// What it is from now on; nothing as if it had never been set.
    pub value: Option<&'a BucketConfig>,
    /// The retention that an object lock configuration gives to new objects. Of no meaning for other
    /// kinds.
    pub default_retention: Option<RetentionDefault>,
}

impl Planner for SetBucketConfig<'_> {
    type Output = ();

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<()>, Halt> {
        let bucket = path::bucket(view, self.name)?;
        let (ino, config_key) =
            (bucket.dentry.ino, key::bucket_config(bucket.dentry.ino, self.kind));
        let bucket_key = key::bucket(ino);
        let value = view.record(&bucket_key)?.ok_or(FsError::NoSuchBucket)?;
        let mut settings = decode(&bucket_key, &value, Bucket::decode)?;
        settings.configs_version += 1;
        if self.kind == BucketConfigKind::ObjectLock {
            settings.default_retention = self.default_retention;
        }
        if self.kind == BucketConfigKind::ObjectLock
            && bucket.dentry.versioning != Versioning::Enabled
        {
            return Err(FsError::KeepsNoVersions.into());
        }
        // Whoever removes the bucket deletes both, so that none is set for one that is gone.
        let guards = vec![bucket.guard(), Guard::Equals(bucket_key.clone(), value)];
        let write = match self.value {
            Some(config) => Write::Put(config_key.clone(), config.encode(&config_key)),
            None => Write::Delete(config_key),
        };
        let count = Write::Put(bucket_key.clone(), settings.encode(&bucket_key));
        let mut writes = vec![write, count];
        let mut guards = guards;
        if self.kind == BucketConfigKind::Trash {
            self.set_trash(view, &bucket, &mut guards, &mut writes)?;
        }
        if self.kind == BucketConfigKind::ObjectLock && !bucket.dentry.locks {
            // Whoever changes a key guards this record.
            let dentry = Dentry { locks: true, ..bucket.dentry };
            writes.push(Write::Put(bucket.key.clone(), dentry.encode(&bucket.key)));
        }
        Ok(Step::Commit(Plan { guards, writes }, ()))
    }
}

impl SetBucketConfig<'_> {
    /// Adds to a plan that the bucket has a trash from now on, or none any more.
    fn set_trash(
        &self,
        view: &mut View<'_>,
        bucket: &Bound,
        guards: &mut Vec<Guard>,
        writes: &mut Vec<Write>,
    ) -> Result<(), Halt> {
        let dentry = &bucket.dentry;
        if dentry.versioning.is_shown() {
            return Err(FsError::KeepsVersions.into());
        }
        let versioning = if self.value.is_some() { Versioning::Trash } else { Versioning::Off };
        if versioning == dentry.versioning {
            return Ok(());
        }
        if versioning == Versioning::Off {
            let (start, end) = key::versions(dentry.ino);
            if !view.range(start.clone(), end.clone(), 1)?.is_empty() {
                return Err(FsError::TrashLeft.into());
            }
            guards.push(Guard::Empty(start, end));
        }
        // Whoever changes a key guards this record.
        let dentry = Dentry { versioning, ..*dentry };
        writes.push(Write::Put(bucket.key.clone(), dentry.encode(&bucket.key)));
        Ok(())
    }
}
