//! Inode numbers, leased in chunks.
//!
//! A chunk is taken from the lease record in one commit, and handed out from memory. The next chunk
//! is taken in the background before this one is used up. Numbers that a session does not use are
//! lost; there are enough of them.
//!
//! A metadata store that was restored to an earlier state has lost the last leases and would grant
//! them again. Three measures handle that:
//!
//! - Each plan guards that a new number is unused, so an existing file is never overwritten.
//! - A session's first chunk begins behind a gap that depends on the session's random name, so that
//!   collisions are rare.
//! - A session that gets a chunk that it had before ends itself.
//!
//! For example, a store loses the lease of chunk 5. A new session starts up to [`LEASE_GAP_MAX`]
//! numbers later, and most probably meets none of the numbers that were used from chunk 5.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ledger::Note;
use record::{Ino, Nonce, Sequence, key};
use runtime::Tasks;
use store::{Guard, Plan, Read, Write};
use tracing::debug;

use crate::commit::{CommittedFor, Committer, Outcome};
use crate::epoch::Epochs;
use crate::error::VolumeError;
use crate::meters;
use crate::state::value;

/// Inode numbers that one lease reserves for a session.
pub const INODES_LEASED: u64 = 65_536;

/// The next chunk of numbers is leased when fewer numbers than this are left.
const LEASE_LOW: u64 = INODES_LEASED / 4;

/// Most inode numbers that one operation may request.
pub const INODES_PER_OPERATION_MAX: usize = 16_384;

const _: () = assert!(INODES_PER_OPERATION_MAX as u64 <= INODES_LEASED, "one chunk is enough");

/// Limit of the inode numbers that are skipped before a session's first chunk. The session's random
/// name determines how many are skipped.
pub(crate) const LEASE_GAP_MAX: u64 = 1 << 20;

/// The most tries to lease a chunk while other sessions change the lease record.
const ATTEMPTS_MAX: u32 = 32;

/// The inode numbers that this session has leased and may hand out to new files.
#[derive(Debug)]
pub struct InodeAllocator {
    committer: Committer,
    epochs: Arc<Epochs>,
    store: Arc<dyn store::MetaStore>,
    tasks: Tasks,
    /// Inode numbers that are skipped before the first chunk.
    gap: u64,
    leased: Mutex<Leased>,
    /// Held while a chunk is being leased.
    lease_lock: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Leased {
    next: u64,
    end: u64,
    /// The next chunk of numbers (start and end), if it was leased already.
    spare: Option<(u64, u64)>,
    /// End of the last chunk of numbers that was leased; 0 before the first.
    chunk_end: u64,
}

impl Leased {
    fn count(&self) -> u64 {
        self.end - self.next
    }

    /// Takes `n` numbers in a row, or returns `None` if there are too few. The rest of a chunk that
    /// is too short is lost.
    fn take(&mut self, n: u64) -> Option<std::ops::Range<u64>> {
        if self.count() < n {
            let (next, end) = self.spare.take()?;
            *self = Leased { next, end, spare: None, ..*self };
        }
        if self.count() < n {
            return None;
        }
        let first = self.next;
        self.next += n;
        Some(first..self.next)
    }
}

impl InodeAllocator {
    /// Creates an allocator without numbers. The first request leases a chunk.
    pub(crate) fn new(
        session: Nonce,
        committer: &Committer,
        epochs: &Arc<Epochs>,
        store: &Arc<dyn store::MetaStore>,
        tasks: Tasks,
    ) -> Arc<InodeAllocator> {
        let [a, b, c, d, ..] = session.0;
        let gap = u64::from(u32::from_be_bytes([a, b, c, d])) % LEASE_GAP_MAX;
        let (leased, lease_lock) = (Mutex::default(), tokio::sync::Mutex::new(()));
        let (committer, epochs, store) = (committer.clone(), Arc::clone(epochs), Arc::clone(store));
        Arc::new(InodeAllocator { committer, epochs, store, tasks, gap, leased, lease_lock })
    }

    fn leased(&self) -> MutexGuard<'_, Leased> {
        self.leased.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of inode numbers that are skipped before the session's first chunk.
    pub fn gap(&self) -> u64 {
        self.gap
    }

