//! The MD5 of a body on its way in, and the SHA-256 that its signature needs.
//!
//! The two fill each other's pauses where there are several bodies, so the SHA-256 of a long one, or
//! those of its chunks, are computed here, too. Shorter ones compute theirs as they arrive: nothing
//! of them is put before it is known, and they would wait for it.
//!
//! A short body is hashed where it arrives. All others go to the pool's threads, which hash each
//! beside those that are under way at the same time. One that will be kept in memory as a whole
//! anyway, because it is going to share a block, is one job, when all of it has arrived; or, if no
//! other body is under way, it is hashed as it arrives: its client would wait for the job. Of a
//! longer one a job is out at a time while more arrives, and what arrives meanwhile is the next
//! one. So the busier the pool is, the fewer and longer are the jobs; and a long body holds no more
//! than [`HELD_BYTES_MAX`] bytes here and as many with the pool. All bodies together hold no more
//! than [`ALL_HELD_BYTES_MAX`]: beyond that what arrives is hashed at once, and nothing is held for
//! it.
//!
//! Sixteen bodies at a time cost little more than one. So while there are others a job waits for
//! theirs, if only for as long as hardly shows beside the rest of the request.

use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use hashing::{Job, Patience, Pending, Piece, Pool, Sums};
use s3::{Code, Fault};

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
pub(crate) struct Desk {
    pool: Pool,
    held: AtomicUsize,
    /// Bodies that are not short.
    bodies: AtomicUsize,
}

impl Desk {
    /// A desk before a pool that has nothing to do yet.
    pub(crate) fn new(pool: Pool) -> Desk {
        Desk { pool, held: AtomicUsize::new(0), bodies: AtomicUsize::new(0) }
    }

    /// Whether so many bytes may be held; then they count until they are let go.
    fn hold(&self, bytes: usize) -> bool {
        let more = |held: usize| held.checked_add(bytes).filter(|held| *held <= ALL_HELD_BYTES_MAX);
        self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// For how long and for how many others a job waits.
    fn patience(&self, wait: Duration) -> Patience {
        match self.bodies.load(Ordering::Relaxed) {
            0 | 1 => Patience::default(),
            company => Patience { wait, company },
        }
    }

    /// Whether the one body that asks is under way alone.
    fn has_one(&self) -> bool {
        self.bodies.load(Ordering::Relaxed) <= 1
    }

    fn let_go(&self, bytes: usize) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The running sums of a body.
#[derive(Debug)]
pub(super) struct BodySums<'a> {
    desk: &'a Desk,
    manner: Manner,
    running: Running,
    held: Vec<Piece>,
    held_bytes: usize,
    /// Bytes of the job that is out.
    away_bytes: usize,
    /// The SHA-256s of the chunks that are done with.
    chunks: Vec<[u8; 32]>,
}

/// How a body is hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    /// Where it arrives.
    Short,
    /// When all of it has arrived.
    Whole,
    /// While it arrives.
    Long,
}

#[derive(Debug)]
enum Running {
    Here(Sums),
    Away(Pending),
}

