//! Destages bodies that are staged inline: moves them from their inodes' records into blocks.
//!
//! All bodies that are due go into one block, and each file's inode is swapped in a plan of its
//! own, under the guard of its exact record. The block is durable before any of these plans is
//! sent. The plan of a file that was removed or replaced meanwhile is refused. Mostly that is seen
//! before anything is read, and then the body goes into no block.
//!
//! Each file that is staged inline has a mark in the metadata store, written by the plan that
//! publishes it and removed by the plan that destages it. So what a gateway leaves behind when it
//! ends is found: every gateway looks for marks a while after its start, and now and then. Two that
//! destage the same file do no harm: of two swaps one is refused, and leaves dead bytes in its
//! block at most.

use std::sync::{Arc, Weak};
use std::time::Duration;

use block::{BlockRef, SealedBlock, Sealer};
use bytes::Bytes;
use content::{DESTAGE_DELAY, STAGED_INLINE_BODY_BYTES_MAX, StagedBody};
use futures::StreamExt;
use futures::stream;
use namespace::join_packs;
use record::{Content, Ino, Inode, InodeBody, Slice, key, key::space};
use session::scan::ino_of;
use session::{Outcome, Priority, ReaderGuard, VolumeError, closing, value};
use store::{Guard, Plan, Read, StoreErrorKind, Value, Write};
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::reaper::after;
use crate::repack::{SURVEY_DELAY, SURVEY_INTERVAL};
use crate::upkeep::Upkeep;

/// Bodies that are destaged together.
const BODIES_AT_ONCE: usize = 64;

/// Bytes that are destaged together, and so those of a block.
const BYTES_AT_ONCE: u64 = 4 << 20;
const _: () = assert!(STAGED_INLINE_BODY_BYTES_MAX <= BYTES_AT_ONCE);

/// The pause after a failure.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

/// What was destaged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Destaged {
    /// Bodies that lie in blocks now.
    pub bodies: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bodies that were gone by then.
    pub gone: u64,
    /// Bodies that stay as they were, because something else of their files changed meanwhile.
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

/// A file that is to be destaged.
#[derive(Debug)]
struct Mover {
    ino: Ino,
    record: Value,
    inode: Inode,
    bytes: Bytes,
}

impl Mover {
    /// `None` if the file is not staged inline.
    fn new(ino: Ino, record: Value, inode: Inode) -> Option<Mover> {
        let content = &inode.file()?.content;
        match content {
            Content::Inline(bytes) if content.is_staged_inline() => {
                Some(Mover { ino, record, bytes: bytes.clone(), inode })
            }
            Content::Inline(_) | Content::Slices(_) | Content::Pages(_) => None,
        }
    }

    /// The plan that swaps the inode, once its bytes lie in a block.
    fn plan(&self, slice: Slice) -> Plan {
        let at = key::inode(self.ino);
        let mut inode = self.inode.clone();
        if let InodeBody::File(file) = &mut inode.body {
            file.content = Content::Slices(vec![slice]);
        }
        let mut writes = vec![Write::Put(at.clone(), inode.encode(&at))];
        writes.extend(join_packs(&[slice], self.ino));
        writes.push(Write::Delete(key::staged_inline(self.ino)));
        Plan { guards: vec![Guard::Equals(at, self.record.clone())], writes }
    }
}

/// A file that is not staged inline any more, and the guard that it is as it was read to be.
#[derive(Debug)]
struct Gone {
    ino: Ino,
    guard: Guard,
}

impl Gone {
    /// The plan that removes the mark. A file that is staged inline after all keeps its mark, and
    /// is found again.
    fn plan(self) -> Plan {
        Plan { guards: vec![self.guard], writes: vec![Write::Delete(key::staged_inline(self.ino))] }
    }
}

impl Upkeep {
    /// Destages every body, of whatever session, and however long it has been staged inline.
    ///
    /// # Errors
    /// If a store cannot be reached; what was destaged until then stays destaged.
    pub async fn destage_now(&self) -> Result<Destaged, VolumeError> {
        let (mut all, until) = (Destaged::default(), Instant::now());
        while let Some(own) = self.destage_some(until).await? {
            all.add(own);
        }
        all.add(self.destage_marked().await?);
        Ok(all)
    }

