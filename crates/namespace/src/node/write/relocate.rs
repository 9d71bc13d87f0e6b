//! Replacing the references of a file by references to a copy of the same bytes.
//!
//! Size, times, entity tag and data version of the file stay; only block references change. Blocks
//! never change, so a copied run always has the same bytes as its origin. If a program overwrites a
//! range meanwhile, the file does not name the origin of that range any more, and the range is left
//! as it is. So if the file is written to concurrently, the plan is made again from the newest
//! record and need not be given up.
//!
//! For example, the relocator copies 64 small slices of a log file into one block, and the file
//! then names one slice.

use std::ops::Range;

use layout::{Relocation, joined};
use record::{
    Content, File, INODE_SLICES_MAX, InlineBytes, Ino, InodeBody, PageRef, RingNumber, Slice, key,
};
use store::{Plan, Value, Write};

use super::{ContentEdit, KnownInode};
use crate::content_map::pages_of;
use crate::packs::add_pack_shares;
use crate::run::{Env, Planner, Step};
use crate::view::View;
use crate::{FsError, Halt};

/// Lets a file name the copy of some of its bytes, instead of their old blocks. The copy must be
/// durable. For example, the relocator empties blocks in this way that later writes have mostly
/// hidden.
#[derive(Clone, Debug)]
pub struct RelocateContent<'a> {
    /// The inode number of the file.
    pub ino: Ino,
    /// The record of its inode as the caller has read it; the plan is refused if it has changed.
    /// `None`: the newest record is read.
    pub record: Option<&'a Value>,
    /// The copied runs of bytes and their new places in a block. Other records may name this block
    /// only if it is a pack, a block of several files.
    pub to: &'a Relocation,
    /// The range of the file to change. It limits the pages of the content map that are read.
    pub within: Range<u64>,
    /// An unused inode number for the orphan record, which lists the old references for the reaper.
    pub hidden_ino: Ino,
}

/// Lets a file whose content is staged inline name a durable block with the same bytes, and removes
/// the mark by which its content is found. For example, the relocator puts the bodies of 20 small
/// files into one block, and then runs this operation for each file.
#[derive(Clone, Debug)]
pub struct DestageContent<'a> {
    /// The inode number of the file.
    pub ino: Ino,
    /// The record of its inode, which has the copied bytes. The plan is refused if it has changed.
    pub record: &'a Value,
    /// The place of the copy.
    pub to: Slice,
}

/// Encrypts inline content under another ring key. Content that is not inline, or that is not
/// encrypted, stays as it is. For example, an operator retires ring key 1, and each file whose
/// inline content is under key 1 gets its content under key 2.
#[derive(Clone, Debug)]
pub struct ReencryptContent<'a> {
    /// The inode number of the file.
    pub ino: Ino,
    /// The record of its inode. The plan is refused if it has changed.
    pub record: &'a Value,
    /// The number of the new ring key.
    pub ring: RingNumber,
}

/// The result of a [`RelocateContent`], a [`DestageContent`] or a [`ReencryptContent`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Relocated {
    /// The number of bytes that have moved.
    pub bytes: u64,
    /// The number of slices in the part of the content map that was changed, before and after.
    pub runs: (usize, usize),
}

impl Planner for RelocateContent<'_> {
    /// Zero bytes mean that the file names none of the copied runs, and nothing was changed.
    type Output = Relocated;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<Relocated>, Halt> {
        let known = match self.record {
            Some(record) => KnownInode::of(key::inode(self.ino), record.clone())?,
            None => KnownInode::find(view, self.ino)?,
        };
        let old = known.inode.file().ok_or(FsError::IsADirectory)?;
        let mut change = ContentEdit::of(self.ino, old, File::clone(old));
        let relocated = change.relocate(view, self.to, &self.within)?;
        if relocated.bytes == 0 {
            return Ok(Step::Done(relocated));
        }
        let mut plan = Plan { guards: vec![known.guard()], writes: Vec::new() };
        change.name_and_hide(view, self.hidden_ino, &mut plan)?;
        let mut inode = known.inode.clone();
        inode.body = InodeBody::File(Box::new(change.file));
        let record = inode.encode(&known.key);
        plan.writes.push(Write::Put(known.key, record));
        Ok(Step::Commit(plan, relocated))
    }
}

