//! Which epochs this process still reads in.
//!
//! Whoever may hold the name of a block pins the epoch that it began in, by a [`ReaderGuard`].
//! The reaper moves the volume's epoch on and deletes only when every session has *passed* it: when
//! nobody there holds an older one. The epoch that counts here is the last one that this process
//! has seen, which may lag; that delays a deletion and never permits one.
//!
//! What is pinned holds back every deletion of the volume, so it is pinned for moments. A reader that
//! lasts holds the one file that it reads instead: see [`crate::holds`].

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use content::{Pin, Pins};
use tokio::sync::Notify;
use tokio::time::Instant;

/// The readers of this process, by epoch.
#[derive(Debug)]
pub struct Epochs {
    readers: Mutex<Readers>,
    /// Notified when [`Epochs::passed`] has grown.
    pub(crate) passed_changed: Notify,
}

#[derive(Debug)]
struct Readers {
    current: u64,
    pinned: BTreeMap<u64, Pinned>,
}

/// Those who pin one epoch.
#[derive(Debug, Default)]
struct Pinned {
    count: u64,
    /// When the volume passed_changed on to the next epoch.
    superseded: Option<Instant>,
}

impl Readers {
    fn passed(&self) -> u64 {
        self.pinned.first_key_value().map_or(self.current, |(oldest, _)| *oldest)
    }
}

/// Pins the epoch that its reader began in, until it is dropped.
#[derive(Debug)]
pub struct ReaderGuard {
    epochs: Arc<Epochs>,
    epoch: u64,
}

impl Epochs {
    /// Nobody reads yet.
    pub fn new(current: u64) -> Arc<Epochs> {
        let readers = Mutex::new(Readers { current, pinned: BTreeMap::new() });
        Arc::new(Epochs { readers, passed_changed: Notify::new() })
    }

    /// Both fields agree between any two statements, so a panic elsewhere leaves them usable.
    fn readers(&self) -> MutexGuard<'_, Readers> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Pins the current epoch.
    pub fn pin(self: &Arc<Self>) -> ReaderGuard {
        let mut readers = self.readers();
        let epoch = readers.current;
        readers.pinned.entry(epoch).or_default().count += 1;
        ReaderGuard { epochs: Arc::clone(self), epoch }
    }

    /// Takes note of the volume's epoch.
    pub fn observe(&self, epoch: u64) {
        let mut readers = self.readers();
        let before = readers.passed();
        if epoch > readers.current {
            readers.current = epoch;
            let now = Instant::now();
            readers.pinned.values_mut().for_each(|pins| {
                pins.superseded.get_or_insert(now);
            });
        }
        if readers.passed() > before {
            self.passed_changed.notify_one();
        }
    }

    /// The newest epoch that was ever seen here.
    pub fn current(&self) -> u64 {
        self.readers().current
    }

    /// For how long an epoch that the volume has left has been pinned here: what holds back
    /// deletions.
    pub fn oldest_pin(&self) -> Option<Duration> {
        let readers = self.readers();
        let (_, oldest) = readers.pinned.first_key_value()?;
        oldest.superseded.map(|at| at.elapsed())
    }

    /// Whether anybody here reads.
    pub fn has_readers(&self) -> bool {
        !self.readers().pinned.is_empty()
    }

    /// The newest epoch such that nobody here reads in an older one.
    pub fn passed(&self) -> u64 {
        self.readers().passed()
    }
}

impl Pins for Epochs {
    fn pin(self: Arc<Self>) -> Pin {
        Box::new(Epochs::pin(&self))
    }
}

impl ReaderGuard {
    /// Whether the volume has left the epoch that this pins.
    pub(crate) fn is_outdated(&self) -> bool {
        self.epoch < self.epochs.readers().current
    }
}

impl Clone for ReaderGuard {
    /// Pins the same epoch once more: for what goes on where the reader left off.
    fn clone(&self) -> ReaderGuard {
        let mut readers = self.epochs.readers();
        readers.pinned.entry(self.epoch).or_default().count += 1;
        ReaderGuard { epochs: Arc::clone(&self.epochs), epoch: self.epoch }
    }
}

impl Drop for ReaderGuard {
    fn drop(&mut self) {
        let mut readers = self.epochs.readers();
        let before = readers.passed();
        if let Some(pins) = readers.pinned.get_mut(&self.epoch) {
            pins.count -= 1;
            if pins.count == 0 {
                readers.pinned.remove(&self.epoch);
            }
        }
        if readers.passed() > before {
            self.epochs.passed_changed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests;
