//! The destager: moves bodies that are staged inline from their inodes' records into blocks.
//!
//! All bodies that are due go into one block, and each file's inode is swapped by a plan of its own
//! under a guard of its exact record. The block is durable before any of these plans is sent. If a
//! file was removed or replaced meanwhile, its plan is refused. Usually that is noticed before the
//! body is read, and then the body goes into no block.
//!
//! *Trigger*: [`DESTAGE_DELAY`] after a body was staged. *Limits*: [`BODIES_AT_ONCE`] bodies and
//! [`BYTES_AT_ONCE`] bytes per block.
//!
//! **Invariant.** At every instant a file's content is either in its record or in a durable block,
//! and both hold the same bytes. A reader that has read the old record has the bytes with it, so
//! nothing must wait for readers.
//!
//! Each file that is staged inline has a mark in the metadata store. The plan that publishes the
//! file writes it, and the plan that destages the file removes it. So the bodies that a gateway
//! leaves behind when it ends are found: every gateway reads the marks some time after its start
//! and at intervals. Two gateways that destage the same file do no harm: one of the two swaps is
//! refused, and at most leaves dead bytes in its block.
//!
//! For example, a lone client puts 20 objects of 100 KiB and deletes 15 of them within a second.
//! Two seconds later the other five go into one block of 500 KiB, and the 15 never reach the block
//! store.

use std::sync::{Arc, Weak};
use std::time::Duration;

use block::{BlockRef, SealedBlock, Sealer};
use bytes::Bytes;
use content::{DESTAGE_DELAY, STAGED_INLINE_BODY_BYTES_MAX, StagedBody};
use futures::StreamExt;
use futures::stream;
use namespace::add_pack_shares;
use record::{Content, Ino, Inode, InodeBody, Slice, key, key::space};
use session::scan::ino_of;
use session::{Outcome, Priority, ReaderGuard, VolumeError, closing, value};
use store::{Guard, Plan, Read, StoreErrorKind, Value, Write};
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::reaper::key_after;
use crate::repack::{SURVEY_DELAY, SURVEY_INTERVAL};
use crate::upkeep::Upkeep;

/// The most bodies that are moved from records into one block.
const BODIES_AT_ONCE: usize = 64;

/// The most bytes that are moved from records into one block.
const BYTES_AT_ONCE: u64 = 4 << 20;
const _: () = assert!(STAGED_INLINE_BODY_BYTES_MAX <= BYTES_AT_ONCE);

/// The pause after a failure to move bodies from records into a block.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

/// The result of destaging, that is, of moving small bodies from their inodes' records into blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Destaged {
    /// Bodies that were moved into blocks.
    pub bodies: u64,
    /// The bytes of these bodies.
    pub bytes: u64,
    /// Files that were found to be no longer staged inline, because their body was replaced, moved
    /// or deleted.
    pub gone: u64,
    /// Bodies that stay in their records, because their files changed meanwhile or their plans were
    /// aborted.
    pub refused: u64,
}

impl Destaged {
    fn add(&mut self, more: Destaged) {
        self.bodies += more.bodies;
        self.bytes += more.bytes;
        self.gone += more.gone;
        self.refused += more.refused;
    }
}

/// A file whose body is to be moved from its inode's record into a block.
#[derive(Debug)]
struct Mover {
    ino: Ino,
    record: Value,
    inode: Inode,
    bytes: Bytes,
}

impl Mover {
    /// Returns `None` if the file is not staged inline.
    fn new(ino: Ino, record: Value, inode: Inode) -> Option<Mover> {
        let content = &inode.file()?.content;
        match content {
            Content::Inline(bytes) if content.is_staged_inline() => {
                Some(Mover { ino, record, bytes: bytes.clone(), inode })
            }
            Content::Inline(_) | Content::Slices(_) | Content::Pages(_) => None,
        }
    }

    /// Returns the plan that makes the inode reference its bytes in a block, `slice`, instead of
    /// having them in its record.
    fn plan(&self, slice: Slice) -> Plan {
        let at = key::inode(self.ino);
        let mut inode = self.inode.clone();
        if let InodeBody::File(file) = &mut inode.body {
            file.content = Content::Slices(vec![slice]);
        }
        let mut writes = vec![Write::Put(at.clone(), inode.encode(&at))];
        writes.extend(add_pack_shares(&[slice], self.ino));
        writes.push(Write::Delete(key::staged_inline(self.ino)));
        Plan { guards: vec![Guard::Equals(at, self.record.clone())], writes }
    }
}

