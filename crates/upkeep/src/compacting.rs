//! Files that are worth a look by the compactor.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use record::{BlockId, Content, Ino, Inode};
use session::scan::slices_of;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::sparse::is_sparse;

/// How long after a write a file is looked at, so that a look is worth several writes.
pub const COMPACT_DELAY: Duration = Duration::from_millis(250);

/// The most files that are noted; the others are found by the next survey.
const NOTES_MAX: usize = 65_536;

/// A file that was written to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Note {
    /// When it is to be looked at.
    pub(crate) due: Instant,
    /// When it was written to last, as far as is known.
    pub(crate) written: Instant,
}

/// What the compactor knows between its rounds.
#[derive(Debug, Default)]
pub(crate) struct Compacting {
    notes: Mutex<Notes>,
    /// Notified when a file was noted that was not before.
    pub(crate) noted: Arc<Notify>,
    /// Held while a file is worked on.
    pub(crate) round: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Notes {
    files: BTreeMap<Ino, Note>,
    /// Until when files that took long to look at are left alone.
    resting: BTreeMap<Ino, Instant>,
}

impl Compacting {
    /// Takes note of a file that was written to.
    pub(crate) fn note(&self, ino: Ino) {
        let now = Instant::now();
        let mut notes = self.notes();
        let rested = notes.resting.get(&ino).copied().unwrap_or(now);
        let has_room = notes.files.len() < NOTES_MAX;
        match notes.files.get_mut(&ino) {
            Some(note) => note.written = now,
            None if has_room => {
                let due = (now + COMPACT_DELAY).max(rested);
                notes.files.insert(ino, Note { due, written: now });
                self.noted.notify_one();
            }
            None => {}
        }
    }

    /// Takes note of a file that is to be looked at later, unless it is noted by now.
    pub(crate) fn note_for_later(&self, ino: Ino, note: Note) {
        self.notes().files.entry(ino).or_insert(note);
    }

    /// Leaves a file alone for a while, though it may be noted meanwhile.
    pub(crate) fn rest(&self, ino: Ino, time: Duration) {
        let (now, mut notes) = (Instant::now(), self.notes());
        notes.resting.retain(|_, until| *until > now);
        if notes.resting.len() < NOTES_MAX {
            notes.resting.insert(ino, now + time);
        }
    }

    /// When the next file is to be looked at.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.notes().files.values().map(|note| note.due).min()
    }

    /// The file that has been due for longest by `until`, which is noted no longer.
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

    /// The notes are whole between any two statements, so a panic elsewhere leaves them usable.
    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a file may have blocks of which little shows, by its record alone. What a content map in
/// pages names is not known by it, so that each is worth a look that was ever written to in place.
pub(crate) fn is_worth_a_look(inode: &Inode) -> bool {
    match inode.file().map(|file| (&file.content, file.pages_made)) {
        Some((Content::Pages(pages), made)) => made as usize > pages.len(),
        Some((Content::Slices(_), _)) => {
            let mut live: BTreeMap<BlockId, (u64, u32)> = BTreeMap::new();
            // Packs have counters, and the rewriter of packs.
            for slice in slices_of(inode).iter().filter(|slice| !slice.block.is_pack()) {
                let (live, length) = live.entry(slice.block).or_default();
                (*live, *length) = (*live + u64::from(slice.length), slice.block_length);
            }
            live.values().any(|(live, length)| is_sparse(*live, *length))
        }
        Some((Content::Inline(_), _)) | None => false,
    }
}
