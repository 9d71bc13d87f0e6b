//! Content maps: storing the slices of a file in records.
//!
//! A slice is a run of bytes of one block at a position of a file, and the content map of a file is
//! the list of its slices. Few slices are in the inode's record, many are in pages, which are
//! records of their own. For example, a file of 1 GiB in blocks of 4 MiB has 256 slices, which need
//! one page.

use record::{
    Content, INODE_SLICES_MAX, Ino, MapPage, PAGE_SLICES_MAX, PageRef, PartRun, Slice, key,
};
use store::Write;

/// Stores the slices of a new file, which are sorted by position. Returns the content for its
/// inode, and the writes of its pages: none if the slices fit into the inode's record.
pub fn build_content(ino: Ino, slices: Vec<Slice>) -> (Content, Vec<Write>) {
    if slices.len() <= INODE_SLICES_MAX {
        return (Content::Slices(slices), Vec::new());
    }
    let mut pages = Vec::with_capacity(slices.len().div_ceil(PAGE_SLICES_MAX));
    let mut writes = Vec::with_capacity(pages.capacity());
    for (page, slices) in (0_u32..).zip(slices.chunks(PAGE_SLICES_MAX)) {
        let key = key::map_page(ino, page);
        pages.push(PageRef::of(page, slices));
        writes.push(Write::Put(key.clone(), MapPage(slices.to_vec()).encode(&key)));
    }
    (Content::Pages(pages), writes)
}

/// The number of pages in the content of a new file. Page numbers start at 0, so the next page gets
/// this number.
pub(crate) fn pages_made(content: &Content) -> u32 {
    match content {
        Content::Pages(pages) => u32::try_from(pages.len()).unwrap_or(u32::MAX),
        Content::Inline(_) | Content::Slices(_) => 0,
    }
}

/// The indexes in `pages` of those pages of a content map that cover the bytes from `start` up to
/// `end`.
pub fn pages_of(pages: &[PageRef], start: u64, end: u64) -> std::ops::Range<usize> {
    let first = pages.partition_point(|page| page.start <= start).saturating_sub(1);
    let last = pages.partition_point(|page| page.start < end);
    first..last.max(first)
}

/// Groups the lengths of an upload's parts, in bytes: consecutive parts of equal length become one
/// run.
pub fn part_runs(lengths: impl IntoIterator<Item = u64>) -> Vec<PartRun> {
    let mut runs: Vec<PartRun> = Vec::new();
    for length in lengths {
        match runs.last_mut() {
            Some(run) if run.length == length => run.count += 1,
            _ => runs.push(PartRun { count: 1, length }),
        }
    }
    runs
}

/// Concatenates the slices of an upload's parts, each given with its size in bytes. The positions
/// in each part start at 0. Returns the size of all parts together, and the slices with positions
/// in the complete file.
pub fn concatenate<'a>(parts: impl IntoIterator<Item = (u64, &'a [Slice])>) -> (u64, Vec<Slice>) {
    let (mut position, mut all) = (0, Vec::new());
    for (size, slices) in parts {
        all.extend(
            slices.iter().map(|slice| Slice { position: position + slice.position, ..*slice }),
        );
        position += size;
    }
    (position, all)
}

/// The slices of the range from `start` up to `end` of a file, with positions relative to `start`.
/// A slice that begins or ends outside is shortened.
pub fn cut(slices: &[Slice], start: u64, end: u64) -> Vec<Slice> {
    let mut cut = Vec::new();
    for slice in slices {
        let (from, to) = (slice.position.max(start), slice.end().min(end));
        // A range within one slice is not longer than the slice, so it fits in 32 bits.
        let skip = u32::try_from(from - slice.position);
        let length = u32::try_from(to.saturating_sub(from));
        if let (Ok(skip), Ok(length @ 1..)) = (skip, length) {
            let offset = slice.offset + skip;
            cut.push(Slice { position: from - start, offset, length, ..*slice });
        }
    }
    cut
}