/// A file whose mark says that its body waits in its record, although the body is no longer there,
/// and a guard that this is still so.
#[derive(Debug)]
struct NotStaged {
    ino: Ino,
    guard: Guard,
}

impl NotStaged {
    /// Returns the plan that removes the file's mark, by which a body in a record is found. It is
    /// refused if the file is staged inline again; then a later pass finds the mark.
    fn plan(self) -> Plan {
        Plan { guards: vec![self.guard], writes: vec![Write::Delete(key::staged_inline(self.ino))] }
    }
}

impl Upkeep {
    /// Destages every body of all sessions, whether or not it is due: moves it from its inode's
    /// record into a block.
    ///
    /// # Errors
    /// If a store cannot be reached. Bodies that were destaged before stay destaged.
    pub async fn destage_now(&self) -> Result<Destaged, VolumeError> {
        let (mut all, until) = (Destaged::default(), Instant::now());
        while let Some(own) = self.destage_some(until).await? {
            all.add(own);
        }
        all.add(self.destage_marked().await?);
        Ok(all)
    }

    /// Moves the bodies of this session that have been in their records since `until` or earlier
    /// into a block, at most one block full. Returns `None` if there are none.
    async fn destage_some(&self, until: Instant) -> Result<Option<Destaged>, VolumeError> {
        let staged_inline = &self.staging.staged_inline;
        let bodies = staged_inline.take(until, BODIES_AT_ONCE, BYTES_AT_ONCE);
        if bodies.is_empty() {
            return Ok(None);
        }
        let inos: Vec<Ino> = bodies.iter().map(|body| body.ino).collect();
        let mut refused = Vec::new();
        let destaged = self.destage_files(&inos, &mut refused).await;
        // After an error it is unknown which bodies were moved. A body that was moved is found to
        // be gone later.
        let stays = |body: &StagedBody| destaged.is_err() || refused.contains(&body.ino);
        for body in bodies {
            if stays(&body) { staged_inline.put_back(body) } else { staged_inline.remove(body) }
        }
        destaged.map(Some)
    }

    /// Moves the bodies of all sessions into blocks that are found by their marks: the records that
    /// say which files have a body in their record for a while.
    async fn destage_marked(&self) -> Result<Destaged, VolumeError> {
        let mut all = Destaged::default();
        let (mut start, end) = key::partition(space::STAGED_INLINE, 0);
        // The page is limited so that its bodies fit into one block even if all have the maximal
        // length.
        let most = usize::try_from(BYTES_AT_ONCE / STAGED_INLINE_BODY_BYTES_MAX).unwrap_or(1);
        loop {
            let limit = self.session.limits().range_records.min(u32::try_from(most).unwrap_or(1));
            let page = self.read_range(start, end.clone(), limit).await?;
            let Some(last) = page.last() else { return Ok(all) };
            start = key_after(&last.key);
            let inos: Result<Vec<Ino>, _> = page.iter().map(|entry| ino_of(&entry.key)).collect();
            all.add(self.destage_files(&inos?, &mut Vec::new()).await?);
            if self.session.closing().is_cancelled() {
                return Err(closing());
            }
        }
    }

    /// Moves those of these files' bodies into blocks that wait for it in their records. Adds the
    /// files whose bodies stay in their records to `refused`.
    async fn destage_files(
        &self,
        inos: &[Ino],
        refused: &mut Vec<Ino>,
    ) -> Result<Destaged, VolumeError> {
        // The pin is held from before the put until the outcome of the last swap is known, because
        // the block is a pack: see the reaper's `release`.
        let reading = self.session.reading();
        let (movers, gone) = self.movers(inos).await?;
        let mut destaged = Destaged { gone: gone.len() as u64, ..Destaged::default() };
        let forget = |gone: NotStaged| self.commit_destaging(gone.plan(), &reading);
        // Marks of files that need no move are removed without a put.
        let mut forgetting = stream::iter(gone).map(forget).buffer_unordered(BODIES_AT_ONCE);
        while let Some(forgotten) = forgetting.next().await {
            forgotten?;
        }
        if !movers.is_empty() {
            destaged.add(self.move_all(&movers, &reading, refused).await?);
        }
        self.meters.bodies_destaged.add(destaged.bodies);
        self.meters.bytes_destaged.add(destaged.bytes);
        Ok(destaged)
    }

