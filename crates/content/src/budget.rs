//! A bound on the bytes that bodies hold in memory.
//!
//! Permits are granted in the order of the requests, so a large request does not starve behind
//! smaller ones. The budget counts what its holders say; it allocates nothing.

use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::ContentError;

/// What one unit of the semaphore stands for.
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
pub trait LetGo: fmt::Debug + Send + Sync {
    /// Gives back what can be had again later, because somebody waits for memory.
    fn let_go(&self);
}

/// How often a holder is asked while somebody waits.
const LET_GO_EVERY: Duration = Duration::from_millis(250);

/// A budget of bytes. Clones share it.
#[derive(Clone, Debug)]
pub struct ByteBudget {
    semaphore: Arc<Semaphore>,
    units: u32,
    usage: Arc<Usage>,
    holders: Arc<Mutex<Vec<Weak<dyn LetGo>>>>,
}

#[derive(Debug, Default)]
struct Usage {
    units: AtomicU64,
    peak: AtomicU64,
}

impl ByteBudget {
    /// A budget of so many bytes, rounded up to whole KiB; at least one, at most 512 GiB.
    pub fn new(bytes: u64) -> ByteBudget {
        const UNITS_MAX: u32 = 1 << 29;
        let units = u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(UNITS_MAX);
        let units = units.clamp(1, UNITS_MAX);
        // What the semaphore holds on this platform bounds the budget as well.
        let held = usize::try_from(units).unwrap_or(Semaphore::MAX_PERMITS);
        let semaphore = Arc::new(Semaphore::new(held.min(Semaphore::MAX_PERMITS)));
        ByteBudget { semaphore, units, usage: Arc::default(), holders: Arc::default() }
    }

    /// Waits, in turn, until so many bytes are free. What is larger than the whole budget gets
    /// the whole budget, so one large request is slow rather than impossible.
    ///
    /// # Errors
    /// `Overloaded` after `patience`.
    pub async fn acquire(&self, bytes: u64, patience: Duration) -> Result<Permit, Overloaded> {
        let units = self.units_of(bytes);
        let mut waiting = pin!(Arc::clone(&self.semaphore).acquire_many_owned(units));
        let deadline = Instant::now() + patience;
        loop {
            let pause = deadline.min(Instant::now() + LET_GO_EVERY);
            match tokio::time::timeout_at(pause, waiting.as_mut()).await {
                Ok(Ok(permit)) => return Ok(self.granted(permit)),
                // The semaphore is never closed, so only the deadline ends up here.
                Ok(Err(_)) => return Err(Overloaded),
                Err(_) if Instant::now() >= deadline => return Err(Overloaded),
                Err(_) => {}
            }
            let holders: Vec<_> = self.holders().iter().filter_map(Weak::upgrade).collect();
            holders.iter().for_each(|holder| holder.let_go());
        }
    }

    /// Asks a holder to let go of what it can while somebody waits, as long as it is there.
    pub fn when_waiting(&self, holder: Weak<dyn LetGo>) {
        let mut holders = self.holders();
        holders.retain(|holder| holder.strong_count() > 0);
        holders.push(holder);
    }

    fn holders(&self) -> MutexGuard<'_, Vec<Weak<dyn LetGo>>> {
        self.holders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether so much is granted that others may have to wait.
    pub fn is_tight(&self) -> bool {
        self.in_use() > self.total() / 4 * 3
    }

    /// So many bytes if they are free now and nobody waits for them.
    pub fn try_acquire(&self, bytes: u64) -> Option<Permit> {
        let units = self.units_of(bytes);
        let permit = Arc::clone(&self.semaphore).try_acquire_many_owned(units).ok()?;
        Some(self.granted(permit))
    }

    /// Bytes granted and not given back.
    pub fn in_use(&self) -> u64 {
        self.usage.units.load(Ordering::Relaxed) * UNIT_BYTES
    }

    /// The most bytes that were granted at one time.
    pub fn peak(&self) -> u64 {
        self.usage.peak.load(Ordering::Relaxed) * UNIT_BYTES
    }

    /// All bytes there are.
    pub fn total(&self) -> u64 {
        u64::from(self.units) * UNIT_BYTES
    }

    fn units_of(&self, bytes: u64) -> u32 {
        u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(self.units).min(self.units)
    }

    fn granted(&self, permit: OwnedSemaphorePermit) -> Permit {
        let units = permit.num_permits() as u64;
        let now = self.usage.units.fetch_add(units, Ordering::Relaxed) + units;
        self.usage.peak.fetch_max(now, Ordering::Relaxed);
        Permit { permit, usage: Arc::clone(&self.usage) }
    }
}

/// Bytes that may be held in memory. Dropping it gives them back.
#[must_use = "the memory is given back when the permit is dropped"]
pub struct Permit {
    permit: OwnedSemaphorePermit,
    usage: Arc<Usage>,
}

impl Permit {
    /// How many bytes.
    pub fn bytes(&self) -> u64 {
        self.permit.num_permits() as u64 * UNIT_BYTES
    }

    /// Adds another permit of the same budget to this one.
    ///
    /// # Panics
    /// If the other one is of another budget.
    pub fn merge(&mut self, mut other: Permit) {
        if let Some(units) = other.permit.split(other.permit.num_permits()) {
            self.permit.merge(units);
        }
    }
}

impl Drop for Permit {
    // Runs before the semaphore gets its units back, so the usage never shows more than there is.
    fn drop(&mut self) {
        self.usage.units.fetch_sub(self.permit.num_permits() as u64, Ordering::Relaxed);
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