impl<'a> BodySums<'a> {
    /// Begins with a body of which so many bytes are expected, and whose SHA-256 is wanted or not.
    /// It is computed of a long one only.
    pub(super) fn new(desk: &'a Desk, expected: Option<u64>, sha256: bool) -> BodySums<'a> {
        let manner = match expected {
            Some(bytes) if bytes <= SHORT_BYTES as u64 => Manner::Short,
            Some(bytes) if bytes <= WHOLE_BYTES_MAX as u64 => Manner::Whole,
            _ => Manner::Long,
        };
        desk.bodies.fetch_add(usize::from(manner != Manner::Short), Ordering::Relaxed);
        let sha256 = sha256 && manner == Manner::Long;
        BodySums {
            desk,
            manner,
            running: Running::Here(if sha256 { Sums::md5_and_sha256() } else { Sums::md5() }),
            held: Vec::new(),
            held_bytes: 0,
            away_bytes: 0,
            chunks: Vec::new(),
        }
    }

    /// Whether it computes a SHA-256 that is wanted.
    pub(super) fn takes_sha256(&self) -> bool {
        self.manner == Manner::Long
    }

    /// Takes the next bytes, and whether a chunk whose SHA-256 is wanted ends behind them.
    ///
    /// Faults: `InternalError` if the pool failed.
    pub(super) async fn take(&mut self, bytes: &Bytes, ends_chunk: bool) -> Result<(), Fault> {
        let piece = Piece { bytes: bytes.clone(), ends_part: ends_chunk };
        let alone = self.held.is_empty() && bytes.len() <= JOB_BYTES_MIN && self.desk.has_one();
        if let Running::Here(sums) = &mut self.running
            && (self.manner == Manner::Short || self.manner == Manner::Whole && alone)
        {
            take_here(sums, &piece);
            self.chunks.append(&mut sums.ended_parts());
            return Ok(());
        }
        if !self.desk.hold(bytes.len()) {
            return self.catch_up(&piece).await;
        }
        self.held_bytes += bytes.len();
        self.held.push(piece);
        if self.manner == Manner::Whole && self.held.len() < HELD_PIECES_MAX {
            return Ok(());
        }
        let full = self.held_bytes >= HELD_BYTES_MAX || self.held.len() >= HELD_PIECES_MAX;
        if let Running::Away(pending) = &mut self.running {
            let back = if full { Some(pending.await) } else { pending.now_or_never() };
            let Some(back) = back else { return Ok(()) };
            self.take_back(back.map_err(|_gone| Code::InternalError)?);
        }
        if full || self.held_bytes >= JOB_BYTES_MIN {
            self.hand_over(PIECE_PATIENCE);
        }
        Ok(())
    }

    /// The SHA-256s of chunks that are known since this was asked last, in their order.
    pub(super) fn known_chunks(&mut self) -> Vec<[u8; 32]> {
        mem::take(&mut self.chunks)
    }

    /// Waits until the sums of all that was taken are known.
    ///
    /// Faults: as [`take`](BodySums::take).
    pub(super) async fn settle(&mut self) -> Result<Known, Fault> {
        loop {
            match &mut self.running {
                Running::Away(pending) => {
                    let back = pending.await.map_err(|_gone| Code::InternalError)?;
                    self.take_back(back);
                }
                Running::Here(_) if self.held_bytes > SHORT_BYTES => {
                    let wait = if self.manner == Manner::Whole {
                        let bytes = u32::try_from(self.held_bytes).unwrap_or(u32::MAX);
                        WHOLE_PATIENCE + WHOLE_PATIENCE_PER_MIB.saturating_mul(bytes) / (1 << 20)
                    } else {
                        PIECE_PATIENCE
                    };
                    self.hand_over(wait);
                }
                Running::Here(_) => {
                    let sums = self.hash_held();
                    self.take_back(sums.clone());
                    let (md5, sha256) = sums.finish();
                    return Ok(Known { md5, sha256 });
                }
            }
        }
    }

    /// Hashes all that was taken, and what comes next, here.
    async fn catch_up(&mut self, piece: &Piece) -> Result<(), Fault> {
        if let Running::Away(pending) = &mut self.running {
            let back = pending.await.map_err(|_gone| Code::InternalError)?;
            self.take_back(back);
        }
        let mut sums = self.hash_held();
        take_here(&mut sums, piece);
        self.take_back(sums);
        Ok(())
    }

    /// Hashes what is held, here. No job is out.
    fn hash_held(&mut self) -> Sums {
        let Running::Here(sums) = &mut self.running else { return Sums::default() };
        let job = Job { sums: mem::take(sums), pieces: mem::take(&mut self.held) };
        self.desk.let_go(mem::take(&mut self.held_bytes));
        job.run()
    }

    /// Goes on from a job that is done.
    fn take_back(&mut self, mut sums: Sums) {
        self.desk.let_go(mem::take(&mut self.away_bytes));
        self.chunks.append(&mut sums.ended_parts());
        self.running = Running::Here(sums);
    }

    /// Gives what is held to the pool, or hashes it here if the pool has too much already.
    fn hand_over(&mut self, wait: Duration) {
        let Running::Here(sums) = &mut self.running else { return };
        let job = Job { sums: mem::take(sums), pieces: mem::take(&mut self.held) };
        let bytes = mem::take(&mut self.held_bytes);
        self.running = match self.desk.pool.submit(job, self.desk.patience(wait)) {
            Ok(pending) => {
                self.away_bytes = bytes;
                Running::Away(pending)
            }
            Err(job) => {
                self.desk.let_go(bytes);
                let mut sums = job.run();
                self.chunks.append(&mut sums.ended_parts());
                Running::Here(sums)
            }
        };
    }
}

/// What is known of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    /// The MD5 of all that was taken.
    pub(super) md5: [u8; 16],
    /// The SHA-256 of all that was taken and of no chunk, if it is wanted.
    pub(super) sha256: Option<[u8; 32]>,
}

fn take_here(sums: &mut Sums, piece: &Piece) {
    sums.update(&piece.bytes);
    if piece.ends_part {
        sums.end_part();
    }
}

impl Drop for BodySums<'_> {
    fn drop(&mut self) {
        self.desk.let_go(self.held_bytes + self.away_bytes);
        let counted = usize::from(self.manner != Manner::Short);
        self.desk.bodies.fetch_sub(counted, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
