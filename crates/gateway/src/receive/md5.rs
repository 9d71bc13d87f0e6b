//! The MD5 of a body on its way in.
//!
//! A short body is hashed where it arrives. A longer one goes to the pool's threads, which hash it
//! beside all others that are under way, while more of it arrives. Of each body one job is out at
//! a time, and what arrives meanwhile is the next one. So the busier the pool is, the fewer and
//! longer are the jobs; and a body holds no more than [`HELD_BYTES_MAX`] bytes here and as many
//! with the pool.

use std::mem;

use bytes::Bytes;
use futures::FutureExt as _;
use hashing::{Job, Md5, Pending, Pool};
use s3::{Code, Fault};

/// What has fewer bytes is hashed here: handing it over would cost more than it saves.
const SHORT_BYTES: usize = 64 * 1024;

/// Bytes from which on a job is handed over.
const JOB_BYTES_MIN: usize = 128 * 1024;

/// Bytes that are held while a job is out; with more, the client is not read from.
const HELD_BYTES_MAX: usize = 256 * 1024;

/// Pieces that are held while a job is out: a client that sends a few bytes at a time must not
/// make a long list of them.
const HELD_PIECES_MAX: usize = 1_024;

const _: () = assert!(SHORT_BYTES <= JOB_BYTES_MIN && JOB_BYTES_MIN <= HELD_BYTES_MAX);

/// A running MD5 of a body.
#[derive(Debug)]
pub(super) struct BodyMd5<'a> {
    pool: &'a Pool,
    short: bool,
    running: Running,
    held: Vec<Bytes>,
    held_bytes: usize,
}

#[derive(Debug)]
enum Running {
    Here(Md5),
    Away(Pending),
}

impl<'a> BodyMd5<'a> {
    /// Begins with a body of which so many bytes are expected.
    pub(super) fn new(pool: &'a Pool, expected: Option<u64>) -> BodyMd5<'a> {
        BodyMd5 {
            pool,
            short: expected.is_some_and(|bytes| bytes <= SHORT_BYTES as u64),
            running: Running::Here(Md5::new()),
            held: Vec::new(),
            held_bytes: 0,
        }
    }

    /// Takes the next bytes.
    ///
    /// Faults: `InternalError` if the pool failed.
    pub(super) async fn take(&mut self, piece: &Bytes) -> Result<(), Fault> {
        if let (true, Running::Here(md5)) = (self.short, &mut self.running) {
            md5.update(piece);
            return Ok(());
        }
        self.held_bytes += piece.len();
        self.held.push(piece.clone());
        let full = self.held_bytes >= HELD_BYTES_MAX || self.held.len() >= HELD_PIECES_MAX;
        if let Running::Away(pending) = &mut self.running {
            let back = if full { Some(pending.await) } else { pending.now_or_never() };
            let Some(back) = back else { return Ok(()) };
            self.running = Running::Here(back.map_err(|_gone| Code::InternalError)?);
        }
        if full || self.held_bytes >= JOB_BYTES_MIN {
            self.hand_over();
        }
        Ok(())
    }

    /// The MD5 of all that was taken.
    ///
    /// Faults: as [`take`](BodyMd5::take).
    pub(super) async fn finish(mut self) -> Result<[u8; 16], Fault> {
        loop {
            match self.running {
                Running::Away(pending) => {
                    let back = pending.await.map_err(|_gone| Code::InternalError)?;
                    self.running = Running::Here(back);
                }
                Running::Here(_) if self.held_bytes >= SHORT_BYTES => self.hand_over(),
                Running::Here(md5) => return Ok(Job { md5, pieces: self.held }.run().finish()),
            }
        }
    }

    /// Gives what is held to the pool, or hashes it here if the pool has too much already.
    fn hand_over(&mut self) {
        let Running::Here(md5) = &mut self.running else { return };
        let job = Job { md5: mem::take(md5), pieces: mem::take(&mut self.held) };
        self.held_bytes = 0;
        self.running = match self.pool.submit(job) {
            Ok(pending) => Running::Away(pending),
            Err(job) => Running::Here(job.run()),
        };
    }
}

#[cfg(test)]
mod tests;
