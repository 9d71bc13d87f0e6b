//! Blocks that no record names yet, and who deletes them.
//!
//! Every block that a writer puts is claimed first. While a claim is armed, dropping its last
//! owner deletes the blocks in a task of the volume: the writer, the staged content and each put
//! under way are owners, so nothing is deleted while it may still be written. A claim is disarmed
//! before a plan that names its blocks is sent, and armed again only when it is known that no
//! such plan can commit.
//!
//! A block that several contents share has a claim of its own, which each of theirs holds. It
//! deletes the block if every one of them was dropped armed.
//!
//! A put that was given up at its deadline may still land after the deletion. Such a block, and
//! one that could not be deleted, is deleted again later: see [`LateBlocks`].

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use block::{BLOCK_BYTES_MAX, BlockError, BlockErrorKind, BlockReader, BlockStore};
use futures::StreamExt;
use futures::stream;
use record::{BlockId, Content, Ino, Roster};
use tracing::warn;

use super::{
    BlockIds, ByteBudget, Deadlines, LateBlocks, Numbers, Packer, Place, Resting, Traffic,
};
use runtime::Tasks;

/// Blocks of one abandoned content that are deleted at the same time.
const DELETES_AT_ONCE: usize = 4;

/// How often the deletion of one block is tried before it is left for later.
const DELETE_TRIES: u32 = 3;

/// The pause before the second try; it doubles from there.
const DELETE_PAUSE: Duration = Duration::from_secs(1);

/// Something that is held until it is dropped.
pub type Pin = Box<dyn Debug + Send + Sync>;

/// Keeps blocks that plans may come to name from those who delete what nobody names.
pub trait Pins: Debug + Send + Sync {
    /// From now on, until what is answered is dropped.
    fn pin(self: Arc<Self>) -> Pin;
}

/// What all writers of a session share.
#[derive(Debug)]
pub struct Staging {
    /// Where blocks are put.
    pub blocks: Arc<dyn BlockStore>,
    /// What reads blocks, and may remember what was put.
    pub reader: Arc<dyn BlockReader>,
    /// The ids of the session.
    pub ids: BlockIds,
    /// Where the numbers on packs' rosters come from.
    pub numbers: Arc<dyn Numbers>,
    /// What bodies on their way in may hold in memory.
    pub budget: ByteBudget,
    /// Where puts and deletions run.
    pub tasks: Tasks,
    /// Content bytes of a full block. What is beyond the limits of a block counts as the limit.
    pub block_bytes: u32,
    /// Up to how many bytes a body stands in its record instead of in blocks.
    pub inline_bytes_max: u32,
    /// Where small bodies wait to share a block.
    pub packer: Packer,
    /// Small bodies that came alone.
    pub resting: Arc<Resting>,
    /// Blocks that may land after they were deleted.
    pub late: Arc<LateBlocks>,
    /// What a pack pins while plans may come to name it.
    pub pins: Arc<dyn Pins>,
    /// How long to wait.
    pub deadlines: Deadlines,
    /// What happened.
    pub traffic: Arc<Traffic>,
}

impl Staging {
    pub(super) fn block_bytes(&self) -> u32 {
        self.block_bytes.clamp(1, BLOCK_BYTES_MAX)
    }
}

/// The blocks of one content, and whether dropping them deletes them.
///
/// They begin armed. Only what can no longer be named by any plan may be armed again: after a
/// plan whose outcome is not known, disarmed blocks belong to the sweeper.
#[derive(Debug)]
pub struct StagedBlocks(pub(super) Arc<Claim>);

impl StagedBlocks {
    /// From now on a plan may name the blocks: dropping them deletes nothing.
    pub fn disarm(&mut self) {
        self.0.armed.store(false, Ordering::SeqCst);
    }

    /// No plan that names the blocks can commit: dropping them deletes them again.
    pub fn rearm(&mut self) {
        self.0.armed.store(true, Ordering::SeqCst);
    }

    /// The blocks, in the order of their ids; those shared with other contents come last.
    pub fn ids(&self) -> Vec<BlockId> {
        let own: Vec<BlockId> = self.0.ids().iter().copied().collect();
        let shared = self.0.shared.get().map(|claim| claim.ids().iter().copied().collect());
        [own, shared.unwrap_or_default()].concat()
    }
}

/// The shared part of [`StagedBlocks`]: the writer and each put under way hold it too.
#[derive(Debug)]
pub(super) struct Claim {
    staging: Arc<Staging>,
    ids: Mutex<BTreeSet<BlockId>>,
    /// Those of them of which it is not known whether they were put, or will be.
    unsure: Mutex<BTreeSet<BlockId>>,
    armed: AtomicBool,
    /// The claim on a block that other contents lie in too.
    shared: OnceLock<Arc<Claim>>,
    /// Keeps the reaper from what plans under way may come to name.
    _pin: Option<Pin>,
}

impl Claim {
    pub(super) fn new(staging: Arc<Staging>) -> Arc<Claim> {
        Claim::with_pin(staging, None)
    }

    /// A claim that several contents are going to share.
    pub(super) fn pinned(staging: &Arc<Staging>) -> Arc<Claim> {
        Claim::with_pin(Arc::clone(staging), Some(Arc::clone(&staging.pins).pin()))
    }

