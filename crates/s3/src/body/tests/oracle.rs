//! Compares the decoder with one that waits for the whole body before it parses it.

use bytes::Bytes;
use http::Version;
use proptest::prelude::*;

use super::framed::Framed;
use crate::body::{BodyDecoder, BodyHead};

/// Returns the content of an unsigned body with a trailer, or `None` if anything is malformed.
fn naive(wire: &[u8], expected: usize) -> Option<Vec<u8>> {
    let mut rest = wire;
    let mut content = Vec::new();
    loop {
        let end = rest.windows(2).position(|bytes| bytes == b"\r\n")?;
        let (line, after) = rest.split_at(end);
        let after = &after[2..];
        let digits = line.iter().all(u8::is_ascii_hexdigit);
        if !digits || line.is_empty() || line.len() > 16 {
            return None;
        }
        let text = std::str::from_utf8(line).ok()?;
        let size = usize::try_from(u64::from_str_radix(text, 16).ok()?).ok()?;
        if size == 0 {
            let trailer = std::str::from_utf8(after).ok()?;
            let line = trailer.strip_suffix("\r\n\r\n")?;
            let line = line.strip_suffix('\n').unwrap_or(line);
            if line.contains('\r') {
                return None;
            }
            let (name, value) = line.split_once(':')?;
            let name = name.eq_ignore_ascii_case("x-amz-checksum-crc32");
            let value = !value.trim().chars().any(char::is_control);
            return (name && value && content.len() == expected).then_some(content);
        }
        if after.len() < size.checked_add(2)? || &after[size..size + 2] != b"\r\n" {
            return None;
        }
        content.extend_from_slice(&after[..size]);
        rest = &after[size + 2..];
    }
}

fn decode(framed: &Framed, wire: &[u8], cuts: &[prop::sample::Index]) -> Option<Vec<u8>> {
    let verified = framed.sent.verify().unwrap();
    let head = BodyHead::parse(Version::HTTP_11, &framed.sent.headers).unwrap();
    let mut decoder = BodyDecoder::new(&verified, &head, 1 << 30).unwrap();
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(wire.len() + 1)).collect();
    places.extend([0, wire.len()]);
    places.sort_unstable();
    let mut out = Vec::new();
    for pair in places.windows(2) {
        decoder.push(Bytes::copy_from_slice(&wire[pair[0]..pair[1]]), &mut out).ok()?;
    }
    decoder.finish().ok()?;
    Some(out.concat())
}

fn sizes() -> impl Strategy<Value = Vec<usize>> {
    proptest::collection::vec(1_usize..40, 0..5)
}

/// Bytes that have a meaning in the framing are more frequent.
fn any_or_framing() -> impl Strategy<Value = u8> {
    prop_oneof![any::<u8>(), Just(b'\r'), Just(b'\n'), Just(b'0')]
}

fn cuts() -> impl Strategy<Value = Vec<prop::sample::Index>> {
    proptest::collection::vec(any::<prop::sample::Index>(), 0..9)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn s3_d1_any_split_decodes_equally(sizes in sizes(), cuts in cuts()) {
        let framed = Framed::unsigned(&sizes, true);
        let content = framed.content.clone();
        prop_assert_eq!(naive(&framed.wire, content.len()), Some(content.clone()));
        prop_assert_eq!(decode(&framed, &framed.wire, &cuts), Some(content));
    }

    #[test]
    fn s3_d7_the_decoder_agrees_with_a_naive_decoder(
        sizes in sizes(),
        cuts in cuts(),
        edits in proptest::collection::vec(
            (any::<prop::sample::Index>(), any_or_framing(), 0..3_u8),
            1..4,
        ),
    ) {
        let framed = Framed::unsigned(&sizes, true);
        let mut wire = framed.wire.clone();
        for (place, byte, kind) in edits {
            let place = place.index(wire.len());
            match kind {
                0 => wire[place] = byte,
                1 => wire.insert(place, byte),
                _ => drop(wire.remove(place)),
            }
        }
        prop_assert_eq!(decode(&framed, &wire, &cuts), naive(&wire, framed.content.len()));
    }

    #[test]
    fn s3_d3_each_changed_byte_of_a_signed_body_is_refused(
        small in 1_usize..60,
        trailer: bool,
        place in any::<prop::sample::Index>(),
        bit in 0..8_u8,
        cuts in cuts(),
    ) {
        let framed = Framed::signed(&[8192, small], trailer);
        prop_assert_eq!(decode(&framed, &framed.wire, &cuts), Some(framed.content.clone()));
        let mut wire = framed.wire.clone();
        wire[place.index(framed.wire.len())] ^= 1 << bit;
        // Only the case of letters in a size or in a name may differ.
        if !wire.eq_ignore_ascii_case(&framed.wire) {
            prop_assert_eq!(decode(&framed, &wire, &cuts), None);
        }
    }

    #[test]
    fn s3_s16_no_bytes_panic(
        wire in proptest::collection::vec(any_or_framing(), 0..200),
        cuts in cuts(),
    ) {
        let (signed, unsigned) = (Framed::signed(&[5], true), Framed::unsigned(&[5], false));
        for framed in [signed, unsigned, Framed::plain(b"a")] {
            drop(decode(&framed, &wire, &cuts));
        }
    }
}
