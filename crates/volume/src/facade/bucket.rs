//! Buckets: create, find, configure and delete them.
//!
//! For example, `PutBucketVersioning` calls [`Volume::set_bucket`], and `ListBuckets` calls
//! [`Volume::buckets_owned_by`].

use ledger::Note;
use namespace::{
    BucketChange, BucketConfigs, CountUsage, DIRECTORY_MODE, DeleteBucket, FindBucket,
    FindBucketConfig, FindBucketConfigs, FoundBucket, MakeBucket, NamedBucket, ReadBuckets,
    SetBucket, SetBucketConfig, SetLifecyclePass, Usage,
};
use record::{
    AccountId, Bucket, BucketConfig, BucketConfigKind, Encryption, Ino, ObjectOwnership, Quota,
    RetentionDefault, Timestamp, Versioning,
};

use super::FileOwner;
use crate::{Volume, VolumeError};

/// Buckets that one round trip reads.
const BUCKETS_AT_ONCE: usize = 1_000;

/// The properties of a bucket, as they were when it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketStat {
    /// The name of the bucket.
    pub name: String,
    /// The inode number of the bucket's directory.
    pub ino: Ino,
    /// The time of the bucket's creation.
    pub made: Timestamp,
    /// The settings from the bucket's record, such as its owner.
    pub bucket: Bucket,
    /// The versioning state of the bucket.
    pub versioning: Versioning,
    /// The limits of bytes and objects of the bucket.
    pub quota: Quota,
}

/// The parameters of a new bucket.
#[derive(Clone, Copy, Debug)]
pub struct NewBucket<'a> {
    /// The account that owns the bucket.
    pub account: AccountId,
    /// The rule for the ownership of objects that other accounts write.
    pub ownership: ObjectOwnership,
    /// The versioning state of the new bucket.
    pub versioning: Versioning,
    /// Initial configurations of the new bucket, each kind at most once.
    pub configs: &'a [(BucketConfigKind, BucketConfig)],
    /// The user id of the bucket's directory.
    pub uid: u32,
    /// The group id of the bucket's directory.
    pub gid: u32,
    /// Permission bits that the bucket's directory does not get.
    pub umask: u32,
}

impl NewBucket<'_> {
    /// A bucket of the owner's account, which also owns all objects in it.
    pub fn owned_by(owner: &FileOwner) -> NewBucket<'static> {
        NewBucket {
            account: owner.account,
            ownership: ObjectOwnership::BucketOwnerEnforced,
            versioning: Versioning::Off,
            configs: &[],
            uid: owner.uid,
            gid: owner.gid,
            umask: owner.umask,
        }
    }
}

impl From<FoundBucket> for BucketStat {
    fn from(found: FoundBucket) -> BucketStat {
        let name = String::from_utf8_lossy(&found.name).into_owned();
        let FoundBucket { ino, made, settings: bucket, versioning, quota, .. } = found;
        BucketStat { name, ino, made, bucket, versioning, quota }
    }
}

impl Volume {
    /// Creates a bucket. Fails with [`namespace::FsError::BucketExists`] if the name exists.
    pub async fn create_bucket(&self, name: &str, new: &NewBucket<'_>) -> Result<(), VolumeError> {
        self.make_bucket(name, new, None).await
    }

    /// Creates a bucket. With a `note`, which is the entry of a mount's request in the ledger's
    /// journal, the caller is the registered [watch](Volume::watch_nodes), and the next process of
    /// the mount can find out if the bucket was created.
    pub(super) async fn make_bucket(
        &self,
        name: &str,
        new: &NewBucket<'_>,
        note: Option<&Note>,
    ) -> Result<(), VolumeError> {
        let [ino] = self.fresh().await?;
        let settings = Bucket {
            owner: new.account,
            ownership: Some(new.ownership),
            // The version of the configurations is 0 while there are none, so that caches of
            // configurations need no read.
            configs_version: u64::from(!new.configs.is_empty()),
            default_retention: None,
            default_encryption: None,
            ..Bucket::default()
        };
        let operation = MakeBucket {
            name: name.as_bytes(),
            ino,
            settings: &settings,
            configs: new.configs,
            owner: (new.uid, new.gid),
            mode: DIRECTORY_MODE & !new.umask,
            versioning: new.versioning,
        };
        match note {
            Some(note) => {
                // The journal names the inode, so that the next process can recognize the bucket as
                // its own.
                note.creates(ino);
                self.session.run_journaled(&operation, None, note).await
            }
            None => self.session.run(&operation).await,
        }
    }

