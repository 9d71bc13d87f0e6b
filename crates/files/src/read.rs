//! Reading an open file.
//!
//! A file as its users see it is made of layers: what was written last hides what is on its way to
//! the volume, and that hides what was found there. A read goes through them from the top down, and
//! each fills some of the gaps that those above have left.

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

/// The bytes of a range, as far as they are known.
#[derive(Debug, Default)]
struct Assembled {
    found: Vec<(u64, Bytes)>,
    /// What is still to be found, in order.
    gaps: Vec<Range<u64>>,
}

impl Assembled {
    fn new(range: Range<u64>) -> Assembled {
        Assembled { found: Vec::new(), gaps: std::iter::once(range).collect() }
    }

    /// What a layer holds, by `pieces` of a range, and zeros where what lies below was cut.
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
            let shows = gap.end.min(cut.unwrap_or(u64::MAX)).max(gap.start);
            self.found.extend(zeros(shows..gap.end));
            if gap.start < shows {
                self.gaps.push(gap.start..shows);
            }
        }
    }

    /// The bytes, in order.
    fn into_bytes(mut self) -> Vec<Bytes> {
        self.found.sort_unstable_by_key(|(position, _)| *position);
        self.found.into_iter().map(|(_, bytes)| bytes).collect()
    }
}

impl FileState {
    /// What memory holds of a range. The gaps are the volume's, within the file as found.
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
    /// The bytes of an open file from `position` on, at most `length`: fewer at its end alone.
    pub async fn read(
        &self,
        handle: HandleId,
        position: u64,
        length: u64,
    ) -> Result<Vec<Bytes>, Errno> {
        let handle = self.open.handle(handle)?;
        let file = &handle.file;
        if handle.uncached.load(Ordering::Relaxed) {
            self.refresh_open(file).await?;
        }
        let read =
            async || self.retry_until_deadline(|| self.read_once(&handle, position, length)).await;
        let first = read().await;
        let Err(error) = first else { return first };
        // What is known of the file may be what it was before another process wrote to it, and the
        // blocks of that may be gone by now.
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

    /// The bytes of an open file, as far as it is known here.
    async fn read_once(
        &self,
        handle: &Handle,
        position: u64,
        length: u64,
    ) -> Result<Vec<Bytes>, VolumeError> {
        let Handle { file, ahead, no_atime, .. } = handle;
        // What is known from here on is kept until it has been read.
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
            if at != gap.end {
                return Err(VolumeError::Corrupt("a file ends before its size".to_owned()));
            }
        }
        Ok(assembled.into_bytes())
    }

    /// The bytes of a file over which nothing lies, from memory, or from what is read ahead.
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
