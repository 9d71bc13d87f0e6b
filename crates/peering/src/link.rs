//! One connection to a peer session, as its user sees it: messages go into a queue, and events
//! come out.
//!
//! Invariant: the messages of a link are received in the order in which they were sent, each once,
//! up to an end of the link. A link never comes back: a later connection to the same peer is
//! another link. For example, a reader that receives `Done` of batch 7 on a link has received the
//! notice of batch 7 on it before.
//!
//! A link does not know whether the peer received a message. Only an answer of the peer proves it.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use record::Nonce;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::Message;
use crate::message::{MESSAGE_BYTES_MAX, MESSAGE_KEY_BYTES_MAX};

/// The most messages that wait in the queue of one link.
pub const QUEUE_MESSAGES_MAX: usize = 16_384;

/// The most memory of the messages that wait in the queue of one link, in bytes. One message of
/// the largest size always fits into an empty queue.
pub const QUEUE_BYTES_MAX: usize = 16 << 20;

const _: () = assert!(QUEUE_BYTES_MAX > 2 * MESSAGE_BYTES_MAX + MESSAGE_KEY_BYTES_MAX);

/// The identity of one link. No other link of this process has the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(u64);

impl LinkId {
    fn next() -> LinkId {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        LinkId(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// The stages of a link: `Open → Closing → Ended`, or `Open → Ended`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Messages are accepted.
    Open,
    /// No message is accepted. The queued ones are still sent.
    Closing,
    /// Nothing is sent any more.
    Ended,
}

#[derive(Debug)]
struct Queue {
    messages: VecDeque<Message>,
    /// The memory of the messages.
    bytes: usize,
    stage: Stage,
}

impl Queue {
    fn pop(&mut self) -> Option<Message> {
        let message = self.messages.pop_front()?;
        self.bytes -= message.cost();
        Some(message)
    }
}

#[derive(Debug)]
struct Shared {
    id: LinkId,
    peer: Nonce,
    is_local: bool,
    peer_left: AtomicBool,
    queue: Mutex<Queue>,
    /// Wakes the task that empties the queue.
    changed: Notify,
    /// Cancelled at the stage `Closing`, and at the stage `Ended` at the latest.
    closing: CancellationToken,
    /// Cancelled at the stage `Ended`.
    ended: CancellationToken,
}

/// A connection to a peer session, or one that has ended. Clones are the same link.
#[derive(Clone)]
pub struct Link {
    shared: Arc<Shared>,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shared { id, peer, is_local, .. } = &*self.shared;
        write!(f, "Link({}, peer {peer:?}, local {is_local})", id.0)
    }
}

impl Link {
    /// Returns a link to `peer` and the queue of the messages that are sent on it. The transport
    /// of this crate makes its links so, and a simulation can take the messages instead of it.
    pub fn channel(peer: Nonce, is_local: bool) -> (Link, LinkQueue) {
        let shared = Arc::new(Shared {
            id: LinkId::next(),
            peer,
            is_local,
            peer_left: AtomicBool::new(false),
            queue: Mutex::new(Queue { messages: VecDeque::new(), bytes: 0, stage: Stage::Open }),
            changed: Notify::new(),
            closing: CancellationToken::new(),
            ended: CancellationToken::new(),
        });
        (Link { shared: Arc::clone(&shared) }, LinkQueue { shared })
    }

    /// Returns the identity of this link.
    pub fn id(&self) -> LinkId {
        self.shared.id
    }

    /// Returns the name of the peer session.
    pub fn peer(&self) -> Nonce {
        self.shared.peer
    }

    /// Returns true if the link is a Unix socket, that is, if the peer is on the same machine.
    pub fn is_local(&self) -> bool {
        self.shared.is_local
    }

    /// Returns true if the link is a Unix socket that the peer's side has closed: then either its
    /// process has ended, or [`LinkEvents::closed`] for this link has returned there. So a peer
    /// that gives up its leases in `closed` has none that it got over this link. This says nothing
    /// about an earlier link, because the peer may have closed a connection that never became a
    /// link there.
    ///
    /// Returns false before `closed`, if this side ended the link (for example with a full queue,
    /// or because a later connection replaces it), and for TCP, because the network may end a
    /// connection while the peer still relies on it.
    pub fn peer_has_left(&self) -> bool {
        self.shared.peer_left.load(Ordering::Acquire)
    }

    /// Notes that the peer's side of a Unix socket no longer exists.
    pub(crate) fn note_peer_left(&self) {
        self.shared.peer_left.store(true, Ordering::Release);
    }

    /// Returns true if the link accepts messages.
    pub fn is_open(&self) -> bool {
        self.shared.lock().stage == Stage::Open
    }

