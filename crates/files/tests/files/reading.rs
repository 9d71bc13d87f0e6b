//! The cost of reads, and the correctness of read-ahead.

use std::ops::Range;

use files::{HandleId, OpenMode};
use futures::StreamExt;
use volume::VolumeOptions;

use super::{Bench, WRITES, bytes};

const MIB: usize = 1 << 20;
const FILE_BYTES: usize = 16 * MIB;
const BLOCK_BYTES: u32 = 4 << 20;
/// The size of a kernel read request.
const READ_BYTES: usize = 128 << 10;
const PAGE: usize = 4 << 10;

/// A volume with a large object, and its content.
async fn bench() -> (Bench, Vec<u8>) {
    let options = VolumeOptions { block_bytes: BLOCK_BYTES, ..VolumeOptions::default() };
    let bench = Bench::without_tasks(options).await;
    let body = bytes(FILE_BYTES, 3);
    bench.put("f", &body).await;
    (bench, body)
}

impl Bench {
    #[track_caller]
    fn is(found: &[u8], due: &[u8], what: &str) {
        assert!(found == due, "{what}: {} bytes, {} due", found.len(), due.len());
    }

    async fn piece(&self, handle: HandleId, range: Range<usize>) -> Vec<u8> {
        let (start, length) = (range.start as u64, range.len() as u64);
        self.files.read(handle, start, length).await.unwrap().concat()
    }

    /// Returns the block requests so far, and the content bytes that they returned.
    fn got(&self) -> (u64, u64) {
        let counters = self.volume.counters();
        (counters.traffic.gets, counters.traffic.got_bytes)
    }
}

/// Splits a range into the pieces that a sequential reader requests.
fn pieces(range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    range.step_by(READ_BYTES).map(|start| start..start + READ_BYTES)
}

#[tokio::test]
async fn sequential_read_costs_few_requests() {
    let (bench, body) = bench().await;
    let handle = bench.open("f", OpenMode::default()).await;
    for piece in pieces(0..FILE_BYTES) {
        Bench::is(&bench.piece(handle, piece.clone()).await, &body[piece], "read through");
    }
    let (requests, got) = bench.got();
    assert!(requests <= 16, "{requests}: two alone, and then runs of up to 4 MiB");
    assert_eq!(got, FILE_BYTES as u64, "nothing is read twice");
}

#[tokio::test]
async fn slightly_reordered_reads_use_the_stream() {
    let (bench, body) = bench().await;
    let handle = bench.open("f", OpenMode::default()).await;
    let all: Vec<Range<usize>> = pieces(0..FILE_BYTES).collect();
    for few in all.chunks(4) {
        let order = [1, 0, 3, 2].map(|at| few[at].clone());
        for piece in order {
            Bench::is(&bench.piece(handle, piece.clone()).await, &body[piece], "out of order");
        }
    }
    let (requests, got) = bench.got();
    assert!(requests <= 20, "{requests}");
    assert!(got <= (FILE_BYTES + MIB) as u64, "{got}");
}

#[tokio::test]
async fn concurrent_reads_get_their_own_bytes() {
    let (bench, body) = bench().await;
    let handle = bench.open("f", OpenMode::default()).await;
    let all: Vec<Range<usize>> = pieces(0..FILE_BYTES).collect();
    for few in all.chunks(8) {
        let reads = few.iter().rev().map(|piece| bench.piece(handle, piece.clone()));
        let found = futures::future::join_all(reads).await;
        let due = &body[few[0].start..few[few.len() - 1].end];
        Bench::is(&found.into_iter().rev().flatten().collect::<Vec<u8>>(), due, "at once");
    }
    let (_, got) = bench.got();
    assert!(got <= (FILE_BYTES + 4 * MIB) as u64, "{got}");
}

#[tokio::test]
async fn random_reads_fetch_only_the_requested_bytes() {
    let (bench, body) = bench().await;
    let handle = bench.open("f", OpenMode::default()).await;
    for at in 0..200_usize {
        let start = (at * 1_237) % (FILE_BYTES / PAGE) * PAGE;
        let piece = start..start + PAGE;
        Bench::is(&bench.piece(handle, piece.clone()).await, &body[piece], "here and there");
    }
    // Two sequential reads do not start read-ahead.
    for start in (0..FILE_BYTES).step_by(MIB) {
        for piece in [start..start + PAGE, start + PAGE..start + 2 * PAGE] {
            Bench::is(&bench.piece(handle, piece.clone()).await, &body[piece], "two in a row");
        }
    }
    assert_eq!(bench.got(), (232, 232 * PAGE as u64));
}