    /// Separates the files whose bodies wait in their records (are staged inline) from those for
    /// which that is no longer so. For files that have lost their names only the orphan is read. A
    /// file whose record cannot be decoded is in neither list and keeps its mark.
    async fn movers(&self, inos: &[Ino]) -> Result<(Vec<Mover>, Vec<NotStaged>), VolumeError> {
        // Orphans are read first, so that the larger inode records of deleted files are not read at
        // all.
        let record = |key| Read::Record { key, follow: None };
        let reads: Vec<Read> = inos.iter().map(|ino| record(key::orphan(*ino))).collect();
        let leaving = self.session.store().read(&reads).await?;
        let (mut staying, mut gone) = (Vec::new(), Vec::new());
        for (ino, leaving) in inos.iter().zip(&leaving) {
            match value(Some(leaving)) {
                Some(_) => {
                    gone.push(NotStaged { ino: *ino, guard: Guard::Present(key::orphan(*ino)) });
                }
                None => staying.push(*ino),
            }
        }
        if staying.is_empty() {
            return Ok((Vec::new(), gone));
        }
        let mut movers = Vec::with_capacity(staying.len());
        for (ino, found) in self.inodes(staying).await? {
            let at = key::inode(ino);
            let Some(record) = found else {
                gone.push(NotStaged { ino, guard: Guard::Absent(at) });
                continue;
            };
            match Inode::decode(&at, &record).map(|inode| Mover::new(ino, record.clone(), inode)) {
                Ok(Some(mover)) => movers.push(mover),
                Ok(None) => gone.push(NotStaged { ino, guard: Guard::Equals(at, record) }),
                Err(error) => {
                    warn!(ino = ino.0, %error, "the record of a file to destage cannot be read");
                }
            }
        }
        Ok((movers, gone))
    }

