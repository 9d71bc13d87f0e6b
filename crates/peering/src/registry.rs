//! The links of one session, at most one for each peer, and the peers that it should have.
//!
//! Invariant: for one peer, the link that was admitted later reports nothing before the earlier one
//! has reported its end. For example, if the worker of a mount is replaced, the next worker
//! connects with the same session's name. The link of the first worker ends before the second one
//! opens.
//!
//! A peer is *named* if the last list of peers contains it. A peer that proves its volume
//! before the list names it is accepted too, because its session may be newer than the list. If
//! there is no room, a link of an unnamed peer ends for one of a named peer. A link ends after two
//! lists in a row that do not name its peer: one list may have been read before the session began.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use record::Nonce;
use runtime::Tasks;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::handshake::{FrameKeys, Provers};
use crate::transport::{self, Connection};
use crate::{Link, LinkEvents, LinkQueue};

/// The most links of one session.
pub const LINKS_MAX: usize = 64;

/// The number of lists in a row without a peer after which its link ends.
pub const ABSENCES_MAX: u8 = 2;

/// The state of the connection to a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// There is a link.
    Open {
        /// True if it is a Unix socket.
        local: bool,
    },
    /// No attempt has ended yet.
    Connecting,
    /// The last attempt failed, and the next one follows. The text is for the operator: the
    /// address and the cause.
    Failed(String),
    /// The peer has no address that this machine can use, and has not dialled this session.
    Unreachable,
}

/// The reason why there is no link to a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The operator's text.
    Failed(String),
    /// No usable address.
    Unreachable,
}

#[derive(Debug)]
struct LinkEntry {
    link: Link,
    /// Cancelled when the link has reported its end.
    done: CancellationToken,
    /// The lists in a row that did not name the peer.
    absences: u8,
}

#[derive(Debug, Default)]
struct Table {
    named: HashMap<Nonce, Option<Failure>>,
    links: HashMap<Nonce, LinkEntry>,
}

/// The shared state of a session's connections.
pub(crate) struct Registry {
    pub(crate) provers: Provers,
    pub(crate) tasks: Tasks,
    events: Arc<dyn LinkEvents>,
    /// Cancelled when the session closes all its connections.
    pub(crate) stop: CancellationToken,
    table: Mutex<Table>,
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").field("own", &self.provers.own()).finish_non_exhaustive()
    }
}

/// There is no room for a further link, or the session closes its connections.
#[derive(Debug)]
pub(crate) struct NoRoom;

/// A link that has its place, and does not serve its connection yet.
#[derive(Debug)]
pub(crate) struct Admission {
    registry: Arc<Registry>,
    link: Link,
    queue: Option<LinkQueue>,
    previous: Option<CancellationToken>,
    done: CancellationToken,
}

