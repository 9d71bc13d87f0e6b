//! Bodies that are staged inline: they are in their inodes' records until they are destaged.
//!
//! A small body that arrives alone is written to the metadata store with its file's record. A
//! little later the relocator (`upkeep`'s `relocate`) moves it into a block, together with other
//! bodies that are staged inline. A body that was overwritten or deleted before that never reaches
//! the block store. A [`PlacementPolicy`] chooses these bodies.
//!
//! This module knows which bodies are staged inline, in which order they arrived, and when each is
//! due. Each waits for [`DESTAGE_DELAY`]. Therefore, with the default limit, at most
//! [`STAGED_INLINE_BYTES_DEFAULT`] bytes per `DESTAGE_DELAY` go through the metadata store, however
//! fast a client writes. For example, that is 32 MiB in 2 seconds.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use record::Ino;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::placement::{Conditions, Placement, PlacementPolicy};

/// The default limit of the bytes that are staged inline, that is, kept in records until they are
/// moved into blocks, at the same time.
pub const STAGED_INLINE_BYTES_DEFAULT: u64 = 32 << 20;

/// The time that a body stays in its inode's record before it is moved into a block.
pub const DESTAGE_DELAY: Duration = Duration::from_secs(2);

/// A body that is staged inline (kept in its inode's record until it is moved into a block), or
/// will be as soon as its plan is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StagedBody {
    /// The inode whose content the body is.
    pub ino: Ino,
    /// The size of the body in bytes.
    pub bytes: u64,
    since: Instant,
}

/// The bodies of a session that are staged inline: they are in their inodes' records until they are
/// moved into blocks.
#[derive(Debug)]
pub struct StagedInline {
    policy: Box<dyn PlacementPolicy>,
    state: Mutex<State>,
    /// Notified when a body was added or put back.
    added: Arc<Notify>,
}

#[derive(Debug, Default)]
struct State {
    /// The total size of the bodies that are in records for a while or have reserved capacity for
    /// it, in bytes.
    bytes: u64,
    /// True while capacity for a body is reserved, that is, while the writer of a body that is to
    /// be staged inline has not ended.
    arriving: bool,
    /// The last time at which two bodies were under way together.
    concurrent_at: Option<Instant>,
    /// The bodies in the order in which they were added.
    bodies: VecDeque<StagedBody>,
}

/// The placement of a whole body, with the reservation that it needs.
#[derive(Debug)]
pub(crate) enum Placed {
    Inline,
    StagedInline(Reservation),
    Block,
}

impl StagedInline {
    /// Creates the state without bodies. `policy` chooses the bodies that are staged inline, that
    /// is, kept in records for a while.
    pub fn new(policy: impl PlacementPolicy + 'static) -> StagedInline {
        let (state, added) = (Mutex::default(), Arc::default());
        StagedInline { policy: Box::new(policy), state, added }
    }

    /// Chooses where a whole body of `bytes` bytes is stored. Reserves capacity if it is to stay in
    /// its record for a while. `packing` is true if other bodies are being put together into a
    /// block at this moment.
    pub(crate) fn place(self: &Arc<Self>, bytes: u64, packing: bool) -> Placed {
        let (mut state, now) = (self.state(), Instant::now());
        let since_concurrent = if packing || state.arriving {
            Some(Duration::ZERO)
        } else {
            state.concurrent_at.map(|at| now.duration_since(at))
        };
        let staged_inline_bytes = state.bytes;
        let conditions = Conditions { bytes, since_concurrent, staged_inline_bytes };
        let placement = self.policy.choose(&conditions);
        // Bodies that are inline permanently do not count as concurrent, because they share no
        // block in any case.
        if placement != Placement::Inline && since_concurrent == Some(Duration::ZERO) {
            state.concurrent_at = Some(now);
        }
        match placement {
            Placement::Inline => Placed::Inline,
            Placement::Block => Placed::Block,
            Placement::StagedInline => {
                state.bytes = state.bytes.saturating_add(bytes);
                state.arriving = true;
                let staged = Arc::clone(self);
                Placed::StagedInline(Reservation { staged, bytes, ino: None })
            }
        }
    }

    /// Returns the time at which the next body is due to be moved from its record into a block;
    /// `None` if no body waits for that.
    pub fn next_due(&self) -> Option<Instant> {
        self.state().bodies.front().map(|first| first.since + DESTAGE_DELAY)
    }

    /// Returns the `Notify` that is notified when a body that is to be moved into a block was added
    /// or put back.
    pub fn added(&self) -> Arc<Notify> {
        Arc::clone(&self.added)
    }

    /// Takes the bodies that have been in their records since `until` or earlier, so that the
    /// caller moves them into blocks. It takes at most `count` bodies. Together they have at most
    /// `bytes` bytes, except that a single larger body is taken alone. The caller must
    /// [remove](StagedInline::remove) or [put back](StagedInline::put_back) each of them.
    pub fn take(&self, until: Instant, count: usize, bytes: u64) -> Vec<StagedBody> {
        let mut state = self.state();
        let (mut taken, mut sum) = (Vec::new(), 0);
        while let Some(first) = state.bodies.front()
            && first.since <= until
            && taken.len() < count
            && (taken.is_empty() || sum + first.bytes <= bytes)
        {
            sum += first.bytes;
            taken.extend(state.bodies.pop_front());
        }
        taken
    }

    /// Puts back a taken body that could not be moved into a block. Its delay starts again.
    pub fn put_back(&self, body: StagedBody) {
        // Its capacity stays reserved, because the body is still in its record.
        self.state().bodies.push_back(StagedBody { since: Instant::now(), ..body });
        self.added.notify_one();
    }

    /// Records that this taken body is no longer staged inline (kept in its record for a while),
    /// and frees its capacity.
    pub fn remove(&self, body: StagedBody) {
        let mut state = self.state();
        state.bytes = state.bytes.saturating_sub(body.bytes);
    }

    /// Each method leaves the state consistent before it can panic, so a poisoned lock is still
    /// usable.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reserved capacity for a body that is going to be staged inline, that is, kept in its inode's
/// record until it is moved into a block.
///
/// If it is dropped before it was assigned to a file, the capacity is free again. After `assign`,
/// the body counts as staged inline even if its plan was refused. The task that moves such bodies
/// finds out whether there is one.
#[derive(Debug)]
pub struct Reservation {
    staged: Arc<StagedInline>,
    bytes: u64,
    ino: Option<Ino>,
}

impl Reservation {
    /// Assigns the reserved capacity to the body of an inode. The caller does this before it sends
    /// the plan that makes the body the inode's content.
    pub fn assign(&mut self, ino: Ino) {
        self.ino = Some(ino);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut state = self.staged.state();
        // One flag is enough: the default policy places concurrent bodies in blocks.
        state.arriving = false;
        match self.ino {
            Some(ino) => {
                let since = Instant::now();
                state.bodies.push_back(StagedBody { ino, bytes: self.bytes, since });
                drop(state);
                self.staged.added.notify_one();
            }
            None => state.bytes = state.bytes.saturating_sub(self.bytes),
        }
    }
}

#[cfg(test)]
mod tests;
