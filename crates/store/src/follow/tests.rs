use super::*;

fn by(most: Option<u32>) -> Follow {
    Follow { prefix: Bytes::from_static(b"I"), offset: 0, length: 8, bytes_max: most }
}

fn target(most: Option<u32>, fetched: &'static [u8]) -> Target {
    by(most).to_target(Some(Bytes::from_static(fetched)))
}

#[test]
fn one_byte_beyond_the_limit_shows_that_a_target_is_longer() {
    assert_eq!((by(Some(3)).fetch_bytes(), by(None).fetch_bytes()), (Some(4), None));
    assert_eq!(target(Some(3), b"ab"), Target::Whole(Bytes::from_static(b"ab")));
    assert_eq!(target(Some(3), b"abc"), Target::Whole(Bytes::from_static(b"abc")));
    assert_eq!(target(Some(3), b"abcd"), Target::Cut(Beginning(Bytes::from_static(b"abc"))));
    assert_eq!(target(Some(0), b"a"), Target::Cut(Beginning(Bytes::new())));
    assert_eq!(target(Some(0), b""), Target::Whole(Bytes::new()));
    assert_eq!(target(None, b"abcd"), Target::Whole(Bytes::from_static(b"abcd")));
    assert_eq!(by(Some(3)).to_target(None), Target::Absent);
}

#[test]
fn the_first_bytes_of_a_record_are_not_the_record() {
    let cut = target(Some(2), b"abc");
    assert_eq!((cut.whole(), cut.first_bytes()), (None, Some(&b"ab"[..])));
    let whole = target(Some(3), b"abc");
    assert_eq!(
        (whole.whole().map(|value| &value[..]), whole.first_bytes()),
        (Some(&b"abc"[..]), Some(&b"abc"[..]))
    );
    assert_eq!((Target::Absent.whole(), Target::Absent.first_bytes()), (None, None));
}
