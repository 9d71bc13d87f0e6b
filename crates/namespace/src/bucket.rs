//! Buckets: the directories below the root.
//!
//! The dentry of a bucket has the settings that every plan needs: versioning, object lock and
//! quota. Each plan that changes a key of the bucket guards this dentry, so a change of these
//! settings takes effect at once, at all gateways. For example, a PUT that was planned before
//! `PutBucketVersioning` is refused after it, and planned again with versions.

use record::{
    Attributes, Bucket, BucketConfig, BucketConfigKind, Dentry, Directory, Encryption, Ino, Inode,
    InodeBody, ObjectOwnership, Origin, Orphan, PublicAccessBlock, Quota, RetentionDefault,
    SortKey, Timestamp, Versioning, Xattr, XattrPlace, key,
};
use store::{Guard, Key, Plan, Read, Write};

use crate::path::{self, Bound, NamedBucket};
use crate::run::{Env, Planner, Step};
use crate::stage::{account_is_there, guard_absent};
use crate::view::{View, decode};
use crate::{FsError, Halt};

/// A bucket with its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundBucket {
    /// The name of the bucket.
    pub name: Vec<u8>,
    /// The inode number of the bucket's directory.
    pub ino: Ino,
    /// The time at which the bucket was created.
    pub made: Timestamp,
    /// The settings from the bucket's record, such as its owner.
    pub settings: Bucket,
    /// The versioning state of the bucket.
    pub versioning: Versioning,
    /// The limits on the bytes and objects of the bucket.
    pub quota: Quota,
}

/// Creates a bucket. Fails with `BucketExists`.
#[derive(Clone, Debug)]
pub struct MakeBucket<'a> {
    /// The name of the new bucket.
    pub name: &'a [u8],
    /// The inode number for the bucket's directory. It must be unused.
    pub ino: Ino,
    /// The settings for the bucket's record, such as its owner.
    pub settings: &'a Bucket,
    /// The initial configurations of the bucket, each kind at most once.
    pub configs: &'a [(BucketConfigKind, BucketConfig)],
    /// The user and group that own the directory.
    pub owner: (u32, u32),
    /// The permission bits of the directory.
    pub mode: u32,
    /// The versioning state of the new bucket. Object lock needs `Enabled`.
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
        // Object lock protects versions, so it needs a bucket that keeps them permanently.
        let locks = self.configs.iter().any(|(kind, _)| *kind == BucketConfigKind::ObjectLock);
        if locks && versioning != Versioning::Enabled {
            return Err(FsError::KeepsNoVersions.into());
        }
        let encrypts = self.settings.default_encryption.is_some();
        let dentry = Dentry { versioning, locks, encrypts, ..made };
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
        // The account may be removed at the same time.
        plan.guards.extend(account_is_there(self.settings.owner));
        for (kind, config) in self.configs {
            let at = key::bucket_config(self.ino, *kind);
            plan.writes.push(Write::Put(at.clone(), config.encode(&at)));
        }
        guard_absent(&inode_key, view, &mut plan)?;
        Ok(Step::Commit(plan, ()))
    }
}

/// Removes an empty bucket, with its configurations. The reaper then removes its open uploads.
/// Fails with `NoSuchBucket`, or with `BucketNotEmpty`, `VersionsLeft` or `TrashLeft` if something
/// is left in it.
#[derive(Clone, Debug)]
pub struct DeleteBucket<'a> {
    /// The bucket to remove.
    pub bucket: NamedBucket<'a>,
}

