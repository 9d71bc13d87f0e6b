//! Reaps uploads: first the parts that no file took over, then the upload's own record.
//!
//! A completed upload answers repeated completions for a while after its parts are gone. Then it
//! has an *expiry* record in place of its orphan. The key of the expiry begins with the time until
//! which the upload answers, so a pass reads only those whose time has come, however many there
//! are. For example, a client whose connection broke while it completed the upload repeats it an
//! hour later and gets the same answer; after 24 hours it gets `NoSuchUpload`.
//!
//! The time is measured by the gateway's clock. A wrong clock may end an answer too early, but it
//! never deletes stored content.

use std::collections::HashSet;

use futures::StreamExt;
use futures::stream;
use namespace::end_upload;
use record::key::space;
use record::{Expiry, Ino, Orphan, Part, Timestamp, Upload, UploadState, key};
use session::{Priority, VolumeError, closing, corrupt, value};
use store::{Entry, Guard, Key, Plan, Read, Write};
use tracing::warn;

use super::release::references;
use super::{Dead, UPLOAD_RESULT_KEPT, committed_steps, key_after};
use crate::upkeep::Upkeep;

/// Parts that one round trip reads.
const PARTS_AT_ONCE: u32 = 256;

/// The most expired uploads that one pass removes.
const EXPIRED_PER_PASS: u64 = 10_000;

/// Expired uploads that are read together.
const EXPIRED_AT_ONCE: usize = 64;

/// Returns the time until which an upload that was completed at `completed` answers repeated
/// completions.
fn answers_until(completed: Timestamp) -> Timestamp {
    let kept = i64::try_from(UPLOAD_RESULT_KEPT.as_nanos()).unwrap_or(i64::MAX);
    Timestamp(completed.0.saturating_add(kept))
}

fn upload_key(bytes: &[u8]) -> Option<Key> {
    (bytes.len() >= Key::PREFIX_BYTES).then(|| Key::from_bytes(bytes.to_vec()))
}

impl Upkeep {
    /// Reaps ended uploads: removes their parts and records. One that was completed recently keeps
    /// its answer to repeated completions, unless its bucket (in `buckets`) is deleted. Returns the
    /// number of steps that were done.
    pub(super) async fn reap_uploads(
        &self,
        dead: &[Dead],
        buckets: &HashSet<Ino>,
        priority: Priority,
    ) -> Result<u64, VolumeError> {
        let mut reaped = 0;
        for dead in dead {
            let Orphan::Upload { key } = &dead.orphan else { continue };
            let Some(at) = upload_key(key) else {
                warn!(ino = dead.ino.0, "an orphan record names no upload; it is kept; run fsck");
                continue;
            };
            if self.session.closing().is_cancelled() {
                return Err(closing());
            }
            let bucket_is_gone = buckets.contains(&Ino(at.partition()));
            let step = self.session.throttle().begin_step(priority);
            match self.reap_upload(dead, at, bucket_is_gone).await {
                Err(why @ VolumeError::Corrupt(_)) => self.report_damaged(&dead.key, &why),
                one => reaped += one?,
            }
            self.session.throttle().pause_after(step).await;
        }
        Ok(reaped)
    }

