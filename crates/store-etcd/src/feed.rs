//! The change feed: the history of one key, of which this process keeps the latest entries.
//!
//! Each transaction that changes records also puts the feed's key, with the keys that it changes as
//! the value. etcd keeps the history of a key until it is compacted, and a watch returns it in
//! order. A task of each open store (`watching`) watches the key and keeps the latest entries here.
//!
//! For example, after 5,000 commits the entries of the last 4,096 are here, and a reader that is
//! further behind gets a gap.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use store::Position;
use store::feed::FEED_BATCHES;
use tokio::sync::{Notify, watch};

use crate::rpc::WatchAnswer;

/// Length of the id of a store, in bytes.
pub(crate) const ID_BYTES: usize = 8;

/// Number of entries in memory from which the oldest are dropped.
const ENTRIES_MAX: usize = 2 * FEED_BATCHES;

/// Bytes of the entries in memory from which the oldest are dropped, if at least
/// [`FEED_BATCHES`] remain.
const ENTRY_BYTES: usize = 16 << 20;

/// The latest entries of the feed.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    entries: VecDeque<(i64, Bytes)>,
    bytes: usize,
    /// The oldest revision since which all entries are here.
    first: i64,
    /// The revision up to which the watch has delivered entries.
    pub(crate) last: i64,
}

impl Ring {
    /// Forgets everything. Entries after this revision follow.
    fn begin(&mut self, revision: i64) {
        *self = Ring { first: revision, last: revision, ..Ring::default() };
    }

    fn push(&mut self, revision: i64, entry: Bytes) {
        // A watch that was opened again may repeat an entry.
        if revision <= self.last {
            return;
        }
        self.last = revision;
        self.bytes += entry.len();
        self.entries.push_back((revision, entry));
        while self.entries.len() > ENTRIES_MAX
            || (self.entries.len() > FEED_BATCHES && self.bytes > ENTRY_BYTES)
        {
            if let Some((revision, entry)) = self.entries.pop_front() {
                self.bytes -= entry.len();
                self.first = revision;
            }
        }
    }

    /// Returns the entries after a revision; `None` if some were dropped.
    pub(crate) fn after(&self, revision: i64) -> Option<Vec<Bytes>> {
        if revision < self.first {
            return None;
        }
        let begin = self.entries.partition_point(|(at, _)| *at <= revision);
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

    pub(crate) fn position(&self, revision: i64) -> Position {
        let mut bytes = BytesMut::with_capacity(ID_BYTES + 8);
        bytes.extend_from_slice(&self.id);
        bytes.put_i64(revision);
        Position(bytes.freeze())
    }

    /// Returns the revision of a position; `None` if it is a position of another store.
    pub(crate) fn revision(&self, position: &Position) -> Option<i64> {
        let mut rest = position.0.strip_prefix(&self.id[..])?;
        let revision = rest.try_get_i64().ok()?;
        rest.is_empty().then_some(revision)
    }

    /// Begins with the entries after a revision.
    pub(crate) fn begin(&self, revision: i64) {
        self.ring().begin(revision);
        self.delivered.send_replace(revision);
    }

    /// Takes an answer of the watch. Returns false if the watch has ended.
    pub(crate) fn take(&self, answer: WatchAnswer) -> bool {
        let mut ring = self.ring();
        for kv in answer.events.into_iter().filter_map(|event| event.kv) {
            // A deletion, which no process of ours makes, has no value: the mark for any change.
            let entry = if kv.value.is_empty() { Bytes::from_static(&[0, 0]) } else { kv.value };
            ring.push(kv.mod_revision, Bytes::copy_from_slice(&entry));
        }
        let last = ring.last;
        drop(ring);
        self.delivered.send_replace(last);
        !answer.canceled
    }
}

#[cfg(test)]
mod tests;
