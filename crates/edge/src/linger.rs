//! The end of a connection whose client may still be sending.
//!
//! If a socket is closed while bytes of the client are unread, the kernel sends a reset, and the
//! client can lose a response that it has not read yet. So a connection with an unread body is
//! closed in steps, as RFC 9112 section 9.6 says: the response is sent, the sending side is closed,
//! and bytes that still arrive are read and discarded until a limit. For example, a client whose
//! upload is refused after 2 of 20 MiB can send the rest and then read the refusal.

use std::future::Future;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep_until};

/// The limit of bytes that are discarded at the end of one connection.
const LINGER_BYTES_MAX: usize = 256 << 20;

/// The limit of time that a connection lingers, that is, reads and discards bytes after its last
/// response.
const LINGER_WAIT: Duration = Duration::from_secs(10);

/// The limit of time that a connection lingers without receiving a byte.
const LINGER_IDLE_WAIT: Duration = Duration::from_secs(2);

/// The limit of lingering connections. A further connection that would linger is closed at once,
/// and its client may lose the response.
const LINGERING_CONNECTIONS_MAX: usize = 1024;

/// The size of one discarding read.
const DISCARD_BYTES: usize = 16 << 10;

/// The limit of lingering connections of one listener.
#[derive(Clone, Debug)]
pub struct Lingering(Arc<Semaphore>);

impl Default for Lingering {
    fn default() -> Lingering {
        Lingering(Arc::new(Semaphore::new(LINGERING_CONNECTIONS_MAX)))
    }
}

/// A flag of a connection: the body of its last request is unread.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnreadBody(Arc<AtomicBool>);

impl UnreadBody {
    /// Sets the flag, so that the connection lingers, that is, reads and discards bytes at its end.
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A connection that, at its end, reads and discards the bytes that still arrive if the body of its
/// last request is unread.
#[derive(Debug)]
pub(crate) struct Linger<T> {
    inner: T,
    unread: UnreadBody,
    lingering: Lingering,
    state: LingerState,
}

/// The state of a connection: `Open` to `Discarding` to `Closed`, or from `Open` directly to
/// `Closed`.
#[derive(Debug)]
enum LingerState {
    /// The sending side is open.
    Open,
    /// The sending side is closed; received bytes are discarded.
    Discarding(Discarding),
    /// The connection can be closed.
    Closed,
}

/// The limits of a connection that lingers.
#[derive(Debug)]
struct Discarding {
    /// The bytes that may still be discarded.
    remaining: usize,
    /// The time at which lingering ends.
    end: Instant,
    /// Fires at `end`, or when no byte has arrived for [`LINGER_IDLE_WAIT`].
    timer: Pin<Box<Sleep>>,
    _counted: OwnedSemaphorePermit,
}

impl<T> Linger<T> {
    pub(crate) fn new(inner: T, unread: UnreadBody, lingering: Lingering) -> Linger<T> {
        Linger { inner, unread, lingering, state: LingerState::Open }
    }

    /// Returns the state after the sending side was closed: `Discarding` if the body of the last
    /// request is unread and the limit of lingering connections permits it, otherwise `Closed`.
    fn begin(&self) -> LingerState {
        if !self.unread.0.load(Ordering::Relaxed) {
            return LingerState::Closed;
        }
        // At the limit the response may get lost, but sockets do not accumulate.
        let Ok(counted) = Arc::clone(&self.lingering.0).try_acquire_owned() else {
            return LingerState::Closed;
        };
        let now = Instant::now();
        LingerState::Discarding(Discarding {
            remaining: LINGER_BYTES_MAX,
            end: now + LINGER_WAIT,
            timer: Box::pin(sleep_until(now + LINGER_IDLE_WAIT)),
            _counted: counted,
        })
    }
}

impl Discarding {
    /// Reads and discards. Ready when the client has closed the connection, or a limit is reached.
    fn poll<T: AsyncRead + Unpin>(&mut self, inner: &mut T, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let mut bytes = [MaybeUninit::uninit(); DISCARD_BYTES];
            let mut buffer = ReadBuf::uninit(&mut bytes);
            match Pin::new(&mut *inner).poll_read(cx, &mut buffer) {
                Poll::Pending => return self.timer.as_mut().poll(cx),
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Ready(Ok(())) => {}
            }
            let arrived = buffer.filled().len();
            // 0 bytes mean that the client has closed its side.
            if arrived == 0 || arrived >= self.remaining || Instant::now() >= self.end {
                return Poll::Ready(());
            }
            self.remaining -= arrived;
            let idle = Instant::now() + LINGER_IDLE_WAIT;
            self.timer.as_mut().reset(idle.min(self.end));
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Linger<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Linger<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            match &mut this.state {
                LingerState::Open => {
                    ready!(Pin::new(&mut this.inner).poll_shutdown(cx))?;
                    this.state = this.begin();
                }
                LingerState::Discarding(discarding) => {
                    ready!(discarding.poll(&mut this.inner, cx));
                    this.state = LingerState::Closed;
                }
                LingerState::Closed => return Poll::Ready(Ok(())),
            }
        }
    }
}
