//! Changing the content of a file in place.
//!
//! A file keeps its number whatever is written to it, and its content is changed by one commit that
//! names new blocks, size and times together. Blocks and pages of content maps never change: what a
//! write hides is left to the reaper, which waits for those who read it.
//!
//! A range of one file may come to name what another one does. Then every block is shared, and says
//! so of both. A file that has let go of a block has its share until the reaper was there, which
//! would take a new name for the old one: so it is not given the block again before.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use layout::{Overlay, Segment, clear, overlay, resolve};
use record::key::{self, CounterKind};
use record::{
    BlockId, Content, File, HiddenBlock, INODE_SLICES_MAX, Ino, Inode, InodeBody, MapPage, Mark,
    Orphan, PAGE_SLICES_MAX, PART_SUMS_PAGE, PageRef, RetainUntil, Slice, Sum, Tag,
};
use store::{Guard, Key, Plan, Value, Write};

use super::attributes::AttributeChange;
use super::{Known, NodeName, keeping, untell};
use crate::content_map::pages_of;
use crate::inode_state::{Change as StateChange, InodeState};
use crate::object::staged_inline_mark;
use crate::run::{Env, Planner, Step};
use crate::stage::guard_absent;
use crate::view::{View, decode};
use crate::{Assumption, FoundNode, FsError, Halt};

mod relocate;

pub use relocate::{RelocateContent, Relocated};

/// What becomes of a file's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContentChange {
    /// It is this.
    Replace {
        /// Inline, or slices in order.
        content: Content,
        /// Bytes of it.
        size: u64,
        /// Checksums of it.
        sums: Vec<Sum>,
    },
    /// It is cut, and slices are written over what is left.
    Write {
        /// Nothing that was there before shows from here on, if it is cut.
        cut: Option<u64>,
        /// What is written, in the order of positions; no two overlap.
        slices: Vec<Slice>,
        /// The file is at least as long as this then.
        end: u64,
        /// Checksums of all of it, if they are known.
        sums: Vec<Sum>,
    },
    /// It is this long: cut, or continued by a hole.
    Truncate(u64),
    /// Within this range it is a hole, as far as the file goes.
    Clear(Range<u64>),
    /// Within a range it is what a range of another file is, or another one of its own.
    Share(SharedRange),
}

/// A range that names what another one names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedRange {
    /// Where it is in the file that comes to name it, which is at least as long as its end then.
    pub range: Range<u64>,
    /// What lies there, in the order of positions; no two overlap. Between them are holes.
    pub slices: Vec<Slice>,
    /// The file that names it.
    pub source: Ino,
    /// The record of that file's inode by which the slices were found.
    pub record: Value,
    /// The source's entity tag if the range is all of it. If there is nothing else to the file, it
    /// is the file's, too.
    pub tag: Option<Tag>,
}

/// Changes a file's content: one round trip when the file, and the pages that are written to, are
/// remembered. What is written must be durable.
#[derive(Clone, Debug)]
pub struct WriteContent<'a> {
    /// The file.
    pub ino: Ino,
    /// A name that it has, if it has one.
    pub known_name: Option<&'a NodeName>,
    /// The data version that it must have, if it must have one.
    pub expected_data_version: Option<u64>,
    /// What else must hold: the names by which it was found.
    pub assumptions: &'a [Assumption],
    /// What becomes of its content.
    pub change: &'a ContentChange,
    /// Its entity tag then.
    pub tag: Tag,
    /// The number under which is left what the write hides.
    pub hidden_ino: Ino,
    /// What becomes of its attributes besides. The time of the change is the operation's unless this
    /// says another.
    pub attributes: &'a AttributeChange,
    /// The retention that earlier writes of the same open file gave it by the bucket's default. It does
    /// not refuse further writes of that open file.
    pub own_retention: Option<RetainUntil>,
}

/// What a content becomes.
struct Change<'a> {
    ino: Ino,
    /// The file before.
    old: &'a File,
    file: File,
    /// Records of new pages.
    pages: Vec<(Key, MapPage)>,
    /// Numbers of pages that are not named any more.
    dropped: Vec<u32>,
    /// Pieces that show no longer.
    hidden: Vec<Slice>,
    /// Slices that are new to the file.
    added: Vec<Slice>,
    /// Blocks of which the file is known to name something before.
    named: BTreeSet<BlockId>,
}

