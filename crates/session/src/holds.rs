//! Holds: a record on one file that takes the place of the epoch that a long reader pins.
//!
//! A reader pins the epoch in which it began. That costs nothing, and delays every deletion of the
//! volume (see [`crate::Epochs`]). It is right for short readers. A long one, because its client is
//! slow, would delay all deletions until its end. So after [`HOLD_AFTER`], and if the volume has a
//! newer epoch, the session commits a *hold* on the file and then releases the epoch. From then on
//! only this file is kept.
//!
//! - The hold is committed before the epoch is released, and the reaper reads the holds after it
//!   has waited for the epoch. So for each reader the reaper either waits or sees the hold.
//! - A hold is valid while its session exists. The reaper removes holds of ended sessions.
//! - All readers of a file in one session share one hold. It is removed when the last one ends.
//! - A hold protects [`HoldScope::Versions`], the content as of its beginning, for readers of one
//!   version; or [`HoldScope::File`], the current content, for open files. A program with an open
//!   file reads the newest content, so content that writes have hidden need not be kept.
//!
//! For example, 20 slow GETs of one object share one hold with `HoldScope::Versions`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use record::{HoldScope, Ino};
use store::Value;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::epoch::ReaderGuard;
use crate::times::HOLD_AFTER;

/// Keeps the blocks that a reader found from being deleted, until it is dropped.
#[derive(Debug)]
pub struct ReadPin {
    ino: Ino,
    scope: HoldScope,
    began: Instant,
    /// The pinned epoch; `None` once a hold record protects the file instead.
    epoch: Mutex<Option<ReaderGuard>>,
    /// The registry of long readers and the number of this reader in it; empty until the reader is
    /// registered by `Holds::watch`.
    watched: OnceLock<(Arc<Holds>, u64)>,
}

impl ReadPin {
    /// Protects the blocks of file `ino`, which was found while `epoch` was pinned. `scope` is the
    /// content that a hold record must protect when it takes the place of the epoch.
    pub fn new(ino: Ino, scope: HoldScope, epoch: ReaderGuard) -> Arc<ReadPin> {
        let (began, epoch) = (Instant::now(), Mutex::new(Some(epoch)));
        Arc::new(ReadPin { ino, scope, began, epoch, watched: OnceLock::new() })
    }

    fn epoch(&self) -> MutexGuard<'_, Option<ReaderGuard>> {
        self.epoch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if the reader is older than [`HOLD_AFTER`] and pins an epoch older than the
    /// volume's, so that a hold must take the place of its epoch.
    fn is_long(&self) -> bool {
        self.began.elapsed() >= HOLD_AFTER
            && self.epoch().as_ref().is_some_and(ReaderGuard::is_outdated)
    }
}

impl Drop for ReadPin {
    fn drop(&mut self) {
        let Some((holds, number)) = self.watched.take() else { return };
        let held = self.epoch().is_none();
        holds.ended(number, held.then_some((self.ino, self.scope)));
    }
}

/// The readers of a session that may be long, and the session's holds: records that each keep one
/// file's blocks.
#[derive(Debug, Default)]
pub struct Holds {
    readers: Mutex<Readers>,
    /// Notified when the last reader of a hold has ended, so that the hold can be removed.
    pub(crate) released: Notify,
}

#[derive(Debug, Default)]
pub(crate) struct Readers {
    next: u64,
    /// Readers that may be long, by number: one for each response body in flight and each open
    /// file.
    watched: HashMap<u64, Weak<ReadPin>>,
    pub(crate) held: HashMap<Ino, ActiveHold>,
    /// Holds whose readers have ended and that must be removed, each with its record as it was
    /// written.
    pub(crate) released: HashMap<Ino, Value>,
}

/// The long readers of one file.
#[derive(Debug)]
pub(crate) struct LongReaders {
    pub(crate) ino: Ino,
    /// The content that the file's hold must protect: enough for these readers and for those that
    /// rely on its existing hold.
    pub(crate) scope: HoldScope,
    pins: Vec<Arc<ReadPin>>,
}

/// A hold that is in the store.
#[derive(Debug)]
pub(crate) struct ActiveHold {
    /// Number of readers that rely on this hold and pin no epoch.
    readers: u64,
    /// Number of those among them that need the content of one version, which may be older than the
    /// current content.
    version_readers: u64,
    /// The content of the file that the hold protects.
    scope: HoldScope,
    /// The hold's record as it was last written.
    record: Value,
}

impl Holds {
    pub(crate) fn readers(&self) -> MutexGuard<'_, Readers> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of files for which this session has a hold: a record that keeps the
    /// file's blocks.
    pub fn count(&self) -> usize {
        self.readers().held.len()
    }

    /// Takes over the holds (records that keep files' blocks) of a session that this process
    /// resumes: for each file the scope and the record. No reader relies on them yet.
    pub(crate) fn inherited(holds: HashMap<Ino, (HoldScope, Value)>) -> Arc<Holds> {
        let active = |(ino, (scope, record))| {
            (ino, ActiveHold { readers: 0, version_readers: 0, scope, record })
        };
        let held = holds.into_iter().map(active).collect();
        Arc::new(Holds {
            readers: Mutex::new(Readers { held, ..Readers::default() }),
            released: Notify::new(),
        })
    }

