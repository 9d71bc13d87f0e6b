//! A bound on the bytes that bodies hold in memory.
//!
//! Permits are granted in the order of the requests, so a large request does not starve behind
//! smaller ones. The budget counts what its holders say; it allocates nothing.
//!
//! **Shares.** A [`MemoryHolder`] has keys, such as its host and its access key, and each key has a share of
//! the budget. While others wait, a holder beyond a share waits behind those that are below theirs.
//! If the budget has [fixed shares](ByteBudget::with_fixed_shares), a holder waits for its own share
//! even if memory is free. For example, one access key that sends many documents and none of their
//! ends leaves three quarters of the memory for documents to other access keys.

mod holder;
mod queue;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::ContentError;
pub use holder::{MemoryHolder, SHARE_PARTS, Share};
use queue::Queue;

/// What the budget counts in.
const UNIT_BYTES: u64 = 1024;

/// The memory was not granted in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no memory within the deadline")]
pub struct Overloaded;

impl From<Overloaded> for ContentError {
    fn from(Overloaded: Overloaded) -> ContentError {
        ContentError::Overloaded
    }
}

/// Something that holds memory of a budget and could do without it.
pub trait ReleaseMemory: fmt::Debug + Send + Sync {
    /// Gives back what can be had again later, because another one waits for memory.
    fn release_memory(&self);
}

/// How often a holder is asked while another one waits.
const RELEASE_INTERVAL: Duration = Duration::from_millis(250);

/// A budget of bytes. Clones share it.
#[derive(Clone, Debug)]
pub struct ByteBudget(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    units: u64,
    queue: Mutex<Queue<Permit>>,
    /// Units granted and not given back.
    in_use: AtomicU64,
    peak: AtomicU64,
    holders: Mutex<Vec<Weak<dyn ReleaseMemory>>>,
}

impl ByteBudget {
    /// A budget of so many bytes, rounded up to whole KiB; at least one, at most 512 GiB.
    pub fn new(bytes: u64) -> ByteBudget {
        ByteBudget::with(bytes, false)
    }

    /// As [`ByteBudget::new`], where no holder gets more than its shares, even if memory is free. A
    /// single request of a holder that has nothing is granted whatever its size.
    pub fn with_fixed_shares(bytes: u64) -> ByteBudget {
        ByteBudget::with(bytes, true)
    }

    fn with(bytes: u64, fixed_shares: bool) -> ByteBudget {
        const UNITS_MAX: u64 = 1 << 29;
        let units = bytes.div_ceil(UNIT_BYTES).clamp(1, UNITS_MAX);
        ByteBudget(Arc::new(Inner {
            units,
            queue: Mutex::new(Queue::new(units, fixed_shares)),
            in_use: AtomicU64::new(0),
            peak: AtomicU64::new(0),
            holders: Mutex::default(),
        }))
    }

    /// Waits, in turn, until so many bytes are free. What is larger than the whole budget gets
    /// the whole budget, so one large request is slow rather than impossible.
    ///
    /// # Errors
    /// `Overloaded` after `patience`.
    pub async fn acquire(&self, bytes: u64, patience: Duration) -> Result<Permit, Overloaded> {
        self.acquire_for(&MemoryHolder::default(), bytes, patience).await
    }

    /// As [`ByteBudget::acquire`], for a holder that has shares.
    ///
    /// # Errors
    /// `Overloaded` after `patience`.
    pub async fn acquire_for(
        &self,
        holder: &MemoryHolder,
        bytes: u64,
        patience: Duration,
    ) -> Result<Permit, Overloaded> {
        let units = self.units_of(bytes);
        let (granted, mut waiting) = oneshot::channel();
        let guard = {
            let mut queue = self.queue();
            if queue.try_take(holder, units) {
                drop(queue);
                return Ok(self.granted(holder, units));
            }
            let id = queue.wait(holder, units, granted);
            QueueGuard { budget: self, id }
        };
        self.grant();
        let deadline = Instant::now() + patience;
        loop {
            let pause = deadline.min(Instant::now() + RELEASE_INTERVAL);
            match tokio::time::timeout_at(pause, &mut waiting).await {
                Ok(granted) => return granted.map_err(|_| Overloaded),
                Err(_) if Instant::now() >= deadline => break,
                Err(_) => {}
            }
            let holders: Vec<_> = self.holders().iter().filter_map(Weak::upgrade).collect();
            holders.iter().for_each(|holder| holder.release_memory());
        }
        drop(guard);
        // It may have been granted in the last moment.
        waiting.try_recv().map_err(|_| Overloaded)
    }