    /// Deletes an empty bucket and its open uploads.
    pub async fn delete_bucket(
        &self,
        bucket: impl Into<NamedBucket<'_>>,
    ) -> Result<(), VolumeError> {
        self.session.run(&DeleteBucket { bucket: bucket.into() }).await?;
        self.session.wake_reaper();
        Ok(())
    }

    /// Finds a bucket in the store. Fails with `NoSuchBucket` if there is none.
    pub async fn bucket(&self, name: &str) -> Result<BucketStat, VolumeError> {
        Ok(self.session.run(&FindBucket { name: name.as_bytes() }).await?.into())
    }

    /// Finds a bucket by cached records (hints), or in the store if they do not suffice. The result
    /// may be old, so use it only to refuse a request early.
    pub async fn bucket_from_hints(&self, name: &str) -> Result<BucketStat, VolumeError> {
        let operation = FindBucket { name: name.as_bytes() };
        match self.session.plan_from_hints(&operation) {
            Some(found) => Ok(found.into()),
            None => Ok(self.session.run(&operation).await?.into()),
        }
    }

    /// Returns at most `limit` buckets whose names begin with `prefix` and sort after the name
    /// `after`, in the order of their names.
    pub async fn buckets(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<BucketStat>, VolumeError> {
        let mut buckets: Vec<BucketStat> = Vec::new();
        let mut after = after.map(str::to_owned);
        // Pages are bounded, so that one call to the store stays small at any `limit`.
        while buckets.len() < limit {
            let wanted = BUCKETS_AT_ONCE.min(limit - buckets.len());
            let operation = ReadBuckets {
                prefix: prefix.as_bytes(),
                after: after.as_deref().map(str::as_bytes),
                limit: u32::try_from(wanted).unwrap_or(u32::MAX),
            };
            let page = self.session.run(&operation).await?;
            let last = page.len() < wanted;
            buckets.extend(page.into_iter().map(BucketStat::from));
            if last {
                break;
            }
            after = buckets.last().map(|bucket| bucket.name.clone());
        }
        Ok(buckets)
    }

    /// As [`Volume::buckets`], limited to the buckets that this account owns. It reads also the
    /// other buckets, page by page.
    pub async fn buckets_owned_by(
        &self,
        account: AccountId,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<BucketStat>, VolumeError> {
        let mut owned: Vec<BucketStat> = Vec::new();
        let mut after = after.map(str::to_owned);
        while owned.len() < limit {
            let page = self.buckets(prefix, after.as_deref(), BUCKETS_AT_ONCE).await?;
            let last = page.len() < BUCKETS_AT_ONCE;
            after = page.last().map(|bucket| bucket.name.clone());
            owned.extend(page.into_iter().filter(|bucket| bucket.bucket.owner == account));
            if last {
                break;
            }
        }
        owned.truncate(limit);
        Ok(owned)
    }

    /// Returns the number of bytes and objects of a bucket by its counters. With the inode number
    /// of the root, returns those of the whole volume: see [`CountUsage`].
    pub async fn holdings(&self, of: Ino) -> Result<Usage, VolumeError> {
        self.session.run(&CountUsage { ino: of }).await
    }

    /// Returns a bucket with all its configurations.
    pub async fn bucket_configs(&self, name: &str) -> Result<BucketConfigs, VolumeError> {
        self.session.run(&FindBucketConfigs { name: name.as_bytes() }).await
    }

    /// Returns one configuration of a bucket; `None` if it was never set.
    pub async fn bucket_config(
        &self,
        bucket: impl Into<NamedBucket<'_>>,
        kind: BucketConfigKind,
    ) -> Result<Option<BucketConfig>, VolumeError> {
        self.session.run(&FindBucketConfig { bucket: bucket.into(), kind }).await
    }

    /// Sets one configuration of a bucket; `None` removes it.
    pub async fn set_bucket_config(
        &self,
        bucket: impl Into<NamedBucket<'_>>,
        kind: BucketConfigKind,
        value: Option<&BucketConfig>,
    ) -> Result<(), VolumeError> {
        self.configure(SetBucketConfig {
            bucket: bucket.into(),
            kind,
            value,
            default_retention: None,
            default_encryption: None,
        })
        .await
    }

    /// Sets the object lock configuration of a bucket with its default retention.
    pub async fn set_object_lock(
        &self,
        bucket: impl Into<NamedBucket<'_>>,
        config: &BucketConfig,
        default_retention: Option<RetentionDefault>,
    ) -> Result<(), VolumeError> {
        self.configure(SetBucketConfig {
            bucket: bucket.into(),
            kind: BucketConfigKind::ObjectLock,
            value: Some(config),
            default_retention,
            default_encryption: None,
        })
        .await
    }

    /// Sets the configuration of encryption of a bucket, and the mode of new objects in it, if it
    /// has one. `None` removes both.
    pub async fn set_default_encryption(
        &self,
        bucket: impl Into<NamedBucket<'_>>,
        default: Option<(&BucketConfig, Option<&Encryption>)>,
    ) -> Result<(), VolumeError> {
        self.configure(SetBucketConfig {
            bucket: bucket.into(),
            kind: BucketConfigKind::Encryption,
            value: default.map(|(config, _)| config),
            default_retention: None,
            default_encryption: default.and_then(|(_, mode)| mode),
        })
        .await
    }

    async fn configure(&self, change: SetBucketConfig<'_>) -> Result<(), VolumeError> {
        self.session.run(&change).await
    }

    /// Stores the position of the lifecycle pass over a bucket, that is, the progress of the task
    /// that applies its lifecycle rules to all objects. Does nothing and returns false if the
    /// stored position is not `was` any more, because another gateway has stored one.
    pub async fn save_lifecycle_position(
        &self,
        bucket: NamedBucket<'_>,
        was: Option<&BucketConfig>,
        now: &BucketConfig,
    ) -> Result<bool, VolumeError> {
        self.session.run(&SetLifecyclePass { bucket, was, now }).await
    }

    /// Changes a bucket's settings.
    pub async fn set_bucket(
        &self,
        bucket: impl Into<NamedBucket<'_>>,
        change: BucketChange,
    ) -> Result<(), VolumeError> {
        self.session.run(&SetBucket { bucket: bucket.into(), change }).await
    }

    /// Returns a bucket's tags.
    pub async fn bucket_tags(
        &self,
        bucket: impl Into<NamedBucket<'_>>,
    ) -> Result<Vec<(String, String)>, VolumeError> {
        let config = self.bucket_config(bucket, BucketConfigKind::Tags).await?;
        let tags = config.map(|config| config.tags()).transpose();
        let tags = tags.map_err(|error| VolumeError::Corrupt(format!("tags of a bucket: {error}")));
        Ok(tags?.unwrap_or_default())
    }

    /// Replaces a bucket's tags; an empty list removes them.
    pub async fn set_bucket_tags(
        &self,
        bucket: impl Into<NamedBucket<'_>>,
        tags: &[(String, String)],
    ) -> Result<(), VolumeError> {
        let config = (!tags.is_empty()).then(|| BucketConfig::of_tags(tags));
        self.set_bucket_config(bucket, BucketConfigKind::Tags, config.as_ref()).await
    }
}
