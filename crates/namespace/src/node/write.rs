//! Changing the content of a file in place.
//!
//! The inode number of a file stays, and one commit changes the content: it names new blocks and
//! sets size and times together. A content map is the list of the file's slices, each a run of
//! bytes of one block. Blocks and pages of content maps never change. References that a write hides
//! are listed in an orphan record, and the reaper releases them when no reader can need them.
//!
//! For example, a program writes 4 KiB into the middle of a file of 1 MiB: the new content map has
//! the beginning of the old slice, the new slice, and the end of the old slice.
//!
//! A range of one file may share the blocks of another (`FICLONERANGE`). Then each shared block has
//! a share record for both files. A file that has released a shared block keeps its share record
//! until the reaper has processed the release. If the file referenced the block again before that,
//! the reaper would delete the new reference's share. So such a write fails with
//! `BlockReleasePending`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use layout::{Overlay, Segment, clear, overlay, resolve};
use record::key::{self, CounterKind};
use record::{
    BlockId, Content, File, HiddenBlock, INODE_SLICES_MAX, Ino, Inode, InodeBody, MapPage, Mark,
    Orphan, PAGE_SLICES_MAX, PART_SUMS_PAGE, PageRef, RetainUntil, Slice, Sum, Tag,
};
use store::{Guard, Key, Plan, Write};

use super::attributes::AttributeChange;
use super::{KnownInode, NodeName, clear_self_contained, keeping};
use crate::content_map::pages_of;
use crate::inode_state::{Change, InodeState};
use crate::object::staged_inline_mark;
use crate::run::{Env, Planner, Step};
use crate::stage::guard_absent;
use crate::view::{View, decode};
use crate::{Assumption, FoundNode, FsError, Halt};

pub(super) mod first;
mod relocate;
mod shared_range;

pub use relocate::{DestageContent, ReencryptContent, RelocateContent, Relocated};
pub use shared_range::SharedRange;

/// A change of a file's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContentChange {
    /// Replace all of the content.
    Replace {
        /// The new content: inline bytes, or slices in order.
        content: Content,
        /// The new size of the file in bytes.
        size: u64,
        /// Checksums of the new content.
        sums: Vec<Sum>,
    },
    /// Cut the file if `cut` is given, then write slices (runs of bytes of blocks) over the rest.
    Write {
        /// The size to which the file is cut first. Old content after it does not become visible
        /// again.
        cut: Option<u64>,
        /// The new slices, sorted by position, without overlap.
        slices: Vec<Slice>,
        /// The least size of the file after the write, in bytes.
        end: u64,
        /// Checksums of the complete content, if they are known.
        sums: Vec<Sum>,
    },
    /// Set the size in bytes, as `ftruncate` does. Growing leaves a hole.
    Truncate(u64),
    /// Make this range of bytes a hole, as far as it is within the file. The size stays.
    Clear(Range<u64>),
    /// Let a range name the blocks of a range of another file, or of another range of the same
    /// file.
    Share(SharedRange),
}

/// Changes a file's content. One round trip if the file, and the pages that change, are cached. The
/// blocks of the new content must be durable. Fails with `Locked` or `NotCurrent` if the state of
/// the file does not admit the change, with `ContentReplaced` if the change does not fit the
/// present content, with `SourceChanged` or `BlockReleasePending` if a range cannot be shared now,
/// and with `QuotaExceeded`.
#[derive(Clone, Debug)]
pub struct WriteContent<'a> {
    /// The inode number of the file.
    pub ino: Ino,
    /// A name of the file, if it has one. If its dentry has the mark "self-contained", by which a
    /// plan would delete the inode without its blocks, the plan clears the mark.
    pub known_name: Option<&'a NodeName>,
    /// The data version (the number of content changes) that the file must have. With another one
    /// the write fails with `ContentReplaced`. `None` accepts every version.
    pub expected_data_version: Option<u64>,
    /// Further records that must be unchanged: the dentries by which the caller found the file.
    pub assumptions: &'a [Assumption],
    /// The change of the content.
    pub change: &'a ContentChange,
    /// The entity tag of the file after the change.
    pub tag: Tag,
    /// An unused number for the orphan record: the blocks and pages that the file stops naming.
    pub hidden_ino: Ino,
    /// Changes of attributes. The modification time is the operation's unless this sets another.
    pub attributes: &'a AttributeChange,
    /// The retention that earlier writes of the same open file got from the bucket's default. It
    /// does not refuse further writes of that open file.
    pub own_retention: Option<RetainUntil>,
}

