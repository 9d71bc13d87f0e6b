//! The limits of one call.
//!
//! For example, a batch of 8 MiB keeps a script at a few milliseconds.

use store::{Key, Limits};

/// The limits of one call. Redis serves no other client while a script runs, so they keep a script
/// at a few milliseconds.
pub(crate) const LIMITS: Limits = Limits {
    key_bytes: 1_100 + Key::PREFIX_BYTES,
    value_bytes: 1 << 20,
    plan_items: 4_224,
    plan_bytes: 4 << 20,
    batch_plans: 256,
    batch_items: 4_224,
    batch_bytes: 8 << 20,
    reads: 2_048,
    range_records: 10_000,
    // Each batch has a fixed cost, so fewer and larger batches are cheaper.
    commits_in_flight: 1,
    // All reads share a connection, so reads that wait for each other would save nothing.
    reads_in_flight: usize::MAX,
    // Other processes can connect to the server.
    serves_one: false,
};
