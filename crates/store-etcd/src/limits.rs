//! The limits of one call, and the settings of the members that they need.
//!
//! For example, a batch of 4,224 guards and writes is one transaction, for which a member must
//! allow more operations than its default of 128.

use store::{Key, Limits};

/// The limits of one call.
pub(crate) const LIMITS: Limits = Limits {
    key_bytes: 1_100 + Key::PREFIX_BYTES,
    value_bytes: 1 << 20,
    plan_items: 4_224,
    plan_bytes: 4 << 20,
    batch_plans: 64,
    batch_items: 4_224,
    batch_bytes: 6 << 20,
    reads: 2_048,
    range_records: 10_000,
    // Transactions of two batches that change one counter would refuse each other, and a larger
    // batch costs little more than a small one.
    commits_in_flight: 1,
    // A linearizable read waits for a heartbeat of the leader, which reads share.
    reads_in_flight: 4,
    // Other processes can connect to the members.
    serves_one: false,
};

/// Conditions of the largest transaction: two for each item of a batch. A member must accept them.
pub(crate) const TXN_ITEMS: usize = 2 * LIMITS.batch_items;

/// Bytes of the largest request, which a member must accept: a batch, the keys of its guards again,
/// and the parts around them.
pub(crate) const REQUEST_BYTES: usize = 10 << 20;

/// Bytes of a transaction's conditions and writes up to which it also asks for the records that it
/// needs if a condition does not hold. A larger transaction leaves that to a second request, so
/// that it stays below [`REQUEST_BYTES`].
pub(crate) const BYTES_WITH_QUESTIONS: usize = 4 << 20;
