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
//! Knows nothing of who reads. Files that are open and have lost their names can be kept in the same
//! way.

use std::collections::{HashMap, HashSet};
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use futures::{StreamExt, stream};
use record::key::{self, space};
use record::{Hold, Ino, Nonce};
use store::{Guard, Key, Plan, Value, Write};
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::commit::Outcome;
use crate::epoch::ReaderGuard;
use crate::state::{Seen, others};
use crate::{Session, VolumeError, scan};

/// For how long a reader pins its epoch before a hold takes its place.
pub const HOLD_AFTER: Duration = Duration::from_secs(5);

/// How often readers are looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Holds that one plan writes, or that are removed side by side.
const HOLDS_AT_ONCE: usize = 256;

/// Keeps what a reader found from being deleted, until it is dropped.
#[derive(Debug)]
pub struct ReadPin {
    ino: Ino,
    began: Instant,
    /// `None` once a hold has taken its place.
    epoch: Mutex<Option<ReaderGuard>>,
    /// Where it is watched, if it may last, and under which number.
    watched: OnceLock<(Arc<Holds>, u64)>,
}

impl ReadPin {
    /// Pins what was found of a file since `epoch` was.
    pub fn new(ino: Ino, epoch: ReaderGuard) -> Arc<ReadPin> {
        let (began, epoch) = (Instant::now(), Mutex::new(Some(epoch)));
        Arc::new(ReadPin { ino, began, epoch, watched: OnceLock::new() })
    }

    fn epoch(&self) -> MutexGuard<'_, Option<ReaderGuard>> {
        self.epoch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it has pinned an epoch for long that the volume has left.
    fn lasts(&self) -> bool {
        self.began.elapsed() >= HOLD_AFTER
            && self.epoch().as_ref().is_some_and(ReaderGuard::is_outdated)
    }
}

impl Drop for ReadPin {
    fn drop(&mut self) {
        let Some((holds, number)) = self.watched.take() else { return };
        let held = self.epoch().is_none();
        holds.ended(number, held.then_some(self.ino));
    }
}

/// The readers of a session that may last, and what it holds.
#[derive(Debug, Default)]
pub struct Holds {
    readers: Mutex<Readers>,
    /// Told when a hold is not needed any more.
    released: Notify,
}

#[derive(Debug, Default)]
struct Readers {
    next: u64,
    /// As many as there are bodies on their way out.
    watched: HashMap<u64, Weak<ReadPin>>,
    held: HashMap<Ino, Held>,
    /// Holds that nobody rests on, as they were written.
    released: HashMap<Ino, Value>,
}

/// A hold that stands.
#[derive(Debug)]
struct Held {
    /// How many readers rest on it.
    readers: u64,
    /// As it was written last.
    record: Value,
}