impl Planner for DeleteBucket<'_> {
    type Output = ();

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<()>, Halt> {
        let bucket = path::bucket(view, self.bucket)?;
        let ino = bucket.dentry.ino;
        let inode_key = key::inode(ino);
        // A missing record does not stop the pass here: the ranges go into the same round trip.
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
        let [current, noncurrent, set] = &found[..] else { return Err(Halt::Need) };
        let is_shown = bucket.dentry.versioning.is_shown();
        match (current.is_empty(), noncurrent.is_empty()) {
            (true, true) => {}
            _ if is_shown => return Err(FsError::VersionsLeft.into()),
            (false, _) => return Err(FsError::BucketNotEmpty.into()),
            (true, false) => return Err(FsError::TrashLeft.into()),
        }
        let inode = inode?.ok_or(FsError::NoSuchBucket)?;
        let xattrs = decode(&inode_key, &inode, Inode::decode)?.xattrs;
        // A plan that creates something in the bucket guards the dentry that this plan deletes, so
        // one of two concurrent plans is refused.
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
        // The counter of bytes stays: orphans still count until the reaper deletes them.
        let counts = [
            key::CounterKind::Entries,
            key::CounterKind::Modified,
            key::CounterKind::Directories,
            key::CounterKind::Objects,
        ];
        writes.extend(counts.map(|count| Write::Clear(key::counter(ino, count))));
        let is_apart = |xattr: &&Xattr| matches!(xattr.value, XattrPlace::Apart(_));
        let apart = xattrs.iter().filter(is_apart);
        writes.extend(apart.map(|xattr| Write::Delete(key::xattr(ino, &xattr.name))));
        let inode = Guard::Equals(inode_key, inode);
        let mut guards = vec![bucket.guard(), inode, Guard::Empty(names.0, names.1)];
        guards.push(Guard::Empty(versions.0, versions.1));
        // All configurations that exist are removed, also those of kinds that this release does not
        // know.
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

/// The most configurations of a bucket, such as lifecycle rules or CORS rules: one of each kind,
/// and a kind is one byte. It limits the guards and writes for the removal of a bucket.
const CONFIGS_MAX: u32 = 256;

/// Finds a bucket and its settings. One round trip if its dentry is cached. Fails with
/// `NoSuchBucket`.
#[derive(Clone, Debug)]
pub struct FindBucket<'a> {
    /// The name of the bucket to find.
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

/// Lists buckets, sorted by name.
#[derive(Clone, Debug)]
pub struct ReadBuckets<'a> {
    /// The prefix of the bucket names to list.
    pub prefix: &'a [u8],
    /// The last name of the page before; `None` for the first page.
    pub after: Option<&'a [u8]>,
    /// The most buckets of the page.
    pub limit: u32,
}

impl Planner for ReadBuckets<'_> {
    type Output = Vec<FoundBucket>;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<Vec<FoundBucket>>, Halt> {
        // Dentries are sorted by `name/`, which differs from the order of names if one name
        // continues another with `-` or `.`: these bytes are less than `/`. So all dentries are
        // read, and sorted and cut by name.
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
        // Settings are read only for the buckets of this page.
        names.truncate(self.limit as usize);
        let keys = names.iter().flat_map(|(_, _, d)| [key::inode(d.ino), key::bucket(d.ino)]);
        let keys: Vec<Key> = keys.collect();
        let records = view.many(&keys)?;
        let mut found = Vec::with_capacity(names.len());
        for ((name, _, dentry), (keys, pair)) in
            names.into_iter().zip(keys.chunks_exact(2).zip(records.chunks_exact(2)))
        {
            // A bucket without these records was removed meanwhile.
            let [Some(inode), Some(settings)] = pair else { continue };
            let made = decode(&keys[0], inode, Inode::decode)?.attributes.created;
            let settings = decode(&keys[1], settings, Bucket::decode)?;
            let Dentry { ino, versioning, quota, .. } = dentry;
            found.push(FoundBucket { name, ino, made, settings, versioning, quota });
        }
        Ok(Step::Done(found))
    }
}

/// The most buckets of a volume that a listing reads. Further ones are not listed.
pub const BUCKETS_MAX: u32 = 10_000;

/// Changes one setting of a bucket. Fails with `NoSuchBucket`, and as [`BucketChange`] says.
#[derive(Clone, Debug)]
pub struct SetBucket<'a> {
    /// The bucket to change.
    pub bucket: NamedBucket<'a>,
    /// The setting to change, with its new value.
    pub change: BucketChange,
}

/// A change of one setting; the others stay.
#[derive(Clone, Copy, Debug)]
pub enum BucketChange {
    /// True: objects that are created from now on get opaque entity tags, which are random and not
    /// an MD5 of the content.
    OpaqueTags(bool),
    /// The S3 rule for the owner of objects that other accounts write; `None` removes the rule.
    Ownership(Option<ObjectOwnership>),
    /// The restrictions on public access; `None` removes them.
    PublicAccess(Option<PublicAccessBlock>),
    /// The versioning state. Fails with `Locked` if the bucket has object lock and the state is not
    /// `Enabled`, and with `HasTrash` if the bucket has a trash.
    Versioning(Versioning),
    /// The quota. Limits that are `None` stay. A limit may be below the current usage: the bucket
    /// then only shrinks.
    Quota(Quota),
    /// Remove all limits of the quota.
    NoQuota,
    /// The quota. Limits that are `None` are removed.
    ReplaceQuota(Quota),
}

