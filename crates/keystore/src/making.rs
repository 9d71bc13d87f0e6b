//! Changes of the ring: new keys, the switch of the volume, and keys that are retired.
//!
//! Each change is a plan with a guard on the state's record, whose highest number only grows. So of
//! two processes that make a key at the same time, one is refused and reads again. If the outcome
//! of a commit is unknown, the process reads again, too: its key is there, or the next plan with
//! the same guard decides between both.

use keyring::{KEY_BYTES, RingKey};
use record::{RingKeyRecord, RingKeyState, RingNumber, RingState, RingWrapping, key};
use store::{Guard, Plan, StoreError, StoreErrorKind, Value, Verdict, Write};
use tokio::time::Instant;
use zeroize::Zeroizing;

use crate::error::KeyStoreError;
use crate::key_store::KeyStore;
use crate::ring::Ring;
use crate::ring_kind::RingKind;

/// The limit of attempts of one change while others change the ring, too.
const ATTEMPTS_MAX: u32 = 16;

/// A key that this process draws.
struct Drawn {
    plain: Zeroizing<[u8; KEY_BYTES]>,
    /// The form that the KMS wrapped; `None` for a key of the volume, which is wrapped for each
    /// number anew.
    wrapped: Option<Vec<u8>>,
    asked: Option<Instant>,
}

impl KeyStore {
    /// Makes a new key of a kind, and encrypts new content of the kind under it. Returns its
    /// number.
    ///
    /// # Errors
    /// Fails with `Kms` and `NoKms` for a kind of the KMS, with `Rewrapping` during a change of the
    /// master key of which the new key is missing, with `Store`, `Record`, `Randomness`,
    /// `Contended` and `Full`.
    pub async fn rotate(&self, kind: &RingKind) -> Result<RingNumber, KeyStoreError> {
        self.make(kind, false).await
    }

    /// Returns the current key of a kind, which is made if there is none.
    pub(crate) async fn first(&self, kind: &RingKind) -> Result<RingNumber, KeyStoreError> {
        self.make(kind, true).await
    }

    async fn make(&self, kind: &RingKind, only_first: bool) -> Result<RingNumber, KeyStoreError> {
        let mut drawn = None;
        let mut sent: Vec<(RingNumber, Vec<u8>)> = Vec::new();
        for _ in 0..ATTEMPTS_MAX {
            self.reload().await?;
            self.check()?;
            let ring = self.ring();
            // An earlier attempt of unknown outcome was committed after all.
            let made = |(number, wrapped): &&(RingNumber, Vec<u8>)| {
                ring.keys.get(number).is_some_and(|(record, _)| record.wrapped == *wrapped)
            };
            if let Some((number, _)) = sent.iter().find(made) {
                return Ok(*number);
            }
            if let Some(current) = ring.current_of(kind).filter(|_| only_first) {
                return Ok(current);
            }
            if drawn.is_none() {
                drawn = Some(self.draw(kind).await?);
            }
            let Some(key) = &drawn else { return Err(KeyStoreError::Randomness) };
            let number = ring.state.highest.checked_add(1).ok_or(KeyStoreError::Full)?;
            let number = RingNumber(number);
            let (plan, wrapped) = self.plan(&ring, kind, number, key)?;
            sent.push((number, wrapped));
            if self.committed(plan).await? {
                self.reload().await?;
                self.keep(number, RingKey::new(*key.plain), key.asked);
                return Ok(number);
            }
        }
        Err(KeyStoreError::Contended)
    }

    /// Draws a key, with the KMS if it is of that kind.
    async fn draw(&self, kind: &RingKind) -> Result<Drawn, KeyStoreError> {
        match kind {
            RingKind::Volume => {
                let mut plain = Zeroizing::new([0; KEY_BYTES]);
                aws_lc_rs::rand::fill(&mut plain[..]).map_err(|_| KeyStoreError::Randomness)?;
                Ok(Drawn { plain, wrapped: None, asked: None })
            }
            RingKind::Kms(name) => {
                let kms = self.kms.as_ref().ok_or_else(|| KeyStoreError::NoKms(name.clone()))?;
                let asked = Some(Instant::now());
                let made = kms.generate(name).await?;
                let plain = Zeroizing::new(*made.plain.expose());
                Ok(Drawn { plain, wrapped: Some(made.wrapped), asked })
            }
        }
    }

    /// Returns the plan that makes a key, and the wrapped key in it.
    fn plan(
        &self,
        ring: &Ring,
        kind: &RingKind,
        number: RingNumber,
        drawn: &Drawn,
    ) -> Result<(Plan, Vec<u8>), KeyStoreError> {
        let (wrapping, wrapped) = match (kind, &drawn.wrapped) {
            (RingKind::Kms(name), Some(wrapped)) => {
                (RingWrapping::Kms(name.to_string()), wrapped.clone())
            }
            (RingKind::Volume | RingKind::Kms(_), _) => {
                let new = self.wraps.as_ref().map(|wraps| &wraps.new);
                let new = new.ok_or(KeyStoreError::NoMasterKey)?;
                let wrapped = new.wrap(self.volume, number, &drawn.plain)?;
                (RingWrapping::Master(new.fingerprint()), wrapped)
            }
        };
        let state = RingState {
            highest: number.0,
            volume_key: match kind {
                RingKind::Volume => Some(number),
                RingKind::Kms(_) => ring.state.volume_key,
            },
            ..ring.state
        };
        let record = RingKeyRecord {
            made: self.clock.now(),
            wrapping,
            wrapped: wrapped.clone(),
            state: RingKeyState::Usable,
        };
        let (at, of) = (key::ring_state(), key::ring_key(number));
        let guards = vec![ring.unchanged(), Guard::Absent(of.clone())];
        let writes = vec![
            Write::Put(at.clone(), state.encode(&at)),
            Write::Put(of.clone(), record.encode(&of)),
        ];
        Ok((Plan { guards, writes }, wrapped))
    }

