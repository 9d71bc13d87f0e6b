//! `SEEK_DATA` and `SEEK_HOLE` in open files.
//!
//! The layers are those of a read. A range that a dirty or flushing layer has is data. A range that
//! was truncated and then extended is a hole. For other ranges the volume decides. A reported hole
//! always reads as zeros; zeros that were written may be reported as data.

use std::ops::Range;

use rustix::io::Errno;
use volume::SeekTarget;

use crate::files::Files;
use crate::open::{FileState, HandleId};

/// The kind of a range of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RangeKind {
    /// Bytes that were written.
    Data,
    /// Not written; reads as zeros.
    Hole,
    /// Part of the committed content: the volume must be asked if it is data or a hole.
    Committed,
}

/// The ranges of an open file that are known to be data or holes, and the rest.
#[derive(Debug)]
struct RangeKinds {
    known: Vec<(Range<u64>, RangeKind)>,
    /// The ranges for which no layer of the open file has decided yet.
    gaps: Vec<Range<u64>>,
}

impl RangeKinds {
    /// Marks the ranges that the next lower layer of an open file has as data. `held` returns these
    /// within a range. The rest from position `cut` on is a hole, because the file was truncated
    /// there.
    fn add_layer<P: Iterator<Item = Range<u64>>>(
        &mut self,
        held: impl Fn(Range<u64>) -> P,
        cut: Option<u64>,
    ) {
        let mut remaining = Vec::new();
        for gap in std::mem::take(&mut self.gaps) {
            let mut at = gap.start;
            for piece in held(gap.clone()) {
                remaining.push(at..piece.start);
                at = piece.end;
                self.known.push((piece, RangeKind::Data));
            }
            remaining.push(at..gap.end);
        }
        for gap in remaining {
            let visible = gap.end.min(cut.unwrap_or(u64::MAX)).max(gap.start);
            self.gaps.push(gap.start..visible);
            self.known.push((visible..gap.end, RangeKind::Hole));
        }
        self.gaps.retain(|gap| !gap.is_empty());
    }

    /// Returns all ranges in ascending order. Those that no layer in memory has decided are part of
    /// the committed content.
    fn in_order(mut self) -> Vec<(Range<u64>, RangeKind)> {
        self.known.extend(self.gaps.into_iter().map(|gap| (gap, RangeKind::Committed)));
        self.known.retain(|(range, _)| !range.is_empty());
        self.known.sort_unstable_by_key(|(range, _)| range.start);
        self.known
    }
}

impl FileState {
    /// Returns the parts of `range`, each with its kind: data, a hole, or part of the committed
    /// content.
    fn kinds(&self, range: Range<u64>) -> Vec<(Range<u64>, RangeKind)> {
        let mut kinds = RangeKinds { known: Vec::new(), gaps: std::iter::once(range).collect() };
        let dirty = |range| {
            self.dirty.pieces(range).map(|(at, bytes): (u64, &[u8])| at..at + bytes.len() as u64)
        };
        kinds.add_layer(dirty, self.cut);
        if let Some(flushing) = &self.flushing {
            let held = |range| {
                flushing.extents.pieces(range).map(|(at, bytes)| at..at + bytes.len() as u64)
            };
            kinds.add_layer(held, flushing.cut);
        }
        kinds.add_layer(|_| std::iter::empty(), Some(self.found_size()));
        kinds.in_order()
    }
}

impl Files {
    /// Returns the first position from `offset` on where there is data, or a hole. The end of the
    /// file counts as a hole.
    ///
    /// # Errors
    /// `ENXIO` if there is no such position within the file.
    pub async fn seek(
        &self,
        handle: HandleId,
        offset: u64,
        sought: SeekTarget,
    ) -> Result<u64, Errno> {
        let handle = self.open.handle(handle)?;
        let (node, kinds, size) = {
            let state = handle.file.state.lock().await;
            if offset >= state.size {
                return Err(Errno::NXIO);
            }
            (state.node.clone(), state.kinds(offset..state.size), state.size)
        };
        for (range, kind) in kinds {
            let found = match (kind, sought) {
                (RangeKind::Data, SeekTarget::Data) | (RangeKind::Hole, SeekTarget::Hole) => {
                    Some(range.start)
                }
                (RangeKind::Data, SeekTarget::Hole) | (RangeKind::Hole, SeekTarget::Data) => None,
                (RangeKind::Committed, _) => {
                    let seek = || self.volume.seek_node(&node, range.clone(), sought);
                    self.retry_until_deadline(seek).await?
                }
            };
            if let Some(found) = found {
                return Ok(found);
            }
        }
        match sought {
            SeekTarget::Data => Err(Errno::NXIO),
            SeekTarget::Hole => Ok(size),
        }
    }
}