impl Planner for SetBucket<'_> {
    type Output = ();

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<()>, Halt> {
        let bucket = path::bucket(view, self.bucket)?;
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
                // Every plan that changes a key of the bucket guards this dentry.
                let dentry = Dentry { versioning, ..bucket.dentry };
                plan.writes.push(Write::Put(bucket.key.clone(), dentry.encode(&bucket.key)));
            }
            BucketChange::Quota(Quota { bytes, objects }) => {
                let was = bucket.dentry.quota;
                let bytes = bytes.or(was.bytes);
                let quota = Quota { bytes, objects: objects.or(was.objects) };
                plan.writes.push(put_quota(&bucket, quota));
            }
            BucketChange::NoQuota => plan.writes.push(put_quota(&bucket, Quota::NONE)),
            BucketChange::ReplaceQuota(quota) => plan.writes.push(put_quota(&bucket, quota)),
            BucketChange::OpaqueTags(opaque) => settings.opaque_tags = opaque,
            BucketChange::Ownership(ownership) => settings.ownership = ownership,
            BucketChange::PublicAccess(block) => settings.public_access = block,
        }
        plan.guards.push(Guard::Equals(bucket_key.clone(), value));
        plan.writes.push(Write::Put(bucket_key.clone(), settings.encode(&bucket_key)));
        Ok(Step::Commit(plan, ()))
    }
}

/// Returns the write of a bucket's quota. Every plan that grows the bucket guards its dentry.
fn put_quota(bucket: &path::Bound, quota: Quota) -> Write {
    let dentry = Dentry { quota, ..bucket.dentry };
    Write::Put(bucket.key.clone(), dentry.encode(&bucket.key))
}

/// Finds a configuration of a bucket; `None` if it is not set. One round trip if the bucket's
/// dentry is cached.
#[derive(Clone, Debug)]
pub struct FindBucketConfig<'a> {
    /// The bucket.
    pub bucket: NamedBucket<'a>,
    /// The kind of configuration.
    pub kind: BucketConfigKind,
}

impl Planner for FindBucketConfig<'_> {
    type Output = Option<BucketConfig>;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<Self::Output>, Halt> {
        let bucket = path::bucket(view, self.bucket)?;
        let key = key::bucket_config(bucket.dentry.ino, self.kind);
        let found = view.record(&key)?;
        let config = found.map(|value| decode(&key, &value, BucketConfig::decode)).transpose()?;
        Ok(Step::Done(config))
    }
}

/// Finds a bucket with all of its configurations, in one snapshot.
#[derive(Clone, Debug)]
pub struct FindBucketConfigs<'a> {
    /// The bucket's name.
    pub name: &'a [u8],
}

/// A bucket with all of its configurations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketConfigs {
    /// The inode number of the bucket's directory.
    pub ino: Ino,
    /// The settings from the bucket's record, such as its owner.
    pub settings: Bucket,
    /// The versioning state of the bucket.
    pub versioning: Versioning,
    /// The limits on the bytes and objects of the bucket.
    pub quota: Quota,
    /// The configurations of the bucket, such as lifecycle rules, each kind at most once.
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

/// Stores the progress of the lifecycle pass over a bucket, which is the task that applies its
/// lifecycle rules to all objects. Returns false, and stores nothing, if another gateway has stored
/// progress since `was` was read.
#[derive(Clone, Debug)]
pub struct SetLifecyclePass<'a> {
    /// The bucket over which the lifecycle pass runs.
    pub bucket: NamedBucket<'a>,
    /// The stored progress that the caller has read; `None` if there was none.
    pub was: Option<&'a BucketConfig>,
    /// The new progress of the lifecycle pass.
    pub now: &'a BucketConfig,
}

impl Planner for SetLifecyclePass<'_> {
    type Output = bool;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<bool>, Halt> {
        let bucket = path::bucket(view, self.bucket)?;
        let key = key::bucket_config(bucket.dentry.ino, BucketConfigKind::LifecyclePass);
        let stored = view.record(&key)?;
        let was = stored.as_ref().map(|value| decode(&key, value, BucketConfig::decode));
        if was.transpose()?.as_ref() != self.was {
            return Ok(Step::Done(false));
        }
        let unchanged = match stored {
            Some(value) => Guard::Equals(key.clone(), value),
            None => Guard::Absent(key.clone()),
        };
        let writes = vec![Write::Put(key.clone(), self.now.encode(&key))];
        Ok(Step::Commit(Plan { guards: vec![bucket.guard(), unchanged], writes }, true))
    }
}

