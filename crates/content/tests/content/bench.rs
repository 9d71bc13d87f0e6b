//! A test bench: the byte path of one session over faulty blocks, and bodies to send through it.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use block::{BlockReader, UncachedReader};
use bytes::Bytes;
use content::{
    BlockIds, ByteBudget, ContentError, ContentStream, ContentWriter, Deadlines, Hashing, Packer,
    Packing, Pin, Pins, Reading, RecordSlices, SizeAndLoad, StagedContent, StagedInline, Staging,
    Traffic, Writers,
};
use futures::TryStreamExt;
use hashing::HashingPool;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use record::{Content, Nonce};
use runtime::Tasks;

use crate::faulty::Faulty;

pub const MIB: u64 = 1 << 20;
pub const INLINE_BYTES_MAX: u32 = 4096;
pub const DEADLINES: Deadlines =
    Deadlines { budget: Duration::from_secs(5), block: Duration::from_secs(30) };

/// The byte path of one session.
pub struct Bench {
    pub faulty: Arc<Faulty>,
    pub staging: Arc<Staging>,
    pub writers: Writers,
    pub direct: Arc<UncachedReader<Arc<Faulty>>>,
    pub reading: Arc<Reading>,
    pub tasks: Tasks,
    pub pins: Arc<Pinned>,
}

/// The number of pins that have not been released.
#[derive(Debug, Default)]
pub struct Pinned(AtomicU64);

impl Pinned {
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Pins for Pinned {
    fn pin(self: Arc<Self>) -> Pin {
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::new(PinGuard(self))
    }
}

#[derive(Debug)]
struct PinGuard(Arc<Pinned>);

impl Drop for PinGuard {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Bench {
    pub fn new(faulty: Faulty, block_bytes: u32, budget_bytes: u64) -> Bench {
        let faulty = Arc::new(faulty);
        let direct = Arc::new(UncachedReader::new(faulty.clone()));
        Bench::reading(faulty, direct.clone(), direct, block_bytes, budget_bytes)
    }

    /// As `new`, but `reader` receives the blocks that were put.
    pub fn reading(
        faulty: Arc<Faulty>,
        direct: Arc<UncachedReader<Arc<Faulty>>>,
        reader: Arc<dyn BlockReader>,
        block_bytes: u32,
        budget_bytes: u64,
    ) -> Bench {
        let tasks = Tasks::new();
        let traffic = Arc::new(Traffic::default());
        let pins = Arc::<Pinned>::default();
        let staging = Arc::new(Staging {
            blocks: faulty.clone(),
            reader,
            ids: BlockIds::new(Nonce([7; Nonce::BYTES])),
            budget: ByteBudget::new(budget_bytes),
            tasks: tasks.clone(),
            block_bytes,
            inline_bytes_max: INLINE_BYTES_MAX,
            staged_inline: Arc::new(StagedInline::new(SizeAndLoad {
                inline_bytes_max: u64::from(INLINE_BYTES_MAX),
                staged_inline_bytes_max: 0,
            })),
            late: Arc::default(),
            pins: Arc::clone(&pins) as Arc<dyn Pins>,
            deadlines: DEADLINES,
            traffic: Arc::clone(&traffic),
        });
        let reading = Arc::new(Reading {
            reader: direct.clone(),
            budget: ByteBudget::new(budget_bytes),
            tasks: tasks.clone(),
            deadlines: DEADLINES,
            traffic,
        });
        let writers = Writers {
            staging: Arc::clone(&staging),
            packer: Arc::new(Packer::new(&staging, Packing::default())),
            hashing: Arc::new(Hashing::new(HashingPool::start(NonZeroUsize::MIN))),
        };
        Bench { faulty, staging, writers, direct, reading, tasks, pins }
    }

    pub fn sound() -> Bench {
        Bench::new(Faulty::default(), 4 << 20, 256 * MIB)
    }

    /// Sends a body, cut into frames of at most `frame_bytes` bytes.
    pub async fn write(
        &self,
        body: &Bytes,
        hint: Option<u64>,
        frame_bytes: usize,
    ) -> Result<StagedContent, ContentError> {
        let mut writer = ContentWriter::new(&self.writers, hint);
        for frame in frames(body, frame_bytes) {
            writer.write(frame).await?;
        }
        writer.finish().await
    }

    /// Sends a body and keeps its blocks, as if it had been published.
    pub async fn publish(&self, body: &Bytes) -> Content {
        let mut staged =
            self.write(body, Some(body.len() as u64), 100_000).await.expect("the store is sound");
        staged.disarm();
        staged.content().clone()
    }

    pub fn open(&self, content: &Content, range: Range<u64>) -> ContentStream {
        match content {
            Content::Inline(bytes) => ContentStream::inline(bytes, range, false),
            Content::Slices(slices) => {
                let source = Arc::new(RecordSlices { slices: slices.clone(), sparse: false });
                ContentStream::new(&self.reading, source, range, Box::new(()))
            }
            Content::Pages(_) => unreachable!("a staged content has no pages"),
        }
    }

    pub async fn read(&self, content: &Content, range: Range<u64>) -> Result<Bytes, ContentError> {
        let frames: Vec<Bytes> = self.open(content, range).try_collect().await?;
        Ok(frames.concat().into())
    }

    /// Reads a whole body frame by frame and compares it, without collecting it.
    pub async fn read_through(&self, content: &Content, body: &Bytes) -> bool {
        let mut rest = body.clone();
        let mut stream = self.open(content, 0..body.len() as u64);
        while let Ok(Some(frame)) = stream.try_next().await {
            if frame.len() > rest.len() || rest.split_to(frame.len()) != frame {
                return false;
            }
        }
        rest.is_empty()
    }

    /// Waits until no put is under way.
    pub async fn settle_puts(&self) {
        while self.tasks.running() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Waits for all background tasks. Memory that is still in use afterwards is a leak.
    pub async fn settle(&self) {
        assert_eq!(self.tasks.close_and_wait(Duration::from_secs(1_000)).await, 0);
        assert_eq!(self.tasks.panics(), 0);
        assert_eq!(self.staging.budget.in_use(), 0, "writers gave their memory back");
        assert_eq!(self.reading.budget.in_use(), 0, "readers gave their memory back");
    }
}

/// A body of arbitrary bytes.
pub fn body(seed: u64, bytes: u64) -> Bytes {
    let mut body = vec![0; usize::try_from(bytes).unwrap()];
    SmallRng::seed_from_u64(seed).fill(&mut body[..]);
    body.into()
}

pub fn frames(body: &Bytes, frame_bytes: usize) -> impl Iterator<Item = Bytes> {
    (0..body.len())
        .step_by(frame_bytes)
        .map(move |at| body.slice(at..body.len().min(at + frame_bytes)))
}
