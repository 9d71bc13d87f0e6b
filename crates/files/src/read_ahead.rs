//! Reading on from where a program reads.
//!
//! Who reads a file from one place on asks for one piece after the other, and the program's machine
//! asks for a few ahead of it, in about this order. A handle that was read like that takes its pieces
//! from one *stream* of the file's content, which has the next ones fetched meanwhile. Everybody else
//! is given what was asked for, and no more is fetched for it.
//!
//! - A stream is of one data version, and nothing lies over that: who finds the file otherwise gives
//!   it up.
//! - It reaches a few times as far as was read in a row, so that who stops soon has cost little.
//! - It ends where it reaches to, when nobody has read for a while, when somebody waits for memory,
//!   and with its handle.
//! - A piece that it cannot give is read by itself. So is one whose stream has failed: that is for
//!   whoever reads by itself to say.

mod pattern;

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use content::Permit;
use futures::StreamExt;
use record::Content;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tracing::debug;
use volume::{ContentStream, FoundNode, ReaderGuard, Volume, VolumeError};

use self::pattern::Pattern;

/// Streams at a time. Who finds no place reads by itself.
pub(crate) const STREAMS_MAX: usize = 16;

/// For how long nobody may read from a stream, at least.
pub(crate) const STREAM_IDLE: Duration = Duration::from_secs(4);

/// Bytes that a stream keeps of what it has passed over: requests come a little out of order.
const SKIPPED_BYTES_MAX: u64 = 2 << 20;

/// How many times as far a stream reaches as was read in a row, and within which limits, in bytes.
const REACH_TIMES: u64 = 4;
const REACH_BYTES_MIN: u64 = 256 << 10;
const REACH_BYTES_MAX: u64 = 256 << 20;

/// How one handle is read, and its stream if it has one.
#[derive(Debug, Default)]
pub(crate) struct ReadAhead {
    pattern: Mutex<Pattern>,
    stream: tokio::sync::Mutex<Option<Stream>>,
}

/// A version of a file on its way to whoever reads it.
#[derive(Debug)]
struct Stream {
    version: u64,
    content: ContentStream,
    /// What comes next, and where it ends.
    remaining: Range<u64>,
    /// What was passed over and not asked for yet, in order.
    skipped: Vec<(u64, Bytes)>,
    used: Instant,
    _slot: OwnedSemaphorePermit,
    _memory: Permit,
}

impl ReadAhead {
    fn pattern(&self) -> MutexGuard<'_, Pattern> {
        self.pattern.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of a read. If it is one of several in a row: how many bytes these have.
    pub(crate) fn note(&self, range: &Range<u64>) -> Option<u64> {
        self.pattern().note(range)
    }

    /// Takes a range of a file, over which nothing lies, from a stream, when so many bytes were read in
    /// a row. `None` if it is to be read by itself. `reading` began before the node was known to be what
    /// the file is.
    pub(crate) async fn take(
        &self,
        (volume, slots): (&Volume, &Arc<Semaphore>),
        (node, reading): (&FoundNode, &ReaderGuard),
        range: Range<u64>,
        run_bytes: u64,
    ) -> Option<Vec<Bytes>> {
        let file = node.inode.file()?;
        if matches!(file.content, Content::Inline(_)) {
            return None;
        }
        let mut slot = self.stream.lock().await;
        let mut taken = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let continues =
                |stream: &Stream| stream.version == file.data_version && stream.is_near(at);
            if !slot.as_ref().is_some_and(continues) {
                // It gives its place to the next one.
                *slot = None;
                // What ends a file has nothing behind it.
                if range.end < file.size {
                    let reach = run_bytes.saturating_mul(REACH_TIMES);
                    let reach = reach.clamp(REACH_BYTES_MIN, REACH_BYTES_MAX);
                    let end = at.saturating_add(reach).min(file.size);
                    *slot = Stream::begin(volume, slots, node, reading, at..end);
                }
            }
            let Some(stream) = slot.as_mut() else { break };
            let part = at..range.end.min(stream.remaining.end);
            at = part.end;
            match stream.take(part).await {
                Ok(Some(pieces)) => taken.extend(pieces),
                Ok(None) => return None,
                Err(error) => {
                    debug!(%error, ino = node.ino.0, "what was read ahead is read once more");
                    *slot = None;
                    break;
                }
            }
            slot.take_if(|stream| stream.is_finished());
        }
        self.pattern().reach = slot.as_ref().map(Stream::reach).unwrap_or_default();
        let length: usize = taken.iter().map(Bytes::len).sum();
        (length as u64 == range.end - range.start).then_some(taken)
    }

    /// Ends the stream, if there is one, and if nobody is about to take something from it.
    pub(crate) fn end(&self) {
        if let Ok(mut stream) = self.stream.try_lock() {
            *stream = None;
        }
    }

    /// Ends the stream if nobody has read from it for so long.
    pub(crate) fn end_idle(&self, idle: Duration) {
        if let Ok(mut stream) = self.stream.try_lock() {
            stream.take_if(|stream| stream.used.elapsed() >= idle);
        }
    }
}

