//! Numbers for files that are not made yet.

use std::fmt::Debug;
use std::sync::Arc;

use record::Ino;

/// Where inode numbers come from.
pub trait Numbers: Debug + Send + Sync {
    /// The first of `count` numbers that follow each other and that nobody had before; none if they
    /// are not at hand. Does not wait.
    fn at_hand(self: Arc<Self>, count: usize) -> Option<Ino>;
}
