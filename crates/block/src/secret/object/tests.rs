use proptest::prelude::*;
use record::Nonce;

use super::*;

/// The size in bytes of the object of a block with these content bytes, by the definition.
fn object_bytes(length: u32) -> u64 {
    let units = 1 + u64::from(length.div_ceil(crate::SUB_BLOCK_BYTES));
    PREFIX_BYTES as u64 + sealed::sealed_bytes(length) + units * TAG_BYTES as u64
}

#[test]
fn only_sizes_of_objects_have_a_sealed_size() {
    let possible: std::collections::BTreeMap<u64, u64> =
        (1..200_000).map(|length| (object_bytes(length), sealed::sealed_bytes(length))).collect();
    for object in 0..object_bytes(199_999) {
        assert_eq!(sealed_size(object), possible.get(&object).copied(), "{object}");
    }
    let largest = object_bytes(BLOCK_BYTES_MAX);
    assert_eq!(sealed_size(largest), Some(sealed::sealed_bytes(BLOCK_BYTES_MAX)));
    assert_eq!(sealed_size(largest + 21), None, "longer than the largest block");
    assert_eq!(sealed_size(u64::MAX), None);
}

#[test]
fn a_header_leads_to_its_ring_key_and_every_change_is_found() {
    let id = BlockId::secret(Nonce([7; Nonce::BYTES]), 9);
    let whole = prefix(id, RingNumber(0x0102_0304));
    assert_eq!(ring_of(id, &whole), Ok(RingNumber(0x0102_0304)));
    for bit in 0..whole.len() * 8 {
        let mut changed = whole;
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(ring_of(id, &changed).is_err(), "bit {bit}");
    }
    for length in 0..whole.len() {
        assert!(ring_of(id, &whole[..length]).is_err(), "{length} bytes");
    }
    let other = BlockId::secret(Nonce([7; Nonce::BYTES]), 8);
    assert!(ring_of(other, &whole).is_err(), "the header of another block");
}

proptest! {
    #[test]
    fn units_contain_their_range_and_no_further_unit(
        start in prop_oneof![0_u64..200_000, 16_700_000_u64..16_800_000, any::<u64>()],
        length in 1_u64..200_000,
    ) {
        let end = start.saturating_add(length);
        let span = units_of(start..end);
        let largest = sealed::sealed_bytes(BLOCK_BYTES_MAX);
        // A range behind every block becomes the first byte behind the largest block.
        let start = start.min(largest);
        let end = end.clamp(start + 1, largest + 1);
        prop_assert_eq!(span.length, end - start);
        let sealed_begin = |unit: u64| if unit == 0 { 0 } else { 32 + (unit - 1) * 65_540 };
        let object_begin = |unit: u64| if unit == 0 { 0 } else { 80 + (unit - 1) * 65_556 };
        let first = u64::from(span.first);
        prop_assert_eq!(sealed_begin(first) + span.skip, start);
        prop_assert!(start < sealed_begin(first + 1));
        prop_assert_eq!(span.bytes.start, object_begin(first));
        let after = (first + 1..u64::MAX).find(|unit| sealed_begin(*unit) >= end).unwrap();
        prop_assert_eq!(span.bytes.end, object_begin(after));
    }
}
