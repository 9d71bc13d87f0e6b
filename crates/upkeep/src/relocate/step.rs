//! One step of the relocator: copies a batch into a new block, puts it, and lets the files name it.
//!
//! For example, a step copies 6 MiB of five sparse packs, puts the new pack, and commits one plan
//! for each of 80 files. If a program has changed one of the files meanwhile, that file stays as it
//! is, and the other 79 move.

use std::collections::BTreeSet;
use std::ops::{AddAssign, ControlFlow};

use block::{BlockErrorKind, BlockRef, SealedBlock};
use futures::{StreamExt, stream};
use namespace::{DestageContent, FsError, RelocateContent, Relocated};
use record::{BlockId, Ino};
use session::{ReaderGuard, VolumeError};
use tracing::warn;

use super::batch::{Batch, Owner};
use super::copy::Copy;
use crate::upkeep::Upkeep;

/// Files whose references are changed at the same time.
const OWNERS_AT_ONCE: usize = 64;

/// The result of moving content to new blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// Sources out of which bytes were moved: bodies in records, sparse packs, or files with mostly
    /// hidden blocks.
    pub sources: u64,
    /// Bytes of files that were moved.
    pub bytes: u64,
    /// Plans that were refused because the file had changed. A file with mostly hidden blocks is
    /// planned again at once, and the others in a later step.
    pub refused: u64,
    /// Sources that were left alone: bodies that have been removed or moved, and sparse packs that
    /// cannot be read or have an owner that cannot be moved.
    pub skipped: u64,
}

impl AddAssign for Moves {
    fn add_assign(&mut self, more: Moves) {
        self.sources += more.sources;
        self.bytes += more.bytes;
        self.refused += more.refused;
        self.skipped += more.skipped;
    }
}

/// The result of one step of the relocator, which fills one new block.
#[derive(Clone, Copy, Debug, Default)]
pub struct RelocationStep {
    /// The sources and bytes that were moved or not.
    pub done: Moves,
    /// Bytes of blocks that were read and written.
    pub traffic: u64,
}

/// The result of relocating a batch.
#[derive(Debug, Default)]
pub(super) struct Settled {
    /// The traffic and the moves. Each file that moved counts as a source.
    pub(super) step: RelocationStep,
    /// The files that stayed, because programs changed them meanwhile.
    pub(super) stayed: BTreeSet<Ino>,
    /// The blocks that cannot be read.
    pub(super) damaged: BTreeSet<BlockId>,
    /// The new block, if a file names it.
    pub(super) block: Option<BlockRef>,
}

impl Upkeep {
    /// Copies the bytes of a batch into one new block, and lets each of its files name the copy, by
    /// a plan of its own. Blocks that cannot be read are left out of the batch.
    ///
    /// The caller has pinned the epoch by `reading` before it read the records. The pin is held
    /// until the outcome of the last plan is known: no block or page that was found is deleted, and
    /// a new pack is not reaped before its last owner has settled (see the reaper's `release`).
    ///
    /// # Errors
    /// If a store cannot be reached or the copy differs. Then some of the files may have moved.
    pub(super) async fn relocate(
        &self,
        batch: &mut Batch,
        reading: &ReaderGuard,
    ) -> Result<Settled, VolumeError> {
        let mut settled = Settled::default();
        let timeout = self.staging.deadlines.block;
        let _permit = self.staging.budget.acquire(batch.memory(), timeout).await?;
        let copy = loop {
            if batch.owners.is_empty() {
                return Ok(settled);
            }
            match self.copy(batch).await? {
                ControlFlow::Continue(copy) => break copy,
                ControlFlow::Break(damaged) => {
                    batch.leave_out(damaged);
                    settled.damaged.insert(damaged);
                }
            }
        };
        // Inode numbers and the put come before any plan, so that a failure leaves all files in
        // place. A content that was staged inline leaves no old references, and needs no number.
        let hides = batch.owners.values().filter(|owner| owner.body.is_none()).count();
        let mut hidden = self.session.allocate_inodes(hides).await?.into_iter();
        self.put_block(&copy.block).await?;
        settled.step.traffic = copy.traffic;
        let moving = batch.owners.iter().map(|(ino, owner)| {
            let hidden_ino = owner.body.is_none().then(|| hidden.next()).flatten();
            self.move_owner(*ino, owner, hidden_ino.unwrap_or(*ino), batch, &copy, reading)
        });
        let moving = stream::iter(moving.collect::<Vec<_>>()).buffered(OWNERS_AT_ONCE);
        self.settle(moving.collect().await, &copy, settled).await
    }

