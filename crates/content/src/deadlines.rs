//! Timeouts of reading and writing content.

use std::time::Duration;

/// Timeouts for memory and for calls to the block store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// The timeout for the memory of a body's first block.
    pub budget: Duration,
    /// The timeout for one call to the block store. For a read, it covers both tries together.
    /// After its first block, a body also waits this long for memory, because a body that was
    /// admitted should be finished rather than refused.
    pub block: Duration,
}

impl Default for Deadlines {
    fn default() -> Deadlines {
        Deadlines { budget: Duration::from_secs(5), block: Duration::from_secs(30) }
    }
}