    async fn reap_upload(
        &self,
        dead: &Dead,
        at: Key,
        bucket_is_gone: bool,
    ) -> Result<u64, VolumeError> {
        let found =
            self.session.store().read(&[Read::Record { key: at.clone(), follow: None }]).await?;
        let Some(record) = value(found.first()) else {
            let writes = vec![Write::Delete(dead.key.clone())];
            let guards = vec![dead.guard(), Guard::Absent(at)];
            return committed_steps(self.session.commit_plan(Plan { guards, writes }).await);
        };
        let upload = Upload::decode(&at, &record).map_err(|error| corrupt(&at, &error))?;
        let (used, until) = match &upload.state {
            UploadState::Open => {
                warn!(?at, "an orphan record names an upload that is open; it is kept; run fsck");
                return Ok(0);
            }
            UploadState::Aborted => (HashSet::new(), None),
            UploadState::Done { used, at: ended, .. } => {
                (used.iter().copied().collect(), Some(answers_until(*ended)))
            }
        };
        // Parts are removed before the upload's record, so that a crash in between leaves an orphan
        // that finds the rest.
        let removed = self.reap_parts(dead, upload.ino, &used).await?;
        let (start, end) = key::parts(upload.ino);
        let removal = Write::Delete(dead.key.clone());
        let mut plan = Plan {
            // `Empty` proves that no part is left.
            guards: vec![dead.guard(), Guard::Equals(at.clone(), record), Guard::Empty(start, end)],
            writes: vec![removal],
        };
        plan.writes.push(match until {
            // The expiry record replaces the orphan, so that later passes do not read this upload
            // until its time comes.
            Some(until) if until > self.session.now() && !bucket_is_gone => {
                let expiry = key::expiry(until, upload.ino);
                let of = Expiry { upload: at.as_bytes().to_vec() };
                Write::Put(expiry.clone(), of.encode(&expiry))
            }
            _ => Write::Delete(at),
        });
        Ok(removed + committed_steps(self.session.commit_plan(plan).await)?)
    }

    /// Removes completed uploads whose time to answer repeated completions has passed. Returns the
    /// number of removed uploads.
    pub(super) async fn reap_expired(&self, priority: Priority) -> Result<u64, VolumeError> {
        let (mut start, _) = key::partition(space::EXPIRY, 0);
        let end = key::expiry(self.session.now(), Ino(0));
        let limits = self.session.limits();
        let most = EXPIRED_AT_ONCE.min(limits.reads).max(1);
        let limit = u32::try_from(most).unwrap_or(1).min(limits.range_records);
        let mut reaped = 0;
        while reaped < EXPIRED_PER_PASS && start < end {
            if self.session.closing().is_cancelled() {
                return Err(closing());
            }
            let step = self.session.throttle().begin_step(priority);
            let expired = self.read_range(start, end.clone(), limit).await?;
            let Some(last) = expired.last() else { return Ok(reaped) };
            start = key_after(&last.key);
            reaped += self.end_expired(&expired).await?;
            self.session.throttle().pause_after(step).await;
        }
        Ok(reaped)
    }

    /// Removes these uploads together with their expiry records, which say until when they answer.
    async fn end_expired(&self, expired: &[Entry]) -> Result<u64, VolumeError> {
        // A damaged expiry is kept and logged; the others are removed.
        let mut named: Vec<(&Entry, Key)> = Vec::with_capacity(expired.len());
        for entry in expired {
            let expiry = Expiry::decode(&entry.key, &entry.value);
            let expiry = expiry.map_err(|error| corrupt(&entry.key, &error));
            let none = || VolumeError::Corrupt("the expiry record names no upload".to_owned());
            match expiry.and_then(|expiry| upload_key(&expiry.upload).ok_or_else(none)) {
                Ok(upload) => named.push((entry, upload)),
                Err(why) => self.report_damaged(&entry.key, &why),
            }
        }
        let record = |(_, at): &(&Entry, Key)| Read::Record { key: at.clone(), follow: None };
        let reads: Vec<Read> = named.iter().map(record).collect();
        let found = self.session.store().read(&reads).await?;
        let mut plans = Vec::with_capacity(named.len());
        for ((entry, at), found) in named.into_iter().zip(&found) {
            let mut plan = Plan {
                guards: vec![Guard::Equals(entry.key.clone(), entry.value.clone())],
                writes: vec![Write::Delete(entry.key.clone())],
            };
            match value(Some(found)) {
                // The upload's record is gone already; only the expiry is left to remove.
                None => plan.guards.push(Guard::Absent(at)),
                Some(record) => match Upload::decode(&at, &record) {
                    Ok(Upload { state: UploadState::Done { .. }, .. }) => {
                        plan.guards.push(Guard::Equals(at.clone(), record));
                        plan.writes.push(Write::Delete(at));
                    }
                    Ok(_) => {
                        let why =
                            VolumeError::Corrupt(format!("the upload {at:?} was not completed"));
                        self.report_damaged(&entry.key, &why);
                        continue;
                    }
                    Err(error) => {
                        self.report_damaged(&entry.key, &corrupt(&at, &error));
                        continue;
                    }
                },
            }
            plans.push(plan);
        }
        let mut outcomes = stream::iter(plans)
            .map(|plan| self.session.commit_plan(plan))
            .buffer_unordered(EXPIRED_AT_ONCE);
        let mut ended = 0;
        while let Some(outcome) = outcomes.next().await {
            ended += committed_steps(outcome)?;
        }
        Ok(ended)
    }

