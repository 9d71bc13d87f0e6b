//! Who holds memory of a budget.

use std::sync::Arc;

/// The parts of a budget that a [`Share`] is given in.
pub const SHARE_PARTS: u64 = 16;

/// One key of a holder, and how much of a budget all holders with this key may hold together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Identifies a host, an account or an access key.
    pub key: u64,
    /// How many of the [`SHARE_PARTS`] of the budget.
    pub parts: u64,
}

/// A holder of memory. The default one has no keys, and so no limit but the budget itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryHolder(Arc<[Share]>);

impl MemoryHolder {
    /// A holder with these keys.
    pub fn new(shares: impl IntoIterator<Item = Share>) -> MemoryHolder {
        MemoryHolder(shares.into_iter().collect())
    }

    pub(super) fn shares(&self) -> &[Share] {
        &self.0
    }
}
