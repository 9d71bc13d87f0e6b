//! A body on its way out.
//!
//! A block is read in *runs*. Where much of a block is wanted and nothing of it is in memory, all
//! of that is one run, which *arrives*: it moves on as the reader polls it, and each sub-block is
//! passed on as soon as it has passed its checksum. What comes behind it is requested shortly
//! before its end.
//!
//! Other runs are read at once. The first is short, so that the first bytes leave soon; each one
//! that the reader takes doubles the next, up to [`RUN_BYTES_MAX`], and doubles what is read ahead
//! of the reader, up to [`READ_AHEAD_BYTES_MAX`]. So a reader who stops early has cost little, and
//! one who goes on is not kept waiting. What is in memory is taken from there, without a task and
//! without memory of its own; each other run is read in a task.
//!
//! **Whole or not at all.** Every byte was verified by the [`BlockReader`]. A block that is missing
//! or damaged is an error, and so is a range that no slice holds, unless the file is sparse, of which
//! it is zeros: never fewer bytes than the range has. Where all runs of a whole block were fetched now, their checksums together
//! must be the block's: a block that was replaced by another consistent one is found before its
//! end leaves.
//!
//! **Memory.** A run that is read takes its permit before it asks, and the frames made of it hold
//! the permit until the last of them is dropped. One that arrives holds a small permit of its own,
//! [`ARRIVAL_MEMORY_BYTES`], which the next one takes over, however slow its reader is. Only the
//! run that the reader waits for waits for memory; what is ahead of the reader takes what is free.

mod arriving;
mod holes;
mod reading;
mod runs;

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use block::{Arrival, BlockReader, SUB_BLOCK_BYTES, sealed};
use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use layout::Segment;
use record::Slice;
use tokio_util::task::AbortOnDropHandle;

use self::arriving::Arriving;
pub use self::arriving::{ARRIVAL_MEMORY_BYTES, OPEN_AHEAD_BYTES};
use self::holes::Zeros;
pub use self::reading::Reading;
use self::runs::{BlockChecksum, FetchedRun, Planned, Run};
use crate::{ContentError, Deadlines, Permit};

/// Content bytes of a stream's first run, and of what it reads ahead at first.
pub const RUN_BYTES_MIN: u32 = 1 << 20;

/// Content bytes of a run at most, but for a remainder that rides along.
pub const RUN_BYTES_MAX: u32 = 4 << 20;

/// Content bytes that a stream reads before they are asked for.
pub const READ_AHEAD_BYTES_MAX: u32 = 12 << 20;

const _: () = assert!(RUN_BYTES_MIN.is_multiple_of(SUB_BLOCK_BYTES), "runs end with sub-blocks");
const _: () = assert!(RUN_BYTES_MAX.is_multiple_of(SUB_BLOCK_BYTES), "runs end with sub-blocks");

/// How much of a content map is asked for at a time, in bytes of the file.
const WINDOW_BYTES: u64 = 256 << 20;

/// Where a stream learns which blocks hold a file's bytes.
#[async_trait]
pub trait SliceSource: fmt::Debug + Send + Sync + 'static {
    /// Every slice that overlaps the range, in the order in which they were written: later ones
    /// hide earlier ones. Others may be among them. Of one version of the file, whenever asked.
    async fn slices(&self, range: Range<u64>) -> Result<Vec<Slice>, ContentError>;

    /// Whether bytes that no slice holds are zeros. Of other files they are damage.
    fn is_sparse(&self) -> bool;
}

/// The slices that stand in a file's own record.
#[derive(Clone, Debug)]
pub struct RecordSlices {
    /// The slices.
    pub slices: Vec<Slice>,
    /// Whether bytes that none of them holds are zeros.
    pub sparse: bool,
}

#[async_trait]
impl SliceSource for RecordSlices {
    async fn slices(&self, range: Range<u64>) -> Result<Vec<Slice>, ContentError> {
        let overlaps = |slice: &&Slice| slice.position < range.end && slice.end() > range.start;
        Ok(self.slices.iter().filter(overlaps).copied().collect())
    }