impl Holds {
    fn readers(&self) -> MutexGuard<'_, Readers> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Files that are held.
    pub fn count(&self) -> usize {
        self.readers().held.len()
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

    fn ended(&self, number: u64, held: Option<Ino>) {
        let mut readers = self.readers();
        readers.watched.remove(&number);
        let Some(ino) = held else { return };
        let Some(held) = readers.held.get_mut(&ino) else { return };
        held.readers -= 1;
        if held.readers == 0
            && let Some(held) = readers.held.remove(&ino)
        {
            readers.released.insert(ino, held.record);
            self.released.notify_one();
        }
    }

    /// The readers that have lasted, by file.
    fn lasting(&self) -> HashMap<Ino, Vec<Arc<ReadPin>>> {
        let watched: Vec<Arc<ReadPin>> =
            self.readers().watched.values().filter_map(Weak::upgrade).collect();
        let mut lasting: HashMap<Ino, Vec<Arc<ReadPin>>> = HashMap::new();
        for pin in watched.into_iter().filter(|pin| pin.lasts()) {
            lasting.entry(pin.ino).or_default().push(pin);
        }
        lasting
    }

    /// A hold stands for these readers, all of one file.
    fn taken(&self, ino: Ino, record: &Value, pins: &[Arc<ReadPin>]) {
        {
            let mut readers = self.readers();
            let new = || Held { readers: 0, record: record.clone() };
            let held = readers.held.entry(ino).or_insert_with(new);
            held.readers += pins.len() as u64;
            held.record = record.clone();
        }
        for pin in pins {
            let epoch = pin.epoch().take();
            drop(epoch);
        }
    }

    /// A hold may stand that nobody rests on.
    fn may_be_left(&self, ino: Ino, record: Value) {
        self.readers().released.insert(ino, record);
    }
}

impl Session {
    /// Puts holds in the place of epochs that readers have pinned for long, and removes those that
    /// nobody needs. One task does this, one step after the other; and each hold is removed as it was
    /// written, so that a plan that comes late removes none that was taken anew.
    pub(crate) async fn renew_holds(&self) {
        let released = mem::take(&mut self.holds.readers().released);
        let unheld: Vec<(Ino, Value)> = {
            let readers = self.holds.readers();
            released.into_iter().filter(|(ino, _)| !readers.held.contains_key(ino)).collect()
        };
        let removing = unheld.into_iter().map(|(ino, record)| self.remove_hold(ino, record));
        stream::iter(removing).buffer_unordered(HOLDS_AT_ONCE).collect::<()>().await;
        let lasting: Vec<(Ino, Vec<Arc<ReadPin>>)> = self.holds.lasting().into_iter().collect();
        for lasting in lasting.chunks(HOLDS_AT_ONCE) {
            let since = Hold { since: self.now() };
            let key = |ino: &Ino| key::hold(*ino, self.nonce());
            let records: Vec<Value> =
                lasting.iter().map(|(ino, _)| since.encode(&key(ino))).collect();
            let holds = || lasting.iter().zip(&records);
            let put =
                |((ino, _), record): (&(Ino, _), &Value)| Write::Put(key(ino), record.clone());
            let plan = Plan { guards: Vec::new(), writes: holds().map(put).collect() };
            let outcome = self.commit_plan(plan).await;
            if matches!(outcome, Outcome::Committed) {
                debug!(files = lasting.len(), "readers that last hold their files");
                holds().for_each(|((ino, pins), record)| self.holds.taken(*ino, record, pins));
            } else {
                // They go on pinning their epochs. If the plan happens yet, its holds go again.
                warn!(?outcome, "files could not be held for readers that last");
                holds().for_each(|((ino, _), record)| self.holds.may_be_left(*ino, record.clone()));
            }
        }
    }

    /// Removes a hold that nobody rests on, if it stands as it was written.
    async fn remove_hold(&self, ino: Ino, record: Value) {
        let key = key::hold(ino, self.nonce());
        let guards = vec![Guard::Equals(key.clone(), record.clone())];
        match self.commit_plan(Plan { guards, writes: vec![Write::Delete(key)] }).await {
            Outcome::Committed => self.wake_reaper(),
            // A plan that came late has put another one in its place.
            Outcome::Refused { found: Some(record), .. } => self.holds.may_be_left(ino, record),
            Outcome::Refused { found: None, .. } => {}
            Outcome::Aborted(_) | Outcome::Failed(_) => self.holds.may_be_left(ino, record),
        }
    }

    /// The files that some living session holds. To be asked for after having waited for readers.
    pub async fn held_files(&self) -> Result<HashSet<Ino>, VolumeError> {
        let mut holds: Vec<(Key, Ino, Nonce)> = Vec::new();
        scan::walk(&*self.store, space::HOLD, |key, _| {
            let (ino, session) = (Ino(key.partition()), scan::nonce_of(&key)?);
            holds.push((key, ino, session));
            Ok(())
        })
        .await?;
        if holds.is_empty() {
            return Ok(HashSet::new());
        }
        let others = others(&*self.store, self.nonce()).await?;
        let mut living: HashSet<Nonce> =
            others.into_iter().map(|Seen { nonce, .. }| nonce).collect();
        living.insert(self.nonce());
        let (living, left): (Vec<_>, Vec<_>) =
            holds.into_iter().partition(|(_, _, session)| living.contains(session));
        for (key, _, session) in left {
            let guards = vec![Guard::Absent(key::session(session))];
            // Whatever becomes of it: a hold of a session that has ended counts for nothing.
            let _outcome =
                self.commit_plan(Plan { guards, writes: vec![Write::Delete(key)] }).await;
        }
        Ok(living.into_iter().map(|(_, ino, _)| ino).collect())
    }
}

/// Looks after holds for as long as the volume lives.
pub(crate) async fn hold_always(volume: Weak<Session>) {
    loop {
        let Some(alive) = volume.upgrade() else { return };
        let (closing, holds) = (alive.closing.clone(), Arc::clone(&alive.holds));
        drop(alive);
        tokio::select! {
            () = closing.cancelled() => return,
            () = tokio::time::sleep(LOOK_INTERVAL) => {}
            () = holds.released.notified() => {}
        }
        let Some(alive) = volume.upgrade() else { return };
        if alive.is_fenced() {
            return;
        }
        alive.renew_holds().await;
    }
}
