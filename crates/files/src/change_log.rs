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

use std::ops::Range;

use bytes::Bytes;
use ledger::{CHANGE_WORDS, DirtyLog, Ledger, LoggedChange};
use record::{Content, Ino, Timestamp};
use rustix::io::Errno;
use tracing::error;
use volume::{AttributeChange, NodeName, Note, SetTime};

use crate::files::Files;
use crate::open::FileState;

/// A change of an open file, as it is written to the file's log in the ledger. `now` is the time of
/// the change; `drop_rights` is true if the set-user-ID and set-group-ID bits are cleared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileChange<'a> {
    /// Bytes were written at `position`, or at the end of the file if `appends`.
    Write { position: u64, bytes: &'a [u8], appends: bool, drop_rights: bool, now: Timestamp },
    /// The size was set to `size` bytes.
    Resize { size: u64, drop_rights: bool, now: Timestamp },
    /// The file was extended to `size` bytes, unless it was longer before.
    Extend { size: u64, now: Timestamp },
    /// Attributes, such as the mode or the owner, were changed.
    Set { attributes: &'a AttributeChange, now: Timestamp },
    /// The last name of the file was removed. It stays usable for programs that have it open.
    Unlinked,
    /// The file has the name `name` in `directory`. The next flush may need it.
    Name { directory: Ino, name: &'a [u8] },
    /// A copy of the file's record in the store, which may be deleted with the last name.
    Record { record: &'a [u8] },
    /// The file is created under the name in the log. This is its record, of a file without
    /// content. The first flush commits it.
    Created { record: &'a [u8] },
    /// The name of a node, for a request in progress: see `name_in_use`. A log of its own has it.
    NameInUse { directory: Ino, name: &'a [u8] },
    /// The request that is logged with this entry was executed, and the entry of its change was
    /// trimmed because it is committed. Without this entry, the next worker would execute the
    /// request again if the kernel sends it again.
    Executed,
}

const WRITE: u64 = 1;
const RESIZE: u64 = 2;
const EXTEND: u64 = 3;
const SET: u64 = 4;
const UNLINKED: u64 = 5;
const NAME: u64 = 6;
const RECORD: u64 = 7;
const EXECUTED: u64 = 8;
const CREATED: u64 = 9;
const NAME_IN_USE: u64 = 10;

/// Flags of the attributes that a [`FileChange::Set`] contains.
const MODE: u64 = 1;
const UID: u64 = 2;
const GID: u64 = 4;
const ACCESSED: u64 = 8;
const ACCESSED_NOW: u64 = 16;
const MODIFIED: u64 = 32;
const MODIFIED_NOW: u64 = 64;
const DROP_RIGHTS: u64 = 128;

/// Returns a time as a word of the log.
fn word(time: Timestamp) -> u64 {
    u64::from_le_bytes(time.0.to_le_bytes())
}

/// Returns the time that a word of the log has.
fn time(word: u64) -> Timestamp {
    Timestamp(i64::from_le_bytes(word.to_le_bytes()))
}

impl FileChange<'_> {
    /// Returns the kind, the words and the bytes of the log entry.
    fn encode(&self) -> (u64, [u64; CHANGE_WORDS], &[u8]) {
        let mut words = [0; CHANGE_WORDS];
        let (kind, bytes): (_, &[u8]) = match *self {
            FileChange::Write { position, bytes, appends, drop_rights, now } => {
                let (drop_rights, appends) = (u64::from(drop_rights), u64::from(appends));
                words[..4].copy_from_slice(&[position, drop_rights, word(now), appends]);
                (WRITE, bytes)
            }
            FileChange::Resize { size, drop_rights, now } => {
                words[..3].copy_from_slice(&[size, u64::from(drop_rights), word(now)]);
                (RESIZE, &[])
            }
            FileChange::Extend { size, now } => {
                words[..2].copy_from_slice(&[size, word(now)]);
                (EXTEND, &[])
            }
            FileChange::Set { attributes, now } => {
                words = attribute_words(attributes, now);
                (SET, &[])
            }
            FileChange::Unlinked => (UNLINKED, &[]),
            FileChange::Name { directory, name } => {
                words[0] = directory.0;
                (NAME, name)
            }
            FileChange::NameInUse { directory, name } => {
                words[0] = directory.0;
                (NAME_IN_USE, name)
            }
            FileChange::Record { record } => (RECORD, record),
            FileChange::Created { record } => (CREATED, record),
            FileChange::Executed => (EXECUTED, &[]),
        };
        (kind, words, bytes)
    }
}

/// Returns the parameters of a `FileChange::Set` as words: flags, mode, uid, gid, access time,
/// modification time, present time.
fn attribute_words(change: &AttributeChange, now: Timestamp) -> [u64; CHANGE_WORDS] {
    let mut words = [0; CHANGE_WORDS];
    let mut flags = if change.drop_rights { DROP_RIGHTS } else { 0 };
    let numbers = [(change.mode, MODE), (change.uid, UID), (change.gid, GID)];
    for (index, (number, flag)) in numbers.into_iter().enumerate() {
        if let Some(number) = number {
            flags |= flag;
            words[1 + index] = u64::from(number);
        }
    }
    let times =
        [(change.accessed, ACCESSED, ACCESSED_NOW), (change.modified, MODIFIED, MODIFIED_NOW)];
    for (index, (time, at, is_now)) in times.into_iter().enumerate() {
        match time {
            Some(SetTime::At(time)) => {
                flags |= at;
                words[4 + index] = word(time);
            }
            Some(SetTime::Now) => flags |= is_now,
            None => {}
        }
    }
    words[0] = flags;
    words[6] = word(now);
    words
}

/// Returns the attribute change that the words of a logged `FileChange::Set` have.
fn attributes_of(words: &[u64; CHANGE_WORDS]) -> AttributeChange {
    let has = |flag: u64| words[0] & flag != 0;
    let number =
        |index: usize, flag| has(flag).then(|| u32::try_from(words[index]).unwrap_or_default());
    let set_time = |index: usize, at, is_now| match (has(at), has(is_now)) {
        (true, _) => Some(SetTime::At(time(words[index]))),
        (false, true) => Some(SetTime::Now),
        (false, false) => None,
    };
    AttributeChange {
        mode: number(1, MODE),
        uid: number(2, UID),
        gid: number(3, GID),
        accessed: set_time(4, ACCESSED, ACCESSED_NOW),
        modified: set_time(5, MODIFIED, MODIFIED_NOW),
        drop_rights: has(DROP_RIGHTS),
    }
}

impl FileState {
    /// Replays a change from the log of an earlier worker (process of the mount) on the state of
    /// the open file, as if the program made it again. Entries that do not change the state are
    /// ignored.
    pub(crate) fn replay(&mut self, change: &LoggedChange) {
        let [first, second, third, ..] = change.words;
        let written = match change.kind {
            WRITE => {
                let range = self.replay_range(change).unwrap_or(0..0);
                self.note_write(range.start, range.end, change.words[3] != 0);
                self.dirty.write(range.start, &change.bytes);
                self.size = self.size.max(range.end);
                Some((second != 0, time(third)))
            }
            RESIZE => {
                if self.size != first {
                    self.resize(first);
                }
                Some((second != 0, time(third)))
            }
            EXTEND => {
                self.note_resize(self.size.max(first));
                self.size = self.size.max(first);
                self.write_time = Some(time(second));
                None
            }
            SET => {
                self.set(&attributes_of(&change.words), time(change.words[6]));
                None
            }
            UNLINKED => {
                self.unlinked = true;
                None
            }
            NAME => {
                self.unlinked = false;
                None
            }
            _ => None,
        };
        if let Some((drop_rights, at)) = written {
            self.touch(at, drop_rights);
        }
    }

    /// Returns the range that a replayed write covers; `None` for other changes. An append goes to
    /// the end of the file as it is at this moment of the replay.
    pub(crate) fn replay_range(&self, change: &LoggedChange) -> Option<Range<u64>> {
        let appends = change.words[3] != 0;
        let start = if appends { self.size } else { change.words[0] };
        let end = start.checked_add(change.bytes.len() as u64)?;
        (change.kind == WRITE).then_some(start..end)
    }
}

/// Returns true for log entries of changes that a request makes and a flush commits: writes, new
/// sizes and attributes, and the creation of the file. Names, copies of the record and similar
/// entries are not such changes.
pub(crate) fn is_content_change(change: &LoggedChange) -> bool {
    matches!(change.kind, WRITE | RESIZE | EXTEND | SET | CREATED)
}

/// Returns true if the log entry proves that its request was executed, so that the request must
/// only be answered if the kernel sends it again.
pub(crate) fn marks_execution(change: &LoggedChange) -> bool {
    // A creation is answered by its handle.
    (is_content_change(change) && change.kind != CREATED) || change.kind == EXECUTED
}

/// Returns the copy of the file's record, if the log entry has one.
pub(crate) fn record_of(change: &LoggedChange) -> Option<&[u8]> {
    (change.kind == RECORD).then_some(&change.bytes)
}

/// Returns the record of a file whose creation is not known to be committed, if the log has one. A
/// name or its removal after the creation proves that the file existed.
pub(crate) fn created_record(changes: &[LoggedChange]) -> Option<&[u8]> {
    let is_proof = |kind: u64| matches!(kind, CREATED | NAME | UNLINKED);
    let last = changes.iter().rfind(|change| is_proof(change.kind))?;
    (last.kind == CREATED).then_some(&last.bytes)
}

/// Returns the name of the file, if the log entry has one.
pub(crate) fn name_of(change: &LoggedChange) -> Option<NodeName> {
    (change.kind == NAME)
        .then(|| NodeName { directory: Ino(change.words[0]), name: change.bytes.clone() })
}

/// Returns the name that the log entry has for a request in progress, if it has one.
pub(crate) fn name_in_use(change: &LoggedChange) -> Option<NodeName> {
    (change.kind == NAME_IN_USE)
        .then(|| NodeName { directory: Ino(change.words[0]), name: change.bytes.clone() })
}

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
            if state.unlinked {
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
        if !state.is_dirty() && !state.unlinked && !has_record && is_answered {
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
        if state.unlinked {
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

    /// Appends to the log of an open file that its last name was removed.
    pub(crate) fn log_unlinked(&self, state: &mut FileState) {
        // If this fails, the next worker shows one link too many.
        let _reported = self.log(state, &FileChange::Unlinked);
    }

    /// Appends a name of an open file to its log in the ledger, if the file has a log.
    pub(crate) fn log_named(&self, state: &mut FileState, name: &NodeName) {
        if state.log.has_begun() {
            let NodeName { directory, name } = name;
            // If this fails, the first flush of the next worker can fail with `ESTALE`.
            let _reported = self.log(state, &FileChange::Name { directory: *directory, name });
        }
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
            if state.log.has_begun() && !state.unlinked {
                self.log_named(&mut state, name);
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
                self.log(&mut state, &FileChange::Record { record: &record })?;
                state.log.has_record = true;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