#[tokio::test]
async fn reader_that_stops_early_costs_little() {
    let (bench, body) = bench().await;
    let handle = bench.open("f", OpenMode::default()).await;
    for piece in pieces(0..4 * READ_BYTES) {
        Bench::is(&bench.piece(handle, piece.clone()).await, &body[piece], "the beginning");
    }
    bench.files.release(handle).await;
    let (_, got) = bench.got();
    assert!(got <= 2 * MIB as u64, "{got}");
}

#[tokio::test]
async fn sequential_reader_sees_a_write() {
    let (bench, mut body) = bench().await;
    let handle = bench.open("f", OpenMode::default()).await;
    let writer = bench.open("f", WRITES).await;
    for (at, piece) in pieces(0..FILE_BYTES).enumerate() {
        if at % 8 == 5 {
            // Write right behind the reader, and into a range that is read much later.
            for place in [piece.start + 1_000, FILE_BYTES - piece.start - 1] {
                let new = [at.to_le_bytes()[0]; 100];
                let place = place.min(FILE_BYTES - new.len());
                bench.files.write(writer, place as u64, &new, false, false).await.unwrap();
                body[place..place + new.len()].copy_from_slice(&new);
            }
        }
        if at % 16 == 13 {
            bench.files.flush(writer).await.unwrap();
        }
        Bench::is(&bench.piece(handle, piece.clone()).await, &body[piece], "the written bytes");
    }
    bench.close(writer).await;
    bench.files.release(handle).await;
}

#[tokio::test]
async fn file_truncated_during_a_sequential_read_ends_early() {
    let (bench, body) = bench().await;
    let handle = bench.open("f", OpenMode::default()).await;
    for piece in pieces(0..4 * MIB) {
        Bench::is(&bench.piece(handle, piece.clone()).await, &body[piece], "before it was cut");
    }
    let writer = bench.open("f", WRITES).await;
    let end = 5 * MIB + 17;
    let cut = files::SetNode { size: Some(end as u64), ..files::SetNode::default() };
    let ino = bench.files.look_up(bench.bucket, b"f").await.unwrap().ino;
    bench.files.set(ino, Some(writer), cut).await.unwrap();
    bench.close(writer).await;
    let mut rest = Vec::new();
    for piece in pieces(4 * MIB..8 * MIB) {
        rest.extend(bench.piece(handle, piece).await);
    }
    Bench::is(&rest, &body[4 * MIB..end], "the remaining bytes");
}

#[tokio::test]
async fn readers_beyond_the_stream_limit_read_directly() {
    let (bench, body) = bench().await;
    let mut handles = Vec::new();
    for _ in 0..20 {
        handles.push(bench.open("f", OpenMode::default()).await);
    }
    for piece in pieces(0..2 * MIB) {
        for handle in &handles {
            let found = bench.piece(*handle, piece.clone()).await;
            Bench::is(&found, &body[piece.clone()], "many at a time");
        }
    }
}

#[tokio::test]
async fn read_ahead_releases_memory_for_waiting_readers() {
    let options = VolumeOptions {
        block_bytes: BLOCK_BYTES,
        read_budget_bytes: 12 << 20,
        ..VolumeOptions::default()
    };
    let bench = Bench::without_tasks(options).await;
    let body = bytes(FILE_BYTES, 5);
    bench.put("f", &body).await;
    let mut handles = Vec::new();
    for _ in 0..8 {
        let handle = bench.open("f", OpenMode::default()).await;
        for piece in pieces(0..8 * READ_BYTES) {
            Bench::is(&bench.piece(handle, piece.clone()).await, &body[piece], "at first");
        }
        handles.push(handle);
    }
    let object = bench.volume.stat("bkt", b"f").await.unwrap();
    let (mut frames, mut at) = (bench.volume.read(&object, 0..object.size()), 0);
    while let Some(frame) = frames.next().await {
        let frame = frame.unwrap();
        Bench::is(&frame, &body[at..at + frame.len()], "a GET beside them");
        at += frame.len();
    }
    assert_eq!(at, FILE_BYTES);
    for handle in handles {
        let piece = 8 * READ_BYTES..9 * READ_BYTES;
        Bench::is(&bench.piece(handle, piece.clone()).await, &body[piece], "later");
    }
}
