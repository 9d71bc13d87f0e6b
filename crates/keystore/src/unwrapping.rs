//! Keys in the clear, in the memory of this process.
//!
//! A key that the master key wraps stays. A key of the KMS is unwrapped again after
//! [`KMS_KEY_AGE_MAX`], so that an operator who disables it in the KMS ends its use. Concurrent
//! requests for one key make one call; those that waited share its failure. For example, if the KMS
//! hangs for 5 seconds, 100 requests fail after 5 seconds, and not one after the other.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use keyring::{RingError, RingKey};
use record::RingNumber;
use tokio::time::Instant;

/// The longest time that a key of the KMS is used after its last unwrapping.
pub const KMS_KEY_AGE_MAX: Duration = Duration::from_mins(5);

/// The longest time that a failure of the KMS is the answer to later requests, so that requests do
/// not flood a KMS that refuses.
pub const KMS_FAILURE_AGE_MAX: Duration = Duration::from_secs(1);

/// A slot of one key of the KMS: its lock is held during a call, and it keeps the last failure.
pub(crate) type Slot = Arc<tokio::sync::Mutex<Option<(Instant, RingError)>>>;

/// The keys in the clear.
#[derive(Default)]
pub(crate) struct Unwrapped {
    keys: Mutex<HashMap<RingNumber, Known>>,
    slots: Mutex<HashMap<RingNumber, Slot>>,
}

struct Known {
    key: Arc<RingKey>,
    /// The last moment at which the key may be used; `None` for ever.
    until: Option<Instant>,
}

impl Unwrapped {
    /// Returns a key that is known and may be used.
    pub(crate) fn get(&self, number: RingNumber) -> Option<Arc<RingKey>> {
        let keys = self.keys();
        let known = keys.get(&number)?;
        let is_usable = known.until.is_none_or(|until| Instant::now() < until);
        is_usable.then(|| Arc::clone(&known.key))
    }

    /// Keeps a key. A key of the KMS is used for [`KMS_KEY_AGE_MAX`] from `asked`, the moment
    /// before the KMS was asked; a key without this moment is used for ever.
    pub(crate) fn keep(
        &self,
        number: RingNumber,
        key: RingKey,
        asked: Option<Instant>,
    ) -> Arc<RingKey> {
        let key = Arc::new(key);
        let until = asked.map(|asked| asked + KMS_KEY_AGE_MAX);
        self.keys().insert(number, Known { key: Arc::clone(&key), until });
        key
    }

    /// Forgets a key.
    pub(crate) fn forget(&self, number: RingNumber) {
        self.keys().remove(&number);
    }

    /// Forgets all keys but those with a number in `kept`.
    pub(crate) fn retain(&self, kept: impl Fn(RingNumber) -> bool) {
        self.keys().retain(|number, _| kept(*number));
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.retain(|number, _| kept(*number));
    }

    /// Returns the slot of a key.
    pub(crate) fn slot(&self, number: RingNumber) -> Slot {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(slots.entry(number).or_default())
    }

    fn keys(&self) -> MutexGuard<'_, HashMap<RingNumber, Known>> {
        // A panic under the lock leaves no incomplete entry.
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Prints the numbers only.
impl fmt::Debug for Unwrapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.keys().keys()).finish()
    }
}
