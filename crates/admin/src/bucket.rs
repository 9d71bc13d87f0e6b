//! The settings of buckets and their usage.
//!
//! For example, if an account has locked itself out of a bucket by a policy, an operator removes
//! the policy with [`Admin::clear_bucket`].

use namespace::{
    BucketChange, BucketConfigs, FindBucket, FindBucketConfigs, FoundBucket, NamedBucket,
    ReadBuckets, SetBucket, SetBucketConfig,
};
use record::BucketConfigKind;
use record::key::{self, CounterKind};
use s3::BucketName;
use store::{Read, ReadResult};

use crate::{Admin, AdminError};

/// The number of buckets that one read lists. A second read then asks for the two counters of each
/// of these buckets, its objects and its bytes.
const BUCKETS_AT_ONCE: u32 = 500;

/// A bucket with its usage, which its counters give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketUsage {
    /// The bucket with its settings, including the quota.
    pub bucket: FoundBucket,
    /// The number of names of files.
    pub objects: u64,
    /// The bytes of its files, including deleted files that the reaper has not removed yet.
    pub bytes: u64,
}

impl Admin {
    /// Returns all buckets in order of name, with their usage. The list is not a snapshot: each
    /// page shows the buckets at the time of its read.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn buckets(&self) -> Result<Vec<BucketUsage>, AdminError> {
        let mut all: Vec<BucketUsage> = Vec::new();
        loop {
            let after = all.last().map(|last| last.bucket.name.clone());
            let page = self.buckets_after(b"", after.as_deref(), BUCKETS_AT_ONCE).await?;
            // A page that is not full is the last one.
            let last = page.len() < BUCKETS_AT_ONCE as usize;
            all.extend(self.usage_of(page).await?);
            if last {
                return Ok(all);
            }
        }
    }

    /// Returns at most `limit` buckets whose names begin with `prefix`, in order of name, after the
    /// name `after`.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn buckets_after(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: u32,
    ) -> Result<Vec<FoundBucket>, AdminError> {
        self.look(&ReadBuckets { prefix, after, limit }).await
    }

    /// Returns a bucket with its usage.
    ///
    /// # Errors
    /// Those of [`Admin::bucket`].
    pub async fn bucket_usage(&self, name: &str) -> Result<BucketUsage, AdminError> {
        let found = self.bucket(name).await?;
        let missing = || AdminError::Corrupt("the store answered with too few results".to_owned());
        self.usage_of(vec![found]).await?.pop().ok_or_else(missing)
    }

    /// Reads the counters of these buckets and returns each bucket with its usage, in the same
    /// order. It takes one round trip.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn usage_of(
        &self,
        buckets: Vec<FoundBucket>,
    ) -> Result<Vec<BucketUsage>, AdminError> {
        let counters = |bucket: &FoundBucket| {
            let kinds = [CounterKind::Objects, CounterKind::Bytes];
            kinds.map(|kind| Read::Counter(key::counter(bucket.ino, kind)))
        };
        let reads: Vec<Read> = buckets.iter().flat_map(counters).collect();
        let mut found = self.read(&reads).await?.into_iter().map(|found| match found {
            ReadResult::Counter(number) => u64::try_from(number).unwrap_or(0),
            ReadResult::Record(_) | ReadResult::Range(_) => 0,
        });
        let mut next = || found.next().unwrap_or(0);
        Ok(buckets
            .into_iter()
            .map(|bucket| BucketUsage { bucket, objects: next(), bytes: next() })
            .collect())
    }

    /// Returns a bucket with its settings.
    ///
    /// # Errors
    /// [`AdminError::BucketName`], [`AdminError::NoSuchBucket`].
    pub async fn bucket(&self, name: &str) -> Result<FoundBucket, AdminError> {
        let name = parse(name)?;
        self.look(&FindBucket { name: name.as_str().as_bytes() }).await
    }

    /// Returns a bucket with its configurations, such as its policy.
    ///
    /// # Errors
    /// Those of [`Admin::bucket`].
    pub async fn bucket_configs(&self, name: &str) -> Result<BucketConfigs, AdminError> {
        let name = parse(name)?;
        self.look(&FindBucketConfigs { name: name.as_str().as_bytes() }).await
    }

    /// Changes one setting of a bucket. The objects in the bucket do not change.
    ///
    /// The change runs in a session. A gateway that was the only session of the volume answers from
    /// memory; the new session ends this, which may take a second. Gateways learn of the change
    /// from the change feed, as they learn of each other's changes.
    ///
    /// # Errors
    /// [`AdminError::BucketName`], [`AdminError::NoSuchBucket`], [`AdminError::Fs`] if
    /// [`BucketChange::Versioning`] refuses the state, and if the store refuses the change.
    pub async fn set_bucket(&self, name: &str, change: BucketChange) -> Result<(), AdminError> {
        let name = parse(name)?;
        self.change_joined(&SetBucket { bucket: name.as_str().into(), change }).await
    }

    /// Changes one setting of a bucket that was found before, as [`Admin::set_bucket`].
    ///
    /// # Errors
    /// Those of [`Admin::set_bucket`]; [`AdminError::NoSuchBucket`] also if another bucket has the
    /// name now.
    pub async fn set_found_bucket(
        &self,
        found: &FoundBucket,
        change: BucketChange,
    ) -> Result<(), AdminError> {
        let bucket = NamedBucket { name: &found.name, ino: Some(found.ino) };
        self.change_joined(&SetBucket { bucket, change }).await
    }
}

impl Admin {
    /// Removes one configuration of a bucket, for example its policy or its lifecycle rules. An
    /// account that has locked itself out by a policy needs this. Runs in a session, as
    /// [`Admin::set_bucket`].
    ///
    /// # Errors
    /// Those of [`Admin::set_bucket`].
    pub async fn clear_bucket(&self, name: &str, kind: BucketConfigKind) -> Result<(), AdminError> {
        let name = parse(name)?;
        let set = SetBucketConfig {
            bucket: name.as_str().into(),
            kind,
            value: None,
            default_retention: None,
            default_encryption: None,
        };
        self.change_joined(&set).await
    }
}

pub(crate) fn parse(name: &str) -> Result<BucketName, AdminError> {
    let parsed = BucketName::parse(name);
    parsed.map_err(|fault| AdminError::BucketName(fault.message.into_owned()))
}
