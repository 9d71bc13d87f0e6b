//! The log of uncommitted changes of each open file, in the ledger. The ledger is a file in memory
//! that survives the worker, the process that serves the mount.
//!
//! Each change is logged before it is made, so that the next worker can replay it if this one is
//! killed. Data that programs have written is then lost only with the machine. Replaying a change
//! twice has the same result as once. A successful flush trims the log, that is, removes the
//! changes that it has committed.
//!
//! If a file loses its last name, its record may be deleted, and a flush may need a name. So the
//! log also has names and, if necessary, a copy of the record. For example, a program writes to an
//! open file, and another one unlinks it: the log has the name, the write, the copy of the record,
//! and the unlink.

use bytes::Bytes;
use ledger::{DirtyLog, Ledger};
use record::{Content, Ino};
use rustix::io::Errno;
use tracing::error;
use volume::{NodeName, Note};

use crate::file_change::FileChange;
use crate::files::Files;
use crate::open::FileState;

/// Appends a change to the log of a file, as made by the request with this number.
pub(crate) fn append_change(
    ledger: &Ledger,
    log: &mut DirtyLog,
    request: u64,
    change: &FileChange<'_>,
) -> std::io::Result<()> {
    let (kind, words, bytes) = change.encode();
    ledger.log(log, kind, request, words, bytes)
}

impl Files {
    /// Makes a change of an open file: logs it in the ledger, and applies it to the state. The log
    /// comes first, because the next worker (process of the mount) repeats what the log has, and
    /// the program gets its answer after both. Fails with `EIO`, and changes nothing, if the ledger
    /// cannot be written.
    pub(crate) fn log_and_apply(
        &self,
        state: &mut FileState,
        change: &FileChange<'_>,
    ) -> Result<(), Errno> {
        self.log(state, change)?;
        state.apply(change);
        Ok(())
    }

    /// Appends a change of an open file to its log in the ledger. Call this before the change is
    /// made. If the file has no log yet, begins one, with the name of the file. Does nothing if the
    /// mount has no ledger. Fails with `EIO` if the ledger cannot be written.
    pub(crate) fn log(&self, state: &mut FileState, change: &FileChange<'_>) -> Result<(), Errno> {
        let Some(ledger) = &self.options.ledger else { return Ok(()) };
        let failed = |failure: std::io::Error| {
            error!(%failure, "cannot log a change in the ledger; the operation fails with EIO");
            Errno::IO
        };
        let is_new = !state.log.has_begun();
        if is_new {
            state.log.log = Some(ledger.begin_log(state.node.ino).map_err(failed)?);
        }
        let Some(log) = &mut state.log.log else { return Ok(()) };
        let mut append = |change: &FileChange<'_>| append_change(ledger, log, self.request, change);
        if is_new {
            let created = state.creation.as_ref().map(|creation| creation.name.clone());
            // Without its name the next worker could not create a new file.
            let name = created.or_else(|| self.names.get(state.node.ino));
            if let Some(NodeName { directory, name }) = name {
                append(&FileChange::Name { directory, name: &name }).map_err(failed)?;
            }
            if state.life.is_unlinked() {
                append(&FileChange::Unlinked).map_err(failed)?;
            }
        }
        append(change).map_err(failed)
    }

