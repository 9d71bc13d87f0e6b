use proptest::prelude::*;
use record::Nonce;

use super::*;
use crate::{SealedBlock, Sealer};

const SUB_BLOCK: u32 = SUB_BLOCK_BYTES;

fn id(counter: u64) -> BlockId {
    BlockId::bare(Nonce([1; Nonce::BYTES]), counter)
}

fn block(length: u32) -> SealedBlock {
    let mut sealer = Sealer::new(id(1), length);
    let content: Vec<u8> = (0..length).map(|at| (at ^ (at >> 8)).to_le_bytes()[0]).collect();
    sealer.push_copy(&content);
    sealer.finish()
}

fn content(block: &SealedBlock) -> Vec<u8> {
    block.content().collect::<Vec<_>>().concat()
}

fn learn(of: BlockRef, content: &[u8], frame_bytes: usize) -> Result<Bytes, String> {
    let mut builder = ChecksumBuilder::new(of);
    for frame in content.chunks(frame_bytes) {
        builder.push(Bytes::copy_from_slice(frame))?;
    }
    builder.finish()
}

#[test]
fn content_that_differs_from_the_record_is_refused() {
    let block = block(2 * SUB_BLOCK + 7);
    let good = content(&block);
    let of = block.reference();
    assert!(learn(of, &good, 1_000).is_ok());
    let mut flipped = good.clone();
    flipped[100_000] ^= 1;
    let longer = [good.as_slice(), &[0]].concat();
    for (what, content, part) in [
        ("flipped", &flipped[..], "its content is not the record's"),
        ("shorter", &good[..good.len() - 1], "fewer bytes than"),
        ("longer", &longer, "more bytes than"),
        ("empty", &[], "fewer bytes than"),
    ] {
        let error = learn(of, content, 1_000).expect_err(what);
        assert!(error.contains(part), "{what}: {error}");
    }
}

#[test]
fn oldest_checksums_are_removed_when_full() {
    let learned = RecomputedChecksums::default();
    for counter in 0..=BLOCKS_MAX as u64 {
        learned.remember(id(counter), Bytes::from_static(b"sums"));
        learned.remember(id(counter), Bytes::from_static(b"sums"));
    }
    assert_eq!(learned.sums(id(0)), None);
    assert!(learned.sums(id(1)).is_some() && learned.sums(id(BLOCKS_MAX as u64)).is_some());
    learned.forget(id(1));
    assert_eq!(learned.sums(id(1)), None);
    let known = learned.known.lock().unwrap();
    assert_eq!((known.sums.len(), known.order.len()), (BLOCKS_MAX - 1, BLOCKS_MAX - 1));
}

proptest! {
    #[test]
    fn recomputed_checksums_equal_the_sealed_ones(
        length in 1..3 * SUB_BLOCK,
        frame_bytes in 1..200_000_usize,
    ) {
        let block = block(length);
        let sealed: Vec<u8> =
            block.sub_blocks().flat_map(|it| it.checksum.to_be_bytes()).collect();
        prop_assert_eq!(learn(block.reference(), &content(&block), frame_bytes), Ok(sealed.into()));
    }
}
