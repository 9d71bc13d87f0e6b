//! Requests that are read and not yet answered, and who wants to know if one is interrupted.
//!
//! A request is in the table from before its handler is called until just before its reply is
//! written. So an interrupt of a request that is not in it comes too early or too late. An action
//! runs at most once, and never under a lock of the table.
//!
//! What an interrupted request answers is for its handler to say.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Parts of the table, each with its own lock.
const SHARDS: usize = 16;

/// What happens when a request is interrupted.
pub(crate) type Action = Box<dyn FnOnce() + Send>;

/// The table.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    shards: [Mutex<Shard>; SHARDS],
    count: AtomicUsize,
    waiting: AtomicUsize,
    gate: Mutex<()>,
    emptied: Condvar,
}

type Shard = HashMap<u64, InterruptState, BuildHasherDefault<IdHasher>>;

/// What is known of a request.
enum InterruptState {
    /// Nobody asked to be told of an interrupt.
    None,
    /// It was interrupted, and nobody has asked yet.
    Interrupted,
    /// Somebody asked.
    Registered(Action),
}

/// What came of an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interruption {
    /// There is no such request: not yet, or no longer.
    Unknown,
    /// The action ran, or will as soon as there is one.
    Recorded,
}

impl InFlight {
    /// A request was read.
    pub(crate) fn begin(&self, unique: u64) {
        self.count.fetch_add(1, Ordering::SeqCst);
        self.shard(unique).insert(unique, InterruptState::None);
    }

    /// A request is about to be answered.
    pub(crate) fn end(&self, unique: u64) {
        let interest = self.shard(unique).remove(&unique);
        drop(interest);
        if self.count.fetch_sub(1, Ordering::SeqCst) == 1 && self.waiting.load(Ordering::SeqCst) > 0
        {
            drop(self.gate.lock().unwrap_or_else(PoisonError::into_inner));
            self.emptied.notify_all();
        }
    }

    /// Runs the action if the request is interrupted, or at once if it was.
    pub(crate) fn register(&self, unique: u64, action: Action) {
        let mut shard = self.shard(unique);
        let Some(interest) = shard.get_mut(&unique) else { return };
        if matches!(interest, InterruptState::Interrupted) {
            drop(shard);
            action();
        } else {
            let before = std::mem::replace(interest, InterruptState::Registered(action));
            drop(shard);
            drop(before);
        }
    }

    /// The kernel says that a request was interrupted.
    pub(crate) fn interrupt(&self, unique: u64) -> Interruption {
        let mut shard = self.shard(unique);
        let Some(interest) = shard.get_mut(&unique) else { return Interruption::Unknown };
        let before = std::mem::replace(interest, InterruptState::Interrupted);
        drop(shard);
        if let InterruptState::Registered(action) = before {
            action();
        }
        Interruption::Recorded
    }

    /// How many requests there are.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Waits until there is none, but not longer than this. Returns how many are left.
    pub(crate) fn wait_until_empty(&self, timeout: Duration) -> usize {
        let deadline = Instant::now() + timeout;
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        while self.count() > 0 {
            let Some(left) = deadline.checked_duration_since(Instant::now()) else { break };
            let waited = self.emptied.wait_timeout(gate, left);
            gate = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(gate);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        self.count()
    }

    fn shard(&self, unique: u64) -> MutexGuard<'_, Shard> {
        // Bit 0 of a request's number is always clear.
        let shard = &self.shards[usize::try_from((unique >> 1) % SHARDS as u64).unwrap_or(0)];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for InterruptState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            InterruptState::None => "None",
            InterruptState::Interrupted => "Interrupted",
            InterruptState::Registered(_) => "Registered",
        })
    }
}

/// Spreads the kernel's numbers, which count up and which nobody chooses, over a table.
#[derive(Clone, Copy, Debug, Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(self.0 ^ u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }
}

#[cfg(test)]
mod tests;