impl Stream {
    /// A stream of this range, if there is a place and memory for it.
    fn begin(
        volume: &Volume,
        slots: &Arc<Semaphore>,
        node: &FoundNode,
        reading: &ReaderGuard,
        range: Range<u64>,
    ) -> Option<Stream> {
        let place = Arc::clone(slots).try_acquire_owned().ok()?;
        let memory = volume.try_reader_memory(SKIPPED_BYTES_MAX)?;
        Some(Stream {
            version: node.inode.file()?.data_version,
            content: volume.read_node_with_hold(node, reading.clone(), range.clone()),
            remaining: range,
            skipped: Vec::new(),
            used: Instant::now(),
            _slot: place,
            _memory: memory,
        })
    }

    /// Between where positions lie that it has, or will have soon.
    fn reach(&self) -> Range<u64> {
        let first = self.skipped.first().map_or(self.remaining.start, |(position, _)| *position);
        first..self.remaining.start.saturating_add(SKIPPED_BYTES_MAX).min(self.remaining.end)
    }

    /// Whether a position is where it is read now, be it behind that.
    fn is_near(&self, position: u64) -> bool {
        let first = self.reach().start.saturating_sub(SKIPPED_BYTES_MAX);
        (first..self.reach().end).contains(&position)
    }

    /// Whether all of it was taken.
    fn is_finished(&self) -> bool {
        self.remaining.is_empty() && self.skipped.is_empty()
    }

    /// A range that ends where the stream does at most; `None` if some of it was taken before.
    async fn take(&mut self, range: Range<u64>) -> Result<Option<Vec<Bytes>>, VolumeError> {
        self.used = Instant::now();
        while self.remaining.start < range.end {
            let next = self.content.next().await;
            let short = || VolumeError::Corrupt("a file ends before its size".to_owned());
            let bytes = next.ok_or_else(short)??;
            let at = self.remaining.start;
            self.remaining.start += bytes.len() as u64;
            self.skipped.push((at, bytes));
        }
        let taken = extract_range(&mut self.skipped, &range);
        let mut skipped: u64 = self.skipped.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        self.skipped.retain(|(_, bytes)| {
            let is_much = skipped > SKIPPED_BYTES_MAX;
            skipped -= if is_much { bytes.len() as u64 } else { 0 };
            !is_much
        });
        let length: usize = taken.iter().map(Bytes::len).sum();
        Ok((length as u64 == range.end - range.start).then_some(taken))
    }
}

/// Takes a range out of pieces that stand in order.
fn extract_range(pieces: &mut Vec<(u64, Bytes)>, range: &Range<u64>) -> Vec<Bytes> {
    let mut taken = Vec::new();
    for (position, mut bytes) in std::mem::take(pieces) {
        let place = |at: u64| {
            let at = at.saturating_sub(position).min(bytes.len() as u64);
            usize::try_from(at).unwrap_or(usize::MAX)
        };
        let (start, end) = (place(range.start), place(range.end));
        let behind = bytes.split_off(end);
        let within = bytes.split_off(start);
        let at_end = position + end as u64;
        pieces.extend(
            [(position, bytes), (at_end, behind)].into_iter().filter(|it| !it.1.is_empty()),
        );
        if !within.is_empty() {
            taken.push(within);
        }
    }
    taken
}

#[cfg(test)]
mod tests;
