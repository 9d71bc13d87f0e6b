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
    pub position: PassPosition,
}

/// What is left of a [`LifecyclePass`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PassPosition {
    /// The keys behind this one, or all of them.
    KeysAfter(Option<Vec<u8>>),
    /// Nothing.
    Finished,
}

const ALL: u8 = 0;
const BEHIND: u8 = 1;
const NOTHING: u8 = 2;

impl LifecyclePass {
    /// As it is kept.
    pub fn to_config(&self) -> BucketConfig {
        let bytes = Writer::loose(|to| {
            to.varint(self.configs_version).signed(self.day);
            match &self.position {
                PassPosition::KeysAfter(None) => to.u8(ALL),
                PassPosition::KeysAfter(Some(key)) => to.u8(BEHIND).bytes(key),
                PassPosition::Finished => to.u8(NOTHING),
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
        let position = match from.u8("left")? {
            ALL => PassPosition::KeysAfter(None),
            BEHIND => PassPosition::KeysAfter(Some(from.bytes("key")?.to_vec())),
            NOTHING => PassPosition::Finished,
            _ => return Err(DecodeError::Field("left")),
        };
        Ok(LifecyclePass { configs_version, day, position })
    }
}