    fn is_sparse(&self) -> bool {
        self.sparse
    }
}

/// The bytes of a range of a file, in order and verified, in frames of at most 64 KiB each, none
/// of them empty.
///
/// Ends after the last byte of the range, or after an error.
#[must_use = "a stream reads nothing before it is polled"]
pub struct ContentStream {
    frames: BoxStream<'static, Result<Bytes, ContentError>>,
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
            zeros: Zeros::default(),
            arriving: None,
            spare: None,
            window: RUN_BYTES_MIN,
            ahead: 0,
            started: false,
            block_checksum: BlockChecksum::default(),
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
    /// caller has cut the range to the file's size. What lies behind the bytes of a `sparse` file is
    /// zeros. Nothing is read for it any more, so it keeps nothing from being deleted.
    pub fn inline(bytes: &Bytes, range: Range<u64>, sparse: bool) -> ContentStream {
        let size = bytes.len() as u64;
        let held = range.start.min(size)..range.end.min(size);
        let hole = (range.end - range.start).saturating_sub(held.end - held.start);
        let piece = || {
            let (start, end) = (usize::try_from(held.start), usize::try_from(held.end));
            let piece = bytes.slice(start.ok()?..end.ok()?);
            (sparse || hole == 0).then_some(piece)
        };
        let Range { start, end } = range;
        let first = piece().ok_or_else(|| {
            let what = format!("bytes {start}..{end} of a record with {size} bytes");
            ContentError::Corrupt(what)
        });
        let zeros = Zeros::new(if first.is_ok() { hole } else { 0 });
        let frames = stream::iter(std::iter::once(first).chain(zeros.map(Ok)))
            .filter(|frame| std::future::ready(!matches!(frame, Ok(bytes) if bytes.is_empty())));
        ContentStream { frames: frames.boxed(), _guard: Box::new(()) }
    }
}

impl fmt::Debug for ContentStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContentStream").finish_non_exhaustive()
    }
}

impl Stream for ContentStream {
    type Item = Result<Bytes, ContentError>;

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
    planned: VecDeque<Piece>,
    /// What is being read, in order.
    in_flight: VecDeque<InFlight>,
    /// What has been read of the current run.
    ready: std::vec::IntoIter<Bytes>,
    /// What is left of the current hole.
    zeros: Zeros,
    /// The current run, if it is one that arrives.
    arriving: Option<Box<Arriving>>,
    /// The memory of a run that arrived, kept for the next one: a reader who was admitted does not
    /// wait behind others between two blocks.
    spare: Option<Permit>,
    /// Content bytes that may be read ahead; a run is no longer than this either.
    window: u32,
    /// Content bytes that are in flight.
    ahead: u32,
    /// Whether the reader has been given anything.
    started: bool,
    block_checksum: BlockChecksum,
}

/// A part of the range that was resolved.
enum Piece {
    /// What is to be read of a slice.
    Slice(Planned),
    /// So many zeros.
    Hole(u64),
}

/// What comes next for the reader.
enum InFlight {
    /// A run that was started, and how far it has come.
    Run(Run, RunState),
    /// So many zeros.
    Hole(u64),
}

enum RunState {
    /// It was in memory.
    InMemory(Vec<Bytes>),
    /// It is being read, as one.
    Fetching(AbortOnDropHandle<Result<FetchedRun, ContentError>>),
    /// It will be requested when the reader comes to it, and passed on as it arrives.
    Unrequested(Box<Arriving>),
    /// It is being requested ahead of the reader, and will be passed on as it arrives.
    Requested(AbortOnDropHandle<Result<Arriving, ContentError>>),
}

