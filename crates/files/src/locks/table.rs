//! The locks that one mount's programs hold on one file, and the waiters.
//!
//! Pure data: nothing here waits or sends. Waiters are served in order of arrival. A waiter does
//! not get the lock at once, because it may have given up: the lock is *reserved* for it, and
//! conflicts with all others until the waiter takes it or gives up. Until then its owner keeps the
//! locks that it had on that range.
//!
//! ```text
//!   wait ──▶ BlockedHere ──free──▶ Reserved ──grant──▶ Granted ──remove_granted──▶ (done)
//!                ▲   ▲                │ │
//!                │   └────────────────┘ │   another waiter was granted a conflicting lock
//!        recheck │                      │
//!                └─ BlockedElsewhere ◀──┘   another mount holds a conflicting lock
//! ```

use std::sync::Arc;

use record::RangeLock;
use tokio::sync::Notify;

/// The locks that programs of this mount hold on one file, and the requests that wait for locks.
#[derive(Debug, Default)]
pub(super) struct FileTable {
    held: Vec<RangeLock>,
    waiting: Vec<Waiting>,
    next: u64,
}

/// A request that waits for a lock.
#[derive(Debug)]
struct Waiting {
    number: u64,
    lock: RangeLock,
    state: WaitState,
    /// The locks that its owner had on that range before the grant. It gets them back if the
    /// request gives up.
    before: Vec<RangeLock>,
    wake: Arc<Notify>,
}

/// The state of a request that waits for a lock; see the diagram in the module's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitState {
    /// A program of this mount holds a conflicting lock.
    BlockedHere,
    /// The lock is free here and reserved for this waiter, which must take it.
    Reserved,
    /// A program of another mount holds a conflicting lock.
    BlockedElsewhere,
    /// The lock is held, and the reply to the waiter is about to be sent.
    Granted,
}

/// Returns true if two locks of one mount's programs conflict: their owners differ, and the modes
/// and ranges exclude each other.
fn conflict(one: &RangeLock, other: &RangeLock) -> bool {
    one.owner != other.owner && one.excludes(other)
}

/// Returns the part of a lock inside the range of another one; `None` if the ranges do not overlap.
fn clip(lock: &RangeLock, range: &RangeLock) -> Option<RangeLock> {
    let (start, last) = (lock.start.max(range.start), lock.last.min(range.last));
    (start <= last).then_some(RangeLock { start, last, ..*lock })
}

impl FileTable {
    /// Returns the locks that programs of this mount hold on the file.
    pub(super) fn held(&self) -> &[RangeLock] {
        &self.held
    }

    /// Replaces the locks that are held on the file, and reserves locks that are free now for the
    /// requests that wait.
    pub(super) fn set_held(&mut self, held: Vec<RangeLock>) {
        self.held = held;
        for index in 0..self.waiting.len() {
            // Another lock was granted on a range that was reserved.
            if self.waiting[index].state == WaitState::Reserved
                && self.conflicting_held(&self.waiting[index].lock).is_some()
            {
                self.waiting[index].state = WaitState::BlockedHere;
            }
        }
        self.serve();
    }

