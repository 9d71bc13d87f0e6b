//! Entering requests into the journal, and finding out what became of them.

use std::io;
use std::sync::{Arc, Mutex};

use record::Ino;
use tokio::sync::OwnedSemaphorePermit;

use crate::dirty::DirtyLog;
use crate::journal::{DONE, Fate, Left, NOTHING_SENT, Note, Noted, SENT, State};
use crate::ledger::Ledger;

impl Ledger {
    /// Enters a request before it changes anything. Waits while there are
    /// [`JOURNAL_MAX`](crate::JOURNAL_MAX).
    pub async fn note(&self, request: u64) -> io::Result<Note> {
        let permit = Arc::clone(&self.journal.permits).acquire_owned().await;
        let permit = permit.map_err(io::Error::other)?;
        self.enter(request, State::default(), permit)
    }

    /// Enters a flush of all that stands in a log by now, before it is carried out. It stands there
    /// until the log is cut. While the journal is full, nothing is noted: then what becomes content may
    /// be written once more by whoever follows.
    pub fn note_flush(&self, log: &DirtyLog) -> io::Result<Note> {
        let permit = Arc::clone(&self.journal.permits).try_acquire_owned();
        let Ok(permit) = permit else { return Ok(Note::none()) };
        self.enter(flush_of(log), State { node: log.end(), ..State::default() }, permit)
    }

    fn enter(&self, request: u64, state: State, permit: OwnedSemaphorePermit) -> io::Result<Note> {
        let index = self.journal.table.insert(state.entry(request))?;
        let journal = Arc::clone(&self.journal);
        let (state, permit) = (Mutex::new(state), Some(permit));
        Ok(Note(Some(Arc::new(Noted { journal, index, request, state, permit }))))
    }

    /// Up to where a log that an earlier worker left has become its file's content. It stays in the
    /// journal as long as the note, for which the log is to be cut.
    pub fn flushed(&self, log: &DirtyLog) -> Option<(u64, Note)> {
        self.carried_out(flush_of(log)).map(|(end, note)| (end.0, note))
    }

    /// What earlier workers left in doubt.
    pub fn doubts(&self) -> Vec<Fate> {
        let left = self.journal.left();
        let doubts = left.iter().filter(|(_, left)| left.known == SENT);
        doubts
            .map(|(request, left)| Fate { request: *request, slot: left.slot, step: left.step })
            .collect()
    }

    /// Says what became of what earlier workers left in doubt, as far as `happened` knows it. What was
    /// not carried out is forgotten.
    pub fn settle_doubts(&self, happened: impl Fn(&Fate) -> Option<bool>) -> io::Result<()> {
        let mut left = self.journal.left();
        for (request, entry) in left.iter_mut().filter(|(_, left)| left.known == SENT) {
            let fate = Fate { request: *request, slot: entry.slot, step: entry.step };
            match happened(&fate) {
                Some(true) => {
                    entry.known = DONE;
                    let state = State { node: entry.node, known: DONE, slot: 0, step: 0 };
                    self.journal.table.put(entry.index, state.entry(*request))?;
                }
                Some(false) => entry.known = NOTHING_SENT,
                None => {}
            }
        }
        left.retain(|_, entry| {
            if entry.known == NOTHING_SENT {
                self.journal.clear(entry.index);
                self.journal.permits.add_permits(1);
            }
            entry.known != NOTHING_SENT
        });
        Ok(())
    }

    /// Whether a request that the kernel has sent again was carried out by an earlier worker, and the
    /// node that it made, 0 if none. It stays in the journal as long as the note.
    pub fn carried_out(&self, request: u64) -> Option<(Ino, Note)> {
        let Left { index, node, .. } = self.journal.left().remove(&request)?;
        let journal = Arc::clone(&self.journal);
        let state = Mutex::new(State { node, known: DONE, slot: 0, step: 0 });
        let noted = Noted { journal, index, request, state, permit: None };
        Some((Ino(node), Note(Some(Arc::new(noted)))))
    }

    /// Forgets what earlier workers left and the kernel has not asked for: whoever did has gone.
    pub fn forget_unasked(&self) {
        let left: Vec<Left> = self.journal.left().drain().map(|(_, left)| left).collect();
        for left in left {
            self.journal.clear(left.index);
            self.journal.permits.add_permits(1);
        }
    }
}

/// A bit that no request has: the kernel counts them.
const FLUSH_BIT: u64 = 1 << 62;

fn flush_of(log: &DirtyLog) -> u64 {
    FLUSH_BIT | log.using()
}