impl Planner for WriteContent<'_> {
    /// The file as it is then.
    type Output = FoundNode;

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<FoundNode>, Halt> {
        let mut plan = Plan::default();
        Assumption::guard_all(self.assumptions, view, &mut plan)?;
        let known = Known::find(view, self.ino)?;
        plan.guards.push(known.guard());
        let mut inode = known.inode.clone();
        let mut state = InodeState::find(view, env, self.ino, &inode)?;
        state.disregard(self.own_retention, &inode);
        state.admit(StateChange::Content)?;
        state.guard(&mut plan);
        // Asked for together with what follows.
        let retention = keeping::default_retention(view, env, inode.bucket, &mut plan);
        if let Err(Halt::Fail(error)) = retention {
            return Err(error.into());
        }
        untell(view, &mut inode, self.ino, self.known_name, &mut plan)?;
        let InodeBody::File(file) = &inode.body else { return Err(FsError::IsADirectory.into()) };
        let Some(old) = known.inode.file() else { return Err(FsError::IsADirectory.into()) };
        if self.expected_data_version.is_some_and(|expected| expected != old.data_version) {
            return Err(FsError::ContentReplaced.into());
        }
        let mut change = Change::of(self.ino, old, (**file).clone());
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

impl SharedRange {
    /// Guards that the source names what it was found to name.
    fn guard_source(
        &self,
        view: &mut View<'_>,
        ino: Ino,
        known: &Known,
        plan: &mut Plan,
    ) -> Result<(), Halt> {
        if self.source != ino {
            let (key, value) = (key::inode(self.source), self.record.clone());
            let otherwise = FsError::SourceChanged;
            return Assumption::guard_all(&[Assumption { key, value, otherwise }], view, plan);
        }
        if known.record == self.record { Ok(()) } else { Err(FsError::SourceChanged.into()) }
    }
}

impl<'a> Change<'a> {
    /// No change yet, of a file that was `old`.
    fn of(ino: Ino, old: &'a File, file: File) -> Change<'a> {
        Change {
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

impl Change<'_> {
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
        let left = cut.unwrap_or(u64::MAX).min(self.old.size);
        let size = left.max(end);
        self.file.sparse |= has_hole(slices, left, size);
        self.change(view, &(left..self.old.size), slices, size)
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
        let SharedRange { range, slices, .. } = shared;
        self.file.sparse |= has_hole(slices, range.start.min(self.old.size), range.start)
            || has_hole(slices, range.start, range.end);
        self.change(view, range, slices, self.old.size.max(range.end))
    }

    /// Clears a range of the content, lays slices over it, and cuts it at a size.
    fn change(
        &mut self,
        view: &mut View<'_>,
        cleared: &Range<u64>,
        slices: &[Slice],
        size: u64,
    ) -> Result<(), Halt> {
        self.file.size = size;
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
                let keep = if cleared.is_empty() || cleared.start >= length {
                    size
                } else if cleared.end >= length {
                    size.min(cleared.start)
                } else {
                    return Err(FsError::ContentReplaced.into());
                };
                let keep = usize::try_from(keep).unwrap_or(usize::MAX).min(bytes.len());
                self.file.content = Content::Inline(bytes.slice(..keep));
                Ok(())
            }
            // Whoever writes these takes the inline bytes with them.
            Content::Inline(_) => Err(FsError::ContentReplaced.into()),
            Content::Slices(old) => {
                let Overlay { slices, hidden } = self.over(old, cleared, slices, size);
                self.hidden = hidden;
                self.build_content(slices);
                Ok(())
            }
            Content::Pages(pages) => self.change_pages(view, pages, cleared, slices, size),
        }
    }

    /// Slices laid over those of the file, or of one of its pages, of which a range is cleared.
    fn over(
        &mut self,
        old: &[Slice],
        cleared: &Range<u64>,
        slices: &[Slice],
        size: u64,
    ) -> Overlay {
        self.named.extend(old.iter().map(|slice| slice.block));
        let left = clear(old, cleared);
        let Overlay { slices, mut hidden } = overlay(&left.slices, slices, size);
        hidden.extend(left.hidden);
        Overlay { slices, hidden }
    }

    /// Changes the pages that are cleared, that slices are written to, or that lie behind the end.
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
            // What lies before the first page, or behind the last one, is theirs too.
            let start = if index == 0 { 0 } else { page.start };
            let end = pages.get(index + 1).map_or(u64::MAX, |next| next.start);
            let within = |slice: &Slice| layout::clip(slice, &(start..end));
            let new: Vec<Slice> = slices.iter().filter_map(within).collect();
            let Overlay { slices, hidden } = self.over(&old, cleared, &new, size);
            self.hidden.extend(hidden);
            self.dropped.push(page.page);
            kept.extend(self.page(&slices));
        }
        self.file.content =
            if kept.is_empty() { Content::Slices(Vec::new()) } else { Content::Pages(kept) };
        Ok(())
    }

    /// The slices of pages, in one round trip.
    fn load(&self, view: &mut View<'_>, pages: &[PageRef]) -> Result<Vec<Vec<Slice>>, Halt> {
        let keys: Vec<Key> = pages.iter().map(|page| key::map_page(self.ino, page.page)).collect();
        let found = view.many(&keys)?;
        let mut loaded = Vec::with_capacity(pages.len());
        for (key, record) in keys.iter().zip(found) {
            // An inode and its pages are of one snapshot, or read anew.
            let record = record.ok_or(FsError::Stale)?;
            loaded.push(decode(key, &record, MapPage::decode)?.0);
        }
        Ok(loaded)
    }

    /// Lays slices out in the record of the inode, or in pages.
    fn build_content(&mut self, slices: Vec<Slice>) {
        self.file.content = if slices.len() <= INODE_SLICES_MAX {
            Content::Slices(slices)
        } else {
            Content::Pages(self.page(&slices))
        };
    }

    /// Makes pages of slices: as few as hold them, and none of them much fuller than another.
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

    /// Makes the file an owner of the blocks that it comes to share, and says so of the source.
    fn join(&self, view: &View<'_>, shared: &SharedRange, plan: &mut Plan) -> Result<(), Halt> {
        if shared.source == self.ino {
            return Ok(());
        }
        let blocks: BTreeSet<BlockId> = shared.slices.iter().map(|slice| slice.block).collect();
        for block in blocks {
            let own = key::share(block, self.ino);
            if !self.named.contains(&block) {
                if view.contradicted(&own) {
                    return Err(FsError::BlockReleasePending.into());
                }
                plan.guards.push(Guard::Absent(own.clone()));
            }
            // In a pack every owner has said so from the beginning.
            if !block.is_pack() {
                let source = key::share(block, shared.source);
                plan.writes.push(Write::Put(source.clone(), Mark.encode(&source)));
                plan.writes.push(Write::Put(own.clone(), Mark.encode(&own)));
            }
        }
        Ok(())
    }

    /// Adds all but the inode itself to a plan.
    fn finish(
        self,
        view: &mut View<'_>,
        inode: &Inode,
        hidden_ino: Ino,
        plan: &mut Plan,
    ) -> Result<File, Halt> {
        self.name_and_hide(view, hidden_ino, plan)?;
        self.mark_staged_inline(plan);
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

    /// Adds to a plan the pages that are new, what is named of packs, and what shows no longer.
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
        // How much of each pack the file names, and which it names for the first time.
        let mut live: BTreeMap<BlockId, i64> = BTreeMap::new();
        let mut joined = BTreeSet::new();
        for slice in self.added.iter().filter(|slice| slice.block.is_pack()) {
            *live.entry(slice.block).or_default() += i64::from(slice.length);
            joined.insert(slice.block);
        }
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

    /// Leaves the blocks and pages that are not named any more to the reaper.
    fn leave_hidden(
        &self,
        view: &mut View<'_>,
        hidden_ino: Ino,
        plan: &mut Plan,
    ) -> Result<(), Halt> {
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

    /// Marks a content that is staged inline, and takes the mark from one that was.
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

/// Which pages are written to between two positions. What lies before the first page is its own, too.
fn written(pages: &[PageRef], start: u64, end: u64) -> Range<usize> {
    let Range { start: first, end: last } = pages_of(pages, start, end);
    first..last.max(first + 1).min(pages.len())
}

/// Whether slices leave a hole between two positions.
fn has_hole(slices: &[Slice], start: u64, end: u64) -> bool {
    resolve(slices, start..end).iter().any(|segment| matches!(segment, Segment::Hole { .. }))
}
