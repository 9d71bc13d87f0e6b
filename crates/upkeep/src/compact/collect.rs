//! Collects the runs that go into one new block.
//!
//! For example, of 16 pages with 2,000 slices, 300 are in selected blocks. They are taken in the
//! order of the file until the batch has 8 MiB.

use std::collections::BTreeMap;
use std::ops::Range;

use block::BLOCK_BYTES_MAX;
use namespace::pages_of;
use record::{BlockId, Content, Ino, Slice};
use session::VolumeError;

use super::select::{FileSelection, PAGES_AT_ONCE};
use crate::upkeep::Upkeep;

/// The most bytes that the compactor copies in one step, unless a single run is longer.
const BATCH_BYTES: u32 = 8 << 20;
const _: () = assert!(BATCH_BYTES <= BLOCK_BYTES_MAX);

/// The most packs (blocks of several files) out of which one step moves runs. The plan writes a
/// counter for each.
const PACKS_MAX: usize = 256;

/// Runs of a file (pieces of its content in blocks) that are copied together, in the order of the
/// file.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) taken: Vec<Slice>,
    pub(super) bytes: u32,
    /// The range of the file that contains the runs.
    pub(super) within: Range<u64>,
    /// The position at which the next batch begins; `None` at the end of the content map.
    pub(super) next: Option<u64>,
    /// True if runs were left out because they partly overlap other runs of their block.
    pub(super) has_overlaps: bool,
    packs: usize,
    /// For each block, the start and end of the runs that were taken.
    places: BTreeMap<BlockId, BTreeMap<u32, u32>>,
}

impl Batch {
    fn new(from: u64) -> Batch {
        Batch { within: from..from, ..Batch::default() }
    }

    /// Adds the run `slice` to the batch. Returns false if the batch is full.
    fn take(&mut self, slice: &Slice, bytes_max: u32) -> bool {
        let after = self.bytes.saturating_add(slice.length);
        let another = usize::from(slice.block.is_pack() && !self.places.contains_key(&slice.block));
        if !self.taken.is_empty() && (after > bytes_max || self.packs + another > PACKS_MAX) {
            return false;
        }
        self.packs += another;
        let end = slice.offset.saturating_add(slice.length);
        let places = self.places.entry(slice.block).or_default();
        let before = places.range(..end).next_back();
        match before {
            Some((_, taken)) if *taken > slice.offset => {
                // A block may be referenced twice. A run inside one that was taken already has its
                // copy there.
                self.has_overlaps |=
                    !before.is_some_and(|(&start, &taken)| start <= slice.offset && end <= taken);
            }
            _ => {
                places.insert(slice.offset, end);
                self.taken.push(*slice);
                self.bytes = after;
            }
        }
        self.within.end = slice.end();
        true
    }
}

impl Upkeep {
    /// Collects the runs (pieces of the file in selected blocks) to copy, from position `from` of
    /// the file, as many as one block and a few pages of the content map hold.
    pub(super) async fn collect_runs(
        &self,
        ino: Ino,
        selection: &FileSelection,
        from: u64,
    ) -> Result<Batch, VolumeError> {
        let mut batch = Batch::new(from);
        let mut loaded = Vec::new();
        match self.content_now(ino).await? {
            None | Some(Content::Inline(_)) => return Ok(batch),
            Some(Content::Slices(slices)) => loaded.push(slices),
            Some(Content::Pages(pages)) => {
                let first = pages_of(&pages, from, u64::MAX).start;
                let last = pages.len().min(first + PAGES_AT_ONCE);
                // One swap covers these pages only, so the next batch begins with the page behind
                // them.
                batch.next = pages.get(last).map(|page| page.start);
                loaded = self.load_pages(ino, &pages[first..last]).await?;
            }
        }
        let bytes_max = BATCH_BYTES.min(self.staging.block_bytes).max(1);
        let movers = loaded.iter().flat_map(|slices| selection.movers(slices));
        for slice in movers.filter(|slice| slice.position >= from) {
            if !batch.take(slice, bytes_max) {
                batch.next = Some(slice.position);
                break;
            }
        }
        Ok(batch)
    }
}
