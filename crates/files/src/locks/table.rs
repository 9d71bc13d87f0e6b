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
    turn: Turn,
    /// What its owner held of the range before it was granted the lock.
    before: Vec<RangeLock>,
    wake: Arc<Notify>,
}

/// What one that waits is waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// For a program of this mount to let go.
    Here,
    /// For nobody: the lock is its own to take.
    Reserved,
    /// For one of another mount.
    Elsewhere,
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
            if self.waiting[index].turn == Turn::Reserved
                && self.held_in_the_way(&self.waiting[index].lock).is_some()
            {
                self.waiting[index].turn = Turn::Here;
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
    pub(super) fn held_in_the_way(&self, asked: &RangeLock) -> Option<RangeLock> {
        self.held.iter().find(|held| conflict(held, asked)).copied()
    }

    /// Who holds what is in the way of a lock.
    pub(super) fn holders_in_the_way(&self, asked: &RangeLock) -> impl Iterator<Item = u64> {
        self.held.iter().filter(|held| conflict(held, asked)).map(|held| held.owner)
    }

    /// The ranges that an owner waits for.
    pub(super) fn waited_for(&self, owner: u64) -> impl Iterator<Item = &RangeLock> {
        let waiting = self.waiting.iter().filter(|waiting| waiting.turn != Turn::Granted);
        waiting.map(|waiting| &waiting.lock).filter(move |lock| lock.owner == owner && !lock.flock)
    }

    /// Whether anything is in the way of a lock: held, or reserved for another.
    pub(super) fn is_in_the_way(&self, asked: &RangeLock) -> bool {
        let reserved =
            |waiting: &Waiting| waiting.turn == Turn::Reserved && conflict(&waiting.lock, asked);
        self.held_in_the_way(asked).is_some() || self.waiting.iter().any(reserved)
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
            turn: Turn::Here,
            before: Vec::new(),
            wake: Arc::clone(&wake),
        });
        self.serve();
        (number, wake)
    }

    /// What one that waits is waiting for; nothing if it does not wait any more.
    pub(super) fn turn(&self, number: u64) -> Option<Turn> {
        self.waiting.iter().find(|waiting| waiting.number == number).map(|waiting| waiting.turn)
    }

    /// One for whom the lock was reserved has found it held elsewhere.
    pub(super) fn is_elsewhere(&mut self, number: u64) {
        self.set_turn(number, Turn::Elsewhere);
        self.serve();
    }

    /// What was held elsewhere may be free.
    pub(super) fn look_again(&mut self, number: u64) {
        self.set_turn(number, Turn::Here);
        self.serve();
    }

    fn set_turn(&mut self, number: u64, turn: Turn) {
        let mut waiting = self.waiting.iter_mut();
        if let Some(waiting) = waiting.find(|waiting| waiting.number == number) {
            waiting.turn = turn;
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
        self.waiting[index].turn = Turn::Granted;
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
        let Waiting { turn, before, .. } = self.waiting.remove(index);
        self.serve();
        (turn == Turn::Granted).then_some(before)
    }

    /// One that waited knows that it has its lock.
    pub(super) fn told(&mut self, number: u64) {
        self.waiting.retain(|waiting| waiting.number != number);
    }

    /// Reserves for those who wait what they can have now, in the order in which they came.
    fn serve(&mut self) {
        for index in 0..self.waiting.len() {
            let (lock, turn) = (self.waiting[index].lock, self.waiting[index].turn);
            if turn == Turn::Here && !self.is_in_the_way(&lock) {
                self.waiting[index].turn = Turn::Reserved;
                self.waiting[index].wake.notify_one();
            }
        }
    }
}

#[cfg(test)]
mod tests;
