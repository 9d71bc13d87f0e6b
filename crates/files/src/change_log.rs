//! The log of uncommitted changes of open files, in the ledger.
//!
//! Each change is logged before it is made, so that the next worker can replay it if this one is
//! killed. Data that programs have written is then lost only with the machine. Replaying a change
//! twice has the same result as once. A successful flush trims the log.
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

/// A logged change of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileChange<'a> {
    /// Bytes were written at `position`, or at the end of the file if `appends`.
    Write { position: u64, bytes: &'a [u8], appends: bool, drop_rights: bool, now: Timestamp },
    /// The size was set.
    Resize { size: u64, drop_rights: bool, now: Timestamp },
    /// The size was set, but to no less than before.
    Extend { size: u64, now: Timestamp },
    /// Attributes were changed.
    Set { attributes: &'a AttributeChange, now: Timestamp },
    /// The last name was removed.
    Unlinked,
    /// The file has this name.
    Name { directory: Ino, name: &'a [u8] },
    /// A copy of the file's record, which may be deleted with the last name.
    Record { record: &'a [u8] },
    /// The request was executed, and its change was trimmed. Without this entry, the next worker
    /// would execute the request again if the kernel sends it again.
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

/// Flags of the attributes that a [`FileChange::Set`] contains.
const MODE: u64 = 1;
const UID: u64 = 2;
const GID: u64 = 4;
const ACCESSED: u64 = 8;
const ACCESSED_NOW: u64 = 16;
const MODIFIED: u64 = 32;
const MODIFIED_NOW: u64 = 64;
const DROP_RIGHTS: u64 = 128;

fn word(time: Timestamp) -> u64 {
    u64::from_le_bytes(time.0.to_le_bytes())
}

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
            FileChange::Record { record } => (RECORD, record),
            FileChange::Executed => (EXECUTED, &[]),
        };
        (kind, words, bytes)
    }
}

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
    /// Replays a change on the state. Entries that do not change the state are ignored.
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
    /// the end of the file at the time of the replay.
    pub(crate) fn replay_range(&self, change: &LoggedChange) -> Option<Range<u64>> {
        let appends = change.words[3] != 0;
        let start = if appends { self.size } else { change.words[0] };
        let end = start.checked_add(change.bytes.len() as u64)?;
        (change.kind == WRITE).then_some(start..end)
    }
}

/// Returns true for changes that a request makes and a flush commits.
pub(crate) fn is_content_change(change: &LoggedChange) -> bool {
    matches!(change.kind, WRITE | RESIZE | EXTEND | SET)
}

/// Returns true if the entry proves that its request was executed.
pub(crate) fn marks_execution(change: &LoggedChange) -> bool {
    is_content_change(change) || change.kind == EXECUTED
}

/// Returns the copy of the record, if the entry has one.
pub(crate) fn record_of(change: &LoggedChange) -> Option<&[u8]> {
    (change.kind == RECORD).then_some(&change.bytes)
}

/// Returns the name, if the entry has one.
pub(crate) fn name_of(change: &LoggedChange) -> Option<NodeName> {
    (change.kind == NAME)
        .then(|| NodeName { directory: Ino(change.words[0]), name: change.bytes.clone() })
}

fn append_change(
    ledger: &Ledger,
    log: &mut DirtyLog,
    request: u64,
    change: &FileChange<'_>,
) -> std::io::Result<()> {
    let (kind, words, bytes) = change.encode();
    ledger.log(log, kind, request, words, bytes)
}

impl Files {
    /// Logs a change, before it is made. Begins the log, with the name of the file, if necessary.
    /// Does nothing without a ledger. Fails with `EIO` if the ledger cannot be written.
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
            if let Some(NodeName { directory, name }) = self.names.get(state.node.ino) {
                append(&FileChange::Name { directory, name: &name }).map_err(failed)?;
            }
            if state.unlinked {
                append(&FileChange::Unlinked).map_err(failed)?;
            }
        }
        append(change).map_err(failed)
    }

    /// Trims the log up to `end`, after a flush committed the changes before it. Ends the log if
    /// nothing else must be kept.
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

    /// Enters a flush of the whole log into the journal, by which the next worker knows whether it
    /// was committed.
    pub(crate) fn note_flush(&self, state: &FileState) -> Result<Note, Errno> {
        let (Some(ledger), Some(log)) = (&self.options.ledger, &state.log.log) else {
            return Ok(Note::none());
        };
        ledger.note_flush(log).map_err(|failure| {
            error!(%failure, "cannot enter a flush into the ledger's journal");
            Errno::IO
        })
    }

    /// Ends the log, because the file is clean or closed.
    pub(crate) fn end_log(&self, state: &mut FileState) {
        let Some(ledger) = &self.options.ledger else { return };
        if let Some(log) = std::mem::take(&mut state.log).log {
            ledger.end_log(&log);
        }
    }

    /// Logs that the last name of a file was removed.
    pub(crate) fn log_unlinked(&self, state: &mut FileState) {
        // If this fails, the next worker shows one link too many.
        let _reported = self.log(state, &FileChange::Unlinked);
    }

    /// Logs a name of a file, if its log has begun.
    pub(crate) fn log_named(&self, state: &mut FileState, name: &NodeName) {
        if state.log.has_begun() {
            let NodeName { directory, name } = name;
            // If this fails, the first flush of the next worker can fail with `ESTALE`.
            let _reported = self.log(state, &FileChange::Name { directory: *directory, name });
        }
    }

    /// Logs the name of a file that is opened for writing, if its dentry is marked self-contained
    /// (`marked_in_dentry`): the first flush changes the dentry too, so it needs the name.
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

    /// Logs the new name of a renamed file.
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

    /// Logs the record of each open file that may lose its last name by removing `name`. The record
    /// is then the only copy of inline content.
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
