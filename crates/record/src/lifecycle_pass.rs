//! The progress of a lifecycle pass over the keys of a bucket.
//!
//! There is one pass each day, and one more when the configurations of the bucket change. Any
//! gateway that has time processes the next keys and stores the progress. For example,
//! `KeysAfter("logs/7")` on day 20,000 means that all keys up to `logs/7` are processed for that
//! day.

use crate::bucket::BucketConfig;
use crate::codec::{DecodeError, Reader, Writer};

/// The progress of one pass that applies the lifecycle rules of a bucket to all of its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LifecyclePass {
    /// The version of the bucket's configurations that the pass applies: see
    /// `Bucket::configs_version`. If they change, a new pass begins.
    pub configs_version: u64,
    /// The day of the pass, in days since 1970.
    pub day: i64,
    /// The keys that the pass has processed.
    pub position: PassPosition,
}

/// The keys that a `LifecyclePass` has processed, in the order of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PassPosition {
    /// All object keys up to this one are processed; the pass continues with the next. `None` if no
    /// key is processed.
    KeysAfter(Option<Vec<u8>>),
    /// All keys of the bucket are processed.
    Finished,
}

const ALL: u8 = 0;
const AFTER_KEY: u8 = 1;
const FINISHED: u8 = 2;

impl LifecyclePass {
    /// The pass in the form of a configuration of the bucket, in which it is stored.
    pub fn to_config(&self) -> BucketConfig {
        let bytes = Writer::field(|to| {
            to.varint(self.configs_version).signed(self.day);
            match &self.position {
                PassPosition::KeysAfter(None) => to.u8(ALL),
                PassPosition::KeysAfter(Some(key)) => to.u8(AFTER_KEY).bytes(key),
                PassPosition::Finished => to.u8(FINISHED),
            };
        });
        BucketConfig { bytes: bytes.into() }
    }

    /// Decodes a pass from a configuration of the bucket.
    ///
    /// # Errors
    /// If the bytes are not a pass.
    pub fn of_config(config: &BucketConfig) -> Result<LifecyclePass, DecodeError> {
        let mut from = Reader::field(&config.bytes);
        let (configs_version, day) = (from.varint("configurations")?, from.signed("day")?);
        let position = match from.u8("left")? {
            ALL => PassPosition::KeysAfter(None),
            AFTER_KEY => PassPosition::KeysAfter(Some(from.bytes("key")?.to_vec())),
            FINISHED => PassPosition::Finished,
            _ => return Err(DecodeError::Field("left")),
        };
        Ok(LifecyclePass { configs_version, day, position })
    }
}
