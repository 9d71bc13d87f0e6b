//! Authenticated, encrypted and ordered connections between the sessions of one volume.
//!
//! - A [`Link`] is one connection to a peer session: [`Link::send`] queues a [`Message`], and
//!   [`LinkEvents`] reports received messages and the end of the link.
//!
//! For example, a gateway that wants to answer from its memory sends [`Message::Ask`] to each peer
//! and counts its lease from before it asked, when [`Message::Grant`] arrives.
//!
//! The crate does not know leases: it neither decides who may answer from memory nor when a writer
//! may commit.

mod link;
mod message;

pub use link::{Link, LinkEvents, LinkId, LinkQueue, QUEUE_BYTES_MAX, QUEUE_MESSAGES_MAX};
pub use message::{
    MESSAGE_BYTES_MAX, MESSAGE_KEY_BYTES_MAX, MESSAGE_KEYS_MAX, Message, MessageError,
};
