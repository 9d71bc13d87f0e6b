//! What one call may carry.

use store::{Key, Limits};

/// What one call may carry. The statements and the columns are made for no more.
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
};
