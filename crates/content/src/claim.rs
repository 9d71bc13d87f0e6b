//! Ownership of blocks that no record references yet.
//!
//! Every block that a writer puts is first added to a claim. While a claim is armed, dropping its
//! last owner deletes the blocks in a task of the volume. The owners are the writer, the staged
//! content and each put under way, so nothing is deleted while it may still be written.
//!
//! ```text
//!             disarm (before a plan that references the blocks is sent)
//!    armed ------------------------------------------------------------> disarmed
//!          <------------------------------------------------------------
//!             rearm (once no such plan can commit)
//!    dropped armed: the blocks are deleted    dropped disarmed: the blocks stay
//! ```
//!
//! **Invariant.** A block is never deleted while a plan that references it may commit.
//!
//! A block that several contents share has a claim of its own, which the claims of these contents
//! hold. It deletes the block only if all of them were dropped armed. For example, if ten bodies
//! share a pack and one of their plans was sent with an unknown outcome, the pack stays.
//!
//! A put that timed out may still be executed after the deletion. Such a block, and a block whose
//! deletion failed, is deleted again later: see [`LateBlocks`](crate::LateBlocks).

use std::collections::BTreeSet;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use block::{BlockError, BlockErrorKind};
use futures::StreamExt;
use futures::stream;
use publication::{Pin, StagedBlocks};
use record::BlockId;
use tracing::warn;

use crate::staging::Staging;

/// The deletions of one abandoned content's blocks that run at the same time.
const DELETES_AT_ONCE: usize = 4;

/// The tries to delete one block before the deletion is left to a later retry.
const DELETE_TRIES: u32 = 3;

/// The pause before the second try. It doubles before each further try.
const DELETE_PAUSE: Duration = Duration::from_secs(1);

/// The claim on the blocks of one content: the ownership of blocks that no record references yet.
/// While it is armed, dropping it deletes the blocks; while it is disarmed, they stay.
///
/// A new claim is armed. After it was disarmed it may be armed again only if no plan that
/// references the blocks can be committed any more. After a plan with an unknown outcome the claim
/// stays disarmed, and the sweeper deletes the blocks if no record references them.
#[derive(Debug)]
pub struct BlockClaim(pub(crate) Arc<Claim>);

impl BlockClaim {
    /// Disarms the claim on the blocks, so that dropping it deletes nothing. Called before a plan
    /// that references the blocks is sent.
    pub fn disarm(&mut self) {
        self.0.disarm();
    }

    /// Arms the claim on the blocks again, so that dropping it deletes them. Called once no plan
    /// that references the blocks can be committed.
    pub fn rearm(&mut self) {
        self.0.rearm();
    }

    /// Returns the ids of the blocks, sorted; ids of blocks that are shared with other contents
    /// come last.
    pub fn ids(&self) -> Vec<BlockId> {
        let own: Vec<BlockId> = self.0.ids().iter().copied().collect();
        let shared = self.0.shared.get().map(|claim| claim.ids().iter().copied().collect());
        [own, shared.unwrap_or_default()].concat()
    }
}

/// The shared part of [`BlockClaim`]: the ownership of blocks that no record references yet. The
/// writer and each put under way hold it, too.
#[derive(Debug)]
pub(crate) struct Claim {
    staging: Arc<Staging>,
    ids: Mutex<BTreeSet<BlockId>>,
    /// The blocks whose put timed out or failed. The store may have them or may still create them,
    /// so they are deleted again later.
    uncertain: Mutex<BTreeSet<BlockId>>,
    armed: AtomicBool,
    /// The claim on the block (a pack) that this content shares with others, if there is one.
    shared: OnceLock<Arc<Claim>>,
    /// For a shared block: pins the epoch, so that the reaper deletes no block that plans under way
    /// may reference.
    _pin: Option<Pin>,
}

impl Claim {
    pub(crate) fn new(staging: Arc<Staging>) -> Arc<Claim> {
        Claim::with_pin(staging, None)
    }

    /// Creates a claim on a block that several contents are going to share. It pins the current
    /// epoch, so that the reaper does not delete the block while their plans are under way.
    pub(crate) fn pinned(staging: &Arc<Staging>) -> Arc<Claim> {
        Claim::with_pin(Arc::clone(staging), Some(Arc::clone(&staging.pins).pin()))
    }

    fn with_pin(staging: Arc<Staging>, pin: Option<Pin>) -> Arc<Claim> {
        let (ids, armed, shared) = (Mutex::default(), AtomicBool::new(true), OnceLock::new());
        Arc::new(Claim { staging, ids, uncertain: Mutex::default(), armed, shared, _pin: pin })
    }

    /// Makes this content a member of a shared block, whose claim is `shared`. Called at most once
    /// for a content.
    pub(crate) fn join(&self, shared: Arc<Claim>) {
        let joined = self.shared.set(shared);
        debug_assert!(joined.is_ok(), "a content is in one pack");
    }

    /// Adds a block to those that are deleted if this claim is dropped armed. Called before the
    /// block is put.
    pub(crate) fn add(&self, id: BlockId) {
        self.ids().insert(id);
    }

    /// Records that the outcome of a block's put is unknown: it may still be executed after the
    /// block was deleted.
    pub(crate) fn mark_uncertain(&self, id: BlockId) {
        self.uncertain.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
    }

    /// Removes a block from those that this claim deletes, because the store has bytes of another
    /// writer under its id.
    pub(crate) fn disown(&self, id: BlockId) {
        self.ids().remove(&id);
    }

    /// Each statement leaves the set consistent, so a poisoned lock is still usable.
    fn ids(&self) -> MutexGuard<'_, BTreeSet<BlockId>> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StagedBlocks for Claim {
    fn disarm(&self) {
        self.armed.store(false, Ordering::SeqCst);
    }

    fn rearm(&self) {
        self.armed.store(true, Ordering::SeqCst);
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let armed = self.armed.load(Ordering::SeqCst);
        if let Some(shared) = self.shared.get()
            && !armed
        {
            // A plan that was sent may reference the shared block, so no writer may delete it any
            // more.
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
    // A deletion that succeeded is enough only if the put is known to have ended. Otherwise the
    // block may be created after it.
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
                let will_retry = staging.late.note(id);
                warn!(block = %id, will_retry, %error, "deleting a staged block failed");
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
                BlockError::with_cause(BlockErrorKind::Unavailable, doing, late)
            }
        };
        // A store that refuses the operation, for example for lack of permissions, refuses it
        // again.
        if tries == DELETE_TRIES || error.kind() == BlockErrorKind::Refused {
            return Err(error);
        }
        tokio::time::sleep(pause).await;
        pause *= 2;
        tries += 1;
    }
}
