//! One link on a connection: the messages of its queue become frames, and the frames of the peer
//! become events.
//!
//! Two tasks serve a link. The reader decodes frames and calls the [`LinkEvents`]; the writer
//! gathers all queued messages of a moment into one write. For example, the acknowledgements of a
//! burst of notices leave in one system call. If either direction ends, both end.
//!
//! A stopped peer does not block this process: if a write makes no progress for
//! [`WRITE_STALL_MAX`], or if the queue is full, the link ends.

use std::collections::VecDeque;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use runtime::Tasks;
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
    tasks: &Tasks,
) {
    if link.ended().is_cancelled() {
        return;
    }
    let opened = Opened::new(&link, &*events);
    let writer = write_frames(link.clone(), queue, connection.writer, keys.sealer);
    let writer = tasks.spawn("writer of a peer link", writer);
    let reason = read_frames(&link, connection.reader, keys.opener, &*events).await;
    debug!(?link, %reason, "a peer link ends");
    link.end();
    // The writer ends at once, because the link has ended. A panic in it is logged by its task.
    let _ended = writer.await;
    drop(opened);
}

async fn read_frames(
    link: &Link,
    mut reader: Box<dyn AsyncRead + Send + Unpin>,
    mut opener: FrameOpener,
    events: &dyn LinkEvents,
) -> EndReason {
    let mut received = BytesMut::new();
    // Pinned once, because registering at the token takes a lock.
    let mut ended = pin!(link.ended().cancelled());
    loop {
        match deliver(&mut received, &mut opener, link, events) {
            Ok(()) => {}
            Err(error) => return error.into(),
        }
        if received.is_empty() && received.capacity() > GATHERED_BYTES {
            // A rare large frame does not keep its memory.
            received = BytesMut::new();
        }
        received.reserve(READ_BYTES);
        tokio::select! {
            biased;
            () = &mut ended => return EndReason::Closed,
            read = reader.read_buf(&mut received) => match read {
                Ok(0) => return EndReason::ClosedByPeer,
                Ok(_) => {}
                Err(error) => return error.into(),
            },
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

async fn write_frames(
    link: Link,
    queue: LinkQueue,
    mut writer: Box<dyn AsyncWrite + Send + Unpin>,
    sealer: FrameSealer,
) {
    let drained = async {
        link.closing().cancelled().await;
        sleep(CLOSE_DRAIN_MAX).await;
    };
    let wrote = tokio::select! {
        biased;
        () = link.ended().cancelled() => Ok(()),
        () = drained => Ok(()),
        wrote = write_queue(queue, &mut writer, sealer) => wrote,
    };
    if let Err(error) = wrote {
        debug!(?link, %error, "cannot write to a peer");
    }
    link.end();
}

/// Writes the messages of the queue until the link is closed and they are written. Shuts the
/// connection down then, so that the peer reads the last message before the end.
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
    timeout(WRITE_STALL_MAX, writer.shutdown()).await?
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
