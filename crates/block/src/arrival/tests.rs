//! Sources that are cut, damaged and lost.

use std::sync::Mutex;

use async_trait::async_trait;
use record::Nonce;

use super::*;
use crate::BlockReader;
use crate::{BlockPage, MemoryBlocks, SealedBlock, Sealer, Stored, UncachedReader, sealed};

/// The fault of one source.
#[derive(Clone, Copy, Debug)]
enum SourceFault {
    /// It returns this many bytes and fails.
    Lost(usize),
    /// It returns this many bytes and ends.
    Ends(usize),
    /// A bit of this byte is flipped.
    Flip(usize),
    /// The block does not exist.
    Missing,
    /// The request is refused.
    Unasked,
}

/// In-memory blocks that arrive in frames, with scripted faults.
#[derive(Debug, Default)]
struct Scripted {
    inner: MemoryBlocks,
    frame_bytes: usize,
    /// The frames that arrive together with each frame that was waited for.
    together: usize,
    /// One for each source, from the first; further sources have no fault.
    faults: Mutex<VecDeque<SourceFault>>,
    asked: Mutex<Vec<Range<u64>>>,
}

struct Source {
    bytes: Bytes,
    frame_bytes: usize,
    together: usize,
    /// The frames that have arrived and were not returned.
    arrived: usize,
    lost: bool,
}

impl Source {
    fn frame(&mut self) -> Bytes {
        let length = self.frame_bytes.min(self.bytes.len());
        self.bytes.split_to(length)
    }
}

#[async_trait]
impl ByteSource for Source {
    async fn next(&mut self) -> Result<Option<Bytes>, BlockError> {
        if self.bytes.is_empty() {
            return if self.lost {
                Err(BlockError::new(BlockErrorKind::Unavailable, "losing a source in a test"))
            } else {
                Ok(None)
            };
        }
        assert_eq!(self.arrived, 0, "what has arrived is taken before the next wait");
        self.arrived = self.together;
        Ok(Some(self.frame()))
    }

    fn arrived(&mut self) -> Option<Bytes> {
        self.arrived = self.arrived.checked_sub(1)?;
        Some(self.frame()).filter(|frame| !frame.is_empty())
    }
}

#[async_trait]
impl BlockStore for Scripted {
    async fn put(&self, block: &SealedBlock) -> Result<Stored, BlockError> {
        self.inner.put(block).await
    }

    async fn get(&self, id: BlockId, bytes: Range<u64>) -> Result<Bytes, BlockError> {
        self.inner.get(id, bytes).await
    }

    fn streams(&self) -> bool {
        true
    }

    async fn open(
        &self,
        id: BlockId,
        bytes: Range<u64>,
    ) -> Result<Box<dyn ByteSource>, BlockError> {
        self.asked.lock().unwrap().push(bytes.clone());
        let fault = self.faults.lock().unwrap().pop_front();
        let mut bytes = self.inner.get(id, bytes).await?;
        match fault {
            Some(SourceFault::Missing) => {
                return Err(BlockError::new(BlockErrorKind::NotFound, "a test"));
            }
            Some(SourceFault::Unasked) => {
                return Err(BlockError::new(BlockErrorKind::Unavailable, "a test"));
            }
            Some(SourceFault::Lost(at) | SourceFault::Ends(at)) => bytes.truncate(at),
            Some(SourceFault::Flip(at)) => {
                let mut flipped = bytes.to_vec();
                flipped[at] ^= 8;
                bytes = flipped.into();
            }
            None => {}
        }
        let lost = matches!(fault, Some(SourceFault::Lost(_)));
        let Scripted { frame_bytes, together, .. } = *self;
        Ok(Box::new(Source { bytes, frame_bytes, together, arrived: 0, lost }))
    }

    async fn size(&self, id: BlockId) -> Result<Option<u64>, BlockError> {
        self.inner.size(id).await
    }

    async fn delete(&self, id: BlockId) -> Result<(), BlockError> {
        self.inner.delete(id).await
    }

    async fn sessions(&self) -> Result<Vec<Nonce>, BlockError> {
        self.inner.sessions().await
    }

    async fn list(&self, session: Nonce, resume: Option<String>) -> Result<BlockPage, BlockError> {
        self.inner.list(session, resume).await
    }

    async fn mark(&self) -> Result<Option<Bytes>, BlockError> {
        self.inner.mark().await
    }

