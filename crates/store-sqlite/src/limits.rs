//! What one call may carry.

use store::{Key, Limits};

/// What one call may carry. The statements are built for no more.
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
};