/// The old and new content of a file while a plan is made.
struct ContentEdit<'a> {
    ino: Ino,
    /// The file before the change.
    old: &'a File,
    /// The file as it is changed so far.
    file: File,
    /// The new pages of the content map, each a record with many slices.
    pages: Vec<(Key, MapPage)>,
    /// The numbers of pages that the new content map does not name.
    dropped: Vec<u32>,
    /// The pieces of old slices that are not visible in the file any more.
    hidden: Vec<Slice>,
    /// The new slices, which the change writes.
    added: Vec<Slice>,
    /// Blocks that the old content names, as far as its slices were read.
    named: BTreeSet<BlockId>,
}

impl Planner for WriteContent<'_> {
    /// The file after the change.
    type Output = FoundNode;

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<FoundNode>, Halt> {
        let mut plan = Plan::default();
        Assumption::guard_all(self.assumptions, view, &mut plan)?;
        let known = KnownInode::find(view, self.ino)?;
        plan.guards.push(known.guard());
        let mut inode = known.inode.clone();
        let mut state = InodeState::find(view, env, self.ino, &inode)?;
        state.disregard(self.own_retention, &inode);
        state.admit(Change::Content)?;
        state.guard(&mut plan);
        // A missing record does not stop the pass here: the records needed below go into the same
        // round trip.
        let retention = keeping::default_retention(view, env, inode.bucket, &mut plan);
        if let Err(Halt::Fail(error)) = retention {
            return Err(error.into());
        }
        clear_self_contained(view, &mut inode, self.ino, self.known_name, &mut plan)?;
        let InodeBody::File(file) = &inode.body else { return Err(FsError::IsADirectory.into()) };
        let Some(old) = known.inode.file() else { return Err(FsError::IsADirectory.into()) };
        if self.expected_data_version.is_some_and(|expected| expected != old.data_version) {
            return Err(FsError::ContentReplaced.into());
        }
        let mut change = ContentEdit::of(self.ino, old, (**file).clone());
        let mut tag = self.tag;
        match self.change {
            ContentChange::Replace { content, size, sums } => {
                change.replace(view, content, *size, sums)?;
            }
            ContentChange::Write { cut, slices, end, sums } => {
                change.write(view, *cut, slices, *end)?;
                change.file.sums.clone_from(sums);
            }
            ContentChange::Truncate(size) => change.truncate(view, *size)?,
            ContentChange::Clear(range) => change.clear(view, range)?,
            ContentChange::Share(shared) => {
                shared.guard_source(view, self.ino, &known, &mut plan)?;
                change.share(view, shared)?;
                change.join(view, shared, &mut plan)?;
                // A clone of a complete file has the same bytes, so it keeps the entity tag of the
                // source.
                let all = shared.range.start == 0 && shared.range.end >= change.old.size;
                tag = shared.tag.filter(|_| all).unwrap_or(tag);
            }
        }
        change.file.tag = tag;
        if let Some(default) = retention? {
            change.file.object.lock.retain(default, env.earliest_now);
        }
        change.file.data_version = change.file.data_version.saturating_add(1);
        let file = change.finish(view, &inode, self.hidden_ino, &mut plan)?;
        // The quota guard needs all counter changes, so it comes after `finish`.
        keeping::guard_quota(view, inode.bucket, &mut plan)?;
        inode.body = InodeBody::File(Box::new(file));
        let at = &mut inode.attributes;
        (at.changed, at.modified) = (env.now, env.now);
        self.attributes.apply(&mut inode, env);
        let record = inode.encode(&known.key);
        plan.writes.push(Write::Put(known.key, record.clone()));
        Ok(Step::Commit(plan, FoundNode { ino: self.ino, inode, record, counts: None }))
    }
}

