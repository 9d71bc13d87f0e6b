//! Authenticated, encrypted and ordered connections between the sessions of one volume.
//!
//! - [`Peering`] makes the listeners of a session before the session begins, and [`Links`] keeps at
//!   most one connection to each peer. Both sessions may dial, the one with the larger nonce first.
//! - A [`Link`] is one connection to a peer session: [`Link::send`] queues a [`Message`], and
//!   [`LinkEvents`] reports received messages and the end of the link.
//! - [`handshake`] and [`frame`] are the bytes on a connection.
//!
//! For example, a gateway that wants to answer from its memory sends [`Message::Ask`] to each peer.
//! When [`Message::Grant`] arrives, its lease counts from before it asked.
//!
//! Invariant: each peer of a link is a process of the volume, and the messages of a link arrive in
//! their order, each once, up to the end of the link. Over TCP a peer proves that it knows the key
//! of the volume. Through a socket file it proves that it knows the secret in the session's record.
//!
//! The crate does not know leases: it neither decides which session may answer from memory nor when
//! a writer may commit. `docs/internals/peering.md` describes the mechanism.

mod address;
mod dialer;
mod exchange;
pub mod frame;
pub mod handshake;
mod link;
mod links;
mod listener;
mod message;
mod peer;
mod peering;
mod registry;
mod socket_file;
mod stream;
#[cfg(test)]
mod tests;
mod transport;

pub use address::ADDRESSES_MAX;
pub use dialer::{ADDRESS_DEADLINE, BACKOFF_MAX, BACKOFF_MIN};
pub use handshake::PeeringKey;
pub use link::{Link, LinkEvents, LinkId, LinkQueue, QUEUE_BYTES_MAX, QUEUE_MESSAGES_MAX};
pub use links::Links;
pub use listener::{HANDSHAKE_DEADLINE, HANDSHAKES_MAX};
pub use message::{
    MESSAGE_BYTES_MAX, MESSAGE_KEY_BYTES_MAX, MESSAGE_KEYS_MAX, Message, MessageError,
};
pub use peer::Peer;
pub use peering::{Peering, PeeringError, PeeringOptions};
pub use registry::{ABSENCES_MAX, LINKS_MAX, LinkState};
pub use socket_file::{STALE_REMOVED_MAX, STALE_SCANNED_MAX};
pub use stream::SILENCE_MAX;
pub use transport::{CLOSE_DRAIN_MAX, WRITE_STALL_MAX};
