//! Checksums of runs, computed from those of their pieces.

use crc32c::{crc32c_append, crc32c_combine};
use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn shifted_checksum_joins_following_content(before: u32, length in 0_u32..100_000, byte: u8) {
        let content = vec![byte; length as usize];
        let joined = shift_crc(before, length) ^ crc32c_append(0, &content);
        prop_assert_eq!(joined, crc32c_append(before, &content));
    }

    #[test]
    fn runs_extend_each_other(content in prop::collection::vec(any::<u8>(), 0..600), cut: prop::sample::Index) {
        let (first, second) = content.split_at(cut.index(content.len() + 1));
        prop_assert_eq!(extend_crc(extend_crc(0, first), second), crc32c_append(0, &content));
    }

    #[test]
    fn precomputed_shift_equals_the_general_one(before: u32) {
        let slow = crc32c_combine(before, 0, SUB_BLOCK_BYTES as usize);
        prop_assert_eq!(shift_crc(before, SUB_BLOCK_BYTES), slow);
    }
}