impl Planner for DestageContent<'_> {
    /// Zero bytes mean that the content is not staged inline, and nothing was changed.
    type Output = Relocated;

    fn plan(&self, _view: &mut View<'_>, _env: &Env) -> Result<Step<Relocated>, Halt> {
        let known = KnownInode::of(key::inode(self.ino), self.record.clone())?;
        let mut inode = known.inode.clone();
        let InodeBody::File(file) = &mut inode.body else {
            return Err(FsError::IsADirectory.into());
        };
        if !file.content.is_staged_inline() {
            return Ok(Step::Done(Relocated::default()));
        }
        file.content = Content::Slices(vec![self.to]);
        let mut writes = vec![Write::Put(known.key.clone(), inode.encode(&known.key))];
        writes.extend(add_pack_shares(&[self.to], self.ino));
        writes.push(Write::Delete(key::staged_inline(self.ino)));
        let relocated = Relocated { bytes: u64::from(self.to.length), runs: (0, 1) };
        Ok(Step::Commit(Plan { guards: vec![known.guard()], writes }, relocated))
    }
}

impl Planner for ReencryptContent<'_> {
    /// Zero bytes mean that the content is not encrypted inline under another key, and nothing was
    /// changed.
    type Output = Relocated;

    fn plan(&self, _view: &mut View<'_>, _env: &Env) -> Result<Step<Relocated>, Halt> {
        let known = KnownInode::of(key::inode(self.ino), self.record.clone())?;
        let mut inode = known.inode.clone();
        let InodeBody::File(file) = &mut inode.body else {
            return Err(FsError::IsADirectory.into());
        };
        let Content::Inline(old) = &file.content else {
            return Ok(Step::Done(Relocated::default()));
        };
        if old.ring().is_none_or(|ring| ring == self.ring) {
            return Ok(Step::Done(Relocated::default()));
        }
        let relocated = Relocated { bytes: old.len() as u64, runs: (0, 0) };
        let new = InlineBytes::under(old.clone().into_bytes(), Some(self.ring));
        file.content = Content::Inline(new);
        let writes = vec![Write::Put(known.key.clone(), inode.encode(&known.key))];
        Ok(Step::Commit(Plan { guards: vec![known.guard()], writes }, relocated))
    }
}

impl ContentEdit<'_> {
    fn relocate(
        &mut self,
        view: &mut View<'_>,
        to: &Relocation,
        within: &Range<u64>,
    ) -> Result<Relocated, Halt> {
        match &self.old.content {
            Content::Inline(_) => Ok(Relocated::default()),
            Content::Slices(slices) => {
                let (slices, relocated) = self.relocate_slices(slices, to);
                self.build_content(slices);
                Ok(relocated)
            }
            Content::Pages(pages) => self.relocate_pages(view, pages, to, within),
        }
    }

    /// Rebuilds the pages of the content map, from the first to the last page in which a slice has
    /// moved.
    fn relocate_pages(
        &mut self,
        view: &mut View<'_>,
        pages: &[PageRef],
        to: &Relocation,
        within: &Range<u64>,
    ) -> Result<Relocated, Halt> {
        let Range { start, end } = pages_of(pages, within.start, within.end);
        let loaded = self.load(view, &pages[start..end])?;
        let moves = |slices: &Vec<Slice>| slices.iter().any(|slice| to.locate(slice).is_some());
        let first = loaded.iter().position(moves);
        let Some((first, last)) = first.zip(loaded.iter().rposition(moves)) else {
            return Ok(Relocated::default());
        };
        let old: Vec<Slice> = loaded[first..=last].iter().flatten().copied().collect();
        let (slices, relocated) = self.relocate_slices(&old, to);
        let (before, rest) = pages.split_at(start + first);
        let (dropped, after) = rest.split_at(last + 1 - first);
        self.dropped.extend(dropped.iter().map(|page| page.page));
        let is_whole = before.is_empty() && after.is_empty();
        self.file.content = if is_whole && slices.len() <= INODE_SLICES_MAX {
            Content::Slices(slices)
        } else {
            Content::Pages([before, &self.page(&slices), after].concat())
        };
        Ok(relocated)
    }

    /// Returns the slices with the copied ones replaced, and adjacent ones joined.
    fn relocate_slices(&mut self, old: &[Slice], to: &Relocation) -> (Vec<Slice>, Relocated) {
        let mut bytes = 0;
        let slices = joined(old.iter().map(|slice| match to.locate(slice) {
            Some(copy) => {
                bytes += u64::from(slice.length);
                self.hidden.push(*slice);
                copy
            }
            None => *slice,
        }));
        let relocated = Relocated { bytes, runs: (old.len(), slices.len()) };
        self.added = slices.iter().filter(|slice| slice.block == to.block).copied().collect();
        (slices, relocated)
    }
}
