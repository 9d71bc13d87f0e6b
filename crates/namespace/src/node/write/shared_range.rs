//! The range of a file that another file will share. For example, `cp --reflink` of 1 GiB makes the
//! copy name the blocks of its source.

use std::ops::Range;

use record::{Encryption, Ino, Slice, Tag, key};
use store::{Plan, Value};

use crate::node::KnownInode;
use crate::view::View;
use crate::{Assumption, FsError, Halt};

/// A range of a file that will name the blocks of another range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedRange {
    /// The range in the file that changes. If it ends after the end of the file, the file grows.
    pub range: Range<u64>,
    /// The slices of the range, sorted by position, without overlap. Gaps between them become
    /// holes.
    pub slices: Vec<Slice>,
    /// The inode number of the file from which the slices were read.
    pub source: Ino,
    /// The inode's record of that file, as the slices were read. The change fails if it has
    /// changed.
    pub record: Value,
    /// The mode of encryption of that file. Blocks keep their ring key, so a file of another mode
    /// cannot name them: the change then fails with `ContentReplaced`.
    pub encryption: Option<Encryption>,
    /// The source's entity tag if the range is the complete source. If the range also becomes the
    /// complete file, the file gets this tag.
    pub tag: Option<Tag>,
}

impl SharedRange {
    /// Guards that the source still has the slices that were read. Fails with `SourceChanged`.
    pub(super) fn guard_source(
        &self,
        view: &mut View<'_>,
        ino: Ino,
        known: &KnownInode,
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
