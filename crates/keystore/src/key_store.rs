//! The key store of a volume.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use async_trait::async_trait;
use keyring::{Protection, ProtectionError, RingError, RingErrorKind, RingKey, RingKeys, Rings};
use kms::{Kms, KmsErrorKind, KmsKeyName};
use record::{RingKeyRecord, RingKeyState, RingNumber, RingWrapping};
use runtime::Clock;
use store::MetaStore;
use tokio::time::Instant;

use crate::error::KeyStoreError;
use crate::ring::{Ring, RingEntry};
use crate::ring_kind::RingKind;
use crate::unwrapping::{KMS_FAILURE_AGE_MAX, Unwrapped};
use crate::wrap_key::WrapKeys;

/// The ring of one volume: its records, and the keys that this process has unwrapped.
pub struct KeyStore {
    pub(crate) meta: Arc<dyn MetaStore>,
    /// `None` in a process without a master key, such as a mount. It reads no content of the volume
    /// that is encrypted.
    pub(crate) wraps: Option<WrapKeys>,
    pub(crate) kms: Option<Arc<dyn Kms>>,
    pub(crate) volume: [u8; 16],
    pub(crate) clock: Arc<dyn Clock>,
    ring: RwLock<Arc<Ring>>,
    unwrapped: Unwrapped,
    /// Held while the records are read, so that an earlier state never replaces a later one.
    reading: tokio::sync::Mutex<()>,
}

impl KeyStore {
    /// Opens the ring of the volume with this id, in two round trips.
    ///
    /// # Errors
    /// Fails with `Store` and `Record`. If the volume has ring keys under a master key that was not
    /// given, [`KeyStore::check`] says so.
    pub async fn open(
        meta: Arc<dyn MetaStore>,
        wraps: Option<WrapKeys>,
        kms: Option<Arc<dyn Kms>>,
        volume: [u8; 16],
        clock: Arc<dyn Clock>,
    ) -> Result<KeyStore, KeyStoreError> {
        let ring = RwLock::new(Arc::new(Ring::read(&*meta).await?));
        let (unwrapped, reading) = (Unwrapped::default(), tokio::sync::Mutex::default());
        Ok(KeyStore { meta, wraps, kms, volume, clock, ring, unwrapped, reading })
    }

    /// Checks that the given master keys open the ring, as of the last read.
    ///
    /// # Errors
    /// Fails with `OtherMasterKey`, and with `Rewrapping` if a change of the master key is not
    /// complete and one of its keys is missing.
    pub fn check(&self) -> Result<(), KeyStoreError> {
        let Some(wraps) = &self.wraps else { return Ok(()) };
        let ring = self.ring();
        if let Some((rewrap, _)) = &ring.rewrap {
            let (from, to) = (rewrap.from, rewrap.to);
            if wraps.of(from).is_none() || wraps.of(to).is_none() {
                return Err(KeyStoreError::Rewrapping { from, to });
            }
        }
        for (record, _) in ring.keys.values() {
            match record.wrapping {
                RingWrapping::Master(needed) if wraps.of(needed).is_none() => {
                    let given = wraps.new.fingerprint();
                    return Err(KeyStoreError::OtherMasterKey { needed, given });
                }
                RingWrapping::Master(_) | RingWrapping::Kms(_) => {}
            }
        }
        Ok(())
    }

    /// Reads the records again. The listener of the change feed calls this when a record of the
    /// ring has changed.
    ///
    /// # Errors
    /// Fails with `Store` and `Record`. The records that are known stay in force.
    pub async fn reload(&self) -> Result<(), KeyStoreError> {
        let _alone = self.reading.lock().await;
        let ring = Arc::new(Ring::read(&*self.meta).await?);
        self.unwrapped.retain(|number| ring.keys.contains_key(&number));
        *self.ring.write().unwrap_or_else(PoisonError::into_inner) = ring;
        Ok(())
    }

    /// Returns all ring keys, in the order of their numbers, as of the last read.
    pub fn entries(&self) -> Vec<RingEntry> {
        self.ring().entries()
    }

    /// Keeps the login at the key management service valid. Returns at once if there is none, and
    /// otherwise never, so the caller drops the future at shutdown.
    pub async fn keep_login(&self) {
        if let Some(kms) = &self.kms {
            kms.keep_login().await;
        }
    }

    /// Returns true if there was a key with this number, which was removed before the last read.
    pub fn was_removed(&self, number: RingNumber) -> bool {
        let ring = self.ring();
        (1..=ring.state.highest).contains(&number.0) && !ring.keys.contains_key(&number)
    }

    /// Returns true if all new content of the volume is encrypted, as of the last read.
    pub fn encrypts_everything(&self) -> bool {
        self.ring().state.everything
    }

    /// Checks that a key can be used now.
    ///
    /// # Errors
    /// Fails with `Ring` if it cannot.
    pub async fn check_usable(&self, number: RingNumber) -> Result<(), KeyStoreError> {
        self.key(number).await.map(|_| ()).map_err(KeyStoreError::Ring)
    }

    /// Returns the current key of a kind, which is made if there is none.
    ///
    /// # Errors
    /// As [`KeyStore::rotate`].
    pub async fn current_of(&self, kind: &RingKind) -> Result<RingNumber, KeyStoreError> {
        let current = self.ring().current_of(kind);
        match current {
            Some(number) => Ok(number),
            None => self.first(kind).await,
        }
    }

