//! The metadata store that seals and opens records on their way.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use keyring::{RingErrorKind, RingKeys};
use record::key::space;
use record::{OpenInode, SealedInode, is_open_inode, is_sealed_inode};
use store::{
    Changes, CounterPage, Durability, Entry, Guard, Key, Limits, MetaStore, Page, Plan, Position,
    Read, ReadResult, Snapshot, Space, StoreError, StoreErrorKind, Target, Value, Verdict, Write,
};
use tracing::warn;

use crate::cipher;

/// A metadata store that encrypts the inline content of files in the store below it.
#[derive(Debug)]
pub struct Sealing {
    inner: Arc<dyn MetaStore>,
    keys: Arc<dyn RingKeys>,
}

/// The use of a record in a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UseOfRecord {
    /// The plan is refused unless the store has this record.
    Guard,
    /// The plan stores this record.
    Put,
}

impl UseOfRecord {
    fn is_guard(self) -> bool {
        self == UseOfRecord::Guard
    }
}

impl Sealing {
    /// Creates a layer over the store `inner` that takes the ring keys from `keys`.
    pub fn new(inner: Arc<dyn MetaStore>, keys: Arc<dyn RingKeys>) -> Sealing {
        Sealing { inner, keys }
    }

    /// Returns the sealed form of a record; `None` if the record is stored as it is.
    async fn sealed(
        &self,
        key: &Key,
        value: &Value,
        use_of_record: UseOfRecord,
    ) -> Result<Option<Value>, StoreErrorKind> {
        if key.space() != space::INODE || !is_open_inode(value) {
            return Ok(None);
        }
        let open = OpenInode::of(key, value).map_err(|_| StoreErrorKind::Malformed)?;
        let found = match use_of_record {
            UseOfRecord::Guard => self.keys.key(open.ring).await,
            UseOfRecord::Put => self.keys.key_to_write(open.ring).await,
        };
        let ring_key = match found {
            Ok(ring_key) => ring_key,
            // No record is under a key that was removed, so the guard must not hold. The open form
            // is never in the store. The caller remembers a record from before the removal, and the
            // refusal gives it the new one.
            Err(error) if error.kind == RingErrorKind::Unknown && use_of_record.is_guard() => {
                return Ok(None);
            }
            Err(error) => {
                warn!(%error, "a record cannot be encrypted");
                return Err(match error.kind {
                    RingErrorKind::Unavailable => StoreErrorKind::Unavailable,
                    RingErrorKind::Unknown | RingErrorKind::Foreign | RingErrorKind::Refused => {
                        StoreErrorKind::Corrupt
                    }
                });
            }
        };
        // A record may have 256 KiB, and a batch has many.
        tokio::task::consume_budget().await;
        Ok(Some(cipher::seal(key, &open, &ring_key)))
    }

    /// Replaces a sealed record by its readable form. The record stays sealed if its key is not
    /// available, or if it was damaged: its reader gets an error that names the ring key.
    async fn open(&self, key: &Key, value: &mut Value) {
        if key.space() != space::INODE || !is_sealed_inode(value) {
            return;
        }
        // The reader reports damage.
        let Ok(sealed) = SealedInode::of(key, value) else { return };
        let ring_key = match self.keys.key(sealed.ring).await {
            Ok(ring_key) => ring_key,
            Err(error) => return warn!(%error, "a record cannot be decrypted"),
        };
        tokio::task::consume_budget().await;
        match cipher::open(key, &sealed, &ring_key) {
            Ok(open) => *value = open,
            Err(error) => warn!(?key, %error, "a record does not decrypt"),
        }
    }

    /// Opens the records of one answer. Targets that were cut consist of a head, which is readable.
    async fn open_answer(&self, read: &Read, answer: &mut ReadResult) {
        let (entries, follow): (&mut [Entry], _) = match (read, answer) {
            (Read::Record { follow, .. }, ReadResult::Record(entry)) => {
                (entry.as_mut_slice(), follow)
            }
            (Read::Range { follow, .. }, ReadResult::Range(entries)) => (entries, follow),
            (Read::Record { .. } | Read::Range { .. } | Read::Counter(_), _) => return,
        };
        for Entry { key, value, target } in entries {
            if let (Some(follow), Target::Whole(whole)) = (follow, &mut *target)
                && is_sealed_inode(whole)
                && let Some(key) = follow.target(value)
            {
                self.open(&key, whole).await;
            }
            self.open(key, value).await;
        }
    }

    /// Returns the plan with its records in sealed form; `None` if no record needs a change.
    async fn sealed_plan(&self, plan: &Plan) -> Result<Option<Plan>, StoreErrorKind> {
        if !has_open(plan) {
            return Ok(None);
        }
        let mut plan = plan.clone();
        for guard in &mut plan.guards {
            if let Guard::Equals(key, value) = guard
                && let Some(sealed) = self.sealed(key, value, UseOfRecord::Guard).await?
            {
                *value = sealed;
            }
        }
        for write in &mut plan.writes {
            if let Write::Put(key, value) = write
                && let Some(sealed) = self.sealed(key, value, UseOfRecord::Put).await?
            {
                *value = sealed;
            }
        }
        Ok(Some(plan))
    }

