//! Inode numbers, leased in chunks.
//!
//! A chunk is taken from the volume's record in one commit and handed out from memory; the next
//! one is taken before it runs dry. What a session does not use is lost: there are enough numbers.
//!
//! A metadata store that was put back to an earlier state has forgotten the last leases, and would
//! give them again. What was made under these numbers is never overwritten, because plans guard
//! that a new number is unused. That this happens seldom, the gap before a session's first chunk
//! sees to; and a session that is given a chunk which it had before ends itself.

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

/// Numbers taken from the volume at once.
pub const INODES_LEASED: u64 = 65_536;

/// The next chunk is taken when so few are left.
const LEASE_LOW: u64 = INODES_LEASED / 4;

/// Numbers that one operation may take.
pub const INODES_PER_OPERATION_MAX: usize = 16_384;

const _: () = assert!(INODES_PER_OPERATION_MAX as u64 <= INODES_LEASED, "one chunk is enough");

/// A session's first chunk begins up to so many numbers behind the last one that was leased. How
/// many, the session's random name says.
pub(crate) const LEASE_GAP_MAX: u64 = 1 << 20;

/// How often a chunk is tried for while others take chunks too.
const ATTEMPTS_MAX: u32 = 32;

/// The numbers that this session may hand out.
#[derive(Debug)]
pub struct InodeAllocator {
    committer: Committer,
    epochs: Arc<Epochs>,
    store: Arc<dyn store::MetaStore>,
    tasks: Tasks,
    /// How many numbers the first chunk leaves out.
    gap: u64,
    leased: Mutex<Leased>,
    /// Held while a chunk is being taken.
    lease_lock: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Leased {
    next: u64,
    end: u64,
    /// The chunk behind this one, if it was taken already.
    spare: Option<(u64, u64)>,
    /// Where the last chunk ended that was taken; 0 before the first.
    chunk_end: u64,
}

impl Leased {
    fn count(&self) -> u64 {
        self.end - self.next
    }

    /// `n` numbers, if they are there. The rest of a chunk that is too short is lost.
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
    /// No numbers yet.
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

    /// How many numbers the first chunk leaves out.
    pub fn gap(&self) -> u64 {
        self.gap
    }

    /// `n` numbers that nobody had before.
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

    /// `n` numbers, if they are there. What runs low is filled up in the background.
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

    /// Takes the next chunk in the background, unless somebody does already.
    fn prefetch(self: &Arc<Self>) {
        if self.lease_lock.try_lock().is_err() {
            return;
        }
        let inode_allocator = Arc::clone(self);
        drop(self.tasks.spawn("lease inode numbers", async move {
            if let Err(error) = inode_allocator.refill(LEASE_LOW).await {
                debug!(%error, "inode numbers could not be taken ahead");
            }
        }));
    }

    /// Takes a chunk, unless `enough` numbers came meanwhile.
    async fn refill(&self, enough: u64) -> Result<(), VolumeError> {
        let _guard = self.lease_lock.lock().await;
        {
            let leased = self.leased();
            if leased.spare.is_some() || leased.count() >= enough {
                return Ok(());
            }
        }
        let chunk_end = self.leased().chunk_end;
        let (first, end) = self.lease(if chunk_end == 0 { self.gap } else { 0 }).await?;
        if first < chunk_end {
            self.committer.fence("the metadata store has forgotten a lease of this session");
            return Err(VolumeError::Fenced);
        }
        let mut leased = self.leased();
        (leased.spare, leased.chunk_end) = (Some((first, end)), end);
        Ok(())
    }

    /// A chunk, which begins `gap` numbers behind what was leased before.
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
                // Somebody else took this chunk, and the refusal says where the next begins.
                Outcome::Refused { found, .. } => known = found,
                Outcome::Aborted(_) => {}
                // At worst a chunk is nobody's. Whoever needs numbers has done nothing yet.
                Outcome::Failed(VolumeError::Unknown(why)) => {
                    return Err(VolumeError::Unavailable(why));
                }
                Outcome::Failed(error) => return Err(error),
            }
        }
        Err(namespace::FsError::Contended.into())
    }
}
