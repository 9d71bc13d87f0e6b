//! Selects the blocks of a file out of which bytes are to be moved.
//!
//! For example, of a block of 8 MiB the file shows 1 MiB, and no other file shares the block: it is
//! selected. If another file shows 7 MiB of it, it is not.

use std::collections::{BTreeMap, BTreeSet};

use record::{BlockId, Content, File, Ino, Inode, MapPage, PAGE_SLICES_MAX, PageRef, Slice, key};
use session::scan::{ino_of, slices_of};
use session::{VolumeError, corrupt, counter, entries};
use store::Read;

use super::protect::protection;
use crate::relocation_queue::is_sparse;
use crate::upkeep::Upkeep;

/// Pages of a content map that one round trip reads and one swap covers.
pub(super) const PAGES_AT_ONCE: usize = 16;

/// The most blocks of one file whose visible bytes are counted at a time.
const BLOCKS_MAX: usize = 65_536;

/// If the blocks of a file take up more than this percentage of their visible bytes, the steps are
/// not throttled, because soon they would take up more than twice as much.
const URGENT_PERCENT: u64 = 150;

/// A page with more joints than this between adjacent slices is crowded, if its slices are short. A
/// joint is a place where one slice ends and the next one begins.
const PAGE_JOINTS_MAX: usize = 128;

/// The slices of a page are short if their average length is below this, in bytes.
const RUN_BYTES_SHORT: u64 = 32 << 10;

/// Slices that are longer than this are not moved when short runs are joined.
const JOINED_BYTES_MAX: u32 = 256 << 10;

/// With more pages than this, short runs are joined even if the file is written to, because the
/// record that lists the pages must not grow without limit.
const PAGES_MANY: usize = 1_024;

/// Shared blocks about which one round trip asks.
const BLOCKS_AT_ONCE: usize = 256;

/// The most owners of a shared block whose records are read. A block with more owners stays as it
/// is.
const OWNERS_MAX: u32 = 8;

/// The selection of those blocks of a file out of which its visible bytes are to be moved.
#[derive(Debug)]
pub(super) struct FileSelection {
    /// The number of parts into which the file's blocks are divided, at least 1. The visible bytes
    /// of one part are counted at a time, to limit the memory.
    pub(super) parts: u64,
    /// The blocks from which the file's visible bytes are to be moved.
    chosen: BTreeSet<BlockId>,
    /// Blocks that cannot be read.
    unreadable: BTreeSet<BlockId>,
    /// True if the file has pages of the content map that are full of short runs.
    pub(super) is_crowded: bool,
    /// True if short runs (pieces of the file in blocks) are to be copied together.
    pub(super) joins: bool,
    /// True if the file's blocks take up much more than their visible bytes.
    pub(super) is_urgent: bool,
}

/// The visible bytes of a block in a file.
#[derive(Clone, Copy, Debug, Default)]
struct VisibleBytes {
    bytes: u64,
    length: u32,
}

impl FileSelection {
    /// Selects these blocks, however much of them the file shows.
    pub(super) fn of(chosen: BTreeSet<BlockId>) -> FileSelection {
        FileSelection {
            parts: 1,
            chosen,
            unreadable: BTreeSet::new(),
            is_crowded: false,
            joins: false,
            is_urgent: true,
        }
    }

    /// Returns true if a selected block cannot be read.
    pub(super) fn has_unreadable(&self) -> bool {
        !self.unreadable.is_empty()
    }

    /// Returns true if no bytes of the file are to be moved.
    pub(super) fn is_done(&self) -> bool {
        self.chosen.is_empty() && !(self.joins && self.is_crowded)
    }

    /// Excludes a block that cannot be read from the selection.
    pub(super) fn exclude_unreadable(&mut self, block: BlockId) {
        self.chosen.remove(&block);
        self.unreadable.insert(block);
    }

    /// Returns those slices of a page of the content map, or of the record, whose bytes are to be
    /// moved.
    pub(super) fn movers<'a>(&'a self, slices: &'a [Slice]) -> impl Iterator<Item = &'a Slice> {
        let joins = self.joins && is_crowded(slices);
        slices.iter().filter(move |slice| {
            let short = joins && slice.length <= JOINED_BYTES_MAX;
            self.chosen.contains(&slice.block) || short && !self.unreadable.contains(&slice.block)
        })
    }
}

