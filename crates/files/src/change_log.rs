//! What was done to an open file and is not its content yet, told to the ledger.
//!
//! Each change is told before it is made, so that the process that follows one that was killed makes
//! it again: what programs have written is there as long as the machine is. Made twice, a change leaves
//! what it left the first time. What was made durable by a flush is not told any more.
//!
//! A file that has lost its name may have lost its record with it, and a name may be needed for the
//! next flush: the log says them, too.

use std::ops::Range;

use bytes::Bytes;
use ledger::{CHANGE_WORDS, DirtyLog, Ledger, LoggedChange};
use record::{Content, Ino, Timestamp};
use rustix::io::Errno;
use tracing::error;
use volume::{AttributeChange, NodeName, Note, SetTime};

use crate::files::Files;
use crate::open::FileState;

/// A change of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileChange<'a> {
    /// Bytes were written at a position, or where the file ends.
    Write { position: u64, bytes: &'a [u8], appends: bool, drop_rights: bool, now: Timestamp },
    /// It was made so long.
    Resize { size: u64, drop_rights: bool, now: Timestamp },
    /// It was made at least so long.
    Extend { size: u64, now: Timestamp },
    /// Attributes were changed.
    Set { attributes: &'a AttributeChange, now: Timestamp },
    /// It has lost its last name.
    Unlinked,
    /// It has this name.
    Name { directory: Ino, name: &'a [u8] },
    /// Its record, which may be about to go with its last name.
    Record { record: &'a [u8] },
    /// A request has been carried out, whose change was told and is not any more.
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

/// Which attributes a change says.
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
    /// Its kind, its words and its bytes.
    fn encode(&self) -> (u64, [u64; CHANGE_WORDS], &[u8]) {
        let mut words = [0; CHANGE_WORDS];
        let (kind, bytes): (_, &[u8]) = match *self {
            FileChange::Write { position, bytes, appends, drop_rights, now } => {
                let how = [u64::from(drop_rights), u64::from(appends)];
                words[..4].copy_from_slice(&[position, how[0], word(now), how[1]]);
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
    /// Makes a change again that was made before. What is no change of the state is for the caller.
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

    /// Where a change writes when it is made again, if it writes bytes. What was appended is where the
    /// file ends by now.
    pub(crate) fn replay_range(&self, change: &LoggedChange) -> Option<Range<u64>> {
        let appends = change.words[3] != 0;
        let start = if appends { self.size } else { change.words[0] };
        let end = start.checked_add(change.bytes.len() as u64)?;
        (change.kind == WRITE).then_some(start..end)
    }
}

/// Whether a change is one that a request asks for, and a flush makes content.
pub(crate) fn is_content_change(change: &LoggedChange) -> bool {
    matches!(change.kind, WRITE | RESIZE | EXTEND | SET)
}

/// Whether a change stands for a request that has been carried out.
pub(crate) fn marks_execution(change: &LoggedChange) -> bool {
    is_content_change(change) || change.kind == EXECUTED
}

/// The record that a change says, if it says one.
pub(crate) fn record_of(change: &LoggedChange) -> Option<&[u8]> {
    (change.kind == RECORD).then_some(&change.bytes)
}

/// The name that a change says, if it says one.
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
    /// Tells a change that is about to be made, if it is to outlive this process.
    pub(crate) fn log(&self, state: &mut FileState, change: &FileChange<'_>) -> Result<(), Errno> {
        let Some(ledger) = &self.options.ledger else { return Ok(()) };
        let failed = |failure: std::io::Error| {
            error!(%failure, "what is written cannot be kept for whoever follows this process");
            Errno::IO
        };
        let is_new = !state.log.is_begun();
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

    /// What was told up to `end` has become the file's content.
    pub(crate) fn trim_log(&self, state: &mut FileState, end: u64) {
        let Some(ledger) = &self.options.ledger else { return };
        let has_record = state.log.has_record;
        let is_answered = state.unanswered_appends.is_empty();
        if !state.is_dirty() && !state.unlinked && !has_record && is_answered {
            return self.end_log(state);
        }
        let Some(log) = &mut state.log.log else { return };
        // What was appended is content now, and whoever is asked for it once more must not append it
        // again.
        for request in &state.unanswered_appends {
            if let Err(failure) = append_change(ledger, log, *request, &FileChange::Executed) {
                error!(%failure, "a request cannot be kept for whoever follows this process");
            }
        }
        // What was told before and is no content is told again, behind what is dirty.
        if let Err(failure) = ledger.trim_log(log, end) {
            error!(%failure, "a log of what is written could not be cut");
        }
        let relog = |state: &mut FileState, change: &FileChange<'_>| {
            // It is told when it fails; then a process that follows knows less of a file without a name.
            let _reported = self.log(state, change);
        };
        if let Some(NodeName { directory, name }) = self.names.get(state.node.ino) {
            relog(state, &FileChange::Name { directory, name: &name });
        }
        if state.unlinked {
            relog(state, &FileChange::Unlinked);
        }
        if has_record {
            let record: Bytes = state.node.record.clone();
            relog(state, &FileChange::Record { record: &record });
        }
    }

    /// Notes a flush of all that was told by now, so that whoever follows knows whether it happened.
    pub(crate) fn note_flush(&self, state: &FileState) -> Result<Note, Errno> {
        let (Some(ledger), Some(log)) = (&self.options.ledger, &state.log.log) else {
            return Ok(Note::none());
        };
        ledger.note_flush(log).map_err(|failure| {
            error!(%failure, "a flush cannot be kept for whoever follows this process");
            Errno::IO
        })
    }

    /// The file is clean, or nobody has it open.
    pub(crate) fn end_log(&self, state: &mut FileState) {
        let Some(ledger) = &self.options.ledger else { return };
        if let Some(log) = std::mem::take(&mut state.log).log {
            ledger.end_log(&log);
        }
    }

    /// A file has lost its last name.
    pub(crate) fn log_unlinked(&self, state: &mut FileState) {
        // Whoever follows shows a name more than there is, if this fails.
        let _reported = self.log(state, &FileChange::Unlinked);
    }

    /// A file has a name.
    pub(crate) fn log_named(&self, state: &mut FileState, name: &NodeName) {
        if state.log.is_begun() {
            let NodeName { directory, name } = name;
            // It is told when it fails; whoever follows answers ESTALE to a flush, at worst.
            let _reported = self.log(state, &FileChange::Name { directory: *directory, name });
        }
    }

    /// A file that is open for writing, and whose name says that it is nothing but its inode: the first
    /// flush needs that name.
    pub(crate) fn log_told_name(&self, state: &mut FileState) -> Result<(), Errno> {
        let is_told = state.node.inode.file().is_some_and(|file| file.told_by_name);
        if is_told
            && !state.log.is_begun()
            && let Some(NodeName { directory, name }) = self.names.get(state.node.ino)
        {
            self.log(state, &FileChange::Name { directory, name: &name })?;
        }
        Ok(())
    }

    /// A node has another name.
    pub(crate) async fn log_name(&self, ino: Ino, name: &NodeName) {
        if self.options.ledger.is_some()
            && let Some(file) = self.open.get(ino)
        {
            let mut state = file.state.lock().await;
            if state.log.is_begun() && !state.unlinked {
                self.log_named(&mut state, name);
            }
        }
    }

    /// Tells the record of a file that is open and about to lose this name: with its last name, a
    /// record goes that is all there is of a file.
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
