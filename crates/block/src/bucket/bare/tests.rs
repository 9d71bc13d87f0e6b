use proptest::prelude::*;
use record::Nonce;

use super::*;
use crate::Sealer;

const SUB_BLOCK: u32 = SUB_BLOCK_BYTES;

fn block(length: u32) -> SealedBlock {
    let mut sealer = Sealer::new(BlockId::bare(Nonce([1; Nonce::BYTES]), 1), length);
    let content: Vec<u8> = (0..length).map(|at| (at ^ (at >> 8)).to_le_bytes()[0]).collect();
    sealer.push_copy(&content);
    sealer.finish()
}

fn place(at: u64) -> usize {
    usize::try_from(at).unwrap()
}

fn block_sums(block: &SealedBlock) -> Bytes {
    stored_sums(&HeaderMap::from_iter([(SUMS, sums(block).parse().unwrap())])).unwrap()
}

/// Returns the sealed bytes of a range, from an object in frames.
fn zip(block: &SealedBlock, wanted: Range<u64>, frame_bytes: usize) -> Vec<u8> {
    let object: Bytes = block.content().collect::<Vec<_>>().concat().into();
    let span = span(&wanted);
    let brought = object.slice(place(span.start)..place(span.end).min(object.len()));
    let mut zipper =
        Zipper::new(block.id(), object.len() as u64, block_sums(block), wanted).unwrap();
    let mut found = Vec::new();
    for frame in brought.chunks(frame_bytes) {
        zipper.push(Bytes::copy_from_slice(frame), |bytes| {
            assert!(!bytes.is_empty(), "each piece has something");
            found.extend_from_slice(&bytes);
        });
    }
    found
}

#[test]
fn object_of_a_bare_block_is_its_content() {
    let block = block(2 * SUB_BLOCK + 5);
    let object: Vec<Bytes> = block.content().collect();
    let length = object.iter().map(Bytes::len).sum::<usize>();
    assert_eq!(length, block.length() as usize);
    let known = crate::sealed::content_checksum(&object);
    assert_eq!(known, block.crc32c());
}

#[test]
fn the_largest_block_fits_into_metadata() {
    let sums = sums(&block(BLOCK_BYTES_MAX));
    assert_eq!(sums.len(), 1_368);
    assert!(sums.len() + SUMS.as_str().len() <= 2_048);
}

#[test]
fn object_without_checksums_is_no_block() {
    let block = block(SUB_BLOCK + 1);
    let zipper = |bytes, sums: &Bytes| Zipper::new(block.id(), bytes, sums.clone(), 0..9);
    let good = block_sums(&block);
    let nonsense = stored_sums(&HeaderMap::from_iter([(SUMS, "!".parse().unwrap())]));
    assert_eq!(stored_sums(&HeaderMap::new()), None);
    assert!(zipper(u64::from(SUB_BLOCK) + 1, &good).is_ok());
    for (bytes, sums) in [
        (u64::from(SUB_BLOCK) + 1, Bytes::new()),
        (u64::from(SUB_BLOCK), good.clone()),
        (2 * u64::from(SUB_BLOCK) + 1, good.clone()),
        (1 << 40, good),
        (u64::from(SUB_BLOCK) + 1, nonsense.unwrap()),
    ] {
        assert!(zipper(bytes, &sums).is_err(), "{bytes} {sums:?}");
    }
}

#[test]
fn an_entity_tag_is_an_md5_unless_something_hides_it() {
    let md5 = "\"5d41402abc4b2a76b9719d911017c592\"";
    let headers = |pairs: &[(HeaderName, &str)]| {
        let pairs = pairs.iter().map(|(name, value)| (name.clone(), value.parse().unwrap()));
        pairs.collect::<HeaderMap>()
    };
    let reported = reported_md5(&headers(&[(http::header::ETAG, md5)]));
    assert!(is_md5_of(reported, b"hello"));
    assert!(!is_md5_of(reported, b"hallo"));
    let by_bucket = headers(&[(http::header::ETAG, md5), (ENCRYPTED, "AES256")]);
    assert_eq!(reported_md5(&by_bucket), reported);
    for hidden in [
        headers(&[]),
        headers(&[(http::header::ETAG, "\"5d41402abc4b2a76b9719d911017c592-2\"")]),
        headers(&[(http::header::ETAG, "\"5d41402abc4b2a76b9719d911017c5\"")]),
        headers(&[(http::header::ETAG, md5), (ENCRYPTED, "aws:kms")]),
        headers(&[(http::header::ETAG, md5), (ENCRYPTED_FOR_CLIENT, "AES256")]),
    ] {
        assert_eq!(reported_md5(&hidden), None, "{hidden:?}");
        assert!(!is_md5_of(reported_md5(&hidden), b"hello"));
    }
}

proptest! {
    #[test]
    fn zipper_restores_the_sealed_bytes(
        length in 1..4 * SUB_BLOCK,
        start in 0..300_000_u64,
        bytes in 1..300_000_u64,
        frame_bytes in 1..200_000_usize,
    ) {
        let block = block(length);
        let sealed = block.to_bytes();
        // If an object ends before the range begins, a bucket responds with 416.
        prop_assume!(span(&(start..start + bytes)).start < u64::from(length));
        let end = place(start + bytes).min(sealed.len());
        let expected = sealed.get(place(start)..end).unwrap_or_default();
        prop_assert!(zip(&block, start..start + bytes, frame_bytes) == expected);
    }
}
