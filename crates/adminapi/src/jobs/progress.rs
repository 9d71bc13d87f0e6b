//! The counts of the finished work of a job.

use std::sync::{Mutex, PoisonError};

use ::admin::{ForkWatch, Forked, Progress};
use dump::{DumpSize, Phase, Watcher};

/// The counts of the finished work, by name, in the order of their first use. For example, 300
/// `objects`.
#[derive(Debug, Default)]
pub(crate) struct JobProgress(Mutex<Vec<(&'static str, u64)>>);

impl JobProgress {
    /// Adds to a count.
    pub(crate) fn add(&self, name: &'static str, more: u64) {
        self.change(name, |count| *count += more);
    }

    /// Replaces a count.
    pub(crate) fn set(&self, name: &'static str, count: u64) {
        self.change(name, |known| *known = count);
    }

    fn change(&self, name: &'static str, change: impl FnOnce(&mut u64)) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, count)) = counts.iter_mut().find(|(known, _)| *known == name) {
            return change(count);
        }
        let mut count = 0;
        change(&mut count);
        counts.push((name, count));
    }

    /// Returns all counts.
    pub(crate) fn counts(&self) -> Vec<(String, u64)> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }
}

impl Progress for JobProgress {
    fn read(&self, what: &'static str, count: u64) {
        self.add(what, count);
    }
}

impl ForkWatch for JobProgress {
    fn started(&self, names: u64) {
        self.set("names in the source", names);
    }

    fn progress(&self, so_far: &Forked) {
        self.set("files", so_far.files);
        self.set("directories", so_far.directories);
        self.set("bytes", so_far.bytes);
    }
}

impl Watcher for JobProgress {
    fn passed(&self, _phase: Phase, size: DumpSize) {
        self.set("records", size.records);
        self.set("bytes", size.bytes);
    }
}
