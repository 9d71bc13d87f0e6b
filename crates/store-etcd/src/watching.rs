//! The watch of the change feed, and the calls that read the feed.
//!
//! A call asks for the revision of the last change of the feed's key, which is linearizable, waits
//! until the watch has delivered that revision, and answers from memory. A watch alone would not
//! do: it may be late.
//!
//! For example, a gateway commits at revision 12. The call of another gateway that begins later
//! gets revision 12 or more from the cluster, and answers when its watch has delivered 12.

use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _};
use store::feed::compact::Entries;
use store::feed::decode;
use store::{Changes, Position, StoreError, StoreErrorKind};
use tokio::time::{sleep, timeout};

use crate::error::{Effect, is_compacted, of, reason, unavailable, wants_token};
use crate::feed::EntryId;
use crate::rpc::{RANGE, Range, RangeAnswer, WatchCreate, WatchRequest};
use crate::shared::Shared;

/// Time after which a watch that has not delivered a change is opened again, at the chosen member.
const LATE: Duration = Duration::from_secs(1);

/// Limit of the time in which a call waits for the watch.
const WATCH_DEADLINE: Duration = Duration::from_secs(8);

/// Pause before a watch that has ended is opened again.
const PAUSE: Duration = Duration::from_millis(100);

/// Limit of the time to open a watch.
const OPEN_DEADLINE: Duration = Duration::from_secs(2);

const DOING: &str = "reading the change feed from etcd";

/// Returns the last entry of the feed, and the revision of the store.
pub(crate) async fn last_change(shared: &Shared) -> Result<(EntryId, i64), StoreError> {
    let range = Range::one(shared.keys.feed());
    let answer: RangeAnswer = shared.members.ask(RANGE, &range, DOING).await?;
    let changed = answer.kvs.first().map(EntryId::of).unwrap_or_default();
    Ok((changed, answer.header.map_or(0, |header| header.revision)))
}

/// Returns the last entry of the feed. If the watch has delivered a later one, or another one at
/// the same revision, the cluster was restored to an earlier state: the feed begins anew.
async fn checked_change(shared: &Shared) -> Result<EntryId, StoreError> {
    // Read first: the watch may deliver another change during the question.
    let delivered = shared.feed.ring().last;
    let (changed, _) = last_change(shared).await?;
    let is_same_revision = changed.revision == delivered.revision;
    if changed.revision < delivered.revision || (is_same_revision && changed != delivered) {
        begin_anew(shared, delivered, changed);
        shared.feed.again.notify_one();
    }
    Ok(changed)
}

fn begin_anew(shared: &Shared, delivered: EntryId, changed: EntryId) {
    tracing::warn!(
        revision = changed.revision,
        delivered = delivered.revision,
        "etcd was restored to an earlier revision, or has compacted changes that were not read"
    );
    shared.feed.begin_after(delivered, changed);
}

/// Checks that the cluster still has the last entry that the watch has delivered. If it does not,
/// it was restored to an earlier state and has written as many revisions again: the feed begins
/// anew.
async fn check_history(shared: &Shared, last: EntryId) -> Result<(), StoreError> {
    if last.revision == 0 {
        return Ok(());
    }
    let range = Range { revision: last.revision, ..Range::one(shared.keys.feed()) };
    let asked: Result<RangeAnswer, _> = shared.members.try_ask(RANGE, &range).await;
    let found = match asked {
        Ok(answer) => answer.kvs.first().map(EntryId::of).unwrap_or_default(),
        // If the last entry is still this one, no entry was lost.
        Err(status) if is_compacted(&status) => last_change(shared).await?.0,
        Err(status) => return Err(of(&status, DOING, Effect::None)),
    };
    if found == last {
        return Ok(());
    }
    begin_anew(shared, last, last_change(shared).await?.0);
    Err(unavailable(format!("{DOING}: its history is another one")))
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
    let since = feed.entry_of(since);
    if since == Some(changed) {
        return Ok(Changes::Notified { keys: Vec::new(), next: feed.position(changed) });
    }
    let Some(since) = since.filter(|since| since.revision < changed.revision) else {
        // A position of another store, or of this one before it was restored to an earlier state.
        return Ok(Changes::Gap { next: feed.position(changed) });
    };
    deliver(shared, changed.revision).await?;
    let (entries, last) = {
        let ring = feed.ring();
        // Without this entry the ring has begun anew after the question.
        (ring.after(changed).and_then(|_| ring.after(since)), ring.last)
    };
    match entries {
        Some(entries) => {
            // The first key of an entry shares no bytes with the entry before, so entries can be
            // joined.
            let keys = entries.into_iter().flat_map(Entries::new);
            decode(keys, feed.position(last))
        }
        None => Ok(Changes::Gap { next: feed.position(changed) }),
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
    let mut is_again = false;
    loop {
        // An order to open the watch again that came before this one is carried out by it.
        let _: Option<()> = shared.feed.again.notified().now_or_never();
        let watching = async {
            if let Err(error) = watch_once(&shared, is_again).await {
                tracing::debug!(%error, "watching the change feed");
            }
        };
        tokio::select! {
            () = shared.closed.cancelled() => return,
            () = watching => {}
            () = shared.feed.again.notified() => {}
        }
        is_again = true;
        tokio::select! {
            () = shared.closed.cancelled() => return,
            () = sleep(PAUSE) => {}
        }
    }
}

/// Opens one watch, and takes entries until it ends. If it is not the first one, checks the
/// history.
async fn watch_once(shared: &Shared, is_again: bool) -> Result<(), StoreError> {
    checked_change(shared).await?;
    let (last, beginnings) = {
        let ring = shared.feed.ring();
        (ring.last, ring.beginnings)
    };
    let start_revision = last.revision + 1;
    let create = WatchCreate { key: shared.keys.feed(), start_revision };
    let first = WatchRequest { create: Some(create) };
    // The member ends the watch if the stream of requests ends.
    let requests = futures::stream::iter([first]).chain(futures::stream::pending());
    let opened = timeout(OPEN_DEADLINE, shared.members.watch(requests)).await;
    let ended = |status: &tonic::Status| {
        if wants_token(status) {
            shared.members.forget_token();
        }
        StoreError::because(StoreErrorKind::Unavailable, DOING, reason(status))
    };
    let opened = opened.map_err(|_| unavailable(format!("{DOING}: opening the watch")))?;
    let mut answers = opened.map_err(|status| ended(&status))?;
    // Only now: the cluster may be restored before the watch is open, but not while it is.
    if is_again {
        check_history(shared, last).await?;
    }
    loop {
        let answer = match answers.message().await {
            Ok(Some(answer)) => answer,
            Ok(None) => return Ok(()),
            Err(status) if is_compacted(&status) => return begin(shared).await,
            Err(status) => return Err(ended(&status)),
        };
        let answer = shared.members.check_cluster(answer).map_err(|status| ended(&status))?;
        let is_compacted = answer.compact_revision != 0;
        let reason = answer.cancel_reason.clone();
        if !shared.feed.take(beginnings, answer) {
            if is_compacted {
                // The entries between are lost, so readers get a gap.
                return begin(shared).await;
            }
            if reason.contains("auth") || reason.contains("permission") {
                shared.members.forget_token();
            }
            return Err(unavailable(format!("{DOING}: the watch has ended: {reason}")));
        }
    }
}
