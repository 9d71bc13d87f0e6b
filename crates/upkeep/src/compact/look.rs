//! Which blocks of a file are worth moving out of.

use std::collections::{BTreeMap, BTreeSet};

use record::{BlockId, Content, Ino, Inode, MapPage, PAGE_SLICES_MAX, PageRef, Slice, key};
use session::scan::{ino_of, slices_of};
use session::{VolumeError, corrupt, counter, entries};
use store::Read;

use crate::sparse::is_sparse;
use crate::upkeep::Upkeep;

/// Pages of a content map that one round trip reads, and that one swap covers.
pub(super) const PAGES_AT_ONCE: usize = 16;

/// Blocks of one file whose bytes are counted at a time.
const BLOCKS_MAX: usize = 65_536;

/// A file whose blocks are so many percent of what shows of them is not kept waiting by what else is
/// served: soon they would be more than twice as much.
const URGENT_PERCENT: u64 = 150;

/// A page of a content map with more joints than this between short runs has them joined.
const PAGE_JOINTS_MAX: usize = 128;

/// Bytes below which the runs of a page are short, on average.
const RUN_BYTES_SHORT: u64 = 32 << 10;

/// A run that is longer is left where it is when others are joined.
const JOINED_BYTES_MAX: u32 = 256 << 10;

/// A content map of so many pages has its short runs joined, though its file is written to: the record
/// that lists them must not grow for ever.
const PAGES_MANY: usize = 1_024;

/// Shared blocks that one round trip asks about.
const BLOCKS_AT_ONCE: usize = 256;

/// Owners of a shared block that are asked what they name of it. One that has more stays as it is.
const OWNERS_MAX: u32 = 8;

/// What a look at a file came to.
#[derive(Debug)]
pub(super) struct FileLook {
    /// In how many shares its blocks are looked at.
    pub(super) shares: u64,
    /// The blocks that it is to name no longer.
    chosen: BTreeSet<BlockId>,
    /// Blocks that cannot be read.
    left: BTreeSet<BlockId>,
    /// Whether it has pages of short runs.
    pub(super) is_crowded: bool,
    /// Whether they are joined.
    pub(super) joins: bool,
    /// Whether its blocks are much more than what shows of them.
    pub(super) is_urgent: bool,
}

/// How much of a block shows in a file.
#[derive(Clone, Copy, Debug, Default)]
struct Shown {
    bytes: u64,
    length: u32,
}

impl FileLook {
    /// Whether there is nothing to do.
    pub(super) fn is_done(&self) -> bool {
        self.chosen.is_empty() && !(self.joins && self.is_crowded)
    }

    /// Leaves a block as it is.
    pub(super) fn leave(&mut self, block: BlockId) {
        self.chosen.remove(&block);
        self.left.insert(block);
    }

    /// The slices of a page, or of a record, that are to move.
    pub(super) fn movers<'a>(&'a self, slices: &'a [Slice]) -> impl Iterator<Item = &'a Slice> {
        let joins = self.joins && is_crowded(slices);
        slices.iter().filter(move |slice| {
            let short = joins && slice.length <= JOINED_BYTES_MAX;
            self.chosen.contains(&slice.block) || short && !self.left.contains(&slice.block)
        })
    }
}

/// Whether slices are many short runs of which one lies behind the other in the file.
fn is_crowded(slices: &[Slice]) -> bool {
    let joint = |pair: &&[Slice]| matches!(pair, [one, next] if one.end() == next.position);
    let bytes: u64 = slices.iter().map(|slice| u64::from(slice.length)).sum();
    bytes < RUN_BYTES_SHORT * slices.len() as u64
        && slices.windows(2).filter(joint).count() > PAGE_JOINTS_MAX
}

/// In which share a block is looked at.
fn share_of(block: BlockId, shares: u64) -> u64 {
    block.0.last_chunk().map_or(0, |last| u64::from_be_bytes(*last) % shares)
}

