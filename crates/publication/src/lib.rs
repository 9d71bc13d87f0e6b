//! The contract between staged content and the session that publishes it.
//!
//! A writer *stages* a body: it makes the bytes durable as blocks before a record names them. A
//! session *publishes* the body: it commits the plan whose records name the blocks. The writer and
//! the session know this contract, and not each other.
//!
//! - [`StagedBlocks`] is the claim on the blocks of one body. The writer creates it armed, and the
//!   session disarms it before it sends a plan that names the blocks.
//! - [`Pins`] is the way in which a writer keeps blocks from being deleted by the reaper. The
//!   session implements it.
//! - [`ContentError`] is the reason why content could not be written or read. Each caller of both
//!   sides handles it as one of its own errors.
//!
//! **Invariant.** A block is never deleted while a plan that names it may commit.
//!
//! For example, the answer to a PUT's plan is lost. The claim was disarmed before the plan was
//! sent, and stays so until the outcome is certain. If the plan has not committed, the session arms
//! the claim again and drops it, and the blocks are deleted.
//!
//! The crate knows neither blocks nor records.

mod error;

use std::fmt::Debug;
use std::sync::Arc;

pub use error::{ContentError, Overloaded};

/// The claim on blocks that are durable and that no record names yet. While it is armed, dropping
/// its last owner deletes the blocks; while it is disarmed, they stay.
///
/// After a plan with an unknown outcome the claim stays disarmed, and the sweeper deletes the
/// blocks if no record names them.
pub trait StagedBlocks: Debug + Send + Sync {
    /// Disarms the claim, so that dropping it deletes nothing. Called before a plan that names the
    /// blocks is sent.
    fn disarm(&self);

    /// Arms the claim again, so that dropping it deletes the blocks. Called once no plan that names
    /// the blocks can be committed.
    fn rearm(&self);
}

/// A guard that keeps an epoch pinned, and so blocks from being deleted, until it is dropped.
pub type Pin = Box<dyn Debug + Send + Sync>;

/// Keeps blocks that a plan is about to name from being deleted by the reaper.
pub trait Pins: Debug + Send + Sync {
    /// Pins the current epoch until the returned guard is dropped. The reaper deletes no block that
    /// was freed meanwhile.
    fn pin(self: Arc<Self>) -> Pin;
}