    /// Lets a file name the copy of its bytes. Returns the file, the number of refused plans, and
    /// the bytes that moved.
    async fn move_owner(
        &self,
        ino: Ino,
        owner: &Owner,
        hidden_ino: Ino,
        batch: &Batch,
        copy: &Copy,
        reading: &ReaderGuard,
    ) -> (Ino, u32, Result<Relocated, VolumeError>) {
        let (session, most) = (&self.session, batch.refusals_max);
        let (refused, result) = match (&owner.record, copy.bodies.get(&ino)) {
            (Some(record), Some(to)) => {
                let destage = DestageContent { ino, record, to: *to };
                session.run_in_background(&destage, reading, most).await
            }
            (record, _) => {
                let (record, to, within) = (record.as_ref(), &copy.to, batch.within.clone());
                let relocate = RelocateContent { ino, record, to, within, hidden_ino };
                session.run_in_background(&relocate, reading, most).await
            }
        };
        (ino, refused, result)
    }

    /// Evaluates the results of a batch's plans. Deletes the new block if no file can name it.
    async fn settle(
        &self,
        results: Vec<(Ino, u32, Result<Relocated, VolumeError>)>,
        copy: &Copy,
        mut settled: Settled,
    ) -> Result<Settled, VolumeError> {
        let (mut certain, mut failed) = (true, None);
        let done = &mut settled.step.done;
        for (ino, refused, result) in results {
            done.refused += u64::from(refused);
            match result {
                Ok(Relocated { bytes, .. }) if bytes > 0 => {
                    done.bytes += bytes;
                    done.sources += 1;
                }
                // The file names none of the copied bytes any more, or is gone.
                Ok(_) | Err(VolumeError::Fs(FsError::Stale)) => {}
                Err(VolumeError::Fs(FsError::Contended)) => {
                    settled.stayed.insert(ino);
                }
                Err(error) => {
                    certain &= !matches!(error, VolumeError::Unknown(_));
                    failed = Some(error);
                }
            }
        }
        if done.bytes > 0 {
            settled.block = Some(copy.block.reference());
            if copy.bodies.is_empty() {
                self.session.wake_reaper();
            }
            // New content is likely to be read soon.
            for sub_block in copy.block.sub_blocks().filter(|_| !copy.bodies.is_empty()) {
                self.staging.reader.remember(copy.block.id(), &sub_block);
            }
        } else if certain {
            // No plan that names the block can be committed any more.
            self.delete_block(copy.block.id()).await;
        }
        failed.map_or(Ok(settled), Err)
    }

    /// Puts a block. Returns when it is durable.
    async fn put_block(&self, block: &SealedBlock) -> Result<(), VolumeError> {
        match tokio::time::timeout(self.staging.deadlines.block, self.blocks.put(block)).await {
            Ok(Ok(_)) => {
                self.staging.traffic.puts.add(1);
                self.staging.traffic.put_bytes.add(u64::from(block.length()));
                return Ok(());
            }
            // Another writer's bytes have this id, so they must not be deleted.
            Ok(Err(error)) if error.kind() == BlockErrorKind::Conflict => {
                self.staging.traffic.conflicts.add(1);
                return Err(error.into());
            }
            Ok(Err(error)) => warn!(block = %block.id(), %error, "the put of a new block failed"),
            Err(_late) => warn!(block = %block.id(), "the put of a new block timed out"),
        }
        self.staging.traffic.failed_puts.add(1);
        self.delete_block(block.id()).await;
        // The put may still be executed after the deletion.
        self.staging.late.note(block.id());
        Err(VolumeError::Unavailable(format!("the put of block {} failed", block.id())))
    }

    /// Deletes a block that no record references. If that fails, it is deleted later.
    async fn delete_block(&self, id: BlockId) {
        match tokio::time::timeout(self.staging.deadlines.block, self.blocks.delete(id)).await {
            Ok(Ok(())) => self.staging.traffic.abandoned.add(1),
            Ok(Err(_)) | Err(_) => {
                self.staging.traffic.left_behind.add(1);
                let again = self.staging.late.note(id);
                warn!(block = %id, again, "deleting an unused new block failed");
            }
        }
    }
}