impl Upkeep {
    /// Looks at one share of the blocks of a file; `None` if there is nothing to look at.
    pub(super) async fn look_at_file(
        &self,
        ino: Ino,
        share: u64,
        joins: bool,
    ) -> Result<Option<FileLook>, VolumeError> {
        // No page goes meanwhile.
        let _reading = self.session.reading();
        let Some(content) = self.content_now(ino).await? else { return Ok(None) };
        let (mut shown, mut crowded) = (BTreeMap::new(), false);
        let (shares, pages) = match &content {
            Content::Inline(_) => return Ok(None),
            Content::Slices(slices) => {
                count(&mut shown, slices, |_| true);
                (1, 0)
            }
            Content::Pages(pages) => {
                let shares = (pages.len() * PAGE_SLICES_MAX).div_ceil(BLOCKS_MAX).max(1) as u64;
                for pages in pages.chunks(PAGES_AT_ONCE) {
                    for slices in self.load_pages(ino, pages).await? {
                        count(&mut shown, &slices, |block| share_of(block, shares) == share);
                        crowded |= is_crowded(&slices);
                    }
                }
                (shares, pages.len())
            }
        };
        let sum = |each: fn(&Shown) -> u64| shown.values().map(each).sum::<u64>();
        let (bytes, stored) = (sum(|it| it.bytes), sum(|it| u64::from(it.length)));
        let sparse = shown.iter().filter(|(_, it)| is_sparse(it.bytes, it.length));
        let sparse: Vec<(BlockId, Shown)> = sparse.map(|(block, it)| (*block, *it)).collect();
        let mut chosen = BTreeSet::new();
        for sparse in sparse.chunks(BLOCKS_AT_ONCE.min(self.session.limits().reads / 2).max(1)) {
            chosen.extend(self.choose(ino, sparse, pages > 0).await?);
        }
        Ok(Some(FileLook {
            shares,
            chosen,
            left: BTreeSet::new(),
            // All pages are seen with each share.
            is_crowded: crowded && share == 0,
            joins: joins || pages > PAGES_MANY,
            is_urgent: stored * 100 > bytes * URGENT_PERCENT,
        }))
    }

    /// Those of a file's blocks of which so little shows, in whatever file, that it should let go of them.
    async fn choose(
        &self,
        ino: Ino,
        sparse: &[(BlockId, Shown)],
        is_paged: bool,
    ) -> Result<Vec<BlockId>, VolumeError> {
        let questions = |(block, _): &(BlockId, Shown)| {
            let (start, end) = key::shares(*block);
            let shares = Read::Range { start, end, limit: OWNERS_MAX + 1, follow: None };
            [shares, Read::Counter(key::live(*block))]
        };
        let reads: Vec<Read> = sparse.iter().flat_map(questions).collect();
        let mut found = self.session.store().read(&reads).await?.into_iter();
        let mut chosen = Vec::new();
        for (block, shown) in sparse {
            let (shares, live) = (entries(found.next()), counter(found.next().as_ref()));
            let goes = if block.is_pack() {
                // Where all owners have their maps in their records, the rewriter of packs moves them.
                is_paged && is_sparse(live.unsigned_abs(), shown.length)
            } else if shares.is_empty() {
                true
            } else if shares.len() > OWNERS_MAX as usize {
                false
            } else {
                let owners = shares.iter().map(|share| ino_of(&share.key));
                let mut owners = owners.collect::<Result<Vec<Ino>, _>>()?;
                owners.retain(|owner| *owner != ino);
                self.is_sparse_in_all(*block, *shown, &owners).await?
            };
            if goes {
                chosen.push(*block);
            }
        }
        Ok(chosen)
    }

    /// Whether less than half of a shared block shows in all its owners together. What others with long
    /// content maps name of it is not looked for: each of them may have as much as this one. So the one
    /// with the least goes first, and if all have little, all go.
    async fn is_sparse_in_all(
        &self,
        block: BlockId,
        shown: Shown,
        others: &[Ino],
    ) -> Result<bool, VolumeError> {
        let (mut bytes, mut unknown) = (shown.bytes, 0);
        let records = self.read_all(others.iter().map(|ino| key::inode(*ino))).await?;
        for (other, record) in others.iter().zip(records) {
            // A part of an upload, or one that is going, has none.
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
        Ok(is_sparse(bytes + unknown * shown.bytes, shown.length))
    }

    /// The slices of pages, in one round trip.
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

    /// The content of a file as it is now; `None` if it is gone, or has lost its name and lets go of
    /// everything by itself. Whoever pins the epoch before need not fear that the reaper takes it
    /// meanwhile.
    pub(super) async fn content_now(&self, ino: Ino) -> Result<Option<Content>, VolumeError> {
        let records = self.read_all([key::inode(ino), key::orphan(ino)].into_iter()).await?;
        let [Some(record), None] = records.as_slice() else { return Ok(None) };
        let at = key::inode(ino);
        let inode = Inode::decode(&at, record).map_err(|error| corrupt(&at, &error))?;
        Ok(inode.file().map(|file| file.content.clone()))
    }
}

fn count(shown: &mut BTreeMap<BlockId, Shown>, slices: &[Slice], counts: impl Fn(BlockId) -> bool) {
    for slice in slices.iter().filter(|slice| counts(slice.block)) {
        let shown = shown.entry(slice.block).or_default();
        shown.bytes += u64::from(slice.length);
        shown.length = slice.block_length;
    }
}