impl Feeder {
    async fn next(&mut self) -> Result<Option<Bytes>, ContentError> {
        loop {
            if let Some(frame) = self.ready.next() {
                self.read_ahead();
                return Ok(Some(frame));
            }
            if let Some(frame) = self.zeros.next() {
                self.read_ahead();
                return Ok(Some(frame));
            }
            if let Some(mut arriving) = self.arriving.take() {
                if let Some(frame) = arriving.next(&self.reading).await? {
                    self.arriving = Some(arriving);
                    self.read_ahead();
                    return Ok(Some(frame));
                }
                self.spare = Some(arriving.end(&mut self.block_checksum));
            }
            if self.planned.is_empty() {
                self.resolve().await?;
            }
            if self.in_flight.is_empty() && !self.begin_hole() {
                let Some(run) = self.next_run() else { return Ok(None) };
                if !self.begin_from_memory(run) {
                    self.begin_in_turn(run).await?;
                }
            }
            match self.in_flight.pop_front() {
                Some(InFlight::Run(run, state)) => {
                    self.ahead -= run.length;
                    self.ready = self.take(run, state).await?.into_iter();
                    self.window = self.window.saturating_mul(2).min(READ_AHEAD_BYTES_MAX);
                    self.started = true;
                }
                Some(InFlight::Hole(length)) => self.zeros = Zeros::new(length),
                None => {}
            }
        }
    }

    /// The frames of a run that the reader has come to; none yet if it arrives.
    async fn take(&mut self, run: Run, state: RunState) -> Result<Vec<Bytes>, ContentError> {
        let lost = |error| ContentError::Unavailable(format!("a block was not read: {error}"));
        let fetched = match state {
            RunState::InMemory(frames) => FetchedRun { frames, checksum: None },
            RunState::Fetching(task) => task.await.map_err(lost)??,
            RunState::Unrequested(arriving) => {
                return Ok(self.start_arrival(arriving.opened(&self.reading).await?));
            }
            RunState::Requested(task) => return Ok(self.start_arrival(task.await.map_err(lost)??)),
        };
        self.block_checksum.follow(&run, &fetched)?;
        Ok(fetched.frames)
    }

    fn start_arrival(&mut self, mut arriving: Arriving) -> Vec<Bytes> {
        // It brings memory of its own, or that of the run before it.
        self.spare = None;
        arriving.follow(&mut self.block_checksum);
        self.arriving = Some(Box::new(arriving));
        Vec::new()
    }

    /// Plans the next part of the range, if there is one.
    async fn resolve(&mut self) -> Result<(), ContentError> {
        let Range { start, end } = self.unresolved;
        let window = start..end.min(start.saturating_add(WINDOW_BYTES));
        if window.is_empty() {
            return Ok(());
        }
        let slices = self.source.slices(window.clone()).await?;
        for segment in layout::resolve(&slices, window.clone()) {
            match segment {
                Segment::Block(slice) => {
                    self.planned.push_back(Piece::Slice(Planned::new(&slice)));
                }
                Segment::Hole { length, .. } if self.source.is_sparse() => {
                    self.planned.push_back(Piece::Hole(length));
                }
                Segment::Hole { position, length } => {
                    let what = format!("no block holds the {length} bytes at {position}");
                    return Err(ContentError::Corrupt(what));
                }
            }
        }
        self.unresolved.start = window.end;
        Ok(())
    }

    /// What to read next, if that is planned next. It stays planned until it is started.
    fn next_run(&self) -> Option<Run> {
        let Some(Piece::Slice(planned)) = self.planned.front() else { return None };
        Some(planned.first_run(self.window.min(RUN_BYTES_MAX)))
    }

    /// Begins the hole that is planned next, if one is.
    fn begin_hole(&mut self) -> bool {
        let Some(Piece::Hole(length)) = self.planned.front() else { return false };
        self.in_flight.push_back(InFlight::Hole(*length));
        self.planned.pop_front();
        true
    }

    /// Begins the run that the reader waits for, when there is memory for it.
    async fn begin_in_turn(&mut self, run: Run) -> Result<(), ContentError> {
        let (reading, patience) = (Arc::clone(&self.reading), self.patience());
        let spare = self.spare.take();
        if let Some((run, arrival)) = self.arrival() {
            let permit = match spare {
                Some(permit) => permit,
                None => reading.budget.acquire(ARRIVAL_MEMORY_BYTES, patience).await?,
            };
            self.push(run, RunState::Unrequested(Box::new(Arriving::new(run, arrival, permit))));
        } else {
            drop(spare);
            let permit = reading.budget.acquire(run.sealed_bytes(), patience).await?;
            self.begin(run, permit);
        }
        Ok(())
    }

