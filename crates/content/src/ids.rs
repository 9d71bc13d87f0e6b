//! The names of a session's blocks.

use std::sync::atomic::{AtomicU64, Ordering};

use record::{BlockId, Nonce};

/// Draws block ids: a session's nonce, then a counter that only grows. One value serves a whole
/// session; a second one with the same nonce would draw the same ids.
#[derive(Debug)]
pub struct BlockIds {
    session: Nonce,
    next: AtomicU64,
}

impl BlockIds {
    /// The ids of a session that has drawn none yet.
    pub fn new(session: Nonce) -> BlockIds {
        BlockIds { session, next: AtomicU64::new(0) }
    }

    /// An id that nobody else has.
    ///
    /// # Panics
    /// When a session has drawn 2^48 of them, a million per second for nine years.
    pub fn draw(&self) -> BlockId {
        BlockId::new(self.session, self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// An id that nobody else has, for a block that several contents share.
    ///
    /// # Panics
    /// When a session has drawn 2^46 ids.
    pub fn draw_pack(&self) -> BlockId {
        BlockId::pack(self.session, self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// An id that nobody else has, for a block that a bucket keeps bare.
    ///
    /// # Panics
    /// When a session has drawn 2^46 ids.
    pub fn draw_bare(&self) -> BlockId {
        BlockId::bare(self.session, self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// The session that the ids belong to.
    pub fn session(&self) -> Nonce {
        self.session
    }
}
