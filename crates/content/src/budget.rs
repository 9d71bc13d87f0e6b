//! A limit on the memory that bodies hold.
//!
//! Permits are granted in the order of the requests, so a large request does not starve behind
//! smaller ones. The budget only counts bytes; it allocates nothing.
//!
//! **Shares.** A [`MemoryHolder`] has keys, such as its host and its access key, and each key has a
//! share of the budget. While other requests wait, a holder that exceeds a share waits behind those
//! that do not. If the budget has [fixed shares](ByteBudget::with_fixed_shares), a holder waits for
//! its own share even if memory is free. For example, one access key that starts many documents and
//! finishes none of them leaves three quarters of the memory for the documents of other access
//! keys. Such a budget also limits the requests of a holder that wait.

mod holder;
mod queue;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::Overloaded;
pub use holder::{MemoryHolder, SHARE_PARTS, Share};
use queue::Queue;

/// The unit in which the budget counts memory, in bytes.
const UNIT_BYTES: u64 = 1024;

/// A holder of memory that can give some of it back while others wait.
pub trait ReleaseMemory: fmt::Debug + Send + Sync {
    /// Gives back memory that the holder can do without, because another request waits. It must not
    /// block.
    fn release_memory(&self);
}

/// The interval at which holders of memory are asked to release some while a request waits.
const RELEASE_INTERVAL: Duration = Duration::from_millis(250);

/// A memory budget. Clones share one budget.
#[derive(Clone, Debug)]
pub struct ByteBudget(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    units: u64,
    queue: Mutex<Queue<Permit>>,
    /// Units of memory that are granted now.
    in_use: AtomicU64,
    peak: AtomicU64,
    holders: Mutex<Vec<Weak<dyn ReleaseMemory>>>,
}

impl ByteBudget {
    /// Creates a budget of `bytes`, rounded up to whole KiB; at least 1 KiB, at most 512 GiB.
    pub fn new(bytes: u64) -> ByteBudget {
        ByteBudget::with(bytes, false)
    }

    /// As [`ByteBudget::new`], but with fixed shares: no holder gets more than its shares of the
    /// budget, even if memory is free. A request of a holder that holds nothing is granted at any
    /// size.
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

    /// Waits until `bytes` of the budget are free and the requests before this one are granted, at
    /// most for `timeout`. A request for more than the whole budget gets the whole budget, so a
    /// very large request is slow but not impossible.
    ///
    /// # Errors
    /// Fails with `Overloaded` after `timeout`.
    pub async fn acquire(&self, bytes: u64, timeout: Duration) -> Result<Permit, Overloaded> {
        self.acquire_for(&MemoryHolder::default(), bytes, timeout).await
    }

    /// As [`ByteBudget::acquire`], for a holder that has shares: limits for its host and its access
    /// key, for example. While others wait, a holder that exceeds a share waits behind them.
    ///
    /// # Errors
    /// Fails with `Overloaded` after `timeout`. In a budget with fixed shares also at once, if too
    /// many requests of the holder wait already.
    pub async fn acquire_for(
        &self,
        holder: &MemoryHolder,
        bytes: u64,
        timeout: Duration,
    ) -> Result<Permit, Overloaded> {
        let units = self.units_of(bytes);
        let (granted, mut waiting) = oneshot::channel();
        let guard = {
            let mut queue = self.queue();
            // The queue's lock is released before the permit is made, because a dropped permit
            // takes the lock again.
            if queue.try_take(holder, units) {
                drop(queue);
                return Ok(self.granted(holder, units));
            }
            if queue.is_crowded(holder) {
                return Err(Overloaded);
            }
            let id = queue.wait(holder, units, granted);
            QueueGuard { budget: self, id }
        };
        // The new request may be entitled to free memory that the requests before it may not have.
        self.grant();
        let deadline = Instant::now() + timeout;
        loop {
            // Holders are asked at the end of each interval, because some can release memory only
            // after a while.
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
        // The grant may have been sent between the timeout and the removal from the queue.
        waiting.try_recv().map_err(|_| Overloaded)
    }

    /// Registers a holder of memory that is asked to release some while a request waits. It stays
    /// registered until it is dropped.
    pub fn register_holder(&self, holder: Weak<dyn ReleaseMemory>) {
        let mut holders = self.holders();
        // Each upload registers a holder, so dropped holders are removed whenever the list would
        // grow.
        if holders.len() == holders.capacity() {
            holders.retain(|holder| holder.strong_count() > 0);
        }
        holders.push(holder);
    }

    /// Returns true if more than three quarters of the budget are granted, so that new requests for
    /// memory may have to wait.
    pub fn is_tight(&self) -> bool {
        self.in_use() > self.total() / 4 * 3
    }

    /// Returns a permit for `bytes` if they are free now and no other request waits; `None`
    /// otherwise.
    pub fn try_acquire(&self, bytes: u64) -> Option<Permit> {
        self.try_acquire_for(&MemoryHolder::default(), bytes)
    }

    /// As [`ByteBudget::try_acquire`], for a holder that has shares.
    pub fn try_acquire_for(&self, holder: &MemoryHolder, bytes: u64) -> Option<Permit> {
        let units = self.units_of(bytes);
        let taken = self.queue().try_take(holder, units);
        taken.then(|| self.granted(holder, units))
    }

    /// Returns true if a request waits for memory.
    pub fn is_wanted(&self) -> bool {
        self.queue().has_waiting()
    }

    /// Returns the bytes that are granted now.
    pub fn in_use(&self) -> u64 {
        self.0.in_use.load(Ordering::Relaxed) * UNIT_BYTES
    }

    /// Returns the most bytes that were granted at one time since the start.
    pub fn peak(&self) -> u64 {
        self.0.peak.load(Ordering::Relaxed) * UNIT_BYTES
    }

    /// Returns the size of the budget in bytes.
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

    /// Grants memory to as many waiting requests as have room in the budget and in their shares.
    fn grant(&self) {
        loop {
            let Some(granted) = self.queue().next() else { return };
            let permit = self.granted(&granted.holder, granted.units);
            // If the request has been dropped, the permit is dropped here, outside the lock.
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
        // Subtract first: once the queue grants these units again, the usage must not show more
        // than the budget.
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

/// The place of a request in the budget's queue. Dropping it removes the request from the queue.
struct QueueGuard<'a> {
    budget: &'a ByteBudget,
    id: u64,
}

impl Drop for QueueGuard<'_> {
    fn drop(&mut self) {
        // The removed request may have blocked requests behind it.
        let was_waiting = self.budget.queue().leave(self.id);
        if was_waiting {
            self.budget.grant();
        }
    }
}

/// A permit for bytes in memory. Dropping it gives them back to the budget.
#[must_use = "the memory is given back when the permit is dropped"]
pub struct Permit {
    units: u64,
    holder: MemoryHolder,
    budget: ByteBudget,
}

impl Permit {
    /// The size of the permit in bytes.
    pub fn bytes(&self) -> u64 {
        self.units * UNIT_BYTES
    }

    /// Adds the bytes of another permit of the same budget to this one.
    ///
    /// # Panics
    /// If `other` belongs to another budget.
    pub fn merge(&mut self, mut other: Permit) {
        assert!(Arc::ptr_eq(&self.budget.0, &other.budget.0), "permits of two budgets");
        if self.holder != other.holder {
            self.budget.queue().transfer(&other.holder, &self.holder, other.units);
        }
        // Emptied, so that dropping `other` gives nothing back.
        self.units += std::mem::take(&mut other.units);
    }

    /// Gives back all of the permit's memory but `bytes` bytes, rounded up to whole KiB.
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
