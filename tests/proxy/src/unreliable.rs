//! A network that delays bytes by random times, and resets connections at every step of a protocol.
//!
//! It is about pieces: a piece is what one read from a connection returns. A peer that waits for
//! each answer sends one message in each piece.
//!
//! For example, with resets a peer that connects again and again loses its first connection at the
//! first piece, its second one at the second piece, and so on.

use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// The delays and resets of a proxy.
#[derive(Debug, Default)]
pub(crate) struct Unreliable {
    delay_max_micros: AtomicU64,
    /// The number of delays, which also chooses the next one.
    delays: AtomicU64,
    /// The piece at which the next connection is reset; 0 for none.
    next_reset: AtomicU64,
}

/// The pieces of one connection.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    seen: AtomicU64,
    /// The piece at which the connection is reset; 0 for none.
    reset_at: u64,
}

impl Unreliable {
    pub(crate) fn set_delay(&self, longest: Duration) {
        let micros = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX);
        self.delay_max_micros.store(micros, Ordering::SeqCst);
    }

    pub(crate) fn delays(&self) -> u64 {
        self.delays.load(Ordering::SeqCst)
    }

    pub(crate) fn begin_resets(&self) {
        self.next_reset.store(1, Ordering::SeqCst);
    }

    pub(crate) fn end_resets(&self) {
        self.next_reset.store(0, Ordering::SeqCst);
    }

    /// Returns the count of a new connection.
    pub(crate) fn pieces(&self) -> Pieces {
        let further = |at: u64| (at > 0).then_some(at + 1);
        let reset_at = self.next_reset.fetch_update(Ordering::SeqCst, Ordering::SeqCst, further);
        Pieces { seen: AtomicU64::new(0), reset_at: reset_at.unwrap_or(0) }
    }

    /// Waits for a random time, if pieces are delayed.
    pub(crate) fn wait(&self) {
        let longest = self.delay_max_micros.load(Ordering::SeqCst);
        if longest > 0 {
            let number = self.delays.fetch_add(1, Ordering::SeqCst) + 1;
            let random = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
            thread::sleep(Duration::from_micros(random % longest));
        }
    }

    /// Counts a piece. Returns true if the connection is to be reset now.
    pub(crate) fn ends_at(&self, pieces: &Pieces) -> bool {
        let seen = pieces.seen.fetch_add(1, Ordering::SeqCst) + 1;
        let resets = self.next_reset.load(Ordering::SeqCst) > 0;
        resets && pieces.reset_at > 0 && seen == pieces.reset_at
    }
}

/// Resets both connections, so that their ends get an error and not an end of the stream.
pub(crate) fn reset(streams: [&TcpStream; 2]) {
    for stream in streams {
        // It may have ended already.
        let _ = rustix::net::connect_unspec(stream);
    }
}
