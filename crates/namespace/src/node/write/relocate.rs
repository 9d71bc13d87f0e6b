//! Naming bytes of a file where a copy of them lies.
//!
//! What the file says of itself stays as it is: size, times, tag, data version. Only where its bytes
//! lie changes. Blocks never change, so a copy of a run of one is right for whatever the file is by
//! now: what was written over meanwhile is named no longer, and everything else is where the copy
//! was made from. So a file that is written to all the time is planned again, from its newest
//! record, and not given up.

use std::ops::Range;

use layout::{Relocation, joined};
use record::{Content, File, INODE_SLICES_MAX, Ino, InodeBody, PageRef, Slice};
use store::{Plan, Write};

use super::{Change, Known};
use crate::content_map::pages_of;
use crate::run::{Env, Planner, Step};
use crate::view::View;
use crate::{FsError, Halt};

/// Has a file name a copy of some of its bytes, which is durable, in place of where they were.
#[derive(Clone, Debug)]
pub struct RelocateContent<'a> {
    /// The file.
    pub ino: Ino,
    /// Where the copy lies. Nobody else names that block.
    pub to: &'a Relocation,
    /// Of a content map in pages: those that hold any of these bytes are looked at, and no others.
    pub within: Range<u64>,
    /// The number under which is left what is named no longer.
    pub hidden_ino: Ino,
}

/// What a file names anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Relocated {
    /// Bytes of it.
    pub bytes: u64,
    /// Runs that hold them, before and after.
    pub runs: (usize, usize),
}

impl Planner for RelocateContent<'_> {
    /// Nothing of the file was where it was copied from if this says no bytes; then nothing has
    /// changed.
    type Output = Relocated;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<Relocated>, Halt> {
        let known = Known::find(view, self.ino)?;
        let old = known.inode.file().ok_or(FsError::IsADirectory)?;
        let mut change = Change::of(self.ino, old, File::clone(old));
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

impl Change<'_> {
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

    /// Lays pages out anew, from the first to the last one of which anything has moved.
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
        let (dropped, behind) = rest.split_at(last + 1 - first);
        self.dropped.extend(dropped.iter().map(|page| page.page));
        let is_whole = before.is_empty() && behind.is_empty();
        self.file.content = if is_whole && slices.len() <= INODE_SLICES_MAX {
            Content::Slices(slices)
        } else {
            Content::Pages([before, &self.page(&slices), behind].concat())
        };
        Ok(relocated)
    }

    /// Slices where those lie that were copied.
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
