//! The change feed: the history of one key.
//!
//! Each transaction that changes records also puts the feed's key, with the keys that it changes as
//! the value. etcd keeps the history of a key until it is compacted, and a watch returns it in
//! order. A task of each open store watches the key and keeps the latest entries in memory.
//!
//! A call asks for the revision of the key's last change, which is linearizable, waits until the
//! watch has delivered that revision, and answers from memory. A watch alone would not do: it may
//! be late.
//!
//! For example, a gateway commits at revision 12. The call of another gateway that begins later gets
//! revision 12 or more from the cluster, and answers when its watch has delivered 12.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use futures::StreamExt as _;
use store::feed::compact::Entries;
use store::feed::{FEED_BATCHES, decode};
use store::{Changes, Position, StoreError, StoreErrorKind};
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

use crate::error::{is_compacted, unavailable, wants_token};
use crate::rpc::{RANGE, Range, RangeAnswer, WatchAnswer, WatchCreate, WatchRequest};
use crate::shared::Shared;

/// Length of the id of a store, in bytes.
pub(crate) const ID_BYTES: usize = 8;

/// Number of entries in memory from which the oldest are dropped.
const ENTRIES_MAX: usize = 2 * FEED_BATCHES;

/// Bytes of the entries in memory from which the oldest are dropped, if at least
/// [`FEED_BATCHES`] remain.
const ENTRY_BYTES: usize = 16 << 20;

/// Time after which a watch that has not delivered a change is opened again, at the chosen member.
const LATE: Duration = Duration::from_secs(1);

/// Limit of the time in which a call waits for the watch.
const WATCH_DEADLINE: Duration = Duration::from_secs(8);

/// Pause before a watch that has ended is opened again.
const PAUSE: Duration = Duration::from_millis(100);

/// Limit of the time to open a watch.
const OPEN_DEADLINE: Duration = Duration::from_secs(2);

const DOING: &str = "reading the change feed from etcd";

