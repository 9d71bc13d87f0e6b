//! The journal of replies: requests that may have changed something and are not answered yet.
//!
//! A request gets an entry before it changes anything. The entry says where the change can be
//! looked up in the store: the idempotency slot and its step. When the outcome is known, it is
//! written to the entry before the slot is used for another change. The entry is removed after the
//! reply. So the next worker knows for each request that the kernel sends again whether it was
//! executed.
//!
//! In each state of its [`Progress`], the entry is removed when the request is answered.
//!
//! For example, a worker is killed in state [`Progress::Sent`]. The next worker reads the slot from
//! the store: if its step is the entry's step, the change was committed, and the request is
//! answered without executing it again.
//!
//! A flush has an entry too. By it, the next worker knows whether the changes in a file's log up to
//! some position are committed. The key of a flush is the generation of the log instead of a
//! request.

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

/// The maximum number of entries. Further requests wait.
pub const JOURNAL_MAX: u32 = 8_192;

pub(crate) const TABLE: u64 = 0;

/// The words of an entry: request; created node, or end of the flushed log; slot and state; step.
pub(crate) const WORDS: usize = 4;

/// The progress is stored above the slot's number.
pub(crate) const PROGRESS_SHIFT: u32 = 32;

/// The progress of a request's change.
///
/// ```text
///   NotSent ──sent──▶ Sent ──settled(true)──▶ Done
///      ▲                │
///      └─settled(false)─┘
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The change was not sent, or was not committed.
    #[default]
    NotSent,
    /// The change was sent, and its outcome is unknown: see the slot.
    Sent,
    /// The change was committed.
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

#[derive(Debug)]
pub(crate) struct Journal {
    pub(crate) table: Table<WORDS>,
    pub(crate) permits: Arc<Semaphore>,
    /// The entries of earlier workers, by request.
    pub(crate) inherited: Mutex<HashMap<u64, InheritedEntry>>,
}

/// An entry of an earlier worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InheritedEntry {
    pub(crate) index: u32,
    pub(crate) node: u64,
    pub(crate) progress: Progress,
    pub(crate) slot: u16,
    pub(crate) step: u64,
}

/// A request whose outcome the earlier worker did not know. Its change was sent as this step of
/// this slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InDoubt {
    /// The request.
    pub request: u64,
    /// The idempotency slot.
    pub slot: u16,
    /// The step of the slot.
    pub step: u64,
}

/// The journal entry of a request. When this and all clones are dropped, the request is answered
/// and the entry is removed. A request that needs no entry has an empty note.
#[derive(Clone, Default)]
pub struct Note(pub(crate) Option<Arc<NotedRequest>>);

pub(crate) struct NotedRequest {
    pub(crate) journal: Arc<Journal>,
    pub(crate) index: u32,
    pub(crate) request: u64,
    pub(crate) state: Mutex<State>,
    /// The permit of the entry; `None` for an entry of an earlier worker.
    pub(crate) permit: Option<OwnedSemaphorePermit>,
}

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

    pub(crate) fn clear(&self, index: u32) {
        if let Err(error) = self.table.clear(index) {
            warn!(%error, "cannot remove an entry from the ledger's journal");
        }
    }
}

impl Note {
    /// Returns an empty note.
    pub const fn none() -> Note {
        Note(None)
    }

    /// Returns the request; 0 for an empty note.
    pub fn request(&self) -> u64 {
        self.0.as_ref().map_or(0, |noted| noted.request)
    }

    /// Sets the node that the request creates.
    pub fn creates(&self, node: Ino) {
        let Some(noted) = &self.0 else { return };
        noted.state.lock().unwrap_or_else(PoisonError::into_inner).node = node.0;
    }

    /// Records that the change is about to be sent, as a step of a slot. Call this before sending
    /// it.
    pub fn sent(&self, slot: u16, step: u64) -> io::Result<()> {
        let Some(noted) = &self.0 else { return Ok(()) };
        let mut state = noted.state.lock().unwrap_or_else(PoisonError::into_inner);
        // The created node stays: it is known before the change is sent.
        *state = State { progress: Progress::Sent, slot, step, ..*state };
        noted.journal.table.put(noted.index, state.entry(noted.request))
    }

    /// Records the outcome of the change. Call this before the slot is used again.
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
