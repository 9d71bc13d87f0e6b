//! The rules of one bucket, parsed from its record and its configurations.
//!
//! For example, [`BucketRules::of`] parses the XML document of lifecycle rules and the JSON
//! document of the bucket policy.

use std::sync::Arc;

use policy::{Policy, PolicyKind};
use record::{
    Bucket, BucketConfig, BucketConfigKind, Ino, ObjectOwnership, PublicAccessBlock, S3Acl,
};
use s3::BucketName;
use s3::bucket_logging::LoggingEnabled;
use s3::cors::CorsConfiguration;
use s3::encryption::BucketEncryption;
use s3::lifecycle::LifecycleConfiguration;
use s3::object_lock::ObjectLockConfiguration;
use tracing::error;
use volume::{BucketConfigs, VolumeError};

/// The limit of one configuration of a bucket, in bytes. Together with the other fields of its
/// record, it fits into one value of a store.
pub const CONFIG_BYTES_MAX: usize = (1 << 20) - 1_024;

/// The rules of a bucket cannot be determined.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// The volume could not read the record of the bucket, or the bucket does not exist.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// A configuration of this kind cannot be parsed: it is damaged, or a newer release wrote it.
    #[error("the configuration {0:?} of the bucket cannot be parsed")]
    Unreadable(BucketConfigKind),
}

/// The rules of one bucket: the settings in its record, and its parsed configurations, such as its
/// policy.
#[derive(Debug)]
pub struct BucketRules {
    /// The inode number of the bucket's directory.
    pub ino: Ino,
    /// The settings in the bucket's record.
    pub settings: Bucket,
    /// The number of the account that owns the bucket: 12 digits.
    pub account: String,
    /// The bucket policy.
    pub policy: Option<Policy>,
    /// The object lock configuration with the default retention; `None` if object lock is off.
    pub object_lock: Option<ObjectLockConfiguration>,
    /// The lifecycle rules.
    pub lifecycle: Option<LifecycleConfiguration>,
    /// The number of days that deleted and replaced objects stay in the trash; `None` without a
    /// trash.
    pub trash_days: Option<u32>,
    /// The CORS rules.
    pub cors: Option<CorsConfiguration>,
    /// The destination of the bucket's access log; `None` if it is not delivered.
    pub logging: Option<Arc<LoggingEnabled>>,
    /// The size in bytes of all configurations as they are stored.
    pub(crate) config_bytes: u64,
    /// The bucket's own ACL. Without one, the owner alone has full control.
    pub acl: Option<S3Acl>,
    /// True if the bucket refuses new objects with keys of clients (SSE-C).
    pub blocks_customer_keys: bool,
}

impl BucketRules {
    /// Parses the configurations of a bucket and returns its rules. `name` is for the log. Fails
    /// with [`RulesError::Unreadable`] if a configuration cannot be parsed.
    pub fn of(name: &BucketName, found: BucketConfigs) -> Result<BucketRules, RulesError> {
        let mut rules = BucketRules::of_settings(found.ino, found.settings);
        for (kind, config) in &found.configs {
            rules.add(name, *kind, config)?;
        }
        Ok(rules)
    }

    /// Returns the rules of a bucket that has settings only, and no configurations.
    pub fn of_settings(ino: Ino, settings: Bucket) -> BucketRules {
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
            logging: None,
            config_bytes: 0,
            acl: None,
            blocks_customer_keys: false,
        }
    }

    /// Returns true if ACLs are enabled in the bucket.
    pub fn acls_enabled(&self) -> bool {
        self.settings.ownership != Some(ObjectOwnership::BucketOwnerEnforced)
    }

    /// Returns the public access block.
    pub fn public_access(&self) -> PublicAccessBlock {
        self.settings.public_access.unwrap_or_default()
    }

    /// Returns true if the bucket admits only its owner's account: it has no bucket policy, and its
    /// ACLs are disabled.
    pub fn is_private(&self) -> bool {
        self.policy.is_none() && !self.acls_enabled()
    }

    /// Parses a configuration of the bucket and adds it to these rules. If it cannot be parsed, it
    /// is damaged or a newer release wrote it. Then all requests to the bucket fail, because the
    /// configuration may deny what others allow.
    fn add(
        &mut self,
        name: &BucketName,
        kind: BucketConfigKind,
        config: &BucketConfig,
    ) -> Result<(), RulesError> {
        let unreadable = |what: &dyn std::fmt::Display| {
            error!(bucket = %name, ?kind, %what, "cannot parse a configuration of a bucket");
            RulesError::Unreadable(kind)
        };
        self.config_bytes += config.bytes.len() as u64;
        match kind {
            BucketConfigKind::Tags | BucketConfigKind::LifecyclePass => {}
            BucketConfigKind::Encryption => {
                let encryption = BucketEncryption::parse(&config.bytes);
                let encryption = encryption.map_err(|fault| unreadable(&fault))?;
                // The settings of the bucket have the mode of new objects.
                self.blocks_customer_keys = encryption.blocks_customer_keys == Some(true);
            }
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
            BucketConfigKind::Logging => {
                let logging = LoggingEnabled::parse(&config.bytes);
                self.logging = logging.map_err(|fault| unreadable(&fault))?.map(Arc::new);
            }
            BucketConfigKind::Acl => {
                self.acl = Some(config.acl().map_err(|error| unreadable(&error))?);
            }
        }
        Ok(())
    }
}
