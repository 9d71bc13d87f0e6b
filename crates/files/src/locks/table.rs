//! The locks that programs of one mount hold of one file, and who waits for them.
//!
//! Plain data: nothing here waits or sends. Who waits is served in the order of coming. It is not
//! given the lock at once, which it might not want any more: the lock is *reserved* for it, and in
//! everybody else's way until it is taken or given up. What its owner held of the range before stays
//! until then.

use std::sync::Arc;

use record::RangeLock;
use tokio::sync::Notify;

/// The locks of one file.
#[derive(Debug, Default)]
pub(super) struct FileTable {
    held: Vec<RangeLock>,
    waiting: Vec<Waiting>,
    next: u64,
}

/// One that waits.
#[derive(Debug)]
struct Waiting {
    number: u64,
    lock: RangeLock,
    state: WaitState,
    /// What its owner held of the range before it was granted the lock.
    before: Vec<RangeLock>,
    wake: Arc<Notify>,
}

/// What one that waits is waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitState {
    /// For a program of this mount to let go.
    BlockedHere,
    /// For nobody: the lock is its own to take.
    Reserved,
    /// For one of another mount.
    BlockedElsewhere,
    /// For nothing any more: the lock is held, and whoever waited is about to be told.
    Granted,
}

/// Whether two locks of programs of one mount are in each other's way.
fn conflict(one: &RangeLock, other: &RangeLock) -> bool {
    one.owner != other.owner && one.excludes(other)
}

/// The part of a lock that lies within the range of another.
fn clip(lock: &RangeLock, range: &RangeLock) -> Option<RangeLock> {
    let (start, last) = (lock.start.max(range.start), lock.last.min(range.last));
    (start <= last).then_some(RangeLock { start, last, ..*lock })
}

impl FileTable {
    /// Those that are held.
    pub(super) fn held(&self) -> &[RangeLock] {
        &self.held
    }

    /// Replaces those that are held.
    pub(super) fn set_held(&mut self, held: Vec<RangeLock>) {
        self.held = held;
        for index in 0..self.waiting.len() {
            // It was reserved while another was about to be held.
            if self.waiting[index].state == WaitState::Reserved
                && self.conflicting_held(&self.waiting[index].lock).is_some()
            {
                self.waiting[index].state = WaitState::BlockedHere;
            }
        }
        self.serve();
    }

