//! The owners of memory of a budget.

use std::sync::Arc;

/// The number of parts of a budget, in which a [`Share`] is expressed.
pub const SHARE_PARTS: u64 = 16;

/// A limit for a holder of memory: one of its keys, and the part of the budget that all holders
/// with this key may hold together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Identifies a host, an account or an access key.
    pub key: u64,
    /// The number of parts of the budget, of [`SHARE_PARTS`] in all.
    pub parts: u64,
}

/// An owner of memory. The default owner has no keys, so only the budget itself limits it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryHolder(Arc<[Share]>);

impl MemoryHolder {
    /// Creates an owner with these keys and shares.
    pub fn new(shares: impl IntoIterator<Item = Share>) -> MemoryHolder {
        MemoryHolder(shares.into_iter().collect())
    }

    pub(super) fn shares(&self) -> &[Share] {
        &self.0
    }
}
