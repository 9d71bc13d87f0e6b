//! Reads a range of a file's content.
//!
//! Roles:
//!
//! - The *stream* resolves the range to slices and reads each slice in *runs*, which are parts of a
//!   block.
//! - The *arrival*: if much of a block is wanted and nothing of it is in memory, all of it is one
//!   run. The reader's polls advance it, and each sub-block is passed on as soon as it has passed
//!   its checksum. The next run is requested shortly before the end of this one.
//! - The *read-ahead* reads other runs in tasks. The first run is short, so that the first bytes
//!   are sent soon. Each run that the reader takes doubles the length of the next one, up to
//!   [`RUN_BYTES_MAX`], and the bytes that are read ahead, up to [`READ_AHEAD_BYTES_MAX`]. So a
//!   reader that stops early has cost little, and a reader that continues seldom waits. Runs that
//!   are in memory are taken from there, without a task and without a permit.
//!
//! For example, an object of 20 MiB has one block of 16 MiB and one of 4 MiB. A GET of the whole
//! object with cold caches is two arrivals, one for each block. A GET of 100 KiB out of it is one
//! run.
//!
//! **Invariant.** Every byte was verified by the [`BlockReader`], and the stream never returns
//! fewer bytes than the range has without an error. A block that is missing or damaged is an error.
//! A range that no slice covers is an error, too, except in a sparse file, where it reads as zeros.
//! If all runs of a whole block were read now, their checksums together must equal the block's
//! checksum. So a block that was replaced by another consistent one is detected before its last
//! bytes are returned.
//!
//! **Memory.** A run that is read in a task takes its permit first, and the frames made of it hold
//! the permit until the last of them is dropped. An arrival holds a small permit,
//! [`ARRIVAL_MEMORY_BYTES`], however slow its reader is; the next arrival takes it over. Only the
//! run that the reader needs next waits for memory. The read-ahead takes only memory that is free.

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
use keyring::ObjectEncryptionKey;
use layout::Segment;
use record::Slice;
use tokio_util::task::AbortOnDropHandle;

use self::arriving::Arriving;
pub use self::arriving::{ARRIVAL_MEMORY_BYTES, OPEN_AHEAD_BYTES};
use self::holes::Zeros;
pub use self::reading::Reading;
use self::runs::{BlockChecksum, FetchedRun, Planned, Run};
use crate::object_cipher::{self, PieceCipher};
use crate::{ContentError, Deadlines, Permit};

/// Content bytes of a stream's first run (the part of a block that is read at once), and of its
/// initial read-ahead.
pub const RUN_BYTES_MIN: u32 = 1 << 20;

/// The most content bytes of a run, the part of a block that is read at once, except for a short
/// remainder that is added to the last run.
pub const RUN_BYTES_MAX: u32 = 4 << 20;

/// The most content bytes that a stream reads ahead of its reader.
pub const READ_AHEAD_BYTES_MAX: u32 = 12 << 20;

const _: () = assert!(RUN_BYTES_MIN.is_multiple_of(SUB_BLOCK_BYTES), "runs end with sub-blocks");
const _: () = assert!(RUN_BYTES_MAX.is_multiple_of(SUB_BLOCK_BYTES), "runs end with sub-blocks");

/// The part of a file, in bytes, whose slices are requested at a time.
const WINDOW_BYTES: u64 = 256 << 20;

/// The source of a file's slices, the runs of block bytes that make up its content.
#[async_trait]
pub trait SliceSource: fmt::Debug + Send + Sync + 'static {
    /// Returns every slice (a run of bytes of one block at a position of the file) that overlaps
    /// the range, in the order in which they were written: later ones hide earlier ones. Other
    /// slices may be among them. All calls must return slices of one version of the file. Fails if
    /// the records of the slices cannot be read or decoded.
    async fn slices(&self, range: Range<u64>) -> Result<Vec<Slice>, ContentError>;

    /// Returns true if bytes that no slice covers are zeros. In other files such bytes are damage.
    fn is_sparse(&self) -> bool;
}

