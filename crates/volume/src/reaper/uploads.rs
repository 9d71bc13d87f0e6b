//! Reaping uploads: the parts that no file took over, then the upload's own record.

use std::collections::{HashMap, HashSet};

use namespace::end_upload;
use record::{Ino, Orphan, Part, Timestamp, Upload, UploadState, key};
use store::{Entry, Guard, Key, Plan, Read, Write};
use tracing::warn;

use super::release::held;
use super::{Dead, UPLOAD_RESULT_KEPT, closing, corrupt, progress};
use crate::pace::Pace;
use crate::session::value;
use crate::{Volume, VolumeError};

/// Parts that one round trip reads.
const PARTS_AT_ONCE: u32 = 256;

/// The bucket of an orphaned upload.
pub(super) fn bucket_of(orphan: &Orphan) -> Option<Ino> {
    match orphan {
        Orphan::Upload { key } => upload_key(key).map(|key| Ino(key.partition())),
        Orphan::File { .. } | Orphan::Doomed { .. } | Orphan::Bucket | Orphan::Moved { .. } => None,
    }
}

fn upload_key(bytes: &[u8]) -> Option<Key> {
    (bytes.len() >= Key::PREFIX_BYTES).then(|| Key::from_bytes(bytes.to_vec()))
}

impl Volume {
    /// Reaps ended uploads. Those completed lately stay in `kept`, unless their bucket is gone.
    pub(super) async fn reap_uploads(
        &self,
        dead: &[Dead],
        buckets: &HashSet<Ino>,
        kept: &mut HashMap<Ino, Timestamp>,
        pace: Pace,
    ) -> Result<u64, VolumeError> {
        let mut reaped = 0;
        for dead in dead {
            let Orphan::Upload { key } = &dead.orphan else { continue };
            let Some(at) = upload_key(key) else {
                warn!(ino = dead.ino.0, "an orphan names no upload; it is left alone");
                continue;
            };
            if self.closing.is_cancelled() {
                return Err(closing());
            }
            let bucket_is_gone = buckets.contains(&Ino(at.partition()));
            let step = self.begin_step(pace);
            reaped += self.reap_upload(dead, at, bucket_is_gone, kept).await?;
            self.rest_after(step).await;
        }
        Ok(reaped)
    }

    async fn reap_upload(
        &self,
        dead: &Dead,
        at: Key,
        bucket_is_gone: bool,
        kept: &mut HashMap<Ino, Timestamp>,
    ) -> Result<u64, VolumeError> {
        let found = self.store.read(&[Read::Record { key: at.clone(), follow: None }]).await?;
        let Some(record) = value(found.first()) else {
            let writes = vec![Write::Delete(dead.key.clone())];
            let guards = vec![dead.guard(), Guard::Absent(at)];
            return progress(self.commit_plan(Plan { guards, writes }).await);
        };
        let upload = Upload::decode(&at, &record).map_err(|error| corrupt(&at, &error))?;
        let (used, until) = match &upload.state {
            UploadState::Open => {
                warn!(?at, "an orphaned upload is open; it is left alone");
                return Ok(0);
            }
            UploadState::Aborted => (HashSet::new(), None),
            UploadState::Done { used, at: ended, .. } => {
                let answers = i64::try_from(UPLOAD_RESULT_KEPT.as_micros()).unwrap_or(i64::MAX);
                let until = Timestamp(ended.0.saturating_add(answers));
                (used.iter().copied().collect(), Some(until))
            }
        };
        let removed = self.reap_parts(dead, upload.ino, &used).await?;
        if let Some(until) = until
            && until > self.now()
            && !bucket_is_gone
        {
            kept.insert(dead.ino, until);
            return Ok(removed);
        }
        let plan = Plan {
            guards: vec![dead.guard(), Guard::Equals(at.clone(), record)],
            writes: vec![Write::Delete(at), Write::Delete(dead.key.clone())],
        };
        Ok(removed + progress(self.commit_plan(plan).await)?)
    }

    /// Removes an upload's parts, and lets go of the blocks that no file took over.
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
                if self.closing.is_cancelled() {
                    return Err(closing());
                }
                let part = Part::decode(&entry.key, &entry.value)
                    .map_err(|error| corrupt(&entry.key, &error))?;
                let ino = part.owner;
                removed += 1;
                // The blocks of a part that was sent are the file's now; those of a part that was
                // copied, and packs, have a record for each owner, and the part's own is one.
                let taken = used.contains(&ino) && !part.shared;
                let slices = part.slices.iter();
                let held = held(slices.filter(|slice| !taken || slice.block.is_pack()), ino);
                if taken && held.is_empty() {
                    taken_over.push(Write::Delete(entry.key));
                } else {
                    let last = Write::Delete(entry.key);
                    self.release(&dead.guard(), &held, Some(last)).await?;
                }
            }
            if !taken_over.is_empty() {
                let plan = Plan { guards: vec![dead.guard()], writes: taken_over };
                if progress(self.commit_plan(plan).await)? == 0 {
                    return Ok(removed);
                }
            }
        }
    }

    /// Gives up the uploads of a bucket that is gone; those ended already have their orphans.
    pub(super) async fn abort_uploads(&self, uploads: Vec<Entry>) -> Result<u64, VolumeError> {
        let mut aborted = 0;
        for entry in uploads {
            let upload = Upload::decode(&entry.key, &entry.value)
                .map_err(|error| corrupt(&entry.key, &error))?;
            if upload.state != UploadState::Open {
                continue;
            }
            let ended = Upload { state: UploadState::Aborted, ..upload };
            let plan = Plan {
                guards: vec![Guard::Equals(entry.key.clone(), entry.value)],
                writes: end_upload(&entry.key, &ended),
            };
            aborted += progress(self.commit_plan(plan).await)?;
        }
        Ok(aborted)
    }
}
