//! The MD5 of an incoming body.
//!
//! A short body is hashed in its own task. All others are sent to the threads of the hashing pool.
//! These hash several bodies together.
//!
//! - A body of at most [`WHOLE_BYTES_MAX`] bytes is kept whole in memory in any case, because it
//!   may share a block. It is one job, submitted when all of it has arrived. If no other body is
//!   under way, it is hashed as it arrives, because its client would wait for the job.
//! - A longer body has at most one job in the pool. Bytes that arrive meanwhile form the next job.
//!   So the busier the pool is, the fewer and longer the jobs are. Such a body holds at most
//!   [`HELD_BYTES_MAX`] bytes here, and as many in the pool.
//!
//! All bodies together hold at most [`ALL_HELD_BYTES_MAX`]. Beyond this limit, arriving bytes are
//! hashed in the body's own task, and nothing is held for them.
//!
//! Hashing sixteen bodies together costs little more than hashing one. So while there are other
//! bodies, a job waits for theirs, but the wait is short compared with the time of the request. For
//! example, a whole body of 1 MiB waits 12 ms at most.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use hashing::{Gone, HashingPool, Job, Md5, Patience, Pending};

use crate::ContentError;

/// Bytes up to which hashing in the body's own task is cheaper than submitting a job to the hashing
/// pool.
const SHORT_BYTES: usize = 16 * 1024;

/// The longest body that is hashed when all of it has arrived.
const WHOLE_BYTES_MAX: usize = 1 << 20;

/// The fewest bytes for which a long body submits a job to the hashing pool before the body's end.
const JOB_BYTES_MIN: usize = 128 * 1024;

/// The most bytes that a body holds for hashing while its job is in the pool. At this limit the
/// client is not read from.
const HELD_BYTES_MAX: usize = 512 * 1024;

/// The most pieces that a body holds while its job is in the pool, so that a client that sends a
/// few bytes at a time does not build a long list.
const HELD_PIECES_MAX: usize = 1_024;

/// The most bytes that all bodies together hold for hashing, here and in the pool.
const ALL_HELD_BYTES_MAX: usize = 32 << 20;

/// The time that the job of a whole body waits for other jobs: less than it takes to make its bytes
/// durable.
const WHOLE_PATIENCE: Duration = Duration::from_millis(2);

/// The additional wait for each MiB of a whole body. Bodies of the same size take longer to arrive,
/// too.
const WHOLE_PATIENCE_PER_MIB: Duration = Duration::from_millis(10);

/// The time that the hashing job of a long body waits for other jobs while more of the body
/// arrives. It is about the time in which the next piece arrives, so hardly any client waits longer
/// for it.
const PIECE_PATIENCE: Duration = Duration::from_millis(4);

const _: () = assert!(SHORT_BYTES <= JOB_BYTES_MIN && JOB_BYTES_MIN <= HELD_BYTES_MAX);

/// The pool of threads that computes MD5s, and the bytes and bodies that are waiting for it.
#[derive(Debug)]
pub struct Hashing {
    pool: HashingPool,
    held: AtomicUsize,
    /// Bodies under way whose MD5 is computed and that are not short.
    bodies: AtomicUsize,
}

impl Hashing {
    /// Creates the shared state of hashing for this pool, without bytes and bodies that wait.
    pub fn new(pool: HashingPool) -> Hashing {
        Hashing { pool, held: AtomicUsize::new(0), bodies: AtomicUsize::new(0) }
    }

    /// Reserves `bytes` of the memory that all bodies together may hold for hashing. Returns false
    /// if the limit does not permit it. Reserved bytes count until `release`.
    fn try_hold(&self, bytes: usize) -> bool {
        let more = |held: usize| held.checked_add(bytes).filter(|held| *held <= ALL_HELD_BYTES_MAX);
        self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Returns how long a hashing job waits in the pool for other jobs, and for how many. `wait` is
    /// the longest time; a job waits only while there are other bodies.
    fn patience(&self, wait: Duration) -> Patience {
        match self.bodies.load(Ordering::Relaxed) {
            0 | 1 => Patience::default(),
            busy => Patience { wait, jobs: busy },
        }
    }

    /// Returns true if at most one body is under way, which is the caller's.
    fn is_only_body(&self) -> bool {
        self.bodies.load(Ordering::Relaxed) <= 1
    }

    fn release(&self, bytes: usize) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The running MD5 of a body.
#[derive(Debug)]
pub(crate) struct BodyMd5 {
    hashing: Arc<Hashing>,
    mode: HashMode,
    running: Running,
    held: Vec<Bytes>,
    held_bytes: usize,
    /// Bytes of the job that is in the hashing pool.
    submitted_bytes: usize,
}

/// The time and place at which a body is hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HashMode {
    /// In the body's own task, as it arrives.
    Short,
    /// As one job, when all of it has arrived.
    Whole,
    /// In jobs, while it arrives.
    Long,
}

#[derive(Debug)]
enum Running {
    Local(Md5),
    Submitted(Pending),
}

impl BodyMd5 {
    /// Starts a body. `expected` is the announced size in bytes; `None` if it is unknown.
    pub(crate) fn new(hashing: &Arc<Hashing>, expected: Option<u64>) -> BodyMd5 {
        let mode = match expected {
            Some(bytes) if bytes <= SHORT_BYTES as u64 => HashMode::Short,
            Some(bytes) if bytes <= WHOLE_BYTES_MAX as u64 => HashMode::Whole,
            _ => HashMode::Long,
        };
        hashing.bodies.fetch_add(usize::from(mode != HashMode::Short), Ordering::Relaxed);
        BodyMd5 {
            hashing: Arc::clone(hashing),
            mode,
            running: Running::Local(Md5::new()),
            held: Vec::new(),
            held_bytes: 0,
            submitted_bytes: 0,
        }
    }

