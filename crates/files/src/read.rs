//! Reads of open files.
//!
//! An open file is a stack of layers: dirty extents, extents that are being flushed, and the
//! committed content; see `open`. A read goes from the top layer to the bottom one, and each layer
//! fills some of the remaining gaps. For example, a read of 0..100 with dirty bytes at 40..60 takes
//! these from memory and 0..40 and 60..100 from the volume.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use futures::StreamExt;
use rustix::io::Errno;
use volume::{FoundNode, ReaderGuard, VolumeError};

use crate::files::Files;
use crate::open::{FileState, Handle, HandleId};
use crate::read_ahead::ReadAhead;
use crate::zeros::zeros;

/// The bytes of a read that were found so far, and the gaps: the parts of the range for which no
/// layer of the open file had bytes yet.
#[derive(Debug, Default)]
struct Assembled {
    found: Vec<(u64, Bytes)>,
    /// The ranges for which no layer of the open file has had bytes yet, in ascending order.
    gaps: Vec<Range<u64>>,
}

impl Assembled {
    fn new(range: Range<u64>) -> Assembled {
        Assembled { found: Vec::new(), gaps: std::iter::once(range).collect() }
    }

    /// Fills gaps from the next lower layer of an open file. `pieces` returns the bytes that the
    /// layer has in a range. From position `cut` on, the layers below are not visible because the
    /// file was truncated there: zeros fill the gaps.
    fn add_layer<P: Iterator<Item = (u64, Bytes)>>(
        &mut self,
        pieces: impl Fn(Range<u64>) -> P,
        cut: Option<u64>,
    ) {
        let mut remaining = Vec::new();
        for gap in std::mem::take(&mut self.gaps) {
            let mut at = gap.start;
            for (position, bytes) in pieces(gap.clone()) {
                if position > at {
                    remaining.push(at..position);
                }
                at = position + bytes.len() as u64;
                self.found.push((position, bytes));
            }
            if at < gap.end {
                remaining.push(at..gap.end);
            }
        }
        for gap in remaining {
            let visible = gap.end.min(cut.unwrap_or(u64::MAX)).max(gap.start);
            self.found.extend(zeros(visible..gap.end));
            if gap.start < visible {
                self.gaps.push(gap.start..visible);
            }
        }
    }

    /// Returns the found bytes in the order of their positions.
    fn into_bytes(mut self) -> Vec<Bytes> {
        self.found.sort_unstable_by_key(|(position, _)| *position);
        self.found.into_iter().map(|(_, bytes)| bytes).collect()
    }
}

impl FileState {
    /// Assembles a range of the file from the dirty data and the data that a flush is committing.
    /// The gaps that remain must be read from the committed content.
    fn assemble(&self, range: Range<u64>) -> Assembled {
        let mut assembled = Assembled::new(range);
        let copied = |(at, bytes): (u64, &[u8])| (at, Bytes::copy_from_slice(bytes));
        assembled.add_layer(|range| self.dirty.pieces(range).map(copied), self.cut);
        if let Some(flushing) = &self.flushing {
            assembled.add_layer(|range| flushing.extents.pieces(range), flushing.cut);
        }
        assembled.add_layer(|_| std::iter::empty(), Some(self.found_size()));
        assembled
    }
}

impl Files {
    /// Returns the bytes of an open file from `position`, at most `length`. Fewer are returned only
    /// at the end of the file.
    pub async fn read(
        &self,
        handle: HandleId,
        position: u64,
        length: u64,
    ) -> Result<Vec<Bytes>, Errno> {
        let handle = self.open.handle(handle)?;
        let file = &handle.file;
        // The kernel has not asked for attributes before this read, so other sessions' commits may
        // be unknown here.
        if handle.uncached.load(Ordering::Relaxed) {
            self.refresh_open(file).await?;
        }
        let read =
            async || self.retry_until_deadline(|| self.read_once(&handle, position, length)).await;
        let first = read().await;
        let Err(error) = first else { return first };
        // The known version may have been replaced by another client, and its blocks deleted. If
        // there is a newer version, read that one.
        let node = self.retry_until_deadline(|| self.volume.find_node(file.ino)).await;
        let is_new = match node {
            Ok(node) => file.state.lock().await.rebase(&node),
            Err(_) => false,
        };
        if !is_new {
            return Err(error);
        }
        read().await
    }

    /// Reads from the version of the file that this mount knows, with its dirty data.
    async fn read_once(
        &self,
        handle: &Handle,
        position: u64,
        length: u64,
    ) -> Result<Vec<Bytes>, VolumeError> {
        let Handle { file, ahead, no_atime, .. } = handle;
        // Pins the epoch: blocks of the version that is read below are not deleted while this
        // lives.
        let reading = self.volume.reading();
        let (node, mut assembled) = {
            let state = file.state.lock().await;
            let end = position.saturating_add(length).min(state.size);
            if end <= position {
                return Ok(Vec::new());
            }
            let node = Arc::clone(&state.node);
            if !no_atime.load(Ordering::Relaxed) {
                self.note_read(&node);
            }
            // A clean file is read through read-ahead. Dirty layers would make a stream return old
            // bytes.
            if state.flushing.is_none() && !state.is_dirty() {
                drop(state);
                if let Some(bytes) =
                    self.read_sequential(ahead, &node, &reading, position..end).await
                {
                    return Ok(bytes);
                }
                (node, Assembled::new(position..end))
            } else {
                ahead.end();
                (node, state.assemble(position..end))
            }
        };
        for gap in std::mem::take(&mut assembled.gaps) {
            let mut at = gap.start;
            let mut stream = self.volume.read_node(&node, reading.clone(), gap.clone());
            while let Some(bytes) = stream.next().await {
                let bytes = bytes?;
                let length = bytes.len() as u64;
                assembled.found.push((at, bytes));
                at += length;
            }
            // The content map ended early. Zeros would hide the damage.
            if at != gap.end {
                return Err(VolumeError::Corrupt("a file ends before its size".to_owned()));
            }
        }
        Ok(assembled.into_bytes())
    }

    /// Reads a range of a file without dirty data from the memory cache or from the read-ahead
    /// stream. Returns `None` if the caller must read it from the volume.
    async fn read_sequential(
        &self,
        ahead: &ReadAhead,
        node: &FoundNode,
        reading: &ReaderGuard,
        range: Range<u64>,
    ) -> Option<Vec<Bytes>> {
        let run_bytes = ahead.note(&range);
        if let Some(bytes) = self.volume.read_from_memory(node, range.clone()) {
            return Some(bytes);
        }
        ahead.take((&self.volume, &self.streams), (node, reading), range, run_bytes?).await
    }
}