/// The latest entries of the feed.
#[derive(Debug, Default)]
struct Ring {
    entries: VecDeque<(i64, Bytes)>,
    bytes: usize,
    /// The oldest revision since which all entries are here.
    first: i64,
    /// The revision up to which the watch has delivered entries.
    last: i64,
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
    fn after(&self, revision: i64) -> Option<Vec<Bytes>> {
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
    delivered: watch::Sender<i64>,
    /// Opens the watch again.
    again: Notify,
}

impl Feed {
    pub(crate) fn new(id: [u8; ID_BYTES]) -> Feed {
        let delivered = watch::Sender::new(0);
        Feed { id, ring: Mutex::default(), delivered, again: Notify::new() }
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn position(&self, revision: i64) -> Position {
        let mut bytes = BytesMut::with_capacity(ID_BYTES + 8);
        bytes.extend_from_slice(&self.id);
        bytes.put_i64(revision);
        Position(bytes.freeze())
    }

    /// Returns the revision of a position; `None` if it is a position of another store.
    fn revision(&self, position: &Position) -> Option<i64> {
        let mut rest = position.0.strip_prefix(&self.id[..])?;
        let revision = rest.try_get_i64().ok()?;
        rest.is_empty().then_some(revision)
    }

    /// Begins with the entries after a revision.
    fn begin(&self, revision: i64) {
        self.ring().begin(revision);
        self.delivered.send_replace(revision);
    }

    /// Takes an answer of the watch. Returns false if the watch has ended.
    fn take(&self, answer: WatchAnswer) -> bool {
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

/// Returns the revision of the last change of the feed's key, and the revision of the store.
async fn last_change(shared: &Shared) -> Result<(i64, i64), StoreError> {
    let range = Range { keys_only: true, ..Range::one(shared.keys.feed()) };
    let answer: RangeAnswer = shared.members.ask(RANGE, &range, DOING).await?;
    let changed = answer.kvs.first().map_or(0, |kv| kv.mod_revision);
    Ok((changed, answer.header.map_or(0, |header| header.revision)))
}

/// Returns the revision of the last change of the feed's key. If the watch has delivered a later
/// one, the store was restored to an earlier state: the feed begins anew.
async fn checked_change(shared: &Shared) -> Result<i64, StoreError> {
    // Read first: the watch may deliver another change during the question.
    let delivered = shared.feed.ring().last;
    let (changed, revision) = last_change(shared).await?;
    if changed < delivered {
        tracing::warn!(revision, delivered, "etcd was restored to an earlier revision");
        shared.feed.begin(changed);
        shared.feed.again.notify_one();
    }
    Ok(changed)
}

/// Begins the feed at the present revision.
pub(crate) async fn begin(shared: &Shared) -> Result<(), StoreError> {
    let (changed, _) = last_change(shared).await?;
    shared.feed.begin(changed);
    Ok(())
}

/// Returns the changes since a position.
pub(crate) async fn changes(
    shared: &Shared,
    since: Option<&Position>,
) -> Result<Changes, StoreError> {
    let feed = &shared.feed;
    let changed = checked_change(shared).await?;
    let Some(since) = since else {
        return Ok(Changes::Notified { keys: Vec::new(), next: feed.position(changed) });
    };
    let Some(since) = feed.revision(since).filter(|since| *since <= changed) else {
        // Another store, or one that was restored to an earlier state.
        return Ok(Changes::Gap { next: feed.position(changed) });
    };
    if since == changed {
        return Ok(Changes::Notified { keys: Vec::new(), next: feed.position(changed) });
    }
    deliver(shared, changed).await?;
    let (entries, last) = {
        let ring = feed.ring();
        (ring.after(since), ring.last.max(changed))
    };
    match entries {
        Some(entries) => {
            // Each entry stands alone: its first key shares no bytes with the entry before.
            let keys = entries.into_iter().flat_map(Entries::new);
            decode(keys, feed.position(last))
        }
        None => Ok(Changes::Gap { next: feed.position(last) }),
    }
}

/// Waits until the watch has delivered a revision.
async fn deliver(shared: &Shared, revision: i64) -> Result<(), StoreError> {
    let mut delivered = shared.feed.delivered.subscribe();
    let waiting = async {
        loop {
            if let Ok(Ok(_)) = timeout(LATE, delivered.wait_for(|last| *last >= revision)).await {
                return;
            }
            shared.feed.again.notify_one();
        }
    };
    let late = |_| unavailable(format!("{DOING}: the watch is late"));
    timeout(WATCH_DEADLINE, waiting).await.map_err(late)
}

/// Watches the feed until the store closes.
pub(crate) async fn follow(shared: Arc<Shared>) {
    loop {
        let watching = async {
            if let Err(error) = watch_once(&shared).await {
                tracing::debug!(%error, "watching the change feed");
            }
        };
        tokio::select! {
            () = shared.closed.cancelled() => return,
            () = watching => {}
            () = shared.feed.again.notified() => {}
        }
        tokio::select! {
            () = shared.closed.cancelled() => return,
            () = sleep(PAUSE) => {}
        }
    }
}

/// Opens one watch, and takes entries until it ends.
async fn watch_once(shared: &Shared) -> Result<(), StoreError> {
    checked_change(shared).await?;
    let start_revision = shared.feed.ring().last + 1;
    let create = WatchCreate { key: shared.keys.feed(), start_revision };
    let first = WatchRequest { create: Some(create) };
    // The member ends the watch if the stream of requests ends.
    let requests = futures::stream::iter([first]).chain(futures::stream::pending());
    let opened = timeout(OPEN_DEADLINE, shared.members.watch(requests)).await;
    let ended = |status: &tonic::Status| {
        if wants_token(status) {
            shared.members.forget_token();
        }
        StoreError::because(StoreErrorKind::Unavailable, DOING, crate::error::reason(status))
    };
    let opened = opened.map_err(|_| unavailable(format!("{DOING}: opening the watch")))?;
    let mut answers = opened.map_err(|status| ended(&status))?;
    loop {
        let answer = match answers.message().await {
            Ok(Some(answer)) => answer,
            Ok(None) => return Ok(()),
            Err(status) if is_compacted(&status) => return begin(shared).await,
            Err(status) => return Err(ended(&status)),
        };
        let is_compacted = answer.compact_revision != 0;
        let reason = answer.cancel_reason.clone();
        if !shared.feed.take(answer) {
            if is_compacted {
                // The entries between are lost, so readers get a gap.
                return begin(shared).await;
            }
            if reason.contains("auth") || reason.contains("permission") {
                shared.members.forget_token();
            }
            return Err(unavailable(format!("{DOING}: the watch was canceled: {reason}")));
        }
    }
}

#[cfg(test)]
mod tests;
