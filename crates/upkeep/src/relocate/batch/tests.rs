//! The places of slices in a new block, and the ranges that are read for them.

use record::{BlockId, Ino, Nonce, Slice};

use super::{Batch, GAP_BYTES_MAX, Owner, SPAN_BYTES_MAX, place};

const NONCE: Nonce = Nonce([7; 10]);
const LENGTH: u32 = 8 << 20;

fn slice(block: u64, offset: u32, length: u32) -> Slice {
    let block = BlockId::new(NONCE, block);
    Slice { position: 0, block, block_length: LENGTH, block_crc32c: 0, offset, length }
}

fn batch(slices: &[Slice], reads_whole: bool) -> Batch {
    let owner = Owner { slices: slices.to_vec(), ..Owner::default() };
    Batch { owners: [(Ino(9), owner)].into(), reads_whole, ..Batch::for_pack() }
}

#[test]
fn runs_keep_the_order_of_the_slices() {
    let slices = [slice(2, 100, 10), slice(1, 50, 20), slice(2, 0, 30)];
    let (runs, bytes) = place(slices.iter());
    assert_eq!(bytes, 60);
    assert_eq!(runs[&BlockId::new(NONCE, 2)], [(0..30, 30), (100..110, 0)]);
    assert_eq!(runs[&BlockId::new(NONCE, 1)], [(50..70, 10)]);
}

#[test]
fn adjacent_runs_of_a_block_keep_their_places_in_the_file() {
    let slices = [slice(1, 10, 10), slice(2, 0, 5), slice(1, 0, 10)];
    let (runs, _) = place(slices.iter());
    assert_eq!(runs[&BlockId::new(NONCE, 1)], [(0..10, 15), (10..20, 0)]);
}

#[test]
fn each_byte_of_overlapping_slices_is_copied_once() {
    let slices = [slice(1, 200, 300), slice(1, 0, 300), slice(1, 250, 10), slice(1, 200, 300)];
    let (runs, bytes) = place(slices.iter());
    assert_eq!((bytes, runs[&BlockId::new(NONCE, 1)].as_slice()), (500, &[(0..500, 0)][..]));
}

#[test]
fn close_slices_are_read_together_and_far_ones_apart() {
    let far = 200 + GAP_BYTES_MAX + 1;
    let slices = [slice(1, far, 10), slice(1, 0, 100), slice(1, 150, 50), slice(1, 20, 10)];
    let spans = batch(&slices, false).spans();
    let ranges: Vec<_> = spans.iter().map(|span| (span.range.clone(), span.slices.len())).collect();
    assert_eq!(ranges, [(0..200, 3), (far..far + 10, 1)]);
    let long = [slice(1, 0, SPAN_BYTES_MAX), slice(1, SPAN_BYTES_MAX, 10), slice(2, 0, 1)];
    assert_eq!(batch(&long, false).spans().len(), 3, "a span has a limit and one block");
}

#[test]
fn a_whole_block_is_read_with_one_request() {
    let slices = [slice(1, LENGTH - 9, 9), slice(1, 0, 100), slice(1, 0, 100)];
    let spans = batch(&slices, true).spans();
    assert_eq!((spans.len(), spans[0].range.clone(), spans[0].slices.len()), (1, 0..LENGTH, 2));
}

#[test]
fn a_damaged_block_is_left_out_with_the_files_that_have_no_other_bytes() {
    let mut batch = batch(&[slice(1, 0, 10), slice(2, 0, 10)], false);
    let alone = Owner { slices: vec![slice(1, 10, 10)], ..Owner::default() };
    batch.owners.insert(Ino(10), alone);
    batch.leave_out(BlockId::new(NONCE, 1));
    assert_eq!(batch.owners.keys().copied().collect::<Vec<_>>(), [Ino(9)]);
    assert_eq!(batch.blocks(), [BlockId::new(NONCE, 2)].into());
}
