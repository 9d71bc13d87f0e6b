//! The limits of one call.
//!
//! For example, a batch within the limits needs at most 4,224 locks.

use store::{Key, Limits};

/// The limits of one call. A batch takes a lock for each key. The server has 64 locks for each
/// connection that it allows, by default 6,400.
pub(crate) const LIMITS: Limits = Limits {
    key_bytes: 1_100 + Key::PREFIX_BYTES,
    value_bytes: 1 << 20,
    plan_items: 4_224,
    plan_bytes: 4 << 20,
    batch_plans: 256,
    batch_items: 4_224,
    batch_bytes: 16 << 20,
    reads: 4_096,
    range_records: 10_000,
    // Each batch has a fixed cost, the sync of the log, so fewer and larger batches are cheaper.
    commits_in_flight: 1,
    // Questions that wait for one connection form one statement.
    reads_in_flight: 1,
    // Other processes can connect to the server.
    serves_one: false,
};