impl<'a> ContentEdit<'a> {
    /// The start of an edit of the file's content, with nothing changed yet.
    fn of(ino: Ino, old: &'a File, file: File) -> ContentEdit<'a> {
        ContentEdit {
            ino,
            old,
            file,
            pages: Vec::new(),
            dropped: Vec::new(),
            hidden: Vec::new(),
            added: Vec::new(),
            named: BTreeSet::new(),
        }
    }
}

impl ContentEdit<'_> {
    fn replace(
        &mut self,
        view: &mut View<'_>,
        content: &Content,
        size: u64,
        sums: &[Sum],
    ) -> Result<(), Halt> {
        match &self.old.content {
            Content::Inline(_) => {}
            Content::Slices(slices) => self.hidden.clone_from(slices),
            Content::Pages(pages) => {
                // All old pages are read, because every block reference in them is hidden.
                self.hidden = self.load(view, pages)?.into_iter().flatten().collect();
                self.dropped.extend(pages.iter().map(|page| page.page));
            }
        }
        self.file.size = size;
        self.file.sums = sums.to_vec();
        self.file.parts.clear();
        match content {
            Content::Slices(slices) => {
                self.file.sparse = has_hole(slices, 0, size);
                self.added.clone_from(slices);
                self.build_content(slices.clone());
            }
            inline => {
                let Content::Inline(bytes) = inline else { return Err(Halt::from(FsError::Stale)) };
                self.file.sparse = (bytes.len() as u64) < size;
                self.file.content = inline.clone();
            }
        }
        Ok(())
    }

    fn write(
        &mut self,
        view: &mut View<'_>,
        cut: Option<u64>,
        slices: &[Slice],
        end: u64,
    ) -> Result<(), Halt> {
        let kept = cut.unwrap_or(u64::MAX).min(self.old.size);
        let size = kept.max(end);
        self.file.sparse |= has_hole(slices, kept, size);
        self.change(view, &(kept..self.old.size), slices, size)
    }

    fn truncate(&mut self, view: &mut View<'_>, size: u64) -> Result<(), Halt> {
        self.file.sparse |= size > self.old.size;
        self.change(view, &(0..0), &[], size)
    }

    fn clear(&mut self, view: &mut View<'_>, range: &Range<u64>) -> Result<(), Halt> {
        let size = self.old.size;
        self.file.sparse |= range.start < range.end.min(size);
        self.change(view, range, &[], size)
    }

    fn share(&mut self, view: &mut View<'_>, shared: &SharedRange) -> Result<(), Halt> {
        let SharedRange { range, slices, encryption, .. } = shared;
        if *encryption != self.old.encryption {
            return Err(FsError::ContentReplaced.into());
        }
        self.file.sparse |= has_hole(slices, range.start.min(self.old.size), range.start)
            || has_hole(slices, range.start, range.end);
        self.change(view, range, slices, self.old.size.max(range.end))
    }