impl Registry {
    pub(crate) fn new(provers: Provers, tasks: Tasks, events: Arc<dyn LinkEvents>) -> Registry {
        let stop = CancellationToken::new();
        Registry { provers, tasks, events, stop, table: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // Each change of the table is complete before anything can panic.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a peer that has proved its volume a link, which replaces its earlier one.
    pub(crate) fn admit(
        self: &Arc<Registry>,
        peer: Nonce,
        is_local: bool,
    ) -> Result<Admission, NoRoom> {
        let mut table = self.lock();
        // Checked under the lock, so that a close either refuses a link or finds it.
        if self.stop.is_cancelled() || !table.makes_room(peer) {
            return Err(NoRoom);
        }
        let (link, queue) = Link::channel(peer, is_local);
        let done = CancellationToken::new();
        let entry = LinkEntry { link: link.clone(), done: done.clone(), absences: 0 };
        let previous = table.links.insert(peer, entry);
        if let Some(failure) = table.named.get_mut(&peer) {
            *failure = None;
        }
        drop(table);
        let previous = previous.map(|earlier| {
            debug!(link = ?earlier.link, "a new connection replaces a peer link");
            earlier.link.end();
            earlier.done
        });
        Ok(Admission { registry: Arc::clone(self), link, queue: Some(queue), previous, done })
    }

    /// Removes a link that has reported its end, unless a later one has its place.
    fn forget(&self, link: &Link, done: &CancellationToken) {
        let mut table = self.lock();
        if table.links.get(&link.peer()).is_some_and(|entry| entry.link.id() == link.id()) {
            table.links.remove(&link.peer());
        }
        drop(table);
        done.cancel();
    }

    /// Returns the token that the peer's link cancels when it has reported its end, or `None` if
    /// there is no link.
    pub(crate) fn link_of(&self, peer: Nonce) -> Option<CancellationToken> {
        self.lock().links.get(&peer).map(|entry| entry.done.clone())
    }

    /// Notes the reason why there is no link to a named peer.
    pub(crate) fn note_failure(&self, peer: Nonce, failure: Failure) {
        debug!(?peer, ?failure, "no link to a peer");
        if let Some(noted) = self.lock().named.get_mut(&peer) {
            *noted = Some(failure);
        }
    }

    /// Replaces the named peers. Ends the links whose peers were absent too often.
    pub(crate) fn name(&self, peers: &[Nonce]) {
        let mut table = self.lock();
        let mut before = std::mem::take(&mut table.named);
        let kept = |peer: &Nonce| (*peer, before.remove(peer).flatten());
        table.named = peers.iter().map(kept).collect();
        let Table { named, links } = &mut *table;
        for (peer, entry) in links {
            entry.absences = if named.contains_key(peer) { 0 } else { entry.absences + 1 };
            if entry.absences >= ABSENCES_MAX {
                entry.link.close();
            }
        }
    }

    /// Returns the state of each named peer, and of each other peer with a link, in their order.
    pub(crate) fn states(&self) -> Vec<(Nonce, LinkState)> {
        let table = self.lock();
        let open = |peer: &Nonce| {
            let link = &table.links.get(peer)?.link;
            link.is_open().then(|| LinkState::Open { local: link.is_local() })
        };
        let named = table.named.iter().map(|(peer, failure)| {
            let without = || match failure {
                None => LinkState::Connecting,
                Some(Failure::Failed(text)) => LinkState::Failed(text.clone()),
                Some(Failure::Unreachable) => LinkState::Unreachable,
            };
            (*peer, open(peer).unwrap_or_else(without))
        });
        let unnamed = table.links.keys().filter(|peer| !table.named.contains_key(*peer));
        let unnamed = unnamed.filter_map(|peer| Some((*peer, open(peer)?)));
        let mut states: Vec<_> = named.chain(unnamed).collect();
        states.sort_by_key(|(peer, _)| *peer);
        states
    }

    /// Refuses further links, and closes all.
    pub(crate) fn close(&self) {
        let table = self.lock();
        self.stop.cancel();
        table.links.values().for_each(|entry| entry.link.close());
    }
}

impl Table {
    /// Returns true if a link of this peer may be added. Ends a link of an unnamed peer for one of
    /// a named peer.
    fn makes_room(&mut self, peer: Nonce) -> bool {
        let open = |entry: &&LinkEntry| entry.link.is_open();
        let others = self.links.iter().filter(|(other, _)| **other != peer);
        if others.clone().map(|(_, entry)| entry).filter(open).count() < LINKS_MAX {
            return true;
        }
        let mut unnamed = others.filter(|(other, _)| !self.named.contains_key(*other));
        match unnamed.find(|(_, entry)| entry.link.is_open()) {
            Some((_, entry)) if self.named.contains_key(&peer) => {
                // The entry stays until it has reported its end, for the order of reports.
                entry.link.end();
                true
            }
            Some(_) | None => false,
        }
    }
}

impl Admission {
    /// Waits until the earlier link of the peer has reported its end.
    pub(crate) async fn after_previous(&mut self) {
        if let Some(previous) = &self.previous {
            previous.cancelled().await;
            self.previous = None;
        }
    }

    /// Serves the connection until the link ends.
    pub(crate) async fn run(mut self, connection: Connection, keys: FrameKeys) {
        self.after_previous().await;
        if let Some(queue) = self.queue.take() {
            let events = Arc::clone(&self.registry.events);
            let link = self.link.clone();
            transport::run(link, queue, connection, keys, events).await;
        }
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.link.end();
        match self.previous.take() {
            // It gave up before its turn. It keeps its place until the earlier link has reported
            // its end, so that the next link waits for that one too.
            Some(previous) if !previous.is_cancelled() => {
                let registry = Arc::clone(&self.registry);
                let (link, done) = (self.link.clone(), self.done.clone());
                self.registry.tasks.spawn("end of a replaced peer link", async move {
                    previous.cancelled().await;
                    registry.forget(&link, &done);
                });
            }
            Some(_) | None => self.registry.forget(&self.link, &self.done),
        }
    }
}

#[cfg(test)]
mod tests;
