//! Finding data and holes in an open file.
//!
//! A file is made of the same layers here as for a read: what was written is data, what was cut off
//! and is there again is a hole, and of what neither hides the volume says what it is. A hole that
//! is told of reads as zeros. Zeros that were written may be told of as data.

use std::ops::Range;

use rustix::io::Errno;
use volume::SeekTarget;

use crate::files::Files;
use crate::open::{FileState, HandleId};

/// What a range of an open file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RangeKind {
    Data,
    Hole,
    /// What the file as found has there.
    Found,
}

/// Ranges, as far as it is known what they are.
#[derive(Debug)]
struct RangeKinds {
    known: Vec<(Range<u64>, RangeKind)>,
    /// What is still to be found out.
    gaps: Vec<Range<u64>>,
}

impl RangeKinds {
    /// What a layer holds of a range is data, and what lies below is a hole where it was cut.
    fn add_layer<P: Iterator<Item = Range<u64>>>(
        &mut self,
        held: impl Fn(Range<u64>) -> P,
        cut: Option<u64>,
    ) {
        let mut left = Vec::new();
        for gap in std::mem::take(&mut self.gaps) {
            let mut at = gap.start;
            for piece in held(gap.clone()) {
                left.push(at..piece.start);
                at = piece.end;
                self.known.push((piece, RangeKind::Data));
            }
            left.push(at..gap.end);
        }
        for gap in left {
            let shows = gap.end.min(cut.unwrap_or(u64::MAX)).max(gap.start);
            self.gaps.push(gap.start..shows);
            self.known.push((shows..gap.end, RangeKind::Hole));
        }
        self.gaps.retain(|gap| !gap.is_empty());
    }

    /// The ranges, in order.
    fn in_order(mut self) -> Vec<(Range<u64>, RangeKind)> {
        self.known.extend(self.gaps.into_iter().map(|gap| (gap, RangeKind::Found)));
        self.known.retain(|(range, _)| !range.is_empty());
        self.known.sort_unstable_by_key(|(range, _)| range.start);
        self.known
    }
}

impl FileState {
    /// What the file is in a range.
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
    /// The first position from `offset` on at which there is data, or a hole: the end of the file
    /// is one.
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
                (RangeKind::Found, _) => {
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
