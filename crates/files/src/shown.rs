//! The attributes of an open file as programs see them, before they are committed. For example, a
//! program has written 100 bytes to an empty file: `stat` shows the size 100 and the time of the
//! write, while the file's record has the size 0.

use volume::{SetTime, without_rights};

use crate::attributes::NodeStat;
use crate::open::FileState;

impl FileState {
    /// Returns the attributes as programs see them: the committed ones with the flushing and dirty
    /// changes applied.
    pub(crate) fn attributes(&self) -> NodeStat {
        let mut shown = NodeStat::of(&self.node);
        // The commit sets times of its own, so these values must not be cached.
        shown.volatile_attributes = self.flushing.is_some() || self.is_dirty();
        let flushing =
            self.flushing.as_ref().map(|flushing| (&flushing.change, flushing.write_time));
        // Apply the changes in the order in which they were made: the flush first.
        for (change, written) in flushing.into_iter().chain([(&self.change, self.write_time)]) {
            if let Some(written) = written {
                (shown.modified, shown.changed) = (written, written);
            }
            if change.drop_rights {
                shown.mode = without_rights(shown.mode);
            }
            shown.mode = change.mode.unwrap_or(shown.mode);
            shown.uid = change.uid.unwrap_or(shown.uid);
            shown.gid = change.gid.unwrap_or(shown.gid);
            if let Some(SetTime::At(time)) = change.modified {
                shown.modified = time;
            }
            if let Some(SetTime::At(time)) = change.accessed {
                shown.accessed = time;
            }
        }
        if !self.life.is_linked() {
            shown.links = 0;
        }
        let flushing = self.flushing.as_ref().map_or(0, |flushing| flushing.extents.bytes());
        shown.with_dirty_bytes(self.size, self.dirty.bytes() + flushing)
    }
}