    /// Destages bodies of this session that have been staged inline since `until`; `None` if there
    /// are none.
    async fn destage_some(&self, until: Instant) -> Result<Option<Destaged>, VolumeError> {
        let staged_inline = &self.staging.staged_inline;
        let bodies = staged_inline.take(until, BODIES_AT_ONCE, BYTES_AT_ONCE);
        if bodies.is_empty() {
            return Ok(None);
        }
        let inos: Vec<Ino> = bodies.iter().map(|body| body.ino).collect();
        let mut refused = Vec::new();
        let destaged = self.destage_files(&inos, &mut refused).await;
        let stays = |body: &StagedBody| destaged.is_err() || refused.contains(&body.ino);
        for body in bodies {
            if stays(&body) { staged_inline.put_back(body) } else { staged_inline.remove(body) }
        }
        destaged.map(Some)
    }

    /// Destages bodies that are marked, whoever left them.
    async fn destage_marked(&self) -> Result<Destaged, VolumeError> {
        let mut all = Destaged::default();
        let (mut start, end) = key::partition(space::STAGED_INLINE, 0);
        // Even the longest bodies are no more than are destaged together.
        let most = usize::try_from(BYTES_AT_ONCE / STAGED_INLINE_BODY_BYTES_MAX).unwrap_or(1);
        loop {
            let limit = self.session.limits().range_records.min(u32::try_from(most).unwrap_or(1));
            let page = self.read_range(start, end.clone(), limit).await?;
            let Some(last) = page.last() else { return Ok(all) };
            start = after(&last.key);
            let inos: Result<Vec<Ino>, _> = page.iter().map(|entry| ino_of(&entry.key)).collect();
            all.add(self.destage_files(&inos?, &mut Vec::new()).await?);
            if self.session.closing().is_cancelled() {
                return Err(closing());
            }
        }
    }

    /// Destages those of these files that are staged inline; `refused` gets those that stay.
    async fn destage_files(
        &self,
        inos: &[Ino],
        refused: &mut Vec<Ino>,
    ) -> Result<Destaged, VolumeError> {
        // From before the block is put until the outcome of the last swap is known: see the
        // reaper's `release`.
        let reading = self.session.reading();
        let (movers, gone) = self.movers(inos).await?;
        let mut destaged = Destaged { gone: gone.len() as u64, ..Destaged::default() };
        let forget = |gone: Gone| self.commit_destaging(gone.plan(), &reading);
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

    /// Which of these files are staged inline, and which are not any more. Of those that have lost
    /// their names only that is read. One that cannot be read is neither: it keeps its mark.
    async fn movers(&self, inos: &[Ino]) -> Result<(Vec<Mover>, Vec<Gone>), VolumeError> {
        let record = |key| Read::Record { key, follow: None };
        let reads: Vec<Read> = inos.iter().map(|ino| record(key::orphan(*ino))).collect();
        let leaving = self.session.store().read(&reads).await?;
        let (mut staying, mut gone) = (Vec::new(), Vec::new());
        for (ino, leaving) in inos.iter().zip(&leaving) {
            match value(Some(leaving)) {
                Some(_) => {
                    gone.push(Gone { ino: *ino, guard: Guard::Present(key::orphan(*ino)) });
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
                gone.push(Gone { ino, guard: Guard::Absent(at) });
                continue;
            };
            match Inode::decode(&at, &record).map(|inode| Mover::new(ino, record.clone(), inode)) {
                Ok(Some(mover)) => movers.push(mover),
                Ok(None) => gone.push(Gone { ino, guard: Guard::Equals(at, record) }),
                Err(error) => {
                    warn!(ino = ino.0, %error, "a file that is staged inline cannot be read");
                }
            }
        }
        Ok((movers, gone))
    }

    /// The inodes' records as they are in the store, in one round trip. If one of them is damaged the
    /// store may fail the whole read: then each is read by itself, and the damaged ones are left out.
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
                    warn!(ino = ino.0, %error, "a file that is staged inline cannot be read");
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(records)
    }

    /// Puts bodies into one block, and lets their files name it.
    async fn move_all(
        &self,
        movers: &[Mover],
        reading: &ReaderGuard,
        refused: &mut Vec<Ino>,
    ) -> Result<Destaged, VolumeError> {
        let several = movers.len() > 1;
        let id = if several { self.staging.ids.draw_pack() } else { self.staging.ids.draw() };
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
        if destaged.bodies == 0 && certain {
            // No plan that names it can be committed any more.
            self.delete_pack(block.id()).await;
        } else {
            self.remember_destaged(&block);
        }
        failed.map_or(Ok(destaged), Err)
    }

    /// What came lately is likely to be read soon.
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

/// Destages bodies as they come due, for as long as the volume lives.
pub(crate) async fn destage_always(volume: Weak<Upkeep>) {
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
            () = staged_inline.added(), if due.is_none() => continue,
        }
        let Some(alive) = volume.upgrade() else { return };
        if alive.session.is_fenced() {
            return;
        }
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
                warn!(%error, "destaging bodies failed; it is tried again");
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