    /// Lets a reader rely on an existing hold of its file that protects enough, and releases the
    /// epoch that it pins. Does nothing if there is no such hold. The reaper may have waited for
    /// that epoch before, so the epoch alone would not protect the file.
    pub(crate) fn rely_on_hold(&self, pin: &ReadPin) {
        let mut readers = self.readers();
        let held = readers.held.get_mut(&pin.ino).filter(|held| held.scope >= pin.scope);
        if let Some(held) = held
            && let Some(epoch) = pin.epoch().take()
        {
            held.readers += 1;
            held.version_readers += u64::from(pin.scope == HoldScope::Versions);
            drop(readers);
            drop(epoch);
        }
    }

    /// Releases the holds that were taken over from the previous process and on which no reader
    /// relies. They are removed soon.
    pub(crate) fn end_inheritance(&self) {
        let mut readers = self.readers();
        // Their files were open in the previous process and are not open here, so no reader needs
        // them.
        let unused: Vec<Ino> = readers
            .held
            .iter()
            .filter(|(_, held)| held.readers == 0)
            .map(|(ino, _)| *ino)
            .collect();
        for ino in unused {
            if let Some(held) = readers.held.remove(&ino) {
                readers.released.insert(ino, held.record);
            }
        }
        self.released.notify_one();
    }

    /// Registers a reader that may be long. If it still reads after [`HOLD_AFTER`], its file gets a
    /// hold.
    pub fn watch(self: &Arc<Self>, pin: &Arc<ReadPin>) {
        pin.watched.get_or_init(|| {
            let mut readers = self.readers();
            let number = readers.next;
            readers.next += 1;
            readers.watched.insert(number, Arc::downgrade(pin));
            (Arc::clone(self), number)
        });
    }

    fn ended(&self, number: u64, held: Option<(Ino, HoldScope)>) {
        let mut readers = self.readers();
        readers.watched.remove(&number);
        let Some((ino, scope)) = held else { return };
        let Some(held) = readers.held.get_mut(&ino) else { return };
        held.readers -= 1;
        held.version_readers -= u64::from(scope == HoldScope::Versions);
        if held.readers == 0
            && let Some(held) = readers.held.remove(&ino)
        {
            readers.released.insert(ino, held.record);
            self.released.notify_one();
        } else if scope == HoldScope::Versions {
            self.released.notify_one();
        }
    }

    /// Returns the holds that protect older content of their files though only readers of the
    /// current content are left. Each comes with its record.
    pub(crate) fn overly_strong(&self) -> Vec<(Ino, Value)> {
        let readers = self.readers();
        let is_overly_strong =
            |held: &ActiveHold| held.scope == HoldScope::Versions && held.version_readers == 0;
        readers
            .held
            .iter()
            .filter(|(_, held)| is_overly_strong(held))
            .map(|(ino, held)| (*ino, held.record.clone()))
            .collect()
    }

    /// Records that the hold of a file was changed to protect only the current content. `record` is
    /// its new record.
    pub(crate) fn weakened(&self, ino: Ino, record: Value) {
        if let Some(held) = self.readers().held.get_mut(&ino) {
            (held.scope, held.record) = (HoldScope::File, record);
        }
    }

    /// Returns the long readers, grouped by file. Each group has the content that its hold must
    /// protect, for these readers and for those that rely on an existing hold of the file.
    pub(crate) fn long_readers(&self) -> Vec<LongReaders> {
        let watched: Vec<Arc<ReadPin>> =
            self.readers().watched.values().filter_map(Weak::upgrade).collect();
        let mut long_readers: HashMap<Ino, Vec<Arc<ReadPin>>> = HashMap::new();
        for pin in watched.into_iter().filter(|pin| pin.is_long()) {
            long_readers.entry(pin.ino).or_default().push(pin);
        }
        let readers = self.readers();
        let with_need = |(ino, pins): (Ino, Vec<Arc<ReadPin>>)| {
            let held = readers.held.get(&ino).map(|held| held.scope);
            let scope = pins.iter().map(|pin| pin.scope).chain(held).max();
            LongReaders { ino, scope: scope.unwrap_or(HoldScope::Versions), pins }
        };
        long_readers.into_iter().map(with_need).collect()
    }

    /// Records that a hold with this record was committed for the long readers of one file, and
    /// releases the epochs that they pin.
    pub(crate) fn taken(&self, long_readers: &LongReaders, record: &Value) {
        let LongReaders { ino, scope, pins } = long_readers;
        let (ino, scope) = (*ino, *scope);
        {
            let mut readers = self.readers();
            let new =
                || ActiveHold { readers: 0, version_readers: 0, scope, record: record.clone() };
            let held = readers.held.entry(ino).or_insert_with(new);
            held.readers += pins.len() as u64;
            let version_readers = pins.iter().filter(|pin| pin.scope == HoldScope::Versions);
            held.version_readers += version_readers.count() as u64;
            held.scope = scope;
            held.record = record.clone();
        }
        for pin in pins {
            let epoch = pin.epoch().take();
            drop(epoch);
        }
    }

    /// Records that a hold with this record may be in the store although no reader relies on it, so
    /// that it is removed later.
    pub(crate) fn may_remain(&self, ino: Ino, record: Value) {
        self.readers().released.insert(ino, record);
    }
}
