use store::feed::FEED_BATCHES;

use super::{ID_BYTES, Parts, RUN_BYTES, run_bytes, take_apart};

#[test]
fn a_position_has_a_volume_and_an_entry_and_with_sentinels_a_run() {
    let mut bytes = [&[7; ID_BYTES][..], &5_u64.to_be_bytes(), &u64::MAX.to_be_bytes()].concat();
    let entry = format!("5-{}", u64::MAX);
    let mut parts = Parts { volume: [7; ID_BYTES], entry, run: None };
    assert_eq!(take_apart(&bytes), Some(Parts { entry: parts.entry.clone(), ..parts }));
    let run = run_bytes("00000000000000ff0123456789abcdef01234567");
    assert_eq!(run, 255_u64.to_be_bytes());
    bytes.extend(run);
    parts.run = Some(run);
    assert_eq!(take_apart(&bytes), Some(parts));
}

#[test]
fn positions_of_another_length_are_malformed() {
    const LENGTH: usize = ID_BYTES + 16;
    for length in (0..60).filter(|length| ![LENGTH, LENGTH + RUN_BYTES].contains(length)) {
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
