use super::*;

#[test]
fn the_size_is_the_sum_of_used_and_free_space() {
    let held = Usage { bytes: 10_000, names: 7 };
    let told = space_of(held, Free { available: 8_192, all: 16_384 });
    assert_eq!((told.blocks, told.blocks_free, told.blocks_available), (3 + 4, 4, 2));
    assert_eq!((told.nodes - told.nodes_free, told.fragment_bytes), (7, 4_096));
}

#[test]
fn a_full_directory_has_no_free_space_and_a_bucket_a_pebibyte() {
    let held = Usage { bytes: 4_096, names: 1 };
    let full = space_of(held, Free { available: 0, all: 4_095 });
    assert_eq!((full.blocks, full.blocks_free, full.blocks_available), (1, 0, 0));
    let told = space_of(held, UNKNOWN_FREE);
    assert_eq!(told.blocks_available * u64::from(told.block_bytes), 1 << 50);
}