    fn with_pin(staging: Arc<Staging>, pin: Option<Pin>) -> Arc<Claim> {
        let (ids, armed, shared) = (Mutex::default(), AtomicBool::new(true), OnceLock::new());
        Arc::new(Claim { staging, ids, unsure: Mutex::default(), armed, shared, _pin: pin })
    }

    /// Makes this content one of those that share a block; once at most.
    pub(super) fn join(&self, shared: Arc<Claim>) {
        let joined = self.shared.set(shared);
        debug_assert!(joined.is_ok(), "a content lies in one pack");
    }

    /// Before a block is put.
    pub(super) fn add(&self, id: BlockId) {
        self.ids().insert(id);
    }

    /// When a put was given up, or its answer was lost: it may happen yet.
    pub(super) fn doubt(&self, id: BlockId) {
        self.unsure.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
    }

    /// When the bytes under an id are not ours.
    pub(super) fn forget(&self, id: BlockId) {
        self.ids().remove(&id);
    }

    /// The set is whole between any two statements, so a panic elsewhere leaves it usable.
    fn ids(&self) -> MutexGuard<'_, BTreeSet<BlockId>> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let armed = self.armed.load(Ordering::SeqCst);
        if let Some(shared) = self.shared.get()
            && !armed
        {
            // A plan that was sent may have named it: not the writers' to delete any more.
            shared.armed.store(false, Ordering::SeqCst);
        }
        let ids = mem::take(&mut *self.ids());
        if armed && !ids.is_empty() {
            let staging = Arc::clone(&self.staging);
            let unsure =
                mem::take(&mut *self.unsure.lock().unwrap_or_else(PoisonError::into_inner));
            drop(self.staging.tasks.spawn("delete staged blocks", delete(staging, ids, unsure)));
        }
    }
}

async fn delete(staging: Arc<Staging>, ids: BTreeSet<BlockId>, unsure: BTreeSet<BlockId>) {
    let (staging, unsure) = (&staging, &unsure);
    stream::iter(ids)
        .for_each_concurrent(DELETES_AT_ONCE, async |id| match delete_one(staging, id).await {
            Ok(()) => {
                staging.traffic.abandoned.add(1);
                if unsure.contains(&id) {
                    staging.late.note(id);
                }
            }
            Err(error) => {
                staging.traffic.left_behind.add(1);
                let again = staging.late.note(id);
                warn!(block = %id, again, %error, "a staged block could not be deleted");
            }
        })
        .await;
}

async fn delete_one(staging: &Staging, id: BlockId) -> Result<(), BlockError> {
    let mut pause = DELETE_PAUSE;
    let mut tries = 1;
    loop {
        let deleting = tokio::time::timeout(staging.deadlines.block, staging.blocks.delete(id));
        let error = match deleting.await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => error,
            Err(late) => {
                let doing = format!("deleting block {id}");
                BlockError::because(BlockErrorKind::Unavailable, doing, late)
            }
        };
        if tries == DELETE_TRIES || error.kind() == BlockErrorKind::Refused {
            return Err(error);
        }
        tokio::time::sleep(pause).await;
        pause *= 2;
        tries += 1;
    }
}

/// A whole body, durable, that no record names yet. Dropping it deletes its blocks in the
/// background, unless it was disarmed.
#[derive(Debug)]
#[must_use = "what is not published is deleted"]
pub struct StagedContent {
    content: Content,
    size: u64,
    blocks: StagedBlocks,
    /// Of a body that is to rest in its record.
    place: Option<Place>,
    /// Of a body in a pack with a roster.
    listed: Option<Listed>,
    md5: Option<[u8; 16]>,
}

/// The place of a body on the roster of its pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The number that is the body's: the file that it becomes needs no record of its share.
    pub ino: Ino,
    /// The roster.
    pub roster: Roster,
}

impl StagedContent {
    pub(super) fn new(
        content: Content,
        size: u64,
        blocks: StagedBlocks,
        place: Option<Place>,
        listed: Option<Listed>,
    ) -> StagedContent {
        StagedContent { content, size, blocks, place, listed, md5: None }
    }

    pub(super) fn with_md5(self, md5: Option<[u8; 16]>) -> StagedContent {
        StagedContent { md5, ..self }
    }

    /// The body's MD5, if the writer was [asked](super::ContentWriter::ask_md5) for it and had it to
    /// tell.
    pub fn md5(&self) -> Option<[u8; 16]> {
        self.md5
    }

    /// The body's place on its pack's roster. Whoever makes a file of it gives the file this number;
    /// what becomes of it otherwise has a share of the pack.
    pub fn listed(&self) -> Option<Listed> {
        self.listed
    }

    /// Takes what says that the body is to rest, for whoever makes it a file's.
    pub fn take_place(&mut self) -> Option<Place> {
        self.place.take()
    }

    /// Bytes of the body.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The body: inline, or any number of slices in the order of their positions. Never pages:
    /// laying them out is the publisher's business.
    pub fn content(&self) -> &Content {
        &self.content
    }

    /// See [`StagedBlocks::disarm`].
    pub fn disarm(&mut self) {
        self.blocks.disarm();
    }

    /// See [`StagedBlocks::rearm`].
    pub fn rearm(&mut self) {
        self.blocks.rearm();
    }

    /// The body, and the blocks behind it with their state.
    pub fn into_parts(self) -> (Content, StagedBlocks) {
        (self.content, self.blocks)
    }
}