    pub(crate) fn ring(&self) -> Arc<Ring> {
        Arc::clone(&self.ring.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Keeps a key that this process has made.
    pub(crate) fn keep(&self, number: RingNumber, key: RingKey, asked: Option<Instant>) {
        self.unwrapped.keep(number, key, asked);
    }

    fn record(&self, number: RingNumber) -> Option<RingKeyRecord> {
        self.ring().keys.get(&number).map(|(record, _)| record.clone())
    }

    /// Unwraps a key with a master key.
    fn unwrap(&self, number: RingNumber, record: &RingKeyRecord) -> Result<RingKey, RingError> {
        let foreign = |cause: String| RingError { number, kind: RingErrorKind::Foreign, cause };
        let RingWrapping::Master(needed) = record.wrapping else {
            return Err(foreign("it is a key of a KMS".to_owned()));
        };
        let Some(wraps) = &self.wraps else {
            return Err(foreign("this process has no master key".to_owned()));
        };
        let key = wraps.of(needed).ok_or_else(|| {
            let given = wraps.new.fingerprint();
            foreign(format!(
                "it was wrapped by the master key with the fingerprint {needed}, and the given key \
                 has {given}"
            ))
        })?;
        let plain = key.unwrap(self.volume, number, &record.wrapped);
        let plain = plain.ok_or_else(|| foreign("its record was changed".to_owned()))?;
        Ok(RingKey::new(*plain))
    }

    /// Unwraps a key with the KMS, in one call for all concurrent requests.
    async fn decrypt(
        &self,
        number: RingNumber,
        name: &str,
        wrapped: &[u8],
    ) -> Result<Arc<RingKey>, RingError> {
        let arrived = Instant::now();
        let slot = self.unwrapped.slot(number);
        let mut failure = slot.lock().await;
        // Another request may have got the key, or the failure, during the wait.
        if let Some(known) = self.unwrapped.get(number) {
            return Ok(known);
        }
        if let Some((at, error)) = &*failure
            && (*at >= arrived || at.elapsed() < KMS_FAILURE_AGE_MAX)
        {
            return Err(error.clone());
        }
        let asked = Instant::now();
        match self.ask_kms(number, name, wrapped).await {
            Ok(key) => {
                *failure = None;
                Ok(self.unwrapped.keep(number, key, Some(asked)))
            }
            Err(error) => {
                // The key has expired, so no request uses it any more.
                self.unwrapped.forget(number);
                *failure = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }

    async fn ask_kms(
        &self,
        number: RingNumber,
        name: &str,
        wrapped: &[u8],
    ) -> Result<RingKey, RingError> {
        let failed = |kind, cause: String| RingError { number, kind, cause };
        let name = name.parse::<KmsKeyName>();
        let name = name.map_err(|_| {
            failed(RingErrorKind::Foreign, "its record names no key of a KMS".to_owned())
        })?;
        let Some(kms) = &self.kms else {
            let cause = KeyStoreError::NoKms(name).to_string();
            return Err(failed(RingErrorKind::Refused, cause));
        };
        let plain = kms.decrypt(&name, wrapped).await.map_err(|error| {
            let kind = match error.kind {
                KmsErrorKind::NotFound | KmsErrorKind::Refused => RingErrorKind::Refused,
                KmsErrorKind::Unavailable => RingErrorKind::Unavailable,
                KmsErrorKind::Invalid => RingErrorKind::Foreign,
            };
            failed(kind, error.to_string())
        })?;
        Ok(RingKey::new(*plain.expose()))
    }
}

/// Prints the ring, without keys and without the metadata store.
impl fmt::Debug for KeyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("KeyStore");
        shown.field("ring", &self.ring()).field("unwrapped", &self.unwrapped);
        shown.finish_non_exhaustive()
    }
}

#[async_trait]
impl RingKeys for KeyStore {
    async fn key(&self, number: RingNumber) -> Result<Arc<RingKey>, RingError> {
        if let Some(known) = self.unwrapped.get(number) {
            return Ok(known);
        }
        let mut record = self.record(number);
        if record.is_none() {
            // Another process may have made the key since the last read.
            self.reload().await.map_err(|error| RingError {
                number,
                kind: RingErrorKind::Unavailable,
                cause: error.to_string(),
            })?;
            record = self.record(number);
        }
        let record = record.ok_or_else(|| RingError {
            number,
            kind: RingErrorKind::Unknown,
            cause: "the volume has no record of it".to_owned(),
        })?;
        match &record.wrapping {
            RingWrapping::Master(_) => {
                let key = self.unwrap(number, &record)?;
                Ok(self.unwrapped.keep(number, key, None))
            }
            RingWrapping::Kms(name) => self.decrypt(number, name, &record.wrapped).await,
        }
    }

    async fn key_to_write(&self, number: RingNumber) -> Result<Arc<RingKey>, RingError> {
        let key = self.key(number).await?;
        let is_closed =
            self.ring().keys.get(&number).is_some_and(|(it, _)| it.state == RingKeyState::Closed);
        if is_closed {
            let (kind, cause) = (RingErrorKind::Unavailable, CLOSED.to_owned());
            return Err(RingError { number, kind, cause });
        }
        Ok(key)
    }
}

/// The cause of the error for a closed key.
const CLOSED: &str = "it is closed: nothing new is encrypted under it";

#[async_trait]
impl Rings for KeyStore {
    async fn current(&self, of: &Protection) -> Result<Option<RingNumber>, ProtectionError> {
        let kind = match of {
            Protection::Volume if self.encrypts_everything() => RingKind::Volume,
            Protection::Volume => return Ok(None),
            Protection::S3 => RingKind::Volume,
            Protection::Kms(name) => {
                let name = name.parse::<KmsKeyName>().map_err(KeyStoreError::KeyName);
                RingKind::Kms(name.map_err(|error| error.of_protection())?)
            }
        };
        let current = async {
            let number = self.current_of(&kind).await?;
            // A request fails before its body arrives if the key is refused.
            self.check_usable(number).await?;
            Ok(Some(number))
        };
        current.await.map_err(|error: KeyStoreError| error.of_protection())
    }
}
