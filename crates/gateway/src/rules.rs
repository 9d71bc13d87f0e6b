//! What a bucket says about who may do what to it.
//!
//! The rules of a bucket are read when a request needs them for the first time, and remembered
//! together with the version that the bucket's record gives its configurations. Every request looks
//! at that record as this process last saw it, which costs no round trip, so whoever changes a
//! policy here sees it in force at once. Another gateway follows as soon as it hears of the change.

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

/// Buckets whose rules are about as many as are remembered.
const BUCKETS_EXPECTED: usize = 4_096;

/// Bytes that the rules of all buckets may take up in memory, about.
const RULES_BYTES_MAX: u64 = 64 << 20;

/// Bytes of memory for each byte of a configuration: what is parsed from it is larger.
const PARSED_BYTES: u64 = 32;

/// Bytes of memory for a bucket without configurations.
const PLAIN_BYTES: u64 = 512;

/// What a bucket says about who may do what to it.
#[derive(Debug)]
pub(crate) struct BucketRules {
    /// The bucket's directory.
    pub(crate) ino: Ino,
    /// Its settings.
    pub(crate) settings: Bucket,
    /// The number of the account that it belongs to: 12 digits.
    pub(crate) account: String,
    /// Its policy.
    pub(crate) policy: Option<Policy>,
    /// That its objects may be locked, and how new ones are.
    pub(crate) object_lock: Option<ObjectLockConfiguration>,
    /// What becomes of its objects in time.
    pub(crate) lifecycle: Option<LifecycleConfiguration>,
    /// Days that what its keys lose stays in its trash, if it has one.
    pub(crate) trash_days: Option<u32>,
    /// Which pages of other origins may read it in browsers.
    pub(crate) cors: Option<CorsConfiguration>,
    /// Bytes of its configurations.
    config_bytes: u64,
    /// Its own access control list. If it has none, its owner has full control, and nobody else.
    pub(crate) acl: Option<S3Acl>,
}

impl BucketRules {
    fn plain(ino: Ino, settings: Bucket) -> BucketRules {
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

    /// Whether access control lists count.
    pub(crate) fn acls_count(&self) -> bool {
        self.settings.ownership != Some(ObjectOwnership::BucketOwnerEnforced)
    }

    /// What keeps the bucket from being public.
    pub(crate) fn public_access(&self) -> PublicAccessBlock {
        self.settings.public_access.unwrap_or_default()
    }

    /// Whether nobody but its owner's account can do anything in it.
    pub(crate) fn is_private(&self) -> bool {
        self.policy.is_none() && !self.acls_count()
    }
}

/// The rules of buckets, as far as they were asked for.
#[derive(Debug)]
pub(crate) struct RulesCache(Cache<Ino, Arc<BucketRules>, Bytes>);

/// Weighs rules by the memory that they take up.
#[derive(Clone, Debug)]
struct Bytes;

impl Weighter<Ino, Arc<BucketRules>> for Bytes {
    fn weight(&self, _ino: &Ino, rules: &Arc<BucketRules>) -> u64 {
        PLAIN_BYTES + PARSED_BYTES * rules.config_bytes
    }
}

impl RulesCache {
    pub(crate) fn new() -> RulesCache {
        // The capacity of a shard bounds what one bucket may weigh. With one shard a bucket with the
        // longest configurations fits, so they are not parsed again for each request.
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

    /// The rules of a bucket. Fault: `NoSuchBucket`.
    pub(crate) async fn of(
        &self,
        volume: &Volume,
        name: &BucketName,
    ) -> Result<Arc<BucketRules>, Fault> {
        let seen = volume.bucket_from_hints(name.as_str()).await;
        let BucketStat { ino, bucket, .. } = seen.map_err(|error| translate::on(name, error))?;
        if let Some(known) = self.0.get(&ino)
            && known.settings == bucket
        {
            return Ok(known);
        }
        let rules = if bucket.configs_version == 0 {
            BucketRules::plain(ino, bucket)
        } else {
            let found = volume.bucket_configs(name.as_str()).await;
            let found = found.map_err(|error| translate::on(name, error))?;
            let mut rules = BucketRules::plain(found.ino, found.settings);
            for (kind, config) in &found.configs {
                rules.learn(name, *kind, config)?;
            }
            rules
        };
        let rules = Arc::new(rules);
        self.0.insert(rules.ino, Arc::clone(&rules));
        Ok(rules)
    }
}

impl BucketRules {
    /// Takes a configuration in. One that does not parse was written by a newer release or is
    /// damaged. Nothing is decided without it: it may deny what others allow.
    fn learn(
        &mut self,
        name: &BucketName,
        kind: BucketConfigKind,
        config: &BucketConfig,
    ) -> Result<(), Fault> {
        let unreadable = |what: &dyn std::fmt::Display| {
            error!(bucket = %name, ?kind, %what, "a configuration cannot be read");
            Fault::new(Code::InternalError).detail("A configuration of the bucket cannot be read.")
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
                // Those whom it names may have been removed since: it speaks of nobody then.
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
