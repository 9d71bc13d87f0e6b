//! The rules of buckets, in a cache: their settings and configurations, parsed.
//!
//! The rules of a bucket are read at the first request that needs them. The cache keeps them with
//! the version number of the configurations, which is in the bucket's record. Each request compares
//! this number with the record as this process last saw it, without a round trip.
//!
//! A change of a policy through this gateway is therefore in force at once. Other gateways apply it
//! when the notification of the change arrives. For example, a PUT of a bucket policy raises the
//! version number, and the next request parses the new policy.

use std::sync::Arc;

use policy::{Policy, PolicyKind};
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};
use record::{
    Bucket, BucketConfig, BucketConfigKind, Ino, ObjectOwnership, PublicAccessBlock, S3Acl,
};
use s3::cors::CorsConfiguration;
use s3::lifecycle::LifecycleConfiguration;
use s3::object_lock::ObjectLockConfiguration;
use s3::{BucketName, Code, Fault};
use tracing::error;
use volume::{BucketStat, Volume};

use crate::translate;

/// The expected number of buckets whose rules are in the cache.
const BUCKETS_EXPECTED: usize = 4_096;

/// The approximate limit of the memory for the rules of all buckets, in bytes.
const RULES_BYTES_MAX: u64 = 64 << 20;

/// Bytes of memory for each byte of a configuration: the parsed form is larger.
const PARSED_BYTES: u64 = 32;

/// The bytes of memory that the cache counts for a bucket without configurations.
const EMPTY_BYTES: u64 = 512;

/// The rules of one bucket: the settings in its record, and its parsed configurations, such as its
/// policy.
#[derive(Debug)]
pub(crate) struct BucketRules {
    /// The inode number of the bucket's directory.
    pub(crate) ino: Ino,
    /// The settings in the bucket's record.
    pub(crate) settings: Bucket,
    /// The number of the account that owns the bucket: 12 digits.
    pub(crate) account: String,
    /// The bucket policy.
    pub(crate) policy: Option<Policy>,
    /// The object lock configuration with the default retention; `None` if object lock is off.
    pub(crate) object_lock: Option<ObjectLockConfiguration>,
    /// The lifecycle rules.
    pub(crate) lifecycle: Option<LifecycleConfiguration>,
    /// The number of days that deleted and replaced objects stay in the trash; `None` without a
    /// trash.
    pub(crate) trash_days: Option<u32>,
    /// The CORS rules.
    pub(crate) cors: Option<CorsConfiguration>,
    /// The size in bytes of all configurations as they are stored. The cache's limit of memory
    /// counts `PARSED_BYTES` for each of them.
    config_bytes: u64,
    /// The bucket's own ACL. Without one, the owner alone has full control.
    pub(crate) acl: Option<S3Acl>,
}

impl BucketRules {
    fn without_configs(ino: Ino, settings: Bucket) -> BucketRules {
        let account = settings.owner.to_string();
        BucketRules {
            ino,
            settings,
            account,
            policy: None,
            object_lock: None,
            lifecycle: None,
            trash_days: None,
            cors: None,
            config_bytes: 0,
            acl: None,
        }
    }

    /// Returns true if ACLs are enabled in the bucket.
    pub(crate) fn acls_enabled(&self) -> bool {
        self.settings.ownership != Some(ObjectOwnership::BucketOwnerEnforced)
    }

    /// Returns the public access block.
    pub(crate) fn public_access(&self) -> PublicAccessBlock {
        self.settings.public_access.unwrap_or_default()
    }

    /// Returns true if the bucket admits only its owner's account: it has no bucket policy, and its
    /// ACLs are disabled.
    pub(crate) fn is_private(&self) -> bool {
        self.policy.is_none() && !self.acls_enabled()
    }
}

/// A cache of the rules of buckets.
#[derive(Debug)]
pub(crate) struct RulesCache(Cache<Ino, Arc<BucketRules>, Bytes>);

