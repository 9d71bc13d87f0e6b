//! Content that is encrypted under the key of its object.

use std::sync::Arc;

use block::{BlockReader, BlockRef};
use bytes::Bytes;
use content::{ContentKeys, ContentStream, ContentWriter, Md5Wanted, RecordSlices, StagedContent};
use futures::TryStreamExt;
use keyring::ObjectEncryptionKey;
use record::Content;

use super::bench::{Bench, INLINE_BYTES_MAX, MIB, body, frames};
use super::faulty::{Fault, Faulty};

const BLOCK: u32 = 1 << 20;

fn key(name: u8) -> Arc<ObjectEncryptionKey> {
    Arc::new(ObjectEncryptionKey::new(&[name; 32].into()))
}

async fn write(bench: &Bench, body: &Bytes, frame_bytes: usize) -> StagedContent {
    let keys = ContentKeys { ring: None, object: Some(key(1)) };
    let hint = Some(body.len() as u64);
    let mut writer = ContentWriter::new(&bench.writers, hint).under(&keys);
    for frame in frames(body, frame_bytes) {
        writer.write(frame).await.unwrap();
    }
    writer.finish().await.unwrap()
}

async fn read(
    bench: &Bench,
    content: &Content,
    key: Arc<ObjectEncryptionKey>,
    from: u64,
    to: u64,
) -> Bytes {
    let stream = match content {
        Content::Inline(bytes) => ContentStream::inline_under(&key, bytes, from..to),
        Content::Slices(slices) => {
            let source = Arc::new(RecordSlices { slices: slices.clone(), sparse: false });
            ContentStream::under(Some(key), &bench.reading, source, from..to, Box::new(()))
        }
        Content::Pages(_) => unreachable!("a staged content has no pages"),
    };
    let frames: Vec<Bytes> = stream.try_collect().await.unwrap();
    frames.concat().into()
}

/// The bytes that the block store or the record has.
async fn stored(bench: &Bench, content: &Content) -> Vec<u8> {
    let Content::Slices(slices) = content else {
        let Content::Inline(bytes) = content else { unreachable!("no pages") };
        return bytes.to_vec();
    };
    let mut all = Vec::new();
    for slice in slices {
        let (id, length) = (slice.block, slice.block_length);
        let block = BlockRef { id, length, crc32c: slice.block_crc32c };
        all.extend(bench.direct.read(block, 0..length).await.unwrap().concat());
    }
    all
}

#[tokio::test(start_paused = true)]
async fn each_range_of_an_encrypted_body_reads_as_it_was_written() {
    let bench = Bench::new(Faulty::default(), BLOCK, 64 * MIB);
    for size in [1, 15, 16, u64::from(INLINE_BYTES_MAX), 5_000, 70_001, 3 * MIB + 5] {
        let body = body(size, size);
        let staged = write(&bench, &body, 33_333).await;
        let content = staged.content();
        let is_inline = matches!(content, Content::Inline(_));
        assert_eq!(is_inline, size <= u64::from(INLINE_BYTES_MAX), "{size} bytes");
        let ranges = [(0, size), (size / 2, size), (size / 3, size / 3 * 2), (size - 1, size)];
        for (from, to) in ranges {
            let wanted = body.slice(usize::try_from(from).unwrap()..usize::try_from(to).unwrap());
            let found = read(&bench, content, key(1), from, to).await;
            assert!(found == wanted, "{size} bytes, {from}..{to}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_stores_have_no_byte_in_the_clear() {
    let bench = Bench::new(Faulty::default(), BLOCK, 64 * MIB);
    for size in [64, 5_000, 2 * MIB] {
        let body = Bytes::from(b"marker of a body".repeat(usize::try_from(size).unwrap() / 16));
        let staged = write(&bench, &body, 100_000).await;
        let stored = stored(&bench, staged.content()).await;
        assert_eq!(stored.len() as u64, body.len() as u64);
        assert!(!stored.windows(6).any(|window| window == b"marker"), "{size} bytes");
        let with_other_key = read(&bench, staged.content(), key(2), 0, 16).await;
        assert_ne!(with_other_key, body.slice(..16));
    }
}

#[tokio::test(start_paused = true)]
async fn two_bodies_with_one_key_and_the_same_bytes_differ_in_the_store() {
    let bench = Bench::new(Faulty::default(), BLOCK, 64 * MIB);
    let body = body(1, 100_000);
    let (first, second) = (write(&bench, &body, 9_999).await, write(&bench, &body, 9_999).await);
    assert_ne!(stored(&bench, first.content()).await, stored(&bench, second.content()).await);
}

#[tokio::test(start_paused = true)]
async fn a_block_that_gets_another_id_is_encrypted_for_that_id() {
    let bench = Bench::new(Faulty::default().put_fails(0, Fault::Conflict), BLOCK, 64 * MIB);
    let body = body(1, 3 * MIB);
    let staged = write(&bench, &body, 100_000).await;
    assert_eq!(bench.staging.traffic.conflicts.get(), 1);
    assert!(read(&bench, staged.content(), key(1), 0, 3 * MIB).await == body);
}

#[tokio::test(start_paused = true)]
async fn the_md5_is_that_of_the_plaintext() {
    // The store reports MD5s, but only those of the bytes that it gets.
    let bench = Bench::new(Faulty::reporting_md5(), 4 * BLOCK, 64 * MIB);
    let body = body(1, 2 * MIB);
    let keys = ContentKeys { ring: None, object: Some(key(1)) };
    let mut writer = ContentWriter::new(&bench.writers, Some(2 * MIB)).under(&keys);
    writer.request_md5(Md5Wanted::AtFinish);
    writer.write(body.clone()).await.unwrap();
    let staged = writer.finish().await.unwrap();
    let mut md5 = hashing::Md5::new();
    md5.update(&body);
    assert_eq!(staged.md5(), Some(md5.finish()));
}
