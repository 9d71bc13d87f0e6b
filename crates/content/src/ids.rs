//! The generator of a session's block ids.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use record::{BlockId, Nonce};

/// Generates block ids: the session's nonce, then a counter that only grows. One generator serves a
/// whole session. A second generator with the same nonce would produce the same ids, unless both
/// take their counters from ranges that are reserved for them.
#[derive(Debug)]
pub struct BlockIds {
    session: Nonce,
    counters: Counters,
}

enum Counters {
    /// Counters from 0 on, for a session that ends with its process.
    All(AtomicU64),
    /// Counters from ranges that were reserved durably before they are used, for a session that
    /// outlives its processes.
    Reserved { available: Mutex<Range<u64>>, reserve: Box<dyn Fn() -> Range<u64> + Send + Sync> },
}

impl BlockIds {
    /// Creates the generator of a session that has used no id yet.
    pub fn new(session: Nonce) -> BlockIds {
        BlockIds { session, counters: Counters::All(AtomicU64::new(0)) }
    }

    /// Creates the generator of a session that outlives its processes. Each call of `reserve`
    /// returns a range of counters that no process has used or will use.
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
                // Reserving under the lock keeps two callers from reserving two ranges.
                if available.is_empty() {
                    *available = reserve();
                }
                let counter = available.start;
                available.start += 1;
                counter
            }
        }
    }

    /// Returns an id that no other block has.
    ///
    /// # Panics
    /// When a session has generated 2^43 ids; at a hundred thousand per second that takes two
    /// years.
    pub fn allocate(&self) -> BlockId {
        BlockId::plain(self.session, self.counter())
    }

    /// Returns an id that no other block has, for a pack: a block that several contents share. The
    /// id shows that it is a pack.
    ///
    /// # Panics
    /// As [`allocate`](BlockIds::allocate).
    pub fn allocate_pack(&self) -> BlockId {
        BlockId::pack(self.session, self.counter())
    }

    /// Returns an id that no other block has, for a bare block: a block whose object in the bucket
    /// consists of its content alone, with the checksums in the metadata. The id shows that it is
    /// bare.
    ///
    /// # Panics
    /// As [`allocate`](BlockIds::allocate).
    pub fn allocate_bare(&self) -> BlockId {
        BlockId::bare(self.session, self.counter())
    }

    /// Returns an id that no other block has, for a secret block: a block that the block store
    /// encrypts under a ring key. The id shows that it is secret.
    ///
    /// # Panics
    /// As [`allocate`](BlockIds::allocate).
    pub fn allocate_secret(&self) -> BlockId {
        BlockId::secret(self.session, self.counter())
    }

    /// Returns an id that no other block has, for a secret pack: an encrypted block that several
    /// contents share. The id shows both.
    ///
    /// # Panics
    /// As [`allocate`](BlockIds::allocate).
    pub fn allocate_secret_pack(&self) -> BlockId {
        BlockId::secret_pack(self.session, self.counter())
    }

    /// Returns the nonce (the random name) of the session to which the ids belong.
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
