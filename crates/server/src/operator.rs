//! Access to the administration of a volume, with the clock and the randomness of this process.

use std::sync::Arc;

use admin::{Admin, Random, SecretSealer, Surroundings};
use identity::{MasterKey, Secret};
use record::Timestamp;
use runtime::Clock as _;
use store::MetaStore;
use volume::{SystemClock, Volume};

use crate::instance;

/// Returns the administration of the volume in a metadata store.
pub(crate) fn over(store: Arc<dyn MetaStore>) -> Admin {
    let (clock, random) = (Arc::new(SystemClock::new()), Arc::new(SystemRandom));
    Admin::over(store, Surroundings { place: instance::place(), clock, random })
}

/// Returns the administration of a volume that this process has open.
pub(crate) fn within(volume: Arc<Volume>, store: Arc<dyn MetaStore>) -> Admin {
    let (clock, random) = (Arc::new(SystemClock::new()), Arc::new(SystemRandom));
    Admin::within(volume, store, Surroundings { place: instance::place(), clock, random })
}

/// Returns the current time.
pub(crate) fn now() -> Timestamp {
    SystemClock::new().now()
}

/// Random bytes of the operating system.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SystemRandom;

impl Random for SystemRandom {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), String> {
        getrandom::fill(bytes).map_err(|error| error.to_string())
    }
}

/// Encrypts secrets with the master key of the volume's gateways.
#[derive(Debug)]
pub(crate) struct UnderMasterKey(pub(crate) MasterKey);

impl SecretSealer for UnderMasterKey {
    fn seal(&self, access_key: &str, secret: &str, nonce: [u8; admin::NONCE_BYTES]) -> Vec<u8> {
        self.0.seal(access_key, &Secret::new(secret), nonce)
    }

    fn is_sealed(&self, access_key: &str, secret: &str, sealed: &[u8]) -> bool {
        self.0.is_sealed(access_key, secret, sealed)
    }
}