/// Computes the size in bytes of an entry of the cache, for the cache's limit.
#[derive(Clone, Debug)]
struct Bytes;

impl Weighter<Ino, Arc<BucketRules>> for Bytes {
    fn weight(&self, _ino: &Ino, rules: &Arc<BucketRules>) -> u64 {
        EMPTY_BYTES + PARSED_BYTES * rules.config_bytes
    }
}

impl RulesCache {
    pub(crate) fn new() -> RulesCache {
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
    /// metadata store. Faults: `NoSuchBucket` if the bucket does not exist; `InternalError` if a
    /// configuration cannot be parsed.
    pub(crate) async fn get(
        &self,
        volume: &Volume,
        name: &BucketName,
    ) -> Result<Arc<BucketRules>, Fault> {
        let seen = volume.bucket_from_hints(name.as_str()).await;
        let BucketStat { ino, bucket, .. } =
            seen.map_err(|error| translate::bucket_fault(name, error))?;
        // The settings contain the version number of the configurations, so equal settings mean
        // current rules.
        if let Some(known) = self.0.get(&ino)
            && known.settings == bucket
        {
            return Ok(known);
        }
        // A bucket that never had a configuration needs no read.
        let rules = if bucket.configs_version == 0 {
            BucketRules::without_configs(ino, bucket)
        } else {
            let found = volume.bucket_configs(name.as_str()).await;
            let found = found.map_err(|error| translate::bucket_fault(name, error))?;
            let mut rules = BucketRules::without_configs(found.ino, found.settings);
            for (kind, config) in &found.configs {
                rules.add(name, *kind, config)?;
            }
            rules
        };
        let rules = Arc::new(rules);
        // The key is the inode number that was read, because the bucket may have been replaced
        // meanwhile.
        self.0.insert(rules.ino, Arc::clone(&rules));
        Ok(rules)
    }
}

impl BucketRules {
    /// Parses a configuration of the bucket and adds it to these rules. If it cannot be parsed, it
    /// is damaged or a newer release wrote it. Then all requests to the bucket fail, because the
    /// configuration may deny what others allow.
    fn add(
        &mut self,
        name: &BucketName,
        kind: BucketConfigKind,
        config: &BucketConfig,
    ) -> Result<(), Fault> {
        let unreadable = |what: &dyn std::fmt::Display| {
            error!(bucket = %name, ?kind, %what, "cannot parse a configuration of a bucket");
            Fault::new(Code::InternalError)
                .detail("A configuration of the bucket cannot be parsed.")
        };
        self.config_bytes += config.bytes.len() as u64;
        match kind {
            BucketConfigKind::Tags | BucketConfigKind::LifecyclePass => {}
            BucketConfigKind::Trash => {
                let days = config.trash_days().map_err(|error| unreadable(&error))?;
                self.trash_days = Some(days);
            }
            BucketConfigKind::Lifecycle => {
                let lifecycle = LifecycleConfiguration::parse(&config.bytes);
                self.lifecycle = Some(lifecycle.map_err(|fault| unreadable(&fault))?);
            }
            BucketConfigKind::ObjectLock => {
                let lock = ObjectLockConfiguration::parse(&config.bytes);
                self.object_lock = Some(lock.map_err(|fault| unreadable(&fault))?);
            }
            BucketConfigKind::Policy => {
                let text =
                    std::str::from_utf8(&config.bytes).map_err(|error| unreadable(&error))?;
                // Principals may have been removed since the policy was stored. The policy then
                // matches no sender by these names.
                let kind = PolicyKind::Bucket { bucket: name.as_str(), exists: &|_| true };
                let policy = Policy::parse(text, kind).map_err(|error| unreadable(&error))?;
                self.policy = Some(policy);
            }
            BucketConfigKind::Cors => {
                let cors = CorsConfiguration::parse(&config.bytes);
                self.cors = Some(cors.map_err(|fault| unreadable(&fault))?);
            }
            BucketConfigKind::Acl => {
                self.acl = Some(config.acl().map_err(|error| unreadable(&error))?);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
