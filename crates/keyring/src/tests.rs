use futures::executor::block_on;
use proptest::prelude::*;

use super::*;

fn key(name: u8) -> RingKey {
    RingKey::new([name; KEY_BYTES])
}

#[test]
fn a_unit_and_a_mac_have_these_bytes() {
    let mut bytes = *b"marker";
    let tag = key(1).cipher("block", b"0123456789abcdef").seal(2, b"associated", &mut bytes);
    // Computed by hkdf, hmac and AES-256-GCM of Python's `cryptography`.
    assert_eq!(hex::encode(bytes), "abed11daf822");
    assert_eq!(hex::encode(tag), "43a2574d6580accac8b7104d825f3a6a");
    let mac = key(1).mac("inline", &[b"ab", b"c"]);
    assert_eq!(
        hex::encode(mac),
        "f854c4d56e679a1b467666f212229836426397e9e28a2bae427b5f10fc072be7"
    );
}

#[test]
fn macs_depend_on_key_purpose_and_boundaries() {
    let mac = key(1).mac("inline", &[b"ab", b"c"]);
    assert_ne!(mac, key(2).mac("inline", &[b"ab", b"c"]));
    assert_ne!(mac, key(1).mac("block", &[b"ab", b"c"]));
    assert_ne!(mac, key(1).mac("inline", &[b"a", b"bc"]));
    assert_eq!(mac, key(1).mac("inline", &[b"ab", b"c"]));
}

#[test]
fn no_text_shows_a_key() {
    let ring = FixedRing::new([(RingNumber(1), *b"0123456789abcdef0123456789abcdef")]);
    let cipher = key(0x41).cipher("block", b"");
    let text = format!("{ring:?} {:?} {cipher:?}", key(0x41));
    assert_eq!(text, "FixedRing({RingNumber(1): RingKey(…)}) RingKey(…) UnitCipher(…)");
}

#[test]
fn an_unknown_key_is_named() {
    let ring = FixedRing::new([(RingNumber(1), [1; KEY_BYTES])]);
    assert!(block_on(ring.key(RingNumber(1))).is_ok());
    let error = block_on(ring.key(RingNumber(7))).unwrap_err();
    assert_eq!((error.number, error.kind), (RingNumber(7), RingErrorKind::Unknown));
    assert_eq!(error.to_string(), "ring key 7 does not exist: it is not in the volume's ring");
}

proptest! {
    #[test]
    fn a_unit_opens_only_as_it_was_sealed(
        content in prop::collection::vec(any::<u8>(), 1..300),
        unit in 0_u32..9,
        place in any::<prop::sample::Index>(),
        bit in 0_u8..8,
    ) {
        let cipher = key(1).cipher("block", b"salt");
        let mut sealed = content.clone();
        let tag = cipher.seal(unit, b"a", &mut sealed);
        let opens = |cipher: UnitCipher, unit, associated: &[u8], bytes: &[u8], tag: &[u8; 16]| {
            let mut bytes = bytes.to_vec();
            cipher.open(unit, associated, &mut bytes, tag).is_ok().then_some(bytes)
        };
        let same = || key(1).cipher("block", b"salt");
        prop_assert_eq!(opens(same(), unit, b"a", &sealed, &tag), Some(content));
        prop_assert_eq!(opens(same(), unit + 1, b"a", &sealed, &tag), None);
        prop_assert_eq!(opens(same(), unit, b"b", &sealed, &tag), None);
        prop_assert_eq!(opens(key(2).cipher("block", b"salt"), unit, b"a", &sealed, &tag), None);
        prop_assert_eq!(opens(key(1).cipher("inline", b"salt"), unit, b"a", &sealed, &tag), None);
        prop_assert_eq!(opens(key(1).cipher("block", b"pepper"), unit, b"a", &sealed, &tag), None);
        let mut all = [&sealed[..], &tag].concat();
        let place = place.index(all.len());
        all[place] ^= 1 << bit;
        let (flipped, tag) = all.split_at(sealed.len());
        prop_assert_eq!(opens(same(), unit, b"a", flipped, tag.try_into().unwrap()), None);
    }
}
