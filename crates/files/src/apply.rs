//! The effect of a change on the state of an open file.
//!
//! [`FileState::apply`] is the one place that makes a [`FileChange`]. The request of a program logs
//! the change and applies it, the next worker (process of the mount) reads it from the log and
//! applies it: both get the same state. For example, a program sets the modification time of a file
//! and then extends it with fallocate(2): the time of the extension replaces the one that was set,
//! also after a replay.
//!
//! The memory of a write is not part of the change. A request reserves it before it logs the write,
//! and may have to wait for it; a replay takes what is free.

use std::ops::Range;

use record::Timestamp;
use volume::{AttributeChange, SetTime, without_rights};

use crate::file_change::FileChange;
use crate::open::FileState;

impl FileState {
    /// Makes a change of the file: the same for a change of a program and for one that is replayed
    /// from the log of an earlier worker.
    pub(crate) fn apply(&mut self, change: &FileChange<'_>) {
        match *change {
            FileChange::Write { bytes, appends, drop_rights, now, .. } => {
                if let Some(Range { start, end }) = self.written_range(change) {
                    self.note_write(start, end, appends);
                    self.dirty.write(start, bytes);
                    self.size = self.size.max(end);
                }
                self.touch(now, drop_rights);
            }
            FileChange::Resize { size, drop_rights, now } => {
                if self.size != size {
                    self.resize(size);
                }
                self.touch(now, drop_rights);
            }
            FileChange::Extend { size, now } => {
                let size = self.size.max(size);
                self.note_resize(size);
                self.size = size;
                self.touch(now, false);
            }
            FileChange::Set { attributes, now } => self.set(&attributes, now),
            FileChange::Unlinked => self.life = self.life.unlinked(),
            FileChange::Name { .. } => self.life = self.life.named(),
            FileChange::Record { .. } => self.log.has_record = true,
            // The store decides if the creation is still to be committed, and the other two entries
            // are about requests.
            FileChange::Created { .. } | FileChange::NameInUse { .. } | FileChange::Executed => {}
        }
    }

    /// Returns the range that a write covers; `None` for other changes. An append goes to the end
    /// of the file as it is now. While a log is replayed, that can be another end than the one in
    /// the log, because another client has appended.
    pub(crate) fn written_range(&self, change: &FileChange<'_>) -> Option<Range<u64>> {
        let FileChange::Write { position, bytes, appends, .. } = *change else { return None };
        let start = if appends { self.size } else { position };
        Some(start..start.checked_add(bytes.len() as u64)?)
    }

    /// Sets the file size to `size` bytes, as `ftruncate` does. Growing leaves a hole.
    pub(crate) fn resize(&mut self, size: u64) {
        self.note_resize(size);
        // Dirty bytes after the new end are gone, also if the file grows again later.
        self.dirty.cut(size);
        // Only if the truncation hides bytes of the layers below, and then only the smallest cut
        // counts.
        let shown = self.cut.unwrap_or(u64::MAX).min(self.base_size());
        if size < shown {
            self.cut = Some(size);
        }
        self.size = size;
    }

    /// Sets the time of the last write to `now`. A modification time that was set before it is
    /// dropped.
    fn touch(&mut self, now: Timestamp, drop_rights: bool) {
        self.write_time = Some(now);
        self.change.modified = None;
        if drop_rights {
            self.drop_rights();
        }
    }

    /// Clears the set-user-ID and set-group-ID bits, also in a pending change of the mode.
    fn drop_rights(&mut self) {
        self.change.drop_rights = true;
        self.change.mode = self.change.mode.map(without_rights);
    }

    /// Adds an attribute change, which the next flush commits together with the dirty data.
    fn set(&mut self, change: &AttributeChange, now: Timestamp) {
        let at = |time: SetTime| match time {
            SetTime::Now => SetTime::At(now),
            time @ SetTime::At(_) => time,
        };
        if change.drop_rights {
            self.drop_rights();
        }
        self.change.mode = change.mode.or(self.change.mode);
        self.change.uid = change.uid.or(self.change.uid);
        self.change.gid = change.gid.or(self.change.gid);
        self.change.accessed = change.accessed.map(at).or(self.change.accessed);
        self.change.modified = change.modified.map(at).or(self.change.modified);
    }
}
