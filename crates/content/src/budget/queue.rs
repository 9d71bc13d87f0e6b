//! The requests that wait for memory of a budget, and the memory that each key holds.

use std::collections::{HashMap, VecDeque};

use tokio::sync::oneshot;

use super::holder::{MemoryHolder, SHARE_PARTS, Share};

/// The limit of the requests that wait under one key of their holders, in a budget with fixed
/// shares. Further ones fail at once, so that one client does not fill the queue.
const WAITING_PER_KEY_MAX: usize = 16;

/// The state of a memory budget, in units of memory: free units, holders, and waiting requests. A
/// waiting request receives a `P` when it is granted.
#[derive(Debug)]
pub(super) struct Queue<P> {
    units: u64,
    free: u64,
    /// True if holders get no more than their shares even if memory is free.
    fixed_shares: bool,
    /// The units of memory that are held under each key of the holders.
    held: HashMap<u64, u64>,
    /// The waiting requests in the order of their arrival.
    waiting: VecDeque<Waiting<P>>,
    ids: u64,
}

/// A request for memory that waits.
#[derive(Debug)]
pub(super) struct Waiting<P> {
    id: u64,
    pub(super) holder: MemoryHolder,
    pub(super) units: u64,
    pub(super) to: oneshot::Sender<P>,
}

impl<P> Queue<P> {
    pub(super) fn new(units: u64, fixed_shares: bool) -> Queue<P> {
        let (held, waiting) = (HashMap::new(), VecDeque::new());
        Queue { units, free: units, fixed_shares, held, waiting, ids: 0 }
    }

    /// Takes `units` of memory for the holder if they are free and no request waits. Returns false
    /// otherwise.
    pub(super) fn try_take(&mut self, holder: &MemoryHolder, units: u64) -> bool {
        // A request must not overtake those that wait.
        let others_first = !self.waiting.is_empty();
        let beyond = self.fixed_shares && self.exceeded_shares(holder, units, false) > 0;
        if others_first || beyond || units > self.free {
            return false;
        }
        self.take(holder, units);
        true
    }

    /// Adds a request for `units` of memory at the end of the queue. Returns its id.
    pub(super) fn wait(
        &mut self,
        holder: &MemoryHolder,
        units: u64,
        to: oneshot::Sender<P>,
    ) -> u64 {
        let id = self.ids;
        self.ids += 1;
        self.waiting.push_back(Waiting { id, holder: holder.clone(), units, to });
        id
    }

    /// Removes a request for memory from the queue. Returns true if it had not been granted.
    pub(super) fn leave(&mut self, id: u64) -> bool {
        let at = self.waiting.iter().position(|waiting| waiting.id == id);
        at.and_then(|at| self.waiting.remove(at)).is_some()
    }

    /// Returns true if no further request of the holder may wait, because too many wait under one
    /// of its keys.
    pub(super) fn is_crowded(&self, holder: &MemoryHolder) -> bool {
        let waits = |key: u64| {
            let of_key = |waiting: &&Waiting<P>| {
                waiting.holder.shares().iter().any(|share| share.key == key)
            };
            self.waiting.iter().filter(of_key).count()
        };
        let mut shares = holder.shares().iter();
        self.fixed_shares && shares.any(|share| waits(share.key) >= WAITING_PER_KEY_MAX)
    }

    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Takes memory for the next request, if enough is free. The next request is the first one that
    /// stays within all its shares, or else the first of those that exceed the fewest shares.
    /// Returns `None` if that request has to wait.
    pub(super) fn next(&mut self) -> Option<Waiting<P>> {
        let mut best: Option<(usize, usize)> = None;
        let group = |waiting: &Waiting<P>| waiting.holder.group().map(|share| share.key);
        let mut groups = self.waiting.iter().map(group);
        let first = groups.next();
        let groups_compete = groups.any(|group| Some(group) != first);
        for (at, waiting) in self.waiting.iter().enumerate() {
            let exceeded = self.exceeded_shares(&waiting.holder, waiting.units, groups_compete);
            if best.is_none_or(|(fewest, _)| exceeded < fewest) {
                best = Some((exceeded, at));
            }
            // No later request can be better.
            if exceeded == 0 {
                break;
            }
        }
        let (exceeded, at) = best?;
        // With fixed shares, even the best request has to wait until its own holder gives memory
        // back.
        if self.fixed_shares && exceeded > 0 {
            return None;
        }
        let waiting = self.waiting.get(at).filter(|waiting| waiting.units <= self.free)?;
        let (holder, units) = (waiting.holder.clone(), waiting.units);
        self.take(&holder, units);
        self.waiting.remove(at)
    }

    pub(super) fn give_back(&mut self, holder: &MemoryHolder, units: u64) {
        self.free += units;
        for share in holder.all() {
            if let Some(held) = self.held.get_mut(&share.key) {
                *held = held.saturating_sub(units);
                if *held == 0 {
                    self.held.remove(&share.key);
                }
            }
        }
    }

    /// Moves `units` of held memory from one holder to another one.
    pub(super) fn transfer(&mut self, from: &MemoryHolder, to: &MemoryHolder, units: u64) {
        self.give_back(from, units);
        self.take(to, units);
    }

    fn take(&mut self, holder: &MemoryHolder, units: u64) {
        self.free = self.free.saturating_sub(units);
        for share in holder.all() {
            *self.held.entry(share.key).or_default() += units;
        }
    }

    /// Returns the number of the holder's shares (limits by key) that `units` more would exceed. A
    /// key that holds nothing exceeds no share, so that a single large request remains possible.
    /// The share of the holder's group counts only if `groups_compete`.
    fn exceeded_shares(&self, holder: &MemoryHolder, units: u64, groups_compete: bool) -> usize {
        let exceeds = |share: &&Share| {
            let held = self.held.get(&share.key).copied().unwrap_or(0);
            held > 0 && held + units > self.units * share.parts / SHARE_PARTS
        };
        let group = holder.group().filter(|_| groups_compete);
        holder.shares().iter().chain(group).filter(exceeds).count()
    }
}
