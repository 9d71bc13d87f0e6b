//! The default encryption of buckets (SSE-S3). A new object or file gets the mode of its bucket,
//! and keeps it when the default changes.
//!
//! The seed alone chooses the runs and the buckets. The dice are not used, so a seed without
//! encryption leads to the same operations as before. For example, the runs with planted faults
//! have seed 1, and their buckets have no default.

use std::sync::Arc;

use keyring::{FixedRing, KEY_BYTES, RingNumber};
use record::{BucketConfig, Encryption};

use super::World;
use super::model::BUCKETS;

/// The number of operations between two changes of a default.
const CHANGED_AFTER: u64 = 30;

/// The configuration of a bucket with a default.
const DOCUMENT: &str = "<ServerSideEncryptionConfiguration><Rule>\
    <ApplyServerSideEncryptionByDefault><SSEAlgorithm>AES256</SSEAlgorithm>\
    </ApplyServerSideEncryptionByDefault></Rule></ServerSideEncryptionConfiguration>";

/// Returns the ring key of the volume.
pub(crate) fn keys() -> Arc<FixedRing> {
    Arc::new(FixedRing::new([(RingNumber(1), [1; KEY_BYTES])]))
}

/// Returns true if buckets of a run with this seed have a default.
pub(crate) fn is_wanted(seed: u64) -> bool {
    seed.is_multiple_of(2)
}

impl World {
    /// Gives some buckets a default before the first operation, if the run has encryption.
    pub(crate) async fn begin_encryption(&mut self, seed: u64) {
        for bucket in (0..BUCKETS.len()).filter(|bucket| (seed >> (bucket + 1)) & 1 == 1) {
            if self.encrypts {
                self.change_encryption(bucket).await;
            }
        }
    }

    /// Sets or removes the default of a bucket, one bucket after the other.
    pub(crate) async fn maybe_change_encryption(&mut self) {
        if self.encrypts && self.step.is_multiple_of(CHANGED_AFTER) {
            let change = usize::try_from(self.step / CHANGED_AFTER).expect("few steps");
            self.change_encryption(change % BUCKETS.len()).await;
        }
    }

    /// Sets the default of a bucket that has none, or removes it.
    async fn change_encryption(&mut self, bucket: usize) {
        let encrypts = !self.model.buckets[bucket].encrypts;
        self.record(format!("{}: default encryption {encrypts}", BUCKETS[bucket]));
        let config = BucketConfig { bytes: DOCUMENT.as_bytes().into() };
        let default = encrypts.then_some((&config, Some(&Encryption::S3)));
        let set = self.gateway.set_default_encryption(BUCKETS[bucket], default).await;
        set.expect("a setting");
        self.model.buckets[bucket].encrypts = encrypts;
        self.counts.default_changes += 1;
    }

    /// Returns the mode of a new object in a bucket.
    pub(crate) fn default_encryption(&self, bucket: usize) -> Option<Encryption> {
        self.model.buckets[bucket].encrypts.then_some(Encryption::S3)
    }
}
