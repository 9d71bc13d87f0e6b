use super::{RetentionDefault, RetentionMode};
use crate::Timestamp;

#[test]
fn default_retention_ends_its_days_after_the_creation_in_whole_milliseconds() {
    let end = |days, now| {
        let default = RetentionDefault { mode: RetentionMode::Governance, days };
        default.beginning(Timestamp(now)).until.0
    };
    let day = 86_400_000_000_000;
    assert_eq!(end(1, 1_123_456_789), day + 1_123_000_000);
    assert_eq!(end(365, 0), 365 * day);
    assert_eq!(end(1, -day - 1), -1_000_000);
    // The last time that a record can have, and not an overflow.
    let last = i64::MAX - i64::MAX.rem_euclid(1_000_000);
    assert_eq!(end(u32::MAX, i64::MAX), last);
}
