//! Memory that an upload holds while it waits for a slow client.
//!
//! A client may send most of a block and then continue slowly, or stop. While other requests wait
//! for memory, such an upload is asked to put the bytes that it has as a short block. An upload
//! keeps its memory if its client is fast enough: at its measured rate, the client must send at
//! least as many bytes in [`HOLD_PACE`] as the upload holds.
//!
//! For example, an upload that holds 4 MiB keeps them if its client sends at least 1 MiB per
//! second.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::ReleaseMemory;

/// The shortest time over which a client's rate is measured.
const PACE_MEASURED: Duration = Duration::from_secs(1);

/// An upload may hold as many bytes as its client sends in this time.
const HOLD_PACE: Duration = Duration::from_secs(4);

/// The memory that one upload holds, and the progress of its client.
#[derive(Debug, Default)]
pub(crate) struct Pressure {
    /// Bytes that have arrived since the start of the body.
    arrived: AtomicU64,
    /// Bytes of memory that the upload holds, for bytes that have arrived and for the next ones.
    held: AtomicU64,
    measured: Mutex<Option<Measured>>,
    wanted: Notify,
}

/// The start of a measurement of a client's rate.
#[derive(Clone, Copy, Debug)]
struct Measured {
    at: Instant,
    arrived: u64,
}

impl Pressure {
    /// Records the bytes of the upload that have arrived since its start, and the bytes of memory
    /// that it holds now.
    pub(crate) fn note(&self, arrived: u64, held: u64) {
        self.arrived.store(arrived, Ordering::Relaxed);
        self.held.store(held, Ordering::Relaxed);
    }

    /// Waits until other requests need the upload's memory and its client is too slow to keep it.
    pub(crate) async fn wanted(&self) {
        self.wanted.notified().await;
    }
}

impl ReleaseMemory for Pressure {
    fn release_memory(&self) {
        let held = self.held.load(Ordering::Relaxed);
        let mut measured = self.measured.lock().unwrap_or_else(PoisonError::into_inner);
        // An upload that holds nothing has nothing to give back. Its next measurement starts anew.
        if held == 0 {
            *measured = None;
            return;
        }
        let now = Measured { at: Instant::now(), arrived: self.arrived.load(Ordering::Relaxed) };
        let Some(before) = *measured else {
            *measured = Some(now);
            return;
        };
        let elapsed = now.at.duration_since(before.at);
        // Over a shorter time the rate depends on single frames.
        if elapsed < PACE_MEASURED {
            return;
        }
        *measured = Some(now);
        let arrived = u128::from(now.arrived.saturating_sub(before.arrived));
        // `arrived / elapsed < held / HOLD_PACE`, without division.
        if arrived * HOLD_PACE.as_millis() < u128::from(held) * elapsed.as_millis() {
            self.wanted.notify_one();
        }
    }
}

#[cfg(test)]
mod tests;