    /// Clears a range of the content, writes slices over it, and cuts the content at `size`.
    ///
    /// Inline content cannot be combined with slices: this fails with `ContentReplaced`, and the
    /// caller writes the inline bytes together with its own into a block.
    fn change(
        &mut self,
        view: &mut View<'_>,
        cleared: &Range<u64>,
        slices: &[Slice],
        size: u64,
    ) -> Result<(), Halt> {
        self.file.size = size;
        // Checksums and parts describe the complete old content.
        self.file.sums.clear();
        self.file.parts.clear();
        self.added = slices.to_vec();
        match &self.old.content {
            Content::Inline(bytes) if bytes.is_empty() => {
                let Overlay { slices, .. } = overlay(&[], slices, size);
                if !slices.is_empty() {
                    self.build_content(slices);
                }
                Ok(())
            }
            Content::Inline(bytes) if slices.is_empty() => {
                let length = bytes.len() as u64;
                // Inline bytes can only be cut. Clearing a range in their middle would need zeros,
                // which the caller writes.
                let keep = if cleared.is_empty() || cleared.start >= length {
                    size
                } else if cleared.end >= length {
                    size.min(cleared.start)
                } else {
                    return Err(FsError::ContentReplaced.into());
                };
                let keep = usize::try_from(keep).unwrap_or(usize::MAX).min(bytes.len());
                self.file.content = Content::Inline(bytes.cut(keep));
                Ok(())
            }
            Content::Inline(_) => Err(FsError::ContentReplaced.into()),
            Content::Slices(old) => {
                let Overlay { slices, hidden } = self.overlay(old, cleared, slices, size);
                self.hidden = hidden;
                self.build_content(slices);
                Ok(())
            }
            Content::Pages(pages) => self.change_pages(view, pages, cleared, slices, size),
        }
    }

    /// Returns the old slices with a range cleared, with the new ones over them, cut at `size`.
    /// `old` are the slices of the file, or of one of its pages.
    fn overlay(
        &mut self,
        old: &[Slice],
        cleared: &Range<u64>,
        slices: &[Slice],
        size: u64,
    ) -> Overlay {
        self.named.extend(old.iter().map(|slice| slice.block));
        let remaining = clear(old, cleared);
        let Overlay { slices, mut hidden } = overlay(&remaining.slices, slices, size);
        hidden.extend(remaining.hidden);
        Overlay { slices, hidden }
    }

    /// Changes those pages of the content map that are written to, are cleared, or are after the
    /// new end. Other pages keep their numbers and records.
    fn change_pages(
        &mut self,
        view: &mut View<'_>,
        pages: &[PageRef],
        cleared: &Range<u64>,
        slices: &[Slice],
        size: u64,
    ) -> Result<(), Halt> {
        let mut touched: BTreeSet<usize> = BTreeSet::new();
        for slice in slices {
            touched.extend(written(pages, slice.position, slice.end()));
        }
        if !cleared.is_empty() {
            touched.extend(written(pages, cleared.start, cleared.end));
        }
        if size < self.old.size {
            touched.extend(written(pages, size, u64::MAX));
        }
        let wanted: Vec<PageRef> = touched.iter().map(|index| pages[*index]).collect();
        let mut loaded = self.load(view, &wanted)?.into_iter();
        let mut kept = Vec::with_capacity(pages.len() + 1);
        for (index, page) in pages.iter().enumerate() {
            if !touched.contains(&index) {
                kept.push(*page);
                continue;
            }
            let old = loaded.next().unwrap_or_default();
            // A page is responsible for all positions up to the start of the next page. The first
            // page also covers all positions before it, and the last page all positions after it.
            let start = if index == 0 { 0 } else { page.start };
            let end = pages.get(index + 1).map_or(u64::MAX, |next| next.start);
            let within = |slice: &Slice| layout::clip(slice, &(start..end));
            let new: Vec<Slice> = slices.iter().filter_map(within).collect();
            let Overlay { slices, hidden } = self.overlay(&old, cleared, &new, size);
            self.hidden.extend(hidden);
            self.dropped.push(page.page);
            kept.extend(self.page(&slices));
        }
        self.file.content =
            if kept.is_empty() { Content::Slices(Vec::new()) } else { Content::Pages(kept) };
        Ok(())
    }

