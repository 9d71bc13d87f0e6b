//! The numbers of ring keys. For example, a volume begins with key 1, and a rotation makes key 2
//! current, while the blocks that were encrypted under key 1 keep it.

use std::fmt;

/// The number of a ring key: one of a volume's keys for blocks and inline content. The first key
/// has the number 1. No key has the number 0, and a number is never used for a second key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RingNumber(pub u32);

impl fmt::Display for RingNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
