//! A body on its way out.
//!
//! The first read asks for exactly the sub-blocks that the range needs of its first block. From
//! then on each block that is begun lets one more be read ahead, up to [`READ_BLOCKS_AHEAD`], so
//! that a reader who stops early has cost little. Every read runs in its own task.
//!
//! **Whole or not at all.** Every byte was verified by [`sealed::open`]. A block that is missing
//! or damaged is read once more and is then an error, and so is a range that no slice holds:
//! never zeros, never fewer bytes than the range has.
//!
//! **Memory.** A read takes its permit before it asks, and the frames made of it hold the permit
//! until the last of them is dropped. Only the block that the reader waits for waits for memory;
//! reading ahead takes what is free.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use async_trait::async_trait;
use block::{BlockError, BlockErrorKind, BlockRef, BlockStore, sealed};
use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use layout::Segment;
use record::Slice;
use tokio_util::task::AbortOnDropHandle;
use tracing::warn;

use super::{ByteBudget, Deadlines, Permit, Traffic};
use crate::{Tasks, VolumeError};

/// Blocks that a stream reads before they are asked for.
pub const READ_BLOCKS_AHEAD: usize = 3;

/// How much of a content map is asked for at a time, in bytes of the file.
const WINDOW_BYTES: u64 = 256 << 20;

/// Where a stream learns which blocks hold a file's bytes.
#[async_trait]
pub trait SliceSource: fmt::Debug + Send + Sync + 'static {
    /// Every slice that overlaps the range, in the order in which they were written: later ones
    /// hide earlier ones. Others may be among them. Of one version of the file, whenever asked.
    async fn slices(&self, range: Range<u64>) -> Result<Vec<Slice>, VolumeError>;
}

/// The slices that stand in a file's own record.
#[derive(Clone, Debug)]
pub struct RecordSlices(pub Vec<Slice>);

#[async_trait]
impl SliceSource for RecordSlices {
    async fn slices(&self, range: Range<u64>) -> Result<Vec<Slice>, VolumeError> {
        let overlaps = |slice: &&Slice| slice.position < range.end && slice.end() > range.start;
        Ok(self.0.iter().filter(overlaps).copied().collect())
    }
}

/// What all streams of a volume share.
#[derive(Debug)]
pub struct Reading {
    /// Where blocks are read from.
    pub blocks: Arc<dyn BlockStore>,
    /// What bodies on their way out may hold in memory; not the writers' budget, so that neither
    /// can starve the other.
    pub budget: ByteBudget,
    /// Where reads run.
    pub tasks: Tasks,
    /// How long to wait.
    pub deadlines: Deadlines,
    /// What happened.
    pub traffic: Arc<Traffic>,
}

/// The bytes of a range of a file, in order and verified, in frames of at most 64 KiB each.
///
/// Ends after the last byte of the range, or after an error.
#[must_use = "a stream reads nothing before it is polled"]
pub struct ContentStream {
    frames: BoxStream<'static, Result<Bytes, VolumeError>>,
    _guard: Box<dyn Any + Send>,
}

impl ContentStream {
    /// A range of a file whose bytes lie in blocks. The caller has cut the range to the file's
    /// size. `guard` is dropped with the stream, and not before.
    pub fn new(
        reading: &Arc<Reading>,
        source: Arc<dyn SliceSource>,
        range: Range<u64>,
        guard: Box<dyn Any + Send>,
    ) -> ContentStream {
        let feeder = Feeder {
            reading: Arc::clone(reading),
            source,
            unresolved: range,
            planned: VecDeque::new(),
            in_flight: VecDeque::new(),
            ready: Vec::new().into_iter(),
            blocks_begun: 0,
        };
        let frames = stream::unfold(Some(feeder), async |feeder| {
            let mut feeder = feeder?;
            match feeder.next().await {
                Ok(frame) => Some((Ok(frame?), Some(feeder))),
                Err(error) => Some((Err(error), None)),
            }
        });
        ContentStream { frames: frames.boxed(), _guard: guard }
    }

    /// A range of bytes that stand in the file's record, which has been verified with them. The
    /// caller has cut the range to the file's size.
    pub fn inline(bytes: &Bytes, range: Range<u64>, guard: Box<dyn Any + Send>) -> ContentStream {
        let piece = || {
            let start = usize::try_from(range.start).ok()?;
            let end = usize::try_from(range.end).ok()?;
            (start <= end && end <= bytes.len()).then(|| bytes.slice(start..end))
        };
        let frame = piece().ok_or_else(|| {
            let (Range { start, end }, size) = (range.clone(), bytes.len());
            VolumeError::Corrupt(format!("bytes {start}..{end} of a record with {size} bytes"))
        });
        let frames = stream::iter([frame])
            .filter(|frame| std::future::ready(!matches!(frame, Ok(bytes) if bytes.is_empty())));
        ContentStream { frames: frames.boxed(), _guard: guard }
    }
}

impl fmt::Debug for ContentStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContentStream").finish_non_exhaustive()
    }
}

impl Stream for ContentStream {
    type Item = Result<Bytes, VolumeError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.frames.poll_next_unpin(context)
    }
}

/// What a stream has still to do.
struct Feeder {
    reading: Arc<Reading>,
    source: Arc<dyn SliceSource>,
    /// The end of the range, whose slices have not been asked for.
    unresolved: Range<u64>,
    /// What to read next, in order.
    planned: VecDeque<Slice>,
    /// What is being read, in order.
    in_flight: VecDeque<AbortOnDropHandle<Result<Vec<Bytes>, VolumeError>>>,
    /// What has been read of the current block.
    ready: std::vec::IntoIter<Bytes>,
    blocks_begun: usize,
}