    /// Reads the slices of these pages, one list for each page. One round trip.
    fn load(&self, view: &mut View<'_>, pages: &[PageRef]) -> Result<Vec<Vec<Slice>>, Halt> {
        let keys: Vec<Key> = pages.iter().map(|page| key::map_page(self.ino, page.page)).collect();
        let found = view.many(&keys)?;
        let mut loaded = Vec::with_capacity(pages.len());
        for (key, record) in keys.iter().zip(found) {
            // An inode and its pages are from one snapshot, or an answer reads them again.
            let record = record.ok_or(FsError::Stale)?;
            loaded.push(decode(key, &record, MapPage::decode)?.0);
        }
        Ok(loaded)
    }

    /// Stores slices in the inode, or in new pages if there are many.
    fn build_content(&mut self, slices: Vec<Slice>) {
        self.file.content = if slices.len() <= INODE_SLICES_MAX {
            Content::Slices(slices)
        } else {
            Content::Pages(self.page(&slices))
        };
    }

    /// Splits slices into new pages: as few pages as possible, of nearly equal length.
    fn page(&mut self, slices: &[Slice]) -> Vec<PageRef> {
        let count = slices.len().div_ceil(PAGE_SLICES_MAX).max(1);
        let mut refs = Vec::with_capacity(count);
        for slices in slices.chunks(slices.len().div_ceil(count).max(1)) {
            let page = self.file.pages_made;
            self.file.pages_made = page.saturating_add(1);
            refs.push(PageRef::of(page, slices));
            self.pages.push((key::map_page(self.ino, page), MapPage(slices.to_vec())));
        }
        refs
    }

    /// Adds share records (one for each owner of a block) for the blocks that the file and the
    /// source now share. Fails with `BlockReleasePending` if a block of the source has a share
    /// record of this file from an earlier reference.
    fn join(&self, view: &View<'_>, shared: &SharedRange, plan: &mut Plan) -> Result<(), Halt> {
        if shared.source == self.ino {
            return Ok(());
        }
        let blocks: BTreeSet<BlockId> = shared.slices.iter().map(|slice| slice.block).collect();
        for block in blocks {
            let own = key::share(block, self.ino);
            // The share record of a block that the file does not name must be absent. If it exists,
            // the reaper has not processed an earlier release of the block.
            if !self.named.contains(&block) {
                if view.contradicted(&own) {
                    return Err(FsError::BlockReleasePending.into());
                }
                plan.guards.push(Guard::Absent(own.clone()));
            }
            // Each owner of a pack has a share record from the start; see
            // [`crate::add_pack_shares`].
            if !block.is_pack() {
                let source = key::share(block, shared.source);
                plan.writes.push(Write::Put(source.clone(), Mark.encode(&source)));
                plan.writes.push(Write::Put(own.clone(), Mark.encode(&own)));
            }
        }
        Ok(())
    }

    /// Adds all writes but that of the inode to a plan, and returns the new file.
    fn finish(
        self,
        view: &mut View<'_>,
        inode: &Inode,
        hidden_ino: Ino,
        plan: &mut Plan,
    ) -> Result<File, Halt> {
        self.name_and_hide(view, hidden_ino, plan)?;
        self.mark_staged_inline(plan);
        // The checksums of parts describe the old content.
        let parts: u64 = self.old.parts.iter().map(|run| u64::from(run.count)).sum();
        let sum_pages = u32::try_from(parts.div_ceil(u64::from(PART_SUMS_PAGE)));
        let sum_pages = 0..sum_pages.unwrap_or(u32::MAX);
        plan.writes.extend(sum_pages.map(|page| Write::Delete(key::part_sums(self.ino, page))));
        let signed = |size| i64::try_from(size).unwrap_or(i64::MAX);
        let grown = signed(self.file.size) - signed(self.old.size);
        if grown != 0 {
            plan.writes.push(Write::Add(key::counter(inode.bucket, CounterKind::Bytes), grown));
        }
        Ok(self.file)
    }