/// Returns true if the slices are mostly short, with many that are adjacent in the file.
fn is_crowded(slices: &[Slice]) -> bool {
    let joint = |pair: &&[Slice]| matches!(pair, [one, next] if one.end() == next.position);
    let bytes: u64 = slices.iter().map(|slice| u64::from(slice.length)).sum();
    bytes < RUN_BYTES_SHORT * slices.len() as u64
        && slices.windows(2).filter(joint).count() > PAGE_JOINTS_MAX
}

/// Returns the part in which the visible bytes of a block are counted, of `parts`.
fn part_of(block: BlockId, parts: u64) -> u64 {
    block.0.last_chunk().map_or(0, |last| u64::from_be_bytes(*last) % parts)
}

impl Upkeep {
    /// Selects those blocks of one part of the file's blocks out of which bytes are to be moved.
    /// `joins` is true if short runs are to be copied together. Returns `None` if the file has no
    /// blocks, is gone or has lost its name.
    pub(super) async fn select_blocks(
        &self,
        ino: Ino,
        part: u64,
        joins: bool,
    ) -> Result<Option<FileSelection>, VolumeError> {
        // The pin keeps pages from being deleted while they are read.
        let _reading = self.session.reading();
        let Some(file) = self.file_now(ino).await? else { return Ok(None) };
        if protection(file.encryption.as_ref(), false).is_none() {
            return Ok(None);
        }
        let content = file.content;
        let (mut visible, mut crowded) = (BTreeMap::new(), false);
        let (parts, pages) = match &content {
            Content::Inline(_) => return Ok(None),
            Content::Slices(slices) => {
                count(&mut visible, slices, |_| true);
                (1, 0)
            }
            Content::Pages(pages) => {
                let parts = (pages.len() * PAGE_SLICES_MAX).div_ceil(BLOCKS_MAX).max(1) as u64;
                for pages in pages.chunks(PAGES_AT_ONCE) {
                    for slices in self.load_pages(ino, pages).await? {
                        count(&mut visible, &slices, |block| part_of(block, parts) == part);
                        crowded |= is_crowded(&slices);
                    }
                }
                (parts, pages.len())
            }
        };
        let sum = |each: fn(&VisibleBytes) -> u64| visible.values().map(each).sum::<u64>();
        let (bytes, stored) = (sum(|it| it.bytes), sum(|it| u64::from(it.length)));
        let sparse = visible.iter().filter(|(_, it)| is_sparse(it.bytes, it.length));
        // Only blocks that are sparse in this file can be sparse in all files, so the shares of the
        // others are not read.
        let sparse: Vec<(BlockId, VisibleBytes)> =
            sparse.map(|(block, it)| (*block, *it)).collect();
        let mut chosen = BTreeSet::new();
        for sparse in sparse.chunks(BLOCKS_AT_ONCE.min(self.session.limits().reads / 2).max(1)) {
            chosen.extend(self.choose(ino, sparse, pages > 0).await?);
        }
        Ok(Some(FileSelection {
            parts,
            chosen,
            unreadable: BTreeSet::new(),
            // All pages are read for each part, so the first part is enough to find crowded ones.
            is_crowded: crowded && part == 0,
            joins: joins || pages > PAGES_MANY,
            is_urgent: stored * 100 > bytes * URGENT_PERCENT,
        }))
    }

