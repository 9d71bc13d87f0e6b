//! How far gateways have come in following the lifecycle of a bucket.

use crate::bucket::BucketConfig;
use crate::codec::{DecodeError, Reader, Writer};

/// One pass over the keys of a bucket. Each day, and whenever the bucket's configurations have
/// changed, there is one; whichever gateway has time does the next part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LifecyclePass {
    /// The version of the configurations that it follows: see [`crate::Bucket::configs_version`].
    pub configs_version: u64,
    /// The day that it is the pass of, counted from 1970.
    pub day: i64,
    /// What is left of it.
    pub left: PassLeft,
}

/// What is left of a [`LifecyclePass`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PassLeft {
    /// The keys behind this one, or all of them.
    Keys(Option<Vec<u8>>),
    /// Nothing.
    Nothing,
}

const ALL: u8 = 0;
const BEHIND: u8 = 1;
const NOTHING: u8 = 2;

impl LifecyclePass {
    /// As it is kept.
    pub fn to_config(&self) -> BucketConfig {
        let bytes = Writer::loose(|to| {
            to.varint(self.configs_version).signed(self.day);
            match &self.left {
                PassLeft::Keys(None) => to.u8(ALL),
                PassLeft::Keys(Some(key)) => to.u8(BEHIND).bytes(key),
                PassLeft::Nothing => to.u8(NOTHING),
            };
        });
        BucketConfig { bytes: bytes.into() }
    }

    /// The pass that was kept so.
    ///
    /// # Errors
    /// If it is none.
    pub fn of_config(config: &BucketConfig) -> Result<LifecyclePass, DecodeError> {
        let mut from = Reader::loose(&config.bytes);
        let (configs_version, day) = (from.varint("configurations")?, from.signed("day")?);
        let left = match from.u8("left")? {
            ALL => PassLeft::Keys(None),
            BEHIND => PassLeft::Keys(Some(from.bytes("key")?.to_vec())),
            NOTHING => PassLeft::Nothing,
            _ => return Err(DecodeError::Field("left")),
        };
        Ok(LifecyclePass { configs_version, day, left })
    }
}
