//! The queue of files that the compactor looks at.
//!
//! For example, a program overwrites 4 KiB at random positions of a large file. Its gateway queues
//! the file at the first write, and the compactor looks at it 250 ms later, once for all writes
//! until then.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use record::{BlockId, Content, Ino, Inode};
use session::scan::slices_of;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::repack_queue::is_sparse;

/// The delay between a write to a file and the compactor's look at the file, so that one look
/// serves several writes.
pub const COMPACT_DELAY: Duration = Duration::from_millis(250);

/// The most files that wait for the compactor. The next survey finds the others.
const NOTES_MAX: usize = 65_536;

/// The times of a file that waits for the compactor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Note {
    /// The time at which the compactor is to look at it.
    pub(crate) due: Instant,
    /// The time of the file's last known write.
    pub(crate) written: Instant,
}

/// The queue of files that the compactor looks at, because later writes may have hidden much of
/// their blocks.
#[derive(Debug, Default)]
pub(crate) struct CompactQueue {
    notes: Mutex<Notes>,
    /// Notified when a file was queued that was not before.
    pub(crate) noted: Arc<Notify>,
    /// Locked while the compactor works on a file.
    pub(crate) round: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Notes {
    files: BTreeMap<Ino, Note>,
    /// Files that are not looked at before the given time, because a look at them takes long.
    resting: BTreeMap<Ino, Instant>,
}

impl CompactQueue {
    /// Queues a file for the compactor that was written to now.
    pub(crate) fn note(&self, ino: Ino) {
        let now = Instant::now();
        let mut notes = self.notes();
        let rested = notes.resting.get(&ino).copied().unwrap_or(now);
        let has_room = notes.files.len() < NOTES_MAX;
        match notes.files.get_mut(&ino) {
            // The due time stays: a file that is written to all the time is looked at all the same.
            Some(note) => note.written = now,
            None if has_room => {
                let due = (now + COMPACT_DELAY).max(rested);
                notes.files.insert(ino, Note { due, written: now });
                self.noted.notify_one();
            }
            None => {}
        }
    }

    /// Queues a file for the compactor with the given times, unless it is queued already.
    pub(crate) fn note_for_later(&self, ino: Ino, note: Note) {
        self.notes().files.entry(ino).or_insert(note);
    }

    /// Lets the compactor leave a file alone for `time`, even if it is written to meanwhile.
    pub(crate) fn rest(&self, ino: Ino, time: Duration) {
        let (now, mut notes) = (Instant::now(), self.notes());
        notes.resting.retain(|_, until| *until > now);
        // Beyond the limit the file is only looked at more often than needed.
        if notes.resting.len() < NOTES_MAX {
            notes.resting.insert(ino, now + time);
        }
    }

    /// Returns the time at which the compactor is to look at the next file; `None` if the queue is
    /// empty.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.notes().files.values().map(|note| note.due).min()
    }

    /// Removes the file from the queue at which the compactor is to look first, and returns it.
    /// Returns `None` if no file is due at `until`. If `until` is `None`, every queued file is due.
    pub(crate) fn take_due(&self, until: Option<Instant>) -> Option<(Ino, Note)> {
        let mut notes = self.notes();
        let (ino, note) = notes.files.iter().min_by_key(|(_, note)| note.due)?;
        let (ino, note) = (*ino, *note);
        if until.is_some_and(|until| note.due > until) {
            return None;
        }
        notes.files.remove(&ino);
        Some((ino, note))
    }

    /// Each statement leaves the queue consistent, so a poisoned lock is still usable.
    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns true if a file may have blocks of which little is visible, judged by its inode's record
/// alone. A content map in pages is not read here, so every such file qualifies that was ever
/// written in place.
pub(crate) fn may_need_compaction(inode: &Inode) -> bool {
    match inode.file().map(|file| (&file.content, file.pages_made)) {
        Some((Content::Pages(pages), made)) => made as usize > pages.len(),
        Some((Content::Slices(_), _)) => {
            let mut live: BTreeMap<BlockId, (u64, u32)> = BTreeMap::new();
            // Packs have counters of their live bytes, and the rewriter moves them.
            for slice in slices_of(inode).iter().filter(|slice| !slice.block.is_pack()) {
                let (live, length) = live.entry(slice.block).or_default();
                (*live, *length) = (*live + u64::from(slice.length), slice.block_length);
            }
            live.values().any(|(live, length)| is_sparse(*live, *length))
        }
        Some((Content::Inline(_), _)) | None => false,
    }
}