impl Feeder {
    async fn next(&mut self) -> Result<Option<Bytes>, VolumeError> {
        loop {
            if let Some(frame) = self.ready.next() {
                self.read_ahead();
                return Ok(Some(frame));
            }
            if self.planned.is_empty() {
                self.resolve().await?;
            }
            if self.in_flight.is_empty() {
                let Some(slice) = self.planned.pop_front() else { return Ok(None) };
                let permit = self.permit(&slice).await?;
                self.fetch(slice, permit);
            }
            if let Some(fetch) = self.in_flight.pop_front() {
                let fetched = fetch.await.map_err(|error| {
                    VolumeError::Unavailable(format!("a block was not read: {error}"))
                })?;
                self.ready = fetched?.into_iter();
                self.blocks_begun += 1;
            }
        }
    }

    /// Plans the next part of the range, if there is one.
    async fn resolve(&mut self) -> Result<(), VolumeError> {
        let Range { start, end } = self.unresolved;
        let window = start..end.min(start.saturating_add(WINDOW_BYTES));
        if window.is_empty() {
            return Ok(());
        }
        let slices = self.source.slices(window.clone()).await?;
        for segment in layout::resolve(&slices, window.clone()) {
            match segment {
                Segment::Block(slice) => self.planned.push_back(slice),
                Segment::Hole { position, length } => {
                    let what = format!("no block holds the {length} bytes at {position}");
                    return Err(VolumeError::Corrupt(what));
                }
            }
        }
        self.unresolved.start = window.end;
        Ok(())
    }

    /// Memory for the read that the reader waits for.
    async fn permit(&self, slice: &Slice) -> Result<Permit, VolumeError> {
        let Deadlines { budget, block } = self.reading.deadlines;
        let patience = if self.blocks_begun == 0 { budget } else { block };
        Ok(self.reading.budget.acquire(bytes_of(slice), patience).await?)
    }

    /// Begins as many reads as the reader has shown to need and memory is free for.
    fn read_ahead(&mut self) {
        while self.in_flight.len() < self.blocks_begun.min(READ_BLOCKS_AHEAD) {
            let Some(slice) = self.planned.front() else { return };
            let Some(permit) = self.reading.budget.try_acquire(bytes_of(slice)) else { return };
            let Some(slice) = self.planned.pop_front() else { return };
            self.fetch(slice, permit);
        }
    }

    fn fetch(&mut self, slice: Slice, permit: Permit) {
        let reading = Arc::clone(&self.reading);
        let task = async move { fetch(&reading, &slice, permit).await };
        let task = self.reading.tasks.spawn("read block", task);
        self.in_flight.push_back(AbortOnDropHandle::new(task));
    }
}

/// A slice's bytes, verified; a second try where the first gave none.
async fn fetch(
    reading: &Reading,
    slice: &Slice,
    permit: Permit,
) -> Result<Vec<Bytes>, VolumeError> {
    let permit = Arc::new(permit);
    let both = async {
        match fetch_once(reading, slice, &permit).await {
            // What a layer in between remembers may be wrong. A store that does not answer is
            // asked again by the layer that counts such repetitions, not here.
            Err(error)
                if matches!(error.kind(), BlockErrorKind::Corrupt | BlockErrorKind::NotFound) =>
            {
                reading.traffic.second_gets.add(1);
                warn!(block = %slice.block, %error, "a block is read once more");
                fetch_once(reading, slice, &permit).await
            }
            first => first,
        }
    };
    match tokio::time::timeout(reading.deadlines.block, both).await {
        Ok(Ok(frames)) => {
            reading.traffic.got_bytes.add(u64::from(slice.length));
            Ok(frames)
        }
        Ok(Err(error)) => Err(error.into()),
        Err(late) => {
            Err(VolumeError::Unavailable(format!("reading block {}: {late}", slice.block)))
        }
    }
}

async fn fetch_once(
    reading: &Reading,
    slice: &Slice,
    permit: &Arc<Permit>,
) -> Result<Vec<Bytes>, BlockError> {
    reading.traffic.gets.add(1);
    let range = content_range(slice);
    let span = sealed::span(slice.block_length, range.clone());
    let bytes = reading.blocks.get(slice.block, span.bytes).await?;
    let bytes = Bytes::from_owner(Accounted { bytes, _permit: Arc::clone(permit) });
    let block =
        BlockRef { id: slice.block, length: slice.block_length, crc32c: slice.block_crc32c };
    sealed::open(block, range, bytes)
}

/// Bytes that give their memory back when the last frame made of them is gone.
struct Accounted {
    bytes: Bytes,
    _permit: Arc<Permit>,
}

impl AsRef<[u8]> for Accounted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Where a slice's bytes lie in its block. A slice beyond 32 bits, which no record can hold,
/// becomes a range beyond its block, which does not open.
fn content_range(slice: &Slice) -> Range<u32> {
    slice.offset..slice.offset.saturating_add(slice.length)
}

/// What reading a slice takes from the block store, in bytes.
fn bytes_of(slice: &Slice) -> u64 {
    let span = sealed::span(slice.block_length, content_range(slice));
    span.bytes.end - span.bytes.start
}