    /// Returns those of a file's sparse blocks (less than half is visible in the file) of which so
    /// little is visible in all files together that the file should release them.
    async fn choose(
        &self,
        ino: Ino,
        sparse: &[(BlockId, VisibleBytes)],
        is_paged: bool,
    ) -> Result<Vec<BlockId>, VolumeError> {
        let questions = |(block, _): &(BlockId, VisibleBytes)| {
            let (start, end) = key::shares(*block);
            let shares = Read::Range { start, end, limit: OWNERS_MAX + 1, follow: None };
            [shares, Read::Counter(key::live(*block))]
        };
        let reads: Vec<Read> = sparse.iter().flat_map(questions).collect();
        let mut found = self.session.store().read(&reads).await?.into_iter();
        let mut chosen = Vec::new();
        for (block, visible) in sparse {
            let (shares, live) = (entries(found.next()), counter(found.next().as_ref()));
            let goes = if block.is_pack() {
                // If all owners have their maps in their records, the policy for packs moves them.
                is_paged && is_sparse(live.unsigned_abs(), visible.length)
            // Without shares this file is the only owner, and the block is sparse in it.
            } else if shares.is_empty() {
                true
            } else if shares.len() > OWNERS_MAX as usize {
                false
            } else {
                let owners = shares.iter().map(|share| ino_of(&share.key));
                let mut owners = owners.collect::<Result<Vec<Ino>, _>>()?;
                owners.retain(|owner| *owner != ino);
                self.is_sparse_in_all(*block, *visible, &owners).await?
            };
            if goes {
                chosen.push(*block);
            }
        }
        Ok(chosen)
    }

    /// Returns true if less than half of a shared block is visible in all its owners together.
    /// Content maps in pages of other owners are not read: each is assumed to show as much as this
    /// one. So the owner that shows the least releases the block first, and if all show little, all
    /// release it.
    async fn is_sparse_in_all(
        &self,
        block: BlockId,
        visible: VisibleBytes,
        others: &[Ino],
    ) -> Result<bool, VolumeError> {
        let (mut bytes, mut unknown) = (visible.bytes, 0);
        let records = self.read_all(others.iter().map(|ino| key::inode(*ino))).await?;
        for (other, record) in others.iter().zip(records) {
            // A part of an upload has no record, and neither has a file that is being reaped.
            let Some(record) = record else {
                unknown += 1;
                continue;
            };
            let at = key::inode(*other);
            let inode = Inode::decode(&at, &record).map_err(|error| corrupt(&at, &error))?;
            if inode.file().is_some_and(|file| matches!(file.content, Content::Pages(_))) {
                unknown += 1;
            }
            let named = slices_of(&inode).iter().filter(|slice| slice.block == block);
            bytes += named.map(|slice| u64::from(slice.length)).sum::<u64>();
        }
        Ok(is_sparse(bytes + unknown * visible.bytes, visible.length))
    }

    /// Reads the slices of pages of a file's content map in one round trip.
    pub(super) async fn load_pages(
        &self,
        ino: Ino,
        pages: &[PageRef],
    ) -> Result<Vec<Vec<Slice>>, VolumeError> {
        let keys: Vec<_> = pages.iter().map(|page| key::map_page(ino, page.page)).collect();
        let records = self.read_all(keys.iter().cloned()).await?;
        let decoded = keys.iter().zip(records).map(|(key, record)| {
            let missing = || VolumeError::Corrupt(format!("the record {key:?} is missing"));
            let page = MapPage::decode(key, &record.ok_or_else(missing)?);
            page.map(|page| page.0).map_err(|error| corrupt(key, &error))
        });
        decoded.collect()
    }

    /// Returns the present content of a file. Returns `None` if the file is gone, or has lost its
    /// name, because then the reaper releases all its blocks. A caller that has pinned the epoch
    /// before, so that no block is deleted, can read these blocks safely.
    pub(super) async fn file_now(&self, ino: Ino) -> Result<Option<File>, VolumeError> {
        let records = self.read_all([key::inode(ino), key::orphan(ino)].into_iter()).await?;
        let [Some(record), None] = records.as_slice() else { return Ok(None) };
        let at = key::inode(ino);
        let inode = Inode::decode(&at, record).map_err(|error| corrupt(&at, &error))?;
        Ok(inode.file().cloned())
    }
}

fn count(
    visible: &mut BTreeMap<BlockId, VisibleBytes>,
    slices: &[Slice],
    counts: impl Fn(BlockId) -> bool,
) {
    for slice in slices.iter().filter(|slice| counts(slice.block)) {
        let visible = visible.entry(slice.block).or_default();
        visible.bytes += u64::from(slice.length);
        visible.length = slice.block_length;
    }
}