    /// Adds to a plan the new pages of the content map, the changes of live bytes and share records
    /// of packs (blocks of several files), and the orphan record that lists the hidden blocks and
    /// pages.
    fn name_and_hide(
        &self,
        view: &mut View<'_>,
        hidden_ino: Ino,
        plan: &mut Plan,
    ) -> Result<(), Halt> {
        for (key, page) in &self.pages {
            guard_absent(key, view, plan)?;
            plan.writes.push(Write::Put(key.clone(), page.encode(key)));
        }
        // The change of the live bytes of each pack, and the packs that get a share record of this
        // file.
        let mut live: BTreeMap<BlockId, i64> = BTreeMap::new();
        let mut joined = BTreeSet::new();
        for slice in self.added.iter().filter(|slice| slice.block.is_pack()) {
            *live.entry(slice.block).or_default() += i64::from(slice.length);
            joined.insert(slice.block);
        }
        // A pack that is hidden in one place and named in another has a change of zero.
        for slice in self.hidden.iter().filter(|slice| slice.block.is_pack()) {
            *live.entry(slice.block).or_default() -= i64::from(slice.length);
        }
        for pack in joined {
            let share = key::share(pack, self.ino);
            plan.writes.push(Write::Put(share.clone(), Mark.encode(&share)));
        }
        let changed = live.into_iter().filter(|(_, bytes)| *bytes != 0);
        plan.writes.extend(changed.map(|(pack, bytes)| Write::Add(key::live(pack), bytes)));
        self.leave_hidden(view, hidden_ino, plan)
    }

    /// Adds an orphan record with the blocks and pages that the file does not name any more, if
    /// any. The reaper releases them when no reader can need them.
    fn leave_hidden(
        &self,
        view: &mut View<'_>,
        hidden_ino: Ino,
        plan: &mut Plan,
    ) -> Result<(), Halt> {
        // A block that the changed part of the map still names is not hidden. Pages that did not
        // change are not read: the reaper checks those before it releases a block.
        let here: &[Slice] = match &self.file.content {
            Content::Slices(slices) => slices,
            Content::Inline(_) | Content::Pages(_) => &[],
        };
        let in_pages = self.pages.iter().flat_map(|(_, page)| &page.0);
        let named: BTreeSet<BlockId> =
            here.iter().chain(in_pages).map(|slice| slice.block).collect();
        let mut blocks: BTreeMap<BlockId, u32> = BTreeMap::new();
        for slice in self.hidden.iter().filter(|slice| !named.contains(&slice.block)) {
            blocks.insert(slice.block, slice.block_length);
        }
        if blocks.is_empty() && self.dropped.is_empty() {
            return Ok(());
        }
        // The length of each block goes with it, because no other record of the file has it any
        // more.
        let blocks = blocks
            .into_iter()
            .map(|(block, block_length)| HiddenBlock { block, block_length })
            .collect();
        let at = key::orphan(hidden_ino);
        guard_absent(&at, view, plan)?;
        let orphan = Orphan::Hidden { owner: self.ino, blocks, pages: self.dropped.clone() };
        plan.writes.push(Write::Put(at.clone(), orphan.encode(&at)));
        Ok(())
    }

    /// Writes or removes the mark of content that is staged inline, that is, until it is destaged.
    fn mark_staged_inline(&self, plan: &mut Plan) {
        match staged_inline_mark(&self.file.content, self.ino) {
            Some(mark) => plan.writes.push(mark),
            None if self.old.content.is_staged_inline() => {
                plan.writes.push(Write::Delete(key::staged_inline(self.ino)));
            }
            None => {}
        }
    }
}

/// The indexes of the pages that change if the range from `start` to `end` is written. The first
/// page also covers the positions before it.
fn written(pages: &[PageRef], start: u64, end: u64) -> Range<usize> {
    let Range { start: first, end: last } = pages_of(pages, start, end);
    first..last.max(first + 1).min(pages.len())
}

/// Returns true if the slices leave a hole between two positions.
fn has_hole(slices: &[Slice], start: u64, end: u64) -> bool {
    resolve(slices, start..end).iter().any(|segment| matches!(segment, Segment::Hole { .. }))
}
