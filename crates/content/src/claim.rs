//! Blocks that no record names yet, and who deletes them.
//!
//! Every block that a writer puts is claimed first. While a claim is armed, dropping its last owner
//! deletes the blocks in a task of the volume. The writer, the staged content and each put under
//! way are owners, so nothing is deleted while it may still be written. A claim is disarmed before
//! a plan that names its blocks is sent. It is armed again only when it is known that no such plan
//! can commit.
//!
//! A block that several contents share has a claim of its own, which the claim of each content
//! holds. It deletes the block if all of these were dropped armed.
//!
//! A put that was given up at its deadline may still land after the deletion. Such a block, and
//! one that could not be deleted, is deleted again later: see [`LateBlocks`](crate::LateBlocks).

use std::collections::BTreeSet;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use block::{BlockError, BlockErrorKind};
use futures::StreamExt;
use futures::stream;
use record::BlockId;
use tracing::warn;

use crate::staging::{Pin, Staging};

/// Blocks of one abandoned content that are deleted at the same time.
const DELETES_AT_ONCE: usize = 4;

/// How often the deletion of one block is tried before it is left for later.
const DELETE_TRIES: u32 = 3;

/// The pause before the second try; it doubles from there.
const DELETE_PAUSE: Duration = Duration::from_secs(1);

/// The blocks of one content, and whether dropping them deletes them.
///
/// They begin armed. Only what can no longer be named by any plan may be armed again: after a
/// plan whose outcome is not known, disarmed blocks belong to the sweeper.
#[derive(Debug)]
pub struct StagedBlocks(pub(crate) Arc<Claim>);

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
pub(crate) struct Claim {
    staging: Arc<Staging>,
    ids: Mutex<BTreeSet<BlockId>>,
    /// Those of them of which it is not known whether they were put, or will be.
    uncertain: Mutex<BTreeSet<BlockId>>,
    armed: AtomicBool,
    /// The claim on a block that other contents lie in too.
    shared: OnceLock<Arc<Claim>>,
    /// Keeps the reaper from what plans under way may come to name.
    _pin: Option<Pin>,
}

impl Claim {
    pub(crate) fn new(staging: Arc<Staging>) -> Arc<Claim> {
        Claim::with_pin(staging, None)
    }

    /// A claim that several contents are going to share.
    pub(crate) fn pinned(staging: &Arc<Staging>) -> Arc<Claim> {
        Claim::with_pin(Arc::clone(staging), Some(Arc::clone(&staging.pins).pin()))
    }

    fn with_pin(staging: Arc<Staging>, pin: Option<Pin>) -> Arc<Claim> {
        let (ids, armed, shared) = (Mutex::default(), AtomicBool::new(true), OnceLock::new());
        Arc::new(Claim { staging, ids, uncertain: Mutex::default(), armed, shared, _pin: pin })
    }

    /// Makes this content one of those that share a block; once at most.
    pub(crate) fn join(&self, shared: Arc<Claim>) {
        let joined = self.shared.set(shared);
        debug_assert!(joined.is_ok(), "a content lies in one pack");
    }

    /// Before a block is put.
    pub(crate) fn add(&self, id: BlockId) {
        self.ids().insert(id);
    }

    /// When a put was given up, or its answer was lost: it may still happen.
    pub(crate) fn mark_uncertain(&self, id: BlockId) {
        self.uncertain.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
    }

    /// When the bytes under an id belong to somebody else.
    pub(crate) fn disown(&self, id: BlockId) {
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
            // A plan that was sent may have named it, so the writers must not delete it any more.
            shared.armed.store(false, Ordering::SeqCst);
        }
        let ids = mem::take(&mut *self.ids());
        if armed && !ids.is_empty() {
            let staging = Arc::clone(&self.staging);
            let uncertain =
                mem::take(&mut *self.uncertain.lock().unwrap_or_else(PoisonError::into_inner));
            drop(self.staging.tasks.spawn("delete staged blocks", delete(staging, ids, uncertain)));
        }
    }
}

async fn delete(staging: Arc<Staging>, ids: BTreeSet<BlockId>, uncertain: BTreeSet<BlockId>) {
    let (staging, uncertain) = (&staging, &uncertain);
    stream::iter(ids)
        .for_each_concurrent(DELETES_AT_ONCE, async |id| match delete_one(staging, id).await {
            Ok(()) => {
                staging.traffic.abandoned.add(1);
                if uncertain.contains(&id) {
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
