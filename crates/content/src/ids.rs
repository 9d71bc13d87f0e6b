//! The names of a session's blocks.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use record::{BlockId, Nonce};

/// Draws block ids: a session's nonce, then a counter that only grows. One value serves a whole
/// session; a second one with the same nonce would draw the same ids, unless both draw them from
/// ranges that are reserved for them.
#[derive(Debug)]
pub struct BlockIds {
    session: Nonce,
    counters: Counters,
}

enum Counters {
    /// All of them.
    All(AtomicU64),
    /// Those of ranges that were reserved.
    Reserved { available: Mutex<Range<u64>>, reserve: Box<dyn Fn() -> Range<u64> + Send + Sync> },
}

impl BlockIds {
    /// The ids of a session that has drawn none yet.
    pub fn new(session: Nonce) -> BlockIds {
        BlockIds { session, counters: Counters::All(AtomicU64::new(0)) }
    }

    /// The ids of a session that outlives its processes. `reserve` answers with counters that nobody
    /// drew, or will, each time others.
    pub fn reserved(
        session: Nonce,
        reserve: impl Fn() -> Range<u64> + Send + Sync + 'static,
    ) -> BlockIds {
        let (available, reserve) = (Mutex::default(), Box::new(reserve));
        BlockIds { session, counters: Counters::Reserved { available, reserve } }
    }

    fn counter(&self) -> u64 {
        match &self.counters {
            Counters::All(next) => next.fetch_add(1, Ordering::Relaxed),
            Counters::Reserved { available, reserve } => {
                let mut available = available.lock().unwrap_or_else(PoisonError::into_inner);
                if available.is_empty() {
                    *available = reserve();
                }
                let counter = available.start;
                available.start += 1;
                counter
            }
        }
    }

    /// An id that nobody else has.
    ///
    /// # Panics
    /// When a session has drawn 2^48 of them, a million per second for nine years.
    pub fn draw(&self) -> BlockId {
        BlockId::new(self.session, self.counter())
    }

    /// An id that nobody else has, for a block that several contents share.
    ///
    /// # Panics
    /// When a session has drawn 2^46 ids.
    pub fn draw_pack(&self) -> BlockId {
        BlockId::pack(self.session, self.counter())
    }

    /// An id that nobody else has, for a block that a bucket keeps bare.
    ///
    /// # Panics
    /// When a session has drawn 2^46 ids.
    pub fn draw_bare(&self) -> BlockId {
        BlockId::bare(self.session, self.counter())
    }

    /// The session that the ids belong to.
    pub fn session(&self) -> Nonce {
        self.session
    }
}

impl fmt::Debug for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Counters::All(next) => f.debug_tuple("All").field(next).finish(),
            Counters::Reserved { available, .. } => {
                f.debug_tuple("Reserved").field(available).finish()
            }
        }
    }
}

#[cfg(test)]
mod tests;