/// The slices, runs of bytes of blocks, that are in a file's own record.
#[derive(Clone, Debug)]
pub struct RecordSlices {
    /// The slices, in the order in which they were written: later ones hide earlier ones.
    pub slices: Vec<Slice>,
    /// True if bytes that no slice covers are zeros.
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

/// The bytes of a range of a file, verified and in order, in frames of 1 byte to 64 KiB.
///
/// The stream ends after the last byte of the range, or after an error.
#[must_use = "a stream reads nothing before it is polled"]
pub struct ContentStream {
    frames: BoxStream<'static, Result<Bytes, ContentError>>,
    _guard: Box<dyn Any + Send>,
}

impl ContentStream {
    /// Creates a stream of a range of a file whose bytes are in blocks. The caller has cut the
    /// range to the file's size. `guard` is dropped with the stream; it keeps the blocks from being
    /// deleted.
    pub fn new(
        reading: &Arc<Reading>,
        source: Arc<dyn SliceSource>,
        range: Range<u64>,
        guard: Box<dyn Any + Send>,
    ) -> ContentStream {
        ContentStream::under(None, reading, source, range, guard)
    }

    /// As [`ContentStream::new`], for content that is encrypted under the key of its object.
    pub fn under(
        key: Option<Arc<ObjectEncryptionKey>>,
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
            key,
            cipher: None,
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

    /// Creates a stream that fails with this error.
    pub fn failed(error: ContentError) -> ContentStream {
        let frames = stream::iter(std::iter::once(Err(error)));
        ContentStream { frames: frames.boxed(), _guard: Box::new(()) }
    }

    /// As [`ContentStream::inline`], for bytes that are encrypted under the key of their object.
    pub fn inline_under(
        key: &ObjectEncryptionKey,
        bytes: &Bytes,
        range: Range<u64>,
    ) -> ContentStream {
        ContentStream::inline(&object_cipher::inline(key, bytes), range, false)
    }

    /// Creates a stream of a range of bytes that are inline in the file's record. The caller has
    /// cut the range to the file's size. Bytes of a `sparse` file behind `bytes` are zeros. The
    /// stream reads no block, so it needs no guard.
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
            let what = format!("bytes {start}..{end} are beyond the {size} bytes of the record");
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

/// The state of a stream: the parts of its range that are to be read, are being read and were read.
struct Feeder {
    reading: Arc<Reading>,
    source: Arc<dyn SliceSource>,
    /// The rest of the range, whose slices have not been requested.
    unresolved: Range<u64>,
    /// The pieces (slices of blocks and holes) to read next, in order.
    planned: VecDeque<Piece>,
    /// The pieces that are being read, in order.
    in_flight: VecDeque<InFlight>,
    /// The frames of the current run (the part of a block that is passed on now) that have been
    /// read.
    ready: std::vec::IntoIter<Bytes>,
    /// The rest of the hole, in a sparse file, that the reader has come to.
    zeros: Zeros,
    /// The current run (part of a block), if it is passed on to the reader as it arrives.
    arriving: Option<Box<Arriving>>,
    /// The permit for memory of a run that arrived and has ended, kept for the next such run. So a
    /// reader that was admitted does not wait behind others between two blocks.
    spare: Option<Permit>,
    /// Content bytes that may be read ahead. A run has at most this length, too.
    window: u32,
    /// Content bytes that are being read.
    ahead: u32,
    /// True once the reader has been given a run.
    started: bool,
    /// The key of the object, if its content is encrypted under one.
    key: Option<Arc<ObjectEncryptionKey>>,
    /// The cipher of the rest of the current run.
    cipher: Option<PieceCipher>,
    block_checksum: BlockChecksum,
}

/// A part of the range whose slices are known.
enum Piece {
    /// Bytes of a slice.
    Slice(Planned),
    /// Zeros, and their number.
    Hole(u64),
}

/// A piece that is being read.
enum InFlight {
    /// A run (part of a block), and its state.
    Run(Run, RunState),
    /// Zeros, and their number.
    Hole(u64),
}

/// The state of a run, a part of a block that is read. An *arrival* is a run that is passed on to
/// the reader as it arrives.
///
/// ```text
/// InMemory                                                      (taken at once)
/// Fetching     -> the task returns all frames                   (another run)
/// Unrequested  -> the reader comes to it: request, then arrive  (an arrival in turn)
/// Requested    -> the request was sent ahead, then arrive       (an arrival ahead)
/// ```
enum RunState {
    /// All its bytes were in memory.
    InMemory(Vec<Bytes>),
    /// A task is reading all of it.
    Fetching(AbortOnDropHandle<Result<FetchedRun, ContentError>>),
    /// An arrival that will be requested when the reader comes to it.
    Unrequested(Box<Arriving>),
    /// An arrival that a task is requesting ahead of the reader.
    Requested(AbortOnDropHandle<Result<Arriving, ContentError>>),
}

impl Feeder {
    /// Returns the next frame; `None` at the end of the range.
    async fn next(&mut self) -> Result<Option<Bytes>, ContentError> {
        loop {
            // The read-ahead is topped up with each frame, so that it also continues after memory
            // was short.
            if let Some(frame) = self.ready.next() {
                self.read_ahead();
                return Ok(Some(self.decrypted(frame)));
            }
            if let Some(frame) = self.zeros.next() {
                self.read_ahead();
                return Ok(Some(frame));
            }
            if let Some(mut arriving) = self.arriving.take() {
                if let Some(frame) = arriving.next(&self.reading).await? {
                    self.arriving = Some(arriving);
                    self.read_ahead();
                    return Ok(Some(self.decrypted(frame)));
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
                // Only a run that the reader has taken shows that it continues, so only then the
                // read-ahead grows.
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

    /// Returns a frame of the current run, decrypted if the object has a key.
    fn decrypted(&mut self, frame: Bytes) -> Bytes {
        match &mut self.cipher {
            // The decrypted frame holds the permit of the encrypted one.
            Some(cipher) => Bytes::from_owner(Decrypted(cipher.apply(&frame), frame)),
            None => frame,
        }
    }

    /// Returns the frames of a run (part of a block) that the reader has come to, and waits for
    /// them if a task reads them. Returns no frames for a run that is passed on as it arrives; that
    /// becomes the current run.
    async fn take(&mut self, run: Run, state: RunState) -> Result<Vec<Bytes>, ContentError> {
        let lost = |error| {
            ContentError::Unavailable(format!("the task that reads a block ended: {error}"))
        };
        // All frames until the next run are of this one, in order.
        self.cipher = self.key.as_ref().map(|key| run.cipher(key));
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

    /// Makes a run that is passed on as it arrives the current run. Returns no frames yet.
    fn start_arrival(&mut self, mut arriving: Arriving) -> Vec<Bytes> {
        // The arrival has a permit of its own, or the one of the arrival before it.
        self.spare = None;
        arriving.follow(&mut self.block_checksum);
        self.arriving = Some(Box::new(arriving));
        Vec::new()
    }

    /// Requests the slices of the next part of the range, if the range has one.
    async fn resolve(&mut self) -> Result<(), ContentError> {
        let Range { start, end } = self.unresolved;
        let window = start..end.min(start.saturating_add(WINDOW_BYTES));
        if window.is_empty() {
            return Ok(());
        }
        // A window limits the slices in memory: a map of a large file has many pages.
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
                    let what = format!("no block covers the {length} bytes at {position}");
                    return Err(ContentError::Corrupt(what));
                }
            }
        }
        self.unresolved.start = window.end;
        Ok(())
    }

    /// Returns the next run (part of a block) if the next piece of the range is in a block. It
    /// remains planned until it is begun.
    fn next_run(&self) -> Option<Run> {
        let Some(Piece::Slice(planned)) = self.planned.front() else { return None };
        Some(planned.first_run(self.window.min(RUN_BYTES_MAX)))
    }

    /// Begins the next piece of the range if it is a hole, which reads as zeros. Returns false if
    /// it is none.
    fn begin_hole(&mut self) -> bool {
        let Some(Piece::Hole(length)) = self.planned.front() else { return false };
        self.in_flight.push_back(InFlight::Hole(*length));
        self.planned.pop_front();
        true
    }

    /// Begins the run (part of a block) that the reader needs next. Waits for memory.
    async fn begin_in_turn(&mut self, run: Run) -> Result<(), ContentError> {
        let (reading, timeout) = (Arc::clone(&self.reading), self.memory_timeout());
        let spare = self.spare.take();
        if let Some((run, arrival)) = self.arrival() {
            let permit = match spare {
                Some(permit) => permit,
                None => reading.budget.acquire(ARRIVAL_MEMORY_BYTES, timeout).await?,
            };
            self.push(run, RunState::Unrequested(Box::new(Arriving::new(run, arrival, permit))));
        } else {
            // This run takes a permit of another size. A reader must not hold one permit while it
            // waits for another.
            drop(spare);
            let permit = reading.budget.acquire(run.sealed_bytes(), timeout).await?;
            self.begin(run, permit);
        }
        Ok(())
    }

    /// Returns the time that the reader waits for the memory of its next run.
    fn memory_timeout(&self) -> Duration {
        let Deadlines { budget, block } = self.reading.deadlines;
        if self.started { block } else { budget }
    }

    /// Begins as many runs (parts of blocks) ahead of the reader as the read-ahead window and the
    /// free memory permit.
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
                // The read-ahead must not wait for memory: the reader would wait with it.
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

    /// Returns true if a run is passed on as it arrives and needs nothing read ahead of it. The
    /// buffers of its connection hold the next bytes, and at most one connection waits for the
    /// reader at a time.
    fn has_pending_arrival(&self) -> bool {
        let asked = |flight: &InFlight| matches!(flight, InFlight::Run(_, RunState::Requested(_)));
        self.arriving.as_ref().is_some_and(|arriving| !arriving.is_near_its_end())
            || self.in_flight.iter().any(asked)
    }

    /// Returns the next run (part of a block) if it can be passed on as it arrives.
    fn arrival(&self) -> Option<(Run, Arrival)> {
        let Some(Piece::Slice(planned)) = self.planned.front() else { return None };
        let arrival = self.reading.reader.arrival(planned.block(), planned.range())?;
        Some((planned.beginning(arrival.left()), arrival))
    }

    /// Takes a run (part of a block) from memory. Returns false if not all of it is there.
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

/// Reads a run (part of a block), verified. Its frames hold the permit for their memory until the
/// last of them is dropped.
async fn fetch(reading: &Reading, run: Run, permit: Permit) -> Result<FetchedRun, ContentError> {
    reading.traffic.gets.add(1);
    let reads = reading.reader.read(run.block, run.range());
    match tokio::time::timeout(reading.deadlines.block, reads).await {
        Ok(Ok(pieces)) => {
            reading.traffic.got_bytes.add(u64::from(run.length));
            let checksum = run.is_part_of_whole().then(|| sealed::content_checksum(&pieces));
            // The frames share the permit, because the client may hold them longer than the stream
            // exists.
            let permit = Arc::new(permit);
            let account =
                |bytes| Bytes::from_owner(PermittedBytes { bytes, _permit: Arc::clone(&permit) });
            Ok(FetchedRun { frames: pieces.into_iter().map(account).collect(), checksum })
        }
        Ok(Err(error)) => Err(error.into()),
        Err(late) => {
            Err(ContentError::Unavailable(format!("reading block {}: {late}", run.block.id)))
        }
    }
}

/// A decrypted frame, and the encrypted one, which may hold the permit of its run.
struct Decrypted(Bytes, #[expect(dead_code, reason = "it holds a permit")] Bytes);

impl AsRef<[u8]> for Decrypted {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// A frame that holds the permit of its run. The memory is given back when the last such frame is
/// dropped.
struct PermittedBytes {
    bytes: Bytes,
    _permit: Arc<Permit>,
}

impl AsRef<[u8]> for PermittedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