    /// Reads the inodes' records in one round trip. If one of them is damaged, the store may fail
    /// the whole read. Then each is read by itself, and the damaged ones are left out.
    async fn inodes(&self, inos: Vec<Ino>) -> Result<Vec<(Ino, Option<Value>)>, VolumeError> {
        let store = self.session.store();
        let read = |ino: &Ino| Read::Record { key: key::inode(*ino), follow: None };
        match store.read(&inos.iter().map(read).collect::<Vec<_>>()).await {
            Ok(found) => {
                let records = found.iter().map(|found| value(Some(found)));
                return Ok(inos.into_iter().zip(records).collect());
            }
            Err(error) if error.kind() == StoreErrorKind::Corrupt => {}
            Err(error) => return Err(error.into()),
        }
        let mut records = Vec::with_capacity(inos.len());
        for ino in inos {
            match store.read(&[read(&ino)]).await {
                Ok(found) => records.push((ino, value(found.first()))),
                Err(error) if error.kind() == StoreErrorKind::Corrupt => {
                    warn!(ino = ino.0, %error, "the record of a file to destage cannot be read");
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(records)
    }

    /// Puts the bodies into one block, and makes the files' inodes reference it. Adds the files
    /// whose bodies stay in their records to `refused`.
    async fn move_all(
        &self,
        movers: &[Mover],
        reading: &ReaderGuard,
        refused: &mut Vec<Ino>,
    ) -> Result<Destaged, VolumeError> {
        let several = movers.len() > 1;
        let id =
            if several { self.staging.ids.allocate_pack() } else { self.staging.ids.allocate() };
        let length = |mover: &Mover| u32::try_from(mover.bytes.len()).unwrap_or(u32::MAX);
        let total: u32 = movers.iter().map(length).sum();
        let _permit =
            self.staging.budget.acquire(u64::from(total), self.staging.deadlines.block).await?;
        let (mut sealer, mut places) = (Sealer::new(id, total), Vec::with_capacity(movers.len()));
        for mover in movers {
            places.push((sealer.len(), length(mover)));
            sealer.push(mover.bytes.clone());
        }
        let block = sealer.finish();
        self.put_pack(&block).await?;
        let BlockRef { id: block_id, length: block_length, crc32c: block_crc32c } =
            block.reference();
        let plans = movers.iter().zip(places).map(|(mover, (offset, length))| {
            mover.plan(Slice {
                position: 0,
                block: block_id,
                block_length,
                block_crc32c,
                offset,
                length,
            })
        });
        let outcomes: Vec<Outcome> = stream::iter(plans.collect::<Vec<Plan>>())
            .map(|plan| async { self.session.commit_reading(plan, reading.clone()).await })
            .buffered(BODIES_AT_ONCE)
            .collect()
            .await;
        let (mut destaged, mut certain, mut failed) = (Destaged::default(), true, None);
        for (mover, outcome) in movers.iter().zip(outcomes) {
            match outcome {
                Outcome::Committed => {
                    destaged.bodies += 1;
                    destaged.bytes += mover.bytes.len() as u64;
                }
                Outcome::Refused { .. } | Outcome::Aborted(_) => {
                    destaged.refused += 1;
                    refused.push(mover.ino);
                }
                Outcome::Failed(error) => {
                    certain &= !matches!(error, VolumeError::Unknown(_));
                    failed = Some(error);
                }
            }
        }
        // The block may be deleted only if no swap was committed and none can be committed any
        // more.
        if destaged.bodies == 0 && certain {
            self.delete_pack(block.id()).await;
        } else {
            self.remember_destaged(&block);
        }
        failed.map_or(Ok(destaged), Err)
    }

    /// Adds the block to the cache, because new content is likely to be read soon.
    fn remember_destaged(&self, block: &SealedBlock) {
        for sub_block in block.sub_blocks() {
            self.staging.reader.remember(block.id(), &sub_block);
        }
    }

    async fn commit_destaging(&self, plan: Plan, reading: &ReaderGuard) -> Result<(), VolumeError> {
        match self.session.commit_reading(plan, reading.clone()).await {
            Outcome::Committed | Outcome::Refused { .. } => Ok(()),
            Outcome::Aborted(why) => Err(VolumeError::Unavailable(why)),
            Outcome::Failed(error) => Err(error),
        }
    }
}

/// Destages bodies when they are due, until the volume is closed.
pub(crate) async fn run_destager(volume: Weak<Upkeep>) {
    let mut survey = Instant::now() + SURVEY_DELAY;
    loop {
        let Some(alive) = volume.upgrade() else { return };
        let (closing, staged_inline) =
            (alive.session.closing().clone(), Arc::clone(&alive.staging.staged_inline));
        drop(alive);
        let due = staged_inline.next_due();
        tokio::select! {
            () = closing.cancelled() => return,
            () = tokio::time::sleep_until(due.unwrap_or(survey).min(survey)) => {}
            // With an empty list there is no due time to sleep until, so the first added body wakes
            // the task.
            () = staged_inline.added(), if due.is_none() => continue,
        }
        let Some(alive) = volume.upgrade() else { return };
        if alive.session.is_fenced() {
            return;
        }
        // Marks of other sessions are read seldom, because usually each gateway destages its own
        // bodies.
        let marked = Instant::now() >= survey;
        let destaging = async {
            let step = alive.session.throttle().begin_step(Priority::Background);
            let until = Instant::now().checked_sub(DESTAGE_DELAY).unwrap_or_else(Instant::now);
            let own = alive.destage_some(until).await?.unwrap_or_default();
            let found = if marked { alive.destage_marked().await? } else { Destaged::default() };
            alive.session.throttle().pause_after(step).await;
            Ok::<_, VolumeError>((own, found))
        };
        match destaging.await {
            Ok((own, found)) => debug!(?own, ?found, "bodies destaged"),
            Err(error) => {
                warn!(%error, "destaging failed; retrying later");
                tokio::select! {
                    () = closing.cancelled() => return,
                    () = tokio::time::sleep(RETRY_PAUSE) => {}
                }
                continue;
            }
        }
        if marked {
            survey = Instant::now() + SURVEY_INTERVAL;
        }
    }
}
