//! The journal of replies: requests that may have changed something and are not answered yet.
//!
//! A request gets an entry before it changes anything. The entry says where the change can be
//! looked up in the store: the *idempotency slot* and the *step*. A slot is a record of the session
//! in which each plan (one conditional commit) writes its step, a number. So the record proves
//! whether the plan happened. When the outcome is known, it is written to the entry before the slot
//! is used for another change. The entry is removed after the reply. So the next worker knows for
//! each request that the kernel sends again whether it was executed.
//!
//! In each state of its [`Progress`], the entry is removed when the request is answered.
//!
//! For example, a worker is killed in state [`Progress::Sent`]. The next worker reads the slot from
//! the store: if its step is the entry's step, the change was committed, and the request is
//! answered without executing it again.
//!
//! A flush (the commit of a file's dirty data) has an entry too. By it, the next worker knows
//! whether the changes in a file's log up to some position are committed. Instead of a request
//! number, its key is the generation of the log, a number that no other log has.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use record::Ino;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::warn;

use crate::layout::JOURNAL_AT;
use crate::table::Table;

/// The maximum number of entries of the journal, the ledger's table of requests that may have
/// changed something and are not answered. Further requests wait until one is answered.
pub const JOURNAL_MAX: u32 = 8_192;

/// The number of the journal among the ledger's tables.
pub(crate) const TABLE: u64 = 0;

/// The number of 64-bit words in an entry. They are: request, or the generation of a log for a
/// flush; inode of the created node, or offset up to which a flush commits the log; slot, with the
/// progress above it; step.
pub(crate) const WORDS: usize = 4;

/// The position of the first bit of the progress in the third word. The number of the idempotency
/// slot is below it.
pub(crate) const PROGRESS_SHIFT: u32 = 32;

/// The progress of the change that a request or a flush makes in the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The change was not sent to the store, or the store did not commit it.
    #[default]
    NotSent,
    /// The change was sent to the store, and its outcome is unknown. The record of the idempotency
    /// slot shows it.
    Sent,
    /// The change was committed. If the kernel sends the request again, it is only answered.
    Done,
}

impl Progress {
    fn word(self) -> u64 {
        match self {
            Progress::NotSent => 0,
            Progress::Sent => 1,
            Progress::Done => 2,
        }
    }

    fn of(word: u64) -> Progress {
        match word {
            0 => Progress::NotSent,
            1 => Progress::Sent,
            _ => Progress::Done,
        }
    }
}

/// The journal: the table of requests that may have changed something and are not answered yet.
#[derive(Debug)]
pub(crate) struct Journal {
    pub(crate) table: Table<WORDS>,
    /// One permit for each place in the table that is free.
    pub(crate) permits: Arc<Semaphore>,
    /// The entries that earlier workers (processes of the mount) left, by request.
    pub(crate) inherited: Mutex<HashMap<u64, InheritedEntry>>,
}

/// A journal entry that an earlier worker (process of the mount) left because it ended before it
/// answered the request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InheritedEntry {
    /// The place of the entry in the table.
    pub(crate) index: u32,
    /// The inode number of the node that the request created, or for a flush the offset up to which
    /// it commits the log; 0 if none.
    pub(crate) node: u64,
    pub(crate) progress: Progress,
    /// The idempotency slot, the number of the session's record in which the change writes its
    /// step.
    pub(crate) slot: u16,
    /// The step, the number that the record of the slot has if the change happened.
    pub(crate) step: u64,
}

/// A request or flush of an earlier worker (process of the mount) whose outcome is unknown: that
/// worker sent the change to the store and ended before it got an answer. The record of the
/// idempotency slot shows whether the change happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InDoubt {
    /// The number of the kernel's request, or the key of a flush.
    pub request: u64,
    /// The idempotency slot: the number of the session's record in which the change writes its
    /// step.
    pub slot: u16,
    /// The step: the number that the record of the slot has if the change happened and no later one
    /// used the slot.
    pub step: u64,
}

/// The journal entry of one request, by which the next worker (process of the mount) knows whether
/// the request was executed. When this and all its clones are dropped, the entry is removed,
/// because the request has been answered. A request that needs no entry has an empty note, whose
/// methods do nothing.
#[derive(Clone, Default)]
pub struct Note(pub(crate) Option<Arc<NotedRequest>>);

/// A request or flush with an entry in the journal. The entry is removed when this is dropped.
pub(crate) struct NotedRequest {
    pub(crate) journal: Arc<Journal>,
    pub(crate) index: u32,
    pub(crate) request: u64,
    pub(crate) state: Mutex<State>,
    /// The permit for the entry's place in the journal. `None` for an entry of an earlier worker,
    /// whose place was never free.
    pub(crate) permit: Option<OwnedSemaphorePermit>,
}