    /// Returns `n` numbers in a row that were never used. Fails with `Unavailable` if `n` is more
    /// than [`INODES_PER_OPERATION_MAX`], and with the errors of the lease.
    pub(crate) async fn allocate(self: &Arc<Self>, n: usize) -> Result<Vec<Ino>, VolumeError> {
        if n > INODES_PER_OPERATION_MAX {
            let many = format!("{n} inode numbers are more than {INODES_PER_OPERATION_MAX}");
            return Err(VolumeError::Unavailable(many));
        }
        loop {
            match self.take(n as u64) {
                Some(range) => return Ok(range.map(Ino).collect()),
                None => self.refill(n as u64).await?,
            }
        }
    }

    /// Takes `n` inode numbers from the leased ones; `None` if there are too few. Starts the lease
    /// of the next chunk if few are left.
    fn take(self: &Arc<Self>, n: u64) -> Option<std::ops::Range<u64>> {
        let (taken, low) = {
            let mut leased = self.leased();
            let taken = leased.take(n);
            (taken, leased.count() < LEASE_LOW && leased.spare.is_none())
        };
        if low {
            self.prefetch();
        }
        taken
    }

    /// Leases the next chunk of inode numbers in the background, unless a lease is running.
    fn prefetch(self: &Arc<Self>) {
        if self.lease_lock.try_lock().is_err() {
            return;
        }
        let inode_allocator = Arc::clone(self);
        drop(self.tasks.spawn("lease inode numbers", async move {
            if let Err(error) = inode_allocator.refill(LEASE_LOW).await {
                debug!(%error, "cannot lease inode numbers in advance");
            }
        }));
    }

    /// Leases a chunk of inode numbers, unless another task has leased `enough` numbers in the
    /// meantime.
    async fn refill(&self, enough: u64) -> Result<(), VolumeError> {
        let _guard = self.lease_lock.lock().await;
        // Another task may have leased a chunk while this one waited for the lock.
        {
            let leased = self.leased();
            if leased.spare.is_some() || leased.count() >= enough {
                return Ok(());
            }
        }
        let chunk_end = self.leased().chunk_end;
        // Only the first chunk has the gap: later ones follow the session's own leases.
        let (first, end) = self.lease(if chunk_end == 0 { self.gap } else { 0 }).await?;
        // Leases only grow. A lower one means that the store was restored to an earlier state.
        if first < chunk_end {
            self.committer.fence("the metadata store has lost a lease of this session");
            return Err(VolumeError::Fenced);
        }
        let mut leased = self.leased();
        (leased.spare, leased.chunk_end) = (Some((first, end)), end);
        Ok(())
    }

    /// Leases a chunk of inode numbers that begins `gap` numbers behind the last lease of the
    /// volume. Returns its start and end.
    async fn lease(&self, gap: u64) -> Result<(u64, u64), VolumeError> {
        let at = key::lease();
        let mut known = None;
        for _ in 0..ATTEMPTS_MAX {
            let record = match known.take() {
                Some(record) => record,
                None => {
                    meters::charge_read();
                    let found =
                        self.store.read(&[Read::Record { key: at.clone(), follow: None }]).await?;
                    let missing = || VolumeError::Corrupt("the lease record is missing".into());
                    value(found.first()).ok_or_else(missing)?
                }
            };
            let Sequence(leased) = Sequence::decode(&at, &record)
                .map_err(|error| VolumeError::Corrupt(format!("the lease record: {error}")))?;
            let first = leased.saturating_add(gap);
            let end = first.checked_add(INODES_LEASED).filter(|end| *end <= Ino::LEASED_END.0);
            let end = end.ok_or_else(|| VolumeError::Corrupt("no inode numbers left".into()))?;
            let plan = Plan {
                guards: vec![Guard::Equals(at.clone(), record)],
                writes: vec![Write::Put(at.clone(), Sequence(end).encode(&at))],
            };
            let (reading, upkeep) = (self.epochs.pin(), CommittedFor::Upkeep);
            let commit = self.committer.commit(plan, reading, None, upkeep, Note::none());
            match commit.await.outcome {
                Outcome::Committed => return Ok((first, end)),
                // Another session took this chunk. The refusal brings the record, which names the
                // next one.
                Outcome::Refused { found, .. } => known = found,
                Outcome::Aborted(_) => {}
                // At worst a chunk is lost. The caller has changed nothing yet, so it may retry.
                Outcome::Failed(VolumeError::Unknown(why)) => {
                    return Err(VolumeError::Unavailable(why));
                }
                Outcome::Failed(error) => return Err(error),
            }
        }
        Err(namespace::FsError::Contended.into())
    }
}
