//! Bodies that are staged inline, and move from their inodes' records into blocks.
//!
//! All bodies that are due go into one block. If a file was removed or replaced meanwhile, usually
//! that is noticed before the body is read. For example, a lone client puts 20 objects of 100 KiB
//! and deletes 15 of them within a second. Two seconds later the other five go into one block of
//! 500 KiB, and the 15 never reach the block store. A reader that has read the old record has the
//! bytes with it, so nothing must wait for readers.
//!
//! Each file that is staged inline has a mark. The plan that publishes the file writes it, and the
//! plan that moves the body removes it. So the survey finds the bodies of gateways that have ended.

use bytes::Bytes;
use content::{STAGED_INLINE_BODY_BYTES_MAX, StagedBody};
use futures::{StreamExt, stream};
use keyring::Protection;
use record::{Content, Ino, Inode, key, key::space};
use session::scan::ino_of;
use session::{Outcome, ReaderGuard, VolumeError};
use store::{Guard, Key, Plan, Value, Write};
use tokio::time::Instant;
use tracing::warn;

use super::batch::{Batch, Owner};
use super::protect::protection;
use super::step::Moves;
use crate::relocation_queue::Policy;
use crate::upkeep::Upkeep;

/// The most bodies that are moved from records into one block.
const BODIES_AT_ONCE: usize = 64;

/// The most bytes that are moved from records into one block.
const BYTES_AT_ONCE: u64 = 4 << 20;
const _: () = assert!(STAGED_INLINE_BODY_BYTES_MAX <= BYTES_AT_ONCE);

/// Marks that one step of the survey reads. Their bodies fit into one block even if all have the
/// maximal length.
const MARKS_AT_ONCE: u32 = 16;
const _: () = assert!(MARKS_AT_ONCE as u64 * STAGED_INLINE_BODY_BYTES_MAX <= BYTES_AT_ONCE);

/// Returns the body of a file that is staged inline and may move, with the protection of its block;
/// `None` for another file.
fn staged_body(inode: &Inode) -> Option<(Bytes, Protection)> {
    let file = inode.file()?;
    match &file.content {
        content @ Content::Inline(bytes) if content.is_staged_inline() => {
            let protection = protection(file.encryption.as_ref(), bytes.ring().is_some())?;
            Some((Bytes::clone(bytes), protection))
        }
        Content::Inline(_) | Content::Slices(_) | Content::Pages(_) => None,
    }
}

/// Files whose bodies are to move, as found.
struct FoundBodies {
    /// The files whose bodies go into the next block.
    batch: Batch,
    /// Files that are no longer staged inline, each with a guard that this is still so.
    gone: Vec<(Ino, Guard)>,
    /// Files whose bodies need a block under another ring key.
    others: Vec<Ino>,
}

impl Upkeep {
    /// Moves the bodies of this session that have been in their records since `until` or earlier
    /// into a block, at most one block full. Returns `None` if there are none.
    pub(super) async fn destage_some(&self, until: Instant) -> Result<Option<Moves>, VolumeError> {
        let staged_inline = &self.staging.staged_inline;
        let bodies = staged_inline.take(until, BODIES_AT_ONCE, BYTES_AT_ONCE);
        if bodies.is_empty() {
            return Ok(None);
        }
        let inos: Vec<Ino> = bodies.iter().map(|body| body.ino).collect();
        let mut stayed = Vec::new();
        let moves = self.destage_files(&inos, &mut stayed).await;
        // After an error it is unknown which bodies were moved. A body that was moved is found to
        // be gone later.
        let stays = |body: &StagedBody| moves.is_err() || stayed.contains(&body.ino);
        for body in bodies {
            if stays(&body) { staged_inline.put_back(body) } else { staged_inline.remove(body) }
        }
        moves.map(Some)
    }

    /// Moves the bodies of one page of the survey over all marks, which say which files have a body
    /// in their record for a while.
    pub(super) async fn destage_marked(
        &self,
        resume: Option<Bytes>,
    ) -> Result<(Moves, Option<Bytes>), VolumeError> {
        let (first, end) = key::partition(space::STAGED_INLINE, 0);
        let after = |last: Bytes| Key::from_bytes([&last, &[0][..]].concat());
        let limit = MARKS_AT_ONCE.min(self.session.limits().range_records);
        let page = self.read_range(resume.map_or(first, after), end, limit).await?;
        let inos: Result<Vec<Ino>, _> = page.iter().map(|entry| ino_of(&entry.key)).collect();
        let resume = page.last().map(|last| Bytes::copy_from_slice(last.key.as_bytes()));
        Ok((self.destage_files(&inos?, &mut Vec::new()).await?, resume))
    }

