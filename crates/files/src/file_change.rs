//! The changes of open files, and their form as entries of the ledger.
//!
//! A [`FileChange`] describes a change once. All that happens with it is derived from it: the entry
//! in the ledger, by which the change survives this worker (process of the mount), and what the
//! next worker concludes from the entry. For example, a write(2) of 4 KiB is a
//! [`FileChange::Write`]: its bytes are the bytes of the entry, and the entry proves to the next
//! worker that the request was executed.
//!
//! To add a kind of change, add it to the enum and to `decode`. Then nothing compiles until each
//! consumer and the test of the encoding handle the new kind.

use ledger::{CHANGE_WORDS, LoggedChange};
use record::{Ino, Timestamp};
use volume::{AttributeChange, NodeName, SetTime};

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
    Set { attributes: AttributeChange, now: Timestamp },
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

impl<'a> FileChange<'a> {
    /// Returns the kind, the words and the bytes of the log entry.
    pub(crate) fn encode(&self) -> (u64, [u64; CHANGE_WORDS], &'a [u8]) {
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
                words = attribute_words(&attributes, now);
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

    /// Returns the change that a log entry has: the inverse of `encode`. Returns `None` for an
    /// unknown kind, which a later release of this program may have logged. Such an entry changes
    /// nothing and proves nothing.
    pub(crate) fn decode(logged: &'a LoggedChange) -> Option<FileChange<'a>> {
        let (words, bytes) = (&logged.words, logged.bytes.as_slice());
        let directory = Ino(words[0]);
        let change = match logged.kind {
            WRITE => FileChange::Write {
                position: words[0],
                bytes,
                appends: words[3] != 0,
                drop_rights: words[1] != 0,
                now: time(words[2]),
            },
            RESIZE => FileChange::Resize {
                size: words[0],
                drop_rights: words[1] != 0,
                now: time(words[2]),
            },
            EXTEND => FileChange::Extend { size: words[0], now: time(words[1]) },
            SET => FileChange::Set { attributes: attributes_of(words), now: time(words[6]) },
            UNLINKED => FileChange::Unlinked,
            NAME => FileChange::Name { directory, name: bytes },
            RECORD => FileChange::Record { record: bytes },
            CREATED => FileChange::Created { record: bytes },
            NAME_IN_USE => FileChange::NameInUse { directory, name: bytes },
            EXECUTED => FileChange::Executed,
            _ => return None,
        };
        Some(change)
    }

    /// Returns true for changes that a request makes and a flush commits: writes, new sizes and
    /// attributes, and the creation of the file. Names, copies of the record and similar entries
    /// are not such changes.
    pub(crate) fn is_content_change(&self) -> bool {
        match self {
            FileChange::Write { .. }
            | FileChange::Resize { .. }
            | FileChange::Extend { .. }
            | FileChange::Set { .. }
            | FileChange::Created { .. } => true,
            FileChange::Unlinked
            | FileChange::Name { .. }
            | FileChange::Record { .. }
            | FileChange::NameInUse { .. }
            | FileChange::Executed => false,
        }
    }

    /// Returns true if the entry of the change proves that its request was executed, so that the
    /// request must only be answered if the kernel sends it again.
    pub(crate) fn marks_execution(&self) -> bool {
        match self {
            FileChange::Write { .. }
            | FileChange::Resize { .. }
            | FileChange::Extend { .. }
            | FileChange::Set { .. }
            | FileChange::Executed => true,
            // A creation is answered by its handle.
            FileChange::Created { .. }
            | FileChange::Unlinked
            | FileChange::Name { .. }
            | FileChange::Record { .. }
            | FileChange::NameInUse { .. } => false,
        }
    }

    /// Returns the copy of the file's record, if the entry has one.
    pub(crate) fn record(&self) -> Option<&'a [u8]> {
        let FileChange::Record { record } = *self else { return None };
        Some(record)
    }

    /// Returns the name of the file, if the entry has one.
    pub(crate) fn name(&self) -> Option<NodeName> {
        let FileChange::Name { directory, name } = *self else { return None };
        Some(NodeName { directory, name: name.to_vec() })
    }

    /// Returns the name that the entry has for a request in progress, if it has one.
    pub(crate) fn name_in_use(&self) -> Option<NodeName> {
        let FileChange::NameInUse { directory, name } = *self else { return None };
        Some(NodeName { directory, name: name.to_vec() })
    }

    /// Returns what the entry proves about the existence of a new file: `Some(Some(_))` with the
    /// record if the file is created by it, `Some(None)` if the file existed before it, and `None`
    /// if it proves nothing.
    fn proof(&self) -> Option<Option<&'a [u8]>> {
        match *self {
            FileChange::Created { record } => Some(Some(record)),
            FileChange::Name { .. } | FileChange::Unlinked => Some(None),
            FileChange::Write { .. }
            | FileChange::Resize { .. }
            | FileChange::Extend { .. }
            | FileChange::Set { .. }
            | FileChange::Record { .. }
            | FileChange::NameInUse { .. }
            | FileChange::Executed => None,
        }
    }
}

/// Returns the record of a file whose creation is not known to be committed, if the log has one. A
/// name or its removal after the creation proves that the file existed.
pub(crate) fn created_record<'a>(
    changes: impl DoubleEndedIterator<Item = FileChange<'a>>,
) -> Option<&'a [u8]> {
    changes.rev().find_map(|change| change.proof()).flatten()
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

#[cfg(test)]
mod tests;
