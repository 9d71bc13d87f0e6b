//! Bodies that are staged inline: they are in their inodes' records until they are destaged.
//!
//! A small body that comes alone goes into the metadata store with its file's record. A little
//! later it is *destaged*: moved into a block, together with others that are staged inline (see
//! `upkeep`'s `destage`). What was overwritten or deleted by then never reaches the backend. Which
//! bodies these are is the business of a [`PlacementPolicy`].
//!
//! Here is known what is staged inline, in what order it came, and when it is due. Each body waits
//! for about [`DESTAGE_DELAY`], so no more than [`STAGED_INLINE_BYTES_DEFAULT`] per that time goes
//! through the metadata store, however fast a client writes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use record::Ino;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::placement::{Conditions, Placement, PlacementPolicy};

/// Bytes of bodies that are staged inline at the same time, unless told otherwise.
pub const STAGED_INLINE_BYTES_DEFAULT: u64 = 32 << 20;

/// How long a body is staged inline before it is destaged.
pub const DESTAGE_DELAY: Duration = Duration::from_secs(2);

/// A body that is staged inline, or will be as soon as its plan is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StagedBody {
    /// The file that it is the body of.
    pub ino: Ino,
    /// How many bytes.
    pub bytes: u64,
    since: Instant,
}

/// The bodies of a session that are staged inline.
#[derive(Debug)]
pub struct StagedInline {
    policy: Box<dyn PlacementPolicy>,
    ledger: Mutex<Ledger>,
    /// Notified when a body was added.
    added: Notify,
}

#[derive(Debug, Default)]
struct Ledger {
    /// Bytes of all bodies that are staged inline or have a reservation.
    bytes: u64,
    /// Whether a body has a reservation whose writer has not ended.
    arriving: bool,
    /// When two bodies were last under way at the same time.
    concurrent_at: Option<Instant>,
    /// In the order in which they came.
    bodies: VecDeque<StagedBody>,
}

/// Where a whole body goes, with what that takes.
#[derive(Debug)]
pub(crate) enum Placed {
    Inline,
    StagedInline(Reservation),
    Block,
}

impl StagedInline {
    /// Nothing is staged inline yet. `policy` chooses what will be.
    pub fn new(policy: impl PlacementPolicy + 'static) -> StagedInline {
        let (ledger, added) = (Mutex::default(), Notify::new());
        StagedInline { policy: Box::new(policy), ledger, added }
    }

    /// Places a whole body; `packing` says whether others are being packed right now.
    pub(crate) fn place(self: &Arc<Self>, bytes: u64, packing: bool) -> Placed {
        let (mut ledger, now) = (self.ledger(), Instant::now());
        let since_concurrent = if packing || ledger.arriving {
            Some(Duration::ZERO)
        } else {
            ledger.concurrent_at.map(|at| now.duration_since(at))
        };
        let staged_inline_bytes = ledger.bytes;
        let conditions = Conditions { bytes, since_concurrent, staged_inline_bytes };
        let placement = self.policy.choose(&conditions);
        if placement != Placement::Inline && since_concurrent == Some(Duration::ZERO) {
            ledger.concurrent_at = Some(now);
        }
        match placement {
            Placement::Inline => Placed::Inline,
            Placement::Block => Placed::Block,
            Placement::StagedInline => {
                ledger.bytes = ledger.bytes.saturating_add(bytes);
                ledger.arriving = true;
                let staged = Arc::clone(self);
                Placed::StagedInline(Reservation { staged, bytes, ino: None })
            }
        }
    }

    /// When the next body is due to be destaged; `None` if none is staged inline.
    pub fn next_due(&self) -> Option<Instant> {
        self.ledger().bodies.front().map(|first| first.since + DESTAGE_DELAY)
    }

    /// Returns when a body was added since somebody waited here last.
    pub async fn added(&self) {
        self.added.notified().await;
    }

    /// Takes bodies that have been staged inline since `until` at the latest: no more than `count`,
    /// and together no more than `bytes` unless it is one. Whoever takes a body either
    /// [removes](StagedInline::remove) it or [puts it back](StagedInline::put_back).
    pub fn take(&self, until: Instant, count: usize, bytes: u64) -> Vec<StagedBody> {
        let mut ledger = self.ledger();
        let (mut taken, mut sum) = (Vec::new(), 0);
        while let Some(first) = ledger.bodies.front()
            && first.since <= until
            && taken.len() < count
            && (taken.is_empty() || sum + first.bytes <= bytes)
        {
            sum += first.bytes;
            taken.extend(ledger.bodies.pop_front());
        }
        taken
    }

    /// Puts back a body that could not be destaged. Its delay begins anew.
    pub fn put_back(&self, body: StagedBody) {
        self.ledger().bodies.push_back(StagedBody { since: Instant::now(), ..body });
        self.added.notify_one();
    }

    /// Makes room: this body is not staged inline any more.
    pub fn remove(&self, body: StagedBody) {
        let mut ledger = self.ledger();
        ledger.bytes = ledger.bytes.saturating_sub(body.bytes);
    }

    /// Every change leaves the ledger whole, so a panic elsewhere leaves it usable.
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Room for a body that is going to be staged inline.
///
/// Dropped before it was assigned to a file, it is free again. After that the body counts as staged
/// inline even if its plan was refused: whoever destages it sees whether there is anything to do.
#[derive(Debug)]
pub struct Reservation {
    staged: Arc<StagedInline>,
    bytes: u64,
    ino: Option<Ino>,
}

impl Reservation {
    /// Before a plan is sent that makes the body that of a file.
    pub fn assign(&mut self, ino: Ino) {
        self.ino = Some(ino);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut ledger = self.staged.ledger();
        ledger.arriving = false;
        match self.ino {
            Some(ino) => {
                let since = Instant::now();
                ledger.bodies.push_back(StagedBody { ino, bytes: self.bytes, since });
                drop(ledger);
                self.staged.added.notify_one();
            }
            None => ledger.bytes = ledger.bytes.saturating_sub(self.bytes),
        }
    }
}

#[cfg(test)]
mod tests;