    /// Moves those of these files' bodies into one block that wait for it in their records. Adds
    /// the files whose bodies stay in their records to `stayed`.
    async fn destage_files(
        &self,
        inos: &[Ino],
        stayed: &mut Vec<Ino>,
    ) -> Result<Moves, VolumeError> {
        if inos.is_empty() {
            return Ok(Moves::default());
        }
        let reading = self.session.reading();
        let FoundBodies { mut batch, gone, others } = self.find_bodies(inos).await?;
        let skipped = gone.len() as u64;
        let forget = |(ino, guard)| self.forget_mark(ino, guard, &reading);
        // Marks of files that need no move are removed without a put.
        let mut forgetting = stream::iter(gone).map(forget).buffer_unordered(BODIES_AT_ONCE);
        while let Some(forgotten) = forgetting.next().await {
            forgotten?;
        }
        let settled = self.relocate(&mut batch, &reading).await?;
        stayed.extend(settled.stayed);
        stayed.extend(others);
        let moves = Moves { skipped, ..settled.step.done };
        self.count(Policy::Destage, &moves);
        Ok(moves)
    }

    /// Separates the files whose bodies wait in their records (are staged inline) from those that
    /// are no longer staged inline. For files that have lost their names only the orphan is read. A
    /// file whose record cannot be decoded is in neither list and keeps its mark.
    async fn find_bodies(&self, inos: &[Ino]) -> Result<FoundBodies, VolumeError> {
        let (mut staying, mut gone, mut others) = (Vec::new(), Vec::new(), Vec::new());
        let mut batch = Batch::for_pack();
        // Orphans are read first, so that the larger inode records of deleted files are not read at
        // all.
        let leaving = self.read_all(inos.iter().map(|ino| key::orphan(*ino))).await?;
        for (ino, leaving) in inos.iter().zip(leaving) {
            if leaving.is_some() {
                gone.push((*ino, Guard::Present(key::orphan(*ino))));
            } else {
                staying.push(*ino);
            }
        }
        // Usually all bodies that were replaced soon have lost their names.
        let staying = if staying.is_empty() { Vec::new() } else { self.inodes(staying).await? };
        for (ino, found) in staying {
            let at = key::inode(ino);
            let Some(record) = found else {
                gone.push((ino, Guard::Absent(at)));
                continue;
            };
            match Inode::decode(&at, &record).map(|inode| staged_body(&inode)) {
                Ok(Some((body, protection))) if batch.admits(&protection) => {
                    let (record, body, slices) = (Some(record), Some(body), Vec::new());
                    batch.owners.insert(ino, Owner { record, body, slices });
                }
                // Such bodies go into a later block.
                Ok(Some(_)) => others.push(ino),
                Ok(None) => gone.push((ino, Guard::Equals(at, record))),
                Err(error) => {
                    warn!(ino = ino.0, %error, "the record of a file to destage cannot be read");
                }
            }
        }
        batch.is_pack = batch.owners.len() > 1;
        Ok(FoundBodies { batch, gone, others })
    }

    /// Reads the inodes' records in one round trip. If one of them is damaged, the store may fail
    /// the whole read. Then each is read by itself, and the damaged ones are left out.
    async fn inodes(&self, inos: Vec<Ino>) -> Result<Vec<(Ino, Option<Value>)>, VolumeError> {
        match self.read_all(inos.iter().map(|ino| key::inode(*ino))).await {
            Ok(records) => return Ok(inos.into_iter().zip(records).collect()),
            Err(VolumeError::Corrupt(_)) => {}
            Err(error) => return Err(error),
        }
        let mut found = Vec::with_capacity(inos.len());
        for ino in inos {
            match self.read_all([key::inode(ino)].into_iter()).await {
                Ok(record) => found.push((ino, record.into_iter().next().flatten())),
                Err(VolumeError::Corrupt(error)) => {
                    warn!(ino = ino.0, error, "the record of a file to destage cannot be read");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// Removes the file's mark, by which a body in a record is found. The plan is refused if the
    /// file is staged inline again; then a later survey finds the mark.
    async fn forget_mark(
        &self,
        ino: Ino,
        guard: Guard,
        reading: &ReaderGuard,
    ) -> Result<(), VolumeError> {
        let writes = vec![Write::Delete(key::staged_inline(ino))];
        let plan = Plan { guards: vec![guard], writes };
        match self.session.commit_reading(plan, reading.clone()).await {
            Outcome::Committed | Outcome::Refused { .. } => Ok(()),
            Outcome::Aborted(why) => Err(VolumeError::Unavailable(why)),
            Outcome::Failed(error) => Err(error),
        }
    }
}
