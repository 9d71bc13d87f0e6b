//! The rules of buckets: their settings and configurations, parsed, in a cache.
//!
//! [`BucketRules`] has the policy, the lifecycle rules and the other configurations of one bucket,
//! as the record of the bucket and its documents say. [`RulesCache`] reads the rules of a bucket at
//! the first request and keeps them until they change.
//!
//! The S3 view decides with them about permissions, and lifecycle passes follow them. So this crate
//! knows neither requests nor answers of HTTP. For example, a bucket policy that cannot be parsed
//! is [`RulesError::Unreadable`] here, and the gateway makes an S3 error of it.

#![cfg_attr(not(test), deny(clippy::wildcard_enum_match_arm))]

mod bucket;
mod cache;
mod translate;

pub use bucket::{BucketRules, CONFIG_BYTES_MAX, RulesError};
pub use cache::RulesCache;
pub use translate::{acl_permission, time, version, version_text};
