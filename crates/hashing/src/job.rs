//! Jobs: messages of different lengths that are hashed side by side. Each takes one column, that
//! is, the same position in all vector registers.
//!
//! A message is a list of pieces of any length. A block that crosses the border of two pieces is
//! hashed alone. All other blocks are hashed together with blocks of the other columns. For
//! example, a job that ends after ten blocks frees its column, and another job takes it in the next
//! step. The module does not know which job gets a column and who waits for the result; the pool
//! decides this.

use bytes::Bytes;
use fearless_simd::Level;

use crate::compress::{BLOCK_BYTES, Block, Md5State};
use crate::md5::Md5;
use crate::vectors::{COLUMNS_MAX, in_vectors};

/// The largest number of blocks of each message in one step, that is, one call that hashes all
/// columns together. Other jobs can take free columns after each step.
pub(crate) const STEP_BLOCKS: usize = 1_024;

/// Work for a hashing thread: pieces of one message to hash in order, and the MD5 of the bytes
/// before them.
#[derive(Clone, Debug, Default)]
pub struct Job {
    /// The running MD5 of the bytes before the pieces; a new MD5 if the message begins with the
    /// pieces.
    pub md5: Md5,
    /// The bytes to hash, in order: the pieces of the message as they arrived.
    pub pieces: Vec<Bytes>,
}

impl Job {
    /// Returns the number of bytes in the pieces that are to be hashed.
    pub fn bytes(&self) -> usize {
        self.pieces.iter().map(Bytes::len).sum()
    }

    /// Hashes all jobs on the calling thread, up to [`COLUMNS_MAX`] in parallel. Returns the
    /// running MD5 after the last piece of each job, in the order of the jobs.
    pub fn run_all(jobs: Vec<Job>) -> Vec<Md5> {
        let mut results = vec![Md5::default(); jobs.len()];
        let mut coming = jobs.into_iter().zip(&mut results);
        let mut columns = Vec::with_capacity(COLUMNS_MAX);
        loop {
            let free = COLUMNS_MAX - columns.len();
            columns
                .extend(coming.by_ref().take(free).map(|(job, result)| Column::new(job, result)));
            if columns.is_empty() {
                drop(columns);
                return results;
            }
            // A job without a complete block is done at once, so this comes before the step.
            for (md5, result) in columns.extract_if(.., |it| it.is_done()).map(Column::into_md5) {
                *result = md5;
            }
            step(&mut columns);
        }
    }

    /// Hashes the job on the calling thread, without other jobs in parallel. Returns the running
    /// MD5 after its last piece.
    pub fn run(mut self) -> Md5 {
        for piece in &self.pieces {
            self.md5.update(piece);
        }
        self.md5
    }
}

/// A job that occupies a column, that is, one of the messages that are hashed side by side. `whose`
/// is the value by which the caller recognises the job when it is done.
///
/// `run` is the rest of the current piece, and `pieces` has the pieces after it. Invariant: unless
/// the job is done, `run` begins with a complete block and the MD5 is at the end of a block.
#[derive(Debug)]
pub(crate) struct Column<T> {
    md5: Md5,
    run: Bytes,
    pieces: std::vec::IntoIter<Bytes>,
    pub(crate) whose: T,
}

impl<T> Column<T> {
    pub(crate) fn new(job: Job, whose: T) -> Column<T> {
        let pieces = job.pieces.into_iter();
        let mut column = Column { md5: job.md5, run: Bytes::new(), pieces, whose };
        column.settle();
        column
    }

    /// Returns true if all bytes of the job are hashed.
    pub(crate) fn is_done(&self) -> bool {
        self.blocks().is_empty()
    }

    pub(crate) fn into_md5(self) -> (Md5, T) {
        (self.md5, self.whose)
    }

    /// Hashes at most one block at a time until the rest of the current piece begins with a
    /// complete block or the job is done. This is necessary if a block crosses two pieces, and at
    /// the end of the message.
    fn settle(&mut self) {
        while self.md5.rest_bytes() > 0 || self.blocks().is_empty() {
            if self.run.is_empty() {
                let Some(piece) = self.pieces.next() else { return };
                self.run = piece;
            }
            // This completes a block that crosses two pieces, or hashes the end of the message.
            let wanted = BLOCK_BYTES - self.md5.rest_bytes();
            let part = self.run.split_to(wanted.min(self.run.len()));
            self.md5.update(&part);
        }
    }

    fn blocks(&self) -> &[Block] {
        self.run.as_chunks().0
    }

    fn skip(&mut self, blocks: usize, state: Md5State) {
        drop(self.run.split_to(blocks * BLOCK_BYTES));
        self.md5.skip(blocks, state);
        self.settle();
    }
}

/// Hashes the same number of blocks of each job: as many complete blocks as the shortest current
/// piece has, at most [`STEP_BLOCKS`]. No job in `columns` is done, and there are at most
/// [`COLUMNS_MAX`].
pub(crate) fn step<T>(columns: &mut [Column<T>]) {
    debug_assert!(columns.len() <= COLUMNS_MAX, "there are no more columns");
    // Each column must advance by the same number of blocks.
    let least = columns.iter().map(|column| column.blocks().len()).min().unwrap_or_default();
    let blocks = least.min(STEP_BLOCKS);
    let mut states = [Md5State::default(); COLUMNS_MAX];
    let mut runs: [&[Block]; COLUMNS_MAX] = [&[]; COLUMNS_MAX];
    let used = columns.len().min(COLUMNS_MAX);
    for (place, column) in columns.iter().take(used).enumerate() {
        states[place] = column.md5.state();
        runs[place] = &column.blocks()[..blocks];
    }
    in_vectors(Level::new(), &mut states[..used], &runs[..used]);
    for (column, state) in columns.iter_mut().zip(states) {
        column.skip(blocks, state);
    }
}