    /// Adds a message to the queue of the link, and returns true. Never blocks.
    ///
    /// Returns false if the link is closed. Also returns false, and ends the link without sending
    /// the rest of its queue, if the queue is full ([`QUEUE_MESSAGES_MAX`], [`QUEUE_BYTES_MAX`]) or
    /// if the message does not fit into a frame ([`Message::fits`]): the peer would miss a message,
    /// and an end of the link is the only sign of that.
    pub fn send(&self, message: Message) -> bool {
        let cost = message.cost();
        let fits = message.fits();
        let mut queue = self.shared.lock();
        if queue.stage != Stage::Open {
            return false;
        }
        let has_room =
            queue.messages.len() < QUEUE_MESSAGES_MAX && queue.bytes + cost <= QUEUE_BYTES_MAX;
        if !fits || !has_room {
            self.shared.end(queue);
            return false;
        }
        queue.bytes += cost;
        queue.messages.push_back(message);
        drop(queue);
        self.shared.changed.notify_one();
        true
    }

    /// Ends the link without sending its queue.
    pub(crate) fn end(&self) {
        self.shared.end(self.shared.lock());
    }

    /// Returns a token that is cancelled when the link has ended.
    pub(crate) fn ended(&self) -> &CancellationToken {
        &self.shared.ended
    }

    /// Returns a token that is cancelled when the link is closed or has ended.
    pub(crate) fn closing(&self) -> &CancellationToken {
        &self.shared.closing
    }

    /// Closes the link: no further message is accepted, and those in the queue are sent for at most
    /// a moment. Messages of the peer may be received until [`LinkEvents::closed`].
    pub fn close(&self) {
        let mut queue = self.shared.lock();
        if queue.stage == Stage::Open {
            queue.stage = Stage::Closing;
            drop(queue);
            self.shared.changed.notify_one();
            self.shared.closing.cancel();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        // Each change of a queue is complete before anything can panic.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the link. The guard is passed in, so that a caller's check and the end are one step.
    fn end(&self, mut queue: MutexGuard<'_, Queue>) {
        queue.stage = Stage::Ended;
        let dropped = std::mem::take(&mut queue.messages);
        queue.bytes = 0;
        drop(queue);
        // Dropped without the lock, because there may be many keys.
        drop(dropped);
        self.changed.notify_one();
        self.closing.cancel();
        self.ended.cancel();
    }
}

/// The queue of a link: the messages that were sent on it and that its transport has not taken. If
/// the queue is dropped, the link has ended.
#[derive(Debug)]
pub struct LinkQueue {
    shared: Arc<Shared>,
}

impl LinkQueue {
    /// Ends the link as if the peer's side of a Unix socket had closed, for simulations: then
    /// [`Link::peer_has_left`] is true. Without this call, dropping the queue ends the link as an
    /// end of unknown cause.
    pub fn end_by_peer(self) {
        self.shared.peer_left.store(true, Ordering::Release);
    }

    /// Waits for the next message. Returns `None` if the link is closed and has no more messages,
    /// or has ended. Dropping the future loses no message.
    pub async fn next(&mut self) -> Option<Message> {
        loop {
            {
                let mut queue = self.shared.lock();
                if let Some(message) = queue.pop() {
                    return Some(message);
                }
                if queue.stage != Stage::Open {
                    return None;
                }
            }
            // A message that arrived since then has left a permit, so the wait ends at once.
            self.shared.changed.notified().await;
        }
    }

    /// Waits for messages and moves all that wait into `taken`, which is empty. Returns false if
    /// the link is closed and has no more messages, or has ended. Dropping the future loses no
    /// message.
    pub(crate) async fn next_all(&mut self, taken: &mut VecDeque<Message>) -> bool {
        loop {
            {
                let mut queue = self.shared.lock();
                if !queue.messages.is_empty() {
                    std::mem::swap(&mut queue.messages, taken);
                    queue.bytes = 0;
                    return true;
                }
                if queue.stage != Stage::Open {
                    return false;
                }
            }
            self.shared.changed.notified().await;
        }
    }

    /// Returns the next message, or `None` if none waits.
    pub fn try_next(&mut self) -> Option<Message> {
        self.shared.lock().pop()
    }
}

impl Drop for LinkQueue {
    fn drop(&mut self) {
        self.shared.end(self.shared.lock());
    }
}

/// The user of links. All calls for one link come in this order, one after the other: `opened`
/// once, `received` for each message, `closed` once. A link of the same peer that is opened later
/// begins after `closed` of the one before.
///
/// The calls come from the task that serves the socket, so they do not block. They may send on the
/// link and close it.
pub trait LinkEvents: fmt::Debug + Send + Sync {
    /// The link exists, and its peer has proved that it knows the key of the volume.
    fn opened(&self, link: &Link);

    /// The peer sent a message.
    fn received(&self, link: &Link, message: Message);

    /// The link has ended. No message will be received on it. [`Link::peer_has_left`] is known.
    ///
    /// The peer does not see the end of a Unix socket before this call has returned, unless this
    /// process ends. So state that depends on the link, such as a lease, ends in this call.
    fn closed(&self, link: &Link);
}

#[cfg(test)]
mod tests;
