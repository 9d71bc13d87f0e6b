//! Whether a handle is read on from where it was read before.

use std::ops::Range;

/// Reads in a row, behind the first, after which what follows is read ahead.
const RUN_READS_MIN: u32 = 2;

/// Reads that may have overtaken the one that is next, and within how many bytes behind that.
const EARLY_MAX: usize = 4;
const EARLY_BYTES_MAX: u64 = 4 << 20;

/// How a handle was read last.
#[derive(Debug, Default)]
pub(super) struct Pattern {
    /// What was read in a row.
    run: Range<u64>,
    /// Reads that went on from there.
    reads: u32,
    /// What was read behind that, with something between.
    early: Vec<Range<u64>>,
    /// Where a read may begin that goes on with what is read ahead.
    pub(super) reach: Range<u64>,
}

impl Pattern {
    /// Takes note of a read. If it is to be read on from there: how many bytes were read in a row.
    pub(super) fn note(&mut self, range: &Range<u64>) -> Option<u64> {
        let is_ahead = self.reach.contains(&range.start);
        if is_ahead || self.has_read() && range.start == self.run.end {
            self.run.end = self.run.end.max(range.end);
            self.reads = self.reads.saturating_add(1);
            self.take_early();
        } else if self.has_read() && range.end == self.run.start {
            // It was overtaken, or somebody reads backwards.
            self.run.start = range.start;
        } else if self.has_read() && self.may_be_early(range) {
            self.early.push(range.clone());
        } else {
            (self.run, self.reads) = (range.clone(), 0);
            self.early.clear();
        }
        let continues = is_ahead || self.reads >= RUN_READS_MIN && range.end <= self.run.end;
        continues.then_some(self.run.end - self.run.start)
    }

    fn has_read(&self) -> bool {
        !self.run.is_empty()
    }

    /// Whether a read may have overtaken the one that is next.
    fn may_be_early(&self, range: &Range<u64>) -> bool {
        let behind = range.start.checked_sub(self.run.end);
        behind.is_some_and(|behind| behind <= EARLY_BYTES_MAX) && self.early.len() < EARLY_MAX
    }

    /// What came early may be next by now.
    fn take_early(&mut self) {
        self.early.retain(|early| early.end > self.run.end);
        while let Some(at) = self.early.iter().position(|early| early.start <= self.run.end) {
            self.run.end = self.early.swap_remove(at).end.max(self.run.end);
            self.reads = self.reads.saturating_add(1);
        }
    }
}
