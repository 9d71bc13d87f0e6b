//! Messages of different lengths side by side: each column takes the next bytes of its message.
//!
//! A message comes in pieces of any length. A block that crosses pieces is hashed alone; all others are
//! hashed together with those of the other columns. Who gets a column, and who waits for the result, is
//! decided elsewhere.

use bytes::Bytes;

use crate::compress::{BLOCK_BYTES, Block, Md5State};
use crate::md5::Md5;
use crate::vectors::COLUMNS_MAX;
use crate::ways::Ways;

/// Blocks of each column that one step hashes. After each step other jobs may join.
pub(crate) const STEP_BLOCKS: usize = 1_024;

/// Bytes to hash with a running MD5, in the order of the pieces.
#[derive(Clone, Debug, Default)]
pub struct Job {
    /// The MD5 so far.
    pub md5: Md5,
    /// The bytes to hash.
    pub pieces: Vec<Bytes>,
}

impl Job {
    /// How many bytes there are to hash.
    pub fn bytes(&self) -> usize {
        self.pieces.iter().map(Bytes::len).sum()
    }

    /// Hashes all jobs on this thread, as many at once as there are columns. The results come in the
    /// order of the jobs.
    pub fn run_all(ways: Ways, jobs: Vec<Job>) -> Vec<Md5> {
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
            for (md5, result) in columns.extract_if(.., |it| it.is_done()).map(Column::into_md5) {
                *result = md5;
            }
            step(ways, &mut columns);
        }
    }

    /// Hashes the job on this thread.
    pub fn run(mut self) -> Md5 {
        for piece in &self.pieces {
            self.md5.update(piece);
        }
        self.md5
    }
}

/// A job under way, and its owner.
///
/// Unless it is done, its `run` begins with a whole block, and its MD5 is at the end of one.
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

    /// Whether all bytes were hashed.
    pub(crate) fn is_done(&self) -> bool {
        self.blocks().is_empty()
    }

    pub(crate) fn into_md5(self) -> (Md5, T) {
        (self.md5, self.whose)
    }

    /// Hashes bytes until the run begins with a whole block, or all is done.
    fn settle(&mut self) {
        while self.md5.rest_bytes() > 0 || self.blocks().is_empty() {
            if self.run.is_empty() {
                let Some(piece) = self.pieces.next() else { return };
                self.run = piece;
            }
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

/// Hashes the next blocks of every column: as many as each of them has, at most [`STEP_BLOCKS`]. None
/// of the columns is done, and there are at most [`COLUMNS_MAX`].
pub(crate) fn step<T>(ways: Ways, columns: &mut [Column<T>]) {
    debug_assert!(columns.len() <= COLUMNS_MAX, "there are no more columns");
    let least = columns.iter().map(|column| column.blocks().len()).min().unwrap_or_default();
    let blocks = least.min(STEP_BLOCKS);
    let mut states = [Md5State::default(); COLUMNS_MAX];
    let mut runs: [&[Block]; COLUMNS_MAX] = [&[]; COLUMNS_MAX];
    let used = columns.len().min(COLUMNS_MAX);
    for (place, column) in columns.iter().take(used).enumerate() {
        states[place] = column.md5.state();
        runs[place] = &column.blocks()[..blocks];
    }
    ways.md5(&mut states[..used], &runs[..used]);
    for (column, state) in columns.iter_mut().zip(states) {
        column.skip(blocks, state);
    }
}
