//! Read-ahead for sequential readers.
//!
//! A program that reads a file sequentially requests one piece after the other, and the kernel
//! requests a few ahead of it, slightly out of order. After some sequential reads, a handle takes
//! its pieces from a *stream* of the file's content, which fetches the next pieces in the
//! background. Random reads fetch only the requested bytes.
//!
//! - A stream reads one data version, without dirty layers. If the file differs, the handle drops
//!   it.
//! - A stream reaches a few times as far as the sequential run so far, so that a reader which stops
//!   early has cost little. For example, after a run of 1 MiB it fetches up to 4 MiB.
//! - A stream ends at its reach, after some idle time, when other readers wait for memory, and with
//!   its handle.
//! - A piece that the stream cannot provide, or whose stream failed, is read directly. The direct
//!   read reports the error.

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

/// The maximum number of read-ahead streams (background reads of sequentially read files) of a
/// mount. Beyond it, reads are direct.
pub(crate) const STREAMS_MAX: usize = 16;

/// The minimum time without reads after which a read-ahead stream ends.
pub(crate) const STREAM_IDLE: Duration = Duration::from_secs(4);

/// The number of bytes that a read-ahead stream keeps although it has passed them and no request
/// has asked for them, because requests arrive slightly out of order.
const SKIPPED_BYTES_MAX: u64 = 2 << 20;

/// The reach of a read-ahead stream, that is, the length of the range that it fetches: a multiple
/// of the sequential reads so far, within these limits in bytes.
const REACH_FACTOR: u64 = 4;
const REACH_BYTES_MIN: u64 = 256 << 10;
const REACH_BYTES_MAX: u64 = 256 << 20;

/// The read-ahead of one handle: its recent reads, and the stream that fetches the next bytes if it
/// reads sequentially.
#[derive(Debug, Default)]
pub(crate) struct ReadAhead {
    pattern: Mutex<Pattern>,
    stream: tokio::sync::Mutex<Option<Stream>>,
}

/// A stream: a background read of a range of one version of a file, in ascending order.
#[derive(Debug)]
struct Stream {
    /// The data version that the stream reads, a number that grows with each commit of the content.
    version: u64,
    content: ContentStream,
    /// The range that the stream has still to deliver.
    remaining: Range<u64>,
    /// Pieces that the stream has passed and no request has taken yet, in ascending order.
    skipped: Vec<(u64, Bytes)>,
    used: Instant,
    _slot: OwnedSemaphorePermit,
    _memory: Permit,
}

impl ReadAhead {
    fn pattern(&self) -> MutexGuard<'_, Pattern> {
        self.pattern.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a read of a range through this handle. Returns the length of the sequential reads so
    /// far, in bytes, if the read continues a run that is long enough for read-ahead.
    pub(crate) fn note(&self, range: &Range<u64>) -> Option<u64> {
        self.pattern().note(range)
    }

    /// Takes a range of a file without dirty data from the handle's read-ahead stream, and begins a
    /// stream if necessary. `run_bytes` is the length of the sequential reads so far. `slots` has
    /// one permit for each stream that may still begin. Returns `None` if the caller must read the
    /// range directly. `reading` must have begun before `node` was known to be the present version.
    pub(crate) async fn take(
        &self,
        (volume, slots): (&Volume, &Arc<Semaphore>),
        (node, reading): (&FoundNode, &ReaderGuard),
        range: Range<u64>,
        run_bytes: u64,
    ) -> Option<Vec<Bytes>> {
        let file = node.inode.file()?;
        // Inline content is in the record already.
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
                // Free the slot and the memory of the old stream before the next one begins.
                *slot = None;
                // At the end of the file there is nothing to fetch ahead.
                if range.end < file.size {
                    let reach = run_bytes.saturating_mul(REACH_FACTOR);
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
                    debug!(%error, ino = node.ino.0, "a read-ahead stream failed; its range is read again");
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

    /// Ends the read-ahead stream and frees its memory, if there is one and no read is taking from
    /// it.
    pub(crate) fn end(&self) {
        if let Ok(mut stream) = self.stream.try_lock() {
            *stream = None;
        }
    }

    /// Ends the read-ahead stream if the last read from it is at least `idle` ago.
    pub(crate) fn end_idle(&self, idle: Duration) {
        if let Ok(mut stream) = self.stream.try_lock() {
            stream.take_if(|stream| stream.used.elapsed() >= idle);
        }
    }
}

impl Stream {
    /// Begins a read-ahead stream of a range. Returns `None` if the mount has the maximum number of
    /// streams, or if readers need the memory.
    fn begin(
        volume: &Volume,
        slots: &Arc<Semaphore>,
        node: &FoundNode,
        reading: &ReaderGuard,
        range: Range<u64>,
    ) -> Option<Stream> {
        let slot = Arc::clone(slots).try_acquire_owned().ok()?;
        // Read-ahead must not take memory from readers that wait for it.
        let memory = volume.try_reader_memory(SKIPPED_BYTES_MAX)?;
        Some(Stream {
            version: node.inode.file()?.data_version,
            content: volume.read_node_with_hold(node, reading.clone(), range.clone()),
            remaining: range,
            skipped: Vec::new(),
            used: Instant::now(),
            _slot: slot,
            _memory: memory,
        })
    }

    /// Returns the range of file positions whose bytes the stream has, or will soon have.
    fn reach(&self) -> Range<u64> {
        let first = self.skipped.first().map_or(self.remaining.start, |(position, _)| *position);
        first..self.remaining.start.saturating_add(SKIPPED_BYTES_MAX).min(self.remaining.end)
    }

    /// Returns true if a file position is near the one up to which the stream has read, also if it
    /// is a little before it. A read there continues the stream.
    fn is_near(&self, position: u64) -> bool {
        let first = self.reach().start.saturating_sub(SKIPPED_BYTES_MAX);
        (first..self.reach().end).contains(&position)
    }

    /// Returns true if reads have taken the whole range of the stream.
    fn is_finished(&self) -> bool {
        self.remaining.is_empty() && self.skipped.is_empty()
    }

    /// Takes a range from the stream, which ends at the end of the stream at most, and waits for
    /// its bytes. Returns `None` if the stream does not have a part of it any more, because it was
    /// taken or dropped before.
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
        // Drop the oldest skipped pieces: no reader has come back for them.
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

/// Removes a range from pieces of a file that are in ascending order, and returns its bytes. The
/// other bytes of the pieces stay.
fn extract_range(pieces: &mut Vec<(u64, Bytes)>, range: &Range<u64>) -> Vec<Bytes> {
    let mut taken = Vec::new();
    for (position, mut bytes) in std::mem::take(pieces) {
        let place = |at: u64| {
            let at = at.saturating_sub(position).min(bytes.len() as u64);
            usize::try_from(at).unwrap_or(usize::MAX)
        };
        let (start, end) = (place(range.start), place(range.end));
        let after = bytes.split_off(end);
        let within = bytes.split_off(start);
        let at_end = position + end as u64;
        pieces.extend(
            [(position, bytes), (at_end, after)].into_iter().filter(|(_, bytes)| !bytes.is_empty()),
        );
        if !within.is_empty() {
            taken.push(within);
        }
    }
    taken
}

#[cfg(test)]
mod tests;
