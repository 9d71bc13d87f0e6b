use store::feed::FEED_BATCHES;

use super::{ID_BYTES, take_apart};

#[test]
fn a_position_has_a_volume_and_an_entry() {
    let bytes = [&[7; ID_BYTES][..], &5_u64.to_be_bytes(), &u64::MAX.to_be_bytes()].concat();
    assert_eq!(take_apart(&bytes), Some(([7; ID_BYTES], format!("5-{}", u64::MAX))));
}

#[test]
fn positions_of_another_length_are_malformed() {
    for length in (0..60).filter(|length| *length != ID_BYTES + 16) {
        assert_eq!(take_apart(&vec![0; length]), None, "{length}");
    }
}

/// A reader that is behind by the promised number is at the entry before these.
#[test]
fn scripts_keep_one_entry_more_than_promised() {
    let bound = format!("'XADD', P .. 'f', 'MAXLEN', '~', '{}', '*'", FEED_BATCHES + 1);
    let script = include_str!("../append_feed.lua");
    assert_eq!(script.matches("XADD").count(), 1);
    assert!(script.contains(&bound), "{bound}");
}
