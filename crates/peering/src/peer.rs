//! A peer session, as the list of sessions names it.

use record::{Nonce, SocketSecret};

/// A peer session as its record describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The name of the session.
    pub nonce: Nonce,
    /// Its addresses, in the forms of [`Peering::reach`](crate::Peering::reach).
    pub reach: Vec<String>,
    /// The secret of its socket file.
    pub socket_secret: SocketSecret,
}

impl Peer {
    /// Returns a peer that no session can connect to. It can connect to others.
    pub fn without_addresses(nonce: Nonce) -> Peer {
        Peer { nonce, reach: Vec::new(), socket_secret: SocketSecret::NONE }
    }
}