    /// Commits sealed plans. They are longer than the readable ones, so a full batch may have
    /// become too long. It is then committed in two calls.
    async fn commit_sealed(&self, plans: &[Plan]) -> Result<Vec<Verdict>, StoreError> {
        let bytes: usize = plans.iter().map(Plan::bytes).sum();
        if bytes <= self.inner.limits().batch_bytes || plans.len() < 2 {
            return self.inner.commit(plans).await;
        }
        let (first, second) = plans.split_at(plans.len() / 2);
        let mut verdicts = self.inner.commit(first).await?;
        // The first half is decided, so no error may claim that nothing was committed.
        let rest = self.inner.commit(second).await.map_err(|error| {
            StoreError::because(StoreErrorKind::Unknown, "committing half of a batch", error)
        })?;
        verdicts.extend(rest);
        Ok(verdicts)
    }

    /// Opens the record that a refusing guard found.
    async fn open_verdict(&self, plan: &Plan, verdict: &mut Verdict) {
        if let Verdict::Refused { guard, found: Some(found) } = verdict
            && let Some(Guard::Equals(key, _) | Guard::Absent(key)) = plan.guards.get(*guard)
        {
            self.open(key, found).await;
        }
    }
}

/// Returns true if a record of the plan is in the readable form and must be sealed.
fn has_open(plan: &Plan) -> bool {
    let is_open = |key: &Key, value: &Value| key.space() == space::INODE && is_open_inode(value);
    let guards = plan.guards.iter().any(|guard| match guard {
        Guard::Equals(key, value) => is_open(key, value),
        Guard::Absent(_) | Guard::Present(_) | Guard::Empty(..) | Guard::AtMost(..) => false,
    });
    let puts = || {
        plan.writes.iter().any(|write| match write {
            Write::Put(key, value) => is_open(key, value),
            Write::Delete(_)
            | Write::Add(..)
            | Write::Max(..)
            | Write::Set(..)
            | Write::Clear(_) => false,
        })
    };
    guards || puts()
}

#[async_trait]
impl MetaStore for Sealing {
    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    fn durability(&self) -> Durability {
        self.inner.durability()
    }

    fn shortage(&self) -> Option<String> {
        self.inner.shortage()
    }

    async fn read(&self, reads: &[Read]) -> Result<Vec<ReadResult>, StoreError> {
        let mut answers = self.inner.read(reads).await?;
        for (read, answer) in reads.iter().zip(&mut answers) {
            self.open_answer(read, answer).await;
        }
        Ok(answers)
    }

    async fn commit(&self, plans: &[Plan]) -> Result<Vec<Verdict>, StoreError> {
        if !plans.iter().any(has_open) {
            let mut verdicts = self.inner.commit(plans).await?;
            for (plan, verdict) in plans.iter().zip(&mut verdicts) {
                self.open_verdict(plan, verdict).await;
            }
            return Ok(verdicts);
        }
        // A plan whose key is not available fails alone.
        let (mut sent, mut failed) = (Vec::with_capacity(plans.len()), Vec::new());
        for (index, plan) in plans.iter().enumerate() {
            match self.sealed_plan(plan).await {
                Ok(Some(sealed)) => sent.push(sealed),
                Ok(None) => sent.push(plan.clone()),
                Err(kind) => failed.push((index, kind)),
            }
        }
        if let (true, Some((_, kind))) = (sent.is_empty(), failed.first()) {
            return Err(StoreError::new(*kind, "encrypting records under a ring key"));
        }
        let mut verdicts = self.commit_sealed(&sent).await?;
        for (plan, verdict) in sent.iter().zip(&mut verdicts) {
            self.open_verdict(plan, verdict).await;
        }
        // In ascending order, so that each index is that of the caller's batch.
        for (index, kind) in failed {
            verdicts.insert(index.min(verdicts.len()), Verdict::Failed(kind));
        }
        Ok(verdicts)
    }

    async fn walk(
        &self,
        space: Space,
        resume: Option<Bytes>,
        limit: u32,
    ) -> Result<Page, StoreError> {
        let mut page = self.inner.walk(space, resume, limit).await?;
        for (key, value) in &mut page.records {
            self.open(key, value).await;
        }
        Ok(page)
    }

    async fn walk_counters(
        &self,
        space: Space,
        resume: Option<Bytes>,
        limit: u32,
    ) -> Result<CounterPage, StoreError> {
        self.inner.walk_counters(space, resume, limit).await
    }

    async fn changes(&self, since: Option<&Position>) -> Result<Changes, StoreError> {
        self.inner.changes(since).await
    }

    /// Returns the records as they are in the store, so that a dump has no content in the clear.
    async fn snapshot(&self) -> Result<Box<dyn Snapshot>, StoreError> {
        self.inner.snapshot().await
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}

#[cfg(test)]
mod tests;