    async fn set_mark(&self, mark: Bytes) -> Result<(), BlockError> {
        self.inner.set_mark(mark).await
    }

    async fn remove_mark(&self, mark: Bytes) -> Result<(), BlockError> {
        self.inner.remove_mark(mark).await
    }

    async fn probe(&self) -> Result<(), BlockError> {
        self.inner.probe().await
    }
}

const LENGTH: u32 = 40 * SUB_BLOCK_BYTES + 1_000;

struct Bench {
    direct: UncachedReader<Scripted>,
    block: BlockRef,
    content: Bytes,
}

impl Bench {
    async fn new(frame_bytes: usize, faults: &[SourceFault]) -> Bench {
        let content: Vec<u8> = (0..LENGTH).map(|at| (at / 7 * 13 % 253) as u8).collect();
        let mut sealer = Sealer::new(BlockId::new(Nonce([6; Nonce::BYTES]), 3), LENGTH);
        sealer.push_copy(&content);
        let block = sealer.finish();
        let faults = Mutex::new(faults.iter().copied().collect());
        let store = Scripted { frame_bytes, faults, ..Scripted::default() };
        store.put(&block).await.unwrap();
        Bench {
            direct: UncachedReader::new(store),
            block: block.reference(),
            content: content.into(),
        }
    }

    /// Returns the bytes that arrive of a range, and the result.
    async fn read(&self, range: Range<u32>) -> (Vec<u8>, Result<(), BlockError>) {
        let mut arrival = self.direct.arrival(self.block, range).expect("it is long enough");
        let mut found = Vec::new();
        loop {
            let left = arrival.left();
            match self.direct.advance(&mut arrival).await {
                Ok(true) => {}
                Ok(false) => return (found, Ok(())),
                Err(error) => return (found, Err(error)),
            }
            while let Some(piece) = arrival.take() {
                assert!(!piece.is_empty());
                found.extend_from_slice(&piece);
            }
            assert!(arrival.left() < left);
        }
    }

    fn part(&self, range: Range<u32>) -> &[u8] {
        &self.content[range.start as usize..range.end as usize]
    }

    /// The index of the first sub-block of each request.
    fn asked(&self) -> Vec<u64> {
        let asked = self.direct.inner().asked.lock().unwrap();
        let sub_block = u64::from(SUB_BLOCK_BYTES + sealed::CHECKSUM_BYTES);
        asked.iter().map(|range| range.start / sub_block).collect()
    }

    fn left_over(&self) -> usize {
        self.direct.inner().faults.lock().unwrap().len()
    }
}

#[tokio::test]
async fn long_range_arrives_with_one_request_for_every_frame_size() {
    for frame_bytes in [1_000, 65_540, 262_144, 8 << 20] {
        for range in [
            0..LENGTH,
            1..LENGTH,
            0..LENGTH - 1,
            SUB_BLOCK_BYTES..LENGTH,
            SUB_BLOCK_BYTES - 1..33 * SUB_BLOCK_BYTES + 1,
            100..ARRIVAL_BYTES_MIN + 100,
        ] {
            let bench = Bench::new(frame_bytes, &[]).await;
            let (found, ended) = bench.read(range.clone()).await;
            ended.expect("sound");
            assert!(found == bench.part(range.clone()), "{range:?} in frames of {frame_bytes}");
            assert_eq!(bench.asked().len(), 1);
        }
    }
}

#[tokio::test]
async fn bytes_that_have_arrived_together_need_one_wait() {
    let mut bench = Bench::new(65_540, &[]).await;
    bench.direct = UncachedReader::new(Scripted {
        inner: MemoryBlocks::default(),
        frame_bytes: 32 << 10,
        together: 7,
        ..Scripted::default()
    });
    let mut sealer = Sealer::new(bench.block.id, LENGTH);
    sealer.push_copy(&bench.content);
    bench.direct.inner().put(&sealer.finish()).await.unwrap();
    let mut arrival = bench.direct.arrival(bench.block, 0..LENGTH).expect("it is long enough");
    let (mut waits, mut found) = (0, Vec::new());
    while bench.direct.advance(&mut arrival).await.expect("sound") {
        waits += 1;
        while let Some(piece) = arrival.take() {
            found.extend_from_slice(&piece);
        }
    }
    assert!(found == bench.content);
    // Eight frames of 32 KiB arrive at a time.
    assert_eq!(waits, LENGTH.div_ceil(8 * (32 << 10)));
}

