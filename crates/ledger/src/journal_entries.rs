//! Entering requests into the journal, and finding out what became of them.

use std::io;
use std::sync::{Arc, Mutex};

use record::Ino;
use tokio::sync::OwnedSemaphorePermit;

use crate::dirty::DirtyLog;
use crate::journal::{
    DONE, InDoubt, InheritedEntry, NOTHING_SENT, Note, NotedRequest, SENT, State,
};
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
        Ok(Note(Some(Arc::new(NotedRequest { journal, index, request, state, permit }))))
    }

    /// Up to where a log that an earlier worker left has become its file's content. It stays in the
    /// journal as long as the note, for which the log is to be cut.
    pub fn flushed(&self, log: &DirtyLog) -> Option<(u64, Note)> {
        self.take_executed(flush_of(log)).map(|(end, note)| (end.0, note))
    }

    /// What earlier workers left in doubt.
    pub fn in_doubt(&self) -> Vec<InDoubt> {
        let inherited = self.journal.inherited();
        let in_doubt = inherited.iter().filter(|(_, inherited)| inherited.known == SENT);
        in_doubt
            .map(|(request, inherited)| InDoubt {
                request: *request,
                slot: inherited.slot,
                step: inherited.step,
            })
            .collect()
    }

    /// Says what became of what earlier workers left in doubt, as far as `happened` knows it. What was
    /// not carried out is forgotten.
    pub fn settle_in_doubt(&self, happened: impl Fn(&InDoubt) -> Option<bool>) -> io::Result<()> {
        let mut inherited = self.journal.inherited();
        for (request, entry) in
            inherited.iter_mut().filter(|(_, inherited)| inherited.known == SENT)
        {
            let fate = InDoubt { request: *request, slot: entry.slot, step: entry.step };
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
        inherited.retain(|_, entry| {
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
    pub fn take_executed(&self, request: u64) -> Option<(Ino, Note)> {
        let InheritedEntry { index, node, .. } = self.journal.inherited().remove(&request)?;
        let journal = Arc::clone(&self.journal);
        let state = Mutex::new(State { node, known: DONE, slot: 0, step: 0 });
        let noted = NotedRequest { journal, index, request, state, permit: None };
        Some((Ino(node), Note(Some(Arc::new(noted)))))
    }

    /// Forgets what earlier workers left and the kernel has not asked for: whoever did has gone.
    pub fn forget_unclaimed(&self) {
        let inherited: Vec<InheritedEntry> =
            self.journal.inherited().drain().map(|(_, inherited)| inherited).collect();
        for inherited in inherited {
            self.journal.clear(inherited.index);
            self.journal.permits.add_permits(1);
        }
    }
}

/// A bit that no request has: the kernel counts them.
const FLUSH_BIT: u64 = 1 << 62;

fn flush_of(log: &DirtyLog) -> u64 {
    FLUSH_BIT | log.generation()
}
