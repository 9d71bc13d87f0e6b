//! How long the byte path waits.

use std::time::Duration;

/// How long the byte path waits for what it does not control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// For the memory of a body's first block.
    pub budget: Duration,
    /// For one call to the block store; when reading, for both tries together. A body that has
    /// begun waits as long for memory too, because what was admitted should end.
    pub block: Duration,
}

impl Default for Deadlines {
    fn default() -> Deadlines {
        Deadlines { budget: Duration::from_secs(5), block: Duration::from_secs(30) }
    }
}
