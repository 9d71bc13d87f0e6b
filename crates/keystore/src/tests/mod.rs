//! A ring over a store and a KMS that fail on purpose.

mod kms_keys;
mod making;
mod master_keys;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use faulty::Faulty;
use keyring::{Protection, Rings};
use kms::{DataKey, Kms, KmsError, KmsErrorKind, KmsKeyName, PlainKey, StaticKms};
use record::{KeyFingerprint, Timestamp};
use runtime::SetClock;
use store::MetaStore;

use crate::{KeyStore, KeyStoreError, RingKind, WrapKey, WrapKeys};

pub(crate) const VOLUME: [u8; 16] = [0x77; 16];

pub(crate) fn name(text: &str) -> KmsKeyName {
    text.parse().unwrap()
}

/// Returns the wrap key of a master key, which one byte names.
pub(crate) fn wrap_key(master: u8) -> WrapKey {
    WrapKey::new([master; 32], KeyFingerprint([master; 8]))
}

pub(crate) fn under(master: u8) -> WrapKeys {
    WrapKeys { new: wrap_key(master), old: None }
}

/// A KMS that counts its calls, answers after a delay, and fails on demand.
#[derive(Debug)]
pub(crate) struct Scripted {
    inner: StaticKms,
    pub(crate) fails: Mutex<Option<KmsErrorKind>>,
    pub(crate) takes: Mutex<Duration>,
    pub(crate) decrypted: AtomicU64,
    pub(crate) generated: AtomicU64,
}

impl Scripted {
    pub(crate) fn new() -> Arc<Scripted> {
        let keys =
            [(name("photos"), PlainKey::new([3; 32])), (name("other"), PlainKey::new([4; 32]))];
        Arc::new(Scripted {
            inner: StaticKms::new(keys).unwrap(),
            fails: Mutex::default(),
            takes: Mutex::default(),
            decrypted: AtomicU64::default(),
            generated: AtomicU64::default(),
        })
    }

    pub(crate) fn fail(&self, kind: Option<KmsErrorKind>) {
        *self.fails.lock().unwrap() = kind;
    }

    async fn act(&self, name: &KmsKeyName) -> Result<(), KmsError> {
        let takes = *self.takes.lock().unwrap();
        tokio::time::sleep(takes).await;
        match *self.fails.lock().unwrap() {
            Some(kind) => {
                Err(KmsError { name: name.clone(), kind, cause: "on purpose".to_owned() })
            }
            None => Ok(()),
        }
    }
}

#[async_trait]
impl Kms for Scripted {
    async fn generate(&self, name: &KmsKeyName) -> Result<DataKey, KmsError> {
        self.generated.fetch_add(1, Ordering::SeqCst);
        self.act(name).await?;
        self.inner.generate(name).await
    }

    async fn decrypt(&self, name: &KmsKeyName, wrapped: &[u8]) -> Result<PlainKey, KmsError> {
        self.decrypted.fetch_add(1, Ordering::SeqCst);
        self.act(name).await?;
        self.inner.decrypt(name, wrapped).await
    }

    async fn describe(&self, name: &KmsKeyName) -> Result<(), KmsError> {
        self.inner.describe(name).await
    }

    async fn keep_login(&self) {
        self.inner.keep_login().await;
    }
}

pub(crate) struct World {
    pub(crate) store: Arc<Faulty>,
    pub(crate) kms: Arc<Scripted>,
}

impl World {
    pub(crate) fn new() -> World {
        World { store: Faulty::new(), kms: Scripted::new() }
    }

    /// Opens the ring as another process would.
    pub(crate) async fn open(&self, wraps: WrapKeys) -> KeyStore {
        self.try_open(Some(wraps)).await.unwrap()
    }

    pub(crate) async fn try_open(
        &self,
        wraps: Option<WrapKeys>,
    ) -> Result<KeyStore, KeyStoreError> {
        let meta: Arc<dyn MetaStore> = self.store.clone();
        let clock = Arc::new(SetClock::new(Timestamp(1)));
        let kms: Arc<dyn Kms> = self.kms.clone();
        KeyStore::open(meta, wraps, Some(kms), VOLUME, clock).await
    }
}

/// Returns a value that differs between ring keys, without the key.
pub(crate) async fn proof(ring: &KeyStore, number: record::RingNumber) -> [u8; 32] {
    use keyring::RingKeys as _;
    ring.key(number).await.unwrap().mac("test", &[b"proof"])
}

pub(crate) fn of_kms(text: &str) -> (Protection, RingKind) {
    (Protection::Kms(text.to_owned()), RingKind::Kms(name(text)))
}
