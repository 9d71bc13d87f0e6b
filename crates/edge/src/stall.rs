//! A connection that fails if its client stops reading.
//!
//! For example, a client that reads nothing of a download for 300 seconds loses its HTTP/1
//! connection.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// The time after which a response ends if its client reads nothing.
#[derive(Clone, Copy, Debug)]
pub struct ResponseTimeouts {
    /// The timeout of a response that is read while it is sent, so that it uses little memory.
    pub download: Duration,
    /// The timeout of a response that is in memory until the client has read it.
    pub in_memory: Duration,
}

impl ResponseTimeouts {
    /// Returns the timeout of a response. `in_memory` is true if it is in memory until the client
    /// has read it.
    pub(super) fn timeout(&self, in_memory: bool) -> Duration {
        if in_memory { self.in_memory } else { self.download }
    }
}

/// A flag of an HTTP/1 connection: the current response is in memory.
#[derive(Clone, Debug, Default)]
pub struct ResponseKind(Arc<AtomicBool>);

impl ResponseKind {
    /// Sets the flag for the response that is sent next.
    pub(super) fn set(&self, in_memory: bool) {
        self.0.store(in_memory, Ordering::Relaxed);
    }
}

/// A connection whose writes fail with `TimedOut` if they make no progress until the timeout. Reads
/// have no timeout here: their limit depends on the request, which this layer does not know.
#[derive(Debug)]
pub struct Stall<T> {
    inner: T,
    timeouts: ResponseTimeouts,
    kind: ResponseKind,
    /// Runs while a write makes no progress.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<T> Stall<T> {
    /// Returns a connection that writes to `inner`. `kind` is the flag of its current response,
    /// which decides about the timeout.
    pub fn new(inner: T, timeouts: ResponseTimeouts, kind: ResponseKind) -> Stall<T> {
        Stall { inner, timeouts, kind, waiting: None }
    }

    /// Takes the result of a polled write and starts the timer if the write waits, or stops it if
    /// the write made progress. Fails the write with `TimedOut` if the timer has ended.
    fn watch<R>(
        &mut self,
        cx: &mut Context<'_>,
        polled: Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        if polled.is_ready() {
            self.waiting = None;
            return polled;
        }
        let timeout = self.timeouts.timeout(self.kind.0.load(Ordering::Relaxed));
        // The timer starts with the first write that makes no progress.
        let waiting =
            self.waiting.get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + timeout)));
        match waiting.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Stall<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Stall<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.watch(cx, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write_vectored(cx, bytes);
        self.watch(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.inner).poll_flush(cx);
        self.watch(cx, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.watch(cx, polled)
    }
}
