//! Detection of sequential reads on one handle.
//!
//! For example, reads of 0..128K, 256K..384K, 128K..256K are one run of 384 KiB: the kernel sent
//! the second one early.

use std::ops::Range;

/// The number of reads that must continue a run (reads that follow each other) before read-ahead
/// begins.
const RUN_READS_MIN: u32 = 2;

/// The maximum number of early reads (reads that arrived before the read in front of them), and
/// their maximum distance from the end of the run, in bytes. Beyond either, a read begins a new
/// run.
const EARLY_MAX: usize = 4;
const EARLY_BYTES_MAX: u64 = 4 << 20;

/// The recent reads of a handle, from which sequential reading is detected.
#[derive(Debug, Default)]
pub(super) struct Pattern {
    /// The range of the run: the reads that followed each other without a gap.
    run: Range<u64>,
    /// The number of reads that continued the run.
    reads: u32,
    /// Reads beyond the end of the run, with a gap between.
    early: Vec<Range<u64>>,
    /// The range of positions in which a read continues the present read-ahead stream; empty if
    /// there is none.
    pub(super) reach: Range<u64>,
}

impl Pattern {
    /// Notes a read. If it continues a run (reads that follow each other) that is long enough for
    /// read-ahead, returns the length of the run in bytes.
    pub(super) fn note(&mut self, range: &Range<u64>) -> Option<u64> {
        let is_ahead = self.reach.contains(&range.start);
        if is_ahead || self.has_read() && range.start == self.run.end {
            self.run.end = self.run.end.max(range.end);
            self.reads = self.reads.saturating_add(1);
            self.take_early();
        } else if self.has_read() && range.end == self.run.start {
            // This read was overtaken by its successor, or the program reads backwards.
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

    /// Returns true if a read may have arrived before its predecessor.
    fn may_be_early(&self, range: &Range<u64>) -> bool {
        let distance = range.start.checked_sub(self.run.end);
        distance.is_some_and(|distance| distance <= EARLY_BYTES_MAX) && self.early.len() < EARLY_MAX
    }

    /// Adds the early reads to the run that are no longer separated from it.
    fn take_early(&mut self) {
        self.early.retain(|early| early.end > self.run.end);
        while let Some(at) = self.early.iter().position(|early| early.start <= self.run.end) {
            self.run.end = self.early.swap_remove(at).end.max(self.run.end);
            self.reads = self.reads.saturating_add(1);
        }
    }
}