/// The part of a journal entry that changes: the created node, and the progress of the change with
/// its idempotency slot and step. Slot and step are 0 unless the progress is `Sent`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct State {
    pub(crate) node: u64,
    pub(crate) progress: Progress,
    pub(crate) slot: u16,
    pub(crate) step: u64,
}

impl State {
    pub(crate) fn entry(self, request: u64) -> [u64; WORDS] {
        [
            request,
            self.node,
            self.progress.word() << PROGRESS_SHIFT | u64::from(self.slot),
            self.step,
        ]
    }
}

impl Journal {
    /// Opens the journal, with the entries that earlier workers (processes of the mount) left.
    pub(crate) fn open(file: &Arc<File>) -> io::Result<Journal> {
        let (table, entries) = Table::open(file, TABLE, JOURNAL_AT, JOURNAL_MAX)?;
        let inherited: HashMap<u64, InheritedEntry> = entries
            .into_iter()
            .map(|(index, [request, node, slot_word, step])| {
                let slot = u16::try_from(slot_word & u64::from(u16::MAX)).unwrap_or_default();
                (
                    request,
                    InheritedEntry {
                        index,
                        node,
                        progress: Progress::of(slot_word >> PROGRESS_SHIFT),
                        slot,
                        step,
                    },
                )
            })
            .collect();
        // Entries of earlier workers take up places of the journal until they are resolved.
        let permits = Arc::new(Semaphore::new(JOURNAL_MAX as usize - inherited.len()));
        Ok(Journal { table, permits, inherited: Mutex::new(inherited) })
    }

    pub(crate) fn inherited(&self) -> MutexGuard<'_, HashMap<u64, InheritedEntry>> {
        self.inherited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the entry at this place of the table. A failure is only logged.
    pub(crate) fn clear(&self, index: u32) {
        if let Err(error) = self.table.clear(index) {
            warn!(%error, "cannot remove an entry from the ledger's journal");
        }
    }
}

impl Note {
    /// Returns an empty note, for a request that needs no journal entry. Its methods do nothing.
    pub const fn none() -> Note {
        Note(None)
    }

    /// Returns the number of the request that the journal entry is for; 0 for an empty note.
    pub fn request(&self) -> u64 {
        self.0.as_ref().map_or(0, |noted| noted.request)
    }

    /// Sets the inode number of the node that the request creates. It is written to the journal
    /// with the next change of the entry, and the next worker answers with it if the request is
    /// sent again.
    pub fn creates(&self, node: Ino) {
        let Some(noted) = &self.0 else { return };
        noted.state.lock().unwrap_or_else(PoisonError::into_inner).node = node.0;
    }

    /// Records in the journal that the request's change is about to be sent to the store, as step
    /// `step` of the idempotency slot `slot` (the session's record that proves whether the change
    /// happened). Call this before sending it. Fails if the ledger cannot be written; then do not
    /// send the change.
    pub fn sent(&self, slot: u16, step: u64) -> io::Result<()> {
        let Some(noted) = &self.0 else { return Ok(()) };
        let mut state = noted.state.lock().unwrap_or_else(PoisonError::into_inner);
        // The created node stays: it is known before the change is sent.
        *state = State { progress: Progress::Sent, slot, step, ..*state };
        noted.journal.table.put(noted.index, state.entry(noted.request))
    }

    /// Records in the journal whether the store has committed the request's change. Call this
    /// before the idempotency slot, the record that proves it, is used for another change.
    pub fn settled(&self, is_committed: bool) {
        let Some(noted) = &self.0 else { return };
        let mut state = noted.state.lock().unwrap_or_else(PoisonError::into_inner);
        // The slot is forgotten: it may be used for another change from now on.
        let progress = if is_committed { Progress::Done } else { Progress::NotSent };
        *state = State { progress, slot: 0, step: 0, ..*state };
        if let Err(error) = noted.journal.table.put(noted.index, state.entry(noted.request)) {
            warn!(%error, "cannot write an entry of the ledger's journal");
        }
    }
}

impl fmt::Debug for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Note({:#x})", self.request())
    }
}

impl Drop for NotedRequest {
    fn drop(&mut self) {
        self.journal.clear(self.index);
        // An inherited entry had no permit, but occupied one place of the journal.
        if self.permit.is_none() {
            self.journal.permits.add_permits(1);
        }
    }
}
