//! The change feed: the history of one key, of which this process keeps the latest entries.
//!
//! Each transaction that changes records also puts the feed's key, with the keys that it changes as
//! the value. etcd keeps the history of a key until it is compacted, and a watch returns it in
//! order. A task of each open store (`watching`) watches the key and keeps the latest entries here.
//!
//! A cluster that is restored from a backup gives the revisions after the backup a second time. So
//! each entry begins with a random number, its mark, and a reader's position has the mark of the
//! last entry that it got. If the entry at that revision has another mark, the reader gets a gap.
//!
//! For example, after 5,000 commits the entries of the last 4,096 are here, and a reader that is
//! further behind gets a gap.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use store::Position;
use store::feed::FEED_BATCHES;
use tokio::sync::{Notify, watch};

use crate::rpc::{KeyValue, WatchAnswer};

/// Length of the id of a store, in bytes.
pub(crate) const ID_BYTES: usize = 8;

/// Number of entries in memory from which the oldest are dropped.
const ENTRIES_MAX: usize = 2 * FEED_BATCHES;

/// Bytes of the entries in memory from which the oldest are dropped, if at least
/// [`FEED_BATCHES`] remain.
const ENTRY_BYTES: usize = 16 << 20;

/// Length of the mark of an entry, in bytes.
const MARK_BYTES: usize = 8;

/// One entry of one history of the feed's key: its revision and its mark. Both are 0 before the
/// first entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EntryId {
    pub(crate) revision: i64,
    mark: u64,
}

/// Returns the value of the feed's key for a new entry.
pub(crate) fn with_mark(entry: &[u8]) -> Bytes {
    let mut value = BytesMut::with_capacity(MARK_BYTES + entry.len());
    value.put_u64(rand::random());
    value.extend_from_slice(entry);
    value.freeze()
}

/// Parses a state of the feed's key.
fn parse(kv: &KeyValue) -> (EntryId, Bytes) {
    // A deletion, which no process of ours makes, has no value: the entry for any change.
    let entry = kv.value.get(MARK_BYTES..).unwrap_or(&[0, 0]);
    (EntryId::of(kv), Bytes::copy_from_slice(entry))
}

impl EntryId {
    /// Returns the entry of a state of the feed's key. A value without a mark has the mark 0.
    pub(crate) fn of(kv: &KeyValue) -> EntryId {
        let mark = (&*kv.value).try_get_u64().unwrap_or(0);
        EntryId { revision: kv.mod_revision, mark }
    }
}

/// The latest entries of the feed.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    entries: VecDeque<(EntryId, Bytes)>,
    bytes: usize,
    /// The entry after which all entries are here.
    first: EntryId,
    /// The last entry that the watch has delivered.
    pub(crate) last: EntryId,
    /// The number of times that the ring has begun. A watch that was opened for an earlier
    /// beginning must not add to it.
    pub(crate) beginnings: u64,
}

impl Ring {
    /// Forgets everything. Entries after this one follow.
    fn begin(&mut self, id: EntryId) {
        let beginnings = self.beginnings + 1;
        *self = Ring { first: id, last: id, beginnings, ..Ring::default() };
    }

    fn push(&mut self, id: EntryId, entry: Bytes) {
        // A watch that was opened again may repeat an entry.
        if id.revision <= self.last.revision {
            return;
        }
        self.last = id;
        self.bytes += entry.len();
        self.entries.push_back((id, entry));
        while self.entries.len() > ENTRIES_MAX
            || (self.entries.len() > FEED_BATCHES && self.bytes > ENTRY_BYTES)
        {
            if let Some((id, entry)) = self.entries.pop_front() {
                self.bytes -= entry.len();
                self.first = id;
            }
        }
    }

    /// Returns the entries after one; `None` if some were dropped, or if that one is of another
    /// history.
    pub(crate) fn after(&self, since: EntryId) -> Option<Vec<Bytes>> {
        let begin = if since == self.first {
            0
        } else {
            let at = self.entries.partition_point(|(id, _)| id.revision < since.revision);
            self.entries.get(at).filter(|(id, _)| *id == since)?;
            at + 1
        };
        Some(self.entries.range(begin..).map(|(_, entry)| entry.clone()).collect())
    }
}

/// The feed of one open store.
#[derive(Debug)]
pub(crate) struct Feed {
    /// The id of the store: the first bytes of each position.
    id: [u8; ID_BYTES],
    ring: Mutex<Ring>,
    /// The revision up to which the watch has delivered entries.
    pub(crate) delivered: watch::Sender<i64>,
    /// Opens the watch again.
    pub(crate) again: Notify,
}

impl Feed {
    pub(crate) fn new(id: [u8; ID_BYTES]) -> Feed {
        let delivered = watch::Sender::new(0);
        Feed { id, ring: Mutex::default(), delivered, again: Notify::new() }
    }

    pub(crate) fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the position after an entry.
    pub(crate) fn position(&self, id: EntryId) -> Position {
        let mut bytes = BytesMut::with_capacity(ID_BYTES + 8 + MARK_BYTES);
        bytes.extend_from_slice(&self.id);
        bytes.put_i64(id.revision);
        bytes.put_u64(id.mark);
        Position(bytes.freeze())
    }

    /// Returns the entry of a position; `None` if it is a position of another store.
    pub(crate) fn entry_of(&self, position: &Position) -> Option<EntryId> {
        let mut rest = position.0.strip_prefix(&self.id[..])?;
        let id = EntryId { revision: rest.try_get_i64().ok()?, mark: rest.try_get_u64().ok()? };
        rest.is_empty().then_some(id)
    }

    /// Begins with the entries after one.
    pub(crate) fn begin(&self, id: EntryId) {
        let mut ring = self.ring();
        ring.begin(id);
        self.delivered.send_replace(id.revision);
    }

    /// The same, if this is still the last entry that the watch has delivered.
    pub(crate) fn begin_after(&self, delivered: EntryId, id: EntryId) {
        let mut ring = self.ring();
        if ring.last == delivered {
            ring.begin(id);
            self.delivered.send_replace(id.revision);
        }
    }

    /// Takes an answer of a watch that was opened after so many beginnings. Returns false if the
    /// watch has ended, or if the ring has begun anew since.
    pub(crate) fn take(&self, beginnings: u64, answer: WatchAnswer) -> bool {
        let mut ring = self.ring();
        if ring.beginnings != beginnings {
            return false;
        }
        for kv in answer.events.into_iter().filter_map(|event| event.kv) {
            let (id, entry) = parse(&kv);
            ring.push(id, entry);
        }
        // Under the lock: otherwise a beginning between the two would be undone here.
        self.delivered.send_replace(ring.last.revision);
        !answer.canceled
    }
}

#[cfg(test)]
mod tests;
