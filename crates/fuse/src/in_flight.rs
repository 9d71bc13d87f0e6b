//! The table of requests that were read and not answered, with their interrupt actions.
//!
//! A request is in the table from before its handler is called until just before its reply is
//! written. An interrupt of a request that is not in the table came too early or too late. An
//! action runs at most once, and never while a lock of the table is held. The handler decides how
//! an interrupted request is answered. For example, a handler that waits for a file lock registers
//! an action that cancels the wait, and then answers EINTR.
//!
//! ```text
//!   begin ──▶ None ──register──▶ Registered ──interrupt──▶ Interrupted (the action ran)
//!               └────interrupt──────────────────────────▶ Interrupted ──register──▶ runs at once
//!   end removes the request in any state
//! ```

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The number of shards (independent parts) of the table of requests. Each has its own lock, so
/// that threads seldom wait for each other.
const SHARDS: usize = 16;

/// The action that runs when the kernel interrupts a request, for example because its program got a
/// signal.
pub(crate) type Action = Box<dyn FnOnce() + Send>;

/// The table of requests in flight, that is, read from the kernel and not answered.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    shards: [Mutex<Shard>; SHARDS],
    count: AtomicUsize,
    waiting: AtomicUsize,
    gate: Mutex<()>,
    emptied: Condvar,
}

/// One part of the table: the interrupt state of each request, by the number of the request.
type Shard = HashMap<u64, InterruptState, BuildHasherDefault<IdHasher>>;

/// The interrupt state of a request in flight; the module's documentation has the diagram.
enum InterruptState {
    /// The handler has registered no action, and no interrupt has come.
    None,
    /// An interrupt has come. If an action was registered, it has run or runs now.
    Interrupted,
    /// The handler has registered this action, to run at an interrupt.
    Registered(Action),
}

/// The result of an interrupt of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interruption {
    /// The request is not in the table: it was not entered yet, or is already answered.
    Unknown,
    /// The request is marked as interrupted. Its action ran, or will run as soon as it is
    /// registered.
    Recorded,
}

impl InFlight {
    /// Adds a request, by its number, before its handler is called.
    pub(crate) fn begin(&self, unique: u64) {
        self.count.fetch_add(1, Ordering::SeqCst);
        self.shard(unique).insert(unique, InterruptState::None);
    }

    /// Removes a request that is about to be answered. Its action does not run after that.
    pub(crate) fn end(&self, unique: u64) {
        let removed = self.shard(unique).remove(&unique);
        // The action is dropped after the lock is released, because dropping it may run code of the
        // handler.
        drop(removed);
        if self.count.fetch_sub(1, Ordering::SeqCst) == 1 && self.waiting.load(Ordering::SeqCst) > 0
        {
            // Taking the gate once orders this with a waiter that has read the count and does not
            // wait yet; otherwise it could miss the wake-up.
            drop(self.gate.lock().unwrap_or_else(PoisonError::into_inner));
            self.emptied.notify_all();
        }
    }

    /// Registers the action that runs when a request is interrupted, in place of an earlier one. If
    /// the request is already interrupted, runs the action at once. If the request is already
    /// answered, drops it.
    pub(crate) fn register(&self, unique: u64, action: Action) {
        let mut shard = self.shard(unique);
        let Some(state) = shard.get_mut(&unique) else { return };
        if matches!(state, InterruptState::Interrupted) {
            drop(shard);
            action();
        } else {
            let before = std::mem::replace(state, InterruptState::Registered(action));
            drop(shard);
            drop(before);
        }
    }

    /// Marks a request in flight as interrupted, and runs the action that its handler has
    /// registered, if there is one.
    pub(crate) fn interrupt(&self, unique: u64) -> Interruption {
        let mut shard = self.shard(unique);
        // The kernel is asked to send the interrupt again, in case the request is not entered yet.
        let Some(state) = shard.get_mut(&unique) else { return Interruption::Unknown };
        // An action is taken out of the table, so it runs at most once.
        let before = std::mem::replace(state, InterruptState::Interrupted);
        drop(shard);
        if let InterruptState::Registered(action) = before {
            action();
        }
        Interruption::Recorded
    }

    /// Returns the number of requests in flight, that is, read and not answered.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Waits until no request is in flight, at most for `timeout`. Returns the number of requests
    /// that are still in flight.
    pub(crate) fn wait_until_empty(&self, timeout: Duration) -> usize {
        let deadline = Instant::now() + timeout;
        // Announce the wait first: without waiters, `end` skips the gate.
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        while self.count() > 0 {
            let Some(remaining) = deadline.checked_duration_since(Instant::now()) else { break };
            let waited = self.emptied.wait_timeout(gate, remaining);
            gate = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(gate);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        self.count()
    }

    fn shard(&self, unique: u64) -> MutexGuard<'_, Shard> {
        // Bit 0 of a request's number is always 0, so it does not select a shard.
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

/// A hash function for request numbers. The kernel counts them up, and no client chooses them, so a
/// fast hash is safe.
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
