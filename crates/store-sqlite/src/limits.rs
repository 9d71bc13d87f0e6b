//! The limits of one call.
//!
//! For example, a batch of 256 plans may have 16,384 guards and writes together.

use store::{Key, Limits};

/// The limits of one call. The statements are built for these sizes.
pub(crate) const LIMITS: Limits = Limits {
    key_bytes: 1_100 + Key::PREFIX_BYTES,
    value_bytes: 1 << 20,
    plan_items: 8_192,
    plan_bytes: 4 << 20,
    batch_plans: 256,
    batch_items: 16_384,
    batch_bytes: 16 << 20,
    reads: 4_096,
    range_records: 10_000,
    // A file has one writer.
    commits_in_flight: 1,
    // A read does not leave this process, so reads that wait for each other would save nothing.
    reads_in_flight: usize::MAX,
    // `SqliteStore::limits` answers true if the store holds the exclusive lock of the file.
    serves_one: false,
};
