//! The progress of a check, for display.
//!
//! For example, the command line prints a line for each `read`.

/// A receiver of the progress of a check of a volume.
pub trait Progress: Send + Sync {
    /// Records that `count` more items of the kind `what` were read.
    fn read(&self, what: &'static str, count: u64);
}

/// Ignores the progress.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProgress;

impl Progress for NoProgress {
    fn read(&self, _what: &'static str, _count: u64) {}
}