    /// How many wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty() && self.waiting.is_empty()
    }

    /// The lock that is held and in the way of another one.
    pub(super) fn conflicting_held(&self, asked: &RangeLock) -> Option<RangeLock> {
        self.held.iter().find(|held| conflict(held, asked)).copied()
    }

    /// Who holds what is in the way of a lock.
    pub(super) fn conflicting_owners(&self, asked: &RangeLock) -> impl Iterator<Item = u64> {
        self.held.iter().filter(|held| conflict(held, asked)).map(|held| held.owner)
    }

    /// The ranges that an owner waits for.
    pub(super) fn waited_for(&self, owner: u64) -> impl Iterator<Item = &RangeLock> {
        let waiting = self.waiting.iter().filter(|waiting| waiting.state != WaitState::Granted);
        waiting.map(|waiting| &waiting.lock).filter(move |lock| lock.owner == owner && !lock.flock)
    }

    /// Whether anything is in the way of a lock: held, or reserved for another.
    pub(super) fn has_conflict(&self, asked: &RangeLock) -> bool {
        let reserved = |waiting: &Waiting| {
            waiting.state == WaitState::Reserved && conflict(&waiting.lock, asked)
        };
        self.conflicting_held(asked).is_some() || self.waiting.iter().any(reserved)
    }

    /// What is held once an owner has let go of a range.
    pub(super) fn without(&self, owner: u64, flock: bool, start: u64, last: u64) -> Vec<RangeLock> {
        let mut after = Vec::with_capacity(self.held.len() + 1);
        for held in &self.held {
            let is_of = held.owner == owner && held.flock == flock;
            if !is_of || held.start > last || start > held.last {
                after.push(*held);
                continue;
            }
            if held.start < start {
                after.push(RangeLock { last: start - 1, ..*held });
            }
            if held.last > last {
                after.push(RangeLock { start: last + 1, ..*held });
            }
        }
        after
    }

    /// What is held once an owner has a lock, in place of what it has of the range.
    pub(super) fn with(&self, lock: &RangeLock) -> Vec<RangeLock> {
        let mut after = self.without(lock.owner, lock.flock, lock.start, lock.last);
        after.push(*lock);
        after
    }

    /// Begins to wait for a lock. Answers under which number, and by what it is woken.
    pub(super) fn wait(&mut self, lock: RangeLock) -> (u64, Arc<Notify>) {
        self.next += 1;
        let (number, wake) = (self.next, Arc::new(Notify::new()));
        self.waiting.push(Waiting {
            number,
            lock,
            state: WaitState::BlockedHere,
            before: Vec::new(),
            wake: Arc::clone(&wake),
        });
        self.serve();
        (number, wake)
    }

    /// What one that waits is waiting for; nothing if it does not wait any more.
    pub(super) fn wait_state(&self, number: u64) -> Option<WaitState> {
        self.waiting.iter().find(|waiting| waiting.number == number).map(|waiting| waiting.state)
    }

    /// One for whom the lock was reserved has found it held elsewhere.
    pub(super) fn set_blocked_elsewhere(&mut self, number: u64) {
        self.set_state(number, WaitState::BlockedElsewhere);
        self.serve();
    }

    /// What was held elsewhere may be free.
    pub(super) fn recheck(&mut self, number: u64) {
        self.set_state(number, WaitState::BlockedHere);
        self.serve();
    }

    fn set_state(&mut self, number: u64, state: WaitState) {
        let mut waiting = self.waiting.iter_mut();
        if let Some(waiting) = waiting.find(|waiting| waiting.number == number) {
            waiting.state = state;
        }
    }

    /// Gives one that waits its lock; `after` is what is held then. Answers whether it still waits: else
    /// nothing changes.
    pub(super) fn grant(&mut self, number: u64, after: Vec<RangeLock>) -> bool {
        let Some(index) = self.waiting.iter().position(|waiting| waiting.number == number) else {
            return false;
        };
        let lock = self.waiting[index].lock;
        self.waiting[index].before = self.own_within(&lock);
        self.waiting[index].state = WaitState::Granted;
        self.set_held(after);
        true
    }

    /// What the owner of a lock holds of its range.
    fn own_within(&self, lock: &RangeLock) -> Vec<RangeLock> {
        let is_own = |held: &&RangeLock| held.owner == lock.owner && held.flock == lock.flock;
        self.held.iter().filter(is_own).filter_map(|held| clip(held, lock)).collect()
    }

    /// What is held once a lock was given up that had been granted, where its owner held these before:
    /// no more than it holds of them now.
    pub(super) fn restored(&self, lock: &RangeLock, before: &[RangeLock]) -> Vec<RangeLock> {
        let mut after = self.without(lock.owner, lock.flock, lock.start, lock.last);
        for now in self.own_within(lock) {
            let weaker = |piece: RangeLock| RangeLock { kind: piece.kind.min(now.kind), ..piece };
            after.extend(before.iter().filter_map(|held| clip(held, &now)).map(weaker));
        }
        after
    }

    /// One that waits gives up. Answers what its owner held before, if it was granted the lock: that is
    /// to be restored.
    pub(super) fn give_up(&mut self, number: u64) -> Option<Vec<RangeLock>> {
        let index = self.waiting.iter().position(|waiting| waiting.number == number)?;
        let Waiting { state, before, .. } = self.waiting.remove(index);
        self.serve();
        (state == WaitState::Granted).then_some(before)
    }

    /// One that waited knows that it has its lock.
    pub(super) fn remove_granted(&mut self, number: u64) {
        self.waiting.retain(|waiting| waiting.number != number);
    }

    /// Reserves for those who wait what they can have now, in the order in which they came.
    fn serve(&mut self) {
        for index in 0..self.waiting.len() {
            let (lock, state) = (self.waiting[index].lock, self.waiting[index].state);
            if state == WaitState::BlockedHere && !self.has_conflict(&lock) {
                self.waiting[index].state = WaitState::Reserved;
                self.waiting[index].wake.notify_one();
            }
        }
    }
}

#[cfg(test)]
mod tests;