    /// Switches the encryption of all new content of the volume on or off. The first key is made if
    /// it is switched on and there is none.
    ///
    /// # Errors
    /// As [`KeyStore::rotate`].
    pub async fn set_everything(&self, everything: bool) -> Result<(), KeyStoreError> {
        if everything {
            self.first(&RingKind::Volume).await?;
        }
        for _ in 0..ATTEMPTS_MAX {
            self.reload().await?;
            let ring = self.ring();
            if ring.state.everything == everything {
                return Ok(());
            }
            let (at, state) = (key::ring_state(), RingState { everything, ..ring.state });
            let writes = vec![Write::Put(at.clone(), state.encode(&at))];
            // If the outcome is unknown, the next attempt reads it.
            self.committed(Plan { guards: vec![ring.unchanged()], writes }).await?;
        }
        Err(KeyStoreError::Contended)
    }

    /// Retires a key: no new content is encrypted under it. Succeeds if it is retired or closed.
    ///
    /// # Errors
    /// Fails with `NoSuchKey`, with `Current` for a key that is the current one of its kind, with
    /// `Store`, `Record` and `Contended`.
    pub async fn retire(&self, number: RingNumber) -> Result<(), KeyStoreError> {
        for _ in 0..ATTEMPTS_MAX {
            self.reload().await?;
            let ring = self.ring();
            let (record, bytes) = ring.known(number)?;
            if record.state != RingKeyState::Usable {
                return Ok(());
            }
            if ring.is_current(number, record) {
                return Err(KeyStoreError::Current(number));
            }
            // A key that is not current never becomes current again, because keys above it are
            // removed only after they were not current either. So the state needs no guard.
            self.set_state(number, record, bytes, RingKeyState::Retired).await?;
        }
        Err(KeyStoreError::Contended)
    }

    /// Closes a key that was retired: nothing is written under it any more. Another process may do
    /// so until it has read the record, or until its session was fenced.
    ///
    /// # Errors
    /// Fails with `NoSuchKey`, with `Current` if the key is not retired, with `Store`, `Record` and
    /// `Contended`.
    pub async fn close(&self, number: RingNumber) -> Result<(), KeyStoreError> {
        for _ in 0..ATTEMPTS_MAX {
            self.reload().await?;
            let ring = self.ring();
            let (record, bytes) = ring.known(number)?;
            match record.state {
                RingKeyState::Usable => return Err(KeyStoreError::Current(number)),
                RingKeyState::Retired => {
                    self.set_state(number, record, bytes, RingKeyState::Closed).await?;
                }
                RingKeyState::Closed => return Ok(()),
            }
        }
        Err(KeyStoreError::Contended)
    }

    /// Changes the state of a key. A refused plan, or one of unknown outcome, is looked at again by
    /// the caller.
    async fn set_state(
        &self,
        number: RingNumber,
        record: &RingKeyRecord,
        bytes: &Value,
        state: RingKeyState,
    ) -> Result<(), KeyStoreError> {
        let (at, record) = (key::ring_key(number), RingKeyRecord { state, ..record.clone() });
        let guards = vec![Guard::Equals(at.clone(), bytes.clone())];
        let writes = vec![Write::Put(at.clone(), record.encode(&at))];
        self.committed(Plan { guards, writes }).await.map(|_| ())
    }

    /// Deletes a key that was closed. The caller has found nothing under it in a look that began
    /// after every session knew that the key is closed.
    ///
    /// # Errors
    /// Fails with `Current` if the key is not closed, with `Store`, `Record` and `Contended`.
    /// Succeeds if there is no such key.
    pub async fn remove(&self, number: RingNumber) -> Result<(), KeyStoreError> {
        for _ in 0..ATTEMPTS_MAX {
            self.reload().await?;
            let ring = self.ring();
            let Some((record, bytes)) = ring.keys.get(&number) else { return Ok(()) };
            if record.state != RingKeyState::Closed {
                return Err(KeyStoreError::Current(number));
            }
            let at = key::ring_key(number);
            let guards = vec![Guard::Equals(at.clone(), bytes.clone())];
            self.committed(Plan { guards, writes: vec![Write::Delete(at)] }).await?;
        }
        Err(KeyStoreError::Contended)
    }

    /// Commits a plan. Returns false if it was refused, and if the outcome is unknown.
    pub(crate) async fn committed(&self, plan: Plan) -> Result<bool, KeyStoreError> {
        match self.meta.commit(std::slice::from_ref(&plan)).await {
            Ok(verdicts) => match verdicts.first() {
                Some(Verdict::Committed) => Ok(true),
                Some(Verdict::Refused { .. } | Verdict::Failed(StoreErrorKind::Unknown)) | None => {
                    Ok(false)
                }
                Some(Verdict::Failed(kind)) => {
                    Err(StoreError::new(*kind, "changing the ring").into())
                }
            },
            Err(error) if error.kind() == StoreErrorKind::Unknown => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}
