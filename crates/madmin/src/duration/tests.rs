use super::*;

#[test]
fn spans_of_go_are_parsed() {
    for (text, expected) in [
        ("0s", Duration::ZERO),
        ("0", Duration::ZERO),
        ("5ms", Duration::from_millis(5)),
        ("10µs", Duration::from_micros(10)),
        ("1m30.5s", Duration::from_millis(90_500)),
        ("2h0m0s", Duration::from_hours(2)),
    ] {
        assert_eq!(parse(text), Some(expected), "{text}");
    }
}

#[test]
fn other_texts_are_no_spans() {
    for text in ["", "5", "ms", "-5ms", "5 ms", "1e9s", "1x", "..s", "9999999h", "\u{0}"] {
        assert_eq!(parse(text), None, "{text:?}");
    }
}