    /// Adds the next bytes of the body.
    ///
    /// # Errors
    /// Fails with `Unavailable` if the pool failed.
    pub(crate) async fn take(&mut self, bytes: &Bytes) -> Result<(), ContentError> {
        let alone =
            self.held.is_empty() && bytes.len() <= JOB_BYTES_MIN && self.hashing.is_only_body();
        if let Running::Local(md5) = &mut self.running
            && (self.mode == HashMode::Short || self.mode == HashMode::Whole && alone)
        {
            md5.update(bytes);
            return Ok(());
        }
        if !self.hashing.try_hold(bytes.len()) {
            return self.hash_now(bytes).await;
        }
        self.held_bytes += bytes.len();
        self.held.push(bytes.clone());
        // A whole body is one job, which `digest` submits.
        if self.mode == HashMode::Whole && self.held.len() < HELD_PIECES_MAX {
            return Ok(());
        }
        // At the limit this call waits for the pool, so the client is not read from meanwhile.
        let full = self.held_bytes >= HELD_BYTES_MAX || self.held.len() >= HELD_PIECES_MAX;
        if let Running::Submitted(pending) = &mut self.running {
            let back = if full { Some(pending.await) } else { pending.now_or_never() };
            let Some(back) = back else { return Ok(()) };
            self.resume(back.map_err(lost)?);
        }
        if full || self.held_bytes >= JOB_BYTES_MIN {
            self.submit(PIECE_PATIENCE);
        }
        Ok(())
    }

    /// Returns the MD5 of all bytes added so far. More bytes may be added afterwards.
    ///
    /// # Errors
    /// As [`take`](BodyMd5::take).
    pub(crate) async fn digest(&mut self) -> Result<[u8; 16], ContentError> {
        loop {
            match &mut self.running {
                // The bytes of the job in the pool come before the held bytes.
                Running::Submitted(pending) => {
                    let back = pending.await.map_err(lost)?;
                    self.resume(back);
                }
                Running::Local(_) if self.held_bytes > SHORT_BYTES => {
                    let wait = if self.mode == HashMode::Whole {
                        let bytes = u32::try_from(self.held_bytes).unwrap_or(u32::MAX);
                        WHOLE_PATIENCE + WHOLE_PATIENCE_PER_MIB.saturating_mul(bytes) / (1 << 20)
                    } else {
                        PIECE_PATIENCE
                    };
                    self.submit(wait);
                }
                Running::Local(_) => {
                    let md5 = self.hash_held();
                    self.resume(md5.clone());
                    return Ok(md5.finish());
                }
            }
        }
    }

    /// Hashes all bytes added so far, and `bytes`, in this task.
    async fn hash_now(&mut self, bytes: &[u8]) -> Result<(), ContentError> {
        if let Running::Submitted(pending) = &mut self.running {
            let back = pending.await.map_err(lost)?;
            self.resume(back);
        }
        let mut md5 = self.hash_held();
        md5.update(bytes);
        self.resume(md5);
        Ok(())
    }

    /// Hashes the bytes that the body holds, in this task. None of the body's jobs may be in the
    /// pool.
    fn hash_held(&mut self) -> Md5 {
        let Running::Local(md5) = &mut self.running else { return Md5::default() };
        let job = Job { md5: mem::take(md5), pieces: mem::take(&mut self.held) };
        self.hashing.release(mem::take(&mut self.held_bytes));
        job.run()
    }

    /// Continues the MD5 from the state with which a job of the pool has ended.
    fn resume(&mut self, md5: Md5) {
        self.hashing.release(mem::take(&mut self.submitted_bytes));
        self.running = Running::Local(md5);
    }

    /// Submits the bytes that the body holds to the hashing pool as one job, which waits `wait` for
    /// other jobs. If the pool's queue is full, hashes them in this task.
    fn submit(&mut self, wait: Duration) {
        let Running::Local(md5) = &mut self.running else { return };
        let job = Job { md5: mem::take(md5), pieces: mem::take(&mut self.held) };
        let bytes = mem::take(&mut self.held_bytes);
        self.running = match self.hashing.pool.submit(job, self.hashing.patience(wait)) {
            Ok(pending) => {
                self.submitted_bytes = bytes;
                Running::Submitted(pending)
            }
            Err(job) => {
                self.hashing.release(bytes);
                Running::Local(job.run())
            }
        };
    }
}

fn lost(gone: Gone) -> ContentError {
    ContentError::Unavailable(gone.to_string())
}

impl Drop for BodyMd5 {
    fn drop(&mut self) {
        self.hashing.release(self.held_bytes + self.submitted_bytes);
        let counted = usize::from(self.mode != HashMode::Short);
        self.hashing.bodies.fetch_sub(counted, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