    /// Removes the changes before offset `end` from the file's log in the ledger, after a flush has
    /// committed them. Ends the log if it has nothing else that the next worker (process of the
    /// mount) needs. Otherwise logs the name, the removal of the last name and the copy of the
    /// record again, if they were logged.
    pub(crate) fn trim_log(&self, state: &mut FileState, end: u64) {
        let Some(ledger) = &self.options.ledger else { return };
        let has_record = state.log.has_record;
        let is_answered = state.unanswered_appends.is_empty();
        // Nothing that the next worker needs is left in the log.
        if !state.is_dirty() && !state.life.is_unlinked() && !has_record && is_answered {
            return self.end_log(state);
        }
        let Some(log) = &mut state.log.log else { return };
        // The trimmed part had the proof that these appends were executed. Log them as executed, or
        // the next worker would append again if the kernel sends the request again.
        for request in &state.unanswered_appends {
            if let Err(failure) = append_change(ledger, log, *request, &FileChange::Executed) {
                error!(%failure, "cannot record an executed request in the ledger");
            }
        }
        // Names and the record are still needed: after the trim, they are logged again at the end
        // of the log.
        if let Err(failure) = ledger.trim_log(log, end) {
            error!(%failure, "cannot trim the log of dirty data in the ledger");
        }
        let log_again = |state: &mut FileState, change: &FileChange<'_>| {
            // A failure is logged by `log`. The next worker then knows less about a file without a
            // name.
            let _reported = self.log(state, change);
        };
        if let Some(NodeName { directory, name }) = self.names.get(state.node.ino) {
            log_again(state, &FileChange::Name { directory, name: &name });
        }
        if state.life.is_unlinked() {
            log_again(state, &FileChange::Unlinked);
        }
        if has_record {
            let record: Bytes = state.node.record.clone();
            log_again(state, &FileChange::Record { record: &record });
        }
    }

    /// Adds an entry to the ledger's journal for a flush that commits all changes in the file's
    /// log. By the entry, the next worker (process of the mount) knows whether the flush was
    /// committed. Returns an empty entry if there is no ledger or the file has no log.
    pub(crate) fn note_flush(&self, state: &FileState) -> Result<Note, Errno> {
        let (Some(ledger), Some(log)) = (&self.options.ledger, &state.log.log) else {
            return Ok(Note::none());
        };
        ledger.note_flush(log).map_err(|failure| {
            error!(%failure, "cannot enter a flush into the ledger's journal");
            Errno::IO
        })
    }

    /// Removes the file's log from the ledger, because the file has no dirty data or is closed.
    pub(crate) fn end_log(&self, state: &mut FileState) {
        let Some(ledger) = &self.options.ledger else { return };
        if let Some(log) = std::mem::take(&mut state.log).log {
            ledger.end_log(&log);
        }
    }

    /// Notes that the last name of an open file was removed, in its log and in its state.
    pub(crate) fn note_last_unlink(&self, state: &mut FileState) {
        // The name is gone, also if the ledger cannot be written. Then the next worker shows one
        // link too many.
        let _reported = self.log(state, &FileChange::Unlinked);
        state.apply(&FileChange::Unlinked);
    }

    /// Notes a name of an open file in its state, and in its log if it has one.
    pub(crate) fn note_name(&self, state: &mut FileState, name: &NodeName) {
        let NodeName { directory, name } = name;
        let change = FileChange::Name { directory: *directory, name };
        if state.log.has_begun() {
            // If this fails, the first flush of the next worker can fail with `ESTALE`.
            let _reported = self.log(state, &change);
        }
        state.apply(&change);
    }

    /// Logs the name of a file that is opened for writing, if its dentry (the record of the name)
    /// is marked self-contained (`marked_in_dentry`). The first flush changes the dentry too, so
    /// the next worker (process of the mount) needs the name to repeat it.
    pub(crate) fn log_self_contained_name(&self, state: &mut FileState) -> Result<(), Errno> {
        let is_self_contained = state.node.inode.file().is_some_and(|file| file.marked_in_dentry);
        if is_self_contained
            && !state.log.has_begun()
            && let Some(NodeName { directory, name }) = self.names.get(state.node.ino)
        {
            self.log(state, &FileChange::Name { directory, name: &name })?;
        }
        Ok(())
    }

    /// Appends the new name of a renamed file to its log, if the file is open and has a log.
    pub(crate) async fn log_name(&self, ino: Ino, name: &NodeName) {
        if self.options.ledger.is_some()
            && let Some(file) = self.open.get(ino)
        {
            let mut state = file.state.lock().await;
            if state.log.has_begun() && !state.life.is_unlinked() {
                self.note_name(&mut state, name);
            }
        }
    }

    /// Logs a copy of the record of each open file that may lose its last name by removing `name`,
    /// if the record contains the content (inline content). The store deletes the record then, and
    /// programs that have the file open still need the content. Fails with `EIO` if the ledger
    /// cannot be written.
    pub(crate) async fn log_record(&self, name: &NodeName) -> Result<(), Errno> {
        if self.options.ledger.is_none() {
            return Ok(());
        }
        let known = |ino| self.names.get(ino).as_ref() == Some(name);
        for file in self.open.all().into_iter().filter(|file| known(file.ino)) {
            let mut state = file.state.lock().await;
            let content = state.node.inode.file().map(|file| &file.content);
            if matches!(content, Some(Content::Inline(_))) {
                let record: Bytes = state.node.record.clone();
                self.log_and_apply(&mut state, &FileChange::Record { record: &record })?;
            }
        }
        Ok(())
    }
}