    /// Removes an upload's parts, and releases the blocks that no file took over. `used` has the
    /// parts that the completed file uses. Returns the number of removed parts.
    async fn reap_parts(
        &self,
        dead: &Dead,
        upload: Ino,
        used: &HashSet<Ino>,
    ) -> Result<u64, VolumeError> {
        let mut removed = 0;
        loop {
            let (start, end) = key::parts(upload);
            let page = self.read_range(start, end, PARTS_AT_ONCE).await?;
            if page.is_empty() {
                return Ok(removed);
            }
            let mut taken_over = Vec::new();
            for entry in page {
                if self.session.closing().is_cancelled() {
                    return Err(closing());
                }
                let part = Part::decode(&entry.key, &entry.value)
                    .map_err(|error| corrupt(&entry.key, &error))?;
                let ino = part.owner;
                removed += 1;
                // If the part was sent and used, its blocks belong to the file now. Its shares do
                // not: those of packs, and those that a copied part has in all its blocks. These
                // are released here.
                let taken = used.contains(&ino) && !part.shared;
                let slices = part.slices.iter();
                let references =
                    references(slices.filter(|slice| !taken || slice.block.is_pack()), ino);
                if taken && references.is_empty() {
                    taken_over.push(Write::Delete(entry.key));
                } else {
                    let last = Write::Delete(entry.key);
                    self.release(&dead.guard(), &references, Some(last)).await?;
                }
            }
            if !taken_over.is_empty() {
                let plan = Plan { guards: vec![dead.guard()], writes: taken_over };
                if committed_steps(self.session.commit_plan(plan).await)? == 0 {
                    return Ok(removed);
                }
            }
        }
    }

    /// Ends the uploads of a deleted bucket: aborts those that are open, and removes those that
    /// only wait to answer repeated completions. The others have orphans, so a pass processes them.
    pub(super) async fn end_uploads(
        &self,
        bucket: &Dead,
        uploads: Vec<Entry>,
    ) -> Result<u64, VolumeError> {
        let mut reaped = 0;
        for entry in uploads {
            let upload = match Upload::decode(&entry.key, &entry.value) {
                Ok(upload) => upload,
                Err(error) => {
                    self.report_damaged(&entry.key, &corrupt(&entry.key, &error));
                    continue;
                }
            };
            let mut guards = vec![bucket.guard(), Guard::Equals(entry.key.clone(), entry.value)];
            let writes = match upload.state {
                UploadState::Open => {
                    let ended = Upload { state: UploadState::Aborted, ..upload };
                    end_upload(&entry.key, &ended)
                }
                UploadState::Aborted => continue,
                UploadState::Done { at, .. } => {
                    guards.push(Guard::Absent(key::orphan(upload.ino)));
                    let expiry = key::expiry(answers_until(at), upload.ino);
                    vec![Write::Delete(entry.key), Write::Delete(expiry)]
                }
            };
            reaped += committed_steps(self.session.commit_plan(Plan { guards, writes }).await)?;
        }
        Ok(reaped)
    }
}
