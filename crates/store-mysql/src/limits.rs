//! The limits of one call.
//!
//! For example, the columns for keys have 1,120 bytes, a little more than the longest key.

use store::{Key, Limits};

/// The limits of one call. The statements and the columns are made for these sizes.
pub(crate) const LIMITS: Limits = Limits {
    key_bytes: 1_100 + Key::PREFIX_BYTES,
    value_bytes: 1 << 20,
    plan_items: 8_192,
    plan_bytes: 4 << 20,
    batch_plans: 256,
    batch_items: 16_384,
    batch_bytes: 7 << 20,
    reads: 2_048,
    range_records: 10_000,
    // The server executes one batch while the next is in transit.
    commits_in_flight: 2,
    // Questions that wait for one connection form one statement.
    reads_in_flight: 1,
    // Other processes can connect to the server.
    serves_one: false,
};
