//! The end of a connection whose client may still be sending.
//!
//! If a socket is closed while bytes of the client are unread, the kernel sends a reset, and the
//! client can lose a response that it has not read yet. So a connection with an unread body is
//! closed in steps, as RFC 9112 section 9.6 says: the response is sent, the sending side is closed,
//! and bytes that still arrive are read and discarded until a limit. For example, a client whose
//! upload is refused after 2 of 20 MiB can send the rest and then read the refusal.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::io;
use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// The limit of bytes that are discarded at the end of one connection.
const LINGER_BYTES_MAX: usize = 256 << 20;

/// The limit of time that a connection lingers, that is, reads and discards bytes after its last
/// response.
const LINGER_WAIT: Duration = Duration::from_secs(10);

/// The limit of time that a connection lingers without receiving [`LINGER_PROGRESS_BYTES`].
const LINGER_IDLE_WAIT: Duration = Duration::from_secs(2);

/// The bytes that a connection must receive in each [`LINGER_IDLE_WAIT`]. A client that still sends
/// a body sends more.
const LINGER_PROGRESS_BYTES: usize = 16 << 10;

/// The limit of lingering connections. A further connection that would linger is closed at once,
/// and its client may lose the response.
const LINGERING_CONNECTIONS_MAX: usize = 1024;

/// The limit of lingering connections of one host. A further one ends the oldest one of the host.
const HOST_LINGERING_MAX: usize = LINGERING_CONNECTIONS_MAX / 4;

/// The size of one discarding read.
const DISCARD_BYTES: usize = 16 << 10;

/// The limits of lingering connections of one listener.
#[derive(Clone, Debug)]
pub struct Lingering(Arc<LingeringState>);

#[derive(Debug)]
struct LingeringState {
    all: Arc<Semaphore>,
    /// The lingering connections of each host, the oldest first. A connection ends when its token
    /// is cancelled.
    hosts: Mutex<HashMap<IpAddr, VecDeque<Arc<CancellationToken>>>>,
}

impl Default for Lingering {
    fn default() -> Lingering {
        let all = Arc::new(Semaphore::new(LINGERING_CONNECTIONS_MAX));
        Lingering(Arc::new(LingeringState { all, hosts: Mutex::default() }))
    }
}

impl Lingering {
    /// Counts a connection that starts to linger. `host` is `None` for a trusted proxy. If the host
    /// has its maximum, ends its oldest one. Returns `None` if the limit of all is reached.
    fn count(&self, host: Option<IpAddr>) -> Option<Counted> {
        let permit = Arc::clone(&self.0.all).try_acquire_owned();
        let ended = Arc::new(CancellationToken::new());
        let oldest = host.and_then(|host| {
            // A connection without a permit is closed at once, so it ends no other one.
            permit.as_ref().ok()?;
            let mut hosts = self.0.hosts();
            let of_host = hosts.entry(host).or_default();
            of_host.push_back(Arc::clone(&ended));
            if of_host.len() > HOST_LINGERING_MAX { of_host.pop_front() } else { None }
        });
        if let Some(oldest) = oldest {
            oldest.cancel();
        }
        let lingering = self.clone();
        permit.ok().map(|permit| Counted { lingering, host, ended, _permit: permit })
    }
}

impl LingeringState {
    fn hosts(&self) -> MutexGuard<'_, HashMap<IpAddr, VecDeque<Arc<CancellationToken>>>> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A lingering connection, as it is counted until this is dropped.
#[derive(Debug)]
struct Counted {
    lingering: Lingering,
    host: Option<IpAddr>,
    /// Cancelled if the connection is to end for a newer one of its host.
    ended: Arc<CancellationToken>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Counted {
    fn drop(&mut self) {
        let Some(host) = self.host else { return };
        let mut hosts = self.lingering.0.hosts();
        if let Entry::Occupied(mut of_host) = hosts.entry(host) {
            of_host.get_mut().retain(|one| !Arc::ptr_eq(one, &self.ended));
            if of_host.get().is_empty() {
                of_host.remove();
            }
        }
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
    /// The host of the client; `None` for a trusted proxy.
    host: Option<IpAddr>,
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
    /// The bytes that have arrived since the timer was set.
    arrived: usize,
    /// Fires at `end`, or when too few bytes have arrived for [`LINGER_IDLE_WAIT`].
    timer: Pin<Box<Sleep>>,
    /// Ready when a newer connection of the host ends this one.
    replaced: Pin<Box<WaitForCancellationFutureOwned>>,
    _counted: Counted,
}

impl<T> Linger<T> {
    /// Returns a connection of a `host`, which is `None` for a trusted proxy.
    pub(crate) fn new(
        inner: T,
        unread: UnreadBody,
        lingering: Lingering,
        host: Option<IpAddr>,
    ) -> Linger<T> {
        Linger { inner, unread, lingering, host, state: LingerState::Open }
    }

    /// Returns the state after the sending side was closed: `Discarding` if the body of the last
    /// request is unread and the limit of lingering connections permits it, otherwise `Closed`.
    fn begin(&self) -> LingerState {
        if !self.unread.0.load(Ordering::Relaxed) {
            return LingerState::Closed;
        }
        // At the limit the response may get lost, but sockets do not accumulate.
        let Some(counted) = self.lingering.count(self.host) else { return LingerState::Closed };
        let now = Instant::now();
        LingerState::Discarding(Discarding {
            remaining: LINGER_BYTES_MAX,
            end: now + LINGER_WAIT,
            arrived: 0,
            timer: Box::pin(sleep_until(now + LINGER_IDLE_WAIT)),
            replaced: Box::pin(CancellationToken::clone(&counted.ended).cancelled_owned()),
            _counted: counted,
        })
    }
}

impl Discarding {
    /// Reads and discards. Ready when the client has closed the connection, or a limit is reached.
    fn poll<T: AsyncRead + Unpin>(&mut self, inner: &mut T, cx: &mut Context<'_>) -> Poll<()> {
        if self.replaced.as_mut().poll(cx).is_ready() || self.timer.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
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
            self.arrived += arrived;
            if self.arrived >= LINGER_PROGRESS_BYTES {
                self.arrived = 0;
                let idle = Instant::now() + LINGER_IDLE_WAIT;
                self.timer.as_mut().reset(idle.min(self.end));
            }
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

#[cfg(test)]
mod tests;
