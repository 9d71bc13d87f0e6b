//! Unequal messages side by side: each column takes the next bytes of its message.
//!
//! A message comes in pieces of any length. What is not a whole block within a piece is taken alone;
//! all else is hashed together with the other columns. Whose turn it is to get a column, and who
//! waits for the result, is not known here.

use bytes::Bytes;

use crate::abreast::Ways;
use crate::sums::Sums;
use crate::vectors::{BLOCK_BYTES, Block, COLUMNS_MAX};
use crate::{md5, sha256};

/// Blocks of each column that are taken in one step: a chance for others to join follows.
pub(crate) const STEP_BLOCKS: usize = 1_024;

/// Bytes to be taken by running sums, in the order of the pieces.
#[derive(Clone, Debug, Default)]
pub struct Job {
    /// What was taken so far.
    pub sums: Sums,
    /// What is to be taken.
    pub pieces: Vec<Piece>,
}

/// Some bytes of a message.
#[derive(Clone, Debug, Default)]
pub struct Piece {
    /// The bytes.
    pub bytes: Bytes,
    /// Whether a part of the message [ends](Sums::end_part) behind them.
    pub ends_part: bool,
}

impl From<Bytes> for Piece {
    fn from(bytes: Bytes) -> Piece {
        Piece { bytes, ends_part: false }
    }
}

impl Job {
    /// How many bytes are to be taken.
    pub fn bytes(&self) -> usize {
        self.pieces.iter().map(|piece| piece.bytes.len()).sum()
    }

    /// Takes the bytes of all jobs here and now, as many jobs at once as there are columns. The
    /// results come in the order of the jobs.
    pub fn run_all(ways: Ways, jobs: Vec<Job>) -> Vec<Sums> {
        let mut results = vec![Sums::default(); jobs.len()];
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
            for (sums, result) in columns.extract_if(.., |it| it.is_done()).map(Column::into_sums) {
                *result = sums;
            }
            step(ways, &mut columns);
        }
    }

    /// Takes them here and now.
    pub fn run(mut self) -> Sums {
        for piece in &self.pieces {
            self.sums.update(&piece.bytes);
            if piece.ends_part {
                self.sums.end_part();
            }
        }
        self.sums
    }
}

/// A job under way, and whose it is.
///
/// Unless it is done, its `run` begins with a whole block, and its MD5 is at the end of one.
#[derive(Debug)]
pub(crate) struct Column<T> {
    sums: Sums,
    run: Bytes,
    /// Whether a part ends with the run.
    ends_part: bool,
    pieces: std::vec::IntoIter<Piece>,
    pub(crate) whose: T,
}

impl<T> Column<T> {
    pub(crate) fn new(job: Job, whose: T) -> Column<T> {
        let pieces = job.pieces.into_iter();
        let (sums, run) = (job.sums, Bytes::new());
        let mut column = Column { sums, run, ends_part: false, pieces, whose };
        column.settle();
        column
    }

    /// Whether all bytes were taken.
    pub(crate) fn is_done(&self) -> bool {
        self.blocks().is_empty()
    }

    pub(crate) fn into_sums(self) -> (Sums, T) {
        (self.sums, self.whose)
    }

    /// Takes what does not begin with a whole block.
    fn settle(&mut self) {
        while self.sums.rest_bytes() > 0 || self.blocks().is_empty() {
            if self.run.is_empty() {
                if self.ends_part {
                    self.sums.end_part();
                    self.ends_part = false;
                }
                let Some(piece) = self.pieces.next() else { return };
                (self.run, self.ends_part) = (piece.bytes, piece.ends_part);
            }
            let wanted = BLOCK_BYTES - self.sums.rest_bytes();
            let part = self.run.split_to(wanted.min(self.run.len()));
            self.sums.update(&part);
        }
    }

    fn blocks(&self) -> &[Block] {
        self.run.as_chunks().0
    }

    fn skip(&mut self, blocks: usize, md5: md5::State, sha256: Option<sha256::State>) {
        let taken = self.run.split_to(blocks * BLOCK_BYTES);
        self.sums.skip(taken.as_chunks().0, md5, sha256);
        self.settle();
    }
}

/// Takes the next bytes of every column: as many as all of them have, at most
/// [`STEP_BLOCKS`] blocks. None of them is done, and they are at most [`COLUMNS_MAX`].
pub(crate) fn step<T>(ways: Ways, columns: &mut [Column<T>]) {
    debug_assert!(columns.len() <= COLUMNS_MAX, "there are no more columns");
    let least = columns.iter().map(|column| column.blocks().len()).min().unwrap_or_default();
    let blocks = least.min(STEP_BLOCKS);
    let mut md5s = [md5::State::default(); COLUMNS_MAX];
    let mut sha256s = [None; COLUMNS_MAX];
    let mut runs: [&[Block]; COLUMNS_MAX] = [&[]; COLUMNS_MAX];
    let used = columns.len().min(COLUMNS_MAX);
    for (place, column) in columns.iter().take(used).enumerate() {
        (md5s[place], sha256s[place]) = column.sums.states();
        runs[place] = &column.blocks()[..blocks];
    }
    ways.both(&mut md5s[..used], &mut sha256s[..used], &runs[..used]);
    for (column, (md5, sha256)) in columns.iter_mut().zip(md5s.into_iter().zip(sha256s)) {
        column.skip(blocks, md5, sha256);
    }
}
