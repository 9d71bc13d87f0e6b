use bytes::Bytes;
use store::Position;

use super::{Seen, read_position};

fn seen(text: &str) -> Seen {
    Seen::parse(text).unwrap_or_else(|| panic!("{text} is a snapshot"))
}

#[test]
fn snapshots_are_read_and_written() {
    for text in ["3:3:", "10:20:10,14,15", "10:20:", "5:9223372036854775807:7"] {
        assert_eq!(seen(text).to_string(), text);
    }
    for text in [
        "",
        ":",
        "::",
        "1:2",
        "1:2:3:4",
        "0:1:",
        "2:1:",
        "1:2:2",
        "1:9:5,4",
        "1:9:0",
        "+1:2:",
        "1:2:,",
        "a:b:",
        "99999999999999999999:1:",
        "1:18446744073709551615:",
    ] {
        assert_eq!(Seen::parse(text), None, "{text}");
    }
}

#[test]
fn a_snapshot_is_cut_behind_the_newest_row() {
    let all = seen("10:20:10,14,15");
    assert_eq!(all.clone().cut(Some(14)).to_string(), "10:15:10,14");
    assert_eq!(all.clone().cut(Some(12)).to_string(), "10:13:10");
    assert_eq!(all.clone().cut(Some(5)).to_string(), "6:6:");
    assert_eq!(all.clone().cut(Some(19)).to_string(), "10:20:10,14,15");
    assert_eq!(all.clone().cut(Some(u64::MAX)), all);
    assert_eq!(all.cut(None).to_string(), "3:3:");
}

#[test]
fn a_position_names_its_store() {
    let identity = "0f6b1a5e-5a9c-4a3e-9c37-0123456789ab";
    let position = |text: String| Position(Bytes::from(text));
    let (read, at) = read_position(&position(format!("{identity} 3:7:5"))).expect("a position");
    assert_eq!((&*read, at.to_string().as_str()), (identity, "3:7:5"));
    for text in ["", " ", "3:7:5", "x 3:7:5", "'; drop table ashlar_record; -- 3:7:5"] {
        assert_eq!(read_position(&position(text.to_owned())), None, "{text}");
    }
    assert_eq!(read_position(&Position(Bytes::from_static(&[0xff; 40]))), None);
}
