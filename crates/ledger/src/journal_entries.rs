//! Writing the journal (the table of requests that may have changed something and are not
//! answered), and resolving the entries that earlier workers (processes of the mount) left in it.

use std::io;
use std::sync::{Arc, Mutex};

use record::Ino;
use tokio::sync::OwnedSemaphorePermit;

use crate::dirty::DirtyLog;
use crate::journal::{InDoubt, InheritedEntry, Note, NotedRequest, Progress, State};
use crate::ledger::Ledger;

impl Ledger {
    /// Adds an entry for a request to the journal. Call this before the request changes anything.
    /// The entry stays until the returned note is dropped. Waits while the journal has
    /// [`JOURNAL_MAX`](crate::JOURNAL_MAX) entries.
    pub async fn note(&self, request: u64) -> io::Result<Note> {
        let permit = Arc::clone(&self.journal.permits).acquire_owned().await;
        let permit = permit.map_err(io::Error::other)?;
        self.enter(request, State::default(), permit)
    }

    /// Adds an entry for a flush to the journal, which commits all changes that the log of a file
    /// has now. Call this before the flush begins, and keep the note until the log is trimmed. If
    /// the journal is full, returns an empty note: the next worker may then commit the changes
    /// again, which has the same result.
    pub fn note_flush(&self, log: &DirtyLog) -> io::Result<Note> {
        let permit = Arc::clone(&self.journal.permits).try_acquire_owned();
        // This runs under the lock of the file's state, so it must not wait.
        let Ok(permit) = permit else { return Ok(Note::none()) };
        self.enter(flush_of(log), State { node: log.end(), ..State::default() }, permit)
    }

    /// Adds an entry with this key and state to the journal. Returns its note, which removes the
    /// entry when it is dropped.
    fn enter(&self, request: u64, state: State, permit: OwnedSemaphorePermit) -> io::Result<Note> {
        let index = self.journal.table.insert(state.entry(request))?;
        let journal = Arc::clone(&self.journal);
        let (state, permit) = (Mutex::new(state), Some(permit));
        Ok(Note(Some(Arc::new(NotedRequest { journal, index, request, state, permit }))))
    }

    /// Returns the offset up to which the changes in an inherited log (a log that an earlier worker
    /// left) were committed by a flush whose log was not trimmed before that worker ended. `None`
    /// if there was no such flush. The journal entry stays while the note lives; drop the note
    /// after the log is trimmed.
    pub fn flushed(&self, log: &DirtyLog) -> Option<(u64, Note)> {
        self.take_executed(flush_of(log)).map(|(end, note)| (end.0, note))
    }

    /// Returns the requests and flushes of earlier workers whose outcome is unknown: their change
    /// was sent to the store, and the worker ended before it got an answer.
    pub fn in_doubt(&self) -> Vec<InDoubt> {
        let inherited = self.journal.inherited();
        let in_doubt =
            inherited.iter().filter(|(_, inherited)| inherited.progress == Progress::Sent);
        in_doubt
            .map(|(request, inherited)| InDoubt {
                request: *request,
                slot: inherited.slot,
                step: inherited.step,
            })
            .collect()
    }

    /// Resolves the requests and flushes of earlier workers whose outcome is unknown.
    /// `is_committed` returns true if the change was committed, false if not, and `None` if it does
    /// not know, which leaves the entry as it is. The entries of requests that were not executed
    /// are removed, so these requests are executed if the kernel sends them again.
    pub fn settle_in_doubt(
        &self,
        is_committed: impl Fn(&InDoubt) -> Option<bool>,
    ) -> io::Result<()> {
        let mut inherited = self.journal.inherited();
        for (request, entry) in
            inherited.iter_mut().filter(|(_, inherited)| inherited.progress == Progress::Sent)
        {
            let in_doubt = InDoubt { request: *request, slot: entry.slot, step: entry.step };
            match is_committed(&in_doubt) {
                Some(true) => {
                    entry.progress = Progress::Done;
                    let state =
                        State { node: entry.node, progress: Progress::Done, slot: 0, step: 0 };
                    self.journal.table.put(entry.index, state.entry(*request))?;
                }
                Some(false) => entry.progress = Progress::NotSent,
                None => {}
            }
        }
        inherited.retain(|_, entry| {
            if entry.progress == Progress::NotSent {
                self.journal.clear(entry.index);
                self.journal.permits.add_permits(1);
            }
            entry.progress != Progress::NotSent
        });
        Ok(())
    }

    /// Takes over the entry of a resent request from the journal, if an earlier worker executed the
    /// request. Returns the inode number of the node that the request created (0 if none). `None`
    /// if the request must be executed. The entry stays while the note lives; drop the note after
    /// the reply.
    pub fn take_executed(&self, request: u64) -> Option<(Ino, Note)> {
        let InheritedEntry { index, node, .. } = self.journal.inherited().remove(&request)?;
        let journal = Arc::clone(&self.journal);
        let state = Mutex::new(State { node, progress: Progress::Done, slot: 0, step: 0 });
        let noted = NotedRequest { journal, index, request, state, permit: None };
        Some((Ino(node), Note(Some(Arc::new(noted)))))
    }

    /// Removes the remaining journal entries of earlier workers. The kernel has not sent these
    /// requests again: their programs were killed and do not wait for a reply.
    pub fn forget_unclaimed(&self) {
        let inherited: Vec<InheritedEntry> =
            self.journal.inherited().drain().map(|(_, inherited)| inherited).collect();
        for inherited in inherited {
            self.journal.clear(inherited.index);
            self.journal.permits.add_permits(1);
        }
    }
}

/// The bit that marks the key of a flush in the journal. No request number has it, because the
/// kernel counts them up from small numbers.
const FLUSH_BIT: u64 = 1 << 62;

/// Returns the key of a flush in the journal, made of the generation of the file's log.
fn flush_of(log: &DirtyLog) -> u64 {
    FLUSH_BIT | log.generation()
}