/// Sets or removes a configuration of a bucket. A trash can be set only if the bucket never had
/// versions (else `KeepsVersions`), and removed only if it is empty (else `TrashLeft`). Object lock
/// needs versioning (else `KeepsNoVersions`).
#[derive(Clone, Debug)]
pub struct SetBucketConfig<'a> {
    /// The bucket to configure.
    pub bucket: NamedBucket<'a>,
    /// The kind of configuration.
    pub kind: BucketConfigKind,
    /// The new configuration; `None` removes it.
    pub value: Option<&'a BucketConfig>,
    /// The default retention of an object lock configuration. Ignored for other kinds.
    pub default_retention: Option<RetentionDefault>,
    /// The mode of a configuration of encryption. Ignored for other kinds.
    pub default_encryption: Option<&'a Encryption>,
}

impl Planner for SetBucketConfig<'_> {
    type Output = ();

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<()>, Halt> {
        let bucket = path::bucket(view, self.bucket)?;
        let (ino, config_key) =
            (bucket.dentry.ino, key::bucket_config(bucket.dentry.ino, self.kind));
        let bucket_key = key::bucket(ino);
        let value = view.record(&bucket_key)?.ok_or(FsError::NoSuchBucket)?;
        let mut settings = decode(&bucket_key, &value, Bucket::decode)?;
        // Gateways cache configurations under this number.
        settings.configs_version += 1;
        if self.kind == BucketConfigKind::ObjectLock {
            settings.default_retention = self.default_retention;
        }
        if self.kind == BucketConfigKind::Encryption {
            settings.default_encryption = self.default_encryption.cloned();
        }
        if self.kind == BucketConfigKind::ObjectLock
            && bucket.dentry.versioning != Versioning::Enabled
        {
            return Err(FsError::KeepsNoVersions.into());
        }
        // The removal of the bucket deletes both records, so no configuration is set for a removed
        // bucket.
        let guards = vec![bucket.guard(), Guard::Equals(bucket_key.clone(), value)];
        let write = match self.value {
            Some(config) => Write::Put(config_key.clone(), config.encode(&config_key)),
            None => Write::Delete(config_key),
        };
        let put_settings = Write::Put(bucket_key.clone(), settings.encode(&bucket_key));
        let mut writes = vec![write, put_settings];
        let mut guards = guards;
        if self.kind == BucketConfigKind::Trash {
            self.set_trash(view, &bucket, &mut guards, &mut writes)?;
        }
        if self.kind == BucketConfigKind::ObjectLock && !bucket.dentry.locks {
            // Every plan that changes a key of the bucket guards this dentry.
            let dentry = Dentry { locks: true, ..bucket.dentry };
            writes.push(Write::Put(bucket.key.clone(), dentry.encode(&bucket.key)));
        }
        let encrypts = settings.default_encryption.is_some();
        if self.kind == BucketConfigKind::Encryption && bucket.dentry.encrypts != encrypts {
            let dentry = Dentry { encrypts, ..bucket.dentry };
            writes.push(Write::Put(bucket.key.clone(), dentry.encode(&bucket.key)));
        }
        Ok(Step::Commit(Plan { guards, writes }, ()))
    }
}

impl SetBucketConfig<'_> {
    /// Adds the start or end of the bucket's trash to a plan.
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
        // A change of the days of an existing trash does not change the state of the bucket.
        let versioning = if self.value.is_some() { Versioning::Trash } else { Versioning::Off };
        if versioning == dentry.versioning {
            return Ok(());
        }
        if versioning == Versioning::Off {
            let (start, end) = key::versions(dentry.ino);
            if !view.range(start.clone(), end.clone(), 1)?.is_empty() {
                return Err(FsError::TrashLeft.into());
            }
            // An item could be added at the same time. That plan guards the dentry, which this plan
            // writes.
            guards.push(Guard::Empty(start, end));
        }
        // Every plan that changes a key of the bucket guards this dentry.
        let dentry = Dentry { versioning, ..*dentry };
        writes.push(Write::Put(bucket.key.clone(), dentry.encode(&bucket.key)));
        Ok(())
    }
}