    /// How long the reader waits for the memory of its next run.
    fn patience(&self) -> Duration {
        let Deadlines { budget, block } = self.reading.deadlines;
        if self.started { block } else { budget }
    }

    /// Begins as many runs as the reader has shown to need and memory is free for.
    fn read_ahead(&mut self) {
        if self.has_pending_arrival() {
            return;
        }
        while self.ahead < self.window {
            if self.begin_hole() {
                continue;
            }
            let Some(run) = self.next_run() else { return };
            if self.begin_from_memory(run) {
                continue;
            }
            if let Some((run, arrival)) = self.arrival() {
                let Some(permit) = self.reading.budget.try_acquire(ARRIVAL_MEMORY_BYTES) else {
                    return;
                };
                self.request_ahead(Arriving::new(run, arrival, permit), run);
                return;
            }
            let Some(permit) = self.reading.budget.try_acquire(run.sealed_bytes()) else { return };
            self.begin(run, permit);
        }
    }

    /// Whether something that arrives leaves nothing to be done ahead of it: connections hold what
    /// comes next, and no more than one of them waits for the reader.
    fn has_pending_arrival(&self) -> bool {
        let asked = |flight: &InFlight| matches!(flight, InFlight::Run(_, RunState::Requested(_)));
        self.arriving.as_ref().is_some_and(|arriving| !arriving.is_near_its_end())
            || self.in_flight.iter().any(asked)
    }

    /// The next run, if it is one to pass on as it arrives.
    fn arrival(&self) -> Option<(Run, Arrival)> {
        let Some(Piece::Slice(planned)) = self.planned.front() else { return None };
        let arrival = self.reading.reader.arrival(planned.block(), planned.range())?;
        Some((planned.beginning(arrival.left()), arrival))
    }

    /// Takes a run from memory if all of it is there.
    fn begin_from_memory(&mut self, run: Run) -> bool {
        let Some(frames) = self.reading.reader.in_memory(run.block, run.range()) else {
            return false;
        };
        self.push(run, RunState::InMemory(frames));
        true
    }

    fn request_ahead(&mut self, arriving: Arriving, run: Run) {
        let reading = Arc::clone(&self.reading);
        let task = async move { arriving.opened(&reading).await };
        let task = self.reading.tasks.spawn("ask for a block", task);
        self.push(run, RunState::Requested(AbortOnDropHandle::new(task)));
    }

    fn begin(&mut self, run: Run, permit: Permit) {
        let reading = Arc::clone(&self.reading);
        let task = async move { fetch(&reading, run, permit).await };
        let task = self.reading.tasks.spawn("read block", task);
        self.push(run, RunState::Fetching(AbortOnDropHandle::new(task)));
    }

    fn push(&mut self, run: Run, state: RunState) {
        if let Some(Piece::Slice(planned)) = self.planned.pop_front()
            && let Some(rest) = planned.behind(&run)
        {
            self.planned.push_front(Piece::Slice(rest));
        }
        self.ahead += run.length;
        self.in_flight.push_back(InFlight::Run(run, state));
    }
}

/// A run's bytes, verified.
async fn fetch(reading: &Reading, run: Run, permit: Permit) -> Result<FetchedRun, ContentError> {
    reading.traffic.gets.add(1);
    let reads = reading.reader.read(run.block, run.range());
    match tokio::time::timeout(reading.deadlines.block, reads).await {
        Ok(Ok(pieces)) => {
            reading.traffic.got_bytes.add(u64::from(run.length));
            let checksum = run.is_part_of_whole().then(|| sealed::content_checksum(&pieces));
            let permit = Arc::new(permit);
            let account =
                |bytes| Bytes::from_owner(Accounted { bytes, _permit: Arc::clone(&permit) });
            Ok(FetchedRun { frames: pieces.into_iter().map(account).collect(), checksum })
        }
        Ok(Err(error)) => Err(error.into()),
        Err(late) => {
            Err(ContentError::Unavailable(format!("reading block {}: {late}", run.block.id)))
        }
    }
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
