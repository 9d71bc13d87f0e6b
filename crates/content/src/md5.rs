//! The MD5 of a body on its way in.
//!
//! A short body is hashed where it arrives. All others go to the pool's threads, which hash each
//! together with those that are under way at the same time.
//!
//! - A body that is kept whole in memory anyway, because it is going to share a block, is one job
//!   when all of it has arrived. If no other body is under way it is hashed as it arrives, because
//!   its client would wait for the job.
//! - A longer body has one job out at a time, and what arrives meanwhile is the next job. So the
//!   busier the pool is, the fewer and longer the jobs are. Such a body holds no more than
//!   [`HELD_BYTES_MAX`] bytes here, and as many with the pool.
//!
//! All bodies together hold no more than [`ALL_HELD_BYTES_MAX`]. Beyond that, what arrives is
//! hashed at once, and nothing is held for it.
//!
//! Hashing sixteen bodies at a time costs little more than hashing one. So while there are others,
//! a job waits for theirs, but no longer than hardly shows in the time of the request.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use hashing::{Gone, HashingPool, Job, Md5, Patience, Pending};

use crate::ContentError;

/// What has no more bytes is hashed here: handing it over would cost more than it saves.
const SHORT_BYTES: usize = 16 * 1024;

/// A body of no more bytes is hashed when all of it has arrived.
const WHOLE_BYTES_MAX: usize = 1 << 20;

/// Bytes from which on a job is handed over.
const JOB_BYTES_MIN: usize = 128 * 1024;

/// Bytes that are held while a job is out; with more, the client is not read from.
const HELD_BYTES_MAX: usize = 512 * 1024;

/// Pieces that are held while a job is out: a client that sends a few bytes at a time must not
/// make a long list of them.
const HELD_PIECES_MAX: usize = 1_024;

/// Bytes that all bodies together hold to be hashed, here and with the pool.
const ALL_HELD_BYTES_MAX: usize = 32 << 20;

/// How long a whole body waits for others: less than it takes to make its bytes durable.
const WHOLE_PATIENCE: Duration = Duration::from_millis(2);

/// How much longer it waits for each MiB that it has: others like it take long to arrive, too.
const WHOLE_PATIENCE_PER_MIB: Duration = Duration::from_millis(10);

/// How long a piece of a long body waits for others, while more of it arrives: about as long as the
/// next piece takes on its way here, so that hardly any client is kept waiting by it.
const PIECE_PATIENCE: Duration = Duration::from_millis(4);

const _: () = assert!(SHORT_BYTES <= JOB_BYTES_MIN && JOB_BYTES_MIN <= HELD_BYTES_MAX);

/// Where bodies are hashed, and how much they hold for that.
#[derive(Debug)]
pub struct Hashing {
    pool: HashingPool,
    held: AtomicUsize,
    /// Bodies that are not short.
    bodies: AtomicUsize,
}

impl Hashing {
    /// In front of a pool that has nothing to do yet.
    pub fn new(pool: HashingPool) -> Hashing {
        Hashing { pool, held: AtomicUsize::new(0), bodies: AtomicUsize::new(0) }
    }

    /// Whether so many bytes may be held; then they count until they are let go.
    fn try_hold(&self, bytes: usize) -> bool {
        let more = |held: usize| held.checked_add(bytes).filter(|held| *held <= ALL_HELD_BYTES_MAX);
        self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// For how long and for how many others a job waits.
    fn patience(&self, wait: Duration) -> Patience {
        match self.bodies.load(Ordering::Relaxed) {
            0 | 1 => Patience::default(),
            busy => Patience { wait, jobs: busy },
        }
    }

    /// Whether the body that asks is the only one under way.
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
    /// Bytes of the job that is out.
    submitted_bytes: usize,
}

/// How a body is hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HashMode {
    /// Where it arrives.
    Short,
    /// When all of it has arrived.
    Whole,
    /// While it arrives.
    Long,
}

#[derive(Debug)]
enum Running {
    Local(Md5),
    Submitted(Pending),
}

impl BodyMd5 {
    /// Begins with a body of which so many bytes are expected.
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

    /// Takes the next bytes.
    ///
    /// # Errors
    /// `Unavailable` if the pool failed.
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
        if self.mode == HashMode::Whole && self.held.len() < HELD_PIECES_MAX {
            return Ok(());
        }
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

    /// Waits until the MD5 of all that was taken is known. May be asked again.
    ///
    /// # Errors
    /// As [`take`](BodyMd5::take).
    pub(crate) async fn digest(&mut self) -> Result<[u8; 16], ContentError> {
        loop {
            match &mut self.running {
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

    /// Hashes all that was taken, and what comes next, here.
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

    /// Hashes what is held, here. No job is out.
    fn hash_held(&mut self) -> Md5 {
        let Running::Local(md5) = &mut self.running else { return Md5::default() };
        let job = Job { md5: mem::take(md5), pieces: mem::take(&mut self.held) };
        self.hashing.release(mem::take(&mut self.held_bytes));
        job.run()
    }

    /// Goes on from a job that is done.
    fn resume(&mut self, md5: Md5) {
        self.hashing.release(mem::take(&mut self.submitted_bytes));
        self.running = Running::Local(md5);
    }

    /// Gives what is held to the pool, or hashes it here if the pool has too much already.
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
