//! The settings of buckets.

use namespace::{
    BucketChange, FindBucket, FoundBucket, Planner, ReadBuckets, SetBucket, SetBucketConfig,
};
use record::BucketConfigKind;
use record::key::{self, CounterKind};
use s3::BucketName;
use store::{Read, ReadResult};

use crate::{Admin, AdminError};

/// Buckets that are read at a time, and two counters of each.
const BUCKETS_AT_ONCE: u32 = 500;

/// A bucket, and what it holds by its counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketUsage {
    /// The bucket and its settings, the quota among them.
    pub bucket: FoundBucket,
    /// Names of files in it.
    pub objects: u64,
    /// Bytes of its files, those awaiting the reaper included.
    pub bytes: u64,
}

impl Admin {
    /// All buckets in the order of their names, and what each holds. A bucket is seen as it is when
    /// its page is read.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn buckets(&self) -> Result<Vec<BucketUsage>, AdminError> {
        let mut all: Vec<BucketUsage> = Vec::new();
        loop {
            let after = all.last().map(|last| last.bucket.name.clone());
            let page = ReadBuckets { prefix: b"", after: after.as_deref(), limit: BUCKETS_AT_ONCE };
            let page = self.run(&page, None).await?;
            let last = page.len() < BUCKETS_AT_ONCE as usize;
            all.extend(self.used(page).await?);
            if last {
                return Ok(all);
            }
        }
    }

    /// A bucket, and what it holds.
    ///
    /// # Errors
    /// Those of [`Admin::bucket`].
    pub async fn bucket_usage(&self, name: &str) -> Result<BucketUsage, AdminError> {
        let found = self.bucket(name).await?;
        let missing = || AdminError::Corrupt("the store left questions unanswered".to_owned());
        self.used(vec![found]).await?.pop().ok_or_else(missing)
    }

    /// What buckets hold.
    async fn used(&self, buckets: Vec<FoundBucket>) -> Result<Vec<BucketUsage>, AdminError> {
        let counters = |bucket: &FoundBucket| {
            let kinds = [CounterKind::Objects, CounterKind::Bytes];
            kinds.map(|kind| Read::Counter(key::counter(bucket.ino, kind)))
        };
        let reads: Vec<Read> = buckets.iter().flat_map(counters).collect();
        let mut found = self.read(&reads).await?.into_iter().map(|found| match found {
            ReadResult::Counter(number) => u64::try_from(number).unwrap_or(0),
            _ => 0,
        });
        let mut next = || found.next().unwrap_or(0);
        Ok(buckets
            .into_iter()
            .map(|bucket| BucketUsage { bucket, objects: next(), bytes: next() })
            .collect())
    }

    /// A bucket and its settings.
    ///
    /// # Errors
    /// [`AdminError::BucketName`], [`AdminError::NoSuchBucket`].
    pub async fn bucket(&self, name: &str) -> Result<FoundBucket, AdminError> {
        let name = parse(name)?;
        self.run(&FindBucket { name: name.as_str().as_bytes() }, None).await
    }

    /// Changes one of a bucket's settings; what is in it stays as it is.
    ///
    /// The change is made in a session, so that a gateway that was alone with the volume stops
    /// answering from memory. That may take a second. Gateways learn of the change from the change
    /// feed, as they learn of each other's changes.
    ///
    /// # Errors
    /// [`AdminError::BucketName`], [`AdminError::NoSuchBucket`], and if the store does not take it.
    pub async fn set_bucket(&self, name: &str, change: BucketChange) -> Result<(), AdminError> {
        let name = parse(name)?;
        self.in_session(&SetBucket { name: name.as_str().as_bytes(), change }).await
    }
}

impl Admin {
    /// Removes what a bucket is set to do, of one kind, as if it had never been set: the way out for
    /// an account that has locked itself out by a policy. It is made as [`Admin::set_bucket`] is.
    ///
    /// # Errors
    /// Those of [`Admin::set_bucket`].
    pub async fn clear_bucket(&self, name: &str, kind: BucketConfigKind) -> Result<(), AdminError> {
        let name = parse(name)?;
        let set = SetBucketConfig {
            name: name.as_str().as_bytes(),
            kind,
            value: None,
            default_retention: None,
        };
        self.in_session(&set).await
    }

    /// Makes a change of what gateways remember.
    pub(crate) async fn in_session(
        &self,
        change: &(impl Planner<Output = ()> + Sync),
    ) -> Result<(), AdminError> {
        let place = &self.surroundings.place;
        let short =
            session::begin_short_session(&*self.store, place, self.surroundings.clock.now())
                .await?;
        let done = self.run(change, Some(&short)).await;
        short.end(&*self.store).await;
        done
    }
}

pub(crate) fn parse(name: &str) -> Result<BucketName, AdminError> {
    let parsed = BucketName::parse(name);
    parsed.map_err(|fault| AdminError::BucketName(fault.message.into_owned()))
}
