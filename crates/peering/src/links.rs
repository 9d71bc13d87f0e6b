//! The connections of a session that has begun.
//!
//! For example, the session reads the records of its peers each second and gives their names and
//! addresses to [`Links::set_peers`]. The links that follow arrive at its [`LinkEvents`].
//!
//! [`LinkEvents`]: crate::LinkEvents

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use record::Nonce;
use tokio::sync::watch;

use crate::LinkState;
use crate::dialer::{Precedence, keep_linked};
use crate::listener::{Listener, listen};
use crate::peer::Peer;
use crate::registry::{LINKS_MAX, Registry};
use crate::socket_file::SocketFile;

/// The connections of a session. If this value is dropped, they close.
#[derive(Debug)]
pub struct Links {
    registry: Arc<Registry>,
    /// The last record of each peer. A dropped sender ends the peer's dialer.
    dialed: Mutex<HashMap<Nonce, watch::Sender<Peer>>>,
    file: Mutex<Option<SocketFile>>,
}

impl Links {
    pub(crate) fn start(
        registry: Arc<Registry>,
        listeners: Vec<Listener>,
        file: Option<SocketFile>,
    ) -> Links {
        for listener in listeners {
            let tasks = registry.tasks.clone();
            tasks.spawn("listener for peers", listen(Arc::clone(&registry), listener));
        }
        Links { registry, dialed: Mutex::default(), file: Mutex::new(file) }
    }

    /// Sets the peers of this session, and dials each without a link: one with a smaller nonce at
    /// once, and one with a larger nonce after it had time to dial this session. The peers behind
    /// the first [`LINKS_MAX`] count as not named. This session's own nonce is ignored.
    ///
    /// A link whose peer is missing in two lists in a row closes. A new peer, or one with changed
    /// addresses and without a link, is dialled at once.
    pub fn set_peers(&self, mut peers: Vec<Peer>) {
        let own = self.registry.provers.own();
        peers.retain(|peer| peer.nonce != own);
        peers.truncate(LINKS_MAX);
        let names: Vec<Nonce> = peers.iter().map(|peer| peer.nonce).collect();
        self.registry.name(&names);
        let mut dialed = self.dialed.lock().unwrap_or_else(PoisonError::into_inner);
        if self.registry.stop.is_cancelled() {
            return;
        }
        dialed.retain(|nonce, _| names.contains(nonce));
        for peer in peers {
            match dialed.get(&peer.nonce) {
                Some(known) => {
                    known.send_if_modified(|before| {
                        let is_changed = *before != peer;
                        *before = peer;
                        is_changed
                    });
                }
                None => {
                    let precedence =
                        if peer.nonce < own { Precedence::First } else { Precedence::Second };
                    let (nonce, (sender, records)) = (peer.nonce, watch::channel(peer));
                    dialed.insert(nonce, sender);
                    let keeping = keep_linked(Arc::clone(&self.registry), precedence, records);
                    self.registry.tasks.spawn("dialer of a peer", keeping);
                }
            }
        }
    }

    /// Returns the state of each peer of the last list, and of each other peer with a link, in the
    /// order of their nonces.
    pub fn states(&self) -> Vec<(Nonce, LinkState)> {
        self.registry.states()
    }

    /// Closes all links and listeners, and removes the socket file. Queued messages are sent for at
    /// most [`CLOSE_DRAIN_MAX`](crate::CLOSE_DRAIN_MAX), by tasks that end soon after. Each open
    /// link still reports `closed`.
    pub fn close(&self) {
        self.registry.close();
        self.dialed.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(file);
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        self.close();
    }
}
