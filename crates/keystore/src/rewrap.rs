//! The change of the master key.
//!
//! ```text
//! only old --record of the change--> both: ring keys, then secrets, page by page
//!          --nothing under old is left, record deleted--> only new
//! ```
//!
//! Each ring key and each secret says which master key it is under: a ring key by the fingerprint,
//! a secret by the key that opens it. So an attempt that was killed continues by looking at them,
//! and work that is done is not done again. While the record of the change exists, a process that
//! has only one of the two keys refuses to start. For example, after a kill in the middle of the
//! users, the operator starts `ashlar ring rewrap` with the same two keys again.
//!
//! Another process may seal a secret under the old key meanwhile, so the secrets are walked until a
//! whole walk finds none.

use record::{KeyFingerprint, RewrapRecord, RingKeyRecord, RingState, RingWrapping, User, key};
use store::{Entry, Guard, Plan, Read, ReadResult, Write};

use crate::error::KeyStoreError;
use crate::key_store::KeyStore;
use crate::wrap_key::WrapKeys;

/// The limit of walks over the secrets. More are needed only if other processes go on to seal
/// secrets under the old key.
const WALKS_MAX: u32 = 16;

/// The limit of users of one page, after which the count of the record grows.
const PAGE_USERS_MAX: u32 = 100;

/// Seals users' secrets again, which this crate cannot.
pub trait ResealSecret: Send + Sync {
    /// Returns the secret of an access key under the new master key; `None` if it is already.
    ///
    /// # Errors
    /// Fails with a text for the operator if the secret opens under neither key.
    fn reseal(&self, access_key: &str, sealed: &[u8]) -> Result<Option<Vec<u8>>, String>;
}

/// The result of a change of the master key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rewrapped {
    /// The number of ring keys and secrets that were under the old key, with those of earlier
    /// attempts.
    pub sealed_again: u64,
    /// The fingerprint of the new master key, which alone is needed from now on.
    pub under: KeyFingerprint,
}

impl KeyStore {
    /// Wraps all ring keys and seals all users' secrets under the new master key. Continues an
    /// attempt that was killed.
    ///
    /// # Errors
    /// Fails with `NoOldKey` and `NoMasterKey`, with `Rewrapping` if a change between other keys is
    /// not complete, with `OtherMasterKey` if a ring key is under a third key, with `Secret`,
    /// `Store`, `Record`, `Randomness` and `Contended`.
    pub async fn rewrap(&self, secrets: &dyn ResealSecret) -> Result<Rewrapped, KeyStoreError> {
        let wraps = self.wraps.as_ref().ok_or(KeyStoreError::NoMasterKey)?;
        let old = wraps.old.as_ref().ok_or(KeyStoreError::NoOldKey)?.fingerprint();
        let new = wraps.new.fingerprint();
        self.begin(old, new).await?;
        self.rewrap_keys(wraps).await?;
        for _ in 0..WALKS_MAX {
            if self.reseal_all(secrets).await? == 0 {
                return self.end(new).await;
            }
        }
        Err(KeyStoreError::Contended)
    }

    /// Writes the record of the change, if an earlier attempt has not.
    async fn begin(&self, from: KeyFingerprint, to: KeyFingerprint) -> Result<(), KeyStoreError> {
        let at = key::rewrap();
        for _ in 0..WALKS_MAX {
            self.reload().await?;
            if let Some((found, _)) = &self.ring().rewrap {
                let is_ours = (found.from, found.to) == (from, to);
                return if is_ours {
                    Ok(())
                } else {
                    Err(KeyStoreError::Rewrapping { from: found.from, to: found.to })
                };
            }
            self.check()?;
            let record = RewrapRecord { began: self.clock.now(), from, to, done: 0 };
            // The state changes, too, so that a key that another process is making under the old
            // master key is refused.
            let ring = self.ring();
            let rewraps = ring.state.rewraps.wrapping_add(1);
            let (state_at, state) = (key::ring_state(), RingState { rewraps, ..ring.state });
            let guards = vec![ring.unchanged(), Guard::Absent(at.clone())];
            let writes = vec![
                Write::Put(state_at.clone(), state.encode(&state_at)),
                Write::Put(at.clone(), record.encode(&at)),
            ];
            self.committed(Plan { guards, writes }).await?;
        }
        Err(KeyStoreError::Contended)
    }