    /// Asks a holder to let go of what it can while another one waits, for as long as it exists.
    pub fn register_holder(&self, holder: Weak<dyn ReleaseMemory>) {
        let mut holders = self.holders();
        // Holders come and go with each upload, so those that are gone are removed now and then.
        if holders.len() == holders.capacity() {
            holders.retain(|holder| holder.strong_count() > 0);
        }
        holders.push(holder);
    }

    /// Whether so much is granted that others may have to wait.
    pub fn is_tight(&self) -> bool {
        self.in_use() > self.total() / 4 * 3
    }

    /// So many bytes if they are free now and no other request waits for them.
    pub fn try_acquire(&self, bytes: u64) -> Option<Permit> {
        let (units, holder) = (self.units_of(bytes), MemoryHolder::default());
        let taken = self.queue().try_take(&holder, units);
        taken.then(|| self.granted(&holder, units))
    }

    /// Bytes granted and not given back.
    pub fn in_use(&self) -> u64 {
        self.0.in_use.load(Ordering::Relaxed) * UNIT_BYTES
    }

    /// The most bytes that were granted at one time.
    pub fn peak(&self) -> u64 {
        self.0.peak.load(Ordering::Relaxed) * UNIT_BYTES
    }

    /// All bytes there are.
    pub fn total(&self) -> u64 {
        self.0.units * UNIT_BYTES
    }

    fn units_of(&self, bytes: u64) -> u64 {
        bytes.div_ceil(UNIT_BYTES).min(self.0.units)
    }

    fn queue(&self) -> MutexGuard<'_, Queue<Permit>> {
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn holders(&self) -> MutexGuard<'_, Vec<Weak<dyn ReleaseMemory>>> {
        self.0.holders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Grants what can be granted to those that wait.
    fn grant(&self) {
        loop {
            let Some(granted) = self.queue().next() else { return };
            let permit = self.granted(&granted.holder, granted.units);
            // If the request is gone, the permit is dropped here, outside the lock.
            drop(granted.to.send(permit));
        }
    }

    fn granted(&self, holder: &MemoryHolder, units: u64) -> Permit {
        let now = self.0.in_use.fetch_add(units, Ordering::Relaxed) + units;
        self.0.peak.fetch_max(now, Ordering::Relaxed);
        Permit { units, holder: holder.clone(), budget: self.clone() }
    }

    fn give_back(&self, holder: &MemoryHolder, units: u64) {
        if units == 0 {
            return;
        }
        // Before the queue grants them again, so the usage never shows more than there is.
        self.0.in_use.fetch_sub(units, Ordering::Relaxed);
        let waiting = {
            let mut queue = self.queue();
            queue.give_back(holder, units);
            queue.has_waiting()
        };
        if waiting {
            self.grant();
        }
    }
}

/// The guard of a request in the queue. It is left when this is dropped.
struct QueueGuard<'a> {
    budget: &'a ByteBudget,
    id: u64,
}

impl Drop for QueueGuard<'_> {
    fn drop(&mut self) {
        // A request that leaves may have been in the way of others.
        let left = self.budget.queue().leave(self.id);
        if left {
            self.budget.grant();
        }
    }
}

/// Bytes that may be held in memory. Dropping it gives them back.
#[must_use = "the memory is given back when the permit is dropped"]
pub struct Permit {
    units: u64,
    holder: MemoryHolder,
    budget: ByteBudget,
}

impl Permit {
    /// How many bytes.
    pub fn bytes(&self) -> u64 {
        self.units * UNIT_BYTES
    }

    /// Adds another permit of the same budget to this one.
    ///
    /// # Panics
    /// If the other one is of another budget.
    pub fn merge(&mut self, mut other: Permit) {
        assert!(Arc::ptr_eq(&self.budget.0, &other.budget.0), "permits of two budgets");
        if self.holder != other.holder {
            self.budget.queue().hand_over(&other.holder, &self.holder, other.units);
        }
        self.units += std::mem::take(&mut other.units);
    }

    /// Gives back all but so many bytes.
    pub fn shrink_to(&mut self, bytes: u64) {
        let more = self.units.saturating_sub(bytes.div_ceil(UNIT_BYTES));
        self.units -= more;
        self.budget.give_back(&self.holder, more);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.budget.give_back(&self.holder, self.units);
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
