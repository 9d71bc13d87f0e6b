//! Readers that last: a record in place of a pinned epoch.
//!
//! A reader pins the epoch that it began in, which costs nothing and holds back every deletion of the
//! volume, see [`crate::Epochs`]. For the moment that most readers take that is right. One that lasts,
//! because its client is slow, would hold back all others for as long as it likes. So once a reader
//! has lasted for [`HOLD_AFTER`], and the volume's epoch has moved on meanwhile, its session writes a
//! *hold* on the file, a record that the reaper respects, and only then lets go of the epoch. What is
//! held back from then on is this one file.
//!
//! - The hold is committed before the epoch is let go of, and the reaper looks for holds after it has
//!   waited for the epoch: so it sees the one or waits for the other.
//! - A hold counts while its session lives. Those of sessions that have ended, the reaper removes.
//! - All readers of a file in one session share one hold; it is removed when the last one ends.
//!
//! Knows nothing of who reads. Files that are open, and may have lost their names, are kept in the same
//! way, as they are: those who have one open read what it is by now, so that what writes have hidden
//! is not kept for them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use record::{HoldScope, Ino};
use store::Value;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::epoch::ReaderGuard;

/// For how long a reader pins its epoch before a hold takes its place.
pub const HOLD_AFTER: Duration = Duration::from_secs(5);

/// Keeps what a reader found from being deleted, until it is dropped.
#[derive(Debug)]
pub struct ReadPin {
    ino: Ino,
    what: HoldScope,
    began: Instant,
    /// `None` once a hold has taken its place.
    epoch: Mutex<Option<ReaderGuard>>,
    /// Where it is watched, if it may last, and under which number.
    watched: OnceLock<(Arc<Holds>, u64)>,
}

impl ReadPin {
    /// Pins what was found of a file since `epoch` was. `what` is what a hold must keep that takes its
    /// place.
    pub fn new(ino: Ino, what: HoldScope, epoch: ReaderGuard) -> Arc<ReadPin> {
        let (began, epoch) = (Instant::now(), Mutex::new(Some(epoch)));
        Arc::new(ReadPin { ino, what, began, epoch, watched: OnceLock::new() })
    }

    fn epoch(&self) -> MutexGuard<'_, Option<ReaderGuard>> {
        self.epoch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it has pinned an epoch for long that the volume has left.
    fn is_long(&self) -> bool {
        self.began.elapsed() >= HOLD_AFTER
            && self.epoch().as_ref().is_some_and(ReaderGuard::is_outdated)
    }
}

impl Drop for ReadPin {
    fn drop(&mut self) {
        let Some((holds, number)) = self.watched.take() else { return };
        let held = self.epoch().is_none();
        holds.ended(number, held.then_some((self.ino, self.what)));
    }
}

/// The readers of a session that may last, and what it holds.
#[derive(Debug, Default)]
pub struct Holds {
    readers: Mutex<Readers>,
    /// Notified when a hold is not needed any more.
    pub(crate) released: Notify,
}

#[derive(Debug, Default)]
pub(crate) struct Readers {
    next: u64,
    /// As many as there are bodies on their way out.
    watched: HashMap<u64, Weak<ReadPin>>,
    pub(crate) held: HashMap<Ino, ActiveHold>,
    /// Holds that nobody rests on, as they were written.
    pub(crate) released: HashMap<Ino, Value>,
}

/// Readers of one file that have lasted.
#[derive(Debug)]
pub(crate) struct LongReaders {
    pub(crate) ino: Ino,
    pub(crate) what: HoldScope,
    pins: Vec<Arc<ReadPin>>,
}

/// A hold that stands.
#[derive(Debug)]
pub(crate) struct ActiveHold {
    /// How many readers rest on it, and how many of them need what the file was, too.
    readers: u64,
    version_readers: u64,
    what: HoldScope,
    /// As it was written last.
    record: Value,
}

impl Holds {
    pub(crate) fn readers(&self) -> MutexGuard<'_, Readers> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Files that are held.
    pub fn count(&self) -> usize {
        self.readers().held.len()
    }

