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
pub struct MemoryHolder {
    shares: Arc<[Share]>,
    /// The share of a group of holders; `None` if the owner belongs to none.
    group: Option<Share>,
}

impl MemoryHolder {
    /// Creates an owner with these keys and shares.
    pub fn new(shares: impl IntoIterator<Item = Share>) -> MemoryHolder {
        MemoryHolder { shares: shares.into_iter().collect(), group: None }
    }

    /// Returns this owner as a member of a group, such as the access keys of an account. The share
    /// of the group is a limit only while members of different groups wait for memory.
    #[must_use]
    pub fn in_group(self, group: Option<Share>) -> MemoryHolder {
        MemoryHolder { group, ..self }
    }

    /// The shares that always are a limit.
    pub(super) fn shares(&self) -> &[Share] {
        &self.shares
    }

    pub(super) fn group(&self) -> Option<&Share> {
        self.group.as_ref()
    }

    /// All shares, under which held memory is counted.
    pub(super) fn all(&self) -> impl Iterator<Item = &Share> {
        self.shares.iter().chain(&self.group)
    }
}
