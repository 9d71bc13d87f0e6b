//! The journal of replies: which requests have changed something and may not be answered yet.
//!
//! A request that is going to change something gets an entry, which says where its change can be
//! looked up: in which idempotency slot it goes, as which step. When the outcome is known the entry
//! says it, before the slot carries another change. The entry goes when the request has been answered. So
//! whoever comes after a worker that died knows of each request that the kernel sends again whether
//! it has been carried out.
//!
//! A flush has an entry, too: by it the next worker knows whether what stands in a file's log up to
//! some point has become the file's content. It stands under the use of the log, not under a request.

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

/// Requests that may change something at the same time; more wait.
pub const JOURNAL_MAX: u32 = 8_192;

pub(crate) const TABLE: u64 = 0;

/// What an entry says: the request, the node or how far a flush goes, the slot and what is known, the
/// step.
pub(crate) const WORDS: usize = 4;

/// Behind the slot's number: what is known.
pub(crate) const KNOWN_SHIFT: u32 = 32;
pub(crate) const NOTHING_SENT: u64 = 0;
pub(crate) const SENT: u64 = 1;
pub(crate) const DONE: u64 = 2;

#[derive(Debug)]
pub(crate) struct Journal {
    pub(crate) table: Table<WORDS>,
    pub(crate) permits: Arc<Semaphore>,
    /// What earlier workers left, by request.
    pub(crate) inherited: Mutex<HashMap<u64, InheritedEntry>>,
}

/// What an earlier worker left of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InheritedEntry {
    pub(crate) index: u32,
    pub(crate) node: u64,
    pub(crate) known: u64,
    pub(crate) slot: u16,
    pub(crate) step: u64,
}

/// What an earlier worker left in doubt: the change went as this step of this slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InDoubt {
    /// The request.
    pub request: u64,
    /// The slot.
    pub slot: u16,
    /// The step.
    pub step: u64,
}

/// A request that is going to change something, in the journal until this and all clones are
/// dropped: then it has been answered. Of a request that nobody need remember it says nothing.
#[derive(Clone, Default)]
pub struct Note(pub(crate) Option<Arc<NotedRequest>>);

pub(crate) struct NotedRequest {
    pub(crate) journal: Arc<Journal>,
    pub(crate) index: u32,
    pub(crate) request: u64,
    pub(crate) state: Mutex<State>,
    /// `None` of one that an earlier worker left.
    pub(crate) permit: Option<OwnedSemaphorePermit>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct State {
    pub(crate) node: u64,
    pub(crate) known: u64,
    pub(crate) slot: u16,
    pub(crate) step: u64,
}

impl State {
    pub(crate) fn entry(self, request: u64) -> [u64; WORDS] {
        [request, self.node, self.known << KNOWN_SHIFT | u64::from(self.slot), self.step]
    }
}

impl Journal {
    pub(crate) fn open(file: &Arc<File>) -> io::Result<Journal> {
        let (table, entries) = Table::open(file, TABLE, JOURNAL_AT, JOURNAL_MAX)?;
        let inherited: HashMap<u64, InheritedEntry> = entries
            .into_iter()
            .map(|(index, [request, node, known, step])| {
                let slot = u16::try_from(known & u64::from(u16::MAX)).unwrap_or_default();
                (request, InheritedEntry { index, node, known: known >> KNOWN_SHIFT, slot, step })
            })
            .collect();
        let permits = Arc::new(Semaphore::new(JOURNAL_MAX as usize - inherited.len()));
        Ok(Journal { table, permits, inherited: Mutex::new(inherited) })
    }

    pub(crate) fn inherited(&self) -> MutexGuard<'_, HashMap<u64, InheritedEntry>> {
        self.inherited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn clear(&self, index: u32) {
        if let Err(error) = self.table.clear(index) {
            warn!(%error, "an entry of the journal could not be removed");
        }
    }
}

impl Note {
    /// Of a request that nobody need remember.
    pub const fn none() -> Note {
        Note(None)
    }

    /// The request; 0 if nobody need remember it.
    pub fn request(&self) -> u64 {
        self.0.as_ref().map_or(0, |noted| noted.request)
    }

    /// The node that it makes.
    pub fn creates(&self, node: Ino) {
        let Some(noted) = &self.0 else { return };
        noted.state.lock().unwrap_or_else(PoisonError::into_inner).node = node.0;
    }

    /// Its change is about to be sent, as a step of a slot.
    pub fn sent(&self, slot: u16, step: u64) -> io::Result<()> {
        let Some(noted) = &self.0 else { return Ok(()) };
        let mut state = noted.state.lock().unwrap_or_else(PoisonError::into_inner);
        *state = State { known: SENT, slot, step, ..*state };
        noted.journal.table.put(noted.index, state.entry(noted.request))
    }

    /// What became of the change. Comes before the slot carries another one.
    pub fn settled(&self, happened: bool) {
        let Some(noted) = &self.0 else { return };
        let mut state = noted.state.lock().unwrap_or_else(PoisonError::into_inner);
        let known = if happened { DONE } else { NOTHING_SENT };
        *state = State { known, slot: 0, step: 0, ..*state };
        if let Err(error) = noted.journal.table.put(noted.index, state.entry(noted.request)) {
            warn!(%error, "an entry of the journal could not be written");
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
        if self.permit.is_none() {
            self.journal.permits.add_permits(1);
        }
    }
}