#[tokio::test]
async fn short_or_outside_range_is_not_streamed() {
    let bench = Bench::new(1_000, &[]).await;
    for range in [0..0, 0..ARRIVAL_BYTES_MIN - 1, 5..LENGTH + 1, LENGTH..LENGTH] {
        assert!(bench.direct.arrival(bench.block, range.clone()).is_none(), "{range:?}");
    }
    let memory = UncachedReader::new(MemoryBlocks::default());
    assert!(memory.arrival(bench.block, 0..LENGTH).is_none(), "it does not stream");
}

#[tokio::test]
async fn lost_source_is_resumed_at_the_first_missing_sub_block() {
    let lost = [
        SourceFault::Lost(0),
        SourceFault::Lost(200_000),
        SourceFault::Lost(65_539),
        SourceFault::Lost(65_540),
    ];
    for frame_bytes in [999, 100_000] {
        let bench = Bench::new(frame_bytes, &lost).await;
        let (found, ended) = bench.read(0..LENGTH).await;
        ended.expect("it goes on");
        assert!(found == bench.content);
        assert_eq!((bench.asked(), bench.left_over()), (vec![0, 0, 3, 3, 4], 0));
        assert_eq!(bench.direct.second_reads(), 0, "nothing was damaged");
    }
}

#[tokio::test]
async fn repeated_loss_of_sources_is_an_error() {
    let lost = [SourceFault::Lost(1_000); 9];
    let bench = Bench::new(100_000, &lost).await;
    let (found, ended) = bench.read(0..LENGTH).await;
    assert_eq!(ended.expect_err("it gives up").kind(), BlockErrorKind::Unavailable);
    assert!(found.is_empty());
    assert_eq!(bench.asked().len(), 1 + RESUMES_MAX as usize);
}

#[tokio::test]
async fn refused_request_is_not_repeated() {
    let bench = Bench::new(100_000, &[SourceFault::Unasked]).await;
    let (_, ended) = bench.read(0..LENGTH).await;
    assert_eq!(ended.expect_err("the layer below repeats").kind(), BlockErrorKind::Unavailable);
    assert_eq!(bench.asked().len(), 1);
}

#[tokio::test]
async fn damaged_short_or_missing_block_is_requested_once_more() {
    let faults = [
        SourceFault::Flip(500_000),
        SourceFault::Flip(10),
        SourceFault::Ends(500_000),
        SourceFault::Missing,
    ];
    for fault in faults {
        let bench = Bench::new(70_000, &[fault]).await;
        let (found, ended) = bench.read(0..LENGTH).await;
        ended.expect("the second time it is sound");
        assert!(found == bench.content, "{fault:?}");
        let again =
            if matches!(fault, SourceFault::Flip(10) | SourceFault::Missing) { 0 } else { 7 };
        assert_eq!((bench.asked(), bench.left_over()), (vec![0, again], 0), "{fault:?}");
        assert_eq!(bench.direct.second_reads(), 1);

        // The second request begins at the damaged sub-block, which is damaged again.
        let second = match fault {
            SourceFault::Flip(500_000) => SourceFault::Flip(40_000),
            SourceFault::Ends(_) => SourceFault::Ends(40_000),
            fault => fault,
        };
        let bench = Bench::new(70_000, &[fault, second]).await;
        let (found, ended) = bench.read(0..LENGTH).await;
        let error = ended.expect_err("twice is too often");
        let due = if matches!(fault, SourceFault::Missing) {
            BlockErrorKind::NotFound
        } else {
            BlockErrorKind::Corrupt
        };
        assert_eq!((error.kind(), bench.left_over()), (due, 0), "{fault:?}");
        let sound = u32::try_from(again).unwrap() * SUB_BLOCK_BYTES;
        assert!(found == bench.part(0..sound), "{fault:?}: the bytes before it are valid");
    }
}

#[tokio::test]
async fn replaced_block_fails_before_its_end() {
    let mut bench = Bench::new(100_000, &[]).await;
    bench.block.crc32c ^= 1;
    let (found, ended) = bench.read(0..LENGTH).await;
    assert_eq!(ended.expect_err("it is another").kind(), BlockErrorKind::Corrupt);
    assert!(found == bench.part(0..40 * SUB_BLOCK_BYTES), "the last sub-block stays");
}
