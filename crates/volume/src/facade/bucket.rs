//! Buckets.

use ledger::Note;
use namespace::{
    CountHoldings, DIRECTORY_MODE, DeleteBucket, FindBucket, FindBucketConfig, FoundBucket,
    Holdings, MakeBucket, ReadBuckets, SetBucketConfig,
};
use record::{Bucket, BucketConfig, BucketConfigKind, Ino, Timestamp};

use super::FileOwner;
use crate::{Volume, VolumeError};

/// Buckets whose records one round trip reads.
const BUCKETS_AT_ONCE: usize = 1_000;

/// A bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketStat {
    /// Its name.
    pub name: String,
    /// Its directory.
    pub ino: Ino,
    /// When it was made.
    pub made: Timestamp,
    /// Its settings.
    pub bucket: Bucket,
}

impl From<FoundBucket> for BucketStat {
    fn from(found: FoundBucket) -> BucketStat {
        let name = String::from_utf8_lossy(&found.name).into_owned();
        BucketStat { name, ino: found.ino, made: found.made, bucket: found.settings }
    }
}

impl Volume {
    /// Makes a bucket. [`namespace::FsError::BucketExists`] when the name is taken.
    pub async fn create_bucket(&self, name: &str, owner: &FileOwner) -> Result<(), VolumeError> {
        self.make_bucket(name, owner, None).await
    }

    /// Makes a bucket: for whoever [watches](Volume::watch_nodes), whose request is noted, or for
    /// somebody else.
    pub(super) async fn make_bucket(
        &self,
        name: &str,
        owner: &FileOwner,
        note: Option<&Note>,
    ) -> Result<(), VolumeError> {
        let [ino] = self.fresh().await?;
        let settings = Bucket { owner: owner.access_key.clone(), ..Bucket::default() };
        let (mode, owner) = (DIRECTORY_MODE & !owner.umask, (owner.uid, owner.gid));
        let operation = MakeBucket { name: name.as_bytes(), ino, settings: &settings, owner, mode };
        match note {
            Some(note) => {
                note.makes(ino);
                self.session.run_noted(&operation, None, note).await
            }
            None => self.session.run(&operation).await,
        }
    }

    /// Removes an empty bucket, and the uploads that are open in it.
    pub async fn delete_bucket(&self, name: &str) -> Result<(), VolumeError> {
        self.session.run(&DeleteBucket { name: name.as_bytes() }).await?;
        self.session.wake_reaper();
        Ok(())
    }

    /// Finds a bucket, as it stands now.
    pub async fn bucket(&self, name: &str) -> Result<BucketStat, VolumeError> {
        Ok(self.session.run(&FindBucket { name: name.as_bytes() }).await?.into())
    }

    /// A bucket as last seen by this process, and as it stands now if it was not: enough to refuse
    /// a request early, never to answer one.
    pub async fn remembered_bucket(&self, name: &str) -> Result<BucketStat, VolumeError> {
        let operation = FindBucket { name: name.as_bytes() };
        match self.session.remembered(&operation) {
            Some(found) => Ok(found.into()),
            None => Ok(self.session.run(&operation).await?.into()),
        }
    }

    /// Buckets in the order of their names.
    pub async fn buckets(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<BucketStat>, VolumeError> {
        let mut buckets: Vec<BucketStat> = Vec::new();
        let mut after = after.map(str::to_owned);
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

    /// What a bucket holds by its counters, or, of the root, all of them: see [`CountHoldings`].
    pub async fn holdings(&self, of: Ino) -> Result<Holdings, VolumeError> {
        self.session.run(&CountHoldings { of }).await
    }

    /// A bucket's tags; none if it has none.
    pub async fn bucket_tags(&self, name: &str) -> Result<Vec<(String, String)>, VolumeError> {
        let (name, kind) = (name.as_bytes(), BucketConfigKind::Tags);
        let config = self.session.run(&FindBucketConfig { name, kind }).await?;
        let tags = config.map(|config| config.tags()).transpose();
        let tags = tags.map_err(|error| VolumeError::Corrupt(format!("tags of a bucket: {error}")));
        Ok(tags?.unwrap_or_default())
    }

    /// Replaces a bucket's tags; none removes them.
    pub async fn set_bucket_tags(
        &self,
        name: &str,
        tags: &[(String, String)],
    ) -> Result<(), VolumeError> {
        let config = (!tags.is_empty()).then(|| BucketConfig::of_tags(tags));
        let (name, kind) = (name.as_bytes(), BucketConfigKind::Tags);
        self.session.run(&SetBucketConfig { name, kind, value: config.as_ref() }).await
    }
}
