//! Small bodies that come alone, and rest in their records until they are put into blocks.
//!
//! A put of a few hundred KiB costs a backend some milliseconds, and a lone client waits for them
//! with nobody to share them. The metadata store has to make the file's record durable anyhow: so
//! the body goes with it, and is *settled* into a block a little later, together with others that
//! rest (see `settle`). What was overwritten or deleted by then never reaches the backend.
//!
//! That is for whoever comes alone. A body that meets others, which are packed or on their way to
//! rest, is packed with them, and so is whatever comes within [`COMPANY_LASTS`] after that: under
//! load the backend's price is shared, and the database is what is scarce.
//!
//! **Limits.** Bodies that rest, those under way included, have no more than
//! [`RESTING_BYTES_DEFAULT`] bytes together, and each rests for about [`SETTLE_DELAY`]. So no more
//! than the one per the other goes through the metadata store, however fast a client writes; what
//! is beyond that is packed.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use record::Ino;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Bytes of bodies that rest at the same time, unless told otherwise.
pub const RESTING_BYTES_DEFAULT: u64 = 32 << 20;

/// The longest body that rests, in bytes.
pub const RESTING_BODY_BYTES_MAX: u64 = record::INLINE_BYTES_MAX;

/// How long a body rests before it is settled.
pub const SETTLE_DELAY: Duration = Duration::from_secs(2);

/// How long nobody rests after bodies have met.
pub const COMPANY_LASTS: Duration = Duration::from_secs(1);

/// A body that rests, or that may do so as soon as its plan is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rested {
    /// The file that it is the body of.
    pub ino: Ino,
    /// How many bytes.
    pub bytes: u64,
    /// When it began to rest.
    since: Instant,
}

/// The bodies of a session that rest.
#[derive(Debug)]
pub struct Resting {
    bytes_max: u64,
    state: Mutex<State>,
    /// Told when the first body begins to rest.
    begun: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Bytes of all bodies that rest, and of the one that arrives.
    bytes: u64,
    /// Whether one is on its way.
    arriving: bool,
    /// When two bodies met last.
    met: Option<Instant>,
    /// Those that have arrived, in the order in which they did.
    bodies: VecDeque<Rested>,
}

impl Resting {
    /// Nothing rests yet. No more than `bytes_max` will at a time; 0 is nothing ever.
    pub fn new(bytes_max: u64) -> Resting {
        Resting { bytes_max, state: Mutex::default(), begun: Notify::new() }
    }

    /// A place for a body that comes alone, if there is one; `others` says whether any are packed
    /// right now.
    pub(super) fn admit(self: &Arc<Self>, bytes: u64, others: bool) -> Option<Place> {
        let (mut state, now) = (self.state(), Instant::now());
        if others || state.arriving {
            state.met = Some(now);
        }
        let alone = state.met.is_none_or(|met| now.duration_since(met) >= COMPANY_LASTS);
        let fits = state.bytes.saturating_add(bytes) <= self.bytes_max;
        if bytes > RESTING_BODY_BYTES_MAX || !alone || !fits {
            return None;
        }
        state.bytes += bytes;
        state.arriving = true;
        Some(Place { resting: Arc::clone(self), bytes, ino: None })
    }

    /// When the next body has rested for long enough; none if none rests.
    pub fn next_due(&self) -> Option<Instant> {
        self.state().bodies.front().map(|first| first.since + SETTLE_DELAY)
    }

    /// Returns when a body has begun to rest since somebody waited here last.
    pub async fn begun(&self) {
        self.begun.notified().await;
    }

    /// Takes bodies that have rested since `until` at the latest: no more than `count`, and together
    /// no more than `bytes` unless it is one. Whoever takes them says when they are
    /// [`Resting::gone`].
    pub fn take(&self, until: Instant, count: usize, bytes: u64) -> Vec<Rested> {
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

    /// Puts back a body that could not be settled; it rests for another while.
    pub fn put_back(&self, body: Rested) {
        self.state().bodies.push_back(Rested { since: Instant::now(), ..body });
        self.begun.notify_one();
    }

    /// Makes room: this body rests no more.
    pub fn gone(&self, body: Rested) {
        let mut state = self.state();
        state.bytes = state.bytes.saturating_sub(body.bytes);
    }

    /// Every change leaves the state whole, so a panic elsewhere leaves it usable.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A body's place among those that rest. Dropped before a file has it, it is free again. After that
/// the body rests, as far as anybody knows: whoever settles it sees whether it does.
#[derive(Debug)]
pub struct Place {
    resting: Arc<Resting>,
    bytes: u64,
    ino: Option<Ino>,
}

impl Place {
    /// Before a plan is sent that makes the body that of a file.
    pub fn give(&mut self, ino: Ino) {
        self.ino = Some(ino);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.resting.state();
        state.arriving = false;
        match self.ino {
            Some(ino) => {
                let since = Instant::now();
                state.bodies.push_back(Rested { ino, bytes: self.bytes, since });
                drop(state);
                self.resting.begun.notify_one();
            }
            None => state.bytes = state.bytes.saturating_sub(self.bytes),
        }
    }
}

#[cfg(test)]
mod tests;
