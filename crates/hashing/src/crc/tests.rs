use crc_fast::{CrcAlgorithm, checksum, checksum_combine};
use proptest::prelude::*;

use super::*;

const ALL: [(Crc, CrcAlgorithm); 3] = [
    (Crc::Crc32, CrcAlgorithm::Crc32IsoHdlc),
    (Crc::Crc32c, CrcAlgorithm::Crc32Iscsi),
    (Crc::Crc64Nvme, CrcAlgorithm::Crc64Nvme),
];

#[test]
fn check_values_of_the_catalogue_are_met() {
    let known = [0xcbf4_3926, 0xe306_9283, 0xae8b_1486_0a79_9888];
    for ((crc, engine), known) in ALL.into_iter().zip(known) {
        let combined =
            CrcCombiner::new(crc, 4).combine(checksum(engine, b"12345"), checksum(engine, b"6789"));
        assert_eq!(combined, known, "{crc:?}");
    }
}

#[test]
fn empty_pieces_do_not_change_a_crc() {
    for (crc, engine) in ALL {
        let sum = checksum(engine, b"something");
        assert_eq!(CrcCombiner::new(crc, 0).combine(sum, 0), sum);
        assert_eq!(CrcCombiner::new(crc, 9).combine(0, sum), sum);
    }
}

proptest! {
    #[test]
    fn pieces_strung_together_have_the_crc_of_the_whole(
        first in prop::collection::vec(any::<u8>(), 0..300),
        second in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let whole = [first.as_slice(), second.as_slice()].concat();
        for (crc, engine) in ALL {
            let combiner = CrcCombiner::new(crc, second.len() as u64);
            let combined = combiner.combine(checksum(engine, &first), checksum(engine, &second));
            prop_assert_eq!(combined, checksum(engine, &whole));
        }
    }

    #[test]
    fn far_lengths_agree_with_the_library(
        first in any::<u32>(),
        second in any::<u32>(),
        bytes in 1..=1_u64 << 45,
    ) {
        for (crc, engine) in ALL {
            let (first, second) = (u64::from(first), u64::from(second));
            let expected = checksum_combine(engine, first, second, bytes);
            prop_assert_eq!(CrcCombiner::new(crc, bytes).combine(first, second), expected);
        }
    }
}
