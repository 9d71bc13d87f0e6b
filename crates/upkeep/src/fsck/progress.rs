//! How far a check has come.

/// How far a check has come: for whoever shows it to a person.
pub trait Progress: Send + Sync {
    /// `count` more of `what` were read.
    fn read(&self, what: &'static str, count: u64);
}

/// Nobody watches.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwatched;

impl Progress for Unwatched {
    fn read(&self, _what: &'static str, _count: u64) {}
}
