//! The epochs in which readers of this process are active.
//!
//! A reader pins the current epoch with a [`ReaderGuard`] before it reads a record that names
//! blocks. The reaper increases the volume's epoch, and deletes blocks of removed files only when
//! every session has *passed* the old epoch: no reader of the session pins the old epoch or an
//! older one. The current epoch of this process is the last one that its heartbeat has read. It may
//! lag behind the volume's, which delays a deletion and never permits one.
//!
//! For example, a GET that began in epoch 7 keeps all blocks that were freed in epoch 7 or later. A
//! pin therefore delays every deletion of the volume, so pins must be short. A long reader gets a
//! hold on its file instead: see [`crate::holds`].

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use publication::{Pin, Pins};
use tokio::sync::Notify;
use tokio::time::Instant;

/// The active readers of this process, by the epoch that they pin. An epoch is a value of the
/// volume's counter; blocks freed in the pinned epoch or later are not deleted.
#[derive(Debug)]
pub struct Epochs {
    readers: Mutex<Readers>,
    /// Notified when the value of [`Epochs::passed`] has grown.
    pub(crate) passed_changed: Notify,
}

#[derive(Debug)]
struct Readers {
    current: u64,
    pinned: BTreeMap<u64, Pinned>,
}

/// The readers that pin one epoch, and so delay the deletion of blocks freed in it or later.
#[derive(Debug, Default)]
struct Pinned {
    count: u64,
    /// The time at which this process learned of the next epoch; `None` while the pinned epoch is
    /// the current one.
    superseded: Option<Instant>,
}

impl Readers {
    fn passed(&self) -> u64 {
        self.pinned.first_key_value().map_or(self.current, |(oldest, _)| *oldest)
    }
}

/// Keeps the epoch pinned in which its reader began, until it is dropped: blocks that the reader
/// may have found are not deleted meanwhile.
#[derive(Debug)]
pub struct ReaderGuard {
    epochs: Arc<Epochs>,
    epoch: u64,
}

impl Epochs {
    /// Creates the registry, without readers, for a session that began in epoch `current`.
    pub fn new(current: u64) -> Arc<Epochs> {
        let readers = Mutex::new(Readers { current, pinned: BTreeMap::new() });
        Arc::new(Epochs { readers, passed_changed: Notify::new() })
    }

    /// Each method changes both fields without an await or a panic in between, so a poisoned lock
    /// is still consistent.
    fn readers(&self) -> MutexGuard<'_, Readers> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a read: pins the current epoch, so that no block that the caller finds from now on is
    /// deleted until the guard is dropped.
    pub fn pin(self: &Arc<Self>) -> ReaderGuard {
        let mut readers = self.readers();
        let epoch = readers.current;
        readers.pinned.entry(epoch).or_default().count += 1;
        ReaderGuard { epochs: Arc::clone(self), epoch }
    }

    /// Sets the current epoch of this process to `epoch`, the volume's counter as the heartbeat has
    /// read it. Later readers pin this one.
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

    /// Returns the current epoch: the volume's counter of epochs as this process last read it.
    pub fn current(&self) -> u64 {
        self.readers().current
    }

    /// Returns the time since the volume began a newer epoch than the one that the oldest reader
    /// pins; `None` if no reader pins an old epoch. While it grows, deletions wait.
    pub fn oldest_pin(&self) -> Option<Duration> {
        let readers = self.readers();
        let (_, oldest) = readers.pinned.first_key_value()?;
        oldest.superseded.map(|at| at.elapsed())
    }

    /// Returns true if any reader of this process pins an epoch.
    pub fn has_readers(&self) -> bool {
        !self.readers().pinned.is_empty()
    }

    /// Returns the passed epoch: the newest epoch such that no reader of this process pins an older
    /// one. The reaper waits for this value of every session before it deletes blocks.
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
    /// Returns true if the volume has a newer epoch than the pinned one, so that this pin delays
    /// deletions.
    pub(crate) fn is_outdated(&self) -> bool {
        self.epoch < self.epochs.readers().current
    }
}

impl Clone for ReaderGuard {
    /// Pins the same epoch once more, for work that continues the reader's.
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
