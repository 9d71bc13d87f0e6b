//! One link on a connection: the messages of its queue become frames, and the frames of the peer
//! become events.
//!
//! One task serves a link. It decodes the frames that arrived and calls the [`LinkEvents`], and it
//! gathers all queued messages of a moment into one write. For example, the acknowledgements of a
//! burst of notices leave in one system call. If either direction ends, both end.
//!
//! Invariant: the connection is open until [`LinkEvents::closed`] has returned.
//!
//! A stopped peer does not block this process: if a write makes no progress for
//! [`WRITE_STALL_MAX`], or if the queue is full, the link ends.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::{sleep, timeout};
use tracing::debug;

use crate::frame::{FrameError, FrameOpener, FrameSealer};
use crate::handshake::FrameKeys;
use crate::{Link, LinkEvents, LinkQueue};

/// The longest time for which a write may make no progress.
pub const WRITE_STALL_MAX: Duration = Duration::from_secs(1);

/// The longest time for which a closed link sends its queue.
pub const CLOSE_DRAIN_MAX: Duration = Duration::from_millis(500);

/// The number of bytes of frames after which the writer writes, although more messages wait.
const GATHERED_BYTES: usize = 256 << 10;

/// The space for one read, in bytes.
const READ_BYTES: usize = 16 << 10;

/// A connection whose handshake has succeeded, or that begins one.
pub(crate) struct Connection {
    pub(crate) reader: Box<dyn AsyncRead + Send + Unpin>,
    pub(crate) writer: Box<dyn AsyncWrite + Send + Unpin>,
    /// True for a Unix socket.
    pub(crate) is_local: bool,
}

/// The reason why a link ended.
#[derive(Debug, thiserror::Error)]
enum EndReason {
    #[error("the peer closed the connection")]
    ClosedByPeer,
    #[error("this process closed the link")]
    Closed,
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Frame(#[from] FrameError),
}

/// Reports the end of a link exactly once, also if the user of the link panics.
struct Opened<'a> {
    link: &'a Link,
    events: &'a dyn LinkEvents,
}

impl EndReason {
    /// Returns true if the peer's side of the connection no longer exists.
    fn is_of_peer(&self) -> bool {
        match self {
            EndReason::ClosedByPeer => true,
            EndReason::Closed | EndReason::Frame(_) => false,
            EndReason::Io(error) => {
                matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
            }
        }
    }
}

impl<'a> Opened<'a> {
    fn new(link: &'a Link, events: &'a dyn LinkEvents) -> Opened<'a> {
        events.opened(link);
        Opened { link, events }
    }
}

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        self.link.end();
        self.events.closed(self.link);
    }
}

/// Serves a link until it ends. Reports nothing if it has ended already.
pub(crate) async fn run(
    link: Link,
    queue: LinkQueue,
    connection: Connection,
    keys: FrameKeys,
    events: Arc<dyn LinkEvents>,
) {
    if link.ended().is_cancelled() {
        return;
    }
    // Declared before `opened`, so the connection is dropped after `closed` has returned. The peer
    // relies on that: it sees the end of a Unix socket only when this side uses the link no more.
    let Connection { mut reader, mut writer, is_local } = connection;
    let opened = Opened::new(&link, &*events);
    // Not biased: neither direction keeps the other one from the task's share of time.
    let reason = tokio::select! {
        () = link.ended().cancelled() => EndReason::Closed,
        reason = read_frames(&link, &mut reader, keys.opener, &*events) => reason,
        reason = write_frames(&link, queue, &mut writer, keys.sealer) => reason,
    };
    debug!(?link, %reason, "a peer link ends");
    if is_local && reason.is_of_peer() {
        link.note_peer_left();
    }
    drop(opened);
}

async fn read_frames(
    link: &Link,
    reader: &mut (dyn AsyncRead + Send + Unpin),
    mut opener: FrameOpener,
    events: &dyn LinkEvents,
) -> EndReason {
    let mut received = BytesMut::new();
    loop {
        if let Err(error) = deliver(&mut received, &mut opener, link, events) {
            return error.into();
        }
        if received.is_empty() && received.capacity() > GATHERED_BYTES {
            // A rare large frame does not keep its memory.
            received = BytesMut::new();
        }
        received.reserve(READ_BYTES);
        match reader.read_buf(&mut received).await {
            Ok(0) => return EndReason::ClosedByPeer,
            Ok(_) => {}
            Err(error) => return error.into(),
        }
    }
}

/// Reports the messages of all whole frames that were received, unless the link has ended.
fn deliver(
    received: &mut BytesMut,
    opener: &mut FrameOpener,
    link: &Link,
    events: &dyn LinkEvents,
) -> Result<(), FrameError> {
    while let Some(length) = FrameOpener::frame_bytes(received)? {
        if received.len() < length || link.ended().is_cancelled() {
            break;
        }
        let message = opener.open(&mut received[..length])?;
        received.advance(length);
        events.received(link, message);
    }
    Ok(())
}

/// Writes the messages of the queue until the link is closed and they are written.
async fn write_frames(
    link: &Link,
    queue: LinkQueue,
    writer: &mut (dyn AsyncWrite + Send + Unpin),
    sealer: FrameSealer,
) -> EndReason {
    let out_of_time = async {
        link.closing().cancelled().await;
        sleep(CLOSE_DRAIN_MAX).await;
    };
    tokio::select! {
        biased;
        wrote = write_queue(queue, writer, sealer) => match wrote {
            Ok(()) => EndReason::Closed,
            Err(error) => error.into(),
        },
        () = out_of_time => EndReason::Closed,
    }
}

async fn write_queue(
    mut queue: LinkQueue,
    writer: &mut (dyn AsyncWrite + Send + Unpin),
    mut sealer: FrameSealer,
) -> io::Result<()> {
    let (mut taken, mut frames) = (VecDeque::new(), Vec::new());
    while queue.next_all(&mut taken).await {
        while let Some(message) = taken.pop_front() {
            sealer.seal(&message, &mut frames);
            if taken.is_empty() || frames.len() >= GATHERED_BYTES {
                write_all(writer, &frames).await?;
                frames.clear();
                // A rare large message does not keep its memory.
                frames.shrink_to(GATHERED_BYTES);
            }
        }
    }
    Ok(())
}

async fn write_all(
    writer: &mut (dyn AsyncWrite + Send + Unpin),
    mut bytes: &[u8],
) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = timeout(WRITE_STALL_MAX, writer.write(bytes)).await??;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        bytes = &bytes[written..];
    }
    Ok(())
}

#[cfg(test)]
mod tests;
