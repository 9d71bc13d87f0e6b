//! The rules of buckets, in a cache.
//!
//! The rules of a bucket are read at the first request that needs them. The cache keeps them with
//! the version number of the configurations, which is in the bucket's record. Each request compares
//! this number with the record as this process last saw it, without a round trip.
//!
//! A change of a policy through this process is therefore in force at once. Other processes apply
//! it when the notification of the change arrives (docs/S3.md, "Policies"). For example, a PUT of a
//! bucket policy raises the version number, and the next request parses the new policy.

use std::sync::Arc;

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};
use record::Ino;
use s3::BucketName;
use volume::{BucketStat, Volume};

use crate::bucket::{BucketRules, RulesError};

/// The expected number of buckets whose rules are in the cache.
const BUCKETS_EXPECTED: usize = 4_096;

/// The approximate limit of the memory for the rules of all buckets, in bytes.
const RULES_BYTES_MAX: u64 = 64 << 20;

/// Bytes of memory for each byte of a configuration: the parsed form is larger.
const PARSED_BYTES: u64 = 32;

/// The bytes of memory that the cache counts for a bucket without configurations.
const EMPTY_BYTES: u64 = 512;

/// A cache of the rules of buckets.
#[derive(Debug)]
pub struct RulesCache(Cache<Ino, Arc<BucketRules>, Bytes>);

/// Computes the size in bytes of an entry of the cache, for the cache's limit.
#[derive(Clone, Debug)]
struct Bytes;

impl Weighter<Ino, Arc<BucketRules>> for Bytes {
    fn weight(&self, _ino: &Ino, rules: &Arc<BucketRules>) -> u64 {
        EMPTY_BYTES + PARSED_BYTES * rules.config_bytes
    }
}

impl Default for RulesCache {
    fn default() -> RulesCache {
        RulesCache::new()
    }
}

impl RulesCache {
    /// Returns a cache without rules.
    pub fn new() -> RulesCache {
        // The capacity of a shard limits the weight of one bucket. With one shard, a bucket with
        // the longest configurations fits, so they are not parsed again for each request.
        let options = OptionsBuilder::new()
            .shards(1)
            .estimated_items_capacity(BUCKETS_EXPECTED)
            .weight_capacity(RULES_BYTES_MAX)
            .build();
        let cache = match options {
            Ok(options) => {
                let (hasher, lifecycle) =
                    (DefaultHashBuilder::default(), DefaultLifecycle::default());
                Cache::with_options(options, Bytes, hasher, lifecycle)
            }
            Err(_) => Cache::with_weighter(BUCKETS_EXPECTED, RULES_BYTES_MAX, Bytes),
        };
        RulesCache(cache)
    }

    /// Returns the rules of a bucket, from the cache if they are current, otherwise from the
    /// metadata store. Fails with [`RulesError::Unreadable`] if a configuration cannot be parsed,
    /// and with the error of the volume if the bucket does not exist or cannot be read.
    pub async fn get(
        &self,
        volume: &Volume,
        name: &BucketName,
    ) -> Result<Arc<BucketRules>, RulesError> {
        let rules = self.get_once(volume, name).await?;
        // The key is the inode number that was read, because the bucket may have been replaced
        // meanwhile.
        if self.0.peek(&rules.ino).is_none_or(|known| !Arc::ptr_eq(&known, &rules)) {
            self.0.insert(rules.ino, Arc::clone(&rules));
        }
        Ok(rules)
    }

    /// As [`RulesCache::get`], but adds nothing to the cache. A list of many buckets must not
    /// replace the rules that requests of S3 need.
    pub async fn get_once(
        &self,
        volume: &Volume,
        name: &BucketName,
    ) -> Result<Arc<BucketRules>, RulesError> {
        let BucketStat { ino, bucket, .. } = volume.bucket_from_hints(name.as_str()).await?;
        // The settings contain the version number of the configurations, so equal settings mean
        // current rules.
        if let Some(known) = self.0.get(&ino)
            && known.settings == bucket
        {
            return Ok(known);
        }
        // A bucket that never had a configuration needs no read.
        let rules = if bucket.configs_version == 0 {
            BucketRules::of_settings(ino, bucket)
        } else {
            BucketRules::of(name, volume.bucket_configs(name.as_str()).await?)?
        };
        Ok(Arc::new(rules))
    }
}

#[cfg(test)]
mod tests;