    /// Returns the number of requests that wait for a lock on the file.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty() && self.waiting.is_empty()
    }

    /// Returns a held lock that conflicts with `requested`; `None` if there is none.
    pub(super) fn conflicting_held(&self, requested: &RangeLock) -> Option<RangeLock> {
        self.held.iter().find(|held| conflict(held, requested)).copied()
    }

    /// Iterates over the owners of held locks that conflict with `requested`.
    pub(super) fn conflicting_owners(&self, requested: &RangeLock) -> impl Iterator<Item = u64> {
        self.held.iter().filter(|held| conflict(held, requested)).map(|held| held.owner)
    }

    /// Iterates over the locks of fcntl(2) for which requests of an owner wait on this file.
    pub(super) fn waited_for(&self, owner: u64) -> impl Iterator<Item = &RangeLock> {
        let waiting = self.waiting.iter().filter(|waiting| waiting.state != WaitState::Granted);
        waiting.map(|waiting| &waiting.lock).filter(move |lock| lock.owner == owner && !lock.flock)
    }

    /// Returns true if `requested` conflicts with a held lock, or with one that is reserved for a
    /// waiting request.
    pub(super) fn has_conflict(&self, requested: &RangeLock) -> bool {
        let reserved = |waiting: &Waiting| {
            waiting.state == WaitState::Reserved && conflict(&waiting.lock, requested)
        };
        self.conflicting_held(requested).is_some() || self.waiting.iter().any(reserved)
    }

    /// Returns the locks that would be held on the file after an owner released the bytes
    /// `start..=last`.
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

    /// Returns the locks that would be held on the file after an owner took `lock`, which replaces
    /// the locks of this owner on that range.
    pub(super) fn with(&self, lock: &RangeLock) -> Vec<RangeLock> {
        let mut after = self.without(lock.owner, lock.flock, lock.start, lock.last);
        after.push(*lock);
        after
    }

    /// Adds a request that waits for a lock. Returns its number, and the notification that wakes
    /// it.
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

    /// Returns the state of a waiting request by its number; `None` if it has given up.
    pub(super) fn wait_state(&self, number: u64) -> Option<WaitState> {
        self.waiting.iter().find(|waiting| waiting.number == number).map(|waiting| waiting.state)
    }

    /// Sets a waiting request to [`WaitState::BlockedElsewhere`], because a program of another
    /// mount holds a conflicting lock.
    pub(super) fn set_blocked_elsewhere(&mut self, number: u64) {
        self.set_state(number, WaitState::BlockedElsewhere);
        self.serve();
    }

    /// Sets a waiting request back to [`WaitState::BlockedHere`], so that it tries again: the lock
    /// of the other mount may be free.
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

    /// Grants a waiting request its lock. `after` are the locks held on the file then. Returns
    /// false, and changes nothing, if the waiter has given up.
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

    /// Returns the locks of the same owner inside the range of `lock`.
    fn own_within(&self, lock: &RangeLock) -> Vec<RangeLock> {
        let is_own = |held: &&RangeLock| held.owner == lock.owner && held.flock == lock.flock;
        self.held.iter().filter(is_own).filter_map(|held| clip(held, lock)).collect()
    }

    /// Returns the locks that would be held on the file after the granted `lock` is given up. Its
    /// owner gets back `before`, the locks that it had on that range, but no more than it still
    /// holds of that range.
    pub(super) fn restored(&self, lock: &RangeLock, before: &[RangeLock]) -> Vec<RangeLock> {
        let mut after = self.without(lock.owner, lock.flock, lock.start, lock.last);
        for now in self.own_within(lock) {
            // Its owner may have downgraded the lock since: never give back a stronger mode than
            // the present one.
            let weaker = |piece: RangeLock| RangeLock { kind: piece.kind.min(now.kind), ..piece };
            after.extend(before.iter().filter_map(|held| clip(held, &now)).map(weaker));
        }
        after
    }

    /// Removes a waiting request that gives up. If it was granted its lock, returns the locks that
    /// its owner had before and must get back; otherwise `None`.
    pub(super) fn give_up(&mut self, number: u64) -> Option<Vec<RangeLock>> {
        let index = self.waiting.iter().position(|waiting| waiting.number == number)?;
        let Waiting { state, before, .. } = self.waiting.remove(index);
        self.serve();
        (state == WaitState::Granted).then_some(before)
    }

    /// Removes a request that got its lock. The lock stays with its owner.
    pub(super) fn remove_granted(&mut self, number: u64) {
        self.waiting.retain(|waiting| waiting.number != number);
    }

    /// Reserves locks that are free for the requests that wait for them, in order of arrival, and
    /// wakes these requests.
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
