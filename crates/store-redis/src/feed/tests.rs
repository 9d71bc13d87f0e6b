use store::feed::FEED_BATCHES;

use super::{ID_BYTES, take_apart};

#[test]
fn a_position_has_a_volume_and_a_name() {
    let bytes = [&[7; ID_BYTES][..], &5_u64.to_be_bytes(), &u64::MAX.to_be_bytes()].concat();
    assert_eq!(take_apart(&bytes), Some(([7; ID_BYTES], format!("5-{}", u64::MAX))));
}

#[test]
fn what_has_another_length_is_none() {
    for length in (0..60).filter(|length| *length != ID_BYTES + 16) {
        assert_eq!(take_apart(&vec![0; length]), None, "{length}");
    }
}

/// A reader who is as far behind as is promised stands at the entry before those.
#[test]
fn scripts_leave_as_many_entries_as_are_promised_and_the_one_before() {
    let bound = format!("'XADD', P .. 'f', 'MAXLEN', '~', '{}', '*'", FEED_BATCHES + 1);
    let script = include_str!("../commit_plans.lua");
    assert_eq!(script.matches("XADD").count(), 1);
    assert!(script.contains(&bound), "{bound}");
}
