//! Memory that an upload holds while it waits for its client.
//!
//! A client may send most of a block and then go on at a trickle, or not at all. While others wait
//! for memory, such an upload is asked to put what it has as a short block. An upload whose client is
//! fast enough keeps its block: if the client goes on at its pace for [`HOLD_PACE`], it sends as much
//! as the upload holds.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::ReleaseMemory;

/// How long the pace of a client is measured.
const PACE_MEASURED: Duration = Duration::from_secs(1);

/// An upload may hold as much as its client sends in this time.
const HOLD_PACE: Duration = Duration::from_secs(4);

/// What an upload holds, and how fast its client sends.
#[derive(Debug, Default)]
pub(crate) struct Pressure {
    /// Bytes that have arrived so far.
    arrived: AtomicU64,
    /// Bytes of memory that are held for bytes that have arrived and for the next ones.
    held: AtomicU64,
    measured: Mutex<Option<Measured>>,
    wanted: Notify,
}

/// The beginning of a measurement.
#[derive(Clone, Copy, Debug)]
struct Measured {
    at: Instant,
    arrived: u64,
}

impl Pressure {
    /// Notes how many bytes have arrived, and how many of them are held.
    pub(crate) fn note(&self, arrived: u64, held: u64) {
        self.arrived.store(arrived, Ordering::Relaxed);
        self.held.store(held, Ordering::Relaxed);
    }

    /// Waits until the memory of the upload is needed more by others.
    pub(crate) async fn wanted(&self) {
        self.wanted.notified().await;
    }
}

impl ReleaseMemory for Pressure {
    fn release_memory(&self) {
        let held = self.held.load(Ordering::Relaxed);
        let mut measured = self.measured.lock().unwrap_or_else(PoisonError::into_inner);
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
        if elapsed < PACE_MEASURED {
            return;
        }
        *measured = Some(now);
        let arrived = u128::from(now.arrived.saturating_sub(before.arrived));
        if arrived * HOLD_PACE.as_millis() < u128::from(held) * elapsed.as_millis() {
            self.wanted.notify_one();
        }
    }
}

#[cfg(test)]
mod tests;
