//! The verification of a copy before it is put.

use block::{SealedBlock, Sealer, sealed};
use bytes::{Bytes, BytesMut};
use layout::Relocation;
use record::{BlockId, Ino, Nonce, Slice};
use session::VolumeError;

use super::{cut, seal};
use crate::relocate::batch::{Batch, Owner};

const NONCE: Nonce = Nonce([7; 10]);

fn old_block() -> BlockId {
    BlockId::new(NONCE, 1)
}

fn old(offset: u32, length: u32) -> Slice {
    Slice { position: 0, block: old_block(), block_length: 1_000, block_crc32c: 0, offset, length }
}

/// The move of two runs of 3 bytes each, and of one body, whose copied bytes are `copy`.
fn seal_copy(copy: &[u8]) -> Result<super::Copy, VolumeError> {
    let mut batch = Batch::for_pack();
    let slices = vec![old(100, 3), old(200, 3)];
    batch.owners.insert(Ino(5), Owner { slices, ..Owner::default() });
    let body = Some(Bytes::from_static(b"body"));
    batch.owners.insert(Ino(6), Owner { body, ..Owner::default() });
    let runs = [(old_block(), vec![(100..103, 3), (200..203, 0)])].into();
    let block = BlockId::pack(NONCE, 2);
    let to = Relocation { block, block_length: 0, block_crc32c: 0, runs };
    let sum = |bytes| sealed::content_checksum(&[Bytes::from_static(bytes)]);
    let sums = vec![(old(100, 3), sum(b"abc")), (old(200, 3), sum(b"def"))];
    let sealer = Sealer::new(block, 10);
    seal(&batch, sealer, to, (BytesMut::from(copy), sums, 50))
}

fn content(block: &SealedBlock, slice: &Slice) -> Vec<u8> {
    let whole = 0..block.length();
    let span = sealed::span(block.length(), whole.clone()).bytes;
    let [start, end] = [span.start, span.end].map(|at| usize::try_from(at).unwrap());
    let bytes = block.to_bytes().slice(start..end);
    let all = sealed::open(block.reference(), whole, bytes).unwrap().concat();
    all[slice.offset as usize..][..slice.length as usize].to_vec()
}

#[test]
fn runs_and_bodies_are_found_at_their_new_places() {
    let copy = seal_copy(b"defabc").unwrap();
    let block = &copy.block;
    assert_eq!((block.length(), copy.traffic), (10, 60));
    for (place, bytes) in [(old(100, 3), b"abc"), (old(200, 3), b"def")] {
        let new = copy.to.locate(&place).unwrap();
        let reference = block.reference();
        assert_eq!((new.block_length, new.block_crc32c), (reference.length, reference.crc32c));
        assert_eq!(content(block, &new), bytes);
    }
    assert_eq!(content(block, &copy.bodies[&Ino(6)]), b"body");
}

#[test]
fn a_copy_with_other_bytes_is_refused() {
    for copy in [b"abcdef", b"defabd", b"eefabc"] {
        let refused = seal_copy(copy).unwrap_err();
        assert!(matches!(refused, VolumeError::Corrupt(_)), "{refused:?}");
    }
    // A copy that is too short has a run that ends behind the block, or in the body.
    let refused = seal_copy(b"defab").unwrap_err();
    assert!(matches!(refused, VolumeError::Corrupt(_)), "{refused:?}");
}

#[test]
fn a_range_is_cut_out_of_pieces() {
    let pieces = ["abc", "", "defg", "h"].map(Bytes::from);
    for (range, found) in
        [(0..8, "abcdefgh"), (2..4, "cd"), (3..7, "defg"), (5..5, ""), (7..9, "h")]
    {
        assert_eq!(cut(&pieces, &range).concat(), found.as_bytes(), "{range:?}");
    }
}