    /// What a session holds that is gone on with. Nobody rests on it yet.
    pub(crate) fn inherited(holds: HashMap<Ino, (HoldScope, Value)>) -> Arc<Holds> {
        let standing = |(ino, (what, record))| {
            (ino, ActiveHold { readers: 0, version_readers: 0, what, record })
        };
        let held = holds.into_iter().map(standing).collect();
        Arc::new(Holds {
            readers: Mutex::new(Readers { held, ..Readers::default() }),
            released: Notify::new(),
        })
    }

    /// Has a reader rest on a hold, if one stands that keeps what it needs: its epoch may be one for
    /// which the reaper has waited already.
    pub(crate) fn rely_on_hold(&self, pin: &ReadPin) {
        let mut readers = self.readers();
        let held = readers.held.get_mut(&pin.ino).filter(|held| held.what >= pin.what);
        if let Some(held) = held
            && let Some(epoch) = pin.epoch().take()
        {
            held.readers += 1;
            held.version_readers += u64::from(pin.what == HoldScope::Versions);
            drop(readers);
            drop(epoch);
        }
    }

    /// Lets go of what was inherited and nobody rests on.
    pub(crate) fn end_inheritance(&self) {
        let mut readers = self.readers();
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

    /// Watches a reader that may last.
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
        let Some((ino, what)) = held else { return };
        let Some(held) = readers.held.get_mut(&ino) else { return };
        held.readers -= 1;
        held.version_readers -= u64::from(what == HoldScope::Versions);
        if held.readers == 0
            && let Some(held) = readers.held.remove(&ino)
        {
            readers.released.insert(ino, held.record);
            self.released.notify_one();
        } else if what == HoldScope::Versions {
            self.released.notify_one();
        }
    }

    /// Holds that keep more than anybody needs who rests on them, as they were written.
    pub(crate) fn overly_strong(&self) -> Vec<(Ino, Value)> {
        let readers = self.readers();
        let standing = readers.held.iter();
        let is_overly_strong =
            |held: &ActiveHold| held.what == HoldScope::Versions && held.version_readers == 0;
        standing
            .filter(|(_, held)| is_overly_strong(held))
            .map(|(ino, held)| (*ino, held.record.clone()))
            .collect()
    }

    /// A hold keeps the file as it is, and no more.
    pub(crate) fn weakened(&self, ino: Ino, record: Value) {
        if let Some(held) = self.readers().held.get_mut(&ino) {
            (held.what, held.record) = (HoldScope::File, record);
        }
    }

    /// The readers that have lasted, by file, each with what a hold must keep for them, and for those
    /// who rest on the one that stands.
    pub(crate) fn long_readers(&self) -> Vec<LongReaders> {
        let watched: Vec<Arc<ReadPin>> =
            self.readers().watched.values().filter_map(Weak::upgrade).collect();
        let mut long_readers: HashMap<Ino, Vec<Arc<ReadPin>>> = HashMap::new();
        for pin in watched.into_iter().filter(|pin| pin.is_long()) {
            long_readers.entry(pin.ino).or_default().push(pin);
        }
        let readers = self.readers();
        let with_need = |(ino, pins): (Ino, Vec<Arc<ReadPin>>)| {
            let standing = readers.held.get(&ino).map(|standing| standing.what);
            let what = pins.iter().map(|pin| pin.what).chain(standing).max();
            LongReaders { ino, what: what.unwrap_or(HoldScope::Versions), pins }
        };
        long_readers.into_iter().map(with_need).collect()
    }

    /// A hold stands for these readers, all of one file.
    pub(crate) fn taken(&self, long_readers: &LongReaders, record: &Value) {
        let LongReaders { ino, what, pins } = long_readers;
        let (ino, what) = (*ino, *what);
        {
            let mut readers = self.readers();
            let new =
                || ActiveHold { readers: 0, version_readers: 0, what, record: record.clone() };
            let held = readers.held.entry(ino).or_insert_with(new);
            held.readers += pins.len() as u64;
            let version_readers = pins.iter().filter(|pin| pin.what == HoldScope::Versions);
            held.version_readers += version_readers.count() as u64;
            held.what = what;
            held.record = record.clone();
        }
        for pin in pins {
            let epoch = pin.epoch().take();
            drop(epoch);
        }
    }

    /// A hold may stand that nobody rests on.
    pub(crate) fn may_remain(&self, ino: Ino, record: Value) {
        self.readers().released.insert(ino, record);
    }
}