    /// Wraps the ring keys, one commit for each.
    async fn rewrap_keys(&self, wraps: &WrapKeys) -> Result<(), KeyStoreError> {
        for _ in 0..WALKS_MAX {
            self.reload().await?;
            let ring = self.ring();
            let mut left = false;
            for (number, (record, bytes)) in &ring.keys {
                let RingWrapping::Master(under) = record.wrapping else { continue };
                if under == wraps.new.fingerprint() {
                    continue;
                }
                left = true;
                let other = || KeyStoreError::OtherMasterKey {
                    needed: under,
                    given: wraps.new.fingerprint(),
                };
                let with = wraps.of(under).ok_or_else(other)?;
                let plain = with.unwrap(self.volume, *number, &record.wrapped).ok_or_else(other)?;
                let at = key::ring_key(*number);
                let record = RingKeyRecord {
                    wrapping: RingWrapping::Master(wraps.new.fingerprint()),
                    wrapped: wraps.new.wrap(self.volume, *number, &plain)?,
                    ..record.clone()
                };
                let guards = vec![Guard::Equals(at.clone(), bytes.clone())];
                let writes = vec![Write::Put(at.clone(), record.encode(&at))];
                if self.committed(Plan { guards, writes }).await? {
                    self.count(1).await?;
                }
            }
            if !left {
                return Ok(());
            }
        }
        Err(KeyStoreError::Contended)
    }

    /// Walks over all users once, and seals the secrets that are under the old key. Returns their
    /// number.
    async fn reseal_all(&self, secrets: &dyn ResealSecret) -> Result<u64, KeyStoreError> {
        let (mut start, end) = key::partition(key::space::USER, 0);
        let limits = self.meta.limits();
        let limit = PAGE_USERS_MAX.min(limits.range_records);
        let full = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut found = 0;
        loop {
            let range = Read::Range { start: start.clone(), end: end.clone(), limit, follow: None };
            let answers = self.meta.read(&[range]).await?;
            let page = match answers.into_iter().next() {
                Some(ReadResult::Range(page)) => page,
                Some(ReadResult::Record(_) | ReadResult::Counter(_)) | None => Vec::new(),
            };
            found += self.reseal(secrets, &page).await?;
            let Some(last) = page.last().filter(|_| page.len() == full) else {
                return Ok(found);
            };
            start = store::Key::from_bytes([last.key.as_bytes(), b"\0"].concat());
        }
    }

    /// Seals the secrets of one page. Returns the number of those that were under the old key.
    async fn reseal(
        &self,
        secrets: &dyn ResealSecret,
        page: &[Entry],
    ) -> Result<u64, KeyStoreError> {
        let mut found = 0;
        let mut plans = Vec::new();
        for Entry { key, value, .. } in page {
            let user = User::decode(key, value)?;
            let name = String::from_utf8_lossy(key.suffix()).into_owned();
            let resealed = secrets.reseal(&name, &user.sealed_secret);
            let resealed =
                resealed.map_err(|cause| KeyStoreError::Secret { access_key: name, cause })?;
            if let Some(sealed_secret) = resealed {
                found += 1;
                let user = User { sealed_secret, ..user };
                // A plan for each user: a user that changes meanwhile delays no other.
                plans.push(Plan {
                    guards: vec![Guard::Equals(key.clone(), value.clone())],
                    writes: vec![Write::Put(key.clone(), user.encode(key))],
                });
            }
        }
        let mut done = 0;
        for plan in plans {
            // A plan that is refused or of unknown outcome is looked at again by the next walk.
            done += u64::from(self.committed(plan).await?);
        }
        if done > 0 {
            self.count(done).await?;
        }
        Ok(found)
    }

    /// Adds to the count of the record. The count is for the operator, so a kill may lose a page.
    async fn count(&self, more: u64) -> Result<(), KeyStoreError> {
        self.reload().await?;
        let ring = self.ring();
        let Some((record, bytes)) = &ring.rewrap else { return Ok(()) };
        let at = key::rewrap();
        let record = RewrapRecord { done: record.done.saturating_add(more), ..*record };
        let guards = vec![Guard::Equals(at.clone(), bytes.clone())];
        let writes = vec![Write::Put(at.clone(), record.encode(&at))];
        self.committed(Plan { guards, writes }).await.map(|_| ())
    }

    /// Deletes the record of the change.
    async fn end(&self, under: KeyFingerprint) -> Result<Rewrapped, KeyStoreError> {
        let mut sealed_again = 0;
        for _ in 0..WALKS_MAX {
            self.reload().await?;
            let ring = self.ring();
            let Some((record, bytes)) = &ring.rewrap else {
                return Ok(Rewrapped { sealed_again, under });
            };
            sealed_again = record.done;
            let at = key::rewrap();
            let guards = vec![Guard::Equals(at.clone(), bytes.clone())];
            self.committed(Plan { guards, writes: vec![Write::Delete(at)] }).await?;
        }
        Err(KeyStoreError::Contended)
    }
}
